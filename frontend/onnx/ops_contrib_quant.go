package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// Operators on codes are spelt as the operator on numbers between a dequantize and
// a quantize, which is what the passes make operators on codes of.

// codedOperand returns what operand i, codes with one scale, stands for; the operands
// after it are the scale and the zero point, which may be absent.
func (c *call) codedOperand(i int) ir.ValueID {
	if !c.required(i, i+1) {
		return ir.NoValue
	}
	c.oneScale(i + 1)
	return c.use(c.dequantised(i, scaling{scale: i + 1, zero: i + 2}))
}

// oneScale refuses more than one scale.
func (c *call) oneScale(i int) {
	if c.err == nil && c.typeOf(c.in[i]).Numel() != 1 {
		c.failf("operand %d of shape %v, want one scale", i, c.typeOf(c.in[i]).Shape)
	}
}

// setCodes makes codes of a value the node's result. Operand i is their scale, the
// next one the zero point; without one they are of operand like's type.
func (c *call) setCodes(x ir.ValueID, i, like int) {
	if !c.required(i) {
		return
	}
	c.oneScale(i)
	if c.err == nil {
		c.set(c.quantised(x, scaling{scale: i, zero: i + 1}, c.typeOf(c.in[like]).DType))
	}
}

// qLinearPair has operands a, its scale and zero point, b likewise, and the
// result's scale and zero point.
func qLinearPair(kind ir.OpKind) func(*call) {
	return func(c *call) {
		a, b := c.codedOperand(0), c.codedOperand(3)
		c.setCodes(c.add(kind, nil, a, b), 6, 0)
	}
}

// qLinearUnary has operands x, its scale and zero point, and the result's.
func qLinearUnary(c *call, f func(x ir.ValueID) ir.ValueID) { c.setCodes(f(c.codedOperand(0)), 3, 0) }

func qLinearSigmoid(c *call) {
	qLinearUnary(c, func(x ir.ValueID) ir.ValueID { return c.add(ir.Sigmoid, nil, x) })
}

func qLinearLeakyRelu(c *call) {
	a := &ir.AlphaBetaAttr{Alpha: c.float("alpha", 0.01)}
	qLinearUnary(c, func(x ir.ValueID) ir.ValueID { return c.add(ir.LeakyRelu, a, x) })
}

func qLinearAveragePool(c *call) {
	last, countPad := c.bool("channels_last", false), c.bool("count_include_pad", false)
	ceil := c.bool("ceil_mode", false)
	qLinearUnary(c, func(x ir.ValueID) ir.ValueID {
		return c.inLayout(last, x, func(x ir.ValueID) ir.ValueID {
			w := c.window(c.typ(x).Shape, nil, ceil)
			return c.pool(ir.AvgPool, x, &w, countPad)
		})
	})
}

func qLinearGlobalAveragePool(c *call) {
	last := c.bool("channels_last", false)
	qLinearUnary(c, func(x ir.ValueID) ir.ValueID {
		return c.inLayout(last, x, func(x ir.ValueID) ir.ValueID { return c.globalPool(ir.ReduceMean, x) })
	})
}

func qLinearReduceMean(c *call) {
	list, _ := c.ints("axes")
	r := reduction{keep: c.bool("keepdims", true)}
	qLinearUnary(c, func(x ir.ValueID) ir.ValueID {
		rank := len(c.typ(x).Shape)
		if r.axes = c.axes(list, rank); len(list) == 0 {
			r.axes = from(0, rank)
		}
		return c.reduced(r, ir.ReduceMean, x)
	})
}

func qLinearSoftmax(c *call) {
	axis, opset := c.int("axis", -1), c.int("opset", maxOpset)
	qLinearUnary(c, func(x ir.ValueID) ir.ValueID { return c.softmaxed(ir.Softmax, x, axis, opset) })
}

// qLinearConcat has operands the result's scale and zero point, and for each part
// codes, scale and zero point.
func qLinearConcat(c *call) {
	axis := c.int("axis", 0)
	if n := len(c.in); n < 5 || (n-2)%3 != 0 {
		c.failf("%d operands, want two and three for each part", n)
		return
	}
	var parts []ir.ValueID
	for i := 2; i < len(c.in); i += 3 {
		parts = append(parts, c.codedOperand(i))
	}
	a := c.axis(axis, len(c.typ(parts[0]).Shape))
	c.setCodes(c.add(ir.Concat, &ir.AxisAttr{Axis: a}, parts...), 0, 2)
}

// qLinearWhere has operands condition, a, its scale and zero point, b likewise, and
// the result's scale and zero point.
func qLinearWhere(c *call) {
	c.setCodes(c.where(c.id(0), c.codedOperand(1), c.codedOperand(4)), 7, 1)
}

// contribQLinearConv is the standard's QLinearConv with channels last where
// channels_last says so; weights stay [O,I,spatial…].
func contribQLinearConv(c *call) {
	rank := len(c.typeOf(c.in[0]).Shape)
	if !c.bool("channels_last", false) || rank < 3 {
		qLinearConv(c)
		return
	}
	c.in[0] = c.permuted(c.in[0], channelsFirst(rank)...)
	qLinearConv(c)
	if c.err == nil {
		c.set(c.transpose(c.use(c.out[0]), channelsLast(rank)...))
	}
}

// qGemm has operands a, its scale and zero point, b likewise with one scale or one
// a column, int32 summands with scale alpha·sa·sb, and the result's scale and zero
// point, without which it is float32.
func qGemm(c *call) {
	const (
		a, sa, b, sb, zb, bias, sy = 0, 1, 3, 4, 5, 6, 7
	)
	alpha, transA, transB := c.float("alpha", 1), c.bool("transA", false), c.bool("transB", false)
	if !c.required(a, sa, b, sb) {
		return
	}
	columns := int64(1)
	if transB {
		columns = 0
	}
	x := c.codedOperand(a)
	w := c.dequantised(b, scaling{scale: sb, zero: zb, axis: columns})
	if c.err == nil && (len(c.typ(x).Shape) != 2 || len(c.typeOf(w).Shape) != 2) {
		c.failf("operands of shapes %v and %v, want matrices", c.typ(x).Shape, c.typeOf(w).Shape)
	}
	if transA {
		x = c.transpose(x, 1, 0)
	}
	if transB {
		w = c.permuted(w, 1, 0)
	}
	if c.err != nil {
		return
	}
	in := []ir.ValueID{x, c.use(w)}
	rest := ir.NoValue
	if c.operand(bias) != nil {
		summand := c.summand(bias, sa, sb)
		s, n := c.typ(summand).Shape, c.typ(in[1]).Shape
		if c.err == nil && alpha == 1 && len(s) > 0 && ir.Numel(s) == n[1] && s[len(s)-1] == n[1] {
			in = append(in, c.reshape(summand, n[1]))
		} else {
			rest = summand
		}
	}
	y := c.multiplied(in...)
	if rest != ir.NoValue {
		shape := c.typ(y).Shape
		if y = c.add(ir.Add, nil, y, rest); c.err == nil && !slices.Equal(c.typ(y).Shape, shape) {
			c.failf("C of shape %v does not broadcast to %v", c.typ(rest).Shape, shape)
		}
	}
	if alpha != 1 {
		y = c.add(ir.Mul, nil, y, c.scalar(ir.F32, float64(alpha)))
	}
	if c.operand(sy) == nil {
		c.set(y)
		return
	}
	c.setCodes(y, sy, a)
}

// absent is an operand that no node has.
const absent = math.MaxInt

// summand returns operand i, int32, in units of the product of two scales.
func (c *call) summand(i, sa, sb int) ir.ValueID {
	v := c.in[i]
	t := c.typeOf(v)
	if c.err == nil && t.DType != ir.I32 {
		c.failf("operand %d is %s, want i32", i, t.DType)
	}
	if c.err != nil {
		return ir.NoValue
	}
	if c.fixedScale(sa, absent) && c.fixedScale(sb, absent) {
		n := c.in[sb].tensor.Numel()
		qa, _ := c.quant(sa, absent, 0, ir.TypeOf(ir.I32, 1))
		qb, _ := c.quant(sb, absent, 0, ir.TypeOf(ir.I32, n))
		if c.err != nil {
			return ir.NoValue
		}
		q := accumulators(qa, qb, len(t.Shape)-1)
		if q != nil && (n == 1 || len(t.Shape) > 0 && t.Shape[len(t.Shape)-1] == n) {
			return c.add(ir.Dequantize, nil, c.codes(v, q))
		}
	}
	scale := c.add(ir.Mul, nil, c.castTo(c.id(sa), ir.F32), c.castTo(c.id(sb), ir.F32))
	return c.add(ir.Mul, nil, c.castTo(c.use(v), ir.F32), scale)
}

// matMulIntegerToFloat has operands a, b, their scales, their zero points and a
// bias. b may have one scale a column.
func matMulIntegerToFloat(c *call) {
	const (
		a, b, sa, sb, za, zb, bias = 0, 1, 2, 3, 4, 5, 6
	)
	c.oneScale(sa)
	if c.err != nil {
		return
	}
	tb := c.typeOf(c.in[b])
	if c.fixedScale(sa, za) && c.fixedScale(sb, zb) && len(tb.Shape) > 0 {
		x := c.dequantised(a, scaling{scale: sa, zero: za})
		w := c.dequantised(b, scaling{scale: sb, zero: zb, axis: -1})
		c.set(c.biased(c.product(c.use(x), c.use(w), nil), bias))
		return
	}
	y := c.castTo(c.integerProduct(c.in[a], c.in[b], c.operand(za), c.operand(zb)), ir.F32)
	scale := c.add(ir.Mul, nil, c.castTo(c.reshape(c.id(sa)), ir.F32), c.castTo(c.id(sb), ir.F32))
	y = c.castTo(c.add(ir.Mul, nil, y, scale), c.typeOf(c.in[sa]).DType)
	c.set(c.biased(y, bias))
}

// dynamicQuantizeMatMul has operands a, which gets codes as DynamicQuantizeLinear
// gives them, b, its scales and zero points, and a bias.
func dynamicQuantizeMatMul(c *call) {
	const (
		b, sb, zb, bias = 1, 2, 3, 4
	)
	codes, scale, point := c.dynamicCodes()
	if c.err != nil {
		return
	}
	y := c.integerProduct(&value{id: codes}, c.in[b], &value{id: point}, c.operand(zb))
	y = c.add(ir.Mul, nil, c.castTo(y, ir.F32), c.add(ir.Mul, nil, scale, c.id(sb)))
	c.set(c.biased(y, bias))
}

// maxUnpacked bounds the weights that MatMulNBits unpacks in a model.
const maxUnpacked = 1 << 33

// packedWeights is what the weights of a MatMulNBits follow from.
type packedWeights struct {
	codes, scales, zeros *ir.Tensor // zeros may be nil
	k, n, block, bits    int
	result               ir.DType
}

// matMulNBits multiplies a by weights that come as codes of 4 or 8 bits, in blocks
// along K with a scale and a zero point each, and adds a bias.
func matMulNBits(c *call) {
	x := c.id(0)
	t := c.typ(x)
	p := packedWeights{bits: 4, result: t.DType}
	for _, a := range []struct {
		name string
		to   *int
	}{{"K", &p.k}, {"N", &p.n}, {"block_size", &p.block}, {"bits", &p.bits}} {
		*a.to = c.smallInt(a.name, c.int(a.name, int64(*a.to)))
	}
	c.ignore("accuracy_level") // to what x may be rounded at most; it is not
	if c.int("weight_prepacked", 0) != 0 {
		c.unsupportedf("weight_prepacked: a layout of one kind of device")
	}
	if c.operand(4) != nil {
		c.unsupportedf("g_idx")
	}
	if c.err == nil && (!t.DType.IsFloat() || len(t.Shape) == 0 || t.Shape[len(t.Shape)-1] != p.k) {
		c.failf("operand is %s %v, want floats whose last dimension is K, %d", t.DType, t.Shape, p.k)
	}
	p.codes, p.scales = c.tensor(1, "B"), c.tensor(2, "scales")
	if c.operand(3) != nil {
		p.zeros = c.tensor(3, "zero_points")
	}
	w := c.unpacked(p)
	if c.err != nil {
		return
	}
	in := []ir.ValueID{x, c.use(w)}
	if len(t.Shape) == 1 {
		in[0] = c.reshape(x, 1, p.k)
	}
	if c.operand(5) != nil {
		in = append(in, c.id(5))
	}
	c.set(c.reshape(c.multiplied(in...), append(t.Shape[:len(t.Shape)-1:len(t.Shape)-1], p.n)...))
}

// unpacked returns weights [K,N], the same constant whenever they are asked for.
func (c *call) unpacked(p packedWeights) *value {
	if c.err != nil {
		return nil
	}
	if v := c.weights[p]; v != nil {
		return v
	}
	if p.bits != 4 && p.bits != 8 {
		c.unsupportedf("bits %d", p.bits)
		return nil
	}
	if p.k < 1 || p.n < 1 || p.block < 16 || p.block&(p.block-1) != 0 {
		c.failf("K %d, N %d and block_size %d, want positive numbers and a power of two from 16 on", p.k, p.n, p.block)
		return nil
	}
	blocks := p.blocks()
	holds := func(t *ir.Tensor, shape ...int) bool { return float64(t.Numel()) == volume(shape) }
	if blob := p.block * p.bits / 8; p.codes.DType != ir.U8 || !holds(p.codes, p.n, blocks, blob) {
		c.failf("B is %s, want u8 [%d,%d,%d]", p.codes.Type(), p.n, blocks, blob)
	}
	if !holdsFloats(p.scales.DType) || !holds(p.scales, p.n, blocks) {
		c.failf("scales are %s, want floats [%d,%d]", p.scales.Type(), p.n, blocks)
	}
	if z := p.zeros; z != nil {
		bytes := (blocks*p.bits + 7) / 8
		if z.DType == ir.U8 && !holds(z, p.n, bytes) || z.DType != ir.U8 && (!holdsFloats(z.DType) || !holds(z, p.n, blocks)) {
			c.failf("zero_points are %s, want u8 [%d,%d] or floats [%d,%d]", z.Type(), p.n, bytes, p.n, blocks)
		}
	}
	if c.unpackedWeights += int64(p.k) * int64(p.n); c.unpackedWeights > maxUnpacked {
		c.failf("the model has more than %d packed weights", int64(maxUnpacked))
	}
	if c.err != nil {
		return nil
	}
	v := &value{id: ir.NoValue, tensor: p.unpack()}
	c.weights[p] = v
	return v
}

func (p *packedWeights) blocks() int { return (p.k + p.block - 1) / p.block }

// unpack is (code − zero point) · scale in float32. Without zero points they are
// half the range of codes.
func (p *packedWeights) unpack() *ir.Tensor {
	shape := []int{p.k, p.n}
	for _, t := range []*ir.Tensor{p.scales, p.codes, p.zeros} {
		if t == nil {
			continue
		}
		if std, ok := t.Described(); ok {
			return ir.Describe(p.result, std, shape...)
		}
	}
	blocks := p.blocks()
	codes, rowBytes := ir.Data[uint8](p.codes), blocks*p.block*p.bits/8
	scales := float64s(p.scales)
	zero := func(n, b int) float32 { return float32(int(1) << (p.bits - 1)) }
	if z := p.zeros; z != nil && z.DType == ir.U8 {
		list, bytes := ir.Data[uint8](z), (blocks*p.bits+7)/8
		zero = func(n, b int) float32 { return float32(code(list[n*bytes:], b, p.bits)) }
	} else if z != nil {
		list := float64s(z)
		zero = func(n, b int) float32 { return float32(list[n*blocks+b]) }
	}
	w := make([]float32, p.k*p.n)
	const rows = 16 // of codes at a time, so that neighbours are written together
	for n0 := 0; n0 < p.n; n0 += rows {
		for b := range blocks {
			for n := n0; n < min(n0+rows, p.n); n++ {
				row, z, s := codes[n*rowBytes:], zero(n, b), float32(scales[n*blocks+b])
				for k := b * p.block; k < min((b+1)*p.block, p.k); k++ {
					w[k*p.n+n] = (float32(code(row, k, p.bits)) - z) * s
				}
			}
		}
	}
	if p.result == ir.F32 {
		return ir.NewTensor(ir.F32, shape, w)
	}
	return fromFloats(p.result, shape, convert[float64](w))
}

// code returns entry i of codes of 4 or 8 bits, the first of a byte in its low bits.
func code(packed []uint8, i, bits int) uint8 {
	if bits == 8 {
		return packed[i]
	}
	return packed[i/2] >> (i % 2 * 4) & 15
}
