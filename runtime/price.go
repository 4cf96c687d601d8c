package runtime

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"situ/arch"
	"situ/backend/pim"
	"situ/emulator"
	"situ/ir"
	"situ/ir/eval"
)

// Cost is what one prepared model costs on one chip.
type Cost struct {
	LatencyS    float64
	Cycles      int64
	Energy      Energy // of one inference alone
	Bytes       Bytes
	ThroughputS float64 // runs a second at steady state; 0 when not asked for
	Steady      Energy  // of one run at steady state
	Clusters    int     // that one copy of the program uses
	Streamed    bool    // weights are read from DRAM in every inference
}

// Price compiles a prepared model for a chip and runs it in the timing model.
// clusters is how many one copy of the program uses, 0 for the compiler's choice.
// Steady-state figures are filled only when asked for. Unlike RunModel it keeps
// nothing, and is safe for concurrent use.
func Price(ctx context.Context, p *Prepared, chip *arch.Chip, clusters int, steady bool) (Cost, error) {
	return price(ctx, chip, clusters, steady, func(o pim.Options) (*compiled, error) {
		o.Quant, o.States = p.Quant, p.chipStates()
		return p.fresh(&Target{Name: chip.Name, Chip: chip}, o)
	})
}

// Pricer gives the figures of Price for many chips, in a fraction of its time: it
// lowers the model once, packs no weights, and does not prove what it places. It
// is not safe for concurrent use.
type Pricer struct {
	*pim.Planner
	name string
}

// NewPricer returns a Pricer of a prepared model; chip may be any chip.
func NewPricer(p *Prepared, chip *arch.Chip) (*Pricer, error) {
	if p.Chip == nil {
		return nil, fmt.Errorf("model %s: %w", p.Model.Name, p.allHost())
	}
	planner, err := pim.NewPlanner(p.Chip, chip, p.chipStates()...)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", p.Model.Name, err)
	}
	return &Pricer{planner, p.Model.Name}, nil
}

// Price is what the function Price returns.
func (p *Pricer) Price(ctx context.Context, chip *arch.Chip, clusters int, steady bool) (Cost, error) {
	return price(ctx, chip, clusters, steady, func(o pim.Options) (*compiled, error) {
		prog, err := p.Program(chip, o)
		if err != nil {
			return nil, fmt.Errorf("model %s on %s: %w", p.name, chip.Name, err)
		}
		return &compiled{prog, emulator.LoadTrusted(prog, chip)}, nil
	})
}

func price(ctx context.Context, chip *arch.Chip, clusters int, steady bool, compile func(pim.Options) (*compiled, error)) (Cost, error) {
	t := &Target{Name: chip.Name, Chip: chip}
	one, err := compile(pim.Options{Objective: pim.Latency, Clusters: clusters})
	if err != nil {
		return Cost{}, err
	}
	r, _, err := one.run(ctx, nil, TimingOnly, 1, nil)
	if err != nil {
		return Cost{}, err
	}
	c := Cost{
		LatencyS: seconds(r.LatencyPS), Cycles: r.Cycles, Energy: Energy(r.Energy), Bytes: Bytes(r.Bytes),
		Clusters: len(one.program.Main), Streamed: one.program.Streams(),
	}
	c.LatencyS *= c.Energy.limit(c.LatencyS, chip)
	if !steady {
		return c, nil
	}
	s, err := one.steady(ctx, t)
	if err != nil {
		return Cost{}, err
	}
	many, err := compile(pim.Options{Objective: pim.Throughput, Clusters: clusters})
	if err != nil {
		return Cost{}, err
	}
	s2, err := many.steady(ctx, t)
	if err != nil {
		return Cost{}, err
	}
	if s2.perS > s.perS {
		s = s2
	}
	c.ThroughputS, c.Steady = s.perS, s.energy
	return c, nil
}

// fresh compiles without looking at or filling the cache of programs.
func (p *Prepared) fresh(t *Target, o pim.Options) (*compiled, error) {
	if p.Chip == nil {
		return nil, fmt.Errorf("model %s: %w", p.Model.Name, p.allHost())
	}
	prog, err := pim.Compile(p.Chip, t.Chip, o)
	if err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", p.Model.Name, t.Name, err)
	}
	c, err := load(prog, t.Chip)
	if err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", p.Model.Name, t.Name, err)
	}
	return c, nil
}

// Labelled is what a model that ships gives for its labelled test inputs.
type Labelled struct {
	prepared *Prepared
	inputs   [][]*ir.Tensor
	labels   []byte
	outputs  [][]*ir.Tensor // of the reference evaluator, in fixed point
	Top1     float64        // share of them that is right
}

// NewLabelled runs the reference evaluator on the test inputs of a prepared
// model. It returns nil when the model ships none.
func NewLabelled(ctx context.Context, p *Prepared) (*Labelled, error) {
	if p.Model.Ships == nil {
		return nil, nil
	}
	images, labels, err := p.Model.Ships.Test()
	if err != nil || len(images) == 0 {
		return nil, err
	}
	e, err := eval.New(p.Fixed)
	if err != nil {
		return nil, err
	}
	l := &Labelled{prepared: p, labels: labels, inputs: make([][]*ir.Tensor, len(images)), outputs: make([][]*ir.Tensor, len(images))}
	shape := p.Fixed.Type(p.Fixed.Inputs[0]).Shape
	if ir.Numel(shape) != len(images[0]) {
		return nil, fmt.Errorf("model %s: its labelled images are single ones of %d values, its input is %v", p.Model.Name, len(images[0]), shape)
	}
	var next atomic.Int64
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(images) {
					return
				}
				l.inputs[i] = []*ir.Tensor{ir.NewTensor(ir.F32, shape, images[i])}
				l.outputs[i], errs[w] = e.Run(ctx, l.inputs[i], eval.Options{})
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	l.Top1 = l.top1(l.outputs)
	return l, nil
}

func (l *Labelled) top1(outputs [][]*ir.Tensor) float64 {
	right := 0
	for i, out := range outputs {
		if argmax(reals(out[0])) == int(l.labels[i]) {
			right++
		}
	}
	return float64(right) / float64(len(outputs))
}

// Emulate runs all labelled inputs through the compiled program on a chip, bit
// for bit. It returns the share that is right, and whether every output equals
// the evaluator's.
func (l *Labelled) Emulate(ctx context.Context, chip *arch.Chip, clusters int) (top1 float64, sameAll bool, err error) {
	c, err := l.prepared.fresh(&Target{Name: chip.Name, Chip: chip}, pim.Options{Clusters: clusters, Quant: l.prepared.Quant, States: l.prepared.chipStates()})
	if err != nil {
		return 0, false, err
	}
	sameAll = true
	outputs := make([][]*ir.Tensor, len(l.inputs))
	for i, in := range l.inputs {
		if _, outputs[i], err = c.run(ctx, in, FunctionalOnly, 1, nil); err != nil {
			return 0, false, err
		}
		for k := range outputs[i] {
			sameAll = sameAll && sameBits(outputs[i][k], l.outputs[i][k])
		}
	}
	return l.top1(outputs), sameAll, nil
}
