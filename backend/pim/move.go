package pim

import (
	"situ/arch"
)

// move copies elements to other places: transpose, slice, pad, expand, gather,
// concat, and plain copies are lists of pieces.
type move struct {
	noParams
	in     []dims
	elem   int
	pieces []piece
	filled bool // what no piece covers is filled
	fill   byte
}

// piece copies one region of the result: element p comes from element q of the
// operand with q[axis[d]] = from[axis[d]] + (p[d] − to.lo[d])·step[d].
type piece struct {
	operand int
	to      box
	from    dims
	axis    [4]int
	step    [4]int
}

// straight is the piece that copies without change of order.
func straight(operand int, to box, from dims) piece {
	return piece{operand: operand, to: to, from: from, axis: [4]int{0, 1, 2, 3}, step: [4]int{1, 1, 1, 1}}
}

// source returns where element p of the piece comes from.
func (c *piece) source(p dims) dims {
	q := c.from
	for d := range p {
		q[c.axis[d]] += (p[d] - c.to.lo[d]) * c.step[d]
	}
	return q
}

func (k *move) need(i int, out box) box {
	var b box
	for j := range k.pieces {
		c := &k.pieces[j]
		to := c.to.and(out)
		if c.operand != i || to.empty() {
			continue
		}
		first := to.lo
		last := dims{to.hi[0] - 1, to.hi[1] - 1, to.hi[2] - 1, to.hi[3] - 1}
		p, q := c.source(first), c.source(last)
		var from box
		for d := range p {
			from.lo[d], from.hi[d] = min(p[d], q[d]), max(p[d], q[d])+1
		}
		b = b.hull(from)
	}
	return b
}

func (k *move) cuts() [4]bool { return allCuts }

func (k *move) cycles(c *arch.Chip, out box) int64 {
	n, run := places(out)
	if k.pieces[0].axis[3] != 3 { // a transpose of channels moves them one by one
		n, run = n*run, 1
	}
	t := n * ceilDiv(run*int64(k.elem), c.Scratchpad.ReadBytes.Int())
	return vectorCycles(c, 0, t, t)
}

func (k *move) emit(e *emitter, out box, dst view, src []view) {
	rest := []box{out}
	for j := range k.pieces {
		c := &k.pieces[j]
		to := c.to.and(out)
		if to.empty() {
			continue
		}
		s := src[c.operand]
		var st [4]int64
		for d := range st {
			st[d] = s.st[c.axis[d]] * int64(c.step[d])
		}
		e.copyBox(to.dims(), dst.at(to.lo), s.at(c.source(to.lo)), dst.st, st, k.elem)
		if k.filled {
			var left []box
			for _, b := range rest {
				if b.and(to).empty() {
					left = append(left, b)
					continue
				}
				left = append(left, b.minus(to)...)
			}
			rest = left
		}
	}
	if k.filled {
		for _, b := range rest {
			e.fillBox(b, dst, k.elem, int64(k.fill))
		}
	}
}
