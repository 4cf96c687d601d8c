package explore

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"situ/arch"
	"situ/runtime"
)

// Limits of a space file.
const (
	maxSpaceBytes = 1 << 16
	maxValues     = math.MaxUint16
)

// Parse reads a space; file is the name used in errors and the place that other
// files are relative to.
func Parse(file string, text []byte) (*Space, error) { return parseOn(file, text, nil) }

// parseOn is Parse with the chip that the base names, where it is at hand.
func parseOn(file string, text []byte, base *arch.Chip) (*Space, error) {
	root, err := parseYAML(file, text)
	if err != nil {
		return nil, err
	}
	r := &reader{file: file, given: base, s: &Space{
		File: file, Text: text, Seed: 1,
		Funnel: Funnel{Emulate: defaultEmulate, Finalists: defaultFinalists},
	}}
	r.top(root)
	if len(r.errs) == 0 {
		r.resolve()
	}
	if len(r.errs) == 0 {
		r.contradictions()
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.s, nil
}

func parseYAML(file string, text []byte) (root ast.Node, err error) {
	if len(text) > maxSpaceBytes {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", file, len(text), maxSpaceBytes)
	}
	if strings.Count(string(text), "[")+strings.Count(string(text), "{") > 4096 {
		return nil, fmt.Errorf("%s: more brackets than a space needs", file)
	}
	// The YAML package is not ours; a panic of it on a malformed file is that
	// file's error.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("%s: not readable as YAML: %v", file, r)
		}
	}()
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			pos := at.GetToken().Position
			return nil, fmt.Errorf("%s:%d:%d: not readable as YAML: %s", file, pos.Line, pos.Column, at.GetMessage())
		}
		return nil, fmt.Errorf("%s: not readable as YAML: %w", file, err)
	}
	var docs []ast.Node
	for _, d := range f.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: holds %d YAML documents, want 1", file, len(docs))
	}
	if _, ok := docs[0].(ast.MapNode); !ok {
		return nil, fmt.Errorf("%s:1:1: want a mapping of keys at the top", file)
	}
	return docs[0], nil
}

// reader fills a Space and collects all problems.
type reader struct {
	file  string
	given *arch.Chip // the base, nil to load what the space names
	s     *Space
	errs  []error
	nodes map[string]ast.Node // of parameters
}

func (r *reader) fail(n ast.Node, format string, args ...any) {
	pos := n.GetToken().Position
	r.failAt(pos.Line, pos.Column, format, args...)
}

func (r *reader) failAt(line, col int, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d:%d: %s", r.file, line, col, fmt.Sprintf(format, args...)))
}

// each calls f for the entries of a mapping, whose keys are names.
func (r *reader) each(n ast.Node, what string, f func(key string, k, v ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.fail(n, "%s: want a mapping", what)
		return
	}
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		key := it.Key().GetToken().Value
		if seen[key] {
			r.fail(it.Key(), "%s: %q is stated twice", what, key)
			continue
		}
		seen[key] = true
		f(key, it.Key(), it.Value())
	}
}

func (r *reader) text(n ast.Node, what string) string {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value
	case *ast.LiteralNode:
		return strings.TrimSpace(s.Value.Value)
	}
	r.fail(n, "%s: want text", what)
	return ""
}

// number returns the number of a node.
func number(n ast.Node) (float64, bool) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return float64(i), true
		case uint64:
			return float64(i), true
		}
	case *ast.FloatNode:
		return n.Value, true
	case *ast.StringNode:
		// The YAML package takes exponents without a point for text.
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return v, true
		}
	}
	return 0, false
}

func (r *reader) num(n ast.Node, what string, lo, hi float64) float64 {
	v, ok := number(n)
	if !ok || math.IsNaN(v) || v < lo || v > hi {
		r.fail(n, "%s: want a number from %g to %g", what, lo, hi)
		return lo
	}
	return v
}

func (r *reader) integer(n ast.Node, what string, lo, hi int) int {
	v := r.num(n, what, float64(lo), float64(hi))
	if v != math.Trunc(v) {
		r.fail(n, "%s: want a whole number", what)
	}
	return int(v)
}

func (r *reader) list(n ast.Node, what string) []ast.Node {
	l, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(n, "%s: want a list", what)
		return nil
	}
	if len(l.Values) == 0 {
		r.fail(n, "%s: is empty", what)
	}
	return l.Values
}

var topKeys = []string{"name", "description", "models", "base", "parameters", "constraints", "objectives", "budget", "search", "funnel", "seed"}

func (r *reader) top(root ast.Node) {
	s := r.s
	s.Name = strings.TrimSuffix(filepath.Base(r.file), filepath.Ext(r.file))
	found := map[string]bool{}
	var params, variables ast.Node
	r.each(root, "space", func(key string, k, v ast.Node) {
		found[key] = true
		switch key {
		case "name":
			s.Name = r.text(v, key)
		case "description":
			s.Description = r.text(v, key)
		case "models":
			for _, n := range r.list(v, key) {
				r.model(n)
			}
		case "base":
			r.base(v)
		case "parameters":
			params = v
		case "variables":
			variables = v
		case "constraints":
			for _, n := range r.list(v, key) {
				if e := r.expression(n, "constraint"); e != nil {
					pos := n.GetToken().Position
					s.Constraints = append(s.Constraints, Constraint{r.text(n, key), e, pos.Line, pos.Column})
				}
			}
		case "objectives":
			for _, n := range r.list(v, key) {
				r.objective(n)
			}
		case "budget":
			r.budget(v)
		case "search":
			r.search(v)
		case "funnel":
			r.funnel(v)
		case "seed":
			s.Seed = uint64(r.integer(v, key, 0, math.MaxInt32))
		default:
			r.fail(k, "unknown key %q; known here: %s, variables", key, strings.Join(topKeys, ", "))
		}
	})
	for _, key := range []string{"models", "base", "parameters", "objectives"} {
		if !found[key] {
			r.fail(root, "%s: is missing", key)
		}
	}
	r.nodes = map[string]ast.Node{}
	for _, n := range []ast.Node{variables, params} {
		if n != nil && s.Base != nil {
			r.each(n, "parameters", func(key string, k, v ast.Node) { r.param(key, k, v, n == params) })
		}
	}
	if s.Search.Method == "" {
		s.Search.Method = "exhaustive"
	}
	if s.Search.Method != "exhaustive" && s.Budget.Points == 0 {
		s.Budget.Points = defaultPoints
	}
}

func (r *reader) model(n ast.Node) {
	var m ModelRef
	if _, ok := n.(ast.MapNode); !ok {
		m.Name = r.text(n, "model")
	} else {
		r.each(n, "model", func(key string, k, v ast.Node) {
			switch key {
			case "model":
				m.Name = r.text(v, key)
			case "batch":
				m.Batch = r.text(v, key)
			case "dims":
				m.Dims = map[string]int64{}
				r.each(v, key, func(dim string, _, v ast.Node) { m.Dims[dim] = int64(r.integer(v, dim, 1, 1<<20)) })
			default:
				r.fail(k, "unknown key %q; known here: model, batch, dims", key)
			}
		})
	}
	if m.Name == "" {
		r.fail(n, "model: has no name")
	}
	r.s.Models = append(r.s.Models, m)
}

func (r *reader) base(n ast.Node) {
	name := r.text(n, "base")
	if name == "" {
		return
	}
	if r.given != nil {
		r.s.Base = r.given
		return
	}
	if !slices.Contains(arch.Presets(), name) && !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(r.file), name)
	}
	a, err := arch.Load(name)
	switch {
	case err != nil:
		r.fail(n, "base: %v", err)
	case a.Chip == nil:
		r.fail(n, "base: %s is a GPU; processing-in-memory architectures are explored", a.Name())
	default:
		r.s.Base = a.Chip
	}
}

func (r *reader) objective(n ast.Node) {
	name := r.text(n, "objective")
	if o, ok := ObjectiveNamed(name); ok {
		if slices.Contains(r.s.Objectives, o) {
			r.fail(n, "objective %q is stated twice", name)
		}
		r.s.Objectives = append(r.s.Objectives, o)
		return
	}
	var names []string
	for _, o := range objectives {
		names = append(names, o.name)
	}
	r.fail(n, "no objective %q; there are %s", name, strings.Join(names, ", "))
}

func (r *reader) budget(n ast.Node) {
	r.each(n, "budget", func(key string, k, v ast.Node) {
		switch key {
		case "points":
			r.s.Budget.Points = r.integer(v, key, 1, math.MaxInt32)
		case "time":
			d, err := time.ParseDuration(r.text(v, key))
			if err != nil || d <= 0 {
				r.fail(v, "time: want a duration such as 90s, 10m or 2h")
			}
			r.s.Budget.Time = d
		default:
			r.fail(k, "unknown key %q; known here: points, time", key)
		}
	})
}

func (r *reader) search(n ast.Node) {
	s := &r.s.Search
	s.Population, s.Keep = defaultPopulation, defaultKeep
	r.each(n, "search", func(key string, k, v ast.Node) {
		switch key {
		case "method":
			s.Method = r.text(v, key)
			if _, ok := searchMethods[s.Method]; !ok {
				r.fail(v, "no search method %q; there are %s", s.Method, strings.Join(sortedKeys(searchMethods), ", "))
			}
		case "population":
			s.Population = r.integer(v, key, 4, 1<<16)
		case "keep":
			s.Keep = r.num(v, key, 0.01, 0.9)
		default:
			r.fail(k, "unknown key %q; known here: method, population, keep", key)
		}
	})
}

func (r *reader) funnel(n ast.Node) {
	r.each(n, "funnel", func(key string, k, v ast.Node) {
		switch key {
		case "margin":
			r.s.Funnel.Margin = r.num(v, key, 0, 0.99)
		case "emulate":
			r.s.Funnel.Emulate = r.integer(v, key, 1, math.MaxInt32)
		case "finalists":
			r.s.Funnel.Finalists = r.integer(v, key, 0, 1000)
		default:
			r.fail(k, "unknown key %q; known here: margin, emulate, finalists", key)
		}
	})
}

// expression reads an expression, or a number.
func (r *reader) expression(n ast.Node, what string) *expr {
	if v, ok := number(n); ok {
		return &expr{op: "num", num: v}
	}
	text := r.text(n, what)
	if text == "" {
		return nil
	}
	e, err := parseExpr(text)
	var at *exprError
	if errors.As(err, &at) {
		pos := n.GetToken().Position
		r.failAt(pos.Line, pos.Column+at.at, "%s %q: %s", what, text, at.msg)
		return nil
	}
	return e
}

// settable are parameters that are not figures of the architecture.
var settable = []string{"quant.weights", "compiler.clusters", "batch"}

// param reads one parameter; variables are not applied to the architecture.
func (r *reader) param(name string, k, v ast.Node, applied bool) {
	s := r.s
	choice := false
	if m, ok := v.(ast.MapNode); ok {
		for it := m.MapRange(); it.Next(); {
			choice = choice || it.Key().GetToken().Value == "choose"
		}
	}
	isFigure := s.Base.FigureAt(name) != nil
	switch {
	case r.nodes[name] != nil:
		r.fail(k, "parameter %q is stated twice", name)
		return
	case isMetric(name) || strings.HasPrefix(name, "base."):
		r.fail(k, "parameter %q has the name of something that is computed", name)
		return
	case applied && !choice && !isFigure && !slices.Contains(settable, name):
		r.fail(k, "unknown parameter %q: neither a figure of the architecture (%s) nor one of %s; a choice of several figures has the form {choose: {NAME: {FIGURE: VALUE}}}, and what only serves expressions belongs under variables",
			name, nearest(name, arch.FigurePaths()), strings.Join(settable, ", "))
		return
	case !applied && (isFigure || slices.Contains(settable, name)):
		r.fail(k, "variable %q has the name of a parameter", name)
		return
	}
	r.nodes[name] = k
	if _, list := v.(*ast.SequenceNode); name == "quant.weights" && !list {
		r.fail(v, "quant.weights: want a list of names among %s", strings.Join(runtime.WeightFormats(), ", "))
		return
	}
	p := Param{Name: name}
	switch n := v.(type) {
	case *ast.SequenceNode:
		r.values(&p, n)
	case ast.MapNode:
		if choice {
			r.choice(&p, v)
		} else {
			r.ranged(&p, v)
		}
	default:
		if p.expr = r.expression(v, "parameter "+name); p.expr != nil {
			s.Derived = append(s.Derived, p)
		}
		return
	}
	if len(p.Values) > 0 {
		s.Params = append(s.Params, p)
	}
}

// nearest lists up to four known names that share a part with name.
func nearest(name string, known []string) string {
	var out []string
	for _, part := range strings.Split(name, ".") {
		for _, k := range known {
			if len(part) > 2 && strings.Contains(k, part) && len(out) < 4 && !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	if out == nil {
		return "such as array.rows"
	}
	return "such as " + strings.Join(out, ", ")
}

func (r *reader) values(p *Param, n *ast.SequenceNode) {
	for _, x := range r.list(n, p.Name) {
		v, isNum := number(x)
		val := Value{Num: v}
		if p.Name == "quant.weights" {
			val.Name = r.text(x, p.Name)
			if val.Num = runtime.WeightBits(val.Name); val.Num == 0 {
				r.fail(x, "quant.weights: no precision %q; there are %s", val.Name, strings.Join(runtime.WeightFormats(), ", "))
				continue
			}
		} else if !isNum {
			r.fail(x, "%s: want a number", p.Name)
			continue
		}
		if slices.Contains(p.Values, val) {
			r.fail(x, "%s: %s is stated twice", p.Name, val)
			continue
		}
		r.allowed(x, p.Name, v)
		p.Values = append(p.Values, val)
	}
}

// allowed checks a value against what any design may have.
func (r *reader) allowed(n ast.Node, name string, v float64) {
	if slices.Contains(settable[1:], name) && (v < 1 || v != math.Trunc(v) || v > 1<<20) {
		r.fail(n, "%s: want a whole number of at least 1", name)
	}
}

func (r *reader) ranged(p *Param, n ast.Node) {
	from, to, step, times := math.NaN(), math.NaN(), 0.0, 0.0
	r.each(n, p.Name, func(key string, k, v ast.Node) {
		const most = 1e18
		switch key {
		case "from":
			from = r.num(v, key, -most, most)
		case "to":
			to = r.num(v, key, -most, most)
		case "step":
			step = r.num(v, key, 1e-12, most)
		case "times":
			times = r.num(v, key, 1.0001, most)
		default:
			r.fail(k, "%s: unknown key %q; a range has from, to and step or times", p.Name, key)
		}
	})
	switch {
	case math.IsNaN(from) || math.IsNaN(to):
		r.fail(n, "%s: a range needs from and to", p.Name)
		return
	case (step > 0) == (times > 0):
		r.fail(n, "%s: a range needs either step or times", p.Name)
		return
	case from > to:
		r.fail(n, "%s: the range from %g to %g is empty", p.Name, from, to)
		return
	case times > 0 && from <= 0:
		r.fail(n, "%s: a range with times starts above 0", p.Name)
		return
	}
	// Values are counted from the start, so that rounding does not add up.
	for i := 0; ; i++ {
		v := from + float64(i)*step
		if times > 0 {
			v = from * math.Pow(times, float64(i))
		}
		if v > to*(1+1e-12)+1e-12*step {
			break
		}
		if i >= maxValues {
			r.fail(n, "%s: more than %d values", p.Name, maxValues)
			return
		}
		if r := math.Round(v); math.Abs(v-r) < 1e-9*math.Abs(v) {
			v = r
		}
		p.Values = append(p.Values, Value{Num: v})
	}
	if len(p.Values) > 0 {
		r.allowed(n, p.Name, p.Values[0].Num)
		if step != math.Trunc(step) || times != math.Trunc(times) {
			r.allowed(n, p.Name, p.Values[len(p.Values)-1].Num)
		}
	}
}

func (r *reader) choice(p *Param, n ast.Node) {
	r.each(n, p.Name, func(key string, k, v ast.Node) {
		if key != "choose" {
			r.fail(k, "%s: unknown key %q beside choose", p.Name, key)
			return
		}
		r.each(v, p.Name, func(name string, _, v ast.Node) {
			set := map[string]float64{}
			r.each(v, p.Name+" "+name, func(path string, k, v ast.Node) {
				if r.s.Base.FigureAt(path) == nil {
					r.fail(k, "%s %s: unknown figure %q of the architecture (%s)", p.Name, name, path, nearest(path, arch.FigurePaths()))
					return
				}
				set[path] = r.num(v, path, 0, 1e18)
			})
			p.Values = append(p.Values, Value{Num: float64(len(p.Values)), Name: name})
			p.Settings = append(p.Settings, set)
		})
	})
	if len(p.Values) == 0 && len(r.errs) == 0 {
		r.fail(n, "%s: chooses among nothing", p.Name)
	}
}
