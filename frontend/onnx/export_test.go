package onnx

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"situ/ir"
	"situ/ir/eval"
)

// randomInputs fills a graph's inputs with small numbers.
func randomInputs(g *ir.Graph) []*ir.Tensor {
	r := rand.New(rand.NewPCG(1, 2))
	var ts []*ir.Tensor
	for _, id := range g.Inputs {
		t := g.Type(id)
		v := make([]float64, t.Numel())
		for i := range v {
			v[i] = r.NormFloat64()
		}
		ts = append(ts, fromFloats(t.DType, t.Shape, v))
	}
	return ts
}

func evaluate(t *testing.T, g *ir.Graph, in []*ir.Tensor) []*ir.Tensor {
	t.Helper()
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(context.Background(), in, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// roundTrip exports g and imports the result.
func roundTrip(t *testing.T, g *ir.Graph) *ir.Graph {
	t.Helper()
	p, err := Export(g)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := WriteModel(path, p); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Import(m, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestExportRoundTrip exports what was imported and imports it again: names,
// shapes and every bit of the results stay.
func TestExportRoundTrip(t *testing.T) {
	for _, f := range mustImportFiles(t) {
		name := filepath.Base(filepath.Dir(f))
		if strings.Contains(name, "qlinear") || strings.HasPrefix(name, "test_") && name != "test_squeezenet" {
			continue // products of codes have no ONNX form here; the large ones add nothing
		}
		t.Run(name, func(t *testing.T) {
			m, err := Load(f)
			if err != nil {
				t.Fatal(err)
			}
			g, err := Import(m, ImportOptions{DefaultDim: 1})
			if err != nil {
				t.Fatal(err)
			}
			h := roundTrip(t, g)
			in := randomInputs(g)
			want, got := evaluate(t, g, in), evaluate(t, h, in)
			for i := range want {
				if g.Value(g.Outputs[i]).Name != h.Value(h.Outputs[i]).Name || !slices.Equal(got[i].Shape, want[i].Shape) {
					t.Errorf("output %d is %q %v, want %q %v", i, h.Value(h.Outputs[i]).Name, got[i].Shape, g.Value(g.Outputs[i]).Name, want[i].Shape)
				}
				if !slices.Equal(numbers(got[i]), numbers(want[i])) {
					t.Errorf("output %d changed", i)
				}
			}
		})
	}
}

// TestExportOperators covers what those models do not use.
func TestExportOperators(t *testing.T) {
	g := &ir.Graph{}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 2, 5, 6, 3))
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	out := func(id ir.ValueID) { g.Outputs = append(g.Outputs, id) }
	act := &ir.Act{Lo: -0.5, Hi: 0.25}
	w := g.AddConst("w", fromFloats(ir.F32, []int{4, 2, 3, 3}, make([]float64, 72)), nil)
	b := g.AddConst("b", fromFloats(ir.F32, []int{4}, []float64{1, 0, -1, 0.1}), nil)
	out(must(g.Add(ir.Conv2D, "conv", &ir.ConvAttr{Strides: [2]int{2, 1}, Pads: [4]int{1, 0, 0, 1}, Dilations: [2]int{1, 2}, Groups: 1, Act: act}, x, w, b)))
	m := g.AddConst("m", fromFloats(ir.F32, []int{3, 4}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}), nil)
	out(must(g.Add(ir.MatMul, "matmul", &ir.MatMulAttr{Act: act}, x, m, b)))
	out(must(g.Add(ir.Add, "add", &ir.BinaryAttr{Act: act}, x, x)))
	out(must(g.Add(ir.AvgPool, "avg", &ir.PoolAttr{Kernel: [2]int{2, 2}, Strides: [2]int{2, 2}, Dilations: [2]int{1, 1}, Pads: [4]int{0, 1, 1, 1}, CountPad: true}, x)))
	out(must(g.Add(ir.Slice, "slice", &ir.SliceAttr{Starts: []int{0, 4, 1, 2}, Steps: []int{1, -1, 2, -2}, Sizes: []int{2, 5, 2, 2}}, x)))
	for mode := ir.PadConstant; mode <= ir.PadWrap; mode++ {
		out(must(g.Add(ir.Pad, "pad", &ir.PadAttr{Begin: []int{0, 1, 2, 0}, End: []int{0, -1, 0, 1}, Mode: mode, Value: 7}, x)))
	}
	out(must(g.Add(ir.LRN, "lrn", &ir.LRNAttr{Axis: 3, Size: 3, Alpha: 0.1, Beta: 0.75, Bias: 1}, x)))
	out(must(g.Add(ir.ReduceMax, "max", &ir.ReduceAttr{Axes: []int{1, 3}}, x)))
	out(must(g.AddTyped(ir.Cast, "cast", nil, ir.TypeOf(ir.I32, 2, 5, 6, 3), x)))
	out(must(g.Add(ir.Clip, "clip", &ir.ClipAttr{Lo: 0, Hi: 6}, x)))
	out(must(g.Add(ir.HardSigmoid, "hardsigmoid", &ir.AlphaBetaAttr{Alpha: 0.3, Beta: 0.4}, x)))
	y := must(g.Add(ir.Cos, "cos", nil, x))
	less := must(g.Add(ir.Less, "less", nil, x, y))
	out(less)
	same := must(g.Add(ir.Equals, "equal", nil, x, y))
	out(must(g.Add(ir.BitXor, "xor", nil, less, same)))
	out(must(g.Add(ir.Where, "where", nil, less, x, y)))
	out(must(g.Add(ir.Mod, "mod", &ir.ModAttr{Truncated: true}, x, y)))
	out(must(g.Add(ir.CumSum, "cumsum", &ir.AxisAttr{Axis: 2}, x)))
	out(must(g.Add(ir.ReduceProd, "prod", &ir.ReduceAttr{Axes: []int{2}}, x)))
	top := must(g.Add(ir.TopK, "topk", &ir.TopKAttr{Axis: 2, K: 3, Smallest: true}, x))
	out(top)
	elements := must(g.Add(ir.GatherElements, "gatherelements", &ir.AxisAttr{Axis: 2}, x, top))
	out(elements)
	out(must(g.Add(ir.ScatterElements, "scatterelements", &ir.ScatterAttr{Axis: 2, Mode: ir.ScatterAdd}, x, top, elements)))
	bits := g.AddConst("bits", fromInts(ir.U8, []int{3}, []int64{1, 200, 77}), nil)
	two := g.AddConst("two", fromInts(ir.U8, nil, []int64{2}), nil)
	for _, k := range []ir.OpKind{ir.BitAnd, ir.BitOr, ir.BitXor, ir.ShiftLeft, ir.ShiftRight} {
		out(must(g.Add(k, k.String(), nil, bits, two)))
	}
	out(must(g.Add(ir.Mod, "mod of integers", nil, bits, two)))
	wide := must(g.AddTyped(ir.Cast, "wide", nil, ir.TypeOf(ir.F64, 2, 5, 6, 3), x))
	out(must(g.Add(ir.Add, "add of f64", &ir.BinaryAttr{Act: act}, wide, wide)))
	h := roundTrip(t, g)
	in := randomInputs(g)
	want, got := evaluate(t, g, in), evaluate(t, h, in)
	for i := range want {
		if !slices.Equal(got[i].Shape, want[i].Shape) || !slices.Equal(numbers(got[i]), numbers(want[i])) {
			t.Errorf("%s changed", g.Value(g.Outputs[i]).Name)
		}
	}
}

func TestExportRefusesCodes(t *testing.T) {
	g := &ir.Graph{}
	q := ir.TypeOf(ir.I8, 4).WithQuant(ir.PerTensor(0.5, 0))
	x := g.AddInput("x", q)
	y, err := g.AddTyped(ir.Add, "sum", nil, q, x, x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = append(g.Outputs, y)
	if _, err := Export(g); err == nil || !strings.Contains(err.Error(), `add "sum": computes on codes`) {
		t.Errorf("got %v", err)
	}
}
