package runtime

import (
	"context"
	"errors"
	"math"
	"testing"

	"situ/backend/gpu"
	"situ/emulator/ptx"
	"situ/ir"
)

// needLLC skips a test of kernels where llc, which makes them, is not installed.
func needLLC(t *testing.T) {
	t.Helper()
	switch _, err := gpu.FindLLC(t.Context(), gpu.DefaultSM); {
	case errors.Is(err, gpu.ErrNoLLC):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// onDevice compiles a model at a batch for a GPU and loads it.
func onDevice(t testing.TB, model, target string, dims map[string]int64, batch int) (*emulation, *Prepared, []*ir.Tensor) {
	t.Helper()
	ctx := context.Background()
	m, err := OpenModel(model, ModelOptions{Dims: dims})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = p.batch(batch); err != nil {
		t.Fatal(err)
	}
	sets, err := ownInputs(m, QuantOptions{}, batch)
	if err != nil {
		t.Fatal(err)
	}
	in, err := stack(sets)
	if err != nil {
		t.Fatal(err)
	}
	on, err := OpenTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := kernelsOf(ctx, p.Chip, on.GPU)
	if errors.Is(err, gpu.ErrNoLLC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := newEmulation(prog, on.GPU)
	if err != nil {
		t.Fatal(err)
	}
	return d, p, in
}

// TestSamplesMeetWholeRuns counts programs in whole and from samples of thread
// blocks: time, and bytes and energy at every level, agree within 2 %.
func TestSamplesMeetWholeRuns(t *testing.T) {
	for _, tt := range []struct {
		model, target string
		batch         int
		sample        float64 // thread instructions
	}{
		{"digits", "h100", 128, 3e7},
		{"cifar10-resnet20-bn", "l4", 8, 3e7},
	} {
		t.Run(tt.model, func(t *testing.T) {
			model, dims := tt.model, map[string]int64(nil)
			if model != "digits" {
				model = sharedDir(t, "onnx", "models", model, "model.onnx")
				dims = map[string]int64{"N": 1}
			}
			d, p, in := onDevice(t, model, tt.target, dims, tt.batch)
			ctx := context.Background()
			whole, err := d.count(ctx, p.Chip, in, math.Inf(1), 0)
			if err != nil {
				t.Fatal(err)
			}
			part, err := d.count(ctx, p.Chip, in, 0, tt.sample)
			if err != nil {
				t.Fatal(err)
			}
			if part.sampled == 0 {
				t.Error("nothing was sampled")
			}
			t.Logf("%d of %d launches sampled, %.2g %% of the thread instructions ran", part.sampled, len(part.counts), 100*part.ran)
			report := func(c *counting) *gpu.Report {
				r, err := gpu.Measure(d.program, d.card, c.counts, tt.batch, 1)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			w, s := report(whole), report(part)
			for _, x := range []struct {
				name        string
				whole, part float64
			}{
				{"latency", w.LatencyS, s.LatencyS},
				{"energy", w.Energy.Total(), s.Energy.Total()},
				{"computing", w.Energy.Compute, s.Energy.Compute},
				{"registers", float64(w.Bytes.Register), float64(s.Bytes.Register)},
				{"SRAM", float64(w.Bytes.SRAM), float64(s.Bytes.SRAM)},
				{"network-on-chip", float64(w.Bytes.NoC), float64(s.Bytes.NoC)},
				{"DRAM", float64(w.Bytes.DRAM), float64(s.Bytes.DRAM)},
			} {
				off := x.part/x.whole - 1
				t.Logf("%-16s whole %.5g, sampled %.5g (%+.2f %%)", x.name, x.whole, x.part, 100*off)
				if math.Abs(off) > 0.02 {
					t.Errorf("%s: %+.1f %% from a sample, want within 2 %%", x.name, 100*off)
				}
			}
		})
	}
}

// TestBooksOfKernelsBalance adds up both sides of every level, launch by launch, and
// the levels of all launches against those of the whole.
func TestBooksOfKernelsBalance(t *testing.T) {
	d, p, in := onDevice(t, "digits", "h100", nil, 128)
	ctx := context.Background()
	c := &counting{counts: make([]gpu.Counts, len(d.program.Launches))}
	err := d.run(ctx, in, func(i int, n *ptx.Counters) {
		l, tr := &d.program.Launches[i], &n.Traffic
		c.counts[i] = d.counts(n, func(b *ptx.BufferTraffic) gpu.Place { return d.place(i, b) })
		k := &c.counts[i]
		var threads, warps int64
		for _, o := range n.Opcodes {
			threads += o.Threads
			warps += o.Warps
		}
		var read, written float64
		for _, x := range k.Touched {
			read += x.Read
			written += x.Written
		}
		for _, x := range []struct {
			name     string
			from, to float64
		}{
			{"thread instructions and opcodes", float64(n.Total.Threads), float64(threads)},
			{"warp instructions and opcodes", float64(n.Total.Warps), float64(warps)},
			{"sectors loaded: L1 hits, and reads from L2", float64(tr.LoadSectors + tr.AtomicSectors), float64(tr.L1HitSectors + tr.L2ReadSectors)},
			{"sectors stored: writes to L2", float64(tr.StoreSectors + tr.AtomicSectors), float64(tr.L2WriteSectors)},
			{"reads from L2: hits and misses", float64(tr.L2ReadSectors), float64(tr.L2HitSectors + tr.L2MissSectors)},
			{"misses of L2: reads from DRAM", 32 * float64(tr.L2MissSectors), float64(tr.DRAMReadBytes)},
			{"reads from DRAM: each sector once, this L2 being large enough", float64(tr.DRAMReadBytes), read},
			{"writes to DRAM: each sector once", float64(tr.DRAMWriteBytes), written},
			{"useful products and those issued, padding aside", math.Max(k.TensorMACs+k.DotMACs, float64(l.MACs)), k.TensorMACs + k.DotMACs},
		} {
			if x.from != x.to {
				t.Errorf("%s %q: %s: %.0f and %.0f", l.Op, l.Node, x.name, x.from, x.to)
			}
		}
		if len(k.Touched) == 0 || k.RegisterBytes < k.SharedRead+k.Loaded/32 {
			t.Errorf("%s %q: counts %+v", l.Op, l.Node, k)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := gpu.Measure(d.program, d.card, c.counts, p.Batch, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sum gpu.Bytes
	var energy, seconds float64
	for _, l := range r.Layers {
		sum.Register += l.Bytes.Register
		sum.SRAM += l.Bytes.SRAM
		sum.NoC += l.Bytes.NoC
		sum.DRAM += l.Bytes.DRAM
		energy += l.Energy.Total()
		seconds += l.TimeS
	}
	if n := int64(len(r.Layers)); !near(sum.Register, r.Bytes.Register, n) || !near(sum.SRAM, r.Bytes.SRAM, n) || !near(sum.NoC, r.Bytes.NoC, n) || !near(sum.DRAM, r.Bytes.DRAM, n) {
		t.Errorf("layers move %+v, all together %+v", sum, r.Bytes)
	}
	if math.Abs(energy/r.Energy.Total()-1) > 1e-9 || math.Abs(seconds/r.LatencyS-1) > 1e-9 {
		t.Errorf("layers take %g J and %g s, all together %g J and %g s", energy, seconds, r.Energy.Total(), r.LatencyS)
	}
}

// near reports whether two sums of n rounded numbers agree.
func near(a, b, n int64) bool { return max(a-b, b-a) <= n }

// TestReuseMeetsL2 holds the model of what stays in L2 between launches against an
// L2 that lives through two runs of a program, at sizes that hold all of it, part of
// it and hardly anything.
func TestReuseMeetsL2(t *testing.T) {
	const batch = 32
	d, _, in := onDevice(t, "digits", "h100", nil, batch)
	ctx := context.Background()
	variant := *d.card
	variant.L2.UsableFraction.Value = 1
	d.card = &variant
	var outside int64
	for _, port := range append(d.program.Inputs, d.program.Outputs...) {
		outside += port.Bytes
	}
	for _, size := range []int{8 << 20, 512 << 10, 256 << 10, 64 << 10} {
		variant.L2.Bytes.Value = float64(size)
		counts := make([]gpu.Counts, len(d.program.Launches))
		if err := d.run(ctx, in, func(i int, n *ptx.Counters) {
			counts[i] = d.counts(n, func(b *ptx.BufferTraffic) gpu.Place { return d.place(i, b) })
		}); err != nil {
			t.Fatal(err)
		}
		r, err := gpu.Measure(d.program, &variant, counts, batch, 1)
		if err != nil {
			t.Fatal(err)
		}
		l2 := ptx.NewL2(size)
		var last int64
		for range 2 {
			last = 0
			for i := range d.program.Launches {
				cfg, err := d.config(&d.program.Launches[i])
				if err != nil {
					t.Fatal(err)
				}
				cfg.L2 = l2
				n, err := d.module.Launch(ctx, d.program.Launches[i].Kernel, cfg)
				if err != nil {
					t.Fatal(err)
				}
				last += n.Traffic.DRAMReadBytes + n.Traffic.DRAMWriteBytes
			}
		}
		t.Logf("L2 of %5d KiB: model %8d bytes, an L2 through two runs %8d", size>>10, r.Bytes.DRAM, last)
		// In this L2 an input may still be there from the run before, and an output
		// is not read from outside.
		if off := math.Abs(float64(r.Bytes.DRAM - last)); off > float64(outside)+0.02*float64(last) {
			t.Errorf("L2 of %d KiB: model %d bytes, an L2 through two runs %d; inputs and outputs are %d", size>>10, r.Bytes.DRAM, last, outside)
		}
	}
}
