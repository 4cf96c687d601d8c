package pim

import (
	"errors"
	"fmt"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// Weights in blocks are codes · 2^shift. Arrays with a shifter behind the sum of a
// block's rows hold the codes, and the shifts beside them. Others hold the products:
// in 8 bits where all fit, else in two parts of 8 bits, the sums of the high part
// being shifted on the vector unit before those of the low part are added.

// maxPart is the most bits of the low part, which the arrays take as int8 and which
// is never negative.
const maxPart = 7

var errWideWeights = errors.New("its weights with the shifts of their blocks do not fit two parts of 8 bits, nor do the target's arrays have shifters for such blocks")

// hold chooses how the arrays hold the weights of a product whose type is t, once
// shifted from least to most.
func (w *weights) hold(c *arch.Chip, t ir.Type, least, most int32) error {
	w.form, w.planes = arch.Weights{Bits: 8}, 1
	switch rows := c.ShiftRows(); {
	case w.blocks != nil && (t.DType == ir.I8 || t.DType == ir.I4) && rows > 0 && w.blocks.Block%int(rows) == 0:
		w.form = arch.Weights{Bits: t.DType.Bits(), Blocks: true}
		w.rows = int(rows)
	case t.DType == ir.I4 && least >= -8 && most <= 7:
		w.form.Bits = 4
	case w.blocks == nil:
		w.planes = planesFor(least, most)
	default:
		for least>>w.part < -128 || most>>w.part > 127 {
			w.part++
		}
		if w.part > maxPart {
			return errWideWeights
		}
		if w.part > 0 {
			w.planes = 2
		}
	}
	return nil
}

// shift returns the shift of the block that holds the weight of channel o at one
// tap and operand channel.
func (w *weights) shift(o, tap, c int) uint8 {
	if w.blocks == nil {
		return 0
	}
	return w.blocks.ShiftOf(o, tap*w.st+c, w.perChannel)
}

// slice returns the part of v that plane p of weights in two parts holds.
func (w *weights) slice(v int32, p int) int8 {
	if p == 0 {
		return int8(v >> w.part)
	}
	return int8(v & (1<<w.part - 1))
}

// slices returns how many products make up one of the weights.
func (w *weights) slices() int {
	if w.part > 0 {
		return 2
	}
	return 1
}

// lead returns the rows that a unit leaves free in the first of its tiles, so that
// blocks begin where shifters do.
func (k *product) lead(u *unit) int {
	if !k.w.form.Blocks {
		return 0
	}
	return k.offset(u) % k.w.rows
}

// offset returns where a unit begins along K.
func (k *product) offset(u *unit) int {
	return (u.y0*k.kernel[1]+u.x0)*k.cin + u.k0
}

// setTiles gives a unit its lead and its tiles.
func (k *product) setTiles(u *unit) {
	u.lead = k.lead(u)
	u.ktiles = (u.lead + u.k() + k.rows - 1) / k.rows
}

// packShifts writes the shifts of a column of a unit: channel o, in column col of
// tile t, whose weights take line bytes a row.
func (k *product) packShifts(dst []byte, u *unit, t, col, o, line, tile int) {
	from := k.offset(u)
	for row := 0; row < u.lead+u.k(); row += k.w.rows {
		at := max(from+row-u.lead, from)
		base := (t*u.ktiles+row/k.rows)*tile + k.rows*line
		dst[base+row%k.rows/k.w.rows*k.cols+col] = k.w.blocks.ShiftOf(o, at, k.w.perChannel)
	}
}

// weightBytes returns the size of the weights as the arrays hold them, without what
// is lost in tiles that are not full.
func (k *product) weightBytes() int64 {
	n := int64(k.kTotal()) * int64(k.cout) * int64(k.w.form.Bits) / 8
	if k.w.form.Blocks {
		n += ceilDiv(int64(k.kTotal()), int64(k.w.rows)) * int64(k.cout)
	}
	return n
}

// shiftSums emits the shift between the parts of weights in two.
func (k *product) shiftSums(e *emitter, acc, sums int64) {
	e.emit(isa.OpShlAcc, acc, sums, int64(k.w.part))
}

// holding says for people how weights in blocks are held, "" for others.
func (w *weights) holding() string {
	switch {
	case w.blocks == nil:
		return ""
	case w.form.Blocks:
		return fmt.Sprintf(", blocks of %d shifted in the arrays", w.blocks.Block)
	case w.part > 0:
		return ", blocks in two parts of 8 bits"
	}
	return ", blocks as 8 bits"
}
