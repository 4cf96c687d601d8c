package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

func gemm(c *call) {
	alpha, beta := c.float("alpha", 1), c.float("beta", 1)
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
	y := c.add(ir.MatMul, nil, in...)
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
		y = c.add(ir.MatMul, nil, a, b)
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

// softmax translates Softmax and LogSoftmax. Before opset 13 they flatten their
// operand to two dimensions at axis and normalise over all of the second.
func softmax(kind ir.OpKind) func(*call) {
	return func(c *call) {
		x := c.plain(0)
		s := c.typ(x).Shape
		def := int64(-1)
		if c.opset < 13 {
			def = 1
		}
		axis := c.int("axis", def)
		if c.opset < 13 && axis == int64(len(s)) && len(s) > 0 {
			c.unsupportedf("axis %d of %d dimensions", axis, len(s))
		}
		i := c.axis(axis, len(s))
		if c.err != nil {
			return
		}
		if c.opset >= 13 || i == len(s)-1 {
			c.set(c.add(kind, &ir.AxisAttr{Axis: i}, x))
			return
		}
		flat := c.reshape(x, ir.Numel(s[:i]), ir.Numel(s[i:]))
		c.set(c.reshape(c.add(kind, &ir.AxisAttr{Axis: 1}, flat), s...))
	}
}

// reduceAxes reads the axes of a reduction: an attribute, from opset operandFrom
// on an operand. all is set when nothing is to be reduced.
func (c *call) reduceAxes(rank int, operandFrom int64) (axes []int, none bool) {
	var list []int64
	noop := false
	if c.opset >= operandFrom {
		list, _ = c.intsOperand(1, "axes")
		noop = c.bool("noop_with_empty_axes", false)
	} else {
		list, _ = c.ints("axes")
	}
	if len(list) > 0 {
		return c.axes(list, rank), false
	}
	if noop {
		return nil, true
	}
	for d := range rank {
		axes = append(axes, d)
	}
	return axes, rank == 0
}

func reduce(kind ir.OpKind, operandFrom int64) func(*call) {
	return func(c *call) {
		rank := len(c.typeOf(c.in[0]).Shape)
		keep := c.bool("keepdims", true)
		axes, none := c.reduceAxes(rank, operandFrom)
		switch {
		case c.err != nil:
		case c.typeOf(c.in[0]).DType == ir.Bool:
			c.unsupportedf("reductions of bool")
		case none:
			c.pass(c.in[0])
		default:
			c.set(c.add(kind, &ir.ReduceAttr{Axes: axes, KeepDims: keep}, c.plain(0)))
		}
	}
}

// reduceProd multiplies all elements of a constant, as sizes are computed.
func reduceProd(c *call) {
	if !c.foldable(c.in[0]) || !holdsInts(c.in[0].tensor.DType) {
		c.unsupportedf("only products of constant integers are supported")
		return
	}
	t := c.in[0].tensor
	keep := c.bool("keepdims", true)
	axes, none := c.reduceAxes(len(t.Shape), 18)
	if c.err == nil && len(axes) != len(t.Shape) {
		c.unsupportedf("only products over all dimensions are supported")
	}
	if none {
		c.pass(c.in[0])
		return
	}
	p := int64(1)
	for _, v := range int64s(t) {
		p *= v
	}
	var shape []int
	if keep {
		shape = slices.Repeat([]int{1}, len(t.Shape))
	}
	c.setConst(fromInts(t.DType, shape, []int64{p}))
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
	return func(c *call) { c.pass(c.pair(kind, c.in[0], c.in[1])) }
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

// pow computes in the type of the base, whatever that of the exponent.
func pow(c *call) {
	x := c.id(0)
	d := c.typ(x).DType
	if c.err == nil && !d.IsFloat() {
		c.unsupportedf("powers of %s", d)
	}
	c.casted(c.in[1], d)
	if c.err == nil {
		c.set(c.add(ir.Pow, nil, x, c.use(c.out[0])))
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

func alphaBeta(kind ir.OpKind, alpha float32) func(*call) {
	return func(c *call) {
		c.set(c.add(kind, &ir.AlphaBetaAttr{Alpha: c.float("alpha", alpha)}, c.id(0)))
	}
}

func hardSigmoid(c *call) {
	a := &ir.AlphaBetaAttr{Alpha: c.float("alpha", 0.2), Beta: c.float("beta", 0.5)}
	c.set(c.add(ir.HardSigmoid, a, c.id(0)))
}

// pRelu is max(x, 0) + slope · min(x, 0).
func pRelu(c *call) {
	x := c.id(0)
	negative := c.add(ir.Clip, &ir.ClipAttr{Lo: float32(math.Inf(-1))}, x)
	c.set(c.add(ir.Add, nil, c.add(ir.Relu, nil, x), c.add(ir.Mul, nil, negative, c.id(1))))
}

// celu is alpha · elu(x / alpha).
func celu(c *call) {
	x, alpha := c.id(0), float64(c.float("alpha", 1))
	d := c.typ(x).DType
	y := c.add(ir.Elu, &ir.AlphaBetaAttr{Alpha: 1}, c.add(ir.Div, nil, x, c.scalar(d, alpha)))
	c.set(c.add(ir.Mul, nil, y, c.scalar(d, alpha)))
}

// selu is gamma · elu(x) with alpha inside.
func selu(c *call) {
	alpha, gamma := c.float("alpha", 1.67326319217681884765625), c.float("gamma", 1.05070102214813232421875)
	y := c.add(ir.Elu, &ir.AlphaBetaAttr{Alpha: alpha}, c.id(0))
	c.set(c.add(ir.Mul, nil, y, c.scalar(c.typ(y).DType, float64(gamma))))
}

// mish is x · tanh(softplus(x)).
func mish(c *call) {
	x := c.id(0)
	c.set(c.add(ir.Mul, nil, x, c.add(ir.Tanh, nil, c.add(ir.Softplus, nil, x))))
}

// softsign is x / (1 + |x|).
func softsign(c *call) {
	x := c.id(0)
	c.set(c.add(ir.Div, nil, x, c.add(ir.Add, nil, c.add(ir.Abs, nil, x), c.scalar(c.typ(x).DType, 1))))
}

// gelu is x/2 · (1 + erf(x/√2)), or its approximation with tanh:
// x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))).
func gelu(c *call) {
	x := c.id(0)
	k := func(v float64) ir.ValueID { return c.scalar(c.typ(x).DType, v) }
	mul := func(a, b ir.ValueID) ir.ValueID { return c.add(ir.Mul, nil, a, b) }
	add := func(a, b ir.ValueID) ir.ValueID { return c.add(ir.Add, nil, a, b) }
	var f ir.ValueID
	switch mode := c.str("approximate", "none"); mode {
	case "none":
		f = c.add(ir.Erf, nil, mul(x, k(1/math.Sqrt2)))
	case "tanh":
		inner := add(x, mul(mul(mul(x, x), x), k(0.044715)))
		f = c.add(ir.Tanh, nil, mul(inner, k(math.Sqrt(2/math.Pi))))
	default:
		c.failf("approximate %q", mode)
		return
	}
	c.set(mul(mul(x, k(0.5)), add(f, k(1))))
}

// clip takes its bounds from attributes before opset 11, from operands since.
func clip(c *call) {
	x := c.plain(0)
	bounds := [2]*value{c.operand(1), c.operand(2)}
	if c.opset < 11 {
		for i, name := range []string{"min", "max"} {
			if b := c.float(name, nan); b == b {
				bounds[i] = &value{id: ir.NoValue, tensor: ir.NewTensor(ir.F32, nil, []float32{b})}
			}
		}
	}
	attr := &ir.ClipAttr{Lo: float32(math.Inf(-1)), Hi: float32(math.Inf(1))}
	constant := c.typ(x).DType.IsFloat()
	for i, bound := range []*float32{&attr.Lo, &attr.Hi} {
		switch v := bounds[i]; {
		case v == nil:
		case v.isConst() && holdsFloats(v.tensor.DType) && v.tensor.Numel() == 1:
			*bound = float32(float64s(v.tensor)[0])
		default:
			constant = false
		}
	}
	if constant {
		c.set(c.add(ir.Clip, attr, x))
		return
	}
	for i, kind := range []ir.OpKind{ir.Max, ir.Min} {
		if bounds[i] != nil {
			x = c.add(kind, nil, x, c.use(bounds[i]))
		}
	}
	c.set(x)
}

var nan = float32(math.NaN())
