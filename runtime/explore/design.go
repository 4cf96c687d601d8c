package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"situ/arch"
	"situ/runtime"
)

// resolve checks names, orders derived parameters, and finds what each point sets.
func (r *reader) resolve() {
	s := r.s
	setBy := map[string]string{}
	set := func(path, by string) {
		if other, ok := setBy[path]; ok {
			r.fail(r.nodes[by], "%s is set both by %s and by %s", path, other, by)
		}
		setBy[path] = by
	}
	for _, p := range slices.Concat(s.Params, s.Derived) {
		if s.Base.FigureAt(p.Name) != nil {
			set(p.Name, p.Name)
		}
		for _, v := range p.Settings {
			for path := range v {
				if setBy[path] != p.Name {
					set(path, p.Name)
				}
			}
		}
	}
	s.figures = sortedKeys(setBy)
	known := func(name string) bool {
		path, isBase := strings.CutPrefix(name, "base.")
		return r.nodes[name] != nil || s.Base.FigureAt(name) != nil || isBase && s.Base.FigureAt(path) != nil || name == "quant.weight_bits"
	}
	for _, p := range s.Derived {
		p.expr.names(func(e *expr) {
			if !known(e.name) {
				r.fail(r.nodes[p.Name], "%s: unknown quantity %q (%s)", p.Name, e.name, nearest(e.name, arch.FigurePaths()))
			}
		})
	}
	for _, c := range s.Constraints {
		c.expr.names(func(e *expr) {
			if !known(e.name) && !isMetric(e.name) {
				r.failAt(c.line, c.col, "constraint %q: unknown quantity %q; metrics are %s", c.Text, e.name, strings.Join(metricNames(), ", "))
			}
		})
	}
	r.order()
	for _, m := range s.Models {
		if r.nodes["batch"] != nil && m.Batch == "" {
			r.fail(r.nodes["batch"], "batch: model %s does not say which of its dimensions the batch is; write {model: %s, batch: DIMENSION}", m.Name, m.Name)
		}
	}
	if s.Base.NodeNM.Value <= 0 && r.nodes["node_nm"] == nil {
		for _, o := range s.Objectives {
			if o == Area {
				r.failAt(1, 1, "objective area: %s states no node_nm", s.Base.Name)
			}
		}
	}
}

func metricNames() []string {
	names := sortedKeys(otherMetrics)
	for _, o := range objectives {
		names = append(names, o.metric)
	}
	slices.Sort(names)
	return names
}

// order puts each derived parameter after those it needs.
func (r *reader) order() {
	left, done := r.s.Derived, map[string]bool{}
	derived := map[string]bool{}
	for _, p := range left {
		derived[p.Name] = true
	}
	var out []Param
	for len(left) > 0 {
		var later []Param
		for _, p := range left {
			ready := true
			p.expr.names(func(e *expr) { ready = ready && (!derived[e.name] || done[e.name]) })
			if !ready {
				later = append(later, p)
				continue
			}
			out = append(out, p)
			done[p.Name] = true
		}
		if len(later) == len(left) {
			r.fail(r.nodes[left[0].Name], "%s: is defined by way of itself", left[0].Name)
			return
		}
		left = later
	}
	r.s.Derived = out
}

// contradictions reports constraints that no point can meet.
func (r *reader) contradictions() {
	s := r.s
	env := map[string]span{}
	for _, p := range s.Params {
		v := make([]float64, len(p.Values))
		for i := range v {
			v[i] = p.Values[i].Num
		}
		env[p.Name] = hull(v...)
		for i, set := range p.Settings {
			for path := range set {
				if _, ok := env[path]; !ok || i == 0 {
					env[path] = s.settingSpan(p, path)
				}
			}
		}
	}
	for _, name := range metricNames() {
		env[name] = span{0, math.Inf(1)}
	}
	env["accuracy"], env["streamed"] = span{0, 1}, span{0, 1}
	lookup := func(name string) (span, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		return s.constant(name, env)
	}
	for _, p := range s.Derived {
		v, err := p.expr.eval(lookup)
		if err != nil {
			r.fail(r.nodes[p.Name], "%s: %v", p.Name, err)
			return
		}
		env[p.Name] = v
	}
	for _, c := range s.Constraints {
		for _, e := range conjuncts(c.expr) {
			if v, err := e.eval(lookup); err != nil || v == never {
				if err == nil {
					err = errors.New("no point of the space meets it together with the constraints before it")
				}
				r.failAt(c.line, c.col, "constraint %q: %v", c.Text, err)
				return
			}
			narrow(e, env, lookup)
		}
	}
	r.enumerate()
}

// settingSpan returns the values a choice gives to a figure; where an alternative
// does not set it, the base counts.
func (s *Space) settingSpan(p Param, path string) span {
	var v []float64
	for _, set := range p.Settings {
		if x, ok := set[path]; ok {
			v = append(v, x)
		} else {
			v = append(v, s.Base.FigureAt(path).Value)
		}
	}
	return hull(v...)
}

// conjuncts returns what an expression joins by and.
func conjuncts(e *expr) []*expr {
	if e.op != "and" {
		return []*expr{e}
	}
	return append(conjuncts(e.parts[0]), conjuncts(e.parts[1])...)
}

// narrow takes from a constraint "quantity ≤ bound" what it says about the
// quantity.
func narrow(e *expr, env map[string]span, lookup func(string) (span, bool)) {
	if len(e.parts) != 2 {
		return
	}
	for i, flip := range [2]bool{false, true} {
		name := e.parts[i]
		v, ok := env[name.name]
		if name.op != "name" || !ok {
			continue
		}
		b, err := e.parts[1-i].eval(lookup)
		if err != nil {
			return
		}
		switch op := e.op; {
		case op == "==":
			v = span{max(v.lo, b.lo), min(v.hi, b.hi)}
		case (op == "<" || op == "<=") != flip && strings.ContainsAny(op, "<>"):
			v.hi = min(v.hi, b.hi)
		case (op == ">" || op == ">=") != flip && strings.ContainsAny(op, "<>"):
			v.lo = max(v.lo, b.lo)
		}
		env[name.name] = v
	}
}

// mostEnumerated bounds the points that are looked at for contradictions.
const mostEnumerated = 20000

// enumerate reports when no point of a small space meets what constraints say
// about parameters alone.
func (r *reader) enumerate() {
	s := r.s
	n, ok := s.Size()
	if !ok || n > mostEnumerated || len(s.Constraints) == 0 {
		return
	}
	var last string
	for i := range n {
		d := s.design(s.PointAt(i))
		if d.err == nil {
			return
		}
		last = d.err.Error()
	}
	c := s.Constraints[0]
	r.failAt(c.line, c.col, "none of the %d points is a chip that meets the constraints; the last one: %s", n, last)
}

// design is a point made into a chip.
type design struct {
	point    Point
	values   map[string]float64 // of all parameters and of the figures they set
	chip     *arch.Chip
	weights  string // one of runtime.WeightFormats
	clusters int
	batch    int64
	err      error // why it is no design
}

// constant returns what is known of a name at every point: figures of the base
// that no parameter sets, and figures of the base by their full name.
func (s *Space) constant(name string, env map[string]span) (span, bool) {
	if name == "quant.weight_bits" {
		if v, ok := env["quant.weights"]; ok {
			return v, true
		}
		return exactly(8), true
	}
	if f := s.Base.FigureAt(strings.TrimPrefix(name, "base.")); f != nil {
		return exactly(f.Value), true
	}
	return span{}, false
}

// design returns the design of a point. Its err is set when the point is no
// valid chip, or breaks a constraint on parameters alone.
func (s *Space) design(p Point) *design {
	d := &design{point: p, values: make(map[string]float64, 2*len(p)), weights: "int8", batch: 1}
	for i, v := range p {
		q := &s.Params[i]
		d.values[q.Name] = q.Values[v].Num
		if q.Settings != nil {
			for path, x := range q.Settings[v] {
				d.values[path] = x
			}
		}
	}
	for i := range s.Derived {
		v, err := s.Derived[i].expr.eval(s.lookup(d, nil))
		if err == nil && (math.IsNaN(v.lo) || math.IsInf(v.lo, 0)) {
			err = fmt.Errorf("is %g", v.lo)
		}
		if err != nil {
			d.err = fmt.Errorf("%s: %w", s.Derived[i].Name, err)
			return d
		}
		d.values[s.Derived[i].Name] = v.lo
	}
	if i, ok := d.values["quant.weights"]; ok {
		d.weights = runtime.WeightFormats()[slices.IndexFunc(runtime.WeightFormats(), func(f string) bool { return runtime.WeightBits(f) == i })]
	}
	d.clusters = int(d.values["compiler.clusters"])
	if b, ok := d.values["batch"]; ok {
		d.batch = int64(b)
	}
	if d.err = s.build(d); d.err != nil {
		return d
	}
	for i := range s.Constraints {
		v, err := s.Constraints[i].expr.eval(s.lookup(d, nil))
		if errors.Is(err, errUnknown) {
			continue // names a metric
		}
		if err == nil && v == never {
			err = errors.New("is not met")
		}
		if err != nil {
			d.err = &brokenError{fmt.Sprintf("constraint %q %v", s.Constraints[i].Text, err)}
			return d
		}
	}
	return d
}

// brokenError says that a design breaks a constraint.
type brokenError struct{ msg string }

func (e *brokenError) Error() string { return e.msg }

// lookup gives the values of a design, and of what metrics tells.
func (s *Space) lookup(d *design, metrics func(string) (span, bool)) func(string) (span, bool) {
	return func(name string) (span, bool) {
		if v, ok := d.values[name]; ok {
			return exactly(v), true
		}
		if name == "quant.weight_bits" {
			return exactly(runtime.WeightBits(d.weights)), true
		}
		if metrics != nil {
			if v, ok := metrics(name); ok {
				return v, true
			}
		}
		return s.constant(name, nil)
	}
}

// build makes the chip of a design. The number of columns for 4-bit weights
// keeps its ratio to that for 8-bit weights unless it is stated, as in the
// description of an architecture.
func (s *Space) build(d *design) error {
	c := s.Base.Variant(s.Base.Name + "@" + d.point.String())
	from := "space " + s.Name
	for _, path := range s.figures {
		v, ok := d.values[path]
		if !ok {
			continue // of another alternative of a choice
		}
		*c.FigureAt(path) = arch.Figure{Value: v, Source: from, Confidence: "A"}
	}
	if _, ok := d.values["array.cols_int4"]; !ok {
		c.FollowCols(s.Base)
	}
	d.chip = c
	if err := c.Validate(); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n") // one line is enough of a reason
		return errors.New("no valid chip: " + first)
	}
	if n := c.NumClusters(); d.clusters > n {
		return fmt.Errorf("no valid chip: compiler.clusters is %d, the chip has %d", d.clusters, n)
	}
	return nil
}

// chipHash identifies a chip by all of its figures.
func chipHash(c *arch.Chip) string {
	h := sha256.New()
	for _, path := range figurePaths {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(c.FigureAt(path).Value))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

var figurePaths = arch.FigurePaths()

// describe lists the values of the free parameters of a point.
func (s *Space) describe(p Point) []Setting {
	out := make([]Setting, len(p))
	for i, v := range p {
		out[i] = Setting{s.Params[i].Name, s.Params[i].Values[v].String()}
	}
	return out
}

// Setting is the value of one parameter.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
