package kernel

import (
	"math"
	"slices"

	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Codes says how codes of a tensor lie in memory.
type Codes struct {
	Bytes  int // of one code: 1, 2 or 4
	Signed bool
}

// loadCode reads a code at p+off as i32.
func (k *fn) loadCode(c Codes, p val, off operand) val {
	return k.widen(c, k.load(types.NewInt(uint64(8*c.Bytes)), p, off))
}

// widen extends a code to i32.
func (k *fn) widen(c Codes, v val) val {
	switch {
	case c.Bytes == 4:
		return v
	case c.Signed:
		return k.sext(v, types.I32)
	}
	return k.zext(v, types.I32)
}

// byteOf returns byte i of a word as i32.
func (k *fn) byteOf(w val, i int, signed bool) val {
	if signed {
		return k.permute(w, w, i|0x8880|0x1110*i) // the others are copies of its sign
	}
	return k.permute(w, k.i32(0), 0x4440|i)
}

// narrow cuts an i32 to a code.
func (k *fn) narrow(c Codes, v val) val {
	if c.Bytes == 4 {
		return v
	}
	return k.trunc(v, types.NewInt(uint64(8*c.Bytes)))
}

// packBytes makes a word of the low bytes of two or four i32; of two, its low half.
func (k *fn) packBytes(vs []val) val {
	low := k.permute(vs[0], vs[1], 0x0040)
	if len(vs) == 2 {
		return low
	}
	return k.permute(low, k.permute(vs[2], vs[3], 0x0040), 0x5410)
}

// Scale is a multiplier of internal/fixed: M·2^−Shift.
type Scale struct {
	M     int32
	Shift int
}

// Range is how a rescaled sum becomes a code: Zero is added, and the sum limited
// to Lo … Hi.
type Range struct {
	Zero, Lo, Hi int32
}

// rescaling is a multiplier and what follows from its shift, as values.
type rescaling struct {
	m     val
	shift val // with high i32, less 32; otherwise i64
	half  val // i64, what is added before the rest is cut off
	mask  val // the bits that are cut off: with high i32, of the upper word; otherwise i64
	high  bool
}

// newRescaling makes a rescaling of the words of a table, see Scale.row.
func (k *fn) newRescaling(m, shift, mask val, high bool) rescaling {
	if high {
		return rescaling{m, shift, k.shl(k.unsigned64(k.add(mask, 1)), highShift-1), mask, true}
	}
	by := k.unsigned64(shift)
	one := k.shl(k.i64(1), by)
	return rescaling{m, by, k.lshr(one, 1), k.sub(one, 1), false}
}

// highShift is the shift from which on the result lies in the upper word of the
// product, so that 32-bit operations do.
const highShift = 32

// constantRescaling makes a rescaling of constants.
func (k *fn) constantRescaling(s Scale) rescaling {
	high := s.normal().Shift >= highShift
	m, shift, mask := s.row(high)
	return k.newRescaling(k.i32(int(m)), k.i32(int(shift)), k.i32(int(mask)), high)
}

// normal gives a multiplier of 0 a large shift, which does not matter to it.
func (s Scale) normal() Scale {
	if s.M == 0 {
		s.Shift = highShift
	}
	return s
}

// rescale returns zero + round(v·M/2^shift), limited to a range of at most 16-bit
// codes: the exact 64-bit product, rounded half to even once.
func (k *fn) rescale(v val, s rescaling, r Range) val {
	x := k.b.NewAdd(k.b.NewMul(k.sext(v, types.I64), k.sext(s.m, types.I64)), s.half)
	// Half was added and the rest is cut off, which rounds ties up; a tie shows as
	// a remainder of 0, and is made even. Saturating to int32 first, as the
	// definition says, changes nothing within the range.
	lo, hi := int(r.Lo)-int(r.Zero), int(r.Hi)-int(r.Zero)
	if s.high {
		upper := k.trunc(k.ashr(x, 32), types.I32)
		rest := k.or(k.trunc(x, types.I32), k.and(upper, s.mask))
		q := k.ashr(upper, s.shift)
		q = k.sel(k.cmp(enum.IPredEQ, rest, 0), k.and(q, -2), q)
		return k.add(k.min(k.max(q, lo), hi), int(r.Zero))
	}
	q := k.ashr(x, s.shift)
	q = k.sel(k.cmp(enum.IPredEQ, k.and(x, s.mask), 0), k.and(q, -2), q)
	return k.add(k.trunc(k.min(k.max(q, lo), hi), types.I32), int(r.Zero))
}

// unsigned64 extends an i32 that is not negative.
func (k *fn) unsigned64(v val) val {
	if c, ok := known(v); ok {
		return k.i64(c)
	}
	return k.zext(v, types.I64)
}

// scaled is rescale by a constant.
func (k *fn) scaled(v val, s Scale, r Range) val { return k.rescale(v, k.constantRescaling(s), r) }

// row is a multiplier as tables hold it: with high the second word is the
// shift less 32 and the third the mask of what is cut off the upper word;
// otherwise the second is the shift.
func (s Scale) row(high bool) (m, shift, mask int32) {
	if s = s.normal(); high {
		by := s.Shift - highShift
		return s.M, int32(by), 1<<by - 1
	}
	return s.M, int32(s.Shift), 0
}

// allHigh reports whether every shift of a table allows 32-bit operations.
func allHigh(ss []Scale) bool {
	return !slices.ContainsFunc(ss, func(s Scale) bool { return s.normal().Shift < highShift })
}

// clamp limits v to lo … hi.
func (k *fn) clamp(v val, lo, hi int32) val { return k.min(k.max(v, int(lo)), int(hi)) }

// f32 returns a constant by its bits, since decimal text might round.
func f32(x float32) val {
	return constant.NewBitCast(constant.NewInt(types.I32, int64(int32(math.Float32bits(x)))), types.Float)
}
