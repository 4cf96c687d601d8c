package pim

import (
	"fmt"
	"math"
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

// cut returns the pieces of a part in order.
func (g *group) cut(part box) []box {
	bs := []box{part}
	for axis, n := range g.n {
		if n <= 1 {
			continue
		}
		grain := 1
		if axis == 3 {
			grain = g.grain
		}
		var next []box
		for _, b := range bs {
			next = append(next, b.pieces(axis, n, grain)...)
		}
		bs = next
	}
	return bs
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

// passes works out the strips of a group on cluster j, each from the last step
// back to the first.
func (p *plan) passes(g *group, j int) []pass { return p.firstPasses(g, j, math.MaxInt) }

// firstPasses works out no more than a number of strips.
func (p *plan) firstPasses(g *group, j, limit int) []pass {
	part := p.steps[g.last].parts[j]
	if part.empty() {
		return nil
	}
	pieces := g.cut(part)
	pieces = pieces[:min(limit, len(pieces))]
	n, steps := len(g.bufs), g.last-g.first+1
	out := make([]pass, len(pieces))
	boxes := make([]box, len(pieces)*(steps+2*n)+n)
	slots := make([]int, (len(pieces)+1)*n)
	take := func(k int) []box {
		b := boxes[:k:k]
		boxes = boxes[k:]
		return b
	}
	prev := pass{holds: take(n), slot: slots[:n:n]}
	for i, piece := range pieces {
		q := pass{out: take(steps), holds: take(n), fresh: take(n), slot: slots[(i+1)*n:][:n:n]}
		copy(q.slot, prev.slot)
		settle := func(b int) {
			q.fresh[b] = freshPart(q.holds[b], prev.holds[b])
			if q.fresh[b].empty() { // nothing new: the strip before serves
				q.holds[b] = prev.holds[b]
				return
			}
			q.slot[b] = (prev.slot[b] + 1) % 2
		}
		for k := g.last; k >= g.first; k-- {
			s := p.steps[k]
			o := piece
			if b := g.resultBuffer(k, s.out); k < g.last {
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
				b := g.buffer(t)
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
		out[i] = q
		prev = pass{holds: q.holds, slot: q.slot}
	}
	return out
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
	g := &group{first: first, last: last, n: [4]int{1, 1, 1, 1}, grain: p.steps[last].grain(3), result: -1}
	add := func(t *tensor, made bool) {
		if g.buffer(t) < 0 {
			g.bufs = append(g.bufs, stripBuffer{frame: frameOf(t), made: made})
		}
	}
	for k := first; k < last; k++ {
		add(p.steps[k].out, true)
	}
	for k := first; k <= last; k++ {
		for i, t := range p.steps[k].in {
			if t.store.spilled && !(i == 1 && p.steps[k].fromDRAM(nil)) {
				add(t, false)
			}
		}
	}
	if t := p.steps[last].out; t != nil && t.store.spilled {
		g.result = len(g.bufs)
		g.bufs = append(g.bufs, stripBuffer{frame: frameOf(t), made: true, stored: true})
	}
	if len(g.bufs) == 0 || p.isTransfer(p.steps[first]) {
		return nil
	}
	return g
}

// maxStrips bounds how finely a step is cut.
const maxStrips = 1 << 14

// cutGroup chooses the fewest strips with which the group's buffers fit room. It
// reports false when none do.
func (p *plan) cutGroup(g *group, room int64) bool {
	last := p.steps[g.last]
	g.n = [4]int{1, 1, 1, 1}
	fits := func() bool {
		// Three strips tell nearly as much as all of them.
		return p.sizeBuffers(g, 3) <= room && p.sizeBuffers(g, math.MaxInt) <= room
	}
	if fits() {
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
		found := false
		for n := 2; n < most && !found; n += max(n/6, 1) {
			g.n[axis] = n
			found = fits()
		}
		if !found && most > 1 {
			g.n[axis] = most
			found = fits()
		}
		if found && (!several || between) {
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
	p.sizeBuffers(g, math.MaxInt)
	return true
}

// sizeBuffers sets the sizes of a group's buffers, going by its first strips up
// to a limit, and returns their sum.
func (p *plan) sizeBuffers(g *group, limit int) int64 {
	for b := range g.bufs {
		g.bufs[b].size, g.bufs[b].count = 0, 1
	}
	for j := range p.clusters {
		ps := p.firstPasses(g, j, limit)
		for i := range ps {
			for b := range g.bufs {
				buf := &g.bufs[b]
				buf.size = max(buf.size, roundUp(ps[i].holds[b].numel()*int64(buf.st.elem), p.align))
				shared := i > 0 && ps[i].slot[b] != ps[i-1].slot[b] && ps[i].fresh[b] != ps[i].holds[b]
				if shared || len(ps) > 1 && (!buf.made || buf.stored) {
					buf.count = 2
				}
			}
		}
	}
	total := int64(0)
	for _, b := range g.bufs {
		total += b.size * int64(b.count)
	}
	return total
}

// isTransfer reports whether s brings an input or takes an output.
func (p *plan) isTransfer(s *step) bool {
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
