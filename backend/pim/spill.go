package pim

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// group is one or several steps in a row that run strip by strip, because
// operands or results live in DRAM or, between steps of the group, nowhere but
// in strips: a part of the last result at a time, each step computes what the
// next ones need for it. What two strips share is kept, not computed or loaded
// again. Groups of several steps exist on single clusters only.
type group struct {
	first, last int
	n           [4]int // pieces of the last step's part along each axis
	grain       int    // channels at multiples of which it is cut
	bufs        []stripBuffer
	result      int  // index of the buffer of the last step's result, −1 when it is not spilled
	chunkOuter  bool // a product goes through all strips for each chunk of columns

	key   string         // which operands and results have buffers
	known *groupCuttings // see plan.cutting
	of    []stepBuffers  // of each step, made on first use
}

// stepBuffers are the indices of the buffers that a step of a group works on, −1
// for none.
type stepBuffers struct {
	result   int
	operands []int
}

// frame is what a strip buffer is a window on: a store, or a reshaped tensor.
type frame struct {
	st *store
	t  *tensor // nil for a store
}

func frameOf(t *tensor) frame {
	if t.reshaped {
		return frame{t.store, t}
	}
	return frame{t.store, nil}
}

func (f frame) whole() box {
	if f.t != nil {
		return whole(f.t.dims)
	}
	return whole(f.st.dims)
}

// of returns box b of a tensor in the coordinates of its frame, back the reverse.
func (f frame) of(t *tensor, b box) box {
	if f.t != nil || b.empty() {
		return b
	}
	return b.shift(t.off)
}

func (f frame) back(t *tensor, b box) box {
	if f.t != nil || b.empty() {
		return b
	}
	return b.shift(negate(t.off))
}

// home returns the view of the frame in DRAM.
func (f frame) home() view { return dense(f.st.dram, f.whole(), f.st.elem) }

// stripBuffer holds strips of a frame.
type stripBuffer struct {
	frame
	made   bool // by a step of the group
	stored bool // and stored to DRAM
	count  int  // 1, or 2 so that the next strip can arrive, or keep what it shares
	size   int64
	addr   int64
}

// pass is one strip: the part of its result that each step computes, and for
// each buffer the box it then holds, the part of that which is new, and in which
// of its places it lies.
type pass struct {
	out   []box
	holds []box
	fresh []box
	slot  []int
}

// units returns into how many pieces an axis of a part can be cut at the most, and
// the elements of each.
func (g *group) units(part *box, axis int) (units, grain int) {
	grain = 1
	if axis == 3 {
		grain = g.grain
	}
	return (part.ext(axis) + grain - 1) / grain, grain
}

// pieces returns how many strips a part is cut into.
func (g *group) pieces(part *box) int {
	if part.empty() {
		return 0
	}
	count := 1
	for axis, n := range g.n {
		units, _ := g.units(part, axis)
		count *= max(min(n, units), 1)
	}
	return count
}

// piece returns strip i of a part: nearly equal ones, the longer ones first, in
// order of rows, then columns.
func (g *group) piece(part box, i int) box {
	for axis := 3; axis >= 0; axis-- {
		units, grain := g.units(&part, axis)
		n := max(min(g.n[axis], units), 1)
		k := i % n
		i /= n
		from := k*(units/n) + min(k, units%n)
		to := from + units/n
		if k < units%n {
			to++
		}
		lo := part.lo[axis]
		part = part.along(axis, lo+from*grain, min(lo+to*grain, part.hi[axis]))
	}
	return part
}

// buffer returns the index of the strips of an operand, or of a result that
// stays in the group; −1 when there are none. The last result has a buffer of
// its own, as it may be another window on an operand's store.
func (g *group) buffer(t *tensor) int {
	f := frameOf(t)
	return slices.IndexFunc(g.bufs, func(b stripBuffer) bool { return b.frame == f && !b.stored })
}

// resultBuffer returns the index of the strips that step k writes.
func (g *group) resultBuffer(k int, out *tensor) int {
	if k == g.last {
		return g.result
	}
	return g.buffer(out)
}

// passes works out the strips of a group on cluster j.
func (p *plan) passes(g *group, j int) []pass {
	part := p.steps[g.last].parts[j]
	n := g.pieces(&part)
	if n == 0 {
		return nil
	}
	out := make([]pass, n)
	memory := g.passMemory(n + 1)
	prev := memory()
	for i := range out {
		out[i] = memory()
		p.strip(g, part, i, &prev, &out[i])
		prev = out[i]
	}
	return out
}

// passMemory returns a function that hands out n passes without strips in them.
func (g *group) passMemory(n int) func() pass {
	bufs, steps := len(g.bufs), g.last-g.first+1
	boxes, slots := make([]box, n*(steps+2*bufs)), make([]int, n*bufs)
	take := func(k int) []box {
		b := boxes[:k:k]
		boxes = boxes[k:]
		return b
	}
	return func() pass {
		q := pass{out: take(steps), holds: take(bufs), fresh: take(bufs), slot: slots[:bufs:bufs]}
		slots = slots[bufs:]
		return q
	}
}

// buffersOf returns the buffers of each step of a group.
func (p *plan) buffersOf(g *group) []stepBuffers {
	if g.of == nil {
		g.of = make([]stepBuffers, g.last-g.first+1)
		for k := range g.of {
			s := p.steps[g.first+k]
			g.of[k].result = g.resultBuffer(s.index, s.out)
			g.of[k].operands = make([]int, len(s.in))
			for i, t := range s.in {
				g.of[k].operands[i] = g.buffer(t)
			}
		}
	}
	return g.of
}

// strip works out strip i of a part of the last result into q, from the last step
// back to the first. prev is the strip before, or holds nothing.
func (p *plan) strip(g *group, part box, i int, prev, q *pass) {
	piece := g.piece(part, i)
	copy(q.slot, prev.slot)
	clear(q.holds)
	settle := func(b int) {
		q.fresh[b] = freshPart(q.holds[b], prev.holds[b])
		if q.fresh[b].empty() { // nothing new: the strip before serves
			q.holds[b] = prev.holds[b]
			return
		}
		q.slot[b] = (prev.slot[b] + 1) % 2
	}
	of := p.buffersOf(g)
	for k := g.last; k >= g.first; k-- {
		s, bufs := p.steps[k], &of[k-g.first]
		o := piece
		if b := bufs.result; k < g.last {
			settle(b)
			f := g.bufs[b].frame
			o = f.back(s.out, q.fresh[b].and(f.whole()))
		} else if b >= 0 {
			q.holds[b] = g.bufs[b].of(s.out, piece)
			q.fresh[b] = q.holds[b]
			q.slot[b] = i % 2
		}
		q.out[k-g.first] = o
		if o.empty() {
			continue
		}
		for i, t := range s.in {
			b := bufs.operands[i]
			if b < 0 {
				continue
			}
			need := g.bufs[b].of(t, s.kernel.need(i, o))
			if g.bufs[b].made { // steps compute all channels
				need = need.along(3, 0, t.store.dims[3])
			}
			q.holds[b] = q.holds[b].hull(need)
		}
	}
	for b := range g.bufs {
		if !g.bufs[b].made {
			settle(b)
		}
	}
}

// freshPart returns the part of b that prev, the strip before, does not hold;
// all of b when it does not follow prev along one axis.
func freshPart(b, prev box) box {
	if b.empty() || prev.empty() {
		return b
	}
	along := -1
	for i := range b.lo {
		if b.lo[i] == prev.lo[i] && b.hi[i] == prev.hi[i] {
			continue
		}
		if along >= 0 {
			return b
		}
		along = i
	}
	if along < 0 {
		return box{}
	}
	if prev.lo[along] > b.lo[along] || prev.hi[along] < b.lo[along] {
		return b
	}
	return b.along(along, min(prev.hi[along], b.hi[along]), b.hi[along])
}

// newGroup returns the group of steps first..last with the buffers it needs, nil
// when nothing in it is spilled.
func (p *plan) newGroup(first, last int) *group {
	if p.steps[first].isTransfer() || first == last && !p.steps[first].touchesSpilled() {
		return nil
	}
	g := &group{first: first, last: last, n: [4]int{1, 1, 1, 1}, grain: p.steps[last].grain(3), result: -1}
	key := binary.AppendUvarint(binary.AppendUvarint(make([]byte, 0, 64), uint64(first)), uint64(last))
	add := func(t *tensor, made bool) {
		if g.buffer(t) < 0 {
			g.bufs = append(g.bufs, stripBuffer{frame: frameOf(t), made: made})
			key = append(key, '+')
		}
	}
	for k := first; k < last; k++ {
		add(p.steps[k].out, true)
	}
	for k := first; k <= last; k++ {
		for i, t := range p.steps[k].in {
			switch {
			case i == 1 && p.steps[k].fromDRAM(nil):
				key = append(key, '*')
			case t.store.spilled:
				add(t, false)
			}
			key = append(key, '.')
		}
	}
	if t := p.steps[last].out; t != nil && t.store.spilled {
		g.result = len(g.bufs)
		g.bufs = append(g.bufs, stripBuffer{frame: frameOf(t), made: true, stored: true})
		key = append(key, '=')
	}
	if len(g.bufs) == 0 {
		return nil
	}
	g.key = string(key)
	return g
}

// touchesSpilled reports whether an operand or the result of s is spilled.
func (s *step) touchesSpilled() bool {
	return s.out.store.spilled || slices.ContainsFunc(s.in, func(t *tensor) bool { return t.store.spilled })
}

// maxStrips bounds how finely a step is cut.
const maxStrips = 1 << 14

// cutGroup chooses the fewest strips with which the group's buffers fit room. It
// reports false when none do.
func (p *plan) cutGroup(g *group, room int64) bool {
	last := p.steps[g.last]
	g.n = [4]int{1, 1, 1, 1}
	if p.cutting(g, true).total <= room {
		p.sizeBuffers(g)
		return true
	}
	// Several steps are cut along rows or columns, a single one along as many
	// axes as it takes. Products of two activations are best cut between matrices,
	// so that none is written into the arrays' memory twice.
	several := g.first < g.last
	order := [4]int{0, 1, 2, 3}
	k, isPair := last.kernel.(*pair)
	if isPair {
		order = k.cutOrder()
	}
	cuts := last.cuts()
	best, bestAxis := 0, -1
	for i, axis := range order {
		between := isPair && i < 2
		if !cuts[axis] || several && axis != 1 && axis != 2 && !between {
			continue
		}
		most := 0
		for _, part := range last.parts {
			most = max(most, part.ext(axis))
		}
		most = min(most, maxStrips/(g.n[0]*g.n[1]*g.n[2]*g.n[3]))
		found := p.cutAlong(g, axis, most, room)
		if found && (!several || between) {
			p.sizeBuffers(g)
			return true
		}
		// Strips of whole rows are contiguous in DRAM; others must be much fewer.
		if found && (bestAxis < 0 || 2*g.n[axis] < best) {
			best, bestAxis = g.n[axis], axis
		}
		if several {
			g.n[axis] = 1
		}
	}
	if bestAxis < 0 {
		return false
	}
	g.n[bestAxis] = best
	p.sizeBuffers(g)
	return true
}

// cutAlong chooses the fewest strips along an axis, up to most, with which the
// group's buffers fit room. It reports false when none do, and leaves the most.
func (p *plan) cutAlong(g *group, axis, most int, room int64) bool {
	if most <= 1 {
		return false
	}
	counts := p.placing.counts[:0]
	for n := 2; n < most; n += max(n/6, 1) {
		counts = append(counts, n)
	}
	counts = append(counts, most)
	p.placing.counts = counts
	// The first strip shrinks as strips become more, so where it alone is too
	// large at some number, fewer need not be looked at.
	from, _ := slices.BinarySearchFunc(counts, room, func(n int, room int64) int {
		g.n[axis] = n
		if p.cutting(g, false).least > room {
			return -1
		}
		return 1
	})
	for _, n := range counts[from:] {
		g.n[axis] = n
		if p.cutting(g, true).total <= room {
			return true
		}
	}
	g.n[axis] = most
	return false
}

// isTransfer reports whether s brings an input or takes an output.
func (s *step) isTransfer() bool {
	switch s.kernel.(type) {
	case *loader, *storer:
		return true
	}
	return false
}

// tooLarge is the error for a step or group that has no strips small enough.
func (p *plan) tooLarge(i int, room int64) error {
	l := p.layers[p.steps[i].layer]
	return fmt.Errorf("%s %q cannot be cut into strips that fit the %d bytes of scratchpad that are free while it runs", l.Op, l.Name, max(room, 0))
}
