package fixed

import (
	"fmt"
	"math"
)

// AddParams are the constants of one quantised addition,
//
//	y = clamp(ZY + round(((a−ZA)·MA + (b−ZB)·MB) / 2^Shift), Lo, Hi).
//
// Zero points are in 0..255, Shift in 1..30 and |MA|+|MB| at most 2^22+1, so
// that the sum fits int32; beyond these bounds it wraps.
type AddParams struct {
	ZA, ZB, ZY int32
	MA, MB     int32
	Shift      uint8
	Lo, Hi     byte
}

// addBits is log2 of the largest |MA|+|MB|.
const addBits = 22

// NewAdd returns the parameters of sy·(y−zy) = sa·(a−za) + sb·(b−zb). A negative
// sb subtracts. The multipliers are rounded to 2^−Shift, with Shift as large as
// |MA|+|MB| ≤ 2^22 allows, so before the one rounding the result is off by at
// most 255·2^−Shift < 1.3e-4·(sa+|sb|)/sy codes: y is within one code of the
// real sum rounded, and differs from it only where that sum lies this close to a
// tie. It is an error when a scale is zero or not finite, sa or sy is negative,
// the ratio (sa+|sb|)/sy is 2^21 or more, or a zero point is no code.
func NewAdd(sa, sb, sy float64, za, zb, zy int32, lo, hi byte) (AddParams, error) {
	for _, s := range []float64{sa, math.Abs(sb), sy} {
		if err := checkScale(s); err != nil {
			return AddParams{}, err
		}
	}
	if err := checkCodes(lo, hi, za, zb, zy); err != nil {
		return AddParams{}, err
	}
	ra, rb := sa/sy, sb/sy
	sum := ra + math.Abs(rb)
	if !(sum < 1<<(addBits-1)) {
		return AddParams{}, fmt.Errorf("fixed: adding scales %g and %g into scale %g: the ratio %g is not below 2^%d", sa, sb, sy, sum, addBits-1)
	}
	frac, exp := math.Frexp(sum) // sum = frac·2^exp ≤ 2^exp
	if frac == 0.5 {
		exp--
	}
	shift := min(addBits-exp, 30)
	return AddParams{
		ZA: za, ZB: zb, ZY: zy,
		MA: int32(math.RoundToEven(math.Ldexp(ra, shift))), MB: int32(math.RoundToEven(math.Ldexp(rb, shift))),
		Shift: uint8(shift), Lo: lo, Hi: hi,
	}, nil
}

// checkLen panics when an operand has fewer than n elements.
func checkLen(n int, operands ...int) {
	for _, have := range operands {
		if have < n {
			panic(fmt.Sprintf("fixed: an operand of %d elements where %d are computed", have, n))
		}
	}
}

// checkScale reports a scale that is not a finite number above zero.
func checkScale(s float64) error {
	if !(s > 0) || math.IsInf(s, 0) {
		return fmt.Errorf("fixed: scale %g is not a finite number above 0", s)
	}
	return nil
}

// checkCodes reports an empty range of codes or a zero point outside 0..255.
func checkCodes(lo, hi byte, zeros ...int32) error {
	if lo > hi {
		return fmt.Errorf("fixed: empty range of codes %d..%d", lo, hi)
	}
	for _, z := range zeros {
		if z < 0 || z > 255 {
			return fmt.Errorf("fixed: zero point %d is not in 0..255", z)
		}
	}
	return nil
}

// Add returns the sum of two codes.
func (p *AddParams) Add(a, b byte) byte {
	x := (int32(a)-p.ZA)*p.MA + (int32(b)-p.ZB)*p.MB + 1<<(p.Shift-1)
	q := x >> p.Shift
	if x&(1<<p.Shift-1) == 0 {
		q &^= 1 // a tie, rounded up: to even instead
	}
	return clampU8(int64(q)+int64(p.ZY), p.Lo, p.Hi)
}

// AddU8 computes dst[i] = p.Add(a[i], b[i]) for all of dst, which may be a or b
// itself. It panics when a or b is shorter.
func AddU8(dst, a, b []byte, p *AddParams) {
	checkLen(len(dst), len(a), len(b))
	if len(dst) > 0 {
		addU8(dst, a, b, p)
	}
}

// AddScalarU8 computes dst[i] = p.Add(a[i], b), by a table.
func AddScalarU8(dst, a []byte, b byte, p *AddParams) {
	var t [256]byte
	for i := range t {
		t[i] = p.Add(byte(i), b)
	}
	LUT(dst, a, &t)
}

// MulParams are the constants of one quantised product,
//
//	y = clamp(ZY + Requantise((a−ZA)·(b−ZB), M), Lo, Hi).
//
// Zero points are in 0..255.
type MulParams struct {
	ZA, ZB, ZY int32
	M          Multiplier
	Lo, Hi     byte
}

// NewMul returns the parameters of sy·(y−zy) = sa·(a−za)·sb·(b−zb). It is an
// error when a scale is not a finite number above zero, sa·sb/sy is too large
// for a Multiplier, or a zero point is no code.
func NewMul(sa, sb, sy float64, za, zb, zy int32, lo, hi byte) (MulParams, error) {
	for _, s := range []float64{sa, sb, sy} {
		if err := checkScale(s); err != nil {
			return MulParams{}, err
		}
	}
	if err := checkCodes(lo, hi, za, zb, zy); err != nil {
		return MulParams{}, err
	}
	m, err := NewMultiplier(sa * sb / sy)
	return MulParams{ZA: za, ZB: zb, ZY: zy, M: m, Lo: lo, Hi: hi}, err
}

// Mul returns the product of two codes.
func (p *MulParams) Mul(a, b byte) byte {
	q := Requantise((int32(a)-p.ZA)*(int32(b)-p.ZB), p.M)
	return clampU8(int64(q)+int64(p.ZY), p.Lo, p.Hi)
}

// MulU8 computes dst[i] = p.Mul(a[i], b[i]) for all of dst, which may be a or b
// itself. It panics when a or b is shorter.
func MulU8(dst, a, b []byte, p *MulParams) {
	checkLen(len(dst), len(a), len(b))
	if len(dst) > 0 {
		mulU8(dst, a, b, p)
	}
}

// MulScalarU8 computes dst[i] = p.Mul(a[i], b), by a table.
func MulScalarU8(dst, a []byte, b byte, p *MulParams) {
	var t [256]byte
	for i := range t {
		t[i] = p.Mul(byte(i), b)
	}
	LUT(dst, a, &t)
}

// NewLUT tabulates y = clamp(zy + round(f((q−zx)·sx)/sy), lo, hi) for the codes
// q, in float64. NaN gives zy and an infinity the end of the range.
func NewLUT(f func(float64) float64, sx float64, zx int32, sy float64, zy int32, lo, hi byte) [256]byte {
	var t [256]byte
	for q := range t {
		t[q] = clampFloat(f(float64(int32(q)-zx)*sx)/sy, zy, lo, hi)
	}
	return t
}

// clampFloat rounds x half to even, adds zp and clamps to lo..hi; NaN is 0.
func clampFloat(x float64, zp int32, lo, hi byte) byte {
	if math.IsNaN(x) {
		x = 0
	}
	x = min(max(math.RoundToEven(x), -1024), 1024)
	return clampU8(int64(x)+int64(zp), lo, hi)
}

// LUT computes dst[i] = t[src[i]] for all of dst, which may be src itself. It
// panics when src is shorter.
func LUT(dst, src []byte, t *[256]byte) {
	checkLen(len(dst), len(src))
	if n := len(dst); n > 0 {
		lut(dst, src[:n], t)
	}
}

// MaxU8 computes dst[i] = max(dst[i], src[i]) for all of dst. It panics when src
// is shorter.
func MaxU8(dst, src []byte) {
	checkLen(len(dst), len(src))
	if n := len(dst); n > 0 {
		maxU8(dst, src[:n])
	}
}

// SumU8 adds src[i] to acc[i] for all of acc, wrapping at 32 bits. It panics
// when src is shorter.
func SumU8(acc []int32, src []byte) {
	checkLen(len(acc), len(src))
	if n := len(acc); n > 0 {
		sumU8(acc, src[:n])
	}
}
