package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"situ/ir"
	"situ/ir/eval"
	"situ/passes"
)

// QuantOptions say how a float model becomes fixed point; models that came
// quantised keep their own scales and zero points.
type QuantOptions struct {
	Weights        string // one of WeightFormats, "" for the first
	Method         string // "minmax", "percentile" or "mse"
	CalibrationDir string // folder of inputs, "" for what ships with the model, or synthetic ones
	Mixed          string // layers in higher precision: "auto" (or ""), "none", or a share as in passes.Quantisation
	Samples        int    // calibration inputs to use at most, 0 for 16
	Seed           uint64 // of synthetic inputs

	Disable   []string // passes to leave out
	StopAfter string   // last pass to run

	dump func(pass string, g *ir.Graph)
}

// defaultSamples is how many calibration inputs are used at most.
const defaultSamples = 16

// Prepared is a model in fixed point, ready for any target.
type Prepared struct {
	Model         *Model
	Fixed         *ir.Graph
	Chip          *ir.Graph // what a target runs of Fixed, for Batch inputs: all, unless there is work for the host; nil for nothing
	CameQuantised bool      // the model brought its own scales
	Quant         string    // for people
	MACs          int64     // of the model as it came
	Batch         int       // inputs that Chip takes at once
	Fallback      []Fallback
	Raised        []Raised   // layers in higher precision than the rest
	States        []ir.State // of Fixed, which programs keep from run to run
	Warnings      []string

	programs map[programKey]*compiled
	refused  []int         // operators of Fixed that a target does not take
	parts    *passes.Parts // nil when there are none
	unkept   []string      // why other states of Model are not kept
	spent    []int64       // elementary operations of the nodes that depend on data, nil before a run
}

// Prepare takes a model through the passes.
func Prepare(ctx context.Context, m *Model, q QuantOptions) (*Prepared, error) {
	return prepare(ctx, m, q, nil)
}

// prepare is Prepare with calibration inputs that come first when there are any.
func prepare(ctx context.Context, m *Model, q QuantOptions, calibration [][]*ir.Tensor) (*Prepared, error) {
	if m.Graph == nil {
		return nil, fmt.Errorf("%s is a compiled program; this needs the model it was made from", m.Name)
	}
	p := &Prepared{Model: m, CameQuantised: cameQuantised(m.Graph), MACs: MACs(m.Graph), Batch: 1, Fallback: []Fallback{}, programs: map[programKey]*compiled{}}
	if why := m.leftToHost(); why != "" {
		p.Warnings = append(p.Warnings, why)
	}
	if len(m.Graph.Outputs) == 0 { // all of it depends on data
		p.Fixed, p.Quant = m.Graph, "as the model came"
		return p, nil
	}
	cfg := passes.Config{Disable: q.Disable, StopAfter: q.StopAfter, After: q.dump, States: m.States}
	if p.CameQuantised {
		p.Quant = "as the model came"
		if q.Weights != "" && q.Weights != "int8" {
			p.Warnings = append(p.Warnings, "the model came quantised and keeps its own weights; --weights "+q.Weights+" has no effect on it")
		}
	} else {
		var err error
		if cfg.Quant, err = quantisation(m, q, calibration, p); err != nil {
			return nil, err
		}
		p.Quant = "int8"
		if q.Weights != "" && q.Weights != "int8" {
			p.Quant = "int8 activations, " + q.Weights + " weights"
		}
	}
	r, err := passes.RunContext(ctx, m.Graph, cfg)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	p.Fixed, p.Chip = r.Graph, r.Graph
	if m.Host != nil { // inputs that it alone reads are no business of a target
		p.parts = passes.Split(r.Graph, nil)
		p.Chip = p.parts.Chip.Graph
	}
	p.keepStates(m.States)
	p.Raised = raisedOf(r.Raised)
	p.Quant = withRaised(p.Quant, p.Raised)
	for _, f := range r.Fallback {
		p.Fallback = append(p.Fallback, Fallback{Node: f.Node, Op: f.Op, Share: f.Share})
	}
	return p, nil
}

// described reports whether the model's weights have no values.
func (p *Prepared) described() bool { return p.Fixed.Described() != ir.NoValue }

// quantisation chooses calibration inputs: those given, a folder, what ships
// with the model, or seeded synthetic ones with a warning.
func quantisation(m *Model, q QuantOptions, given [][]*ir.Tensor, p *Prepared) (passes.Quantisation, error) {
	var z passes.Quantisation
	f, err := weightFormat(q.Weights)
	if err != nil {
		return z, err
	}
	z.WeightBits, z.Blocks = f.bits, f.blocks
	if q.Method != "" {
		if z.Method, err = passes.ParseMethod(q.Method); err != nil {
			return z, err
		}
	}
	real := q.CalibrationDir != "" || len(given) > 0 || m.Ships != nil
	if err := mixed(q.Mixed, real, &z); err != nil {
		return z, err
	}
	if m.Graph.Described() != ir.NoValue {
		z.CodedIO = true
		p.Warnings = append(p.Warnings, "the model's weights are described, not stored: scales are nominal, there is nothing to compute with; time, bytes and energy hold")
		return z, nil
	}
	limit := q.Samples
	switch {
	case limit < 0:
		return z, fmt.Errorf("%d calibration inputs at most: give at least 1", limit)
	case limit == 0:
		limit = defaultSamples
	}
	switch {
	case q.CalibrationDir != "":
		sets, err := readInputs(q.CalibrationDir)
		if err != nil {
			return z, fmt.Errorf("calibration inputs: %w", err)
		}
		for _, s := range sets[:min(limit, len(sets))] {
			in, err := m.bind(s)
			if err != nil {
				return z, fmt.Errorf("calibration inputs: %w", err)
			}
			z.Inputs = append(z.Inputs, in)
		}
	case len(given) > 0:
		z.Inputs = given
	case m.Ships != nil:
		images, err := m.Ships.Calibration()
		if err != nil {
			return z, err
		}
		shape := m.Graph.Type(m.Graph.Inputs[0]).Shape
		for _, img := range images {
			z.Inputs = append(z.Inputs, []*ir.Tensor{ir.NewTensor(ir.F32, shape, img)})
		}
	default:
		// Enough for a range; more would only repeat the same distribution, as a
		// large model's many values already do.
		synthetics := 2
		if p.MACs > 2e9 {
			synthetics = 1
		}
		for i := range uint64(min(limit, synthetics)) {
			in, err := synthetic(m.Graph, q.Seed+i)
			if err != nil {
				return z, err
			}
			z.Inputs = append(z.Inputs, in)
		}
		p.Warnings = append(p.Warnings, "calibrated with seeded synthetic inputs (standard normal): time and energy hold, accuracy does not; give --calibration DIR with real inputs")
	}
	return z, nil
}

// cameQuantised reports whether a model states scales of its own for values that
// depend on its inputs and that its outputs depend on.
func cameQuantised(g *ir.Graph) bool {
	varies, needed := make([]bool, len(g.Values)), make([]bool, len(g.Values))
	for _, id := range g.Inputs {
		varies[id] = true
	}
	for i := range g.Ops {
		for _, id := range g.Ops[i].In {
			if id != ir.NoValue && varies[id] {
				varies[g.Ops[i].Out] = true
			}
		}
	}
	for _, id := range g.Outputs {
		needed[id] = true
	}
	for i := len(g.Ops) - 1; i >= 0; i-- {
		for _, id := range g.Ops[i].In {
			if id != ir.NoValue && needed[g.Ops[i].Out] {
				needed[id] = true
			}
		}
	}
	for i := range g.Ops {
		if !needed[g.Ops[i].Out] || !varies[g.Ops[i].Out] {
			continue
		}
		switch op := &g.Ops[i]; op.Kind {
		case ir.Quantize, ir.Dequantize:
			return true
		case ir.Conv2D, ir.MatMul:
			if g.Type(op.In[0]).DType.IsInt() {
				return true
			}
		}
	}
	return false
}

// evaluate runs a graph on the reference evaluator.
func evaluate(ctx context.Context, g *ir.Graph, inputs []*ir.Tensor) ([]*ir.Tensor, error) {
	e, err := eval.New(g)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx, inputs, eval.Options{MemoryLimit: passes.MemoryLimit})
}

// PassNames lists the passes in order.
func PassNames() []string { return passes.Names() }

// Stage is the IR after one pass, or after import.
type Stage struct {
	Pass string `json:"pass"`
	IR   string `json:"ir"`
}

// Dump returns the IR of a model after the pass named after: "import" before any
// pass, "all" after each.
func Dump(ctx context.Context, name, after string, o ModelOptions, q QuantOptions) ([]Stage, error) {
	m, err := OpenModel(name, o)
	if err != nil {
		return nil, err
	}
	if m.Graph == nil {
		return nil, fmt.Errorf("%s is a compiled program; print it with situ dis", name)
	}
	var stages []Stage
	if after == "import" || after == "all" {
		stages = append(stages, Stage{"import", m.Graph.String()})
	}
	if after == "import" {
		return stages, nil
	}
	q.dump = func(pass string, g *ir.Graph) {
		if after == "all" || after == pass {
			stages = append(stages, Stage{pass, g.String()})
		}
	}
	if after != "all" && !slices.Contains(passes.Names(), after) {
		return nil, fmt.Errorf("no pass %q; there are import, %s and all", after, strings.Join(passes.Names(), ", "))
	}
	if q.StopAfter == "" && after != "all" {
		q.StopAfter = after
	}
	if _, err := Prepare(ctx, m, q); err != nil {
		return nil, err
	}
	if len(stages) == 0 {
		why := fmt.Sprintf("passes stop after %q", q.StopAfter)
		if slices.Contains(q.Disable, after) {
			why = "--disable leaves it out"
		}
		return nil, fmt.Errorf("pass %q did not run: %s", after, why)
	}
	return stages, nil
}
