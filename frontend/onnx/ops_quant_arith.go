package onnx

import (
	"slices"

	"situ/ir"
)

// Quantisation whose scales or zero points are not known at import, come in
// blocks or are not float32 is spelt out in arithmetic.

// fixedScale reports whether a scale and a zero point (operands; the latter may
// be absent) are what ir.Quant holds.
func (c *call) fixedScale(scale, zero int) bool {
	if c.err != nil {
		return false
	}
	s, z := c.in[scale], c.operand(zero)
	return s.isConst() && s.tensor.DType == ir.F32 && len(s.tensor.Shape) <= 1 && (z == nil || z.isConst())
}

// castTo converts a value of the graph, codes too, to plain d.
func (c *call) castTo(id ir.ValueID, d ir.DType) ir.ValueID { return c.castID(c.unquantised(id), d) }

// perElement brings a scale or zero point to a shape that broadcasts to x: one
// for all, one for each index of axis, or one for each block of elements of axis.
func (c *call) perElement(v *value, x []int, axis, block int64) *value {
	s := c.typeOf(v).Shape
	switch {
	case c.err != nil:
		return v
	case len(s) == 0 || len(s) == 1 && s[0] == 1 && block == 0:
		return c.shaped(v, nil)
	case len(s) == 1 && block == 0:
		a := c.axis(axis, len(x))
		if c.err == nil && x[a] != s[0] {
			c.failf("%d scales or zero points for dimension %d of %v", s[0], a, x)
		}
		return c.shaped(v, append(s, slices.Repeat([]int{1}, max(0, len(x)-1-a))...))
	}
	a := c.axis(axis, len(x))
	want := slices.Clone(x)
	if c.err == nil && block > 0 {
		want[a] = (want[a] + int(min(block, maxElements)) - 1) / int(min(block, maxElements))
	}
	if c.err == nil && (block <= 0 || !slices.Equal(s, want)) {
		c.failf("scales or zero points of shape %v for %v in blocks of %d along dimension %d", s, x, block, a)
	}
	if c.err != nil {
		return v
	}
	index := make([]int64, x[a])
	for i := range index {
		index[i] = int64(i) / block
	}
	c.charge(len(index))
	list := c.constant("", ir.NewTensor(ir.I64, []int{len(index)}, index), nil)
	return &value{id: c.add(ir.Gather, &ir.AxisAttr{Axis: a}, c.use(v), list)}
}

// blockSize reads the attribute of opset 21.
func (c *call) blockSize() int64 {
	if c.opset < 21 {
		return 0
	}
	b := c.int("block_size", 0)
	if b < 0 {
		c.failf("block_size %d", b)
	}
	return b
}

// saturated is round(x) + zero as codes of type d; x is F32, zero may be absent.
func (c *call) saturated(x, zero ir.ValueID, d ir.DType) ir.ValueID {
	if c.err == nil && (!d.IsInt() || d.Bits() > 16) {
		c.unsupportedf("quantisation to %s", d)
	}
	if c.err != nil {
		return ir.NoValue
	}
	lo, hi := d.IntRange()
	x = c.add(ir.Round, nil, x)
	if zero != ir.NoValue {
		x = c.add(ir.Add, nil, x, c.castTo(zero, ir.F32))
	}
	return c.castTo(c.add(ir.Clip, &ir.ClipAttr{Lo: float32(lo), Hi: float32(hi)}, x), d)
}

// quantisedByArithmetic spells quantised out.
func (c *call) quantisedByArithmetic(x ir.ValueID, s scaling, d ir.DType) ir.ValueID {
	x = c.castTo(x, ir.F32)
	shape := c.typ(x).Shape
	zero := ir.NoValue
	if z := c.operand(s.zero); z != nil {
		d = c.typeOf(z).DType
		zero = c.use(c.perElement(z, shape, s.axis, s.block))
	}
	scale := c.castTo(c.use(c.perElement(c.in[s.scale], shape, s.axis, s.block)), ir.F32)
	return c.saturated(c.add(ir.Div, nil, x, scale), zero, d)
}

// dequantisedByArithmetic spells dequantised out; the result has the scale's type.
func (c *call) dequantisedByArithmetic(i int, s scaling) *value {
	x := c.plain(i)
	shape := c.typ(x).Shape
	x = c.castTo(x, ir.I32)
	if z := c.operand(s.zero); z != nil {
		x = c.add(ir.Sub, nil, x, c.castTo(c.use(c.perElement(z, shape, s.axis, s.block)), ir.I32))
	}
	scale := c.use(c.perElement(c.in[s.scale], shape, s.axis, s.block))
	y := c.add(ir.Mul, nil, c.castTo(x, ir.F32), c.castTo(scale, ir.F32))
	return &value{id: c.castTo(y, c.typ(scale).DType)}
}

func dynamicQuantizeLinear(c *call) {
	codes, scale, point := c.dynamicCodes()
	c.set(codes)
	c.setN(1, scale)
	c.setN(2, point)
}

// dynamicCodes makes codes of operand 0 and chooses scale and zero point so that
// its range and 0 are representable: scale = (max − min)/255, 1 where all of it is 0.
func (c *call) dynamicCodes() (codes, scale, point ir.ValueID) {
	x := c.id(0)
	if d := c.typ(x).DType; c.err == nil && d != ir.F32 {
		c.unsupportedf("operand of type %s", d)
	}
	n := c.typ(x).Numel()
	flat := c.reshape(x, n)
	zero := c.scalar(ir.F32, 0)
	all := &ir.ReduceAttr{Axes: []int{0}}
	hi := c.add(ir.Max, nil, c.add(ir.ReduceMax, all, flat), zero)
	lo := c.add(ir.Min, nil, c.add(ir.ReduceMin, all, flat), zero)
	span := c.add(ir.Sub, nil, hi, lo)
	scale = c.add(ir.Where, nil, c.add(ir.Equals, nil, span, zero), c.scalar(ir.F32, 1),
		c.add(ir.Div, nil, span, c.scalar(ir.F32, 255)))
	offset := c.add(ir.Sub, nil, zero, c.add(ir.Div, nil, lo, scale))
	point = c.saturated(offset, ir.NoValue, ir.U8)
	return c.saturated(c.add(ir.Div, nil, x, scale), point, ir.U8), scale, point
}

// A factor is an integer operand of a matrix product with its zero points.
type factor struct {
	v     *value
	quant *ir.Quant  // what the product subtracts itself
	zero  ir.ValueID // what is left to subtract afterwards, I32; NoValue when nothing is
}

// factor takes a factor, at least a matrix, and its zero points p, if any: one for
// all, or one for each row (axis −2) or column (axis −1).
func (c *call) factor(v, p *value, axis int) factor {
	f := factor{v: v, quant: ir.PerTensor(1, 0), zero: ir.NoValue}
	if p == nil || c.err != nil {
		return f
	}
	s, t := c.typeOf(v).Shape, c.typeOf(p)
	if t.DType != c.typeOf(v).DType {
		c.failf("the zero point is %s, the operand %s", t.DType, c.typeOf(v).DType)
		return f
	}
	n := t.Numel()
	if p.isConst() && len(t.Shape) <= 1 && (n == 1 || axis == -1 && n == s[len(s)-1]) {
		f.quant = c.offsets(p, len(s)-1, c.typeOf(v))
		return f
	}
	zero := c.castTo(c.use(p), ir.I32)
	switch {
	case n == 1:
		zero = c.reshape(zero, 1, 1)
	case len(t.Shape) == 1 && n == s[len(s)+axis] && axis == -2:
		zero = c.reshape(zero, n, 1)
	case len(t.Shape) == 1 && n == s[len(s)+axis]:
		zero = c.reshape(zero, 1, n)
	case len(t.Shape) < 2 || t.Shape[len(t.Shape)+(-3-axis)] != 1: // one entry along the summed axis
		c.failf("zero points of shape %v for an operand of %v", t.Shape, s)
	}
	f.zero = zero
	return f
}

// sum adds f's elements, less the zero points in quant, along an axis from the end.
func (c *call) sum(f factor, axis int) ir.ValueID {
	x := c.castTo(c.use(f.v), ir.I32)
	rank := len(c.typ(x).Shape)
	zeros := make([]int64, len(f.quant.Zero))
	for i, z := range f.quant.Zero {
		zeros[i] = int64(z)
	}
	x = c.add(ir.Sub, nil, x, c.constant("", fromInts(ir.I32, []int{len(zeros)}, zeros), nil))
	return c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: []int{rank + axis}, KeepDims: true}, x)
}

// integerProduct is Σ (a − za)(b − zb) in int32; zero points may be absent. Those
// that the product of codes cannot subtract are taken off its result:
// Σ(a − za)(b − zb) = Σab − za·Σb − zb·Σa + K·za·zb.
func (c *call) integerProduct(a, b, za, zb *value) ir.ValueID {
	sa, sb := c.typeOf(a).Shape, c.typeOf(b).Shape
	if c.err == nil && (len(sa) == 0 || len(sb) == 0) {
		c.failf("operands of shapes %v and %v, want vectors or matrices", sa, sb)
	}
	if c.err != nil {
		return ir.NoValue
	}
	if len(sa) == 1 {
		a = c.shaped(a, []int{1, sa[0]})
	}
	if len(sb) == 1 {
		b = c.shaped(b, []int{sb[0], 1})
	}
	fa, fb := c.factor(a, za, -2), c.factor(b, zb, -1)
	result := ir.TypeOf(ir.I32)
	y := c.product(c.codes(a, fa.quant), c.codes(b, fb.quant), &result)
	mul := func(x, y ir.ValueID) ir.ValueID { return c.add(ir.Mul, nil, x, y) }
	if fa.zero != ir.NoValue {
		y = c.add(ir.Sub, nil, y, mul(fa.zero, c.sum(fb, -2)))
	}
	if fb.zero != ir.NoValue {
		y = c.add(ir.Sub, nil, y, mul(fb.zero, c.sum(fa, -1)))
	}
	if fa.zero != ir.NoValue && fb.zero != ir.NoValue {
		k := c.constant("", fromInts(ir.I32, nil, []int64{int64(sa[len(sa)-1])}), nil)
		y = c.add(ir.Add, nil, y, mul(k, mul(fa.zero, fb.zero)))
	}
	if c.err != nil {
		return y
	}
	s := c.typ(y).Shape
	n := len(s)
	out := slices.Clone(s[:n-2])
	if len(sa) > 1 {
		out = append(out, s[n-2])
	}
	if len(sb) > 1 {
		out = append(out, s[n-1])
	}
	return c.reshape(y, out...)
}

// matMulByArithmetic is QLinearMatMul with scales that a product of codes cannot
// take: the int32 sums times sa·sb/sy in float32.
func (c *call) matMulByArithmetic() {
	a, b := c.in[0], c.in[3]
	rows := c.typeOf(a).Shape
	y := c.castTo(c.integerProduct(a, b, c.operand(2), c.operand(5)), ir.F32)
	scale := func(i int) ir.ValueID {
		x := c.castTo(c.id(i), ir.F32)
		if s := c.typ(x).Shape; i == 1 && len(s) == 1 && s[0] > 1 { // one for each row
			return c.reshape(x, s[0], 1)
		} else if len(s) == 1 && s[0] == 1 {
			return c.reshape(x)
		}
		return x
	}
	if c.err == nil && len(rows) < 2 && c.typeOf(c.in[1]).Numel() > 1 {
		c.failf("more than one scale for a vector")
	}
	m := c.add(ir.Div, nil, c.add(ir.Mul, nil, scale(1), scale(4)), scale(6))
	y = c.add(ir.Mul, nil, y, m)
	zero := c.id(7)
	d := c.typ(zero).DType
	if s := c.typ(zero).Shape; c.err == nil && len(s) == 1 && s[0] == 1 {
		zero = c.reshape(zero)
	}
	c.set(c.saturated(y, zero, d))
}

// convIntegerAround is ConvInteger whose operand has a zero point that is known
// only when it runs: the convolution of the codes, less the zero point times that
// of ones, which leaves out the padding as it should.
func (c *call) convIntegerAround(x, w *value, qw *ir.Quant) {
	t := c.typeOf(x)
	zero := c.castTo(c.id(2), ir.I32)
	if n := c.typ(zero).Numel(); c.err == nil && n != 1 {
		c.unsupportedf("more than one zero point for x")
	}
	result := ir.TypeOf(ir.I32)
	y := c.integerConv(x, w, ir.PerTensor(1, 0), qw, nil, result)
	if c.err != nil {
		return
	}
	shape := slices.Clone(t.Shape)
	shape[0] = 1
	c.chargeProduct(volume(shape))
	if c.err != nil {
		return
	}
	ones := &value{id: ir.NoValue, tensor: fromInts(t.DType, shape, slices.Repeat([]int64{1}, ir.Numel(shape)))}
	inside := c.integerConv(ones, w, ir.PerTensor(1, 0), qw, nil, result)
	c.set(c.add(ir.Sub, nil, y, c.add(ir.Mul, nil, inside, c.reshape(zero))))
}
