package fixed

import (
	"fmt"
	"math"
)

// Multiplier is the positive real M·2^−Shift. M is 0 or has its top bit set,
// 2^30 ≤ M < 2^31, and Shift is in 1..62.
type Multiplier struct {
	M     int32
	Shift uint8
}

// MinShift and MaxShift bound the shift of a Multiplier.
const (
	MinShift = 1
	MaxShift = 62
)

// NewMultiplier returns the multiplier nearest to real, within a relative 2^−31.
// A real below 2^−32 becomes 0, which loses nothing: no int32 times it reaches
// one half. It is an error when real is NaN, infinite, negative or 2^30 and
// above.
func NewMultiplier(real float64) (Multiplier, error) {
	if math.IsNaN(real) || math.IsInf(real, 0) || real < 0 {
		return Multiplier{}, fmt.Errorf("fixed: multiplier %g is not a finite number ≥ 0", real)
	}
	frac, exp := math.Frexp(real) // real = frac·2^exp, frac in [½, 1)
	m := int64(math.RoundToEven(frac * (1 << 31)))
	if m == 1<<31 {
		m, exp = m/2, exp+1
	}
	shift := 31 - exp
	switch {
	case real == 0 || shift > MaxShift:
		return Multiplier{M: 0, Shift: MinShift}, nil
	case shift < MinShift:
		return Multiplier{}, fmt.Errorf("fixed: multiplier %g is too large: it must be below 2^30", real)
	}
	return Multiplier{M: int32(m), Shift: uint8(shift)}, nil
}

// Float returns the value M·2^−Shift, exactly.
func (m Multiplier) Float() float64 { return math.Ldexp(float64(m.M), -int(m.Shift)) }

// Requantise returns acc·M / 2^Shift rounded half to even, once, on the exact
// 64-bit product, and saturated to int32.
func Requantise(acc int32, m Multiplier) int32 {
	q := RoundShift(int64(acc)*int64(m.M), m.Shift)
	return int32(min(max(q, math.MinInt32), math.MaxInt32))
}

// RoundShift returns p / 2^shift rounded half to even, for |p| ≤ 2^62 and shift
// in 1..62.
func RoundShift(p int64, shift uint8) int64 {
	// Adding one half and flooring rounds ties up; the sum is then a multiple
	// of 2^shift, and clearing the last bit turns up into to-even.
	x := p + 1<<(shift-1)
	q := x >> shift
	if x&(1<<shift-1) == 0 {
		q &^= 1
	}
	return q
}

// clampU8 returns v limited to lo..hi, as a byte.
func clampU8(v int64, lo, hi byte) byte { return byte(min(max(v, int64(lo)), int64(hi))) }

// RequantiseU8 computes, for each channel c of one row,
//
//	dst[c] = clamp(zp + Requantise(acc[c]+bias[c], {mult[c], shift[c]}), lo, hi)
//
// where acc+bias wraps at 32 bits. The length is that of dst; a nil bias is
// zero. zp is in 0..255 and shifts in MinShift..MaxShift: with others the
// result is unspecified. It panics when a slice is shorter than dst.
func RequantiseU8(dst []byte, acc, bias, mult []int32, shift []uint8, zp int32, lo, hi byte) {
	RequantiseRows(dst, len(dst), acc, len(dst), 1, len(dst), bias, mult, shift, zp, lo, hi)
}

// RequantiseRows is RequantiseU8 over a tile of rows × cols: row r reads
// acc[r·accStride:] and writes dst[r·dstStride:], and all rows share the
// channels' parameters. Strides are in elements. It panics when an operand is
// too short or rows of dst overlap.
func RequantiseRows(dst []byte, dstStride int, acc []int32, accStride, rows, cols int, bias, mult []int32, shift []uint8, zp int32, lo, hi byte) {
	if !checkTile(len(dst), dstStride, len(acc), accStride, rows, cols) {
		return
	}
	checkLen(cols, len(mult), len(shift))
	if bias != nil {
		checkLen(cols, len(bias))
	}
	requantise(dst, dstStride, acc, accStride, rows, cols, bias, mult[:cols], shift[:cols], zp, lo, hi)
}

// RequantiseTensor is RequantiseRows with one multiplier for all channels, as
// average pooling and per-tensor quantised layers need it.
func RequantiseTensor(dst []byte, dstStride int, acc []int32, accStride, rows, cols int, bias []int32, m Multiplier, zp int32, lo, hi byte) {
	if !checkTile(len(dst), dstStride, len(acc), accStride, rows, cols) {
		return
	}
	if bias != nil {
		checkLen(cols, len(bias))
	}
	var mult [lanes]int32
	var shift [lanes]uint8
	for i := range mult {
		mult[i], shift[i] = m.M, m.Shift
	}
	requantise(dst, dstStride, acc, accStride, rows, cols, bias, mult[:], shift[:], zp, lo, hi)
}

// lanes is the number of 32-bit lanes of the widest vector. Multipliers and
// shifts of that length, when there are more channels, are one value repeated.
const lanes = 16

// checkTile validates a tile and reports whether there is anything in it.
func checkTile(lenDst, dstStride, lenAcc, accStride, rows, cols int) bool {
	if rows <= 0 || cols <= 0 {
		return false
	}
	if rows > 1 && dstStride < cols || !fits(rows, dstStride, cols, lenDst) || !fits(rows, accStride, cols, lenAcc) {
		panic(fmt.Sprintf("fixed: %d rows of %d codes do not fit dst (%d, %d apart) and acc (%d, %d apart)",
			rows, cols, lenDst, dstStride, lenAcc, accStride))
	}
	return true
}

// fits reports whether rows ≥ 1 rows of cols elements, stride apart, lie within
// n elements; no value overflows it.
func fits(rows, stride, cols, n int) bool {
	return cols <= n && (rows == 1 || 0 <= stride && stride <= (n-cols)/(rows-1))
}
