package gpu

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	gen "situ/backend/gpu/kernel"
	"situ/emulator/ptx"
	"situ/ir"
)

// always chooses one tile.
func always(t gen.Tile) chooser {
	return func(gen.ConvTensor, *arch.GPU) (gen.Tile, bool) { return t, true }
}

func never(gen.ConvTensor, *arch.GPU) (gen.Tile, bool) { return gen.Tile{}, false }

// randomCodes returns a tensor of all codes of a type.
func randomCodes(r *rand.Rand, t ir.Type) *ir.Tensor {
	out := ir.Zeros(t.DType, t.Shape...)
	switch d := out.Any().(type) {
	case []int8:
		for i := range d {
			d[i] = int8(r.Uint32())
		}
	case []uint8:
		for i := range d {
			d[i] = uint8(r.Uint32())
		}
	case []int32:
		for i := range d {
			d[i] = int32(r.Uint32()) >> 12
		}
	case []float32:
		for i := range d {
			d[i] = float32(r.NormFloat64() * 3)
		}
	}
	return out
}

// drawCode draws a type of 8-bit codes.
func drawCode(t *rapid.T, name string, shape ...int) ir.Type {
	d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(t, name)
	lo, hi := d.IntRange()
	zero := rapid.Int32Range(int32(lo), int32(hi)).Draw(t, name+" zero")
	scale := rapid.Float64Range(0.01, 1).Draw(t, name+" scale")
	if rapid.IntRange(0, 2).Draw(t, name+" power of two") == 0 { // results may lie half-way
		scale = math.Exp2(math.Round(math.Log2(scale)))
	}
	return ir.TypeOf(d, shape...).WithQuant(ir.PerTensor(float32(scale), zero))
}

// drawProduct draws a convolution or a matrix product with constant weights, with
// a table and a residual sum behind it or not, and an input.
func drawProduct(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	g := &ir.Graph{Name: "product"}
	must := func(v ir.ValueID, err error) ir.ValueID {
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	size := func(name string, n int) int { return rapid.IntRange(1, n).Draw(t, name) }
	var xt, wt ir.Type
	var kind ir.OpKind
	var attr ir.Attr
	var shape []int
	axis, channels := 0, 0
	inf := float32(math.Inf(1))
	act := rapid.SampledFrom([]*ir.Act{nil, {Lo: 0, Hi: inf}}).Draw(t, "act")
	if rapid.Bool().Draw(t, "matmul") {
		m, k, n := size("m", 150), size("k", 300), size("n", 150)
		if rapid.Bool().Draw(t, "even") {
			k, n = (k+15)/16*16, (n+15)/16*16
		}
		kind, attr, axis, channels = ir.MatMul, &ir.MatMulAttr{Act: act}, 1, n
		xt, wt, shape = drawCode(t, "x", m, k), ir.TypeOf(ir.I8, k, n), []int{m, n}
	} else {
		groups := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "groups")
		ig := rapid.SampledFrom([]int{1, 3, 4, 8, 16, 20, 32, 64, 80, 128}).Draw(t, "channels")
		og := rapid.IntRange(1, 70).Draw(t, "out")
		a := &ir.ConvAttr{Groups: groups, Act: act}
		var k, out [2]int
		h := [2]int{rapid.IntRange(1, 9).Draw(t, "h"), rapid.IntRange(1, 9).Draw(t, "w")}
		for d := range 2 {
			k[d], a.Strides[d], a.Dilations[d] = size("kernel", 3), size("stride", 2), size("dilation", 2)
			a.Pads[d], a.Pads[d+2] = rapid.IntRange(0, 2).Draw(t, "pad"), rapid.IntRange(0, 2).Draw(t, "pad")
			out[d] = (h[d]+a.Pads[d]+a.Pads[d+2]-(k[d]-1)*a.Dilations[d]-1)/a.Strides[d] + 1
			if h[d]+a.Pads[d]+a.Pads[d+2] < (k[d]-1)*a.Dilations[d]+1 {
				t.Skip("the kernel is larger than the padded input: no such convolution")
			}
		}
		kind, attr, channels = ir.Conv2D, a, groups*og
		n := size("batch", 2)
		xt, wt, shape = drawCode(t, "x", n, h[0], h[1], groups*ig), ir.TypeOf(ir.I8, channels, k[0], k[1], ig), []int{n, out[0], out[1], channels}
	}
	q := &ir.Quant{Axis: axis}
	lo, hi := int32(0), int32(0)
	if rapid.IntRange(0, 4).Draw(t, "zero points") == 0 {
		if rapid.Bool().Draw(t, "unsigned") {
			wt.DType, lo, hi = ir.U8, 0, 255
		} else {
			lo, hi = -128, 127
		}
	}
	for range channels {
		q.Scale, q.Zero = append(q.Scale, float32(math.Exp(r.NormFloat64()-5))), append(q.Zero, lo+r.Int32N(hi-lo+1))
	}
	x := g.AddInput("x", xt)
	w := g.AddConst("w", randomCodes(r, wt), q)
	in := []ir.ValueID{x, w}
	if rapid.Bool().Draw(t, "bias") {
		in = append(in, g.AddConst("b", randomCodes(r, ir.TypeOf(ir.I32, channels)), nil))
	}
	inputs := []*ir.Tensor{randomCodes(r, xt)}
	if rapid.IntRange(0, 4).Draw(t, "sums") == 0 && act == nil {
		g.Outputs = []ir.ValueID{must(g.AddTyped(kind, "p", attr, ir.TypeOf(ir.I32, shape...), in...))}
		return g, inputs
	}
	y := must(g.AddTyped(kind, "p", attr, drawCode(t, "y", shape...), in...))
	if rapid.Bool().Draw(t, "table") {
		tt := drawCode(t, "table", shape...)
		table := g.AddConst("t", randomCodes(r, ir.TypeOf(tt.DType, 256)), tt.Quant)
		y = must(g.AddTyped(ir.LUT, "lut", nil, tt, y, table))
	}
	if rapid.Bool().Draw(t, "residual") {
		zt := drawCode(t, "z", shape...)
		z := g.AddInput("z", zt)
		inputs = append(inputs, randomCodes(r, zt))
		ab := []ir.ValueID{y, z}
		if rapid.Bool().Draw(t, "swapped") {
			ab = []ir.ValueID{z, y}
		}
		kind := rapid.SampledFrom([]ir.OpKind{ir.Add, ir.Sub, ir.Mul}).Draw(t, "arithmetic")
		y = must(g.AddTyped(kind, "sum", nil, drawCode(t, "sum", shape...), ab...))
	}
	if rapid.Bool().Draw(t, "requantize") {
		y = must(g.AddTyped(ir.Requantize, "rq", nil, drawCode(t, "rq", shape...), y))
	}
	g.Outputs = []ir.ValueID{y}
	return g, inputs
}

// TestProducts compiles products of many shapes for every tile, and without
// tensor cores, and compares bits.
func TestProducts(t *testing.T) {
	c, a := needLLC(t), h100(t)
	fused := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (*ir.Graph, []*ir.Tensor){drawProduct, drawMatMul}).Draw(t, "draw")
		g, in := draw(t)
		choose, fewRows := chooser(never), rapid.SampledFrom([]int{0, gen.MaxFewRows}).Draw(t, "few rows")
		if i := rapid.IntRange(0, len(tileShapes)).Draw(t, "tile"); i < len(tileShapes) {
			tile := tileShapes[i]
			tile.Stages = rapid.IntRange(2, 3).Draw(t, "stages")
			choose = always(tile)
		}
		p, err := compile(g, a, choose, fewRows)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatalf("%v", err)
		}
		if len(p.Launches) != 1 {
			t.Fatalf("%d launches, want all in one\n%v", len(p.Launches), g)
		}
		fused += len(p.Launches[0].Fused)
		sameBits(t, g, p, in)
	})
	if fused == 0 {
		t.Error("nothing was fused")
	}
}

// TestPixels: a convolution over few channels whose image is given words and margins first
// has the same bits.
func TestPixels(t *testing.T) {
	c, a := needLLC(t), *h100(t)
	a.Launch.GraphUS.Value = math.Inf(-1) // it always pays
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		size := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
		ch, o, n := size("channels", 1, 4), size("out", 1, 40), size("batch", 1, 2)
		h := [2]int{size("h", 1, 10), size("w", 1, 24)}
		at := &ir.ConvAttr{Groups: 1, Dilations: [2]int{size("dilation", 1, 2), 1}}
		var k, out [2]int
		for d := range 2 {
			k[d], at.Strides[d] = size("kernel", 1, 3+16*d), size("stride", 1, 4)
			if d == 1 && ch == gen.PixelBytes {
				k[d]++
			}
			at.Pads[d], at.Pads[d+2] = size("pad", 0, 3), size("pad", 0, 3)
			room := h[d] + at.Pads[d] + at.Pads[d+2] - (k[d]-1)*at.Dilations[d] - 1
			if room < 0 {
				t.Skip("the kernel is larger than the padded input: no such convolution")
			}
			out[d] = room/at.Strides[d] + 1
		}
		q := &ir.Quant{Axis: 0}
		for range o {
			q.Scale, q.Zero = append(q.Scale, float32(math.Exp(r.NormFloat64()-5))), append(q.Zero, 0)
		}
		g := &ir.Graph{Name: "pixels"}
		xt := drawCode(t, "x", n, h[0], h[1], ch)
		in := []ir.ValueID{g.AddInput("x", xt), g.AddConst("w", randomCodes(r, ir.TypeOf(ir.I8, o, k[0], k[1], ch)), q)}
		y, err := g.AddTyped(ir.Conv2D, "p", at, drawCode(t, "y", n, out[0], out[1], o), in...)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		p, err := compile(g, &a, always(tileShapes[rapid.IntRange(0, len(tileShapes)-1).Draw(t, "tile")]), gen.MaxFewRows)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Launches) != 2 {
			t.Fatalf("%d launches, want pixels and their product\n%v", len(p.Launches), g)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatal(err)
		}
		sameBits(t, g, p, []*ir.Tensor{randomCodes(r, xt)})
	})
}

// TestMaxima: maxima of windows of one channel, four and sixteen at a time.
func TestMaxima(t *testing.T) {
	c, a := needLLC(t), h100(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		size := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
		ch, n := rapid.SampledFrom([]int{1, 3, 4, 12, 16, 48}).Draw(t, "channels"), size("batch", 1, 2)
		at := &ir.PoolAttr{}
		var h, out [2]int
		for d := range 2 {
			h[d], at.Kernel[d] = size("h", 1, 12), size("kernel", 1, 5)
			at.Strides[d], at.Dilations[d] = size("stride", 1, 3), size("dilation", 1, 2)
			at.Pads[d], at.Pads[d+2] = size("pad", 0, at.Kernel[d]/2), size("pad", 0, at.Kernel[d]/2)
			room := h[d] + at.Pads[d] + at.Pads[d+2] - (at.Kernel[d]-1)*at.Dilations[d] - 1
			if room < 0 {
				t.Skip("the window is larger than the padded input")
			}
			out[d] = room/at.Strides[d] + 1
		}
		xt := drawCode(t, "x", n, h[0], h[1], ch)
		yt := xt
		yt.Shape = []int{n, out[0], out[1], ch}
		g := &ir.Graph{Name: "maxima"}
		for d := range 2 { // a maximum of no element has no code
			for o := range out[d] {
				inside := false
				for i := range at.Kernel[d] {
					p := o*at.Strides[d] - at.Pads[d] + i*at.Dilations[d]
					inside = inside || p >= 0 && p < h[d]
				}
				if !inside {
					t.Skip("a window lies wholly in the padding")
				}
			}
		}
		y, err := g.AddTyped(ir.MaxPool, "p", at, yt, g.AddInput("x", xt))
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		p, err := compile(g, a, never, gen.MaxFewRows)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatal(err)
		}
		sameBits(t, g, p, []*ir.Tensor{randomCodes(r, xt)})
	})
}

// drawMatMul draws a product of two activations, or of one and a batch of constant
// matrices, with broadcasting.
func drawMatMul(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	size := func(name string, n int) int { return rapid.IntRange(1, n).Draw(t, name) }
	m, k, n := size("m", 100), size("k", 150), size("n", 100)
	if rapid.Bool().Draw(t, "even") {
		k, n = (k+15)/16*16, (n+15)/16*16
	}
	var a, b, y []int
	for range rapid.IntRange(0, 2).Draw(t, "batch dimensions") {
		d := size("batch", 3)
		pair := rapid.SampledFrom([][2]int{{d, d}, {1, d}, {d, 1}}).Draw(t, "broadcast")
		a, b, y = append(a, pair[0]), append(b, pair[1]), append(y, d)
	}
	at, bt := drawCode(t, "a", append(a, m, k)...), drawCode(t, "b", append(b, k, n)...)
	g := &ir.Graph{Name: "matmul"}
	in := []ir.ValueID{g.AddInput("a", at)}
	inputs := []*ir.Tensor{randomCodes(r, at)}
	if v := randomCodes(r, bt); rapid.IntRange(0, 3).Draw(t, "constant") == 0 {
		in = append(in, g.AddConst("b", v, bt.Quant))
	} else {
		in = append(in, g.AddInput("b", bt))
		inputs = append(inputs, v)
	}
	if rapid.Bool().Draw(t, "bias") {
		in = append(in, g.AddConst("bias", randomCodes(r, ir.TypeOf(ir.I32, n)), nil))
	}
	yt := drawCode(t, "y", append(y, m, n)...)
	if rapid.IntRange(0, 3).Draw(t, "sums") == 0 {
		yt = ir.TypeOf(ir.I32, yt.Shape...)
	}
	out, err := g.AddTyped(ir.MatMul, "p", nil, yt, in...)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{out}
	return g, inputs
}

// TestTraffic: tiles cross shared memory without bank conflicts, results reach
// memory in whole sectors, and each operand comes from memory once.
func TestTraffic(t *testing.T) {
	c, a := needLLC(t), h100(t)
	r := rand.New(rand.NewPCG(1, 2))
	const m, n, k = 256, 256, 128
	q := ir.PerTensor(0.01, 0)
	g := &ir.Graph{Name: "gemm"}
	x := g.AddInput("x", ir.TypeOf(ir.I8, m, k).WithQuant(q))
	w := g.AddConst("w", randomCodes(r, ir.TypeOf(ir.I8, k, n)), q)
	y, err := g.AddTyped(ir.MatMul, "m", nil, ir.TypeOf(ir.I8, m, n).WithQuant(q), x, w)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	p, err := compile(g, a, always(tileShapes[1]), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
		t.Fatal(err)
	}
	_, counts := emulate(t, p, []*ir.Tensor{randomCodes(r, g.Type(x))})
	f := counts[0].Traffic
	if f.SharedConflicts != 0 {
		t.Errorf("%d bank conflicts", f.SharedConflicts)
	}
	if want := int64(m * n / 32); f.StoreSectors != want {
		t.Errorf("%d sectors stored, want %d", f.StoreSectors, want)
	}
	if got, want := counts[0].Classes[ptx.Tensor].Warps, int64(m*n*k/(16*8*32)); got != want {
		t.Errorf("%d tensor instructions, want %d", got, want)
	}
	// Beside the operands there are the table and the padding.
	if least, most := int64(m*k+k*n), int64(m*k+k*n+16*n+32); f.DRAMReadBytes < least || f.DRAMReadBytes > most {
		t.Errorf("%d bytes read from memory, want %d to %d", f.DRAMReadBytes, least, most)
	}
}
