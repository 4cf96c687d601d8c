package runtime

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	if _, _, err := runPIM(ctx, p, target, nil, RunOptions{}); err == nil || !strings.Contains(err.Error(), "described, not stored") {
		t.Errorf("a run with outputs gives %v", err)
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
