package runtime

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"situ/backend/gpu/cuda"
	"situ/ir"
)

// DeviceCheck is everything measured on a device at once.
type DeviceCheck struct {
	Driver int            `json:"driver"`
	Device cuda.Device    `json:"device"`
	GEMM   GEMMCheck      `json:"gemm"`
	Models []DeviceResult `json:"models"`
	Pass   bool           `json:"pass"` // bits are exact everywhere
}

// GEMMCheck is one int8 product of Size × Size matrices, requantised.
type GEMMCheck struct {
	Size      int     `json:"size"`
	TimeS     float64 `json:"time_s"`
	Predicted float64 `json:"predicted_s"`
	OpsPerS   float64 `json:"ops_per_s"`
	PeakShare float64 `json:"peak_share,omitempty"` // of the dense int8 peak of the device's architecture, 0 where none describes it
	Rows      int     `json:"rows_compared"`
	BitExact  bool    `json:"bit_exact"`
	Error     string  `json:"error,omitempty"`
}

// DeviceResult is one model, or why it did not run.
type DeviceResult struct {
	Name  string     `json:"name"`
	Run   *DeviceRun `json:"run,omitempty"`
	Error string     `json:"error,omitempty"`
}

// DeviceCheckOptions say what CheckDevice runs.
type DeviceCheckOptions struct {
	Ordinal int
	Size    int      // of the product's matrices
	Repeat  int      // measured runs of each
	Tests   []string // folders with tests as Check takes them; none: the models that ship with weights
}

// CheckDevice measures an int8 product and runs models on a device, holding all
// bits against the evaluator. An error means that there is no such device; what
// fails on it is part of the result. done is told what has been finished.
func CheckDevice(ctx context.Context, o DeviceCheckOptions, done func(what string)) (*DeviceCheck, error) {
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if o.Ordinal >= len(devices) {
		return nil, fmt.Errorf("there is no device cuda:%d: the driver sees %d", o.Ordinal, len(devices))
	}
	r := &DeviceCheck{Driver: d.Version, Device: devices[o.Ordinal]}
	r.GEMM = checkGEMM(ctx, d, o)
	done("the product")
	r.Pass = r.GEMM.BitExact
	models := []struct{ name, path, inputs string }{{name: "digits", path: "digits"}}
	if len(o.Tests) > 0 {
		models = nil
	}
	for _, root := range o.Tests {
		dirs, err := findTests(root)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			models = append(models, struct{ name, path, inputs string }{testName(root, dir), filepath.Join(dir, "model.onnx"), filepath.Join(dir, "test_data_set_0")})
		}
	}
	for _, m := range models {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := DeviceResult{Name: m.name}
		run, err := RunCUDA(ctx, m.path, o.Ordinal, ModelOptions{}, QuantOptions{}, RunOptions{Inputs: m.inputs, Repeat: o.Repeat})
		if err != nil {
			x.Error = err.Error()
		} else {
			x.Run = run
		}
		r.Pass = r.Pass && x.Run != nil && x.Run.BitExact
		r.Models = append(r.Models, x)
		done(m.name)
	}
	return r, ctx.Err()
}

// checkGEMM times one product and compares some rows of it with the evaluator's.
func checkGEMM(ctx context.Context, d *cuda.Driver, o DeviceCheckOptions) GEMMCheck {
	n := o.Size
	c := GEMMCheck{Size: n, Rows: min(n, 64)}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	codes := func(rows int) *ir.Tensor {
		t := ir.Zeros(ir.I8, rows, n)
		d := ir.Data[int8](t)
		for i := range d {
			d[i] = int8(random.Uint32())
		}
		return t
	}
	w, x := codes(n), codes(n)
	fail := func(err error) GEMMCheck { c.Error = err.Error(); return c }
	whole, err := productGraph(n, w)
	if err != nil {
		return fail(err)
	}
	run := DeviceRun{}
	if err := run.run(ctx, d, o.Ordinal, whole, []*ir.Tensor{x}, o.Repeat); err != nil {
		return fail(err)
	}
	c.TimeS, c.Predicted = run.LatencyS, run.Predicted
	c.OpsPerS = 2 * float64(n) * float64(n) * float64(n) / c.TimeS
	card, known, err := cardOf(run.Device)
	if err != nil {
		return fail(err)
	}
	if known {
		c.PeakShare = c.OpsPerS / 2 / card.Peak().MACsPerS
	}
	// Rows spread over the matrix, with the last one among them.
	some, got := ir.Zeros(ir.I8, c.Rows, n), ir.Zeros(ir.I8, c.Rows, n)
	for i := range c.Rows {
		row := (i+1)*n/c.Rows - 1
		copy(ir.Data[int8](some)[i*n:], ir.Data[int8](x)[row*n:(row+1)*n])
		copy(ir.Data[int8](got)[i*n:], ir.Data[int8](run.Tensors[0])[row*n:(row+1)*n])
	}
	part, err := productGraph(c.Rows, w)
	if err != nil {
		return fail(err)
	}
	want, err := evaluate(ctx, part, []*ir.Tensor{some})
	if err != nil {
		return fail(err)
	}
	c.BitExact = sameBits(got, want[0])
	return c
}

// productGraph is the fixed-point product of rows of codes with a square matrix,
// scaled so that results cover the range of their codes.
func productGraph(rows int, w *ir.Tensor) (*ir.Graph, error) {
	n := w.Shape[0]
	g := &ir.Graph{Name: "gemm"}
	x := g.AddInput("x", ir.TypeOf(ir.I8, rows, n).WithQuant(ir.PerTensor(0.01, 0)))
	wv := g.AddConst("w", w, ir.PerTensor(0.01, 0))
	bias := g.AddConst("bias", ir.Zeros(ir.I32, n), ir.PerTensor(0.0001, 0))
	// A sum of n products of uniform codes has a deviation of √n·74²; let that be
	// 50 codes of the result.
	scale := float32(0.0001 * math.Sqrt(float64(n)) * 74 * 74 / 50)
	y, err := g.AddTyped(ir.MatMul, "gemm", nil, ir.TypeOf(ir.I8, rows, n).WithQuant(ir.PerTensor(scale, 0)), x, wv, bias)
	if err != nil {
		return nil, err
	}
	g.Outputs = []ir.ValueID{y}
	return g, ir.Verify(g)
}
