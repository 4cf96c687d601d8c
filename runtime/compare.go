package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"situ/backend/pim"
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

// CompareOptions say what Compare runs.
type CompareOptions struct {
	// Batches are the inputs of one run, a result for each on every target. Without
	// any, one input alone, with the target's best throughput beside.
	Batches []int
	// Exact runs everything in whole, however long it takes: outputs of large
	// batches, and every thread block of GPU kernels.
	Exact bool
	// Progress is told what is being done, as a phrase; it may be nil.
	Progress func(string)
}

func (o *CompareOptions) tell(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// wholeMACs is how many multiply-accumulates a run of a batch may have for its
// outputs to be computed and compared: some seconds.
const wholeMACs = 4e9

// Compare runs a model on each target: compiled and emulated on
// processing-in-memory architectures; compiled to kernels whose work is counted on
// GPUs, or by the analytic model where there are none. A model whose weights are
// described is timed only.
func Compare(ctx context.Context, name string, on []string, mo ModelOptions, q QuantOptions, o CompareOptions) (*Comparison, error) {
	if len(on) == 0 {
		return nil, errors.New("no target given")
	}
	var targets []*Target
	for _, n := range on {
		t, err := OpenTarget(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(targets, func(u *Target) bool { return u.Name == t.Name }) {
			return nil, fmt.Errorf("two targets are called %s: give each once, and architecture files names of their own", t.Name)
		}
		targets = append(targets, t)
	}
	for i, n := range o.Batches {
		if err := checkBatch(n); err != nil {
			return nil, err
		}
		if slices.Contains(o.Batches[:i], n) {
			return nil, fmt.Errorf("batch %d is given twice", n)
		}
	}
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	if len(o.Batches) > 0 && m.batch() > 1 {
		return nil, fmt.Errorf("model %s: a run takes %d inputs already; leave out --dim %s=%d to compare batches", m.Name, m.Batch, m.batchDim, m.Batch)
	}
	o.tell("quantising %s", m.Name)
	p, err := Prepare(ctx, m, q)
	if err != nil {
		return nil, err
	}
	batches, most := o.Batches, 1
	if len(batches) == 0 {
		batches = []int{1}
		for _, t := range targets {
			if t.GPU != nil {
				most = throughputBatch
			}
		}
	}
	inputs := make([][]*ir.Tensor, max(most, slices.Max(batches)))
	if !p.described() {
		if inputs, err = ownInputs(m, q, len(inputs)); err != nil {
			return nil, err
		}
	}
	// Every target runs the same part of the model: what all the chips take.
	for _, t := range targets {
		if t.Chip == nil {
			continue
		}
		if err := p.trying(func(g *ir.Graph) error { return pim.Takes(g, t.Chip) }); err != nil {
			return nil, fmt.Errorf("model %s on %s: %w", m.Name, t.Name, err)
		}
	}
	if p.Chip == nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, p.allHost())
	}
	c := &Comparison{Title: title(p, o.Batches == nil), Warnings: p.Warnings}
	for _, t := range targets {
		for _, n := range batches {
			b, err := p.batch(n)
			if err != nil {
				return nil, err
			}
			what := fmt.Sprintf("%s on %s, batch %d, column %d of %d", m.Name, t.Name, n*m.batch(), len(c.Results)+1, len(targets)*len(batches))
			r, err := b.compareOn(ctx, t, p, inputs, o, what)
			if err != nil {
				return nil, err
			}
			c.Results = append(c.Results, r)
		}
		if c.Accuracy == nil && m.Ships != nil && t.Chip != nil {
			o.tell("%s on %s: top-1 of its test images", m.Name, t.Name)
			if c.Accuracy, err = accuracy(ctx, p, t); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// compareOn runs the prepared model b, a batch of one, on a target. What says so to
// those who watch.
func (b *Prepared) compareOn(ctx context.Context, t *Target, one *Prepared, inputs [][]*ir.Tensor, o CompareOptions, what string) (*Result, error) {
	sets := inputs[:b.Batch]
	var r *Result
	got, err := b.through(ctx, sets, func(in []*ir.Tensor) (outputs []*ir.Tensor, err error) {
		if t.GPU != nil {
			o.tell("%s: counting kernels", what)
			var steady [][]*ir.Tensor
			if o.Batches == nil {
				if steady, err = b.entering(ctx, inputs[:throughputBatch]); err != nil {
					return nil, err
				}
			}
			r, outputs, err = runGPU(ctx, b, t, in, o, steady)
			if err == nil && b.Model.growth != nil {
				r.Notes = append(r.Notes, "kernels do not append to a cache in place: each step reads it and writes it anew, with what is new behind")
			}
			return outputs, err
		}
		o.tell("%s: compiling and emulating", what)
		ro := RunOptions{}
		if b.described() || float64(b.MACs)*float64(b.Batch) > wholeMACs && b.Batch > 1 && !o.Exact {
			ro.Mode = TimingOnly
		}
		if r, outputs, err = runPIM(ctx, b, t, in, ro); err == nil && o.Batches == nil {
			err = r.steadyBatch(ctx, b, t)
		}
		return outputs, err
	})
	if err != nil {
		return nil, err
	}
	if got != nil {
		o.tell("%s: comparing outputs with the reference evaluator's", what)
		positions := one.visible()
		if t.GPU != nil {
			positions = allOf(len(one.Fixed.Outputs))
		}
		if r.Outputs, err = b.describeOutputs(ctx, sets, got, positions); err != nil {
			return nil, err
		}
		if r.Agreement, err = agreement(ctx, one, sets, got, positions); err != nil {
			return nil, err
		}
	}
	b.describe(r)
	r.perInference(b.Batch * one.Model.batch())
	return r, nil
}

// describeOutputs identifies the outputs of a batch: as one tensor each, or for each
// entry where the host made some, which need not have a dimension for entries nor be
// of one shape. got are those of p.Fixed at the given positions.
func (p *Prepared) describeOutputs(ctx context.Context, inputs, got [][]*ir.Tensor, positions []int) ([]Output, error) {
	of := namesOf(p.Model.Graph, positions)
	if p.Model.Host == nil && !slices.ContainsFunc(got[0], func(t *ir.Tensor) bool { return len(t.Shape) == 0 || t.Shape[0] != 1 }) {
		all, err := stack(got)
		if err != nil {
			return nil, err
		}
		return describe(of, all), nil
	}
	if p.Model.Host != nil {
		var err error
		if got, err = p.finish(ctx, inputs, got); err != nil {
			return nil, err
		}
		of = p.Model.outputs()
	}
	var list []Output
	for k, set := range got {
		names := slices.Clone(of)
		for i := range names {
			if len(got) > 1 {
				names[i] = fmt.Sprintf("%s[%d]", names[i], k)
			}
		}
		list = append(list, describe(names, set)...)
	}
	return list, nil
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
