package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"situ/backend/pim/isa"
	"situ/ir"
)

// Words for ModelOptions.States beside pairs IN=OUT.
const (
	AutoStates = "auto" // those that the names of inputs and outputs give away
	NoStates   = "none" // not even those
)

// statesOf returns the states of a graph that ModelOptions.States names.
func statesOf(g *ir.Graph, words []string) ([]ir.State, error) {
	var states []ir.State
	for _, w := range words {
		if w == NoStates || w == AutoStates {
			continue
		}
		s, err := ir.StateNamed(g, w)
		if err != nil {
			return nil, fmt.Errorf("state %s: %w", w, err)
		}
		if slices.ContainsFunc(states, func(o ir.State) bool { return o.In == s.In || o.Out == s.Out }) {
			return nil, fmt.Errorf("state %s: its input or output belongs to another state already", w)
		}
		states = append(states, s)
	}
	if !slices.Contains(words, AutoStates) || slices.Contains(words, NoStates) {
		return states, nil
	}
	for _, s := range ir.StatesByName(g) {
		if !slices.ContainsFunc(states, func(o ir.State) bool { return o.In == s.In || o.Out == s.Out }) {
			states = append(states, s)
		}
	}
	return states, nil
}

// keepStates keeps the states whose two ends came out of the passes alike.
func (p *Prepared) keepStates(states []ir.State) {
	for _, s := range states {
		x, y := p.Fixed.Value(p.Fixed.Inputs[s.In]), p.Fixed.Value(p.Fixed.Outputs[s.Out])
		if op := p.Fixed.DefOp(p.Fixed.Outputs[s.Out]); x.Type.Quant != nil && op != nil && op.Kind == ir.Dequantize {
			y = p.Fixed.Value(op.In[0]) // the input is given as codes
		}
		if x.Type.DType != y.Type.DType || !x.Type.Quant.Equal(y.Type.Quant) {
			p.unkept = append(p.unkept, fmt.Sprintf("input %q is %s and output %q %s: they are passed from run to run, not kept", x.Name, x.Type, y.Name, y.Type))
			p.Warnings = append(p.Warnings, p.unkept[len(p.unkept)-1])
			continue
		}
		p.States = append(p.States, s)
	}
	p.passStates()
}

// passStates gives up the states that the host makes or reads, as it runs part of the
// model: it hands them over with each run.
func (p *Prepared) passStates() {
	if p.parts == nil {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(p.States), func(s ir.State) bool {
		in, out := p.Fixed.Inputs[s.In], p.Fixed.Outputs[s.Out]
		after := func(id ir.ValueID) bool { return slices.Contains(p.parts.After.In, id) }
		return !slices.Contains(p.parts.Chip.In, in) || slices.Contains(p.parts.Before.In, in) || after(in) ||
			!slices.Contains(p.parts.Chip.Out, out) || after(out) || p.Model.Host != nil && slices.Contains(p.Model.Host.Reads(), s.Out)
	})
	if n := len(p.States) - len(kept); n > 0 {
		p.unkept = append(p.unkept, fmt.Sprintf("the host runs part of the model: %s passed from run to run, not kept", plural(n, "state is", "states are")))
		p.Warnings = append(p.Warnings, p.unkept[len(p.unkept)-1])
	}
	p.States = kept
}

// chipStates returns the states as p.Chip names them.
func (p *Prepared) chipStates() []ir.State {
	if p.parts == nil {
		return p.States
	}
	states := slices.Clone(p.States)
	for i, s := range states {
		states[i].In = slices.Index(p.parts.Chip.In, p.Fixed.Inputs[s.In])
		states[i].Out = slices.Index(p.parts.Chip.Out, p.Fixed.Outputs[s.Out])
	}
	return states
}

// visible returns the positions of the outputs that a program gives: all but states.
func (p *Prepared) visible() []int {
	return slices.DeleteFunc(allOf(len(p.Fixed.Outputs)), func(i int) bool {
		return slices.ContainsFunc(p.States, func(s ir.State) bool { return s.Out == i })
	})
}

// outputs returns the names of the model's outputs but states.
func (p *Prepared) outputs() []string {
	if p.Model.Host != nil {
		return p.Model.outputs()
	}
	return namesOf(p.Model.Graph, p.visible())
}

// allOf returns 0 to n−1.
func allOf(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// namesOf returns the names of outputs.
func namesOf(g *ir.Graph, positions []int) []string {
	var names []string
	for _, i := range positions {
		names = append(names, g.Value(g.Outputs[i]).Name)
	}
	return names
}

// maxSteps bounds RunOptions.Steps.
const maxSteps = 1 << 16

// stepInputs is the function stepInputs for a prepared model.
func (p *Prepared) stepInputs(inputs []*ir.Tensor, sets [][]named, o RunOptions) ([][]*ir.Tensor, error) {
	if o.Steps > 1 && len(p.States) == 0 && len(p.unkept) > 0 {
		return nil, fmt.Errorf("model %q keeps no state for %d steps to go on with: %s", p.Model.Name, o.Steps, strings.Join(p.unkept, "; "))
	}
	kept := map[int]bool{}
	for _, s := range p.States {
		kept[s.In] = true
	}
	return stepInputs(p.Model, kept, inputs, sets, o)
}

// stepInputs returns the inputs of each step of a run: those of the first, and for
// each later one those of the next set, or the last, with nil for what is kept.
func stepInputs(m *Model, kept map[int]bool, inputs []*ir.Tensor, sets [][]named, o RunOptions) ([][]*ir.Tensor, error) {
	steps := [][]*ir.Tensor{inputs}
	switch {
	case o.Steps <= 1:
		return steps, nil
	case o.Steps > maxSteps:
		return nil, fmt.Errorf("%d steps, at most %d are run", o.Steps, maxSteps)
	case len(kept) == 0:
		return nil, fmt.Errorf("model %q keeps no state for %d steps to go on with: name its pairs by --state IN=OUT", m.Name, o.Steps)
	case o.Mode == TimingOnly:
		return steps, nil
	}
	for k := 1; k < o.Steps; k++ {
		in := slices.Clone(inputs)
		if set := sets[min(k, len(sets)-1)]; len(sets) > 1 {
			var err error
			if in, err = m.bind(set); err != nil {
				return nil, fmt.Errorf("step %d: %w", k+1, err)
			}
		}
		for i := range in {
			if kept[i] {
				in[i] = nil
			}
		}
		steps = append(steps, in)
	}
	return steps, nil
}

// goOn runs the steps behind the first, which gave outputs, on a program of a prepared
// model, of which the host may run part, and returns the outputs of all.
func (p *Prepared) goOn(ctx context.Context, c *compiled, steps [][]*ir.Tensor, outputs []*ir.Tensor) ([][]*ir.Tensor, error) {
	return goOn(steps, outputs, func(in []*ir.Tensor) ([]*ir.Tensor, error) {
		out, err := p.through(ctx, [][]*ir.Tensor{in}, func(in []*ir.Tensor) ([]*ir.Tensor, error) { return c.outputs(ctx, in) })
		if err != nil {
			return nil, err
		}
		return out[0], nil
	})
}

// goOn is Prepared.goOn for a program that stands alone.
func (c *compiled) goOn(ctx context.Context, steps [][]*ir.Tensor, outputs []*ir.Tensor) ([][]*ir.Tensor, error) {
	return goOn(steps, outputs, func(in []*ir.Tensor) ([]*ir.Tensor, error) { return c.outputs(ctx, in) })
}

// outputs runs a program without time and energy.
func (c *compiled) outputs(ctx context.Context, in []*ir.Tensor) ([]*ir.Tensor, error) {
	_, out, err := c.run(ctx, in, FunctionalOnly, 1, nil)
	return out, err
}

func goOn(steps [][]*ir.Tensor, outputs []*ir.Tensor, run func(in []*ir.Tensor) ([]*ir.Tensor, error)) ([][]*ir.Tensor, error) {
	all := [][]*ir.Tensor{outputs}
	for k, in := range steps[1:] {
		out, err := run(in)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", k+2, err)
		}
		all = append(all, out)
	}
	return all, nil
}

// stepsAgree compares the outputs of steps with the evaluator's, to which the state is
// passed from step to step, on the fixed-point graph and on the model as it came.
func (p *Prepared) stepsAgree(ctx context.Context, steps, outputs [][]*ir.Tensor) (*Agreement, error) {
	a := agreeing{exact: true, d: difference{exact: true}}
	fixedIn, floatIn := slices.Clone(steps[0]), slices.Clone(steps[0])
	positions := p.visible()
	for k := range steps {
		for i, t := range steps[k] {
			if t != nil {
				fixedIn[i], floatIn[i] = t, t
			}
		}
		fixed, err := evaluate(ctx, p.Fixed, fixedIn)
		if err != nil {
			return nil, err
		}
		float, err := evaluate(ctx, p.Model.Graph, floatIn)
		if err != nil {
			return nil, err
		}
		a.add(outputs[k], fixed, float, positions)
		for _, s := range p.States {
			fixedIn[s.In] = s.Next(fixedIn[s.In], fixed[s.Out], k)
			floatIn[s.In] = s.Next(floatIn[s.In], float[s.Out], k)
		}
	}
	return a.result(), nil
}

// stateOf says where a program keeps its state, nil when it has none.
func stateOf(p *isa.Program) *KeptState {
	if len(p.States) == 0 {
		return nil
	}
	k := &KeptState{Tensors: len(p.States)}
	for _, s := range p.States {
		if k.NewBytes += s.New; s.Spilled {
			k.SpilledBytes += s.Bytes
		} else {
			k.ResidentBytes += s.Bytes
		}
	}
	return k
}
