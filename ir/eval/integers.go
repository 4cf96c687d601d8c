package eval

import (
	"errors"
	"fmt"
	"math"

	"situ/ir"
)

// integer is the set of Go types that hold plain integers.
type integer interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64
}

var errDivZero = errors.New("integer division by zero")

// intBinary computes on plain integers and bools: results wrap, division
// truncates towards zero.
func intBinary(n *node) (kernel, error) {
	shape, d := n.out.Shape, n.in[0].DType
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(d, shape...)
		var err error
		switch y := out.Any().(type) {
		case []int8:
			err = intPairs(n.op, y, shape, in)
			if d == ir.I4 {
				for i := range y {
					y[i] = y[i] << 4 >> 4
				}
			}
		case []uint8:
			err = intPairs(n.op, y, shape, in)
			if d == ir.U4 {
				for i := range y {
					y[i] &= 15
				}
			}
		case []int16:
			err = intPairs(n.op, y, shape, in)
		case []uint16:
			err = intPairs(n.op, y, shape, in)
		case []int32:
			err = intPairs(n.op, y, shape, in)
		case []uint32:
			err = intPairs(n.op, y, shape, in)
		case []int64:
			err = intPairs(n.op, y, shape, in)
		case []uint64:
			err = intPairs(n.op, y, shape, in)
		}
		return out, err
	}, nil
}

func intPairs[T interface {
	integer
	ir.Elem
}](op *ir.Op, y []T, shape []int, in []*ir.Tensor) error {
	f := intFunc[T](op)
	var err error
	g := f
	if op.Kind == ir.Div || op.Kind == ir.Mod {
		g = func(a, b T) T {
			if b == 0 {
				err = errDivZero
				return 0
			}
			return f(a, b)
		}
	}
	if op.Kind == ir.Pow {
		g = func(a, b T) T {
			if a == 0 && b < 0 {
				err = errDivZero
				return 0
			}
			return f(a, b)
		}
	}
	mapPairs(y, shape, in, g)
	return err
}

// intFunc is an operator's meaning on plain integers; divisors are not 0.
func intFunc[T integer](op *ir.Op) func(a, b T) T {
	switch op.Kind {
	case ir.Add:
		return func(a, b T) T { return a + b }
	case ir.Sub:
		return func(a, b T) T { return a - b }
	case ir.Mul:
		return func(a, b T) T { return a * b }
	case ir.Div:
		return func(a, b T) T { return a / b }
	case ir.Min:
		return func(a, b T) T { return min(a, b) }
	case ir.Max:
		return func(a, b T) T { return max(a, b) }
	case ir.Pow:
		return intPow[T]
	case ir.Mod:
		if op.Attr.(*ir.ModAttr).Truncated {
			return func(a, b T) T { return a % b }
		}
		return func(a, b T) T {
			r := a % b
			if r != 0 && (r < 0) != (b < 0) {
				r += b
			}
			return r
		}
	case ir.BitAnd:
		return func(a, b T) T { return a & b }
	case ir.BitOr:
		return func(a, b T) T { return a | b }
	case ir.BitXor:
		return func(a, b T) T { return a ^ b }
	case ir.ShiftLeft:
		return func(a, b T) T { return a << b }
	case ir.ShiftRight:
		return func(a, b T) T { return a >> b }
	}
	panic(fmt.Sprintf("eval: %s on integers", op.Kind))
}

// intPow raises a to b by squaring; the result wraps. Negative powers of
// numbers other than 1 and −1 truncate to 0.
func intPow[T integer](a, b T) T {
	if b < 0 {
		switch {
		case a == 1, a+1 == 0 && b&1 == 0:
			return 1
		case a+1 == 0:
			return a
		}
		return 0
	}
	p := T(1)
	for ; b > 0; b >>= 1 {
		if b&1 != 0 {
			p *= a
		}
		a *= a
	}
	return p
}

// prepareMod is the remainder of integers and, in float64, of floats.
func prepareMod(n *node) (kernel, error) {
	if n.in[0].DType.IsInt() {
		return intBinary(n)
	}
	f := math.Mod
	if !n.op.Attr.(*ir.ModAttr).Truncated {
		f = func(a, b float64) float64 {
			r := math.Mod(a, b)
			if r != 0 && (r < 0) != (b < 0) {
				r += b
			}
			return r
		}
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		y := make([]float64, n.out.Numel())
		mapPairs(y, n.out.Shape, []*ir.Tensor{cast(in[0], ir.F64), cast(in[1], ir.F64)}, f)
		return cast(ir.NewTensor(ir.F64, n.out.Shape, y), n.out.DType), nil
	}, nil
}

// prepareBitCast gives the bits of x another type.
func prepareBitCast(n *node) (kernel, error) {
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, n.out.Shape...)
		raw := rawBits(in[0])
		switch y := out.Any().(type) {
		case []float32:
			for i, b := range raw {
				y[i] = math.Float32frombits(uint32(b))
			}
		case []float64:
			for i, b := range raw {
				y[i] = math.Float64frombits(b)
			}
		case []int8:
			convert(y, raw)
		case []uint8:
			convert(y, raw)
		case []int16:
			convert(y, raw)
		case []uint16:
			convert(y, raw)
		case []int32:
			convert(y, raw)
		case []uint32:
			convert(y, raw)
		case []int64:
			convert(y, raw)
		case []uint64:
			copy(y, raw)
		}
		return out, nil
	}, nil
}

// rawBits returns each element's bits as the low bits of a number.
func rawBits(t *ir.Tensor) []uint64 {
	y := make([]uint64, t.Numel())
	switch x := t.Any().(type) {
	case []float32:
		for i, v := range x {
			y[i] = uint64(math.Float32bits(v))
		}
	case []float64:
		for i, v := range x {
			y[i] = math.Float64bits(v)
		}
	case []int8:
		convert(y, x)
	case []uint8:
		convert(y, x)
	case []int16:
		convert(y, x)
	case []uint16:
		convert(y, x)
	case []int32:
		convert(y, x)
	case []uint32:
		convert(y, x)
	case []int64:
		convert(y, x)
	case []uint64:
		copy(y, x)
	}
	return y
}
