package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"situ/arch"
	"situ/backend/gpu"
	"situ/ir"
)

// throughputBatch is the batch at which the steady throughput of a GPU is taken
// unless one is given: large enough that kernels fill the device, as GPUs are run
// for throughput.
const throughputBatch = 128

// Where the figures of a result come from.
const (
	Emulated = "emulated" // a compiled program on the emulator
	Counted  = "counted"  // compiled kernels on the PTX emulator, in whole
	Sampled  = "sampled"  // compiled kernels on the PTX emulator, some thread blocks of large grids
	Analytic = "analytic" // a model that looks at the graph alone
)

// gpuRun is what a batch costs on a GPU.
type gpuRun struct {
	*gpu.Report
	method  string
	outputs []*ir.Tensor // nil unless counted in whole
	notes   []string
}

// runGPU says what one run of a prepared model costs on a GPU, from its kernels on
// the PTX emulator where they can be made, else by the analytic model with a note
// that says why. Outputs are nil unless the kernels were run in whole. The steady
// figures are those of a batch of all inputs in steady, or without any of the run
// itself.
func runGPU(ctx context.Context, p *Prepared, t *Target, inputs []*ir.Tensor, o CompareOptions, steady [][]*ir.Tensor) (*Result, []*ir.Tensor, error) {
	start := time.Now()
	one, err := p.onGPU(ctx, t, inputs, o)
	if err != nil {
		return nil, nil, err
	}
	r := &Result{
		Model: p.Model.Name, Target: t.Name, Quant: p.Quant, Method: one.method,
		LatencyS: one.LatencyS, ThroughputS: 1 / one.LatencyS,
		Cycles: one.Cycles, MACs: one.MACs, Utilisation: one.Utilisation, UtilisationTP: one.Utilisation,
		Energy: gpuEnergy(one.Energy, 1), Steady: gpuEnergy(one.Energy, 1), Bytes: Bytes(one.Bytes), Compulsory: one.CompulsoryBytes,
		Fallback: p.Fallback, Outputs: []Output{}, Peak: t.Peak(), Notes: append(one.notes, one.Notes...),
	}
	for _, l := range one.Layers {
		r.Layers = append(r.Layers, LayerCost{Name: l.Name, Op: l.Op, MACs: l.MACs, TimeS: l.TimeS, Energy: dynamic(gpuEnergy(l.Energy, 1)), Bytes: Bytes(l.Bytes), Mapping: l.Mapping, Bound: l.Bound})
	}
	if steady != nil {
		if err := r.steadyGPU(ctx, p, t, steady, o); err != nil {
			return nil, nil, err
		}
	}
	r.HostSPerRun = time.Since(start).Seconds()
	return r, one.outputs, nil
}

// steadyGPU enters the figures of a batch as those at steady state, where the model
// takes a batch and fits in memory with it.
func (r *Result) steadyGPU(ctx context.Context, p *Prepared, t *Target, sets [][]*ir.Tensor, o CompareOptions) error {
	n, many := len(sets), &gpuRun{method: r.Method}
	var err error
	if r.Method == Analytic {
		many.Report, err = gpu.Estimate(p.Chip, t.GPU, gpu.Options{Batch: n})
	} else {
		var b *Prepared
		if b, err = p.batch(n); err == nil {
			var inputs []*ir.Tensor
			if inputs, err = stack(sets); err != nil {
				return err
			}
			many, err = b.onGPU(ctx, t, inputs, o)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && many.method == Analytic {
			err = errors.New(many.notes[0])
		}
	}
	if err != nil { // one input may run where a batch does not
		r.SteadyAlone = true
		r.Notes = append(r.Notes, fmt.Sprintf("steady figures are those of one input after the other: batch %d: %v", n*p.Model.batch(), err))
		return nil
	}
	if many.ThroughputPerS > r.ThroughputS {
		r.ThroughputS, r.UtilisationTP = many.ThroughputPerS, many.Utilisation
		r.Steady = gpuEnergy(many.Energy, float64(n))
		note := fmt.Sprintf("steady figures are at batch %d", n*p.Model.batch())
		if many.method == Sampled && r.Method != Sampled {
			note += ", counted on samples of thread blocks"
		}
		r.Notes = append(r.Notes, note)
	}
	return nil
}

// onGPU counts what the kernels of a prepared model do, and prices it.
func (p *Prepared) onGPU(ctx context.Context, t *Target, inputs []*ir.Tensor, o CompareOptions) (*gpuRun, error) {
	// The estimate knows the compulsory bytes and whether all fits in memory.
	est, err := gpu.Estimate(p.Chip, t.GPU, gpu.Options{Batch: 1})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	compile, whole := gpu.Compile, float64(wholeBudget)
	switch {
	case p.described():
		compile, whole = gpu.Outline, 0
	case o.Exact:
		whole = math.Inf(1)
	}
	prog, err := compile(p.Chip, t.GPU)
	if err == nil {
		err = assemble(ctx, prog)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		why := err.Error()
		if errors.Is(err, gpu.ErrNoLLC) {
			why = "llc, which makes kernels (Debian package llvm), is not installed"
		}
		return &gpuRun{Report: est, method: Analytic, notes: []string{"by the analytic model, not from kernels: " + why}}, nil
	}
	rep, c, err := measureKernels(ctx, prog, t.GPU, p.Chip, inputs, whole, p.Batch, est.CompulsoryBytes)
	if err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", p.Model.Name, t.Name, err)
	}
	r := &gpuRun{Report: rep, method: Counted, outputs: c.outputs}
	if c.outputs == nil {
		r.method = Sampled
		r.notes = append(r.notes, fmt.Sprintf("counted on samples: %s of the thread instructions ran, in part of the blocks of %d of %d launches", Percent(c.ran), c.sampled, len(c.counts)))
	}
	return r, nil
}

// measureKernels runs a program for graph g on the PTX emulator, in whole below a
// number of thread instructions and else on samples, and prices what it counted.
func measureKernels(ctx context.Context, prog *gpu.Program, card *arch.GPU, g *ir.Graph, inputs []*ir.Tensor, whole float64, batch int, compulsory int64) (*gpu.Report, *counting, error) {
	d, err := newEmulation(prog, card)
	if err != nil {
		return nil, nil, err
	}
	c, err := d.count(ctx, g, inputs, whole, sampleBudget)
	if err != nil {
		return nil, nil, err
	}
	r, err := gpu.Measure(prog, card, c.counts, batch, compulsory)
	return r, c, err
}

// gpuEnergy returns the energy of one of n inputs.
func gpuEnergy(e gpu.Energy, n float64) Energy {
	return Energy{Total: e.Total() / n, Compute: e.Compute / n, Register: e.Register / n, SRAM: e.SRAM / n, NoC: e.NoC / n,
		DRAM: e.DRAM / n, Link: e.Link / n, Network: e.Network / n, Static: e.Static / n}
}

// dynamic leaves static energy out, which layers are not charged with.
func dynamic(e Energy) Energy {
	e.Total -= e.Static
	e.Static = 0
	return e
}
