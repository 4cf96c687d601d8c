package fixed

import (
	"fmt"
	"math"
)

// SoftmaxParams are the constants of one integer softmax. With d the distance
// of a code from the greatest of its row,
//
//	t   = Table[d] = round(exp(−d·sx)·2^30)
//	sum = Σ t over the row
//	y   = clamp(ZY + round(t·C / (sum·2^14)), Lo, Hi),  C = round(2^14/sy)
//
// all in exact unsigned 64-bit arithmetic, the rounding half to even.
//
// Before that rounding y is off by less than Error: for sy = 1/256 and rows of 4096
// under 0.001 codes, for the longest rows 1/8. So y is within one code of the real
// softmax rounded, and differs from it only where that lies this close to a tie.
//
// The table is made with math.Exp, whose last bit may differ between machines;
// a compiled program therefore carries the table.
type SoftmaxParams struct {
	Table  [256]uint32 // at most 2^30, Table[0] = 2^30
	C      uint64      // at most 2^32
	ZY     int32
	Lo, Hi byte
}

const (
	softmaxOne  = 30 // log2 of Table[0]
	softmaxFrac = 14 // fraction bits of C
)

// Error bounds how far an element of a row of n is off before the rounding, in
// codes: 2^−15 from C, whose relative error is sy·2^−15, and n·2^−31/sy from the n
// entries of the table in the sum, each off by 2^−31.
func (p *SoftmaxParams) Error(n int) float64 {
	return math.Ldexp(1, -15) + math.Ldexp(float64(n)*float64(p.C), -31-softmaxFrac)
}

// MaxSoftmax is the longest row Softmax takes: its sum times 2^14 fits 64 bits.
const MaxSoftmax = 1<<(64-softmaxOne-softmaxFrac) - 1

// NewSoftmax returns the parameters for input scale sx, output scale sy and
// output zero point zy. It is an error when a scale is not a finite number
// above zero, sy is below 2^−18, or zy is no code.
func NewSoftmax(sx, sy float64, zy int32, lo, hi byte) (SoftmaxParams, error) {
	p := SoftmaxParams{ZY: zy, Lo: lo, Hi: hi}
	for _, s := range []float64{sx, sy} {
		if err := checkScale(s); err != nil {
			return p, err
		}
	}
	if err := checkCodes(lo, hi, zy); err != nil {
		return p, err
	}
	if sy < 1.0/(1<<18) {
		return p, fmt.Errorf("fixed: softmax output scale %g is below 2^-18", sy)
	}
	for d := range p.Table {
		p.Table[d] = uint32(math.RoundToEven(math.Ldexp(math.Exp(-float64(d)*sx), softmaxOne)))
	}
	p.C = uint64(math.RoundToEven(math.Ldexp(1/sy, softmaxFrac)))
	return p, nil
}

// Softmax writes the softmax of the row src to dst, which may be src itself. It
// panics when the lengths differ or exceed MaxSoftmax.
func Softmax(dst, src []byte, p *SoftmaxParams) {
	if len(dst) != len(src) || len(src) > MaxSoftmax {
		panic(fmt.Sprintf("fixed: softmax of %d codes into %d, at most %d", len(src), len(dst), MaxSoftmax))
	}
	if len(src) == 0 {
		return
	}
	top := byte(0)
	for _, q := range src {
		top = max(top, q)
	}
	sum := uint64(0)
	for _, q := range src {
		sum += uint64(p.Table[top-q])
	}
	den := sum << softmaxFrac
	if len(src) < 256 {
		for i, q := range src {
			dst[i] = p.share(p.Table[top-q], den)
		}
		return
	}
	var t [256]byte
	for q := range int(top) + 1 {
		t[q] = p.share(p.Table[int(top)-q], den)
	}
	LUT(dst, src, &t)
}

// share returns the code of t·C/den.
func (p *SoftmaxParams) share(t uint32, den uint64) byte {
	num := uint64(t) * p.C
	q, r := num/den, num%den
	if r > den-r || r == den-r && q&1 == 1 {
		q++
	}
	return clampU8(int64(min(q, 1<<32))+int64(p.ZY), p.Lo, p.Hi)
}
