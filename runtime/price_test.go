package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"situ/arch"
	"situ/backend/pim"
)

// sameCost holds what a Pricer says of a prepared model against programs that were
// compiled whole and loaded with every check: cycles, and bytes and energy at
// every level. One Pricer serves all chips, the first of them twice.
func sameCost(t *testing.T, p *Prepared, steady bool) {
	t.Helper()
	ctx := context.Background()
	var pricer *Pricer
	for _, on := range []string{"corsair-card", "corsair-chiplet", "edge-dimc", "corsair-card"} {
		target, err := OpenTarget(on)
		if err != nil {
			t.Fatal(err)
		}
		if pricer == nil {
			if pricer, err = NewPricer(p, target.Chip); err != nil {
				t.Fatal(err)
			}
		}
		got, err := pricer.Price(ctx, target.Chip, 0, steady)
		if err != nil {
			t.Errorf("%s: %v", on, err)
			continue
		}
		want, err := price(ctx, target.Chip, 0, steady, func(o pim.Options) (*compiled, error) {
			return p.compile(target, o.Objective)
		})
		if err != nil {
			t.Errorf("%s: %v", on, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: the emulator (-) and the estimate (+) differ:\n%s", on, d)
		}
		t.Logf("%s on %s: estimated and emulated %d cycles, %d bytes of SRAM, %d of DRAM", p.Model.Name, on, got.Cycles, got.Bytes.SRAM, got.Bytes.DRAM)
	}
}

func preparedDigits(t *testing.T) *Prepared {
	t.Helper()
	m, err := OpenModel("digits", ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(t.Context(), m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func chipNamed(t *testing.T, name string) *arch.Chip {
	t.Helper()
	a, err := arch.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return a.Chip
}

// A price is what a run of the timing model finds, from any number of goroutines.
func TestPrice(t *testing.T) {
	chip := chipNamed(t, "edge-dimc")
	run, err := RunModel(t.Context(), "digits", "edge-dimc", ModelOptions{}, QuantOptions{}, RunOptions{Mode: TimingOnly})
	if err != nil {
		t.Fatal(err)
	}
	p := preparedDigits(t)
	got := make([]Cost, 4)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = Price(t.Context(), p, chip, 0, i%2 == 1); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for i, r := range got {
		if r.LatencyS != run.Result.LatencyS || r.Cycles != run.Result.Cycles || r.Bytes != run.Result.Bytes {
			t.Errorf("price %d: %g s, %d cycles, %+v; a run: %g s, %d cycles, %+v", i, r.LatencyS, r.Cycles, r.Bytes, run.Result.LatencyS, run.Result.Cycles, run.Result.Bytes)
		}
		if diff := cmp.Diff(run.Result.Energy, r.Energy); diff != "" {
			t.Errorf("price %d: energy differs from a run's (-run +price):\n%s", i, diff)
		}
		if asked := i%2 == 1; asked != (r.ThroughputS > 0) || asked != (r.Steady.Total > 0) {
			t.Errorf("price %d: steady state asked for: %v; %g a second, %g J", i, asked, r.ThroughputS, r.Steady.Total)
		}
	}
	if got[1].ThroughputS < 1/got[1].LatencyS {
		t.Errorf("at steady state %g a second, one after the other %g", got[1].ThroughputS, 1/got[1].LatencyS)
	}
}

// What does not fit says which model and chip, and a cancelled price says so.
func TestPriceErrors(t *testing.T) {
	p := preparedDigits(t)
	small := *chipNamed(t, "edge-dimc")
	small.Name = "tiny"
	small.DRAM.Bytes.Value = 64
	if _, err := Price(t.Context(), p, &small, 0, false); err == nil || !strings.Contains(err.Error(), "digits") || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("a chip with 64 bytes of DRAM: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Price(ctx, p, chipNamed(t, "edge-dimc"), 0, true); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The labelled images come out on the emulator as on the evaluator, bit for bit,
// and a difference is seen.
func TestLabelled(t *testing.T) {
	p := preparedDigits(t)
	l, err := NewLabelled(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.inputs) != len(l.labels) || len(l.labels) < 100 || l.Top1 < 0.9 {
		t.Fatalf("%d images, %d labels, top-1 %g", len(l.inputs), len(l.labels), l.Top1)
	}
	l.inputs, l.outputs, l.labels = l.inputs[:20], l.outputs[:20], l.labels[:20]
	want := l.top1(l.outputs)
	top1, same, err := l.Emulate(t.Context(), chipNamed(t, "edge-dimc"), 0)
	if err != nil || !same || top1 != want {
		t.Errorf("top-1 %g, same bits %v, %v; the evaluator has %g", top1, same, err, want)
	}
	l.outputs[3], l.outputs[4] = l.outputs[4], l.outputs[3]
	if _, same, err := l.Emulate(t.Context(), chipNamed(t, "edge-dimc"), 0); err != nil || same {
		t.Errorf("outputs of other images pass for the same bits (%v)", err)
	}
	p.Model.Ships = nil
	if l, err := NewLabelled(t.Context(), p); l != nil || err != nil {
		t.Errorf("a model that ships no images: %v, %v", l, err)
	}
}

// TestPricerRemembers holds what a Pricer says of one chip after another against what
// one says that has seen no other.
func TestPricerRemembers(t *testing.T) {
	p := preparedDigits(t)
	base := chipNamed(t, "corsair-card")
	figures := map[string][]float64{
		"array.rows": {32, 64}, "array.cols": {32, 64}, "cores_per_cluster": {8, 64}, "vector.lanes": {64, 256}, "noc.link_bytes_per_cycle": {32, 128},
		"dies": {1, 8}, "scratchpad.bytes": {16384, 2097152}, "issue_cycles": {1, 4},
	}
	var pricer *Pricer
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		c := *base
		for _, path := range slices.Sorted(maps.Keys(figures)) {
			values := figures[path]
			c.FigureAt(path).Value = values[rng.IntN(len(values))]
		}
		c.Array.ColsInt4 = c.Array.Cols
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		fresh, err := NewPricer(p, &c)
		if err != nil {
			t.Fatal(err)
		}
		if pricer == nil {
			if pricer, err = NewPricer(p, &c); err != nil {
				t.Fatal(err)
			}
		}
		want, wantErr := fresh.Price(t.Context(), &c, 0, i%2 == 0)
		got, gotErr := pricer.Price(t.Context(), &c, 0, i%2 == 0)
		if d := cmp.Diff(want, got); d != "" || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
			t.Errorf("chip %d: a new Pricer (-, %v) and one that has seen others (+, %v) differ:\n%s", i, wantErr, gotErr, d)
		}
	}
}

// Weights in blocks are priced as they are compiled, on arrays with shifters and
// without, by one Pricer.
func TestPriceOfBlocks(t *testing.T) {
	m, err := OpenModel("digits", ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, weights := range []string{"mxint8", "mxint4"} {
		p, err := Prepare(t.Context(), m, QuantOptions{Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		sameCost(t, p, true)
	}
}
