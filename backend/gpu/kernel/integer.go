package kernel

import (
	"math"

	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Number is a plain element type: an integer of 1, 2, 4 or 8 bytes, a boolean, or
// float32.
type Number struct {
	Bytes  int
	Signed bool
	Float  bool
	Bool   bool
}

// Cast converts element types: floats become integers by truncation towards zero,
// saturated (NaN becomes 0), integers narrow by dropping high bits, and a boolean
// is whether x differs from 0. Parameters: x, y.
type Cast struct {
	N        int
	From, To Number
}

// Family implements Spec.
func (s Cast) Family() string { return "cast" }

// Params implements Spec.
func (s Cast) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s Cast) Launch() Launch { return linear(s.N) }

func (s Cast) emit(k *fn) {
	k.each(s.N, func(i val) {
		var y val
		to := types.NewInt(uint64(8 * s.To.Bytes))
		if s.From.Float {
			x := k.loadFloat(k.params["x"], i)
			switch {
			case s.To.Float:
				y = k.b.NewFPTrunc(x, types.Float)
			case s.To.Bool:
				y = k.zext(k.b.NewFCmp(enum.FPredUNE, x, f64(0)), to)
			default:
				y = k.truncated(x, s.To)
			}
		} else {
			x := k.loadInteger(s.From, k.params["x"], i)
			switch {
			case s.To.Bool:
				y = k.zext(k.cmp(enum.IPredNE, x, 0), to)
			case s.To.Float && !s.From.Signed:
				y = k.b.NewUIToFP(x, types.Float)
			case s.To.Float:
				y = k.b.NewSIToFP(x, types.Float)
			default:
				y = k.resize(x, to)
			}
		}
		k.store(y, k.params["y"], k.mul(i, s.To.Bytes))
	})
}

// loadInteger reads element i, extended to 64 bits.
func (k *fn) loadInteger(n Number, p, i val) val {
	v := k.load(types.NewInt(uint64(8*n.Bytes)), p, k.mul(i, n.Bytes))
	switch {
	case n.Bytes == 8:
		return v
	case n.Signed:
		return k.sext(v, types.I64)
	}
	return k.zext(v, types.I64)
}

// resize drops the high bits of an i64.
func (k *fn) resize(x val, t *types.IntType) val {
	if t.BitSize == 64 {
		return x
	}
	return k.trunc(x, t)
}

// truncated converts a float64 towards zero to an integer of at most 32 bits or a
// signed one of 64, saturated.
func (k *fn) truncated(x val, n Number) val {
	x = k.sel(k.isNaN(x), f64(0), x)
	t := types.NewInt(uint64(8 * n.Bytes))
	if n.Bytes == 8 {
		in := k.fless(x, f64(1<<63))
		whole := k.b.NewFPToSI(k.sel(in, k.fclamp(x, math.MinInt64, math.Inf(1)), f64(0)), types.I64)
		return k.sel(in, whole, constant.NewInt(types.I64, math.MaxInt64))
	}
	lo, hi := 0.0, math.Ldexp(1, 8*n.Bytes)-1
	if n.Signed {
		lo, hi = -math.Ldexp(1, 8*n.Bytes-1), math.Ldexp(1, 8*n.Bytes-1)-1
	}
	return k.resize(k.b.NewFPToSI(k.fclamp(x, lo, hi), types.I64), t)
}

// IntOp is an operator of two plain integers.
type IntOp int

// Operators; results wrap.
const (
	IntAdd IntOp = iota
	IntSub
	IntMul
	IntMin
	IntMax
	IntAnd
	IntOr
	IntXor
)

// IntBinary is an operator of plain integers element by element, with
// broadcasting. Parameters: a, b, y.
type IntBinary struct {
	Nest Nest // y, a, b; y dense
	Op   IntOp
	Type Number
}

// Family implements Spec.
func (s IntBinary) Family() string { return "integer_op" }

// Params implements Spec.
func (s IntBinary) Params() []string { return []string{"a", "b", "y"} }

// Launch implements Spec.
func (s IntBinary) Launch() Launch { return linear(s.Nest.Size()) }

func (s IntBinary) emit(k *fn) {
	k.each(s.Nest.Size(), func(i val) {
		at := k.offsets(s.Nest, i)
		a, b := k.loadInteger(s.Type, k.params["a"], at[1]), k.loadInteger(s.Type, k.params["b"], at[2])
		y := k.resize(k.twoInts(s.Op, s.Type.Signed, a, b), types.NewInt(uint64(8*s.Type.Bytes)))
		k.store(y, k.params["y"], k.mul(at[0], s.Type.Bytes))
	})
}

// twoInts applies an operator to integers extended to 64 bits.
func (k *fn) twoInts(op IntOp, signed bool, a, b val) val {
	less := enum.IPredULT
	if signed {
		less = enum.IPredSLT
	}
	switch op {
	case IntAdd:
		return k.add(a, b)
	case IntSub:
		return k.sub(a, b)
	case IntMul:
		return k.mul(a, b)
	case IntMin:
		return k.sel(k.cmp(less, a, b), a, b)
	case IntMax:
		return k.sel(k.cmp(less, a, b), b, a)
	case IntAnd:
		return k.and(a, b)
	case IntOr:
		return k.or(a, b)
	}
	return k.xor(a, b)
}
