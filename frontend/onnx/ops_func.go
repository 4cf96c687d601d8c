package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// pow computes in the type of the base, whatever that of the exponent. Integers
// to a floating-point power go through f64.
func pow(c *call) {
	a, b := c.pairOperands()
	x := c.unquantised(c.use(a))
	base, e := c.typ(x).DType, c.typeOf(b).DType
	if base.IsInt() && e.IsFloat() {
		c.casted(b, ir.F64)
		if c.err == nil {
			c.set(c.castID(c.add(ir.Pow, nil, c.castID(x, ir.F64), c.use(c.out[0])), base))
		}
		return
	}
	c.casted(b, base)
	if c.err == nil {
		c.set(c.add(ir.Pow, nil, x, c.use(c.out[0])))
	}
}

func abs(c *call) { c.set(c.abs(c.plain(0))) }

func alphaBeta(kind ir.OpKind, alpha float32) func(*call) {
	return func(c *call) {
		c.set(c.add(kind, &ir.AlphaBetaAttr{Alpha: c.float("alpha", alpha)}, c.id(0)))
	}
}

func hardSigmoid(c *call) {
	a := &ir.AlphaBetaAttr{Alpha: c.float("alpha", 0.2), Beta: c.float("beta", 0.5)}
	c.set(c.add(ir.HardSigmoid, a, c.id(0)))
}

// function translates a function of floats made of several operators, which
// 16-bit floats compute in f32.
func function(f func(c *call, x ir.ValueID) ir.ValueID) func(*call) {
	return func(c *call) {
		x := c.id(0)
		if d := c.typ(x).DType; c.err == nil && !d.IsFloat() {
			c.failf("operand is %s, want floats", d)
		}
		c.set(c.wide(x, func(x ir.ValueID) ir.ValueID { return f(c, x) }))
	}
}

// number is a constant of x's type that broadcasts.
func (c *call) number(x ir.ValueID, v float64) ir.ValueID { return c.scalar(c.typ(x).DType, v) }

// pRelu is max(x, 0) + slope · min(x, 0); integers choose between x and slope · x.
func pRelu(c *call) {
	x, slope := c.plain(0), c.plain(1)
	if s := c.typ(slope).Shape; c.err == nil && c.opset < 7 && len(s) == 1 && s[0] > 1 {
		// One slope a channel, dimension 1.
		slope = c.reshape(slope, append(s[:1:1], slices.Repeat([]int{1}, max(0, len(c.typ(x).Shape)-2))...)...)
	}
	if d := c.typ(x).DType; d.IsInt() {
		c.set(c.where(c.add(ir.Less, nil, x, c.scalar(d, 0)), c.add(ir.Mul, nil, slope, x), x))
		return
	}
	negative := c.add(ir.Clip, &ir.ClipAttr{Lo: float32(math.Inf(-1))}, x)
	c.set(c.add(ir.Add, nil, c.add(ir.Relu, nil, x), c.add(ir.Mul, nil, negative, slope)))
}

// celu is alpha · elu(x / alpha) where x < 0, else x.
func celu(c *call, x ir.ValueID) ir.ValueID {
	k := c.number(x, float64(c.float("alpha", 1)))
	return c.add(ir.Mul, nil, c.add(ir.Elu, &ir.AlphaBetaAttr{Alpha: 1}, c.add(ir.Div, nil, x, k)), k)
}

// selu is gamma · elu(x) with alpha inside.
func selu(c *call, x ir.ValueID) ir.ValueID {
	alpha, gamma := c.float("alpha", 1.67326319217681884765625), c.float("gamma", 1.05070102214813232421875)
	return c.add(ir.Mul, nil, c.add(ir.Elu, &ir.AlphaBetaAttr{Alpha: alpha}, x), c.number(x, float64(gamma)))
}

// mish is x · tanh(softplus(x)).
func mish(c *call, x ir.ValueID) ir.ValueID {
	return c.add(ir.Mul, nil, x, c.add(ir.Tanh, nil, c.add(ir.Softplus, nil, x)))
}

// softsign is x / (1 + |x|).
func softsign(c *call, x ir.ValueID) ir.ValueID {
	return c.add(ir.Div, nil, x, c.add(ir.Add, nil, c.add(ir.Abs, nil, x), c.number(x, 1)))
}

// swish is x · sigmoid(alpha · x).
func swish(c *call, x ir.ValueID) ir.ValueID {
	return c.swish(x, c.float("alpha", 1))
}

func (c *call) swish(x ir.ValueID, alpha float32) ir.ValueID {
	s := x
	if alpha != 1 {
		s = c.add(ir.Mul, nil, x, c.number(x, float64(alpha)))
	}
	return c.add(ir.Mul, nil, x, c.add(ir.Sigmoid, nil, s))
}

// thresholdedRelu is x where it exceeds alpha, else 0.
func thresholdedRelu(c *call, x ir.ValueID) ir.ValueID {
	alpha := c.number(x, float64(c.float("alpha", 1)))
	return c.where(c.add(ir.Less, nil, alpha, x), x, c.number(x, 0))
}

// shrink moves x towards 0 by bias where |x| exceeds lambd; the rest is 0.
func shrink(c *call) {
	x := c.plain(0)
	bias, lambd := float64(c.float("bias", 0)), float64(c.float("lambd", 0.5))
	c.set(c.wide(x, func(x ir.ValueID) ir.ValueID {
		low := c.add(ir.Less, nil, x, c.number(x, -lambd))
		high := c.add(ir.Less, nil, c.number(x, lambd), x)
		k := c.number(x, bias)
		return c.where(low, c.add(ir.Add, nil, x, k), c.where(high, c.add(ir.Sub, nil, x, k), c.number(x, 0)))
	}))
}

func gelu(c *call, x ir.ValueID) ir.ValueID {
	mode := c.str("approximate", "none")
	if mode != "none" && mode != "tanh" {
		c.failf("approximate %q", mode)
	}
	return c.gelu(x, mode == "tanh")
}

// gelu is x/2 · (1 + erf(x/√2)), or its approximation with tanh:
// x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))).
func (c *call) gelu(x ir.ValueID, approximate bool) ir.ValueID {
	k := func(v float64) ir.ValueID { return c.number(x, v) }
	mul := func(a, b ir.ValueID) ir.ValueID { return c.add(ir.Mul, nil, a, b) }
	add := func(a, b ir.ValueID) ir.ValueID { return c.add(ir.Add, nil, a, b) }
	var f ir.ValueID
	if approximate {
		inner := add(x, mul(mul(mul(x, x), x), k(0.044715)))
		f = c.add(ir.Tanh, nil, mul(inner, k(math.Sqrt(2/math.Pi))))
	} else {
		f = c.add(ir.Erf, nil, mul(x, k(1/math.Sqrt2)))
	}
	return mul(mul(x, k(0.5)), add(f, k(1)))
}

// clip takes its bounds from attributes before opset 11, from operands since.
func clip(c *call) {
	x := c.plain(0)
	d := c.typ(x).DType
	bounds := [2]*value{c.operand(1), c.operand(2)}
	if c.opset < 11 {
		for i, name := range []string{"min", "max"} {
			if b := c.float(name, nan); b == b {
				bounds[i] = &value{id: ir.NoValue, tensor: fromFloats(d, nil, []float64{float64(b)})}
			}
		}
	}
	attr := &ir.ClipAttr{Lo: float32(math.Inf(-1)), Hi: float32(math.Inf(1))}
	constant := d.IsFloat()
	for i, bound := range []*float32{&attr.Lo, &attr.Hi} {
		switch v := bounds[i]; {
		case v == nil:
		case v.isConst() && holdsFloats(v.tensor.DType) && v.tensor.Numel() == 1:
			b := float64s(v.tensor)[0]
			*bound = float32(b)
			constant = constant && float64(*bound) == b // a bound of f64 may need more digits
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

// bitCast gives the bits another element type.
func bitCast(c *call) {
	d, err := dtypeOf(int32(c.int("to", 0)))
	if err != nil {
		c.unsupportedf("%v", err)
	}
	x := c.plain(0)
	from := c.typ(x).DType
	switch {
	case c.err != nil:
	case from == d:
		c.pass(c.in[0])
	case from == ir.Bool:
		c.set(c.castID(x, d))
	case from.Bits() != d.Bits():
		c.failf("%s and %s have different widths", from, d)
	default:
		c.set(c.addTyped(ir.BitCast, nil, ir.TypeOf(d, c.typ(x).Shape...), x))
	}
}
