package pim

import (
	"slices"

	"situ/arch"
)

// plan is a program in the making: steps, what each cluster does of them, and
// where everything lies.
type plan struct {
	*lowering
	clusters int
	effort
	cycles   int64  // estimate, without what spilling and streaming cost
	barriers []bool // before a step, and before the end

	scratchpad
	ringBase int64 // weight SRAM of each core: where streamed weights go
	ringEnd  int64 // its size if anything is streamed, else what is in use
}

// effort is how hard a plan tries to keep all weights on the chip.
type effort struct {
	lean       bool // few weight bytes before little time
	byChannels bool // products are split by channels, so that no two clusters hold the same weights
	stream     bool // what does not fit is read from DRAM in every inference
}

// efforts in the order in which they are tried.
var efforts = []effort{{}, {lean: true}, {lean: true, byChannels: true}, {byChannels: true, stream: true}}

// split decides for every step which cluster computes which part of the result.
// It goes through the steps in order and takes, for each, the split of the least
// estimated time, what has to be fetched from other clusters included.
func (p *plan) split() {
	for _, s := range p.stores {
		s.writers, s.readers = nil, nil
	}
	for i, s := range p.steps {
		s.index = i
		s.parts = nil
		if s.out != nil {
			s.out.store.writers = append(s.out.store.writers, s)
		}
		for _, t := range s.in {
			t.store.readers = append(t.store.readers, s)
		}
	}
	p.cycles = 0
	p.barriers = nil
	for _, s := range p.steps {
		switch s.kernel.(type) {
		case *loader, *storer:
		default:
			p.cycles += p.splitStep(s)
		}
	}
	for i := len(p.steps) - 1; i >= 0; i-- {
		switch s := p.steps[i]; s.kernel.(type) {
		case *loader:
			s.parts = p.loadParts(s.out)
		case *storer:
			s.parts = p.storeParts(s.in[0])
		}
	}
}

// splitStep sets the parts of a step and returns its estimated cycles.
func (p *plan) splitStep(s *step) int64 {
	d := s.out.dims
	full := whole(d)
	candidates := [][]box{{full}}
	if p.clusters > 1 {
		cuts := s.cuts()
		_, perChannel := s.kernel.(channelled)
		cuts[3] = cuts[3] || perChannel
		for axis := range 4 {
			if d[axis] > 1 && cuts[axis] {
				parts := full.pieces(axis, p.clusters, s.grain(axis))
				if _, isProduct := s.kernel.(*product); isProduct && axis == 3 && p.byChannels && len(parts) > 1 {
					candidates = [][]box{parts}
					break
				}
				candidates = append(candidates, parts)
			}
		}
	}
	best := int64(-1)
	for _, parts := range candidates {
		t := s.kernel.cycles(p.chip, parts[0]) + p.fetchCycles(s, parts)
		if best < 0 || t < best {
			best = t
			s.parts = parts
		}
	}
	for len(s.parts) < p.clusters {
		s.parts = append(s.parts, box{})
	}
	return best
}

// needs returns what cluster j reads of operand i for its part, in the
// coordinates of the operand's store.
func (s *step) needs(i int, part box) box {
	if part.empty() {
		return box{}
	}
	return s.in[i].inStore(s.kernel.need(i, part))
}

// fetchCycles estimates the time to bring the operands to where parts need them.
func (p *plan) fetchCycles(s *step, parts []box) int64 {
	if p.clusters == 1 {
		return 0
	}
	var t int64
	for i, in := range s.in {
		st := in.store
		if st.data != nil {
			continue
		}
		var most, total int64
		same := true
		var first box
		for j, part := range parts {
			b := s.needs(i, part).and(whole(st.dims))
			if j == 0 {
				first = b
			}
			same = same && b == first
			missing := int64(0)
			for _, w := range st.writers {
				if w.parts == nil || w == s {
					continue
				}
				from := w.out.inStore(whole(w.out.dims)).and(b)
				have := w.out.inStore(w.parts[j]).and(b)
				missing += from.numel() - have.numel()
			}
			most = max(most, missing)
			total += missing
		}
		if total == 0 {
			continue
		}
		if !same && len(parts) > 0 {
			// Different parts leave one after the other if one cluster has them all.
			if holders := holders(st); holders == 1 {
				most = total
			}
		}
		t += p.networkCycles(most * int64(st.elem))
	}
	return t
}

// holders returns how many clusters hold parts of a store.
func holders(s *store) int {
	n := 0
	for _, w := range s.writers {
		m := 0
		for _, b := range w.parts {
			if !b.empty() {
				m++
			}
		}
		n = max(n, m)
	}
	return n
}

// networkCycles estimates moving n bytes into one cluster, and the barrier after.
func (p *plan) networkCycles(n int64) int64 {
	return networkCycles(p.chip, n, p.clusters)
}

func networkCycles(c *arch.Chip, n int64, clusters int) int64 {
	hops := c.ClustersPerDie.Int()
	t := ceilDiv(n, c.NoC.LinkBytes.Int()) + 4*hops*c.NoC.HopCycles.Int()
	if int64(clusters) > c.ClustersPerDie.Int() {
		mhz := c.ClockMHz.Value
		t += int64(2*c.DieLink.LatencyNS.Value*mhz/1e3) + int64(float64(n)/(c.DieLink.GBs.Value*1e3)*mhz)
	}
	return t
}

// loadParts shares an input among the clusters that need it, without overlap,
// so that it is read from DRAM once.
func (p *plan) loadParts(t *tensor) []box {
	needs := make([]box, p.clusters)
	for _, r := range t.store.readers {
		for i, in := range r.in {
			if in.store != t.store {
				continue
			}
			for j := range needs {
				if j < len(r.parts) {
					needs[j] = needs[j].hull(r.needs(i, r.parts[j]).and(whole(t.store.dims)))
				}
			}
		}
	}
	parts := make([]box, p.clusters)
	full := whole(t.store.dims)
	// Along the axis in which the needs begin at different places, each cluster
	// takes what lies before the next one's need.
	for axis := range 4 {
		var at []int // clusters in order
		ok := true
		for j := range needs {
			if needs[j].empty() {
				continue
			}
			if len(at) > 0 && needs[j].lo[axis] <= needs[at[len(at)-1]].lo[axis] {
				ok = false
			}
			at = append(at, j)
		}
		if !ok || len(at) < 2 {
			continue
		}
		lo := 0
		for k, j := range at {
			hi := full.hi[axis]
			if k+1 < len(at) {
				hi = needs[at[k+1]].lo[axis]
			}
			parts[j] = full.along(axis, lo, hi)
			lo = hi
		}
		return parts
	}
	parts[0] = full
	return parts
}

// storeParts lets each cluster store what it computed, or the first cluster all
// when several steps wrote the tensor.
func (p *plan) storeParts(t *tensor) []box {
	parts := make([]box, p.clusters)
	w := t.store.writers
	if len(w) == 1 && !t.reshaped && !w[0].out.reshaped && w[0].out.store == t.store && w[0].out.dims == t.dims {
		return slices.Clone(w[0].parts)
	}
	parts[0] = whole(t.dims)
	return parts
}

// spread computes from the parts of all steps which box of its store each
// cluster holds.
func (p *plan) spread() {
	for _, st := range p.stores {
		st.boxes = make([]box, p.clusters)
		st.got = make([]box, p.clusters)
		if st.data != nil {
			continue
		}
		for j := range st.boxes {
			var b, got box
			for _, w := range st.writers {
				b = b.hull(w.out.inStore(w.parts[j]))
			}
			for _, r := range st.readers {
				for i, in := range r.in {
					if in.store == st {
						got = got.hull(r.needs(i, r.parts[j]))
					}
				}
			}
			st.got[j] = got
			b = b.hull(got)
			if st.whole && !b.empty() {
				b = whole(st.dims)
			}
			st.boxes[j] = b
		}
		st.size = 0
		for _, b := range st.boxes {
			st.size = max(st.size, b.numel()*int64(st.elem))
		}
	}
}
