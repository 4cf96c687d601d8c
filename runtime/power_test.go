package runtime

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"situ/backend/pim"
)

// chipFile writes an architecture of some figures over a preset.
func chipFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chip.yaml")
	if err := os.WriteFile(file, []byte("name: chip\nkind: pim\ndescription: a test\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func chipOf(t *testing.T, text string) *Target {
	t.Helper()
	target, err := OpenTarget(chipFile(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestPowerLimit: a chip whose clock would take it beyond its tdp_w draws just that, in
// one run and at steady state, and the estimate says the same. Cycles and the energy of
// what is computed and moved stay.
func TestPowerLimit(t *testing.T) {
	ctx := context.Background()
	p := preparedDigits(t)
	run := func(text string) (*Target, *Result) {
		target := chipOf(t, text)
		r, _, err := runPIM(ctx, p, target, nil, RunOptions{Mode: TimingOnly})
		if err != nil {
			t.Fatal(err)
		}
		return target, r
	}
	const fast = "based_on: edge-dimc\nclock_mhz: {value: 8000, source: x, confidence: A}\n"
	hot, r := run(fast)
	_, free := run(fast + "power:\n  tdp_w: {value: 100, source: x, confidence: A}\n")
	if free.Energy.Total/free.LatencyS < 0.6 || free.Steady.Total*free.ThroughputS < 0.6 {
		t.Fatalf("without a limit it draws %.3g and %.3g W, too little for this test", free.Energy.Total/free.LatencyS, free.Steady.Total*free.ThroughputS)
	}
	for what, w := range map[string]float64{"one run": r.Energy.Total / r.LatencyS, "steady state": r.Steady.Total * r.ThroughputS} {
		if math.Abs(w-0.6) > 1e-6 {
			t.Errorf("%s draws %v W, want the 0.6 of tdp_w", what, w)
		}
	}
	if r.Cycles != free.Cycles || math.Abs(r.Energy.Total-r.Energy.Static-free.Energy.Total+free.Energy.Static) > 1e-9*r.Energy.Total {
		t.Errorf("%d cycles and %.4g J beside static, %d and %.4g without a limit", r.Cycles, r.Energy.Total-r.Energy.Static, free.Cycles, free.Energy.Total-free.Energy.Static)
	}
	if got, want := r.Utilisation/free.Utilisation, free.LatencyS/r.LatencyS; math.Abs(got-want) > 1e-6 {
		t.Errorf("utilisation falls to %v of what it was, the rate to %v", got, want)
	}
	pricer, err := NewPricer(p, hot.Chip)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pricer.Price(ctx, hot.Chip, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]any{r.LatencyS, r.Energy, r.ThroughputS, r.Steady}, []any{c.LatencyS, c.Energy, c.ThroughputS, c.Steady}); d != "" {
		t.Errorf("the run (-) and the estimate (+) differ:\n%s", d)
	}
}

// TestCopiesFitDRAM: copies of a program at steady state have inputs, outputs and
// states of their own, and are no more than DRAM has room for.
func TestCopiesFitDRAM(t *testing.T) {
	ctx := context.Background()
	m, err := OpenModel("llama3-8b", ModelOptions{Dims: map[string]int64{"context": 2048}, States: []string{AutoStates}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replicas := func(text string) (int, float64) {
		target := chipOf(t, "based_on: corsair-card\n"+text)
		c, err := p.fresh(target, pim.Options{Objective: pim.Throughput, Clusters: 1, States: p.chipStates()})
		if err != nil {
			t.Fatal(err)
		}
		own := c.program.DRAMBytes - c.program.ConstBytes()
		if all := c.program.ConstBytes() + int64(c.program.Replicas)*own; all > target.Chip.DRAM.Bytes.Int() {
			t.Errorf("%d copies with %d bytes each and %d shared do not fit %v", c.program.Replicas, own, c.program.ConstBytes(), target.Chip.DRAM.Bytes.Value)
		}
		s, err := c.steady(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		return c.program.Replicas, s.perS
	}
	many, fast := replicas("")
	few, slow := replicas("dram:\n  bytes: {value: 10e9, source: x, confidence: A}\n")
	if few >= many || slow > fast {
		t.Errorf("%d copies and %.3g /s in 10 GB, %d and %.3g in 256", few, slow, many, fast)
	}
}

// TestSteadyBatch: where weights come from DRAM in every run, the steady figures of a
// comparison are those of a batch, as a GPU's are.
func TestSteadyBatch(t *testing.T) {
	ctx := context.Background()
	compare := func(o CompareOptions) *Comparison {
		file := chipFile(t, "based_on: edge-dimc\nweight_sram:\n  bytes: {value: 8192, source: x, confidence: A}\ndram:\n  gigabytes_per_s: {value: 0.1, source: x, confidence: A}\n")
		c, err := Compare(ctx, "digits", []string{file}, ModelOptions{}, QuantOptions{}, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, b := compare(CompareOptions{}), compare(CompareOptions{Batches: []int{1, throughputBatch}})
	r, alone, batch := c.Results[0], b.Results[0], b.Results[1]
	if r.LatencyS != alone.LatencyS || r.Batch != 1 {
		t.Errorf("one run takes %v s in a batch of %d, want %v", r.LatencyS, r.Batch, alone.LatencyS)
	}
	if alone.ThroughputS >= batch.ThroughputS || math.Abs(r.ThroughputS/batch.ThroughputS-1) > 1e-9 || math.Abs(r.Steady.Total/batch.Steady.Total-1) > 1e-9 {
		t.Errorf("steady: %.4g /s, %.4g J; of batches of 1 and %d: %.4g /s and %.4g /s, %.4g J", r.ThroughputS, r.Steady.Total, throughputBatch, alone.ThroughputS, batch.ThroughputS, batch.Steady.Total)
	}
}
