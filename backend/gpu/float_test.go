package gpu

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"situ/ir"
	"situ/ir/eval"
	"situ/passes"
)

// TestInFloat: what passes keep in float32 for precision's sake has kernels.
func TestInFloat(t *testing.T) {
	for _, k := range passes.InFloat {
		_, fn := floatFns[k]
		_, op := floatOps[k]
		moves := k.Is(ir.MovesCodes) // see the bits of random graphs
		others := []ir.OpKind{ir.ReduceSum, ir.ReduceMean, ir.Softmax, ir.LogSoftmax, ir.LRN}
		if !fn && !op && !moves && !slices.Contains(others, k) {
			t.Errorf("%s has no kernel in float32", k)
		}
	}
}

// TestFloat compares every float32 kernel with the evaluator, which computes in
// float64 too: results are the same, or neighbours where the last bit of a
// float64 decides.
func TestFloat(t *testing.T) {
	c, a := needLLC(t), h100(t)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	g := &ir.Graph{Name: "float"}
	const n = 256
	shape := []int{2, n / 2}
	x := g.AddInput("x", ir.TypeOf(ir.F32, shape...))
	z := g.AddInput("z", ir.TypeOf(ir.F32, 1, n/2))
	out := func(kind ir.OpKind, attr ir.Attr, in ...ir.ValueID) {
		t.Helper()
		v, err := g.Add(kind, kind.String(), attr, in...)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = append(g.Outputs, v)
	}
	for k := range floatFns {
		var attr ir.Attr
		switch k {
		case ir.Clip:
			attr = &ir.ClipAttr{Lo: -1, Hi: 6}
		case ir.LeakyRelu, ir.Elu, ir.HardSigmoid:
			attr = &ir.AlphaBetaAttr{Alpha: 0.2, Beta: 0.5}
		}
		if k == ir.LeakyRelu || k == ir.Elu {
			attr.(*ir.AlphaBetaAttr).Beta = 0
		}
		out(k, attr, x)
	}
	for k := range floatOps {
		out(k, nil, x, z)
	}
	out(ir.Add, &ir.BinaryAttr{Act: &ir.Act{Lo: 0, Hi: 6}}, x, z)
	for _, k := range []ir.OpKind{ir.ReduceMean, ir.ReduceSum, ir.ReduceMax, ir.ReduceMin} {
		out(k, &ir.ReduceAttr{Axes: []int{1}}, x)
		out(k, &ir.ReduceAttr{Axes: []int{0}}, x)
	}
	image, err := g.Add(ir.Reshape, "image", &ir.ShapeAttr{Shape: []int{2, 8, 8, 2}}, x)
	if err != nil {
		t.Fatal(err)
	}
	out(ir.MaxPool, &ir.PoolAttr{Kernel: [2]int{3, 2}, Strides: [2]int{2, 1}, Pads: [4]int{1, 0, 1, 1}, Dilations: [2]int{1, 2}}, image)
	out(ir.MaxPool, &ir.PoolAttr{Kernel: [2]int{2, 2}, Strides: [2]int{2, 2}, Dilations: [2]int{1, 1}}, image)
	for axis := range 2 {
		out(ir.Softmax, &ir.AxisAttr{Axis: axis}, x)
		out(ir.LogSoftmax, &ir.AxisAttr{Axis: axis}, x)
		out(ir.LRN, &ir.LRNAttr{Axis: axis, Size: 4 + axis, Alpha: 1e-2, Beta: 0.75, Bias: 1}, x)
	}
	alone, err := g.Add(ir.Reshape, "alone", &ir.ShapeAttr{Shape: []int{2, n / 2, 1}}, x)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []ir.OpKind{ir.Softmax, ir.LogSoftmax} { // loops of one step, of which compilers make other instructions
		out(k, &ir.AxisAttr{Axis: 2}, alone)
	}
	for _, k := range []ir.OpKind{ir.ReduceMean, ir.ReduceSum, ir.ReduceMax, ir.ReduceMin} {
		out(k, &ir.ReduceAttr{Axes: []int{2}}, alone)
	}
	p, err := Compile(g, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
		t.Fatal(err)
	}
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	special := []float32{0, float32(math.Copysign(0, -1)), 1e-30, -1e-30, 1e-4, -1e-4, 9e-4, 1.1e-3, 88, 89, -88, -104, 1e30, -1e30, inf, -inf, nan}
	for round, scale := range []float64{1, 20, 1e-3, 0} {
		xs, zs := make([]float32, n), make([]float32, n/2)
		for i := range xs {
			xs[i] = float32((float64(i)/n - 0.5) * 3 * scale)
			if scale == 0 {
				xs[i] = special[i%len(special)]
			}
		}
		for i := range zs {
			zs[i] = float32(math.Sin(float64(i))) * float32(scale)
		}
		in := []*ir.Tensor{ir.NewTensor(ir.F32, shape, xs), ir.NewTensor(ir.F32, []int{1, n / 2}, zs)}
		want, err := e.Run(context.Background(), in, eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := emulate(t, p, in)
		for o, w := range want {
			off := 0
			for i, v := range ir.Data[float32](w) {
				y := math.Float32frombits(binary.LittleEndian.Uint32(got[o][4*i:]))
				if y == v || y != y && v != v {
					continue
				}
				off++
				if y != math.Nextafter32(v, y) {
					t.Fatalf("%s, round %d, element %d of %v: %g, want %g", g.DefOp(g.Outputs[o]).Name, round, i, w.Shape, y, v)
				}
			}
			if off > w.Numel()/100 {
				t.Errorf("%s, round %d: %d of %d elements are neighbours", g.DefOp(g.Outputs[o]).Name, round, off, w.Numel())
			}
		}
	}
}
