package onnx

import (
	"slices"

	"situ/ir"
)

func gemm(c *call) {
	alpha, beta := c.float("alpha", 1), c.float("beta", 1)
	if c.opset < 7 {
		c.ignore("broadcast") // said only that the third operand may be smaller
	}
	a, b := c.plain(0), c.in[1]
	if c.bool("transA", false) {
		a = c.transpose(a, 1, 0)
	}
	if len(c.typ(a).Shape) != 2 || len(c.typeOf(b).Shape) != 2 {
		c.failf("operands of shapes %v and %v, want matrices", c.typ(a).Shape, c.typeOf(b).Shape)
		return
	}
	if c.bool("transB", false) {
		b = c.permuted(b, 1, 0)
	}
	folded := alpha == 1
	if !folded && c.scalable(b) {
		b, folded = scaled(b, alpha), true
	}
	in := []ir.ValueID{a, c.use(b)}
	rest := c.operand(2)
	if beta == 0 {
		rest = nil
	}
	if rest != nil && beta != 1 {
		if c.scalable(rest) {
			rest = scaled(rest, beta)
		} else {
			d := c.typeOf(rest).DType
			rest = &value{id: c.add(ir.Mul, nil, c.use(rest), c.scalar(d, float64(beta)))}
		}
	}
	// One number per column is a bias; other shapes are added afterwards.
	n := c.typ(in[1]).Shape
	if rest != nil && folded && c.err == nil {
		s := c.typeOf(rest).Shape
		if len(s) > 0 && ir.Numel(s) == n[len(n)-1] && s[len(s)-1] == n[len(n)-1] {
			in = append(in, c.reshape(c.use(rest), s[len(s)-1]))
			rest = nil
		}
	}
	y := c.multiplied(in...)
	if !folded {
		y = c.add(ir.Mul, nil, y, c.scalar(c.typ(y).DType, float64(alpha)))
	}
	if rest != nil {
		y = c.add(ir.Add, nil, y, c.use(rest))
	}
	c.set(y)
}

// scalable reports whether a constant can be multiplied at import.
func (c *call) scalable(v *value) bool {
	return c.err == nil && v.isConst() && holdsFloats(v.tensor.DType) && c.foldable(v)
}

// scaled returns a floating-point constant times k.
func scaled(v *value, k float32) *value {
	x := slices.Clone(float64s(v.tensor))
	for i := range x {
		x[i] *= float64(k)
	}
	return &value{name: v.name, id: ir.NoValue, tensor: fromFloats(v.tensor.DType, v.tensor.Shape, x), uniform: v.uniform}
}

func matMul(c *call) { c.set(c.product(c.plain(0), c.plain(1), nil)) }

// product multiplies matrices; vectors become matrices for the while. result is
// the result's type without its shape, nil where it follows from the operands.
func (c *call) product(a, b ir.ValueID, result *ir.Type) ir.ValueID {
	sa, sb := c.typ(a).Shape, c.typ(b).Shape
	if c.err == nil && (len(sa) == 0 || len(sb) == 0) {
		c.failf("operands of shapes %v and %v, want vectors or matrices", sa, sb)
	}
	if c.err != nil {
		return ir.NoValue
	}
	if len(sa) == 1 {
		a = c.reshape(a, 1, sa[0])
	}
	if len(sb) == 1 {
		b = c.reshape(b, sb[0], 1)
	}
	y := ir.NoValue
	if result == nil {
		y = c.multiplied(a, b)
	} else {
		ma, mb := c.typ(a).Shape, c.typ(b).Shape
		lead, _ := broadcastShapes(ma[:len(ma)-2], mb[:len(mb)-2])
		t := *result
		t.Shape = append(lead, ma[len(ma)-2], mb[len(mb)-1])
		y = c.addTyped(ir.MatMul, nil, t, a, b)
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

// maxProducts bounds the products of an integer matrix multiplication, which are
// all held at once.
const maxProducts = 1 << 24

// multiplied multiplies matrices, plus a bias for each column where there is
// one. Plain integers have no matrix product in the IR: they are multiplied and
// summed.
func (c *call) multiplied(in ...ir.ValueID) ir.ValueID {
	a, b := c.typ(in[0]), c.typ(in[1])
	if c.err != nil || a.DType.IsFloat() || len(a.Shape) < 2 || len(b.Shape) < 2 {
		return c.add(ir.MatMul, nil, in...)
	}
	n := len(b.Shape) - 1
	x := c.reshape(in[0], append(slices.Clone(a.Shape), 1)...)
	y := c.reshape(in[1], slices.Insert(slices.Clone(b.Shape), n-1, 1)...)
	shape, ok := broadcastShapes(append(slices.Clone(a.Shape), 1), slices.Insert(slices.Clone(b.Shape), n-1, 1))
	if !ok || ir.Numel(shape) > maxProducts {
		c.unsupportedf("multiplying %s matrices of shapes %v and %v", a.DType, a.Shape, b.Shape)
		return ir.NoValue
	}
	z := c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: []int{len(shape) - 2}}, c.add(ir.Mul, nil, x, y))
	if len(in) > 2 {
		z = c.add(ir.Add, nil, z, in[2])
	}
	return z
}

// softmax translates Softmax and LogSoftmax. Before opset 13 they flatten their
// operand to two dimensions at axis and normalise over all of the second.
func softmax(kind ir.OpKind) func(*call) {
	return func(c *call) {
		def := int64(-1)
		if c.opset < 13 {
			def = 1
		}
		c.set(c.softmaxed(kind, c.plain(0), c.int("axis", def), c.opset))
	}
}

// softmaxed is Softmax or LogSoftmax as an opset has it: along axis, or before 13
// over all dimensions from axis on.
func (c *call) softmaxed(kind ir.OpKind, x ir.ValueID, axis, opset int64) ir.ValueID {
	s := c.typ(x).Shape
	if opset < 13 && axis == int64(len(s)) && len(s) > 0 {
		c.unsupportedf("axis %d of %d dimensions", axis, len(s))
	}
	i := c.axis(axis, len(s))
	if c.err != nil || opset >= 13 || i == len(s)-1 {
		return c.add(kind, &ir.AxisAttr{Axis: i}, x)
	}
	flat := c.reshape(x, ir.Numel(s[:i]), ir.Numel(s[i:]))
	return c.reshape(c.add(kind, &ir.AxisAttr{Axis: 1}, flat), s...)
}

// fold are the operators the evaluator for constants knows.
var fold = map[ir.OpKind]struct {
	ints   func(a, b int64) int64
	floats func(a, b float64) float64
}{
	ir.Add: {func(a, b int64) int64 { return a + b }, func(a, b float64) float64 { return a + b }},
	ir.Sub: {func(a, b int64) int64 { return a - b }, func(a, b float64) float64 { return a - b }},
	ir.Mul: {func(a, b int64) int64 { return a * b }, func(a, b float64) float64 { return a * b }},
	ir.Div: {nil, func(a, b float64) float64 { return a / b }},
	ir.Min: {func(a, b int64) int64 { return min(a, b) }, func(a, b float64) float64 { return min(a, b) }},
	ir.Max: {func(a, b int64) int64 { return max(a, b) }, func(a, b float64) float64 { return max(a, b) }},
}

// pair applies an element-wise operator, at once where both operands are constants.
func (c *call) pair(kind ir.OpKind, a, b *value) *value {
	if c.err != nil {
		return a
	}
	if f := fold[kind]; c.foldable(a, b) {
		ints := f.ints
		if kind == ir.Div && holdsInts(b.tensor.DType) {
			if slices.Contains(int64s(b.tensor), 0) {
				c.failf("division by zero")
				return a
			}
			ints = func(a, b int64) int64 { return a / b }
		}
		if t, ok := foldBinary(a.tensor, b.tensor, ints, f.floats, ir.Invalid); ok {
			return c.made(t)
		}
	}
	x, y := c.unquantised(c.use(a)), c.unquantised(c.use(b))
	return &value{id: c.add(kind, nil, x, y)}
}

func elementwise(kind ir.OpKind) func(*call) {
	return func(c *call) {
		a, b := c.pairOperands()
		c.pass(c.pair(kind, a, b))
	}
}

// variadic joins any number of operands with a binary operator.
func variadic(kind ir.OpKind) func(*call) {
	return func(c *call) {
		v := c.in[0]
		for _, next := range c.in[1:] {
			if next == nil {
				c.failf("an operand is missing")
				return
			}
			v = c.pair(kind, v, next)
		}
		c.pass(v)
	}
}

func mean(c *call) {
	variadic(ir.Add)(c)
	if c.err == nil {
		sum := c.use(c.out[0])
		c.set(c.add(ir.Mul, nil, sum, c.scalar(c.typ(sum).DType, 1/float64(len(c.in)))))
	}
}

// unary translates functions of one operand without attributes.
func unary(kind ir.OpKind) func(*call) {
	return func(c *call) { c.set(c.add(kind, nil, c.plain(0))) }
}

// relu accepts integers, too.
func relu(c *call) {
	x := c.plain(0)
	if d := c.typ(x).DType; d.IsInt() {
		c.set(c.add(ir.Max, nil, x, c.scalar(d, 0)))
		return
	}
	c.set(c.add(ir.Relu, nil, x))
}

// neg subtracts integers from zero.
func neg(c *call) {
	v := c.in[0]
	if d := c.typeOf(v).DType; d.IsInt() {
		c.pass(c.pair(ir.Sub, &value{id: ir.NoValue, tensor: fromInts(d, nil, []int64{0})}, v))
		return
	}
	c.set(c.add(ir.Neg, nil, c.id(0)))
}
