package page

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"situ/runtime"
	"situ/runtime/explore"
	"situ/runtime/explore/store"
)

// evil is a name that must not reach a page as markup.
const evil = `<script>alert("x")</script>&'`

// scene is a finished run of n designs, the first of which is on the front, with
// names that a page must quote.
func scene(t *testing.T, n int) (*store.Store, *store.Run, *explore.Report) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	run := &store.Run{Name: evil, Space: []byte("name: " + evil), Seed: 1, Version: "v", Started: time.Unix(1e9, 0),
		Inputs: encode(explore.Inputs{Space: "s", Base: evil, Arch: "a", Models: map[string]string{evil: "h"}})}
	if err := st.Begin(run); err != nil {
		t.Fatal(err)
	}
	tau, dropped := 0.5, map[string]int{}
	if n > 3 {
		dropped = map[string]int{"small": 1, "large": n - 2}
	}
	r := &explore.Report{Run: run.ID, Name: evil, Objectives: []string{"latency", "energy"}, Size: fmt.Sprint(n), Proposed: uint64(n), Search: "exhaustive",
		Stages:       []*explore.StageStats{{Stage: "space", Seen: n, Dropped: dropped}, {Stage: "bound", Dropped: map[string]int{}}},
		Correlations: []explore.Correlation{{From: "bound", To: "estimate", Objective: "latency", Designs: n, Kendall: &tau, RatioMin: 1, RatioMax: 2}},
		Confirmed:    []explore.Confirmed{{Point: "0", Models: []string{evil}, Top1: []float64{0.5}, SameBits: false}}}
	var points []store.Point
	for i := range n {
		values := map[string]float64{"latency": float64(1+i) * 1e-6, "energy": float64(1+i%7) * 1e-6}
		settings := []explore.Setting{{Name: "array.rows", Value: fmt.Sprint(32 << (i % 3))}, {Name: "kind", Value: evil}}
		models := []explore.ModelCost{{LatencyS: values["latency"], EnergyJ: values["energy"], Levels: runtime.Energy{Total: values["energy"]}}}
		p := store.Point{Point: fmt.Sprint(i), Stage: "emulate", Fate: explore.Dominated, Reason: evil, Settings: encode(settings), Result: encode(explore.PointResult{Values: values, Models: models})}
		if i == 0 {
			p.Fate = explore.Front
			r.Front = []explore.Design{{Point: "0", Settings: settings, Values: values, Models: models}}
		}
		points = append(points, p)
	}
	if err := st.Put(run.ID, nil, points); err != nil {
		t.Fatal(err)
	}
	return st, run, r
}

var svgs = regexp.MustCompile(`(?s)<svg.*?</svg>`)

// A page has a plot of each kind, each of them well formed; it loads nothing, and
// no name in it is taken for markup.
func TestHTML(t *testing.T) {
	for _, n := range []int{1, 40, mostDrawn + 500} {
		st, run, r := scene(t, n)
		var out bytes.Buffer
		if err := HTML(&out, st, run, r); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.Contains(text, "<script>alert") {
			t.Errorf("%d designs: a name is in the page as markup", n)
		}
		if loads := regexp.MustCompile(`(src|href)="?https?:`).FindString(text); loads != "" {
			t.Errorf("%d designs: the page loads %s", n, loads)
		}
		plots := svgs.FindAllString(text, -1)
		if len(plots) < 5 {
			t.Errorf("%d designs: %d plots", n, len(plots))
		}
		for _, p := range plots {
			d := xml.NewDecoder(strings.NewReader(p))
			for {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%d designs: %v in\n%.300s", n, err, p)
				}
			}
			if strings.Contains(p, "NaN") || strings.Contains(p, "Inf") {
				t.Errorf("%d designs: a plot has no numbers:\n%.300s", n, p)
			}
		}
		rows, all, known, err := sample(st, run.ID)
		if err != nil || known != n || len(all) != n || len(rows) != min(n, mostDrawn+1) || rows[len(rows)-1].Fate != explore.Front {
			t.Errorf("%d designs: %d drawn of %d known, %v", n, len(rows), known, err)
		}
	}
}

// A parameter that an objective does not depend on moves it by nothing, whichever
// designs were valued; one that no two designs differ in alone has no effect.
func TestEffects(t *testing.T) {
	var rows []*explore.Row
	add := func(clock, cols, lanes string, area float64) {
		rows = append(rows, &explore.Row{
			Settings:    []explore.Setting{{Name: "clock", Value: clock}, {Name: "cols", Value: cols}, {Name: "lanes", Value: lanes}},
			PointResult: explore.PointResult{Values: map[string]float64{"area": area}},
		})
	}
	// Large chips survived at the low clock alone.
	add("100", "8", "1", 1)
	add("200", "8", "1", 1)
	add("100", "16", "1", 3)
	add("100", "32", "1", 4)
	add("100", "64", "2", 10)
	want := []effect{
		{"cols", 4, 3, "\n8 → 32: × 4 (pairs: 1)\n8 → 16: × 3 (pairs: 1)\n16 → 32: × 1.33 (pairs: 1)"},
		{"clock", 1, 1, "\n100 → 200: × 1 (pairs: 1)"},
		{"lanes", 1, 0, ""},
	}
	got := effects(rows, "area")
	for i := range got {
		got[i].factor = math.Round(1e9*got[i].factor) / 1e9
	}
	if !slices.Equal(got, want) {
		t.Errorf("effects\n%+v, want\n%+v", got, want)
	}
}

// A run without a front has a page too.
func TestNoFront(t *testing.T) {
	st, run, r := scene(t, 0)
	var out bytes.Buffer
	if err := HTML(&out, st, run, r); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	r.Stages[0].First = "why it is none"
	if err := Text(&out, r); err != nil || !strings.Contains(out.String(), "no design is left\nfirst dropped at stage space: why it is none\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// The text names what was dropped, the most frequent reason first, and says when
// bits differ.
func TestText(t *testing.T) {
	_, run, r := scene(t, 40)
	r.Stopped = "the budget"
	var out bytes.Buffer
	if err := Inputs(&out, run); err != nil {
		t.Fatal(err)
	}
	if err := Text(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed 1, space s", "40 of 40 points", "38 large, 1 small", "Kendall 0.500  Spearman –", "front: 1 designs", "1.00 µs", "NOT the same bits", "stopped early: the budget"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

func TestDifference(t *testing.T) {
	a, b := &store.Run{ID: 1}, &store.Run{ID: 2}
	var out bytes.Buffer
	d := &explore.Difference{Inputs: []explore.Change{{What: "seed", A: "1", B: "2"}}, Space: []string{"- seed: 1", "+ seed: 2"}, OnlyB: []string{"x=1"}, Compared: 3, SameValues: 2}
	for i := range mostShown + 4 {
		d.Changed = append(d.Changed, explore.Change{What: fmt.Sprint("value ", i), A: "1", B: "2"})
	}
	if err := Difference(&out, a, b, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed   1      2", "- seed: 1", "3 designs were emulated in both, 2 with the same values", "and 4 more", "0 designs are on the front of run 1 alone", "1 designs are on the front of run 2 alone\n  x=1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := Difference(&out, a, b, &explore.Difference{}); err != nil || !strings.Contains(out.String(), "follow from the same inputs") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// An axis has some ticks, but not so many that their names meet, whatever it spans.
func TestTicks(t *testing.T) {
	for _, ends := range [][2]float64{{2026, 7936}, {1, 3.1}, {1.51, 4.9}, {1, 7}, {1, 20}, {1e-6, 2e-4}, {1e-6, 2e-3}, {1e-9, 1}, {5, 6}, {0, 1}, {3, 3}, {-4, 9}} {
		a := newAxis("", ends[:], 0, 500)
		ticks := a.ticks()
		if len(ticks) < 2 || len(ticks) > 11 {
			t.Errorf("from %g to %g there are ticks at %v", ends[0], ends[1], ticks)
		}
		for _, v := range ticks {
			if v < a.lo || v > a.hi {
				t.Errorf("from %g to %g there is a tick at %g", ends[0], ends[1], v)
			}
		}
	}
}

// In a browser, pointing near a design shows it and lifts it in every plot; a click
// keeps it, and Escape lets it go.
func TestBrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium")
	}
	st, run, r := scene(t, 40)
	var out bytes.Buffer
	if err := HTML(&out, st, run, r); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	// The script acts as the one who looks, and leaves what was seen in the page.
	const script = `<script>
const said = [], tell = what => said.push(what + ":" + (tip.hidden ? "nothing" : tip.textContent.split(/[,\n]/)[0]) + ":" + document.querySelectorAll(".hot").length);
const act = (type, el, dx) => { const b = el.getBoundingClientRect(); el.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: b.x + b.width / 2 + dx, clientY: b.y + b.height / 2})); };
const point = document.querySelector("circle.front"), plot = point.closest("svg"), place = point.getBoundingClientRect();
tell("at first");
act("mousemove", point, 0); tell("on a point");
plot.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, clientX: place.x - 4, clientY: place.y + place.height / 2})); tell("beside it");
act("mousemove", document.querySelector("h1"), 0); tell("elsewhere");
act("mousemove", document.querySelector("rect"), 0); tell("on a bar");
act("click", point, 0); act("mousemove", document.querySelector("h1"), 0); tell("kept");
document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"})); tell("let go");
act("mousemove", document.querySelector("tr[data-d]"), 0); tell("in the table");
document.body.innerHTML = "";
document.body.textContent = "SAID " + said.join("; ") + " END";
</script>`
	if err := os.WriteFile(path, append(out.Bytes(), script...), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A sandbox of its own is not to be had as root.
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+path)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`SAID (.*) END`).FindSubmatch(dom)
	// The point, its line and its row in the table are lifted together.
	const want = "at first:nothing:0; on a point:point 0: front:3; beside it:point 0: front:3; elsewhere:nothing:0; " +
		"on a bar:array.rows:0; kept:point 0: front:3; let go:nothing:0; in the table:point 0: front:3"
	if got == nil || string(got[1]) != want {
		t.Errorf("the browser shows\n%s\nwant\n%s\n%.2000s", got, want, dom)
	}
}
