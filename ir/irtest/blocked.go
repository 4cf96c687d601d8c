package irtest

import (
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"situ/ir"
)

// Blocked returns a fixed-point graph of one to three products whose weights are
// codes of 4 or 8 bits in blocks, mostly of 32, and its input: convolutions, grouped
// and depthwise ones, or matrix products, of any K, which give codes, the last one
// perhaps its sums.
func Blocked(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	upTo := func(label string, least, most int) int { return rapid.IntRange(least, most).Draw(t, label) }
	b := &blocked{t: t, g: &ir.Graph{Name: "blocked"}, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))}
	shape := []int{upTo("rows", 1, 40), rapid.SampledFrom([]int{1, 7, 31, 32, 33, 64, 96, 100, 129, 200}).Draw(t, "K")}
	conv := rapid.Bool().Draw(t, "convolution")
	if conv {
		shape = []int{upTo("batch", 1, 2), upTo("height", 1, 9), upTo("width", 1, 9), rapid.SampledFrom([]int{1, 3, 4, 8, 12, 16, 32, 33, 40, 64}).Draw(t, "channels")}
	}
	d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(t, "x type")
	x := b.g.AddInput("x", ir.TypeOf(d, shape...).WithQuant(b.quant(d, 1.0/16)))
	in := ir.Zeros(d, shape...)
	switch c := in.Any().(type) {
	case []int8:
		fillWith(c, func() int64 { return int64(b.rng.Uint64()) })
	case []uint8:
		fillWith(c, func() int64 { return int64(b.rng.Uint64()) })
	}
	n := upTo("products", 1, 3)
	for i := range n {
		if sums := i == n-1 && rapid.Bool().Draw(t, "sums"); conv {
			x = b.conv(x, sums)
		} else {
			x = b.matmul(x, sums)
		}
	}
	b.g.Outputs = []ir.ValueID{x}
	if err := ir.Verify(b.g); err != nil {
		t.Fatalf("irtest drew an invalid graph: %v\n%v", err, b.g)
	}
	return b.g, []*ir.Tensor{in}
}

type blocked struct {
	t   *rapid.T
	g   *ir.Graph
	rng *rand.Rand
}

func (b *blocked) quant(d ir.DType, scale float64) *ir.Quant {
	lo, hi := d.IntRange()
	return ir.PerTensor(float32(scale), int32(lo+b.rng.Int64N(hi-lo+1)))
}

// weights returns constant weights of which k make up a channel.
func (b *blocked) weights(axis, k int, shape ...int) ir.ValueID {
	d := rapid.SampledFrom([]ir.DType{ir.I8, ir.I4}).Draw(b.t, "w type")
	q := &ir.Quant{Axis: axis, Block: rapid.SampledFrom([]int{32, 32, 32, 64, 5}).Draw(b.t, "block")}
	for range shape[axis] {
		q.Scale, q.Zero = append(q.Scale, float32(math.Ldexp(1, -b.rng.IntN(3)))), append(q.Zero, 0)
	}
	most := rapid.SampledFrom([]int{0, 1, 4, 4, ir.MaxShift}).Draw(b.t, "greatest shift")
	for range shape[axis] * q.BlocksOf(k) {
		q.Shift = append(q.Shift, uint8(b.rng.IntN(most+1)))
	}
	lo, hi := d.IntRange()
	codes := make([]int8, ir.Numel(shape))
	fillWith(codes, func() int64 { return lo + b.rng.Int64N(hi-lo+1) })
	return b.g.AddConst("w", ir.NewTensor(d, shape, codes), q)
}

// product adds a product over k elements with n channels.
func (b *blocked) product(kind ir.OpKind, attr ir.Attr, sums bool, k, n int, shape []int, x, w ir.ValueID) ir.ValueID {
	t := ir.TypeOf(ir.I32, shape...)
	in := []ir.ValueID{x, w}
	if xq, wq := b.g.Type(x).Quant, b.g.Type(w).Quant; rapid.Bool().Draw(b.t, "bias") {
		q := &ir.Quant{Axis: 0, Zero: wq.Zero}
		bias := make([]int32, n)
		for c := range bias {
			q.Scale, bias[c] = append(q.Scale, xq.Scale[0]*wq.Scale[c]), int32(b.rng.IntN(4000)-2000)
		}
		in = append(in, b.g.AddConst("bias", ir.NewTensor(ir.I32, []int{n}, bias), q))
	}
	if !sums {
		// Sums of random codes, shifted by two, over some 40 codes of the result.
		_, hi := b.g.Type(w).DType.IntRange()
		d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(b.t, "y type")
		scale := float64(b.g.Type(x).Quant.Scale[0]) * float64(hi) * 0.58 * 74 * 4 * math.Sqrt(float64(k)) / 40
		t = ir.TypeOf(d, shape...).WithQuant(b.quant(d, scale))
	}
	y, err := b.g.AddTyped(kind, kind.String(), attr, t, in...)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return y
}

func (b *blocked) matmul(x ir.ValueID, sums bool) ir.ValueID {
	s := b.g.Type(x).Shape
	n := rapid.SampledFrom([]int{1, 3, 8, 17, 33, 64, 70}).Draw(b.t, "N")
	return b.product(ir.MatMul, &ir.MatMulAttr{}, sums, s[1], n, []int{s[0], n}, x, b.weights(1, s[1], s[1], n))
}

func (b *blocked) conv(x ir.ValueID, sums bool) ir.ValueID {
	upTo := func(label string, least, most int) int { return rapid.IntRange(least, most).Draw(b.t, label) }
	s := b.g.Type(x).Shape
	groups := 1
	for _, n := range [...]int{2, 3, 4, s[3]} {
		if s[3]%n == 0 && rapid.IntRange(0, 5).Draw(b.t, "grouped") == 0 {
			groups = n
		}
	}
	out := groups * rapid.SampledFrom([]int{1, 1, 2, 5, 8}).Draw(b.t, "channels of a group")
	if groups == 1 {
		out = rapid.SampledFrom([]int{1, 4, 9, 16, 33, 64}).Draw(b.t, "out")
	}
	kh, kw := upTo("kh", 1, min(s[1]+2, 7)), upTo("kw", 1, min(s[2]+2, 7))
	a := &ir.ConvAttr{Groups: groups, Strides: [2]int{upTo("stride", 1, 2), upTo("stride", 1, 2)}, Dilations: [2]int{1, 1}, Pads: [4]int{1, 1, 1, 1}}
	h, w := (s[1]+2-kh)/a.Strides[0]+1, (s[2]+2-kw)/a.Strides[1]+1
	k := kh * kw * s[3] / groups
	return b.product(ir.Conv2D, a, sums, k, out, []int{s[0], h, w, out}, x, b.weights(0, k, out, kh, kw, s[3]/groups))
}
