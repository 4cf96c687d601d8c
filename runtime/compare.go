package runtime

import (
	"context"
	"errors"

	"situ/ir"
)

// Accuracy is top-1 on labelled data.
type Accuracy struct {
	Images       int
	Float, Fixed float64 // shares of right answers
	SameBits     bool    // emulator and evaluator agree on every output
}

// Comparison is one model on several targets.
type Comparison struct {
	Title    string
	Results  []*Result
	Accuracy *Accuracy // nil without labelled data or a processing-in-memory target
	Warnings []string
}

// Compare runs a model on each target: compiled and emulated on
// processing-in-memory architectures, by the analytic model on GPUs.
func Compare(ctx context.Context, name string, on []string, mo ModelOptions, q QuantOptions) (*Comparison, error) {
	if len(on) == 0 {
		return nil, errors.New("no target given")
	}
	var targets []*Target
	for _, n := range on {
		t, err := OpenTarget(n)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	p, err := Prepare(ctx, m, q)
	if err != nil {
		return nil, err
	}
	inputs, warnings, err := chooseInputs(m, nil, q, Full)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Title: title(p), Warnings: append(p.Warnings, warnings...)}
	for _, t := range targets {
		if t.GPU != nil {
			r, err := runGPU(p, t)
			if err != nil {
				return nil, err
			}
			c.Results = append(c.Results, r)
			continue
		}
		r, outputs, err := runPIM(ctx, p, t, inputs, RunOptions{})
		if err != nil {
			return nil, err
		}
		r.Fallback = p.Fallback
		r.Outputs = describe(outputNames(m.Graph), outputs)
		if r.Agreement, err = agreement(ctx, p, inputs, outputs); err != nil {
			return nil, err
		}
		c.Results = append(c.Results, r)
		if c.Accuracy == nil && m.Ships != nil {
			if c.Accuracy, err = accuracy(ctx, p, t); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// accuracy measures top-1 of a model that ships on its test images, on the
// evaluator in float, and on evaluator and emulator in fixed point.
func accuracy(ctx context.Context, p *Prepared, t *Target) (*Accuracy, error) {
	images, labels, err := p.Model.Ships.Test()
	if err != nil {
		return nil, err
	}
	shape := p.Model.Graph.Type(p.Model.Graph.Inputs[0]).Shape
	inputs := make([][]*ir.Tensor, len(images))
	for i := range images {
		inputs[i] = []*ir.Tensor{ir.NewTensor(ir.F32, shape, images[i])}
	}
	float, err := outputsOf(ctx, p.Model.Graph, inputs)
	if err != nil {
		return nil, err
	}
	fixed, err := outputsOf(ctx, p.Fixed, inputs)
	if err != nil {
		return nil, err
	}
	a := &Accuracy{Images: len(images), SameBits: true}
	for i := range inputs {
		got, err := emulate(ctx, p, t, inputs[i])
		if err != nil {
			return nil, err
		}
		a.SameBits = a.SameBits && sameBits(got[0], fixed[i])
		if argmax(reals(float[i])) == int(labels[i]) {
			a.Float += 1 / float64(len(images))
		}
		if argmax(reals(got[0])) == int(labels[i]) {
			a.Fixed += 1 / float64(len(images))
		}
	}
	return a, nil
}
