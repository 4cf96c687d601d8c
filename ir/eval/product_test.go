package eval

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

// run evaluates g, failing the test on any error.
func run(t interface{ Fatalf(string, ...any) }, g *ir.Graph, in []*ir.Tensor, opts Options) []*ir.Tensor {
	e, err := New(g)
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, err := e.Run(context.Background(), in, opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// relError returns the greatest difference of two float32 tensors over the
// greatest magnitude of want.
func relError(got, want *ir.Tensor) float64 {
	g, w := ir.Data[float32](got), ir.Data[float32](want)
	worst, scale := 0.0, 0.0
	for i := range w {
		a, b := float64(g[i]), float64(w[i])
		if a == b || a != a && b != b {
			continue
		}
		d := math.Abs(a - b)
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		worst = max(worst, d)
	}
	for _, v := range w {
		if f := math.Abs(float64(v)); !math.IsInf(f, 0) && f == f {
			scale = max(scale, f)
		}
	}
	return worst / max(scale, 1e-20)
}

// TestFastFloat compares the kernels with the definitions on random graphs.
func TestFastFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{})
		in := irtest.Inputs(t, g)
		fast := run(t, g, in, Options{})
		plain := run(t, g, in, Options{Plain: true})
		for i := range plain {
			if want := g.Type(g.Outputs[i]); fast[i].DType != want.DType || !slices.Equal(fast[i].Shape, want.Shape) {
				t.Fatalf("output %d is %s%v, want %s%v", i, fast[i].DType, fast[i].Shape, want.DType, want.Shape)
			}
			if e := relError(fast[i], plain[i]); e > 1e-4 {
				t.Fatalf("output %d: relative error %g\n%v", i, e, g)
			}
		}
	})
}

// drawCodes returns a random constant of codes of d, quantised with one scale
// or, when axis ≥ 0 and the draw says so, one for each index of axis.
func drawCodes(t *rapid.T, label string, d ir.DType, axis int, shape ...int) (*ir.Tensor, *ir.Quant) {
	lo, hi := d.IntRange()
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, label), 0))
	c := make([]int32, ir.Numel(shape))
	for i := range c {
		c[i] = int32(lo + rng.Int64N(hi-lo+1))
	}
	n := 1
	if axis >= 0 && rapid.Bool().Draw(t, label+" per channel") {
		n = shape[axis]
	} else {
		axis = -1
	}
	q := &ir.Quant{Axis: axis}
	symmetric := rapid.Bool().Draw(t, label+" symmetric")
	for range n {
		q.Scale = append(q.Scale, float32(0.001+rng.Float64()/16))
		z := int32(lo + rng.Int64N(hi-lo+1))
		if symmetric && lo < 0 {
			z = 0
		}
		q.Zero = append(q.Zero, z)
	}
	return fromCodes(d, shape, c), q
}

var (
	actTypes    = rapid.SampledFrom([]ir.DType{ir.I8, ir.U8, ir.I4, ir.U4})
	weightTypes = rapid.SampledFrom([]ir.DType{ir.I8, ir.U8, ir.I4})
	outTypes    = rapid.SampledFrom([]ir.DType{ir.I8, ir.U8, ir.I32})
)

func drawAct(t *rapid.T, d ir.DType) *ir.Act {
	if d == ir.I32 || !rapid.Bool().Draw(t, "act") {
		return nil
	}
	hi := rapid.SampledFrom([]float32{6, 0.5, float32(math.Inf(1))}).Draw(t, "act hi")
	return &ir.Act{Lo: 0, Hi: hi}
}

func outQuant(t *rapid.T, d ir.DType) *ir.Quant {
	if d == ir.I32 {
		return nil
	}
	lo, hi := d.IntRange()
	return ir.PerTensor(float32(rapid.Float64Range(0.01, 1).Draw(t, "y scale")),
		int32(rapid.Int64Range(lo, hi).Draw(t, "y zero")))
}

// addBias returns a bias of n channels for operands x and w, or NoValue.
func addBias(t *rapid.T, g *ir.Graph, x, w *ir.Quant, n int) ir.ValueID {
	if !rapid.Bool().Draw(t, "bias") {
		return ir.NoValue
	}
	b := make([]int32, n)
	for i := range b {
		b[i] = int32(i*977%2000 - 1000)
	}
	q := &ir.Quant{Axis: -1}
	if len(w.Scale) > 1 {
		q.Axis = 0
	}
	for _, s := range w.Scale {
		q.Scale, q.Zero = append(q.Scale, s*x.Scale[0]), append(q.Zero, 0)
	}
	return g.AddConst("bias", ir.NewTensor(ir.I32, []int{n}, b), q)
}

// checkFast compares the fast with the plain form of g bit for bit, and codes of
// 8 bits with the real numbers they stand for, computed by dequantising the
// operands and clamping: those must be within half a code and a little.
func checkFast(t *rapid.T, g *ir.Graph, x *ir.Tensor, act *ir.Act) {
	in := []*ir.Tensor{x}
	fast := run(t, g, in, Options{})[0]
	plain := run(t, g, in, Options{Plain: true})[0]
	if !slices.Equal(codes(fast), codes(plain)) {
		t.Fatalf("fast and plain differ:\n%v\n%v", codes(fast), codes(plain))
	}
	yt := g.Type(g.Outputs[0])
	if yt.Quant == nil {
		return
	}
	op := &g.Ops[0]
	h := &ir.Graph{}
	var ids []ir.ValueID
	for i, id := range op.In {
		if id == ir.NoValue {
			continue
		}
		c, ct := x, g.Type(id)
		if i > 0 {
			c = g.Value(id).Const
		}
		ids = append(ids, h.AddConst("", real(c, ct), nil))
	}
	y, err := h.Add(op.Kind, "", op.Attr, ids...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	h.Outputs = []ir.ValueID{y}
	want := ir.Data[float32](run(t, h, nil, Options{Plain: true})[0])
	for i, c := range codes(plain) {
		v := float64(want[i])/float64(yt.Quant.Scale[0]) + float64(yt.Quant.Zero[0])
		lo, hi := yt.DType.IntRange()
		if act != nil {
			lo, hi = code(float64(act.Lo), yt), code(float64(act.Hi), yt)
		}
		v = min(max(v, float64(lo)), float64(hi))
		if d := math.Abs(float64(c) - v); d > 0.52 {
			t.Fatalf("element %d: code %d, real arithmetic gives %g", i, c, v)
		}
	}
}

// real returns what a constant of codes stands for.
func real(c *ir.Tensor, t ir.Type) *ir.Tensor {
	count, inner := channels(t)
	y := make([]float32, c.Numel())
	for i, v := range codes(c) {
		ch := i / inner % count
		y[i] = float32(float64(v-t.Quant.Zero[ch]) * float64(t.Quant.Scale[ch]))
		if t.Quant.Block > 0 {
			k := i/(inner*count)*inner + i%inner // place in the channel
			blocks := len(t.Quant.Shift) / count
			y[i] *= float32(int(1) << t.Quant.Shift[ch*blocks+k/t.Quant.Block])
		}
	}
	return ir.NewTensor(ir.F32, c.Shape, y)
}

// drawBlocks puts the codes of weights with a scale a channel into blocks, if it is
// so drawn.
func drawBlocks(t *rapid.T, w *ir.Tensor, q *ir.Quant) {
	if q.Axis < 0 || w.DType != ir.I8 && w.DType != ir.I4 || !rapid.Bool().Draw(t, "blocks") {
		return
	}
	q.Block = rapid.SampledFrom([]int{1, 3, 32}).Draw(t, "block")
	n := len(q.Scale) * q.BlocksOf(w.Numel()/len(q.Scale))
	q.Shift = rapid.SliceOfN(rapid.Uint8Range(0, 4), n, n).Draw(t, "shifts")
	clear(q.Zero)
}

func TestFixedConv(t *testing.T) {
	dim := func(t *rapid.T, name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "groups")
		ig, og := dim(t, "ig", 1, 9), rapid.SampledFrom([]int{1, 2, 5, 8, 17, 65}).Draw(t, "og")
		kh, kw := dim(t, "kh", 1, 3), dim(t, "kw", 1, 3)
		a := &ir.ConvAttr{
			Strides: [2]int{dim(t, "sh", 1, 2), dim(t, "sw", 1, 3)}, Dilations: [2]int{dim(t, "dh", 1, 2), dim(t, "dw", 1, 2)},
			Pads: [4]int{dim(t, "top", 0, 2), dim(t, "left", 0, 2), dim(t, "bottom", 0, 2), dim(t, "right", 0, 2)}, Groups: groups,
		}
		h, w := dim(t, "h", 5, 9), dim(t, "w", 5, 9)
		xt, yt := actTypes.Draw(t, "x type"), outTypes.Draw(t, "y type")
		a.Act = drawAct(t, yt)
		x, xq := drawCodes(t, "x", xt, -1, dim(t, "n", 1, 2), h, w, ig*groups)
		wt, wq := drawCodes(t, "w", weightTypes.Draw(t, "w type"), 0, og*groups, kh, kw, ig)
		drawBlocks(t, wt, wq)
		g := &ir.Graph{}
		xi := g.AddInput("x", x.Type().WithQuant(xq))
		wi := g.AddConst("w", wt, wq)
		bi := addBias(t, g, xq, wq, og*groups)
		shape := []int{x.Shape[0],
			(h+a.Pads[0]+a.Pads[2]-a.Dilations[0]*(kh-1)-1)/a.Strides[0] + 1,
			(w+a.Pads[1]+a.Pads[3]-a.Dilations[1]*(kw-1)-1)/a.Strides[1] + 1, og * groups}
		y, err := g.AddTyped(ir.Conv2D, "conv", a, ir.TypeOf(yt, shape...).WithQuant(outQuant(t, yt)), xi, wi, bi)
		if err != nil {
			t.Fatalf("%v", err)
		}
		g.Outputs = []ir.ValueID{y}
		checkFast(t, g, x, a.Act)
	})
}

func TestFixedMatMul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, k, n := rapid.IntRange(1, 130).Draw(t, "m"), rapid.IntRange(1, 40).Draw(t, "k"), rapid.IntRange(1, 70).Draw(t, "n")
		lead := rapid.SampledFrom([][2][]int{{nil, nil}, {{3}, nil}, {{2}, {2}}, {{2, 1}, {3}}, {nil, {2}}, {{1}, {2}}}).Draw(t, "leading")
		xt, yt := actTypes.Draw(t, "x type"), outTypes.Draw(t, "y type")
		a := &ir.MatMulAttr{Act: drawAct(t, yt)}
		as, bs := append(slices.Clone(lead[0]), m, k), append(slices.Clone(lead[1]), k, n)
		x, xq := drawCodes(t, "x", xt, -1, as...)
		w, wq := drawCodes(t, "w", weightTypes.Draw(t, "w type"), len(bs)-1, bs...)
		drawBlocks(t, w, wq)
		g := &ir.Graph{}
		xi := g.AddInput("x", x.Type().WithQuant(xq))
		wi := g.AddConst("w", w, wq)
		bi := addBias(t, g, xq, wq, n)
		shape := matmulResult(as, bs)
		y, err := g.AddTyped(ir.MatMul, "matmul", a, ir.TypeOf(yt, shape...).WithQuant(outQuant(t, yt)), xi, wi, bi)
		if err != nil {
			t.Fatalf("%v", err)
		}
		g.Outputs = []ir.ValueID{y}
		checkFast(t, g, x, a.Act)
	})
}

// TestLongSegments checks convolutions whose channels exceed a block of K, and
// several right matrices that are no constants.
func TestLongSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bytes := func(shape ...int) *ir.Tensor {
		c := make([]int32, ir.Numel(shape))
		for i := range c {
			c[i] = int32(rng.IntN(256) - 128)
		}
		return fromCodes(ir.I8, shape, c)
	}
	for _, c := range []int{255, 600, 1027} {
		attr := &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 2}, Groups: 1, Pads: [4]int{1, 0, 0, 1}}
		x, w := bytes(1, 4, 5, c), bytes(70, 2, 2, c)
		f, q := &ir.Graph{}, &ir.Graph{}
		xf, wf := cast(x, ir.F32), cast(w, ir.F32)
		yf, err := f.Add(ir.Conv2D, "", attr, f.AddInput("x", xf.Type()), f.AddInput("w", wf.Type()))
		if err != nil {
			t.Fatal(err)
		}
		one := ir.PerTensor(1, 0)
		yq, err := q.AddTyped(ir.Conv2D, "", attr, ir.TypeOf(ir.I32, f.Type(yf).Shape...),
			q.AddInput("x", x.Type().WithQuant(ir.PerTensor(1, -7))), q.AddInput("w", w.Type().WithQuant(one)))
		if err != nil {
			t.Fatal(err)
		}
		f.Outputs, q.Outputs = []ir.ValueID{yf}, []ir.ValueID{yq}
		in := []*ir.Tensor{xf, wf}
		// The float sums stay below 2^24 and so are exact.
		if e := relError(run(t, f, in, Options{})[0], run(t, f, in, Options{Plain: true})[0]); e != 0 {
			t.Errorf("%d channels: relative error %g", c, e)
		}
		in = []*ir.Tensor{x, w}
		if !slices.Equal(codes(run(t, q, in, Options{})[0]), codes(run(t, q, in, Options{Plain: true})[0])) {
			t.Errorf("%d channels: fast and plain sums of codes differ", c)
		}
	}
}

// matmulResult returns the shape of a product by letting the IR infer it.
func matmulResult(a, b []int) []int {
	g := &ir.Graph{}
	y, err := g.Add(ir.MatMul, "", nil, g.AddInput("a", ir.TypeOf(ir.F32, a...)), g.AddInput("b", ir.TypeOf(ir.F32, b...)))
	if err != nil {
		panic(fmt.Sprint(a, b, err))
	}
	return g.Type(y).Shape
}

// TestEvalOpTakesGivenWeights: EvalOp computes with the tensors it is given, also
// where the graph's operand is a constant.
func TestEvalOpTakesGivenWeights(t *testing.T) {
	for _, kind := range []ir.OpKind{ir.Conv2D, ir.MatMul} {
		g := &ir.Graph{}
		shape, xs := []int{2, 3}, []int{1, 2}
		attr := ir.Attr(&ir.MatMulAttr{})
		if kind == ir.Conv2D {
			shape, xs = []int{3, 1, 1, 2}, []int{1, 1, 1, 2}
			attr = &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Groups: 1}
		}
		x := g.AddInput("x", ir.TypeOf(ir.F32, xs...))
		w := g.AddConst("w", ir.Zeros(ir.F32, shape...), nil)
		if _, err := g.Add(kind, "product", attr, x, w); err != nil {
			t.Fatal(err)
		}
		given := ir.NewTensor(ir.F32, shape, []float32{1, 1, 1, 1, 1, 1})
		y, err := EvalOp(g, &g.Ops[0], []*ir.Tensor{ir.NewTensor(ir.F32, xs, []float32{2, 3}), given})
		if err != nil {
			t.Fatal(err)
		}
		if got := ir.Data[float32](y); !slices.Equal(got, []float32{5, 5, 5}) {
			t.Errorf("%s of [2 3] and ones is %v, want fives", kind, got)
		}
	}
}
