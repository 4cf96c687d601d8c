package page

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"situ/internal/svg"
	"situ/runtime"
	"situ/runtime/explore"
	"situ/runtime/report"
)

// axis maps values to places, logarithmically when all are positive and they
// spread over more than a factor of three.
type axis struct {
	lo, hi   float64
	from, to float64
	log      bool
	name     string
}

func newAxis(name string, v []float64, from, to float64) *axis {
	a := &axis{lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to, name: name}
	for _, x := range v {
		a.lo, a.hi = min(a.lo, x), max(a.hi, x)
	}
	if len(v) == 0 {
		a.lo, a.hi = 0, 1
	}
	a.log = a.lo > 0 && a.hi > 3*a.lo
	if a.log {
		a.lo, a.hi = a.lo/1.08, a.hi*1.08
		return a
	}
	pad := 0.05 * (a.hi - a.lo)
	if pad == 0 {
		pad = max(math.Abs(a.hi)*0.1, 1e-12)
	}
	a.lo, a.hi = a.lo-pad, a.hi+pad
	return a
}

func (a *axis) at(v float64) float64 {
	f := (v - a.lo) / (a.hi - a.lo)
	if a.log {
		f = math.Log(v/a.lo) / math.Log(a.hi/a.lo)
	}
	return a.from + f*(a.to-a.from)
}

// ticks returns up to about six round values.
func (a *axis) ticks() []float64 {
	var out []float64
	if a.log {
		steps := []float64{1, 2, 5}
		switch {
		case a.hi/a.lo > 200:
			steps = []float64{1}
		case a.hi/a.lo < 8:
			steps = []float64{1, 1.5, 2, 3, 4, 6, 8}
		}
		for e := math.Floor(math.Log10(a.lo)); e <= math.Log10(a.hi); e++ {
			for _, m := range steps {
				if v := m * math.Pow(10, e); v >= a.lo && v <= a.hi {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((a.hi-a.lo)/2)))
	for (a.hi-a.lo)/step > 6 {
		step *= 2
	}
	for v := math.Ceil(a.lo/step) * step; v <= a.hi; v += step {
		out = append(out, v)
	}
	return out
}

// about describes a design for whoever points at it.
func about(r *explore.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "point %s: %s", r.Point, r.Fate)
	if r.Reason != "" {
		fmt.Fprintf(&b, ", %s", r.Reason)
	}
	for _, s := range r.Settings {
		fmt.Fprintf(&b, "\n%s = %s", s.Name, s.Value)
	}
	keys := make([]string, 0, len(r.Values))
	for k := range r.Values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "\n%s: %s", k, value(k, r.Values[k]))
	}
	if r.Stage == explore.StageEstimate {
		b.WriteString("\n(estimated, not emulated)")
	}
	return b.String()
}

// class says how a design is drawn.
func class(r *explore.Row) string {
	switch {
	case r.Fate == explore.Front:
		return "front"
	case r.Stage == explore.StageEstimate:
		return "est"
	}
	return "dom"
}

// scatter draws designs over two objectives.
func scatter(rows []*explore.Row, x, y string) template.HTML {
	const w, h, left, right, top, bottom = 560, 380, 76, 20, 30, 50
	var xs, ys []float64
	for _, r := range rows {
		xs, ys = append(xs, r.Values[x]), append(ys, r.Values[y])
	}
	ax, ay := newAxis(x, xs, left, w-right), newAxis(y, ys, h-bottom, top)
	s := svg.New(w, h, y+" over "+x)
	for _, t := range ax.ticks() {
		s.Line(ax.at(t), top, ax.at(t), h-bottom, "g")
		s.Text(ax.at(t), h-bottom+16, "middle", "l", value(x, t))
	}
	for _, t := range ay.ticks() {
		s.Line(left, ay.at(t), w-right, ay.at(t), "g")
		s.Text(left-6, ay.at(t)+4, "end", "l", value(y, t))
	}
	s.Text((left+w-right)/2, h-8, "middle", "l", x)
	for i, r := range rows {
		radius := 2.5
		if r.Fate == explore.Front {
			radius = 5
		}
		fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="%g" class="%s" data-d="%d"/>`, ax.at(r.Values[x]), ay.at(r.Values[y]), radius, class(r), i)
	}
	return s.HTML()
}

// mostLines bounds the faint lines of parallel coordinates.
const mostLines = 400

// parallel draws every design as a line over all parameters and objectives.
func parallel(rows []*explore.Row, objectives []string) template.HTML {
	if len(rows) == 0 {
		return ""
	}
	const h, top, bottom = 360, 50, 60
	n := len(rows[0].Settings) + len(objectives)
	w := max(float64(110*n), 640)
	s := svg.New(w, h, "designs over parameters and objectives")
	x := func(k int) float64 { return 60 + float64(k)*(w-120)/float64(max(n-1, 1)) }
	// Parameters take evenly spaced places in the order of their values.
	order := make([][]string, len(rows[0].Settings))
	for k := range order {
		seen := map[string]bool{}
		for _, r := range rows {
			if v := r.Settings[k].Value; !seen[v] {
				seen[v] = true
				order[k] = append(order[k], v)
			}
		}
		slices.SortFunc(order[k], byNumber)
	}
	axes := make([]*axis, len(objectives))
	for k, o := range objectives {
		var v []float64
		for _, r := range rows {
			v = append(v, r.Values[o])
		}
		axes[k] = newAxis(o, v, h-bottom, top)
	}
	place := func(r *explore.Row, k int) float64 {
		if k < len(order) {
			i := slices.Index(order[k], r.Settings[k].Value)
			return h - bottom - (float64(i)+0.5)*(h-bottom-top)/float64(len(order[k]))
		}
		o := objectives[k-len(order)]
		return axes[k-len(order)].at(r.Values[o])
	}
	for i, r := range rows {
		if len(rows)-i > mostLines && r.Fate != explore.Front {
			continue
		}
		fmt.Fprintf(s, `<polyline class="p%s" points="`, class(r))
		for k := range n {
			fmt.Fprintf(s, "%.0f,%.1f ", x(k), place(r, k))
		}
		fmt.Fprintf(s, `" data-d="%d"/>`, i)
	}
	for k := range n {
		s.Line(x(k), top, x(k), h-bottom, "a")
		name := ""
		if k < len(order) {
			name = rows[0].Settings[k].Name
			for i, v := range order[k] {
				if len(order[k]) <= 12 || i == 0 || i == len(order[k])-1 {
					s.Text(x(k)-4, h-bottom-(float64(i)+0.5)*(h-bottom-top)/float64(len(order[k]))+4, "end", "v", v)
				}
			}
		} else {
			name = objectives[k-len(order)]
			a := axes[k-len(order)]
			s.Text(x(k)-4, top+4, "end", "v", value(name, a.hi))
			s.Text(x(k)-4, h-bottom+4, "end", "v", value(name, a.lo))
		}
		fmt.Fprintf(s, `<text x="%.1f" y="%.1f" class="v" text-anchor="middle" transform="rotate(-12 %.1f %.1f)">%s</text>`, x(k), float64(h-bottom+34), x(k), float64(h-bottom+34), html.EscapeString(name))
	}
	return s.HTML()
}

// byNumber orders numbers by value and names by letters.
func byNumber(a, b string) int {
	var x, y float64
	_, errA := fmt.Sscan(a, &x)
	_, errB := fmt.Sscan(b, &y)
	if errA == nil && errB == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// effect is what a parameter does to an objective: between designs that differ in
// nothing else.
type effect struct {
	name   string
	factor float64 // the largest geometric mean of the ratios between two of its values, at least 1
	pairs  int     // of designs
	text   string  // the ratios of pairs of values, the largest first
}

// Bounds on what effects compares and tells.
const (
	mostValues = 100 // of a parameter, among designs that differ in it alone
	mostTold   = 16  // pairs of values
)

// effects compares, for each parameter, all pairs of designs that differ in it alone,
// so that which other designs were valued does not enter. The largest comes first.
func effects(rows []*explore.Row, objective string) []effect {
	if len(rows) == 0 {
		return nil
	}
	var es []effect
	for k, p := range rows[0].Settings {
		groups := map[string][]*explore.Row{} // by what the other parameters are
		for _, r := range rows {
			if r.Values[objective] > 0 {
				var others strings.Builder
				for i, s := range r.Settings {
					if i != k {
						fmt.Fprintf(&others, "%q", s.Value)
					}
				}
				groups[others.String()] = append(groups[others.String()], r)
			}
		}
		type ends struct{ from, to string }
		sum, n := map[ends]float64{}, map[ends]int{}
		e := effect{name: p.Name, factor: 1}
		for _, g := range groups {
			slices.SortStableFunc(g, func(a, b *explore.Row) int { return byNumber(a.Settings[k].Value, b.Settings[k].Value) })
			g = slices.CompactFunc(g, func(a, b *explore.Row) bool { return a.Settings[k].Value == b.Settings[k].Value })
			step := (len(g) + mostValues - 1) / mostValues
			for i := 0; i < len(g); i += step {
				for j := i + step; j < len(g); j += step {
					x := ends{g[i].Settings[k].Value, g[j].Settings[k].Value}
					sum[x] += math.Log(g[j].Values[objective] / g[i].Values[objective])
					n[x]++
					e.pairs++
				}
			}
		}
		mean := func(x ends) float64 { return sum[x] / float64(n[x]) }
		sorted := slices.SortedFunc(maps.Keys(n), func(a, b ends) int {
			return cmp.Or(cmp.Compare(math.Abs(mean(b)), math.Abs(mean(a))), byNumber(a.from, b.from), byNumber(a.to, b.to))
		})
		for i, x := range sorted {
			e.factor = max(e.factor, math.Exp(math.Abs(mean(x))))
			if i < mostTold {
				e.text += fmt.Sprintf("\n%s → %s: × %.3g (pairs: %d)", x.from, x.to, math.Exp(mean(x)), n[x])
			}
		}
		es = append(es, e)
	}
	slices.SortStableFunc(es, func(a, b effect) int { return cmp.Compare(b.factor, a.factor) })
	return es
}

// influence draws the effects of parameters on an objective.
func influence(rows []*explore.Row, objective string) template.HTML {
	es := effects(rows, objective)
	if len(es) == 0 {
		return ""
	}
	h := 40 + 22*float64(len(es))
	s := svg.New(560, h, "what moves "+objective+", all else equal")
	most := 1.0
	for _, e := range es {
		most = max(most, math.Log(e.factor))
	}
	for i, e := range es {
		y := 30 + 22*float64(i)
		s.Text(210, y+13, "end", "l", e.name)
		if e.pairs == 0 {
			s.Text(216, y+13, "start", "v", "no two designs valued differ in it alone")
			continue
		}
		s.Rect(216, y, 280*math.Log(e.factor)/most, 16, "#2e86c1", e.name+e.text)
		s.Text(222+280*math.Log(e.factor)/most, y+13, "start", "l", report.Times(e.factor))
	}
	return s.HTML()
}

// funnel draws how many designs each stage saw, kept and dropped.
func funnel(r *explore.Report) template.HTML {
	s := svg.New(640, 40+30*float64(len(r.Stages)), "designs that each stage saw (grey) and kept (blue); length by square root")
	most := 1.0
	for _, st := range r.Stages {
		most = max(most, float64(st.Seen))
	}
	width := func(n int) float64 { return 420 * math.Sqrt(float64(n)/most) }
	for i, st := range r.Stages {
		y := 30 + 30*float64(i)
		s.Text(100, y+15, "end", "l", st.Stage)
		s.Rect(106, y, width(st.Seen), 20, "#d6dbdf", fmt.Sprintf("%d seen; dropped: %s", st.Seen, reasons(st)))
		s.Rect(106, y, width(st.Kept()), 20, "#2e86c1", fmt.Sprintf("%d kept", st.Kept()))
		s.Text(112+width(st.Seen), y+15, "start", "l", fmt.Sprintf("%d of %d", st.Kept(), st.Seen))
	}
	return s.HTML()
}

// energyLevels are the levels of energy, dark for what is near the arithmetic, warm
// for what is far.
var energyLevels = []struct {
	name, colour string
	of           func(*runtime.Energy) float64
}{
	{"computing", "#1b4f72", func(e *runtime.Energy) float64 { return e.Compute }},
	{"register and array", "#2e86c1", func(e *runtime.Energy) float64 { return e.Register }},
	{"SRAM", "#48c9b0", func(e *runtime.Energy) float64 { return e.SRAM }},
	{"network-on-chip", "#a9dfbf", func(e *runtime.Energy) float64 { return e.NoC }},
	{"DRAM", "#e67e22", func(e *runtime.Energy) float64 { return e.DRAM }},
	{"links", "#f5b041", func(e *runtime.Energy) float64 { return e.Link + e.Network }},
	{"standing still", "#b2babb", func(e *runtime.Energy) float64 { return e.Static }},
}

// levels stacks the energy of one run of each model on some designs.
func levels(designs []titled) template.HTML {
	if len(designs) == 0 {
		return ""
	}
	bars := 0
	most := 0.0
	for _, d := range designs {
		for i := range d.design.Models {
			bars++
			most = max(most, d.design.Models[i].Levels.Total)
		}
	}
	s := svg.New(720, 66+28*float64(bars), "energy of one run by level, of the best designs")
	y := 30.0
	for _, d := range designs {
		for i := range d.design.Models {
			e := &d.design.Models[i].Levels
			name := fmt.Sprintf("%s (%s)", d.why, d.design.Point)
			if len(d.design.Models) > 1 {
				name += fmt.Sprintf(", model %d", i+1)
			}
			s.Text(290, y+14, "end", "l", name)
			x := 296.0
			for _, l := range energyLevels {
				v := l.of(e)
				s.Rect(x, y, 340*v/most, 20, l.colour, fmt.Sprintf("%s: %s", l.name, report.Unit(v, "J")))
				x += 340 * v / most
			}
			s.Text(x+5, y+14, "start", "l", report.Unit(e.Total, "J"))
			y += 28
		}
	}
	x := 20.0
	for _, l := range energyLevels {
		s.Rect(x, y+6, 12, 12, l.colour, l.name)
		s.Text(x+16, y+16, "start", "v", l.name)
		x += 30 + 6.2*float64(len(l.name))
	}
	return s.HTML()
}
