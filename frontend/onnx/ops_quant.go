package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// quant reads a scale and a zero point (absent: 0) and returns them with the
// zero point's type (ir.Invalid when absent). axis applies where there is more
// than one scale; t is the type of the codes or of what becomes codes.
func (c *call) quant(scale, zero int, axis int64, t ir.Type) (*ir.Quant, ir.DType) {
	s := c.tensor(scale, "scale")
	if c.err != nil {
		return nil, ir.Invalid
	}
	if s.DType != ir.F32 {
		c.unsupportedf("a scale of type %s", s.DType)
		return nil, ir.Invalid
	}
	if len(s.Shape) > 1 {
		c.unsupportedf("scales in blocks, of shape %v", s.Shape)
		return nil, ir.Invalid
	}
	c.charge(s.Numel())
	q := &ir.Quant{Scale: slices.Clone(ir.Data[float32](s)), Zero: make([]int32, s.Numel()), Axis: -1}
	if len(q.Scale) != 1 {
		q.Axis = c.axis(axis, len(t.Shape))
		if c.err == nil && t.Shape[q.Axis] != len(q.Scale) {
			c.failf("%d scales for dimension %d of %v", len(q.Scale), q.Axis, t.Shape)
		}
	}
	if c.operand(zero) == nil || c.err != nil {
		return q, ir.Invalid
	}
	z := c.tensor(zero, "zero point")
	if c.err != nil {
		return q, ir.Invalid
	}
	if !z.DType.IsInt() || z.DType.Bits() > 32 {
		c.unsupportedf("a zero point of type %s", z.DType)
		return q, ir.Invalid
	}
	if z.Numel() != len(q.Scale) {
		c.failf("%d zero points for %d scales", z.Numel(), len(q.Scale))
		return q, ir.Invalid
	}
	for i, v := range int64s(z) {
		q.Zero[i] = int32(v)
	}
	return q, z.DType
}

// codes returns an operand, given in ONNX as integers, with the quantisation its
// consumer states.
func (c *call) codes(v *value, q *ir.Quant) ir.ValueID {
	if c.err != nil {
		return ir.NoValue
	}
	if v.isConst() {
		return c.constant(v.name, v.tensor, q)
	}
	id := c.use(v)
	t := c.typ(id)
	if t.Quant.Equal(q) || c.err != nil {
		return id
	}
	return c.addTyped(ir.Reinterpret, nil, t.WithQuant(q), id)
}

func quantizeLinear(c *call) {
	c.ignore("saturate") // concerns 8-bit floats only
	axis, block, stated := c.int("axis", 1), c.blockSize(), ir.U8
	if c.opset >= 21 {
		if to := c.int("output_dtype", 0); to != 0 {
			var err error
			if stated, err = dtypeOf(int32(to)); err != nil {
				c.unsupportedf("output_dtype: %v", err)
			}
		}
	}
	c.set(c.quantised(c.plain(0), scaling{1, 2, axis, block}, stated))
}

func dequantizeLinear(c *call) {
	c.pass(c.dequantised(0, scaling{1, 2, c.int("axis", 1), c.blockSize()}))
}

// scaling says which operands are the scale and the zero point (may be absent) of a
// quantisation, and along which axis they lie: one for each index, or where block
// is not 0 one for each block of so many.
type scaling struct {
	scale, zero int
	axis, block int64
}

// quantised makes codes of a value, of the zero point's type, or d where there is
// none.
func (c *call) quantised(x ir.ValueID, s scaling, d ir.DType) ir.ValueID {
	t := c.typ(x)
	if s.block != 0 || !c.fixedScale(s.scale, s.zero) || t.DType != ir.F32 && t.DType != ir.I32 {
		return c.quantisedByArithmetic(x, s, d)
	}
	q, stated := c.quant(s.scale, s.zero, s.axis, t)
	if stated != ir.Invalid {
		d = stated
	}
	x = c.castID(x, ir.F32)
	t.DType = d
	return c.addTyped(ir.Quantize, nil, t.WithQuant(q), x)
}

// dequantised returns the numbers that operand i, codes, stands for. Constants stay
// codes until they are used, so that layout changes apply to the codes.
func (c *call) dequantised(i int, s scaling) *value {
	if c.err != nil {
		return nil
	}
	v := c.in[i]
	t := c.typeOf(v)
	q, d := c.blocks(v, s), t.DType
	if q == nil {
		if s.block != 0 || !c.fixedScale(s.scale, s.zero) {
			return c.dequantisedByArithmetic(i, s)
		}
		q, d = c.quant(s.scale, s.zero, s.axis, t)
	}
	if c.err == nil && d != ir.Invalid && d != t.DType {
		c.failf("the zero point is %s, the operand %s", d, t.DType)
	}
	if c.err != nil {
		return nil
	}
	if v.isConst() {
		if err := ir.ValidType(t.WithQuant(q)); err != nil {
			c.err = err
			return nil
		}
		return &value{name: v.name, id: ir.NoValue, tensor: v.tensor, quant: q, uniform: v.uniform}
	}
	return &value{id: c.add(ir.Dequantize, nil, c.codes(v, q))}
}

// Blocks of a channel stay blocks up to blockSpread powers of two apart, so that codes
// of 4 bits with their shifts fit 8, and up to blockSums in the largest magnitude of a
// sum with 8-bit codes, so that it fits 32 bits with a bias.
const (
	blockSpread = 4
	blockSums   = 1 << 30
)

// blocks returns the quantisation of a constant matrix of codes with scales in blocks,
// where the scales of each channel are one times powers of two and there are no zero
// points, as in the formats of OCP Microscaling. It is nil for others.
func (c *call) blocks(v *value, by scaling) *ir.Quant {
	s, block := c.operand(by.scale), by.block
	if c.err != nil || block == 0 || !v.isConst() || len(v.tensor.Shape) != 2 || v.tensor.DType != ir.I8 && v.tensor.DType != ir.I4 ||
		s == nil || !s.isConst() || s.tensor.DType != ir.F32 || len(s.tensor.Shape) != 2 {
		return nil
	}
	if z := c.operand(by.zero); z != nil && (!z.isConst() || !holdsInts(z.tensor.DType) || slices.ContainsFunc(int64s(z.tensor), func(x int64) bool { return x != 0 })) {
		return nil
	}
	a := c.axis(by.axis, 2)
	k, n := v.tensor.Shape[a], v.tensor.Shape[1-a]
	if c.err != nil || k == 0 || n == 0 || block > int64(k) && s.tensor.Shape[a] != 1 {
		return nil
	}
	q := &ir.Quant{Axis: 1 - a, Block: int(min(block, int64(k))), Zero: make([]int32, n)}
	per := q.BlocksOf(k)
	if s.tensor.Shape[a] != per || s.tensor.Shape[1-a] != n {
		return nil // dequantisedByArithmetic says what is wrong
	}
	c.charge(s.tensor.Numel())
	scales, codes := ir.Data[float32](s.tensor), ir.Data[int8](v.tensor)
	for ch := range n {
		at := func(b int) float32 {
			if a == 0 {
				return scales[b*n+ch]
			}
			return scales[ch*per+b]
		}
		least := at(0)
		for b := range per {
			least = min(least, at(b))
		}
		if !(least > 0) {
			return nil
		}
		sum := int64(0)
		for b := range per {
			fraction, exp := math.Frexp(float64(at(b)) / float64(least))
			if fraction != 0.5 || exp > blockSpread+1 {
				return nil
			}
			q.Shift = append(q.Shift, uint8(exp-1))
			for i := b * q.Block; i < min((b+1)*q.Block, k); i++ {
				code := int64(codes[ch*k+i])
				if a == 0 {
					code = int64(codes[i*n+ch])
				}
				sum += 255 * max(code, -code) << (exp - 1)
			}
		}
		if sum > blockSums {
			return nil
		}
		q.Scale = append(q.Scale, least)
	}
	return q
}

// weightAxis is the axis of weights [O,I,…] that scales per channel run along.
const weightAxis = 0

// accumulators is the quantisation of the sums of products of x and w; nil where
// it is not representable.
func accumulators(x, w *ir.Quant, axis int) *ir.Quant {
	q := &ir.Quant{Axis: -1}
	if !w.IsPerTensor() {
		q.Axis = axis
	}
	for _, s := range w.Scale {
		p := float32(float64(x.Scale[0]) * float64(s))
		if !(p > 0) {
			return nil
		}
		q.Scale, q.Zero = append(q.Scale, p), append(q.Zero, 0)
	}
	return q
}

// perTensor refuses activations with more than one scale.
func (c *call) perTensor(q *ir.Quant, what string) {
	if c.err == nil && !q.IsPerTensor() {
		c.unsupportedf("more than one scale for %s", what)
	}
}

// integerConv adds a convolution of codes, in ONNX's layout.
func (c *call) integerConv(x, w *value, qx, qw *ir.Quant, bias *value, result ir.Type) ir.ValueID {
	tx, tw := c.typeOf(x), c.typeOf(w)
	rank := len(tx.Shape)
	attr := c.convAttr(tx.Shape, tw.Shape)
	if c.err != nil {
		return ir.NoValue
	}
	in := []ir.ValueID{c.toNHWC(c.codes(x, qx))}
	if w.isConst() {
		in = append(in, c.codes(c.ohwi(w), qw)) // axis 0 stays where it is
	} else {
		in = append(in, c.use(c.ohwi(&value{id: c.codes(w, qw)})))
	}
	if bias != nil {
		in = append(in, c.codes(bias, accumulators(qx, qw, 0)))
	}
	if c.err != nil {
		return ir.NoValue
	}
	sx, sw := c.typ(in[0]).Shape, c.typ(in[1]).Shape
	positions := func(d int) int {
		free := sx[1+d] + attr.Pads[d] + attr.Pads[2+d] - attr.Dilations[d]*(sw[1+d]-1) - 1
		return free/attr.Strides[d] + 1
	}
	result.Shape = []int{sx[0], positions(0), positions(1), sw[0]}
	return c.fromNHWC(c.addTyped(ir.Conv2D, attr, result, in...), rank)
}

// qLinearConv has operands x, its scale and zero point, w, its scales and zero
// points, the result's scale and zero point, and an int32 bias.
func qLinearConv(c *call) {
	x, w := c.in[0], c.in[3]
	qx, _ := c.quant(1, 2, 1, c.typeOf(x))
	qw, _ := c.quant(4, 5, weightAxis, c.typeOf(w))
	qy, d := c.quant(6, 7, 1, c.typeOf(x))
	c.perTensor(qx, "x")
	c.perTensor(qy, "y")
	if c.err == nil {
		c.set(c.integerConv(x, w, qx, qw, c.operand(8), ir.Type{DType: d, Quant: qy}))
	}
}

// qLinearMatMul has operands a, its scale and zero point, b likewise, and the
// result's scale and zero point.
func qLinearMatMul(c *call) {
	if !c.fixedScale(1, 2) || !c.fixedScale(4, 5) || !c.fixedScale(6, 7) || c.typeOf(c.in[1]).Numel() > 1 {
		c.matMulByArithmetic()
		return
	}
	a, b := c.in[0], c.in[3]
	ta, tb := c.typeOf(a), c.typeOf(b)
	qa, _ := c.quant(1, 2, 0, ta)
	qb, _ := c.quant(4, 5, int64(len(tb.Shape)-1), tb)
	qy, d := c.quant(6, 7, 0, ta)
	c.perTensor(qa, "a")
	c.perTensor(qy, "y")
	c.set(c.product(c.codes(a, qa), c.codes(b, qb), &ir.Type{DType: d, Quant: qy}))
}

// offsets returns the quantisation of integers whose products are wanted as they
// are: scale 1 and zero points, if any, along axis where there are many.
func (c *call) offsets(zero *value, axis int, t ir.Type) *ir.Quant {
	q := ir.PerTensor(1, 0)
	if zero == nil || c.err != nil {
		return q
	}
	if !zero.isConst() {
		c.dataf("zero point must be a constant")
		return q
	}
	z := zero.tensor
	if z.DType != t.DType || len(z.Shape) > 1 {
		c.unsupportedf("zero points %s %v for an operand %s %v", z.DType, z.Shape, t.DType, t.Shape)
		return q
	}
	q = &ir.Quant{Axis: -1}
	if z.Numel() > 1 {
		q.Axis = axis
	}
	for _, v := range int64s(z) {
		q.Scale, q.Zero = append(q.Scale, 1), append(q.Zero, int32(v))
	}
	return q
}

func convInteger(c *call) {
	x, w := c.in[0], c.in[1]
	qw := c.offsets(c.operand(3), weightAxis, c.typeOf(w))
	if z := c.operand(2); z != nil && !z.isConst() {
		c.convIntegerAround(x, w, qw)
		return
	}
	qx := c.offsets(c.operand(2), 0, c.typeOf(x))
	c.perTensor(qx, "x")
	if c.err == nil {
		c.set(c.integerConv(x, w, qx, qw, nil, ir.TypeOf(ir.I32)))
	}
}

func matMulInteger(c *call) { c.set(c.integerProduct(c.in[0], c.in[1], c.operand(2), c.operand(3))) }
