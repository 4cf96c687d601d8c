package models

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"situ/frontend/onnx"
)

// loadFile names the file that a child process of BenchmarkLoad reads.
const loadFile = "SITU_BENCH_LOAD"

// TestMain lets this program be the child of BenchmarkLoad: a process that does
// nothing but load and import one model, so that its peak memory is that of the
// reader.
func TestMain(m *testing.M) {
	if path := os.Getenv(loadFile); path != "" {
		start := time.Now()
		p, err := onnx.Load(path)
		if err == nil {
			_, err = onnx.Import(p, onnx.ImportOptions{})
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		took := time.Since(start)
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Printf("took %d ns\n%s", took.Nanoseconds(), status)
		return
	}
	os.Exit(m.Run())
}

var (
	tookLine = regexp.MustCompile(`took (\d+) ns`)
	peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
)

// BenchmarkLoad loads and imports models of 102 MB (ResNet-50) and 438 MB
// (BERT-base) in a process of their own: the best time, and the peak of resident
// memory, pages of the mapped file included, over the size of the file.
func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"resnet50", "bert-base"} {
		b.Run(name, func(b *testing.B) {
			m, _ := Find(name)
			file, err := m.ONNX(nil)
			if err != nil {
				b.Fatal(err)
			}
			path := filepath.Join(b.TempDir(), "model.onnx")
			if err := os.WriteFile(path, file, 0o666); err != nil {
				b.Fatal(err)
			}
			size := float64(len(file))
			best, most := time.Duration(1<<62), 0.0
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), loadFile+"="+path)
				out, err := cmd.CombinedOutput()
				took, peak := tookLine.FindSubmatch(out), peakLine.FindSubmatch(out)
				if err != nil || took == nil || peak == nil {
					b.Skipf("no figures (%v):\n%s", err, out)
				}
				ns, _ := strconv.ParseInt(string(took[1]), 10, 64) // digits
				kib, _ := strconv.ParseInt(string(peak[1]), 10, 64)
				best, most = min(best, time.Duration(ns)), max(most, float64(kib)*1024)
			}
			b.ReportMetric(size/1e6, "MB/file")
			b.ReportMetric(best.Seconds(), "s/load")
			b.ReportMetric(most/size, "peak/file")
		})
	}
}
