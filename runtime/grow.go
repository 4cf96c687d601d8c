package runtime

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"situ/backend/pim"
	"situ/frontend/onnx"
	"situ/ir"
)

// A decoder whose cache grows, present = concat(past, new) along a symbolic dimension,
// is run over several steps as static compilers run it: a first step of several tokens
// by a program of its own, and each later one, of one token, by one program whose cache
// has room for all of them. That cache stays where it is. A step reads all of it, with
// attention_mask hiding the entries that are not there yet, and puts its own entries in
// the next free place. What the steps should give is computed apart, by the model as it
// came at the true length of each.

// Inputs of decoders, by the names that exporters agree on.
const (
	tokensInput    = "input_ids"
	maskInput      = "attention_mask"
	positionsInput = "position_ids"
)

// growth is what is known of a model whose cache grows.
type growth struct {
	caches              []onnx.Cache
	past, tokens, total string // symbols: entries of the cache, new ones, both; "" for a number or a sum
	parsed              *onnx.Model
	bound               map[string]int64 // values of all symbols in the first step
}

// growthOf returns nil for a model without such a cache, or whose symbols are not bound.
func growthOf(parsed *onnx.Model, given []named, o ModelOptions) *growth {
	caches := parsed.Caches()
	if len(caches) == 0 || !slices.Contains(o.States, AutoStates) || slices.Contains(o.States, NoStates) {
		return nil
	}
	opt := onnx.ImportOptions{Dims: o.Dims, InputShapes: map[string][]int{}}
	for _, n := range given {
		opt.InputShapes[n.name] = n.tensor.Shape
	}
	g := &growth{caches: caches, parsed: parsed, past: caches[0].Symbol, tokens: parsed.Symbol(tokensInput, 1), total: parsed.Symbol(maskInput, 1)}
	if slices.ContainsFunc(caches, func(c onnx.Cache) bool { return c.Symbol != g.past }) {
		return nil
	}
	var err error
	if g.bound, err = parsed.Bind(opt); err != nil {
		return nil
	}
	if strings.Contains(g.total, "+") {
		g.total = "" // follows from the others
	}
	maps.DeleteFunc(g.bound, func(s string, _ int64) bool { return strings.Contains(s, "+") })
	return g
}

// dims returns the values of the symbols where tokens follow past ones.
func (g *growth) dims(past, tokens int) map[string]int64 {
	d := maps.Clone(g.bound)
	d[g.past] = int64(past)
	if g.tokens != "" {
		d[g.tokens] = int64(tokens)
	}
	if g.total != "" {
		d[g.total] = int64(past + tokens)
	}
	return d
}

// growing runs the steps of a model.
type growing struct {
	*growth
	name  string
	mo    ModelOptions
	q     QuantOptions
	steps int
	past  int // entries before the first step
	first int // tokens of the first step; later ones take one
}

// newGrowing prepares to run o.Steps steps of m, which is the first of them.
func newGrowing(name string, m *Model, mo ModelOptions, q QuantOptions, o RunOptions) (*growing, error) {
	g := &growing{growth: m.growth, name: name, mo: mo, q: q, steps: o.Steps, past: int(m.growth.bound[m.growth.past]), first: 1}
	g.mo.inputs = nil
	if g.tokens != "" {
		g.first = int(g.bound[g.tokens])
	}
	switch {
	case o.Steps > maxSteps:
		return nil, fmt.Errorf("%d steps, at most %d are run", o.Steps, maxSteps)
	case m.Host != nil:
		return nil, fmt.Errorf("model %q: the end of it depends on data, which the host runs: steps of such a model are not supported", m.Name)
	case !slices.ContainsFunc(m.Graph.Inputs, func(id ir.ValueID) bool { return m.Graph.Value(id).Name == maskInput }):
		return nil, fmt.Errorf("model %q has no input %q to hide the entries of its cache that are not there yet: run its steps one by one, with --dim %s=N", m.Name, maskInput, g.growth.past)
	case o.Trace != nil:
		return nil, fmt.Errorf("model %q: --trace shows one program, and steps with a cache that grows may take two: leave --steps out", m.Name)
	}
	return g, nil
}

// pastOf returns the entries of the cache before step k, and its new tokens.
func (g *growing) pastOf(k int) (past, tokens int) {
	if k == 0 {
		return g.past, g.first
	}
	return g.past + g.first + k - 1, 1
}

// open reads the model at a length.
func (g *growing) open(past, tokens int, states ...string) (*Model, error) {
	mo := g.mo
	mo.Dims, mo.States = g.dims(past, tokens), states
	return OpenModel(g.name, mo)
}

// tensors are inputs or outputs of a model by name.
type tensors map[string]*ir.Tensor

// named returns a set of inputs by the names of the model's.
func (g *growing) named(set []named) (tensors, error) {
	list, err := match(inputNamesOf(g.parsed), set)
	if err != nil {
		return nil, err
	}
	ts := tensors{}
	for _, n := range list {
		ts[n.name] = n.tensor
	}
	return ts, nil
}

// of returns the tensors of g's inputs in order.
func (ts tensors) of(g *ir.Graph) ([]*ir.Tensor, error) {
	var list []*ir.Tensor
	for _, id := range g.Inputs {
		v := g.Value(id)
		t := ts[v.Name]
		if t == nil || t.DType != v.Type.DType || !slices.Equal(t.Shape, v.Type.Shape) {
			if t == nil {
				return nil, fmt.Errorf("input %q of model %q, %s%v, is missing", v.Name, g.Name, v.Type.DType, v.Type.Shape)
			}
			return nil, fmt.Errorf("input %q of model %q is %s%v; the tensor for it is %s%v", v.Name, g.Name, v.Type.DType, v.Type.Shape, t.DType, t.Shape)
		}
		list = append(list, t)
	}
	return list, nil
}

// growStep is one step of a sequence at its true length.
type growStep struct {
	inputs  tensors      // without caches
	caches  tensors      // kept for the steps that calibrate
	outputs []*ir.Tensor // all but caches are kept
}

// sequence evaluates the first n steps on the model as it came. Inputs of step k are those of
// set k; behind the last they repeat, at positions that go on.
func (g *growing) sequence(ctx context.Context, sets [][]named, n int) ([]growStep, error) {
	steps := make([]growStep, n)
	caches := tensors{}
	for k := range steps {
		past, tokens := g.pastOf(k)
		m, err := g.open(past, tokens, NoStates)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", k+1, err)
		}
		s := &steps[k]
		switch {
		case k < len(sets) && sets[k] != nil:
			if s.inputs, err = g.named(sets[k]); err != nil {
				return nil, fmt.Errorf("step %d: %w", k+1, err)
			}
		case k == 0:
			if s.inputs, err = g.synthetic(m.Graph); err != nil {
				return nil, err
			}
		default:
			s.inputs = following(steps[k-1].inputs)
			if len(sets) == 0 || sets[0] == nil { // another token
				in, err := synthetic(m.Graph, g.q.Seed+uint64(k))
				if err != nil {
					return nil, err
				}
				if i := slices.IndexFunc(m.Graph.Inputs, func(id ir.ValueID) bool { return m.Graph.Value(id).Name == tokensInput }); i >= 0 {
					s.inputs[tokensInput] = in[i]
				}
			}
		}
		for _, c := range g.caches {
			if k == 0 && s.inputs[c.Input] != nil {
				caches[c.Input] = s.inputs[c.Input]
			}
			delete(s.inputs, c.Input)
		}
		all := maps.Clone(s.inputs)
		maps.Copy(all, caches)
		in, err := all.of(m.Graph)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", k+1, err)
		}
		if s.outputs, err = evaluate(ctx, m.Graph, in); err != nil {
			return nil, fmt.Errorf("step %d: %w", k+1, err)
		}
		if k == 0 || slices.Contains(g.sampled(caches, past), k) {
			s.caches = maps.Clone(caches)
		}
		for _, c := range g.caches {
			i := slices.Index(outputNames(m.Graph), c.Output)
			if i < 0 {
				return nil, fmt.Errorf("model %q has no output %q", m.Name, c.Output)
			}
			caches[c.Input] = s.outputs[i]
			if k > 0 {
				s.outputs[i] = nil
			}
		}
	}
	return steps, nil
}

// sampled returns the steps of one token, the first and the last among them, that
// calibrate; caches are those of some step, of past entries.
func (g *growing) sampled(caches tensors, past int) []int {
	const most = 1 << 26 // elements of all caches that are remembered
	n := cmp.Or(g.q.Samples, defaultSamples)
	for _, t := range caches {
		n = min(n, most/max(1, t.Numel()/max(1, past)*g.rows()*len(caches)))
	}
	first, last := g.prompt(), g.steps-1
	n = min(max(n, 2), last-first+1)
	steps := []int{first}
	for i := 1; i < n; i++ {
		steps = append(steps, first+i*(last-first)/(n-1))
	}
	return steps
}

// synthetic returns inputs of the first step: seeded ones, at the positions behind the
// cache, with nothing masked.
func (g *growing) synthetic(graph *ir.Graph) (tensors, error) {
	in, err := synthetic(graph, g.q.Seed)
	if err != nil {
		return nil, err
	}
	ts := tensors{}
	for i, id := range graph.Inputs {
		name := graph.Value(id).Name
		ts[name] = in[i]
		switch columns := columnsOf(in[i]); name {
		case maskInput:
			ts[name] = filled(in[i], columns, func(int, int) (int, int64) { return -1, 1 })
		case positionsInput:
			ts[name] = filled(in[i], columns, func(_, j int) (int, int64) { return -1, int64(g.past + j) })
		}
	}
	return ts, nil
}

// following returns the inputs of one token behind those of a step: the last token
// again, at the next position, which no mask hides.
func following(before tensors) tensors {
	after := maps.Clone(before)
	for name, t := range before {
		last := columnsOf(t) - 1
		switch name {
		case tokensInput:
			after[name] = filled(t, 1, func(int, int) (int, int64) { return last, 0 })
		case positionsInput:
			after[name] = filled(t, 1, func(int, int) (int, int64) { return last, 1 })
		case maskInput:
			after[name] = filled(t, last+2, func(_, j int) (int, int64) {
				if j > last {
					return -1, 1
				}
				return j, 0
			})
		}
	}
	return after
}

// columnsOf returns the size of the last dimension.
func columnsOf(t *ir.Tensor) int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// filled returns a tensor like t, of int64 or int32, with n columns: of column j of row i,
// from says which column of t is taken, −1 for none, and what is added.
func filled(t *ir.Tensor, n int, from func(i, j int) (int, int64)) *ir.Tensor {
	old := columnsOf(t)
	out := ir.Zeros(t.DType, append(slices.Clone(t.Shape[:max(len(t.Shape)-1, 0)]), n)...)
	for k := range out.Numel() {
		at, v := from(k/n, k%n)
		at += k / n * old
		taken := at >= k/n*old
		switch d := t.Any().(type) {
		case []int64:
			if taken {
				v += d[at]
			}
			ir.Data[int64](out)[k] = v
		case []int32:
			if taken {
				v += int64(d[at])
			}
			ir.Data[int32](out)[k] = int32(v)
		}
	}
	return out
}

// prompt returns how many steps come before those of one token: 1 where the first takes
// several, else 0.
func (g *growing) prompt() int {
	if g.first > 1 {
		return 1
	}
	return 0
}

// before returns the entries of the cache when the steps of one token begin.
func (g *growing) before() int {
	past, _ := g.pastOf(g.prompt())
	return past
}

// rows returns how many entries the kept cache has room for.
func (g *growing) rows() int { return g.before() + g.steps - g.prompt() }

// place returns where the kept cache holds entry i of the sequence: those that were
// there before behind the free places, which the steps fill in turn.
func (g *growing) place(i int) int {
	if n := g.before(); i >= n {
		return i - n
	}
	return g.steps - g.prompt() + i
}

// roomy returns the inputs of step k, of one token, for the graph whose cache is kept;
// without caches they are those of a later step.
func (g *growing) roomy(graph *ir.Graph, k int, inputs, caches tensors) ([]*ir.Tensor, error) {
	past, _ := g.pastOf(k)
	all := maps.Clone(inputs)
	from := slices.Repeat([]int{-1}, g.rows()+1)
	for i := range past {
		from[g.place(i)] = i
	}
	from[g.rows()] = past
	all[maskInput] = filled(inputs[maskInput], g.rows()+1, func(_, j int) (int, int64) { return from[j], 0 })
	kept := map[string]bool{}
	for _, c := range g.caches {
		t := caches[c.Input]
		if kept[c.Input] = caches == nil; past == 0 || caches == nil { // any of its shape
			i := slices.IndexFunc(graph.Inputs, func(id ir.ValueID) bool { return graph.Value(id).Name == c.Input })
			ty := graph.Type(graph.Inputs[i])
			all[c.Input] = ir.Zeros(ty.DType, ty.Shape...)
		} else {
			all[c.Input] = g.withRoom(t, c.Axis, past)
		}
	}
	list, err := all.of(graph)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", k+1, err)
	}
	for i, id := range graph.Inputs {
		if kept[graph.Value(id).Name] {
			list[i] = nil
		}
	}
	return list, nil
}

// withRoom returns a cache of past entries along an axis as the kept one holds it.
func (g *growing) withRoom(t *ir.Tensor, axis, past int) *ir.Tensor {
	shape := slices.Clone(t.Shape)
	shape[axis] = g.rows()
	out := ir.Zeros(t.DType, shape...)
	inner := ir.Numel(shape[axis+1:])
	for o := range ir.Numel(shape[:axis]) {
		for i := range past {
			ir.CopyElements(out, (o*g.rows()+g.place(i))*inner, t, (o*past+i)*inner, inner)
		}
	}
	return out
}

// run runs the steps on a chip.
func (g *growing) run(ctx context.Context, t *Target, sets [][]named, o RunOptions) (*RunReport, error) {
	first, evaluated := g.prompt(), g.steps
	if o.Mode == TimingOnly { // which needs no values but for scales
		evaluated = first + 1
	}
	q, warnings, calibration, err := g.calibration(ctx, evaluated)
	if err != nil {
		return nil, err
	}
	steps, err := g.sequence(ctx, sets, evaluated)
	if err != nil {
		return nil, err
	}
	if calibration == nil {
		calibration = steps
	}
	r := &RunReport{Warnings: warnings}
	a := agreeing{exact: true, d: difference{exact: true}}
	seq := &Sequence{Steps: g.steps, Past: g.past}
	var kept tensors // what the steps of one token begin with
	if g.prompt() > 0 {
		p, err := g.prepare(ctx, g.past, g.first, q, NoStates, func(graph *ir.Graph) ([][]*ir.Tensor, error) {
			in, err := g.whole(graph, &calibration[0])
			return [][]*ir.Tensor{in}, err
		})
		if err != nil {
			return nil, err
		}
		in, err := g.whole(p.Model.Graph, &steps[0])
		if err != nil {
			return nil, err
		}
		res, got, err := g.once(ctx, p, t, in, o)
		if err != nil {
			return nil, err
		}
		seq.add(res, 1, g.first, g.past)
		r.Warnings = append(r.Warnings, p.Warnings...)
		if kept = steps[first].caches; o.Mode != TimingOnly {
			fixed, err := evaluate(ctx, p.Fixed, in)
			if err != nil {
				return nil, err
			}
			a.add(got, fixed, steps[0].outputs, allOf(len(fixed)))
			kept = tensors{}
			for _, c := range g.caches {
				kept[c.Input] = got[slices.Index(outputNames(p.Model.Graph), c.Output)]
			}
		}
	} else {
		kept = steps[0].caches
	}

	p, err := g.prepare(ctx, g.rows(), 1, q, AutoStates, func(graph *ir.Graph) ([][]*ir.Tensor, error) {
		var sets [][]*ir.Tensor
		for k, s := range calibration {
			if k < first || s.caches == nil {
				continue
			}
			in, err := g.roomy(graph, k, s.inputs, s.caches)
			if err != nil {
				return nil, err
			}
			sets = append(sets, in)
		}
		return sets, nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.States) < len(g.caches) {
		return nil, fmt.Errorf("model %q: %d of its %d caches cannot be kept on %s", p.Model.Name, len(g.caches)-len(p.States), len(g.caches), t.Name)
	}
	r.Warnings = append(r.Warnings, p.Warnings...)
	var inputs [][]*ir.Tensor
	for k := first; k < len(steps); k++ {
		caches := kept
		if k > first {
			caches = nil
		}
		in, err := g.roomy(p.Model.Graph, k, steps[k].inputs, caches)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, in)
	}
	if o.Mode != TimingOnly {
		for _, k := range slices.Compact([]int{first, g.steps - 1}) {
			if err := g.sameWithRoom(ctx, p, k, &steps[k]); err != nil {
				return nil, err
			}
		}
	}
	res, outputs, err := g.once(ctx, p, t, inputs[0], o)
	if err != nil {
		return nil, err
	}
	if o.Mode != TimingOnly {
		c, err := p.compile(t, pim.Latency)
		if err != nil {
			return nil, err
		}
		all, err := p.goOn(ctx, c, inputs, outputs)
		if err != nil {
			return nil, err
		}
		fixedIn := slices.Clone(inputs[0])
		for k, got := range all {
			for i, x := range inputs[k] {
				if x != nil {
					fixedIn[i] = x
				}
			}
			fixed, err := evaluate(ctx, p.Fixed, fixedIn)
			if err != nil {
				return nil, err
			}
			a.add(got, fixed, steps[first+k].outputs, p.visible())
			for _, s := range p.States {
				fixedIn[s.In] = s.Next(fixedIn[s.In], fixed[s.Out], k)
			}
		}
		r.Outputs = all[len(all)-1]
		res.Outputs = describe(p.outputs(), r.Outputs)
		res.Agreement = a.result()
	}
	seq.add(res, g.steps-first, 1, g.rows())
	if o.Mode != FunctionalOnly {
		res.Sequence = seq
	}
	p.describe(res)
	p.Model.bound = g.mo.Dims // those of the first step
	r.Title, r.Result = title(p, true), res
	return r, nil
}

// once runs a prepared model for one set of inputs.
func (g *growing) once(ctx context.Context, p *Prepared, t *Target, in []*ir.Tensor, o RunOptions) (*Result, []*ir.Tensor, error) {
	if _, err := p.compile(t, pim.Latency); err != nil { // first: it says what there is for the host
		return nil, nil, err
	}
	if o.Mode == TimingOnly {
		in = nil
	}
	var res *Result
	got, err := p.through(ctx, [][]*ir.Tensor{in}, func(in []*ir.Tensor) (outputs []*ir.Tensor, err error) {
		res, outputs, err = runPIM(ctx, p, t, in, o)
		return outputs, err
	})
	if err != nil || got == nil {
		return res, nil, err
	}
	return res, got[0], nil
}

// calibration returns how models are quantised and, for calibration inputs of the
// user's, the steps that they make; without, the steps that are run calibrate.
func (g *growing) calibration(ctx context.Context, n int) (QuantOptions, []string, []growStep, error) {
	q := g.q
	if q.CalibrationDir == "" {
		if q.Mixed == "" || q.Mixed == "auto" {
			q.Mixed = "none"
		}
		return q, []string{"calibrated with the steps that are run; give --calibration DIR with others"}, nil, nil
	}
	sets, err := readInputs(q.CalibrationDir)
	if err != nil {
		return q, nil, nil, fmt.Errorf("calibration inputs: %w", err)
	}
	q.CalibrationDir = ""
	steps, err := g.sequence(ctx, sets, n)
	if err != nil {
		return q, nil, nil, fmt.Errorf("calibration inputs: %w", err)
	}
	return q, nil, steps, nil
}

// prepare takes the model at a length through the passes.
func (g *growing) prepare(ctx context.Context, past, tokens int, q QuantOptions, states string, calibration func(*ir.Graph) ([][]*ir.Tensor, error)) (*Prepared, error) {
	m, err := g.open(past, tokens, states)
	if err != nil {
		return nil, err
	}
	sets, err := calibration(m.Graph)
	if err != nil {
		return nil, err
	}
	return prepare(ctx, m, q, sets)
}

// whole returns the inputs of a step at its true length.
func (g *growing) whole(graph *ir.Graph, s *growStep) ([]*ir.Tensor, error) {
	all := maps.Clone(s.inputs)
	maps.Copy(all, s.caches)
	return all.of(graph)
}

// sameWithRoom checks that the model gives the outputs of step k with the kept cache
// too, in which entries are masked and in another order.
func (g *growing) sameWithRoom(ctx context.Context, p *Prepared, k int, s *growStep) error {
	in, err := g.roomy(p.Model.Graph, k, s.inputs, s.caches)
	if err != nil {
		return err
	}
	out, err := evaluate(ctx, p.Model.Graph, in)
	if err != nil {
		return err
	}
	for _, i := range p.visible() {
		d, most := compare(out[i], s.outputs[i], 0), 0.0
		if x, ok := s.outputs[i].Any().([]float32); ok {
			for _, v := range x {
				most = max(most, math.Abs(float64(v)))
			}
		}
		const tolerance = 1e-3
		if !d.exact && !(d.maxAbs <= tolerance*most) {
			return fmt.Errorf("model %q: output %q of step %d differs by %.3g where the cache has room for more entries, which %s hides: it depends on how many there are or on their order. Run its steps one by one, with --dim %s=N",
				p.Model.Name, p.Model.Graph.Value(p.Model.Graph.Outputs[i]).Name, k+1, d.maxAbs, maskInput, g.growth.past)
		}
	}
	return nil
}

// add notes what n steps of some tokens cost, each as r.
func (q *Sequence) add(r *Result, n, tokens, past int) {
	c := StepCost{Steps: n, Tokens: tokens, Cache: past, TimeS: r.LatencyS, EnergyJ: r.Energy.Total, DRAMBytes: r.Bytes.DRAM, State: r.State, Load: r.Load}
	q.Runs = append(q.Runs, c)
	q.TimeS += float64(n) * c.TimeS
	q.EnergyJ += float64(n) * c.EnergyJ
	q.DRAMBytes += int64(n) * c.DRAMBytes
	if len(q.Runs) > 1 && c.Load != nil { // that of the first is before the first step
		q.TimeS += c.Load.TimeS
		q.EnergyJ += c.Load.EnergyJ
		q.DRAMBytes += c.Load.DRAMBytes
	}
}
