package cuda_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"situ/backend/gpu/cuda"
	"situ/backend/gpu/cuda/cudatest"
)

// double adds each of the first 64 bytes of its only operand to itself.
const double = `.version 7.0
.target sm_80
.address_size 64
.visible .entry double(.param .u64 p)
{
	.reg .b32 %r<4>;
	.reg .b16 %h<3>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	cvt.u64.u32 %d2, %r1;
	add.s64 %d3, %d1, %d2;
	ld.global.u8 %h1, [%d3];
	add.s16 %h2, %h1, %h1;
	st.global.u8 [%d3], %h2;
	ret;
}
`

func open(t *testing.T, fake *cudatest.Driver) *cuda.Driver {
	t.Helper()
	d, err := cuda.Bind(fake.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run doubles 64 bytes on a device and returns them.
func run(ctx context.Context, d *cuda.Driver, ptx string, shared int) ([]byte, time.Duration, error) {
	b := make([]byte, 64)
	for i := range b {
		b[i] = byte(i)
	}
	var took time.Duration
	err := d.Run(ctx, 0, func(c *cuda.Context) error {
		m, err := c.Load(ptx)
		if err != nil {
			return err
		}
		f, err := m.Function("double")
		if err != nil {
			return err
		}
		p, err := c.Alloc("bytes", 64)
		if err != nil {
			return err
		}
		start, err := c.NewEvent()
		if err != nil {
			return err
		}
		end, err := c.NewEvent()
		if err != nil {
			return err
		}
		if err := errors.Join(c.Write(p, b), start.Record(), f.Launch([3]int{1, 1, 1}, [3]int{64, 1, 1}, shared, []uint64{p}), end.Record(), c.Wait()); err != nil {
			return err
		}
		if took, err = end.Since(start); err != nil {
			return err
		}
		return c.Read(p, b)
	})
	return b, took, err
}

func TestRun(t *testing.T) {
	fake := cudatest.New("NVIDIA Test", 1<<20)
	d := open(t, fake)
	if d.Version != 12040 {
		t.Errorf("version %d", d.Version)
	}
	devices, err := d.Devices()
	if err != nil || len(devices) != 1 {
		t.Fatalf("devices %v, %v", devices, err)
	}
	want := cuda.Device{Name: "NVIDIA Test", SM: 80, SMs: 108, ClockKHz: 1_500_000, MemoryBytes: 1 << 30, L2Bytes: 40 << 20, SharedBytes: 163 << 10}
	if devices[0] != want {
		t.Errorf("device\n%+v, want\n%+v", devices[0], want)
	}
	b, took, err := run(t.Context(), d, double, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if b[i] != byte(2*i) {
			t.Fatalf("byte %d is %d, want %d", i, b[i], 2*i)
		}
	}
	if took != time.Millisecond {
		t.Errorf("the launch took %v, want 1 ms", took)
	}
	if n := fake.Left(); n != 0 {
		t.Errorf("%d objects were not released", n)
	}
}

// TestFailures has each call fail in turn, first and later ones: the error says
// so, and all that was made is released.
func TestFailures(t *testing.T) {
	fake := cudatest.New("NVIDIA Test", 1<<20)
	d := open(t, fake)
	calls := map[string]int{}
	fake.Fail = func(symbol string) int32 { calls[symbol]++; return 0 }
	if _, _, err := run(t.Context(), d, double, 64<<10); err != nil {
		t.Fatal(err)
	}
	for symbol, n := range calls {
		if strings.HasPrefix(symbol, "cuGetError") {
			continue
		}
		releases := strings.Contains(symbol, "Free") || strings.Contains(symbol, "Destroy") || strings.Contains(symbol, "Unload") || strings.Contains(symbol, "Release")
		for k := range n {
			i := 0
			fake.Fail = func(s string) int32 {
				if s != symbol {
					return 0
				}
				i++
				if i == k+1 {
					return 35
				}
				return 0
			}
			_, _, err := run(t.Context(), d, double, 64<<10)
			var e *cuda.Error
			if !errors.As(err, &e) || e.Code != 35 {
				t.Errorf("%s, call %d fails: %v", symbol, k+1, err)
			}
			want := 0
			if releases {
				want = 1 // the one that the driver refused to take back
			}
			if n := fake.Left(); n != want {
				t.Errorf("%s, call %d fails: %d objects were not released, want %d", symbol, k+1, n, want)
			}
			if releases {
				fake.Forget()
			}
		}
	}
}

func TestErrors(t *testing.T) {
	fake := cudatest.New("NVIDIA Test", 1<<20)
	d := open(t, fake)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, want string
		run        func() error
	}{
		{"PTX that does not compile", "kernels.ptx", func() error {
			_, _, err := run(t.Context(), d, strings.Replace(double, "add.s64", "frobnicate.s64", 1), 0)
			return err
		}},
		{"no such kernel", "looking for kernel double", func() error {
			_, _, err := run(t.Context(), d, strings.Replace(double, "entry double", "entry other", 1), 0)
			return err
		}},
		{"too little memory", "allocating 2097152 bytes for weights", func() error {
			return d.Run(t.Context(), 0, func(c *cuda.Context) error { _, err := c.Alloc("weights", 2<<20); return err })
		}},
		{"no such device", "asking device 5", func() error { return d.Run(t.Context(), 5, nil) }},
		{"interrupted", "context canceled", func() error { _, _, err := run(canceled, d, double, 0); return err }},
		{"a fault on the device", "launching kernel double", func() error {
			_, _, err := run(t.Context(), d, strings.Replace(double, "ld.param.u64 %d1, [p]", "mov.u64 %d1, 16", 1), 0)
			return err
		}},
		{"an old library", "cuEventCreate", func() error {
			_, err := cuda.Bind(func(s string) (uintptr, error) {
				if s == "cuEventCreate" {
					return 0, errors.New("undefined")
				}
				return fake.Lookup(s)
			})
			return err
		}},
	} {
		err := tt.run()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v does not say %q", tt.name, err, tt.want)
		}
		if n := fake.Left(); n != 0 {
			t.Errorf("%s: %d objects were not released", tt.name, n)
		}
	}
}

// TestOpen opens the library of this machine, or says that there is none.
func TestOpen(t *testing.T) {
	d, err := cuda.Open()
	if errors.Is(err, cuda.ErrNoDriver) {
		if found, _ := filepath.Glob("/usr/lib/*/libcuda.so.1"); len(found) > 0 && os.Getenv("LD_LIBRARY_PATH") == "" {
			t.Errorf("%v, but there is %v", err, found)
		}
		return
	}
	if err != nil {
		t.Skipf("the driver is there and does not start: %v", err)
	}
	if _, err := d.Devices(); err != nil {
		t.Error(err)
	}
}
