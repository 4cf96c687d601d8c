package runtime

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"situ/backend/gpu/cuda"
	"situ/backend/gpu/cuda/cudatest"
)

// fakeDriver puts a driver that runs kernels on the PTX emulator in the place of
// this machine's.
func fakeDriver(t *testing.T, name string) *cudatest.Driver {
	t.Helper()
	needLLC(t)
	fake := cudatest.New(name, 1<<30)
	driver, err := cuda.Bind(fake.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	old := openDriver
	openDriver = func() (*cuda.Driver, error) { return driver, nil }
	t.Cleanup(func() {
		openDriver = old
		if n := fake.Left(); n != 0 {
			t.Errorf("%d objects were not released", n)
		}
	})
	return fake
}

func TestRunCUDA(t *testing.T) {
	fakeDriver(t, "NVIDIA A100-SXM4-40GB")
	r, err := RunCUDA(t.Context(), "digits", 0, ModelOptions{}, QuantOptions{}, RunOptions{Repeat: 3})
	if err != nil {
		t.Fatal(err)
	}
	if !r.BitExact || r.Different != 0 || r.Elements != 10 || len(r.Tensors) != 1 {
		t.Errorf("outputs differ in %d of %d elements", r.Different, r.Elements)
	}
	if r.Arch != "a100" || len(r.Warnings) != 0 {
		t.Errorf("tiles are chosen as for %s, with warnings %q", r.Arch, r.Warnings)
	}
	// The driver of the tests says that each launch takes a millisecond.
	if want := float64(len(r.Kernels)) / 1000; len(r.Kernels) < 5 || r.LatencyS != want {
		t.Errorf("%d launches took %g s, want %g", len(r.Kernels), r.LatencyS, want)
	}
	sum := 0.0
	for _, k := range r.Kernels {
		sum += k.PredictedS
	}
	if math.Abs(sum-r.Predicted) > 1e-9 {
		t.Errorf("predicted %g s, its launches %g", r.Predicted, sum)
	}
	for _, k := range r.Kernels {
		if k.MeasuredS != 0.001 || k.PredictedS <= 0 || k.PredictedS > 1e-4 || k.Registers == 0 || k.Node == "" {
			t.Errorf("launch %+v", k)
		}
	}
}

func TestRunCUDAUnknown(t *testing.T) {
	fakeDriver(t, "NVIDIA RTX 4090")
	r, err := RunCUDA(t.Context(), "digits", 0, ModelOptions{}, QuantOptions{}, RunOptions{Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !r.BitExact || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "no architecture describes NVIDIA RTX 4090") {
		t.Errorf("bit exact %v, warnings %q", r.BitExact, r.Warnings)
	}
}

func TestRunCUDAErrors(t *testing.T) {
	fake := fakeDriver(t, "NVIDIA A100")
	run := func(ordinal int) error {
		_, err := RunCUDA(t.Context(), "digits", ordinal, ModelOptions{}, QuantOptions{}, RunOptions{Repeat: 1})
		return err
	}
	if err := run(1); err == nil || !strings.Contains(err.Error(), "no device cuda:1") {
		t.Errorf("device 1: %v", err)
	}
	launches := 0
	fake.Fail = func(symbol string) int32 {
		if symbol == "cuLaunchKernel" {
			if launches++; launches == 4 {
				return cudatest.IllegalAddr
			}
		}
		return 0
	}
	if err := run(0); err == nil || !strings.Contains(err.Error(), "told to fail") || !strings.Contains(err.Error(), "launching kernel") {
		t.Errorf("the fourth launch fails: %v", err)
	}
	openDriver = func() (*cuda.Driver, error) { return nil, fmt.Errorf("%w (gone)", cuda.ErrNoDriver) }
	if err := run(0); !errors.Is(err, cuda.ErrNoDriver) {
		t.Errorf("no driver: %v", err)
	}
	if d := FindDevices(); d.Driver != 0 || !strings.Contains(d.Reason, "was not found") {
		t.Errorf("no driver: %+v", d)
	}
}

func TestCheckDevice(t *testing.T) {
	fakeDriver(t, "NVIDIA H100 80GB HBM3")
	tests := []string{filepath.Join(sharedDir(t, "onnx", "models"), "mnist-sigmoid-6x200")}
	var done []string
	r, err := CheckDevice(t.Context(), DeviceCheckOptions{Size: 256, Repeat: 2, Tests: tests}, func(what string) { done = append(done, what) })
	if err != nil {
		t.Fatal(err)
	}
	if len(done) != 2 || !r.Pass || r.GEMM.Error != "" || !r.GEMM.BitExact || len(r.Models) != 1 || r.Models[0].Run == nil {
		t.Fatalf("%+v, done %q", r, done)
	}
	// 256³ products in the driver's millisecond, against 989.5 T of the H100.
	if want := 2 * 256.0 * 256 * 256 / 0.001; r.GEMM.OpsPerS != want || r.GEMM.PeakShare <= 0 || r.GEMM.PeakShare > 1e-3 {
		t.Errorf("%g operations a second, want %g; %g of the peak", r.GEMM.OpsPerS, want, r.GEMM.PeakShare)
	}
}

func TestCUDATarget(t *testing.T) {
	for _, tt := range []struct {
		on string
		n  int
		ok bool
	}{{"cuda", 0, true}, {"cuda:0", 0, true}, {"cuda:12", 12, true}, {"cuda:", 0, false}, {"cuda1", 1, false}, {"cuda:-1", 0, false}, {"h100", 0, false}, {"cudax", 0, false}} {
		if n, ok := CUDATarget(tt.on); ok != tt.ok || ok && n != tt.n {
			t.Errorf("%s names device %d, %v", tt.on, n, ok)
		}
	}
}
