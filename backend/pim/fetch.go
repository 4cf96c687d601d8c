package pim

import "slices"

// needs returns what cluster j reads of operand i for its part, in the
// coordinates of the operand's store.
func (s *step) needs(i int, part box) box {
	if part.empty() {
		return box{}
	}
	return s.in[i].inStore(s.kernel.need(i, part))
}

// fetchCycles estimates the time to bring the operands to where parts need them:
// the busiest of senders, receivers and links between dies. It stops counting at
// limit.
func (p *plan) fetchCycles(s *step, parts []box, limit int64) int64 {
	if p.clusters == 1 {
		return 0
	}
	c := p.chip
	perDie, dies := int(c.ClustersPerDie.Int()), int(c.Dies.Int())
	width, issue := c.NoC.LinkBytes.Int(), c.IssueCycles.Int()
	f := &p.fetches
	f.reset(p.clusters, dies)
	moved := false
	for i, t := range s.in {
		st := t.store
		if st.constant() {
			continue
		}
		f.wants = f.wants[:len(parts)]
		for j := range parts {
			f.wants[j] = s.needs(i, parts[j])
		}
		axis := f.sorted()
		for _, w := range st.writers {
			if w.parts == nil || w == s {
				continue
			}
			for from := range w.parts {
				own := w.out.inStore(w.parts[from])
				if own.empty() {
					continue
				}
				// What was sent before: neighbours that need the same get it at once.
				var want, last box
				var n, bytes int64
				lastDie := -1
				for to := f.first(axis, &own); to < len(f.wants); to++ {
					w := &f.wants[to]
					if axis >= 0 && w.lo[axis] >= own.hi[axis] {
						break
					}
					if to == from || !own.meets(w) {
						continue
					}
					moved = true
					same := *w == want
					if !same {
						want = *w
						what := own.and(want)
						if same = what == last; !same {
							last = what
							n = runCycles(what, st.dims, int64(st.elem), width) + issue
							bytes = what.numel() * int64(st.elem)
						}
					}
					if f.in[to] += n; f.in[to] >= limit {
						return limit
					}
					if !same {
						f.out[from] += n
					}
					if a, b := from/perDie, to/perDie; a != b && (!same || b != lastDie) {
						f.cross[a*dies+b] += bytes
						lastDie = b
					}
				}
			}
		}
	}
	if !moved {
		return 0
	}
	return max(slices.Max(f.in), slices.Max(f.out), linkCycles(c, slices.Max(f.cross))) + meetCycles(c, p.clusters)
}

// fetchFloor returns no more than fetchCycles: the time in which the network
// brings to a few of the clusters what they lack, whoever has it.
func (p *plan) fetchFloor(s *step, parts []box) int64 {
	used := len(parts)
	for used > 0 && parts[used-1].empty() {
		used--
	}
	if p.clusters == 1 || used == 0 {
		return 0
	}
	var lacks [3]int64
	for i, t := range s.in {
		st := t.store
		if st.constant() || len(st.writers) != 1 || st.writers[0] == s {
			continue
		}
		w := st.writers[0]
		if w.parts == nil || w.out.reshaped || w.out.dims != st.dims {
			continue // its parts may not make up the store, each element once
		}
		for k, to := range [len(lacks)]int{0, used / 2, used - 1} {
			want := s.needs(i, parts[to]).and(whole(st.dims))
			lacks[k] += (want.numel() - want.and(w.out.inStore(w.parts[to])).numel()) * int64(st.elem)
		}
	}
	most := slices.Max(lacks[:])
	if most == 0 {
		return 0
	}
	return ceilDiv(most, p.chip.NoC.LinkBytes.Int()) + p.chip.IssueCycles.Int() + meetCycles(p.chip, p.clusters)
}

// fetches is the memory of fetchCycles.
type fetches struct {
	rest    []candidate
	wants   []box   // of an operand, of each cluster
	in, out []int64 // cycles of each cluster
	cross   []int64 // bytes from die to die
}

func (f *fetches) reset(clusters, dies int) {
	f.wants = slices.Grow(f.wants[:0], clusters)[:clusters]
	f.in = zeroed(f.in, clusters)
	f.out = zeroed(f.out, clusters)
	f.cross = zeroed(f.cross, dies*dies)
}

// sorted returns an axis along which what clusters want is in order, so that only
// few of them need be looked at for what one has; −1 when there is none. Clusters
// at the end that want nothing are left out.
func (f *fetches) sorted() int {
	for len(f.wants) > 0 && f.wants[len(f.wants)-1].empty() {
		f.wants = f.wants[:len(f.wants)-1]
	}
	for axis := range len(dims{}) {
		ordered, differ := true, false
		for j := 1; j < len(f.wants) && ordered; j++ {
			a, b := &f.wants[j-1], &f.wants[j]
			ordered = a.lo[axis] <= b.lo[axis] && a.hi[axis] <= b.hi[axis]
			differ = differ || a.lo[axis] < b.lo[axis]
		}
		if ordered && differ {
			return axis
		}
	}
	return -1
}

// first returns the first cluster whose wants along the axis reach into own.
func (f *fetches) first(axis int, own *box) int {
	if axis < 0 {
		return 0
	}
	lo, hi := 0, len(f.wants)
	for lo < hi {
		mid := (lo + hi) / 2
		if f.wants[mid].hi[axis] <= own.lo[axis] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// zeroed returns n zeros, in place of s where it has room.
func zeroed(s []int64, n int) []int64 {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
