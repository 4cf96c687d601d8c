package page

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"situ/runtime/explore"
	"situ/runtime/explore/store"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"value": value, "reasons": reasons, "num": number, "percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	"meaning": func(s string) string { return stageMeaning[s] },
	"at":      func(m map[string]float64, k string) float64 { return m[k] },
}).Parse(pageText))

// mostDrawn bounds the designs that a page draws; more are thinned out at random.
const mostDrawn = 3000

// data is what the page shows.
type data struct {
	Run       *store.Run
	Started   string
	Report    *explore.Report
	Inputs    explore.Inputs
	Space     string
	Drawn     int // designs with values, drawn
	Known     int // and in all
	Fronts    []template.HTML
	Parallel  template.HTML
	Influence []template.HTML
	Funnel    template.HTML
	Energy    template.HTML
	Designs   []string       // what is told of each design that is drawn
	Place     map[string]int // of a design of the front among them
}

// HTML writes one self-contained page about a finished run.
func HTML(w io.Writer, st *store.Store, run *store.Run, r *explore.Report) error {
	d := data{Run: run, Started: run.Started.Format(time.DateTime), Report: r, Space: strings.TrimSpace(string(run.Space))}
	if err := json.Unmarshal(run.Inputs, &d.Inputs); err != nil {
		return fmt.Errorf("store: run %d: %w", run.ID, err)
	}
	rows, all, known, err := sample(st, run.ID)
	if err != nil {
		return err
	}
	d.Drawn, d.Known, d.Place = len(rows), known, map[string]int{}
	for i, r := range rows {
		d.Designs = append(d.Designs, about(r))
		if r.Fate == explore.Front {
			d.Place[r.Point] = i
		}
	}
	for i, x := range r.Objectives {
		for _, y := range r.Objectives[i+1:] {
			d.Fronts = append(d.Fronts, scatter(rows, x, y))
		}
	}
	if len(r.Objectives) == 1 {
		d.Fronts = append(d.Fronts, scatter(rows, r.Objectives[0], r.Objectives[0]))
	}
	d.Parallel = parallel(rows, r.Objectives)
	for _, o := range r.Objectives {
		d.Influence = append(d.Influence, influence(all, o))
	}
	d.Funnel = funnel(r)
	d.Energy = levels(best(r))
	return page.Execute(w, d)
}

// mostCompared bounds the designs that are compared with each other.
const mostCompared = 200000

// sample returns the designs with values: all of the front, and of the others at
// most as many as can be drawn, evenly at random; and all, but for what is told of
// their models.
func sample(st *store.Store, run int64) (rows, all []*explore.Row, known int, err error) {
	rng := rand.New(rand.NewPCG(1, uint64(run)))
	var front, rest []*explore.Row
	err = explore.Rows(st, run, func(r *explore.Row) error {
		switch {
		case len(r.Values) == 0:
			return nil
		case len(all) < mostCompared:
			all = append(all, &explore.Row{Settings: r.Settings, PointResult: explore.PointResult{Values: r.Values}})
		}
		switch {
		case r.Fate == explore.Front:
			front = append(front, r)
		case len(rest) < mostDrawn:
			rest = append(rest, r)
		default:
			if k := rng.IntN(known + 1); k < mostDrawn {
				rest[k] = r
			}
		}
		known++
		return nil
	})
	slices.SortStableFunc(rest, func(a, b *explore.Row) int { return strings.Compare(b.Fate, a.Fate) })
	return append(rest, front...), all, known, err
}

// best returns the designs whose energy is shown: the best of each objective, and
// one in the middle of the front.
func best(r *explore.Report) []titled {
	var out []titled
	add := func(why string, d *explore.Design) {
		for i := range out {
			if out[i].design.Point == d.Point {
				out[i].why += ", " + why
				return
			}
		}
		out = append(out, titled{why, d})
	}
	if len(r.Front) == 0 {
		return nil
	}
	for _, name := range r.Objectives {
		o, _ := explore.ObjectiveNamed(name)
		k := 0
		for i := range r.Front {
			a, b := r.Front[i].Values[name], r.Front[k].Values[name]
			if o.Larger() && a > b || !o.Larger() && a < b {
				k = i
			}
		}
		add("best "+name, &r.Front[k])
	}
	add("middle of the front", &r.Front[len(r.Front)/2])
	return out
}

type titled struct {
	why    string
	design *explore.Design
}
