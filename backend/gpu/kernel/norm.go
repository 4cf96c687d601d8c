package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Norm is the integer normalisation of internal/fixed over rows of N 8-bit codes.
// Parameters: x, g and b (N int32 each), y.
type Norm struct {
	Rows, N   int
	RMS       bool
	In        Codes
	OutSigned bool
	Zero      int32 // of codes as they lie
	Eps       uint64
	Shift     int
	Range     Range // of unsigned codes
	Warps     int   // of a row
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
func (s Norm) Launch() Launch { return rowLaunch(s.Rows, s.Warps) }

func (s Norm) emit(k *fn) {
	k.eachRow(s.Rows, s.N, codesAtOnce(s.N), s.Warps, func(r *row) {
		// Sums of at most 2^16 codes less their zero point fit 32 bits, those of squares
		// without a sign.
		x, z := k.params["x"], int(s.Zero)
		sums := r.walk([]val{k.i32(0), k.i32(0)}, func(_ int, at, in val, n int, c []val) []val {
			if n == 1 {
				d := k.orZero(in, k.sub(k.loadCode(s.In, x, at), z))
				return []val{k.add(c[0], d), k.add(c[1], k.mul(d, d))}
			}
			w := k.load(types.I32, x, at)
			if !s.In.Signed {
				w = k.xor(w, -0x7f7f7f80) // 128 less
			}
			w = k.orZero(in, w)
			return []val{k.dp4a(true, w, k.i32(ones), c[0]), k.dp4a(true, w, w, c[1])}
		})
		sums = r.all(sums, func(a, b val) val { return k.add(a, b) })
		if r.piece == 4 {
			if !s.In.Signed {
				z -= 128
			}
			// Of codes c: Σ(c−z) = Σc − N·z and Σ(c−z)² = Σc² − 2·z·Σc + N·z².
			sums[1] = k.add(k.sub(sums[1], k.mul(sums[0], 2*z)), int(int32(s.N*z*z)))
			sums[0] = k.sub(sums[0], s.N*z)
		}
		sum, square := k.sext(sums[0], types.I64), k.zext(sums[1], types.I64)
		if s.RMS {
			sum = k.i64(0)
		}
		v := k.sub(k.mul(square, s.N), k.mul(sum, sum))
		inverse, half := k.inverseRoot(k.add(k.shl(v, normFrac), k.i64(int64(s.Eps))))
		// (N·d − sum)·r is code·step − least for codes as they lie. Rounded it is below
		// √N·2^20.
		step, down := k.mul(inverse, s.N), k.sub(k.i64(35), half)
		least := k.mul(k.add(sum, s.N*int(s.Zero)), inverse)
		unit := k.shl(k.i64(1), down)
		cut, start := k.sub(unit, 1), k.sub(k.lshr(unit, 1), least)
		r.walk(nil, func(_ int, at, in val, n int, none []val) []val {
			codes := k.neighbours(s.In, x, at, n)
			column := k.mul(k.sub(at, r.base), 4)
			factors := func(name string) []val {
				if n == 1 {
					return []val{k.load(types.I32, k.params[name], column)}
				}
				v := k.load(word(4*n), k.params[name], column)
				out := make([]val, n)
				for i := range out {
					out[i] = k.b.NewExtractElement(v, k.i32(i))
				}
				return out
			}
			g, b := factors("g"), factors("b")
			for i, c := range codes {
				h := k.add(k.mul(k.sext(c, types.I64), step), start)
				q := k.trunc(k.ashr(h, down), types.I32)
				q = k.sel(k.cmp(enum.IPredEQ, k.and(h, cut), 0), k.and(q, -2), q)
				y := k.add(k.mul(k.sext(q, types.I64), k.sext(g[i], types.I64)), k.shl(k.sext(b[i], types.I64), normUnit))
				codes[i] = s.code(k, y)
			}
			k.when(in, func() { k.storeCodes(k.params["y"], at, codes) })
			return none
		})
	})
}

// code is y/2^Shift rounded half to even, as a code.
func (s Norm) code(k *fn, y val) val {
	lo, hi, zero := int(s.Range.Lo)-int(s.Range.Zero), int(s.Range.Hi)-int(s.Range.Zero), int(s.Range.Zero)
	var q val
	if s.Shift >= highShift {
		y = k.add(y, k.i64(1<<(s.Shift-1)))
		upper := k.trunc(k.ashr(y, 32), types.I32)
		rest := k.or(k.trunc(y, types.I32), k.and(upper, 1<<(s.Shift-highShift)-1))
		q = k.ashr(upper, s.Shift-highShift)
		q = k.sel(k.cmp(enum.IPredEQ, rest, 0), k.and(q, -2), q)
		q = k.min(k.max(q, lo), hi)
	} else {
		q = k.trunc(k.min(k.max(k.roundShift64(y, k.i64(int64(s.Shift))), lo), hi), types.I32)
	}
	q = k.add(q, zero)
	if s.OutSigned {
		q = k.xor(q, 128)
	}
	return q
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
