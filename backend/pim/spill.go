package pim

import (
	"fmt"
)

// strips is how a step is cut when operands or its result live in DRAM: a strip
// of each is in the scratchpad at a time, or two, so that the next one loads and
// the last one is stored while one is computed.
type strips struct {
	n          [4]int // pieces along each axis
	bufs       []stripBuffer
	chunkOuter bool // a product goes through all strips for each chunk of columns
}

type stripBuffer struct {
	operand int // −1 for the result
	count   int // 1 or 2 buffers
	size    int64
	addr    int64
}

// cut returns the strips of one cluster's part, in order.
func (c *strips) cut(part box) []box {
	bs := []box{part}
	for axis, n := range c.n {
		if n <= 1 {
			continue
		}
		var next []box
		for _, b := range bs {
			next = append(next, b.pieces(axis, n, 1)...)
		}
		bs = next
	}
	return bs
}

// buffer returns the buffer of an operand, or of the result (−1); nil when it
// is not spilled.
func (c *strips) buffer(operand int) *stripBuffer {
	for i := range c.bufs {
		if c.bufs[i].operand == operand {
			return &c.bufs[i]
		}
	}
	return nil
}

// cutStep chooses the strips of a step such that their buffers fit room: the
// fewest that do.
func (p *plan) cutStep(s *step, room int64) error {
	s.strips = strips{n: [4]int{1, 1, 1, 1}}
	var spilled []int
	for i, t := range s.in {
		if t.store.spilled {
			spilled = append(spilled, i)
		}
	}
	if s.out != nil && s.out.store.spilled {
		spilled = append(spilled, -1)
	}
	if len(spilled) == 0 || p.isTransfer(s) {
		if room < 0 {
			return fmt.Errorf("%s %q needs %d bytes more than the scratchpad has", p.layers[s.layer].Op, p.layers[s.layer].Name, -room)
		}
		return nil
	}
	cuts := s.cuts()
	try := func() bool {
		total := int64(0)
		s.strips.bufs = s.strips.bufs[:0]
		for _, i := range spilled {
			b := p.stripBuffer(s, i)
			s.strips.bufs = append(s.strips.bufs, b)
			total += b.size * int64(b.count)
		}
		return total <= room
	}
	if try() {
		return nil
	}
	for axis := range 4 {
		most := 0
		for _, part := range s.parts {
			most = max(most, part.ext(axis))
		}
		if !cuts[axis] {
			continue
		}
		for n := 2; n <= most; n += max(n/8, 1) {
			s.strips.n[axis] = n
			if try() {
				return nil
			}
		}
		s.strips.n[axis] = most
		if try() {
			return nil
		}
	}
	return fmt.Errorf("%s %q cannot be cut into strips that fit the %d bytes of scratchpad that are free while it runs",
		p.layers[s.layer].Op, p.layers[s.layer].Name, max(room, 0))
}

// stripBuffer returns the buffer that holds any strip of an operand or result.
func (p *plan) stripBuffer(s *step, operand int) stripBuffer {
	b := stripBuffer{operand: operand, count: 1}
	for _, part := range s.parts {
		if part.empty() {
			continue
		}
		pieces := s.strips.cut(part)
		if len(pieces) > 1 {
			b.count = 2
		}
		for _, out := range pieces {
			n := out.numel()
			elem := 0
			if operand >= 0 {
				n, elem = s.kernel.need(operand, out).numel(), s.in[operand].elem
			} else {
				elem = s.out.elem
			}
			b.size = max(b.size, roundUp(n*int64(elem), p.align))
		}
	}
	return b
}

// isTransfer reports whether s brings an input or takes an output.
func (p *plan) isTransfer(s *step) bool {
	switch s.kernel.(type) {
	case *loader, *storer:
		return true
	}
	return false
}

// orderStrips decides for products cut into strips whether weights or strips
// are read from DRAM again: it takes what moves fewer bytes.
func (p *plan) orderStrips(s *step) {
	k, ok := s.kernel.(*product)
	if !ok || len(s.strips.bufs) == 0 {
		return
	}
	for j, q := range k.parts {
		if q == nil || !q.streamed {
			continue
		}
		n := int64(len(s.strips.cut(s.parts[j])))
		weights := int64(0)
		for i := range q.chunks {
			for u := range q.chunks[i].units {
				weights += q.chunks[i].units[u].bytes(q.chunks[i].tiles, p.chip.TileBytes(k.w.bits))
			}
		}
		in := int64(0)
		if s.in[0].store.spilled {
			in = s.kernel.need(0, s.parts[j]).numel()
		}
		again := weights * n // strips outside
		if q.coreBytes(p.chip.TileBytes(k.w.bits)) <= p.ringEnd-p.ringBase {
			again = weights // all of them stay from strip to strip
		}
		inner := weights
		if q.m.Units > 1 {
			inner *= n
		}
		if inner+in*int64(len(q.chunks)) < again+in {
			s.strips.chunkOuter = true
		}
	}
}
