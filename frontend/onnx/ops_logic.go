package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// scalarBool adds a boolean constant that broadcasts.
func (c *call) scalarBool(v bool) ir.ValueID {
	n := int64(0)
	if v {
		n = 1
	}
	return c.constant("", fromInts(ir.Bool, nil, []int64{n}), nil)
}

// not negates a value of bools.
func (c *call) not(x ir.ValueID) ir.ValueID {
	return c.add(ir.BitXor, nil, x, c.scalarBool(true))
}

func (c *call) where(cond, a, b ir.ValueID) ir.ValueID { return c.add(ir.Where, nil, cond, a, b) }

// ordered returns a comparison as a value, at once where both operands are
// constants.
func (c *call) ordered(kind ir.OpKind, a, b *value) *value {
	if c.err != nil {
		return a
	}
	holds := map[ir.OpKind]func(a, b float64) bool{
		ir.Equals:    func(a, b float64) bool { return a == b },
		ir.Less:      func(a, b float64) bool { return a < b },
		ir.LessEqual: func(a, b float64) bool { return a <= b },
	}[kind]
	if c.foldable(a, b) {
		floats := func(a, b float64) float64 {
			if holds(a, b) {
				return 1
			}
			return 0
		}
		// The difference of int64s would overflow; of their order nothing is lost.
		ints := func(a, b int64) int64 {
			sign := 0.0
			if a < b {
				sign = -1
			} else if a > b {
				sign = 1
			}
			return int64(floats(sign, 0))
		}
		if a.tensor.DType == ir.U64 { // whose order as int64s is another one
			flip := ints
			ints = func(a, b int64) int64 { return flip(a^math.MinInt64, b^math.MinInt64) }
		}
		if t, ok := foldBinary(a.tensor, b.tensor, ints, floats, ir.Bool); ok {
			return c.made(t)
		}
	}
	return &value{id: c.add(kind, nil, c.unquantised(c.use(a)), c.unquantised(c.use(b)))}
}

func compare(kind ir.OpKind) func(*call) {
	return func(c *call) {
		a, b := c.pairOperands()
		c.pass(c.ordered(kind, a, b))
	}
}

// compareSwapped translates Greater and GreaterOrEqual.
func compareSwapped(kind ir.OpKind) func(*call) {
	return func(c *call) {
		a, b := c.pairOperands()
		c.pass(c.ordered(kind, b, a))
	}
}

var bitFold = map[ir.OpKind]func(a, b int64) int64{
	ir.BitAnd: func(a, b int64) int64 { return a & b },
	ir.BitOr:  func(a, b int64) int64 { return a | b },
	ir.BitXor: func(a, b int64) int64 { return a ^ b },
}

// bitwise joins two values of bools or integers.
func (c *call) bitwise(kind ir.OpKind, a, b *value) *value {
	if c.err != nil {
		return a
	}
	if c.foldable(a, b) {
		if t, ok := foldBinary(a.tensor, b.tensor, bitFold[kind], nil, ir.Invalid); ok {
			return c.made(t)
		}
	}
	return &value{id: c.add(kind, nil, c.unquantised(c.use(a)), c.unquantised(c.use(b)))}
}

// logic translates operators on bools, bits those on integers.
func logic(kind ir.OpKind) func(*call) { return joinBits(kind, true) }
func bits(kind ir.OpKind) func(*call)  { return joinBits(kind, false) }

func joinBits(kind ir.OpKind, logical bool) func(*call) {
	return func(c *call) {
		for i, v := range c.in[:2] {
			if d := c.typeOf(v).DType; (d == ir.Bool) != logical {
				c.failf("operand %d is %s", i, d)
			}
		}
		a, b := c.pairOperands()
		c.pass(c.bitwise(kind, a, b))
	}
}

// not is exclusive or with true, bitwiseNot with all ones.
func not(c *call) {
	if d := c.typeOf(c.in[0]).DType; d != ir.Bool {
		c.failf("operand is %s, want bool", d)
	}
	c.pass(c.bitwise(ir.BitXor, c.in[0], c.made(fromInts(ir.Bool, nil, []int64{1}))))
}

func bitwiseNot(c *call) {
	d := c.typeOf(c.in[0]).DType
	if !d.IsInt() {
		c.failf("operand is %s, want integers", d)
		return
	}
	c.pass(c.bitwise(ir.BitXor, c.in[0], c.made(fromInts(d, nil, []int64{-1}))))
}

func bitShift(c *call) {
	kind := ir.ShiftLeft
	switch d := c.str("direction", ""); d {
	case "LEFT":
	case "RIGHT":
		kind = ir.ShiftRight
	default:
		c.failf("direction %q", d)
	}
	c.set(c.add(kind, nil, c.plain(0), c.plain(1)))
}

// mod is the remainder, with the divisor's sign unless fmod is set.
func mod(c *call) {
	truncated := c.bool("fmod", false)
	a, b := c.in[0], c.in[1]
	if d := c.typeOf(a).DType; c.err == nil && d.IsFloat() && !truncated {
		c.failf("fmod must be 1 for operands of type %s", d)
		return
	}
	if c.foldable(a, b) && b.tensor.DType.IsInt() && b.tensor.DType != ir.U64 && !slices.Contains(int64s(b.tensor), 0) {
		if t, ok := foldBinary(a.tensor, b.tensor, func(a, b int64) int64 {
			r := a % b
			if !truncated && r != 0 && (r < 0) != (b < 0) {
				r += b
			}
			return r
		}, nil, ir.Invalid); ok {
			c.setConst(t)
			return
		}
	}
	c.set(c.add(ir.Mod, &ir.ModAttr{Truncated: truncated}, c.unquantised(c.use(a)), c.unquantised(c.use(b))))
}

// where selects between two operands.
func where(c *call) {
	v, a, b := c.in[0], c.in[1], c.in[2]
	if c.foldable(v, a, b) {
		if t, ok := foldWhere(v.tensor, a.tensor, b.tensor); ok {
			c.setConst(t)
			return
		}
	}
	c.set(c.where(c.use(v), c.unquantised(c.use(a)), c.unquantised(c.use(b))))
}

func foldWhere(cond, a, b *ir.Tensor) (_ *ir.Tensor, ok bool) {
	shape, ok := broadcastShapes(cond.Shape, a.Shape, b.Shape)
	if !ok || cond.DType != ir.Bool || a.DType != b.DType || ir.Numel(shape) > maxFold {
		return nil, false
	}
	flat := join([]*ir.Tensor{a.Reshaped(a.Numel()), b.Reshaped(b.Numel())}, 0, []int{a.Numel() + b.Numel()})
	ia, ib := broadcastIndices(a.Shape, shape), broadcastIndices(b.Shape, shape)
	bits := ir.Data[uint8](cond)
	index := broadcastIndices(cond.Shape, shape)
	for i, j := range index {
		if bits[j] != 0 {
			index[i] = ia[i]
		} else {
			index[i] = a.Numel() + ib[i]
		}
	}
	return take(flat, shape, index), true
}

// isNaN: only NaN differs from itself.
func isNaN(c *call) {
	x := c.id(0)
	if d := c.typ(x).DType; !d.IsFloat() {
		c.failf("operand is %s, want floats", d)
	}
	c.set(c.not(c.add(ir.Equals, nil, x, x)))
}

func isInf(c *call) {
	x := c.id(0)
	negative, positive := c.bool("detect_negative", true), c.bool("detect_positive", true)
	d := c.typ(x).DType
	if !d.IsFloat() {
		c.failf("operand is %s, want floats", d)
	}
	inf := math.Inf(1)
	switch {
	case negative && positive:
		x = c.add(ir.Abs, nil, x)
	case negative:
		inf = math.Inf(-1)
	case !positive:
		c.set(c.add(ir.Expand, &ir.ShapeAttr{Shape: c.typ(x).Shape}, c.scalarBool(false)))
		return
	}
	c.set(c.add(ir.Equals, nil, x, c.scalar(d, inf)))
}

// sign is 1, −1 or the operand itself, which is 0 or NaN then.
func sign(c *call) {
	x := c.plain(0)
	d := c.typ(x).DType
	y := x
	if d.IsFloat() || d == ir.I8 || d == ir.I16 || d == ir.I32 || d == ir.I64 {
		y = c.where(c.add(ir.Less, nil, x, c.scalar(d, 0)), c.scalar(d, -1), x)
	}
	c.set(c.where(c.add(ir.Less, nil, c.scalar(d, 0), x), c.scalar(d, 1), y))
}
