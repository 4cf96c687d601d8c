package explore

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/ir"
	"situ/ir/irtest"
	"situ/runtime"
)

// drawnChip draws a chip of few and small parts, so that random networks spill,
// stream and split.
func drawnChip(t *rapid.T, base *arch.Chip) *arch.Chip {
	c := *base
	set := func(path string, values ...float64) {
		c.FigureAt(path).Value = rapid.SampledFrom(values).Draw(t, path)
	}
	set("dies", 1, 2)
	set("clusters_per_die", 1, 2, 3)
	set("cores_per_cluster", 1, 2, 5, 8)
	set("array.rows", 8, 16, 64)
	set("array.cols", 8, 16, 32)
	set("array.weight_sets", 1, 2)
	set("array.input_bits_per_cycle", 1, 2, 8)
	set("weight_sram.bytes", 2560, 8192, 1<<20)
	set("scratchpad.bytes", 4096, 16384, 1<<20)
	set("scratchpad.read_bytes_per_cycle", 16, 64)
	set("accumulator.bytes", 256, 8192)
	set("vector.lanes", 4, 16, 64)
	set("dram.gigabytes_per_s", 0.1, 1, 100)
	set("dram.latency_ns", 1, 100)
	set("power.static_w", 0.001, 0.1)
	c.Array.ColsInt4.Value = 2 * c.Array.Cols.Value
	if rapid.Bool().Draw(t, "shifters") {
		c.Array.ShiftRows, c.Array.ShiftEnergyFJ = c.Array.Rows, c.Array.MACEnergyFJ
		set("array.shift_rows", 8, 32)
	}
	return &c
}

// TestBounds: of random networks on random chips no design costs less than its
// bound says, in any objective.
func TestBounds(t *testing.T) {
	s := parse(t, "models: [digits]\nbase: edge-dimc\nobjectives: [latency, energy, throughput, energy_steady, edp]\nparameters:\n  array.rows: [64]\n")
	ran, refused := 0, 0
	tightest := make([]float64, len(s.Objectives))
	rapid.Check(t, func(t *rapid.T) {
		var g *ir.Graph
		var err error
		p := &runtime.Prepared{Batch: 1}
		ctx := context.Background()
		if rapid.IntRange(0, 3).Draw(t, "blocks") == 0 {
			p.Fixed, _ = irtest.Blocked(t)
			p.Chip = p.Fixed
			g = p.Fixed
			p.Model = &runtime.Model{Name: "random", Graph: g}
		} else {
			g = irtest.Graph(t, irtest.Options{MaxDim: 16, MaxElems: 16384})
			weights := rapid.SampledFrom(runtime.WeightFormats()).Draw(t, "weights")
			p, err = runtime.Prepare(ctx, &runtime.Model{Name: "random", Graph: g}, runtime.QuantOptions{Weights: weights})
		}
		if err != nil {
			t.Fatal(err)
		}
		c := drawnChip(t, s.Base)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		ev := newEvaluator(s, nil)
		ev.variants[variantKey{0, "int8", 1}] = &variant{prepared: p, batch: 1, idle: make(chan *runtime.Pricer, 1)}
		d := &design{chip: c, weights: "int8", batch: 1}
		b, _, err := ev.bound(ctx, d)
		if err != nil {
			refused++
			return
		}
		costs, err := ev.estimate(ctx, d)
		var unfit *unfitError
		if errors.As(err, &unfit) {
			refused++
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := ev.metricsOf(ctx, d, costs, b)
		if err != nil {
			t.Fatal(err)
		}
		ran++
		for k, o := range s.Objectives {
			low, real := s.costs(b)[k], s.costs(m)[k]
			if low > real*(1+1e-12) {
				t.Fatalf("the bound of %s is %g, the emulator finds %g\n%v", o, low, real, g)
			}
			tightest[k] = max(tightest[k], low/real)
		}
	})
	for k, o := range s.Objectives {
		t.Logf("%s: the tightest bound is %.3f of what was found", o, tightest[k])
	}
	t.Logf("%d designs ran, %d were refused", ran, refused)
	if ran < refused {
		t.Error("most designs were refused")
	}
}
