package pim

import "slices"

// maxFused is the most steps in a group.
const maxFused = 16

// fuse joins steps into groups where that keeps spilled stores out of DRAM
// altogether: depth-first execution. It starts from a placement that is sound
// and leaves one that is.
func (p *plan) fuse() {
	size := p.chip.Scratchpad.Bytes.Int()
	var spilled []*store
	for _, st := range p.stores {
		if st.spilled {
			spilled = append(spilled, st)
		}
	}
	if len(spilled) == 0 {
		return
	}
	before := p.traffic()
	for room := size; p.clusters == 1 && room >= size/2; room -= size / 8 {
		if !p.formGroups(room) {
			break
		}
		if p.settle() == nil && p.traffic() < before {
			break
		}
		p.dissolve(spilled)
		p.mustSettle()
	}
	p.unspill()
}

// mustSettle settles a placement that is known to be possible.
func (p *plan) mustSettle() {
	if err := p.settle(); err != nil {
		panic("pim: a placement is gone: " + err.Error())
	}
}

// dissolve gives up all groups of several steps; spilled are the stores that are
// spilled without them.
func (p *plan) dissolve(spilled []*store) {
	for _, s := range p.steps {
		s.group = nil
	}
	for _, st := range p.stores {
		st.inner, st.spilled = false, slices.Contains(spilled, st)
	}
}

// formGroups chooses the groups that save the most DRAM traffic. It reports
// false when none saves any.
func (p *plan) formGroups(room int64) bool {
	n := len(p.steps)
	live := make([]int64, n)
	for i := range p.items {
		if it := &p.items[i]; it.store != nil {
			for k := it.first; k <= it.last; k++ {
				live[k] += it.size
			}
		}
	}
	best := make([]int64, n+1) // saved by steps from i on
	next := make([]int, n+1)   // end of the group that starts at i, or i
	for i := n - 1; i >= 0; i-- {
		best[i], next[i] = best[i+1], i
		for j := i + 1; j < min(i+maxFused, n) && p.mayFollow(i, j); j++ {
			gain := p.gain(i, j, room, live)
			if gain > 0 && gain+best[j+1] > best[i] {
				best[i], next[i] = gain+best[j+1], j
			}
		}
	}
	if best[0] == 0 {
		return false
	}
	for i := 0; i < n; i = next[i] + 1 {
		if next[i] == i {
			continue
		}
		for k := i; k < next[i]; k++ {
			p.steps[k].out.store.inner, p.steps[k].out.store.spilled = true, true
		}
		g := p.newGroup(i, next[i])
		for k := i; k <= next[i]; k++ {
			p.steps[k].group = g
		}
	}
	return true
}

// mayFollow reports whether step j may stand in a group that starts with step i
// and holds all between.
func (p *plan) mayFollow(i, j int) bool {
	return p.steps[i].joins() && p.steps[j].joins()
}

// joins reports whether s may stand in a group of several steps.
func (s *step) joins() bool {
	cuts := s.cuts()
	return !s.isTransfer() && cuts[1] && cuts[2]
}

// staysInside reports whether what s writes may exist in strips only.
func (s *step) staysInside() bool {
	st := s.out.store
	return len(st.writers) == 1 && !st.output && !st.whole && s.out.dims == st.dims
}

// gain returns the DRAM bytes that a group of steps i..j saves, or 0 when it is
// not possible or saves none.
func (p *plan) gain(i, j int, room int64, live []int64) int64 {
	saved := int64(0)
	own := int64(0) // resident stores that would become strips
	for k := i; k < j; k++ {
		if !p.steps[k].staysInside() {
			return 0
		}
		st := p.steps[k].out.store
		uses := int64(0)
		for _, r := range st.readers {
			if r.index > j {
				return 0
			}
			uses++
		}
		if uses == 0 {
			return 0
		}
		if st.spilled {
			saved += (1 + uses) * st.dims.numel() * int64(st.elem)
		} else {
			own += roundUp(st.size, p.align)
		}
	}
	last := p.steps[j].out.store
	for k := i; k <= j; k++ {
		for _, t := range p.steps[k].in {
			if t.store == last {
				return 0
			}
		}
	}
	if saved == 0 {
		return 0
	}
	left := room
	if p.resident {
		left -= roundUp(p.constBytes, p.align)
	}
	most := int64(0)
	for k := i; k <= j; k++ {
		most = max(most, live[k])
		if !p.resident {
			n := int64(0)
			for _, b := range p.steps[k].blobs {
				n = max(n, roundUp(int64(len(b.data)), p.align))
			}
			left -= n
		}
	}
	left -= max(most-own, 0)
	g := p.newGroup(i, j)
	if g == nil || !p.cutGroup(g, left) {
		return 0
	}
	// What it saves is the traffic of the steps one by one less its own.
	alone := int64(0)
	for k := i; k <= j; k++ {
		if h := p.steps[k].group; h != nil && h.first == h.last {
			alone += p.groupTraffic(h, 0)
		} else {
			alone += p.weightTraffic(p.steps[k], 0, 1, p.steps[k].parts[0], false) + p.steps[k].directTraffic(nil, p.steps[k].parts[0])
		}
	}
	return max(alone-p.groupTraffic(g, 0), 0)
}

// unspill brings stores back to the scratchpad where there is room after all and
// it saves traffic, the smallest first.
func (p *plan) unspill() {
	best := p.traffic()
	for {
		var small *store
		for _, st := range p.stores {
			if st.spilled && !st.constant() && !st.inner && !st.tried && (small == nil || st.size < small.size) {
				small = st
			}
		}
		if small == nil {
			break
		}
		small.tried, small.spilled = true, false
		p.regroup()
		if p.settle() == nil {
			if n := p.traffic(); n < best {
				best = n
				continue
			}
		}
		small.spilled = true
		p.regroup()
	}
	p.mustSettle()
}

// regroup makes the groups of several steps anew after stores have been spilled
// or brought back.
func (p *plan) regroup() {
	for i := 0; i < len(p.steps); {
		g := p.steps[i].group
		if g == nil || g.first == g.last {
			i++
			continue
		}
		h := p.newGroup(g.first, g.last)
		for k := g.first; k <= g.last; k++ {
			p.steps[k].group = h
		}
		i = g.last + 1
	}
}
