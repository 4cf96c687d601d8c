package onnx

import (
	"slices"
	"testing"

	"situ/ir"
)

// TestExportImages exports a chain of layers over images, in the IR's layout, with
// quantised weights of both kinds of product, and counts the transposes: one on
// the way in and one on the way out.
func TestExportImages(t *testing.T) {
	g := &ir.Graph{}
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	codes := make([]int8, 2*3*3*2)
	for i := range codes {
		codes[i] = int8(i*37%15 - 7)
	}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, 5, 6, 2))
	w := g.AddConst("w", ir.NewTensor(ir.I4, []int{2, 3, 3, 2}, codes), &ir.Quant{Axis: 3, Scale: []float32{0.1, 0.3}, Zero: []int32{0, 0}})
	dq := must(g.Add(ir.Dequantize, "w", nil, w))
	conv := func(in ir.ValueID) ir.ValueID {
		return must(g.Add(ir.Conv2D, "conv", &ir.ConvAttr{Strides: [2]int{1, 1}, Pads: [4]int{1, 1, 1, 1}, Dilations: [2]int{1, 1}, Groups: 1}, in, dq))
	}
	y := conv(x)
	q := must(g.AddTyped(ir.Quantize, "q", nil, ir.TypeOf(ir.I8, 1, 5, 6, 2).WithQuant(&ir.Quant{Axis: 3, Scale: []float32{0.5, 0.25}, Zero: []int32{1, 2}}), y))
	y = must(g.Add(ir.Dequantize, "dq", nil, q))
	half := g.AddConst("half", fromFloats(ir.F32, nil, []float64{0.5}), nil)
	y = must(g.Add(ir.Mul, "mul", &ir.BinaryAttr{}, y, half))
	mean := must(g.Add(ir.ReduceMean, "mean", &ir.ReduceAttr{Axes: []int{1, 3}, KeepDims: true}, y))
	y = must(g.Add(ir.Sub, "sub", &ir.BinaryAttr{}, y, mean))
	y = must(g.Add(ir.Concat, "concat", &ir.AxisAttr{Axis: 1}, y, y))
	y = conv(must(g.Add(ir.Tanh, "tanh", nil, y)))
	g.Outputs = []ir.ValueID{y}
	p, err := Export(g)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, node := range p.Graph.Node {
		if node.OpType == "Transpose" {
			n++
		}
	}
	if n != 2 || p.OpsetImport[0].Version != exportOpsetNew {
		t.Errorf("%d transposes and opset %d, want 2 and %d", n, p.OpsetImport[0].Version, exportOpsetNew)
	}
	h := roundTrip(t, g)
	in := randomInputs(g)
	want, got := evaluate(t, g, in), evaluate(t, h, in)
	if !slices.Equal(got[0].Shape, want[0].Shape) {
		t.Fatalf("shape %v, want %v", got[0].Shape, want[0].Shape)
	}
	if d, err := compareTensors(got[0], want[0], 0); err != nil || d.relative > 1e-6 {
		t.Errorf("changed by %v (%v)", d.relative, err)
	}
}
