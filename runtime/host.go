package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"situ/arch"
	"situ/backend/gpu"
	"situ/backend/pim"
	"situ/frontend/onnx"
	"situ/ir"
	"situ/passes"
)

// A model of which a target does not take every operator is run in parts: the
// target's program, and around it what the host does. Which operators those are is
// found by compiling: what the target refuses is cut off, with all before it or all
// after it. What depends on data was cut off when the model was read (onnx.Host).
// Bits are those of the whole graph on the evaluator, which is what the host runs.

// Host is what the host of a target does in one inference. Its time and energy are in
// none of a result's figures.
type Host struct {
	Share     float64 `json:"share"`               // of the model's element operations
	Uncounted bool    `json:"uncounted,omitempty"` // nodes that depend on data are not in the shares, no run having counted them
	BytesTo   int64   `json:"bytes_to_host"`       // handed over by the target
	BytesFrom int64   `json:"bytes_from_host"`     // handed to the target, beside inputs
}

// OnHost is Fallback.On of what runs on the host.
const OnHost = "host"

// errAllHost says that nothing is left for a target.
var errAllHost = errors.New("every operator of the model runs on the host; there is nothing for a target to do")

// refuse cuts off the operators that a back end's error names. It returns false when
// the error names none that could be.
func (p *Prepared) refuse(err error) bool {
	var ops []int
	var onPIM *pim.RefusedError
	var onGPU *gpu.RefusedError
	switch {
	case p.Batch > 1:
		return false // its single input was cut before
	case errors.As(err, &onPIM):
		ops = onPIM.Ops
	case errors.As(err, &onGPU):
		ops = onGPU.Ops
	}
	if len(ops) == 0 {
		return false
	}
	for _, i := range ops {
		if p.parts != nil {
			i = p.parts.Chip.Ops[i]
		}
		p.refused = append(p.refused, i)
	}
	p.parts = passes.Split(p.Fixed, p.refused)
	p.Chip = p.parts.Chip.Graph
	p.passStates()
	clear(p.programs)
	return true
}

// trying calls compile until it refuses no operator, cutting off those that it does.
func (p *Prepared) trying(compile func(g *ir.Graph) error) error {
	for {
		if p.Chip == nil {
			return p.allHost()
		}
		err := compile(p.Chip)
		if err == nil || !p.refuse(err) {
			return err
		}
	}
}

// LeaveFor leaves to the host what a chip has no form for, and says so in a warning.
// It is for those who compile p.Chip themselves.
func (p *Prepared) LeaveFor(c *arch.Chip) error {
	if err := p.trying(func(g *ir.Graph) error { return pim.Takes(g, c) }); err != nil {
		return fmt.Errorf("model %s on %s: %w", p.Model.Name, c.Name, err)
	}
	if w := p.hostNodes(); w != "" {
		p.Warnings = append(p.Warnings, "figures are of the target's part of the model alone, without "+w+", which the host runs")
	}
	return nil
}

// through takes sets of inputs through the parts of a model: each through what the
// host does before, all at once through the target, each through what the host does
// after. It returns the outputs of p.Fixed for each set, but for states where the target
// keeps them; nil when the target gives none.
func (p *Prepared) through(ctx context.Context, sets [][]*ir.Tensor, target func(in []*ir.Tensor) ([]*ir.Tensor, error)) ([][]*ir.Tensor, error) {
	if p.parts == nil {
		if p.Chip == nil {
			return make([][]*ir.Tensor, len(sets)), nil
		}
		in, err := stack(sets)
		if err != nil {
			return nil, err
		}
		out, err := target(in)
		if err != nil || out == nil {
			return nil, err
		}
		return unstack(out, len(sets))
	}
	known, left := make([]map[ir.ValueID]*ir.Tensor, len(sets)), p.Fixed.Outputs
	entering := make([][]*ir.Tensor, len(sets))
	for k, set := range sets {
		if set == nil {
			continue // of a run without data
		}
		var err error
		if known[k], err = p.before(ctx, set); err != nil {
			return nil, err
		}
		entering[k] = pick(p.parts.Chip.In, known[k])
	}
	if p.Chip != nil {
		in, err := stack(entering)
		if err != nil {
			return nil, err
		}
		out, err := target(in)
		if err != nil || out == nil {
			return nil, err
		}
		each, err := unstack(out, len(sets))
		if err != nil {
			return nil, err
		}
		leaving := slices.Clone(p.parts.Chip.Out)
		if len(out) < len(leaving) { // it keeps states
			isState := func(id ir.ValueID) bool {
				return slices.ContainsFunc(p.States, func(s ir.State) bool { return p.Fixed.Outputs[s.Out] == id })
			}
			leaving = slices.DeleteFunc(leaving, isState)
			left = slices.DeleteFunc(slices.Clone(left), isState)
		}
		for k := range sets {
			for i, id := range leaving {
				known[k][id] = each[k][i]
			}
		}
	}
	outs := make([][]*ir.Tensor, len(sets))
	for k := range sets {
		if err := onHost(ctx, &p.parts.After, known[k]); err != nil {
			return nil, err
		}
		outs[k] = pick(left, known[k])
	}
	return outs, nil
}

// entering returns what the target reads for each set of inputs.
func (p *Prepared) entering(ctx context.Context, sets [][]*ir.Tensor) ([][]*ir.Tensor, error) {
	if p.parts == nil {
		return sets, nil
	}
	out := make([][]*ir.Tensor, len(sets))
	for k, set := range sets {
		if set == nil {
			continue // of a run without data
		}
		known, err := p.before(ctx, set)
		if err != nil {
			return nil, err
		}
		out[k] = pick(p.parts.Chip.In, known)
	}
	return out, nil
}

// before runs what the host does first and returns the values known then.
func (p *Prepared) before(ctx context.Context, inputs []*ir.Tensor) (map[ir.ValueID]*ir.Tensor, error) {
	known := map[ir.ValueID]*ir.Tensor{}
	for i, t := range inputs {
		known[p.Fixed.Inputs[i]] = t
	}
	for _, id := range p.Fixed.Outputs {
		if c := p.Fixed.Value(id).Const; c != nil {
			known[id] = c
		}
	}
	return known, onHost(ctx, &p.parts.Before, known)
}

// onHost runs a part on the evaluator and adds its outputs to the known values.
func onHost(ctx context.Context, part *passes.Part, known map[ir.ValueID]*ir.Tensor) error {
	if part.Graph == nil {
		return nil
	}
	out, err := evaluate(ctx, part.Graph, pick(part.In, known))
	if err != nil {
		return fmt.Errorf("on the host: %w", err)
	}
	for i, id := range part.Out {
		known[id] = out[i]
	}
	return nil
}

func pick(ids []ir.ValueID, from map[ir.ValueID]*ir.Tensor) []*ir.Tensor {
	out := make([]*ir.Tensor, len(ids))
	for i, id := range ids {
		out[i] = from[id]
	}
	return out
}

// outputs returns the names of the model's outputs.
func (m *Model) outputs() []string {
	if m.Host != nil {
		return m.Host.Outputs
	}
	return outputNames(m.Graph)
}

// finish returns the outputs of the model from those of its graph. spent, unless
// nil, is told the elementary operations of each node that depends on data.
func (m *Model) finish(ctx context.Context, inputs, outputs []*ir.Tensor, spent func(node int, work int64)) ([]*ir.Tensor, error) {
	if m.Host == nil {
		return outputs, nil
	}
	out, err := m.Host.Run(ctx, inputs, outputs, onnx.HostOptions{MemoryLimit: passes.MemoryLimit, Work: passes.Work, Spent: spent})
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	return out, nil
}

// finish is Model.finish for several sets; the work of the first is remembered for
// reports.
func (p *Prepared) finish(ctx context.Context, inputs, outputs [][]*ir.Tensor) ([][]*ir.Tensor, error) {
	all := make([][]*ir.Tensor, len(outputs))
	for k := range outputs {
		var spent func(int, int64)
		if k == 0 && p.Model.Host != nil {
			p.spent = make([]int64, len(p.Model.Host.Nodes))
			spent = func(node int, work int64) { p.spent[node] = work }
		}
		var err error
		if all[k], err = p.Model.finish(ctx, inputs[k], outputs[k], spent); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// describeHost fills in what a result says of the host.
func (p *Prepared) describeHost(r *Result) {
	m := p.Model
	if p.parts == nil && m.Host == nil {
		return
	}
	g := p.Fixed
	total, late := int64(0), int64(0)
	for i := range g.Ops {
		total += passes.Work(g, &g.Ops[i])
	}
	for _, w := range p.spent {
		late += w
	}
	whole := float64(max(total+late, 1))
	r.Host = &Host{Share: float64(late) / whole, Uncounted: m.Host != nil && p.spent == nil}
	r.Fallback = slices.Clone(p.Fallback)
	leaving := map[ir.ValueID]bool{}
	if p.parts != nil {
		r.Fallback = slices.DeleteFunc(r.Fallback, func(f Fallback) bool { return p.hosts(f) })
		for _, i := range p.parts.Host {
			op := &g.Ops[i]
			r.Fallback = append(r.Fallback, Fallback{Node: op.Name, Op: op.Kind.String(), Share: float64(passes.Work(g, op)) / whole, On: OnHost})
		}
		r.Host.Share += p.parts.HostShare * float64(total) / whole
		for _, id := range p.parts.Before.Out {
			if slices.Contains(p.parts.Chip.In, id) {
				r.Host.BytesFrom += g.Type(id).Bytes()
			}
		}
		for _, id := range p.parts.After.In {
			leaving[id] = slices.Contains(p.parts.Chip.Out, id)
		}
	}
	if m.Host != nil {
		for i, n := range m.Host.Nodes {
			f := Fallback{Node: n.Node, Op: n.Op, On: OnHost}
			if p.spent != nil {
				f.Share = float64(p.spent[i]) / whole
			}
			r.Fallback = append(r.Fallback, f)
		}
		for _, i := range m.Host.Reads() {
			id := g.Outputs[i]
			leaving[id] = p.parts == nil || slices.Contains(p.parts.Chip.Out, id)
		}
	}
	for id, over := range leaving {
		if over {
			r.Host.BytesTo += g.Type(id).Bytes()
		}
	}
	n := int64(m.batch())
	r.Host.BytesTo, r.Host.BytesFrom = r.Host.BytesTo/n, r.Host.BytesFrom/n
}

// hostShare returns what share of the element operations the host runs, 1 when a
// target has none.
func (p *Prepared) hostShare() float64 {
	r := &Result{}
	switch p.describeHost(r); {
	case p.Chip == nil:
		return 1
	case r.Host == nil:
		return 0
	}
	return r.Host.Share
}

// hosts reports whether the host runs an operator that is named as a fallback.
func (p *Prepared) hosts(f Fallback) bool {
	return slices.ContainsFunc(p.parts.Host, func(i int) bool {
		return p.Fixed.Ops[i].Name == f.Node && p.Fixed.Ops[i].Kind.String() == f.Op
	})
}

// hostWarnings says what a program that stands alone leaves out.
func (p *Prepared) hostWarnings() []string {
	nodes := p.hostNodes()
	if nodes == "" {
		return nil
	}
	return []string{"the program holds the target's part of the model alone, without " + nodes + ", which the host runs: run the model itself for its outputs"}
}

// hostNodes lists the operators that the host runs, "" when there are none.
func (p *Prepared) hostNodes() string {
	r := &Result{}
	p.describeHost(r)
	var parts []string
	for _, f := range r.Fallback {
		if f.On == OnHost {
			parts = append(parts, fmt.Sprintf("%s %q", f.Op, f.Node))
		}
	}
	const shown = 8
	if len(parts) > shown {
		parts = append(parts[:shown], fmt.Sprintf("and %d more", len(parts)-shown))
	}
	return strings.Join(parts, ", ")
}

// leftToHost says why a model has an end that the host runs, "" when it has none.
func (m *Model) leftToHost() string {
	if m.Host == nil {
		return ""
	}
	n := m.Host.Nodes[0]
	s := fmt.Sprintf("node %q (%s) depends on data (%s): the host runs it", n.Node, n.Op, n.Reason)
	if more := len(m.Host.Nodes) - 1; more > 0 {
		s += " and " + plural(more, "node more", "nodes more")
	}
	return s
}

// allHost is errAllHost with a reason.
func (p *Prepared) allHost() error {
	if why := p.Model.leftToHost(); why != "" {
		return fmt.Errorf("%w: %s", errAllHost, why)
	}
	return errAllHost
}
