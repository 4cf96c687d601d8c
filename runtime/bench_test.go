package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"situ/backend/pim"
	"situ/internal/ort"
	"situ/ir"
)

var ortMedian = regexp.MustCompile(`median ([0-9.]+) ms`)

// ortTime returns ONNX Runtime's median float32 time for a model on two threads,
// graph optimisations on.
func ortTime(b *testing.B, model, set string) (time.Duration, bool) {
	dir, err := ort.Dir()
	if err != nil {
		b.Logf("no comparison with ONNX Runtime: %v", err)
		return 0, false
	}
	abs := func(p string) string {
		a, err := filepath.Abs(p)
		if err != nil {
			b.Fatal(err)
		}
		return a
	}
	cmd := exec.Command("node", "ort_run.mjs", abs(model), "--set", abs(set), "--threads", "2", "--opt", "all", "--bench", "30")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Logf("no comparison with ONNX Runtime: %v\n%s", err, out)
		return 0, false
	}
	m := ortMedian.FindSubmatch(out)
	if m == nil {
		b.Fatalf("ONNX Runtime printed no median:\n%s", out)
	}
	ms, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}

// benchModel prepares a model of the data beside the project with its recorded
// inputs.
func benchModel(b *testing.B, dir string) (*Prepared, []*ir.Tensor, string, string) {
	model, set := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "test_data_set_0")
	in, err := readSet(set, "input")
	if err != nil {
		b.Fatal(err)
	}
	m, err := OpenModel(model, ModelOptions{inputs: in})
	if err != nil {
		b.Fatal(err)
	}
	inputs, err := bind(m.Graph, m.given)
	if err != nil {
		b.Fatal(err)
	}
	p, err := prepare(context.Background(), m, QuantOptions{}, [][]*ir.Tensor{inputs})
	if err != nil {
		b.Fatal(err)
	}
	return p, inputs, model, set
}

// BenchmarkResNet50 is ResNet-50 at 224×224 on corsair-card: full emulation
// (bits, time and energy) beside ONNX Runtime's float32 time on the same cores in
// the same run, and timing-only emulation.
func BenchmarkResNet50(b *testing.B) {
	p, inputs, model, set := benchModel(b, filepath.Join(sharedDir(b, "onnx", "backend", "light-tests"), "test_resnet50"))
	target, err := OpenTarget("corsair-card")
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []struct {
		name string
		mode Mode
	}{{"full", Full}, {"functional", FunctionalOnly}, {"timing", TimingOnly}} {
		b.Run(mode.name, func(b *testing.B) {
			run, err := p.compile(target, pim.Latency)
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := run.run(context.Background(), inputs, mode.mode, 1, nil); err != nil { // resident weights
				b.Fatal(err)
			}
			best := time.Duration(1 << 62)
			for b.Loop() {
				for range 10 {
					s := time.Now()
					if _, _, err := run.run(context.Background(), inputs, mode.mode, 1, nil); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(s))
				}
			}
			b.ReportMetric(float64(best.Microseconds())/1000, "ms/inference")
			if mode.mode == Full {
				if float, ok := ortTime(b, model, set); ok {
					b.ReportMetric(float64(float.Microseconds())/1000, "ms/ort-float32")
					b.ReportMetric(float64(best)/float64(float), "×ort")
				}
			}
		})
	}
}

// BenchmarkCompileResNet50 runs the situ command, so that time and peak memory
// are what a user sees.
func BenchmarkCompileResNet50(b *testing.B) {
	dir := filepath.Join(sharedDir(b, "onnx", "backend", "light-tests"), "test_resnet50")
	bin := filepath.Join(b.TempDir(), "situ")
	if out, err := exec.Command("go", "build", "-o", bin, "situ/cmd/situ").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for b.Loop() {
		cmd := exec.Command(bin, "compile", filepath.Join(dir, "model.onnx"), "--on", "corsair-card", "-o", filepath.Join(b.TempDir(), "resnet50.pim"), "--force")
		t := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		peak := watchPeak(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(t).Seconds(), "s/compile")
		b.ReportMetric(float64(<-peak)/1024, "MiB/peak")
	}
}

// watchPeak follows the peak resident memory of a process, in KiB, until it
// ends. The figure that wait4 returns is no use: it starts from this process's.
func watchPeak(pid int) <-chan int {
	c := make(chan int, 1)
	go func() {
		peak := 0
		for {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			m := hwm.FindSubmatch(text)
			if err != nil || m == nil {
				c <- peak
				return
			}
			if n, err := strconv.Atoi(string(m[1])); err == nil {
				peak = n
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return c
}

var hwm = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
