package runtime

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"situ/backend/gpu"
)

// TestLlama times a decode step of Llama 3 8B, whose weights are described, on the
// card: all of its weights have to come from DRAM or be resident, and nothing
// else of size may move. What needs values is refused.
func TestLlama(t *testing.T) {
	ctx := context.Background()
	target, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	const tokens = 256
	mo := ModelOptions{Dims: map[string]int64{"context": tokens}}
	m, err := OpenModel("llama3-8b", mo)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := runPIM(ctx, p, target, nil, RunOptions{Mode: TimingOnly})
	if err != nil {
		t.Fatal(err)
	}
	const weights = 7504658432 // of all products, a byte each
	want := int64(weights + 2*32*4096*tokens)
	if p.MACs != want {
		t.Errorf("%d multiply-accumulates, want %d", p.MACs, want)
	}
	// The program may have a few more: rotary embeddings as products of single
	// elements, values in two planes where they have a zero point.
	if res.MACs < want || float64(res.MACs) > 1.01*float64(want) {
		t.Errorf("the program has %d multiply-accumulates, the model %d", res.MACs, want)
	}
	moved := float64(res.Bytes.DRAM) + float64(res.Load.DRAMBytes)
	if moved < weights || moved > 1.1*weights {
		t.Errorf("%.3g bytes are loaded once and %.3g in each step, the weights are %.3g", float64(res.Load.DRAMBytes), float64(res.Bytes.DRAM), float64(weights))
	}
	// No faster than the DRAM can deliver, and bound by it.
	if least := float64(res.Bytes.DRAM) / (target.Chip.DRAM.GBs.Value * 1e9); res.LatencyS < least || res.LatencyS > 3*least {
		t.Errorf("takes %.3g s, its DRAM traffic alone %.3g s", res.LatencyS, least)
	}
	// With the cache kept on the chip, a step moves less by all of it.
	mo.States = []string{AutoStates}
	if m, err = OpenModel("llama3-8b", mo); err != nil {
		t.Fatal(err)
	}
	decoder, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	step, _, err := runPIM(ctx, decoder, target, nil, RunOptions{Mode: TimingOnly})
	if err != nil {
		t.Fatal(err)
	}
	const cache = 2 * 32 * 8 * (tokens - 1) * 128
	if s := step.State; s == nil || s.ResidentBytes != cache || s.SpilledBytes != 0 || step.Bytes.DRAM > res.Bytes.DRAM-cache || step.LatencyS >= res.LatencyS {
		t.Errorf("with its cache of %d bytes kept, state %+v, a step moves %d bytes of DRAM in %.3g s, without %d in %.3g s", cache, s, step.Bytes.DRAM, step.LatencyS, res.Bytes.DRAM, res.LatencyS)
	}
	if _, _, err := runPIM(ctx, p, target, nil, RunOptions{}); err == nil || !strings.Contains(err.Error(), "described, not stored") {
		t.Errorf("a run with outputs gives %v", err)
	}
}

// TestDescribedCounts counts a program from samples twice, with its weights and with
// weights that are described: no count depends on their values.
func TestDescribedCounts(t *testing.T) {
	ctx := context.Background()
	d, p, in := onDevice(t, "digits", "h100", nil, throughputBatch)
	g := withoutWeights(p.Chip)
	if _, err := gpu.Compile(g, d.card); err == nil || !strings.Contains(err.Error(), "described, not stored") {
		t.Errorf("compiling to run gives %v", err)
	}
	prog, err := gpu.Outline(g, d.card)
	if err != nil {
		t.Fatal(err)
	}
	if prog.LLVM != d.program.LLVM {
		t.Fatal("described weights have other kernels")
	}
	if stored := int64(len(prog.Constants)); stored >= prog.Buffers[1].Bytes || prog.Buffers[1].Bytes < d.program.Buffers[1].Bytes {
		t.Errorf("%d of %d bytes of constants are stored, of %d with values", stored, prog.Buffers[1].Bytes, d.program.Buffers[1].Bytes)
	}
	prog.PTX = d.program.PTX
	outline, err := newEmulation(prog, d.card)
	if err != nil {
		t.Fatal(err)
	}
	const budget = 3e7
	want, err := d.count(ctx, p.Chip, in, 0, budget)
	if err != nil {
		t.Fatal(err)
	}
	got, err := outline.count(ctx, g, nil, 0, budget)
	if err != nil {
		t.Fatal(err)
	}
	if want.sampled == 0 {
		t.Error("nothing was sampled")
	}
	for i := range want.counts {
		w, g := want.counts[i], got.counts[i]
		for _, c := range []*gpu.Counts{&w, &g} { // constants lie elsewhere
			for j := range c.Touched {
				if c.Touched[j].Buffer == gpu.Constants {
					c.Touched[j].Offset = 0
				}
			}
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("launch %d: with values, described:\n%s", i, diff)
		}
	}
}

// TestLlamaKernels counts the kernels of the same decode step on a GPU: its weights
// come from DRAM once, and their time is the least it takes.
func TestLlamaKernels(t *testing.T) {
	ctx := context.Background()
	needLLC(t)
	target, err := OpenTarget("h100")
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenModel("llama3-8b", ModelOptions{Dims: map[string]int64{"context": 256}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, outputs, err := runGPU(ctx, p, target, nil, CompareOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const weights = 7504658432 // of all products, a byte each
	if r.Method != Sampled || outputs != nil {
		t.Errorf("figures are %s, with %d outputs", r.Method, len(outputs))
	}
	if dram := float64(r.Bytes.DRAM); dram < weights || dram > 1.05*weights {
		t.Errorf("DRAM moves %.4g bytes, the weights are %.4g", dram, float64(weights))
	}
	if least := weights / (target.GPU.DRAM.GBs.Value * 1e9); r.LatencyS < least {
		t.Errorf("takes %.3g s, its weights alone %.3g s", r.LatencyS, least)
	}
}

// BenchmarkLlama is `situ run llama3-8b --timing-only` as a user sees it: seconds
// and peak memory of a decode step at 2048 tokens, compiled for latency and for
// throughput and timed.
func BenchmarkLlama(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "situ")
	if out, err := exec.Command("go", "build", "-o", bin, "situ/cmd/situ").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, weights := range []string{"int8", "int4"} {
		b.Run(weights, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(bin, "run", "llama3-8b", "--on", "corsair-card", "--timing-only", "--weights", weights)
				t := time.Now()
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				peak := watchPeak(cmd.Process.Pid)
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(t).Seconds(), "s/run")
				b.ReportMetric(cmd.ProcessState.UserTime().Seconds(), "s/user")
				b.ReportMetric(float64(<-peak)/1024, "MiB/peak")
			}
		})
	}
}
