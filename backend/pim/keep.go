package pim

import "slices"

// keeping is what the split of steps knows of the states that will lie in the
// scratchpads: those that fit there cost no DRAM traffic.
type keeping struct {
	room  int64   // of each cluster for states
	all   int64   // bytes of all states
	on    []int64 // of each cluster, bytes of the states that steps read there
	known map[*store]bool
}

// beginKeeping begins a split.
func (p *plan) beginKeeping() {
	k := keeping{room: p.chip.Scratchpad.Bytes.Int() * 3 / 4, on: make([]int64, p.clusters), known: map[*store]bool{}}
	for _, st := range p.states {
		k.all += st.t.dims.numel() * int64(st.t.elem)
	}
	p.keeping = k
}

// keptOperands calls f for the operands of s that are states whose clusters no step
// has chosen, with what cluster j reads of them when s is split in the given parts.
func (p *plan) keptOperands(s *step, parts []box, f func(j int, bytes int64)) {
	for i, t := range s.in {
		if !t.store.kept || p.keeping.known[t.store] {
			continue
		}
		for j, b := range parts {
			if n := s.needs(i, b).numel() * int64(t.elem); n > 0 {
				f(j, n)
			}
		}
	}
}

// keepCycles estimates how long DRAM takes to give the states that s reads and that
// find no room. A state that several clusters read takes as often as much, and where
// all states, read as often, take more than there is, part of each will be spilled.
func (p *plan) keepCycles(s *step, parts []box) int64 {
	if p.keeping.all == 0 {
		return 0
	}
	read, over := int64(0), int64(0)
	p.keptOperands(s, parts, func(j int, n int64) {
		read += n
		if p.keeping.on[j]+n > p.keeping.room {
			over += n
		}
	})
	if read == 0 {
		return 0
	}
	own := int64(0)
	for _, t := range s.in {
		if t.store.kept {
			own += t.store.dims.numel() * int64(t.elem)
		}
	}
	want := float64(p.keeping.all) * float64(read) / float64(own)
	if have := float64(p.keeping.room * int64(p.clusters)); want > have {
		over = max(over, int64(float64(read)*(1-have/want)))
	}
	return dramCycles(p.chip, ceilDiv(over, p.chip.Dies.Int()))
}

// keepOn notes on which clusters s, which is split, reads states.
func (p *plan) keepOn(s *step) {
	if p.keeping.all == 0 {
		return
	}
	p.keptOperands(s, s.parts, func(j int, n int64) {
		if p.keeping.on[j]+n <= p.keeping.room {
			p.keeping.on[j] += n
		}
	})
	for _, t := range s.in {
		if t.store.kept {
			p.keeping.known[t.store] = true
		}
	}
}

// elsewhere adds to ways to split a step that reads states the same on other clusters,
// where fewer take part than there are: the states of different layers then lie apart.
func (p *plan) elsewhere(s *step, ways [][]box) [][]box {
	if p.keeping.all == 0 || !slices.ContainsFunc(s.in, func(t *tensor) bool { return t.store.kept }) {
		return ways
	}
	for _, parts := range ways[:len(ways):len(ways)] {
		used := len(parts)
		for used > 0 && parts[used-1].empty() {
			used--
		}
		for at := used; used > 0 && at+used <= p.clusters; at += used {
			moved := make([]box, p.clusters)
			copy(moved[at:], parts[:used])
			ways = append(ways, moved)
		}
	}
	return ways
}

// spillStep is the part of the scratchpad that is freed at a time by spilling states,
// of which a language model has many.
const spillStep = 16

// spillStates spills states where all that lives at a time is more than the scratchpad
// of size bytes holds; a quarter of it is then left for the strips of what is spilled.
func (p *plan) spillStates(size int64) {
	kept := slices.Max(p.keptLoads())
	if kept == 0 {
		return
	}
	live := make([]int64, len(p.steps)+1)
	for _, st := range p.stores {
		if st.kept || st.constant() || st.spilled || len(st.writers) == 0 {
			continue
		}
		last := st.firstWriter()
		for _, r := range st.readers {
			last = max(last, r.index)
		}
		live[st.firstWriter()] += st.size
		live[last+1] -= st.size
	}
	most, now := int64(0), int64(0)
	for _, n := range live {
		now += n
		most = max(most, now)
	}
	if p.resident {
		most += p.constBytes
	}
	if kept+most > size {
		p.spillKept(3*size/4 - min(most, size/4))
	}
}

// keptLoads returns the bytes of states in the scratchpad of each cluster.
func (p *plan) keptLoads() []int64 {
	loads := make([]int64, p.clusters)
	for _, st := range p.stores {
		for j := range loads {
			if st.kept && !st.spilled && !st.boxes[j].empty() {
				loads[j] += roundUp(st.size, p.align)
			}
		}
	}
	return loads
}

// spillKept spills states, of those on the fullest cluster the largest first and of
// equal ones the last, until none has more than some bytes of them.
func (p *plan) spillKept(limit int64) {
	for {
		loads := p.keptLoads()
		most := slices.Max(loads)
		if most <= max(limit, 0) {
			return
		}
		j := slices.Index(loads, most)
		var worst *store
		for _, st := range p.stores {
			if st.kept && !st.spilled && !st.boxes[j].empty() && (worst == nil || st.size >= worst.size) {
				worst = st
			}
		}
		worst.spilled = true
	}
}
