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
	if p.clusters == 1 {
		alone := make([]*group, len(p.steps))
		for i, s := range p.steps {
			alone[i] = s.group
		}
		fusions := p.fusions(p.liveStores())
		for room := size; room >= size/2; room -= size / 8 {
			if !p.formGroups(fusions, room) {
				break
			}
			if p.settle() == nil && p.traffic() < before {
				break
			}
			p.dissolve(spilled, alone)
		}
	}
	p.unspill()
}

// liveStores returns the bytes of stores that are alive at each step.
func (p *plan) liveStores() []int64 {
	live := make([]int64, len(p.steps))
	for i := range p.items {
		if it := &p.items[i]; it.store != nil {
			for k := it.first; k <= it.last; k++ {
				live[k] += it.size
			}
		}
	}
	return live
}

// mustSettle settles a placement that is known to be possible.
func (p *plan) mustSettle() {
	if err := p.settle(); err != nil {
		panic("pim: a placement is gone: " + err.Error())
	}
}

// dissolve gives up all groups of several steps; spilled are the stores that are
// spilled without them, and alone the groups of single steps.
func (p *plan) dissolve(spilled []*store, alone []*group) {
	for i, s := range p.steps {
		s.group = alone[i]
	}
	for _, st := range p.stores {
		st.inner, st.spilled = false, slices.Contains(spilled, st)
	}
}

// fusion is a group of steps that may save DRAM traffic.
type fusion struct {
	*group
	used  int64 // of the scratchpad, by what else is alive
	alone int64 // traffic of the steps one by one
}

// fusions lists for each step the groups that begin with it.
func (p *plan) fusions(live []int64) [][]fusion {
	n := len(p.steps)
	list := make([][]fusion, n)
	for i := range n {
		for j := i + 1; j < min(i+maxFused, n) && p.mayFollow(i, j); j++ {
			if f, ok := p.fusion(i, j, live); ok {
				list[i] = append(list[i], f)
			}
		}
	}
	return list
}

// formGroups chooses the groups that save the most DRAM traffic. It reports
// false when none saves any.
func (p *plan) formGroups(fusions [][]fusion, room int64) bool {
	n := len(p.steps)
	best := make([]int64, n+1) // saved by steps from i on
	next := make([]*group, n)  // that starts at i, or nil
	for i := n - 1; i >= 0; i-- {
		best[i] = best[i+1]
		for k := range fusions[i] {
			f := &fusions[i][k]
			gain := p.gain(f, room)
			if gain > 0 && gain+best[f.last+1] > best[i] {
				best[i], next[i] = gain+best[f.last+1], f.group
			}
		}
	}
	if best[0] == 0 {
		return false
	}
	for i := 0; i < n; i++ {
		g := next[i]
		if g == nil {
			continue
		}
		for k := i; k < g.last; k++ {
			p.steps[k].out.store.inner, p.steps[k].out.store.spilled = true, true
		}
		g = p.newGroup(i, g.last)
		for k := i; k <= g.last; k++ {
			p.steps[k].group = g
		}
		i = g.last
	}
	return true
}

// mayFollow reports whether step j may stand in a group that starts with step i
// and holds all between.
func (p *plan) mayFollow(i, j int) bool {
	return p.steps[i].joins() && p.steps[j].joins() && p.steps[i].once == p.steps[j].once
}

// joins reports whether s may stand in a group of several steps.
func (s *step) joins() bool {
	cuts := s.cuts()
	_, updates := s.kernel.(*updater)
	return !s.isTransfer() && !updates && cuts[1] && cuts[2]
}

// staysInside reports whether what s writes may exist in strips only.
func (s *step) staysInside() bool {
	st := s.out.store
	return len(st.writers) == 1 && !st.output && !st.kept && !st.whole && s.out.dims == st.dims
}

// fusion returns a group of steps i..j, and false when it is not possible or can
// save no DRAM traffic.
func (p *plan) fusion(i, j int, live []int64) (fusion, bool) {
	spilled := false
	own := int64(0) // resident stores that would become strips
	for k := i; k < j; k++ {
		st := p.steps[k].out.store
		if !p.steps[k].staysInside() || len(st.readers) == 0 {
			return fusion{}, false
		}
		for _, r := range st.readers {
			if r.index > j {
				return fusion{}, false
			}
		}
		if st.spilled {
			spilled = true
		} else {
			own += roundUp(st.size, p.align)
		}
	}
	last := p.steps[j].out.store
	for k := i; k <= j; k++ {
		for _, t := range p.steps[k].in {
			if t.store == last {
				return fusion{}, false
			}
		}
	}
	if !spilled {
		return fusion{}, false
	}
	f := fusion{group: p.newGroup(i, j)}
	if f.group == nil {
		return f, false
	}
	if p.resident {
		f.used += roundUp(p.constBytes, p.align)
	}
	most := int64(0)
	for k := i; k <= j; k++ {
		most = max(most, live[k])
		if !p.resident {
			n := int64(0)
			for _, b := range p.steps[k].blobs {
				n = max(n, roundUp(int64(len(b.data)), p.align))
			}
			f.used += n
		}
		if h := p.steps[k].group; h != nil && h.first == h.last {
			f.alone += p.groupTraffic(h, 0)
		} else {
			f.alone += p.weightTraffic(p.steps[k], 0, 1, p.steps[k].parts[0], false) + p.steps[k].directTraffic(nil, p.steps[k].parts[0])
		}
	}
	f.used += max(most-own, 0)
	return f, true
}

// gain returns the DRAM bytes that a group saves in some of the scratchpad, or 0 when
// it does not fit or saves none: the traffic of the steps one by one less its own.
func (p *plan) gain(f *fusion, room int64) int64 {
	if !p.cutGroup(f.group, room-f.used) {
		return 0
	}
	return max(f.alone-p.groupTraffic(f.group, 0), 0)
}

// mostInVain is how many stores in a row are tried in vain before larger ones are not.
const mostInVain = 8

// unspill brings stores back to the scratchpad where there is room after all and
// it saves traffic, the smallest first.
func (p *plan) unspill() {
	best := p.traffic()
	for vain := 0; vain < mostInVain; vain++ {
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
				best, vain = n, -1
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
