package fixed

import (
	"fmt"
	"math"
)

// MulAddParams are the constants of one sum of two quantised products,
//
//	y = clamp(ZY + round(((a−ZA)(b−ZB)·MAB + (c−ZC)(d−ZD)·MCD) / 2^Shift), Lo, Hi)
//
// in exact 64-bit integers, rounded once. Zero points are in 0..255, Shift in 1..62.
type MulAddParams struct {
	ZA, ZB, ZC, ZD, ZY int32
	MAB, MCD           int32 // at most 2^30 in magnitude
	Shift              uint8
	Lo, Hi             byte
}

// NewMulAdd returns the parameters of sy·(y−zy) = sa·(a−za)·sb·(b−zb) +
// sc·(c−zc)·sd·(d−zd). A negative sc subtracts. The multipliers are rounded to
// 2^−Shift, with Shift as large as MulAddParams allows, so before the one rounding
// the result is off by less than Error. It is an error when a scale is zero or not
// finite, one but sc is negative, a zero point is no code, or sa·sb/sy or |sc|·sd/sy
// is 2^29 and more.
func NewMulAdd(sa, sb, sc, sd, sy float64, za, zb, zc, zd, zy int32, lo, hi byte) (MulAddParams, error) {
	p := MulAddParams{ZA: za, ZB: zb, ZC: zc, ZD: zd, ZY: zy, Lo: lo, Hi: hi}
	for _, s := range []float64{sa, sb, math.Abs(sc), sd, sy} {
		if err := checkScale(s); err != nil {
			return p, err
		}
	}
	if err := checkCodes(lo, hi, za, zb, zc, zd, zy); err != nil {
		return p, err
	}
	rab, rcd := sa*sb/sy, sc*sd/sy
	_, exp := math.Frexp(max(rab, math.Abs(rcd))) // both are below 2^exp
	shift := min(30-exp, MaxShift)
	if shift < MinShift || math.IsInf(rab+math.Abs(rcd), 0) {
		return p, fmt.Errorf("fixed: products worth %g and %g steps of the result: not below 2^29", rab, rcd)
	}
	p.Shift = uint8(shift)
	p.MAB = int32(math.RoundToEven(math.Ldexp(rab, shift)))
	p.MCD = int32(math.RoundToEven(math.Ldexp(rcd, shift)))
	return p, nil
}

// Error bounds how far a result is off before its rounding, in codes: two products
// of at most 255² times multipliers off by half a unit each.
func (p *MulAddParams) Error() float64 { return math.Ldexp(255*255, -int(p.Shift)) }

// MulAdd returns the sum of the products of two pairs of codes.
func (p *MulAddParams) MulAdd(a, b, c, d byte) byte {
	ab := int64(int32(a)-p.ZA) * int64(int32(b)-p.ZB)
	cd := int64(int32(c)-p.ZC) * int64(int32(d)-p.ZD)
	return clampU8(RoundShift(ab*int64(p.MAB)+cd*int64(p.MCD), p.Shift)+int64(p.ZY), p.Lo, p.Hi)
}

// MulAddU8 computes dst[i] = p.MulAdd(a[i], b[i], c[i], d[i]) for all of dst, which
// may be an operand itself; an operand of one element serves all. It panics when one
// is neither that nor as long as dst.
func MulAddU8(dst, a, b, c, d []byte, p *MulAddParams) {
	ia, ib, ic, id := stride(len(dst), a), stride(len(dst), b), stride(len(dst), c), stride(len(dst), d)
	for i := range dst {
		dst[i] = p.MulAdd(a[i*ia], b[i*ib], c[i*ic], d[i*id])
	}
}

// stride is 1 for an operand of n elements, and 0 for one that serves n.
func stride(n int, operand []byte) int {
	if len(operand) == 1 {
		return 0
	}
	checkLen(n, len(operand))
	return 1
}
