package kernel

import (
	"math"

	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Kernels of what stays in float32. Sums, functions and comparisons are computed
// in float64 and rounded once, as the reference evaluator defines them; results
// equal its own but where a float64 last bit decides the rounding to float32.

// f64 returns a constant.
func f64(x float64) val {
	return constant.NewBitCast(constant.NewInt(types.I64, int64(math.Float64bits(x))), types.Double)
}

func (k *fn) loadFloat(p, element val) val {
	return k.b.NewFPExt(k.load(types.Float, p, k.mul(element, 4)), types.Double)
}

func (k *fn) storeFloat(v, p, element val) {
	k.store(k.b.NewFPTrunc(v, types.Float), p, k.mul(element, 4))
}

func (k *fn) fless(x, y val) val { return k.b.NewFCmp(enum.FPredOLT, x, y) }

// isNaN looks at the bits: an exponent of ones and a mantissa that is not 0.
func (k *fn) isNaN(x val) val {
	bits := k.b.NewAnd(k.b.NewBitCast(x, types.I64), k.i64(math.MaxInt64))
	return k.b.NewICmp(enum.IPredUGT, bits, k.i64(0x7ff<<52))
}

// fclamp limits x to lo … hi; NaN stays.
func (k *fn) fclamp(x val, lo, hi float64) val {
	if !math.IsInf(lo, -1) {
		x = k.sel(k.fless(x, f64(lo)), f64(lo), x)
	}
	if !math.IsInf(hi, 1) {
		x = k.sel(k.fless(f64(hi), x), f64(hi), x)
	}
	return x
}

func (k *fn) fma(x, y, z val) val {
	return k.b.NewCall(k.m.intrinsic("llvm.fma.f64", types.Double, types.Double, types.Double, types.Double), x, y, z)
}

// poly is Σ c[i]·x^i.
func (k *fn) poly(x val, c []float64) val {
	v := f64(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		v = k.fma(v, x, f64(c[i]))
	}
	return v
}

// roundMagic added to a float64 below 2^51 leaves the nearest integer in the low
// bits.
const roundMagic = 3 << 51

// exp is e^x: x = n·ln 2 + r, and the Taylor series of e^r. Above 700 it is
// infinite, and below −700, where float32 has long been 0, that of −700; NaN
// stays.
func (k *fn) exp(x val) val {
	infinite := k.fless(f64(700), x)
	x = k.fclamp(x, -700, 700)
	shifted := k.b.NewFAdd(k.b.NewFMul(x, f64(math.Log2E)), f64(roundMagic))
	n := k.b.NewFSub(shifted, f64(roundMagic))
	const ln2Hi, ln2Lo = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	r := k.fma(n, f64(-ln2Lo), k.fma(n, f64(-ln2Hi), x))
	c, f := make([]float64, 15), 1.0
	for i := range c {
		if i > 0 {
			f *= float64(i)
		}
		c[i] = 1 / f
	}
	power := k.shl(k.add(k.b.NewBitCast(shifted, types.I64), 1023), 52)
	y := k.b.NewFMul(k.poly(r, c), k.b.NewBitCast(power, types.Double))
	return k.sel(infinite, f64(math.Inf(1)), y)
}

// log is the natural logarithm of a float32 in a float64: x = 2^e·m with m from
// √½ to √2, and the series of atanh((m−1)/(m+1)).
func (k *fn) log(x val) val {
	const sqrtHalf = 0x3fe6a09e667f3bcd // bits of √½
	bits := k.b.NewBitCast(x, types.I64)
	e := k.ashr(k.b.NewSub(bits, k.i64(sqrtHalf)), 52)
	m := k.b.NewBitCast(k.b.NewSub(bits, k.shl(e, 52)), types.Double)
	s := k.b.NewFDiv(k.b.NewFSub(m, f64(1)), k.b.NewFAdd(m, f64(1)))
	c := make([]float64, 12)
	for i := range c {
		c[i] = 2 / float64(2*i+1)
	}
	y := k.fma(k.b.NewSIToFP(k.trunc(e, types.I32), types.Double), f64(math.Ln2), k.b.NewFMul(s, k.poly(k.b.NewFMul(s, s), c)))
	y = k.sel(k.b.NewFCmp(enum.FPredOEQ, x, f64(0)), f64(math.Inf(-1)), y)
	y = k.sel(k.b.NewFCmp(enum.FPredOEQ, x, f64(math.Inf(1))), x, y)
	y = k.sel(k.fless(x, f64(0)), f64(math.NaN()), y)
	return k.sel(k.isNaN(x), x, y)
}

// erf is the Gauss error function, 2/√π·e^(−x²)·Σ 2ⁿ·x^(2n+1)/(2n+1)!!
// (Abramowitz and Stegun 7.1.6), whose terms all have one sign. From 4 on it rounds
// to ±1 in float32.
func (k *fn) erf(x val) val {
	x = k.fclamp(x, -4, 4)
	x2 := k.b.NewFMul(x, x)
	c := make([]float64, 80) // at x² = 16 the rest is below 10⁻¹⁵ of the sum
	c[0] = 2 / math.SqrtPi
	for n := 1; n < len(c); n++ {
		c[n] = 2 * c[n-1] / float64(2*n+1)
	}
	return k.b.NewFMul(k.exp(k.b.NewFMul(x2, f64(-1))), k.b.NewFMul(x, k.poly(x2, c)))
}

// small is where functions that vanish at 0 change to their series there.
const small = 1e-3

// nearZero is a series where |x| < small, otherwise y.
func (k *fn) nearZero(x val, c []float64, y val) val {
	in := k.b.NewAnd(k.fless(f64(-small), x), k.fless(x, f64(small)))
	return k.sel(in, k.b.NewFMul(x, k.poly(x, c)), y)
}

// FloatFn is a function of one float32.
type FloatFn int

// Functions; A and B are those of Unary.
const (
	Relu        FloatFn = iota
	LeakyRelu           // A·x below 0
	Clip                // to A … B
	Sigmoid             //
	HardSigmoid         // A·x + B limited to 0 … 1
	HardSwish           //
	Tanh                //
	Exp                 //
	Log                 //
	Sqrt                //
	Reciprocal          //
	Neg                 //
	Abs                 //
	Softplus            //
	Elu                 // A·(e^x − 1) below 0
	Floor               //
	Ceil                //
	Round               // halves to even
	Erf                 //
)

// Unary is a function of each float32. Parameters: x, y.
type Unary struct {
	N    int
	Fn   FloatFn
	A, B float32
}

// Family implements Spec.
func (s Unary) Family() string { return "float_fn" }

// Params implements Spec.
func (s Unary) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s Unary) Launch() Launch { return linear(s.N) }

func (s Unary) emit(k *fn) {
	k.each(s.N, func(i val) { k.storeFloat(s.of(k, k.loadFloat(k.params["x"], i)), k.params["y"], i) })
}

func (s Unary) of(k *fn, x val) val {
	a, b, inf := float64(s.A), float64(s.B), math.Inf(1)
	neg := func(x val) val { return k.b.NewFSub(f64(math.Copysign(0, -1)), x) }
	switch s.Fn {
	case Relu:
		return k.fclamp(x, 0, inf)
	case LeakyRelu:
		return k.sel(k.fless(x, f64(0)), k.b.NewFMul(x, f64(a)), x)
	case Clip:
		return k.fclamp(x, a, b)
	case Sigmoid:
		return k.b.NewFDiv(f64(1), k.b.NewFAdd(f64(1), k.exp(neg(x))))
	case HardSigmoid:
		return k.fclamp(k.b.NewFAdd(k.b.NewFMul(x, f64(a)), f64(b)), 0, 1)
	case HardSwish:
		return k.b.NewFMul(x, k.fclamp(k.b.NewFAdd(k.b.NewFDiv(x, f64(6)), f64(0.5)), 0, 1))
	case Tanh:
		limited := k.fclamp(x, -30, 30) // where it is ±1
		e := k.exp(k.b.NewFAdd(limited, limited))
		y := k.b.NewFDiv(k.b.NewFSub(e, f64(1)), k.b.NewFAdd(e, f64(1)))
		return k.nearZero(x, []float64{1, 0, -1. / 3, 0, 2. / 15}, y)
	case Exp:
		return k.exp(x)
	case Log:
		return k.log(x)
	case Sqrt:
		return k.b.NewCall(k.m.intrinsic("llvm.sqrt.f64", types.Double, types.Double), x)
	case Reciprocal:
		return k.b.NewFDiv(f64(1), x)
	case Neg:
		return neg(x)
	case Abs:
		return k.b.NewCall(k.m.intrinsic("llvm.fabs.f64", types.Double, types.Double), x)
	case Floor, Ceil, Round:
		name := map[FloatFn]string{Floor: "floor", Ceil: "ceil", Round: "rint"}[s.Fn]
		return k.b.NewCall(k.m.intrinsic("llvm."+name+".f64", types.Double, types.Double), x)
	case Erf:
		return k.erf(x)
	case Softplus:
		// ln(1 + e^x) = max(x, 0) + ln(1 + e^−|x|), whose second part is its own
		// argument's series where that is below the precision of 1 + e.
		abs := k.sel(k.fless(x, f64(0)), x, neg(x))
		e := k.exp(abs)
		l := k.nearZero(e, []float64{1, -1. / 2, 1. / 3, -1. / 4, 1. / 5}, k.log(k.b.NewFAdd(f64(1), e)))
		return k.b.NewFAdd(k.fclamp(x, 0, inf), l)
	}
	y := k.nearZero(x, []float64{1, 1. / 2, 1. / 6, 1. / 24, 1. / 120}, k.b.NewFSub(k.exp(x), f64(1)))
	return k.sel(k.fless(x, f64(0)), k.b.NewFMul(y, f64(a)), x) // Elu
}

// FloatOp is an operator of two float32.
type FloatOp int

// Operators.
const (
	FloatAdd FloatOp = iota
	FloatSub
	FloatMul
	FloatDiv
	FloatMin
	FloatMax
)

// FloatBinary is an operator element by element, with broadcasting, and a clamp
// of its results. Parameters: a, b, y.
type FloatBinary struct {
	Nest   Nest // y, a, b; y dense
	Op     FloatOp
	Lo, Hi float32
}

// Family implements Spec.
func (s FloatBinary) Family() string { return "float_op" }

// Params implements Spec.
func (s FloatBinary) Params() []string { return []string{"a", "b", "y"} }

// Launch implements Spec.
func (s FloatBinary) Launch() Launch { return linear(s.Nest.Size()) }

func (s FloatBinary) emit(k *fn) {
	k.each(s.Nest.Size(), func(i val) {
		at := k.offsets(s.Nest, i)
		a, b := k.loadFloat(k.params["a"], at[1]), k.loadFloat(k.params["b"], at[2])
		y := k.twoFloats(s.Op, a, b)
		// Rounding to float64 first changes nothing: it has more than twice the bits.
		y = k.b.NewFPExt(k.b.NewFPTrunc(y, types.Float), types.Double)
		k.storeFloat(k.fclamp(y, float64(s.Lo), float64(s.Hi)), k.params["y"], at[0])
	})
}

// twoFloats applies an operator to float64s.
func (k *fn) twoFloats(op FloatOp, a, b val) val {
	switch op {
	case FloatAdd:
		return k.b.NewFAdd(a, b)
	case FloatSub:
		return k.b.NewFSub(a, b)
	case FloatMul:
		return k.b.NewFMul(a, b)
	case FloatDiv:
		return k.b.NewFDiv(a, b)
	}
	less := k.fless(a, b)
	y := k.sel(less, a, b)
	if op == FloatMax {
		y = k.sel(less, b, a)
	}
	return k.sel(k.isNaN(a), a, k.sel(k.isNaN(b), b, y))
}

// FloatReduce is the sum, mean, maximum or minimum over some dimensions.
// Parameters: x, y.
type FloatReduce struct {
	Op   Reduction
	Kept Nest // x only: of the first element of each sum
	Over Nest // x only: the elements of one sum
	Mean bool // of a Sum
}

// Family implements Spec.
func (s FloatReduce) Family() string { return "float_reduce" }

// Params implements Spec.
func (s FloatReduce) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s FloatReduce) Launch() Launch { return linear(s.Kept.Size()) }

func (s FloatReduce) emit(k *fn) {
	count := s.Over.Size()
	start := map[Reduction]float64{Sum: 0, Max: math.Inf(-1), Min: math.Inf(1)}[s.Op]
	k.each(s.Kept.Size(), func(i val) {
		base := k.offsets(s.Kept, i)[0]
		acc := k.repeat(count, []val{f64(start)}, func(r val, c []val) []val {
			x := k.loadFloat(k.params["x"], k.add(base, k.offsets(s.Over, r)[0]))
			var better val
			switch s.Op {
			case Sum:
				return []val{k.b.NewFAdd(c[0], x)}
			case Max:
				better = k.fless(c[0], x)
			case Min:
				better = k.fless(x, c[0])
			}
			better = k.b.NewOr(better, k.isNaN(x)) // which then stays
			return []val{k.sel(k.b.NewAnd(better, k.b.NewXor(k.isNaN(c[0]), constant.True)), x, c[0])}
		})[0]
		if s.Mean {
			acc = k.b.NewFDiv(acc, f64(float64(count)))
		}
		k.storeFloat(acc, k.params["y"], i)
	})
}

// FloatSoftmax is softmax, or its logarithm, along the middle dimension of
// [Outer, N, Inner]: a thread a lane or, where Inner is 1, Warps a row. Parameters: x, y.
type FloatSoftmax struct {
	Outer, N, Inner int
	Log             bool
	Warps           int // 0 for a thread a lane
}

// Family implements Spec.
func (s FloatSoftmax) Family() string { return "float_softmax" }

// Params implements Spec.
func (s FloatSoftmax) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s FloatSoftmax) Launch() Launch {
	if s.Warps > 0 {
		return rowLaunch(s.Outer, s.Warps)
	}
	return linear(s.Outer * s.Inner)
}

func (s FloatSoftmax) emit(k *fn) {
	larger := func(a, b val) val { return k.sel(k.fless(a, b), b, a) }
	plus := func(a, b val) val { return k.b.NewFAdd(a, b) }
	// compute takes walks over the elements of a lane, each by its place, and what
	// combines the results of several threads.
	compute := func(walk func(init []val, f func(at, in val, c []val) []val) []val, all func(vs []val, combine func(a, b val) val) []val) {
		x := func(at val) val { return k.loadFloat(k.params["x"], at) }
		top := all(walk([]val{f64(math.Inf(-1))}, func(at, _ val, c []val) []val {
			return []val{larger(c[0], x(at))}
		}), larger)[0]
		sum := all(walk([]val{f64(0)}, func(at, in val, c []val) []val {
			e := k.exp(k.b.NewFSub(x(at), top))
			if in != nil {
				e = k.sel(in, e, f64(0))
			}
			return []val{plus(c[0], e)}
		}), plus)[0]
		var l val
		if s.Log {
			l = k.log(sum)
		}
		walk(nil, func(at, in val, c []val) []val {
			d := k.b.NewFSub(x(at), top)
			y := val(nil)
			if s.Log {
				y = k.b.NewFSub(d, l)
			} else {
				y = k.b.NewFDiv(k.exp(d), sum)
			}
			k.when(in, func() { k.storeFloat(y, k.params["y"], at) })
			return c
		})
	}
	if s.Warps > 0 {
		k.eachRow(s.Outer, s.N, 1, s.Warps, func(r *row) {
			compute(func(init []val, f func(at, in val, c []val) []val) []val {
				return r.walk(init, func(_ int, at, in val, _ int, c []val) []val { return f(at, in, c) })
			}, r.all)
		})
		return
	}
	k.each(s.Outer*s.Inner, func(i val) {
		c := k.split(i, s.Outer, s.Inner)
		base := k.add(k.mul(c[0], s.N*s.Inner), c[1])
		compute(func(init []val, f func(at, in val, c []val) []val) []val {
			return k.loop(s.N, init, func(j val, c []val) []val { return f(k.add(base, k.mul(j, s.Inner)), nil, c) })
		}, func(vs []val, _ func(a, b val) val) []val { return vs })
	})
}

// LRN is local response normalisation along the middle dimension of
// [Outer, N, Inner]: x / (Bias + Alpha/Size · Σ x²)^Beta, the sum over Size
// neighbours. Parameters: x, y.
type LRN struct {
	Outer, N, Inner   int
	Size              int
	Alpha, Beta, Bias float32
}

// Family implements Spec.
func (s LRN) Family() string { return "float_lrn" }

// Params implements Spec.
func (s LRN) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s LRN) Launch() Launch { return linear(s.Outer * s.N * s.Inner) }

func (s LRN) emit(k *fn) {
	k.each(s.Outer*s.N*s.Inner, func(i val) {
		c := k.split(i, s.Outer, s.N, s.Inner)
		first := k.sub(c[1], (s.Size-1)/2)
		base := k.add(k.mul(c[0], s.N*s.Inner), c[2])
		sum := k.repeat(s.Size, []val{f64(0)}, func(j val, acc []val) []val {
			p := k.add(j, first)
			x := k.pick(k.inside(p, s.N), f64(0), func() val { return k.loadFloat(k.params["x"], k.add(base, k.mul(p, s.Inner))) })
			return []val{k.b.NewFAdd(acc[0], k.b.NewFMul(x, x))}
		})[0]
		d := k.b.NewFAdd(k.b.NewFMul(sum, f64(float64(s.Alpha)/float64(s.Size))), f64(float64(s.Bias)))
		power := k.exp(k.b.NewFMul(k.log(d), f64(float64(s.Beta))))
		k.storeFloat(k.b.NewFDiv(k.loadFloat(k.params["x"], i), power), k.params["y"], i)
	})
}
