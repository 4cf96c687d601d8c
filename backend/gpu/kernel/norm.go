package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Norm is the integer normalisation of internal/fixed over rows of N 8-bit codes,
// a warp a row. Parameters: x, g and b (N int32 each), y.
type Norm struct {
	Rows, N   int
	RMS       bool
	In        Codes
	OutSigned bool
	Zero      int32 // of codes as they lie
	Eps       uint64
	Shift     int
	Range     Range // of unsigned codes
}

// Constants of internal/fixed.NormParams.
const (
	normFrac = 12
	normUnit = 20
	normRoot = 61
)

// Family implements Spec.
func (s Norm) Family() string { return "norm" }

// Params implements Spec.
func (s Norm) Params() []string { return []string{"x", "g", "b", "y"} }

// Launch implements Spec.
func (s Norm) Launch() Launch { return linear(32 * s.Rows) }

func (s Norm) emit(k *fn) {
	k.each(32*s.Rows, func(thread val) {
		lane := k.and(thread, 31)
		base := k.mul(k.div(thread, 32), s.N)
		code := func(i val) val { return k.sub(k.loadCode(s.In, k.params["x"], k.add(base, i)), int(s.Zero)) }
		// Sums of at most 2^16 codes and squares fit 32 bits, squares without a sign.
		sums := k.column(s.N, lane, []val{k.i32(0), k.i32(0)}, func(i val, c []val) []val {
			d := code(i)
			return []val{k.add(c[0], d), k.add(c[1], k.mul(d, d))}
		})
		for mask := 16; mask > 0; mask /= 2 {
			for i := range sums {
				sums[i] = k.add(sums[i], k.shuffle(sums[i], mask))
			}
		}
		sum, square := k.sext(sums[0], types.I64), k.zext(sums[1], types.I64)
		if s.RMS {
			sum = k.i64(0)
		}
		v := k.sub(k.mul(square, s.N), k.mul(sum, sum))
		r, half := k.inverseRoot(k.add(k.shl(v, normFrac), k.i64(int64(s.Eps))))
		down := k.sub(k.i64(35), half)
		k.column(s.N, lane, nil, func(i val, c []val) []val {
			a := k.sub(k.mul(k.sext(code(i), types.I64), s.N), sum)
			h := k.roundShift64(k.mul(a, r), down)
			factor := func(name string) val {
				return k.sext(k.load(types.I32, k.params[name], k.mul(i, 4)), types.I64)
			}
			y := k.roundShift64(k.add(k.mul(h, factor("g")), k.shl(factor("b"), normUnit)), k.i64(int64(s.Shift)))
			lo, hi := int(s.Range.Lo)-int(s.Range.Zero), int(s.Range.Hi)-int(s.Range.Zero)
			q := k.add(k.trunc(k.min(k.max(y, lo), hi), types.I32), int(s.Range.Zero))
			if s.OutSigned {
				q = k.xor(q, 128)
			}
			k.store(k.trunc(q, types.I8), k.params["y"], k.add(base, i))
			return c
		})
	})
}

// inverseRoot returns ⌊2^61 / ⌊√(d·2^s)⌋⌋ and s/2 for the even s that puts d·2^s
// into 2^60 … 2^62, 0 when d is.
func (k *fn) inverseRoot(d val) (r, half val) {
	half = k.i64(0)
	for step := 32; step > 1; step /= 2 {
		small := k.cmp(enum.IPredULT, d, k.i64(1<<(62-step)))
		d = k.sel(small, k.shl(d, step), d)
		half = k.sel(small, k.add(half, step/2), half)
	}
	x := k.i64(1 << 31)
	for range 5 {
		x = k.lshr(k.add(x, k.b.NewUDiv(d, x)), 1)
	}
	x = k.sel(k.cmp(enum.IPredUGT, k.mul(x, x), d), k.sub(x, 1), x)
	zero := k.cmp(enum.IPredEQ, d, 0)
	x = k.sel(zero, k.i64(1), x)
	return k.sel(zero, k.i64(0), k.b.NewUDiv(k.i64(1<<normRoot), x)), half
}

// roundShift64 returns x/2^shift rounded half to even, for i64 and a shift of at
// least 1.
func (k *fn) roundShift64(x, shift val) val {
	one := k.shl(k.i64(1), shift)
	x = k.add(x, k.lshr(one, 1))
	q := k.ashr(x, shift)
	tie := k.cmp(enum.IPredEQ, k.and(x, k.sub(one, 1)), 0)
	return k.sel(tie, k.and(q, -2), q)
}
