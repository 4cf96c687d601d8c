package pim

import (
	"math"
	"slices"
)

// plan is a program in the making: steps, what each cluster does of them, and
// where everything lies.
type plan struct {
	*lowering
	clusters int
	effort
	cycles   int64 // estimate, without what spilling and streaming cost
	keeps    int64 // of that, for states that find no room in the scratchpads
	moved    int64 // bytes of DRAM in a run, as traffic counts them
	score    float64
	barriers []bool // before a step, and before the end

	batch  int   // entries of the batch that is cut into rounds, 0 when none is
	rounds []int // first entry of each, see Planner.inRounds

	keeping keeping
	scratchpad
	share    float64 // of the weight SRAM that is for weights that stay, when others are streamed
	ringBase int64   // weight SRAM of each core: where streamed weights go
	ringEnd  int64   // its end if anything is streamed, else that of what is in use

	writtenAt, writtenEnd int64 // weight SRAM of each core for activations
	writtenHalf           int64 // half of it, 0 when it is not used in halves
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
	for _, s := range p.steps {
		s.splitAs(0, nil)
	}
	p.cycles, p.keeps = 0, 0
	p.barriers = nil
	p.beginKeeping()
	for _, s := range p.steps[p.mainFrom:] {
		switch s.kernel.(type) {
		case *loader, *storer, *updater:
		default:
			p.cycles += p.splitStep(s)
		}
	}
	for i := len(p.steps) - 1; i >= 0; i-- {
		p.splitTransfer(p.steps[i])
	}
}

// splitAs splits a step in parts of which the number is known.
func (s *step) splitAs(split int32, parts []box) { s.split, s.parts = split, parts }

// splitTransfer splits a step that loads an input, stores an output, or begins or
// updates a state, by how the steps are split that read or write it.
func (p *plan) splitTransfer(s *step) {
	m := &p.splits
	var share func() []box
	k, updates := s.kernel.(*updater)
	_, stores := s.kernel.(*storer)
	switch {
	case updates:
		m.start(s.index, p.clusters)
		m.with(s.out.store.readers)
		share = func() []box { return p.updateParts(s, k) }
	case isLoader(s) || s.once:
		m.start(s.index, p.clusters)
		m.with(s.out.store.readers)
		share = func() []box { return p.loadParts(s.out) }
	case stores:
		m.start(s.index, p.clusters)
		m.with(s.in[0].store.writers)
		share = func() []box { return p.storeParts(s.in[0]) }
	default:
		return
	}
	split, ok := m.shares[string(m.key)]
	if !ok {
		key := string(m.key)
		split = m.id(share())
		m.shares[key] = split
	}
	s.splitAs(split, m.lists[split])
	if s.parts == nil {
		p.splitStep(s)
	}
}

// splitNumbers returns how each step is split.
func (p *plan) splitNumbers() []int32 {
	all := make([]int32, len(p.steps))
	for i, s := range p.steps {
		all[i] = s.split
	}
	return all
}

// resplit splits the steps as they were in a plan for as many clusters.
func (p *plan) resplit(splits []int32) {
	for i, s := range p.steps {
		s.splitAs(splits[i], p.splits.lists[splits[i]])
	}
}

// splitStep splits a step and returns its estimated cycles. Of ways that take the
// same time it takes the first. It looks first at those that may be fastest, so
// that most others need not be looked at closely.
func (p *plan) splitStep(s *step) int64 {
	ways := p.waysOf(s)
	k, isProduct := s.kernel.(*product)
	rest := p.fetches.rest[:0]
	for i := range ways {
		w := &ways[i]
		first := firstOf(w.parts)
		c := candidate{index: i, keep: p.keepCycles(s, w.parts)}
		c.more = w.join + max(w.fetch, w.floor) + c.keep
		if isProduct {
			c.least = p.maps.least(k.problem(first), 1) + c.more
		} else {
			c.cycles = s.kernel.cycles(p.chip, first)
			c.least = c.cycles + c.more
		}
		rest = append(rest, c)
	}
	p.fetches.rest = rest
	best, cycles := 0, int64(math.MaxInt64)
	for len(rest) > 0 {
		next := 0
		for i := range rest {
			if rest[i].least < rest[next].least {
				next = i
			}
		}
		c := rest[next]
		rest = slices.Delete(rest, next, next+1)
		limit := cycles
		if c.index < best && limit < math.MaxInt64 {
			limit++ // the first among equals
		}
		if c.least >= limit {
			continue
		}
		w := &ways[c.index]
		if isProduct {
			c.cycles = k.cycles(p.chip, firstOf(w.parts))
		}
		if c.cycles+c.more >= limit {
			continue
		}
		c.cycles += w.join + c.keep
		if c.cycles += p.fetchTime(s, w, limit-c.cycles); c.cycles < limit {
			best, cycles = c.index, c.cycles
		}
	}
	s.splitAs(ways[best].split, ways[best].parts)
	p.keeps += p.keepCycles(s, s.parts)
	p.keepOn(s)
	return cycles
}

// firstOf returns the first part that is not empty.
func firstOf(parts []box) box {
	i := slices.IndexFunc(parts, func(b box) bool { return !b.empty() })
	return parts[max(i, 0)]
}

// candidate is a way to split a step on the chip at hand.
type candidate struct {
	index         int
	cycles, least int64 // of the kernel, and no more than all together
	more          int64 // what has to be fetched and joined, or less
	keep          int64 // of that, states that DRAM gives
}

// candidates lists ways to split a step over clusters: not at all, along one
// axis, along two, and as an operand of the same shape is split.
func (p *plan) candidates(s *step) [][]box {
	full := whole(s.out.dims)
	out := [][]box{p.fill([]box{full})}
	if p.clusters == 1 {
		return out
	}
	cuts := s.cuts()
	_, perChannel := s.kernel.(channelled)
	cuts[3] = cuts[3] || perChannel
	along := func(b box, axis, n int) []box { return b.pieces(axis, n, s.grain(axis)) }
	// Parts of the same channels stand side by side, so that they can share weights;
	// where there are none, runs in memory are the longer the further out it is cut.
	others := [3]int{1, 2, 3}
	_, isProduct := s.kernel.(*product)
	if _, isPair := s.kernel.(*pair); isProduct || isPair {
		others = [3]int{3, 1, 2}
	}
	if isProduct && p.byChannels {
		if parts := along(full, 3, p.clusters); len(parts) > 1 {
			return [][]box{p.fill(parts)}
		}
	}
	for axis, ok := range cuts {
		if !ok || full.ext(axis) == 1 {
			continue
		}
		parts := along(full, axis, p.clusters)
		out = append(out, p.fill(parts))
		if axis == 3 {
			continue
		}
		// Where clusters are left over, or get fewer than others: cut along two axes.
		counts := []int{len(parts)}
		if n := gcd(full.ext(0), p.clusters); axis == 0 && n > 1 && n < len(parts) {
			counts = append(counts, n)
		}
		for _, n := range counts {
			for _, other := range others {
				if !cuts[other] || other <= axis || n == p.clusters {
					continue
				}
				var both []box
				for _, b := range along(full, other, p.clusters/n) {
					both = append(both, along(b, axis, n)...)
				}
				if len(both) > n && len(both) <= p.clusters {
					out = append(out, p.fill(both))
				}
			}
		}
	}
	out = p.elsewhere(s, out)
	add := func(parts []box) {
		if !slices.ContainsFunc(out, func(o []box) bool { return slices.Equal(o, parts) }) {
			out = append(out, parts)
		}
	}
	follow := func(t *tensor) {
		if parts := splitOf(t); parts != nil && t.dims == s.out.dims && p.canFollow(s, parts, cuts) {
			add(parts)
		}
	}
	for _, t := range s.in {
		follow(t)
	}
	if parts := p.aligned(s); parts != nil && p.canFollow(s, parts, cuts) {
		add(parts)
	}
	for _, r := range s.out.store.readers {
		if _, ok := r.kernel.(*addMul); ok && r.in[0].store != r.in[1].store {
			follow(r.in[0])
			follow(r.in[1])
		}
	}
	return out
}

// gcd returns the greatest common divisor of two numbers that are not 0.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// splitOf returns how a tensor that one step writes whole is split, nil when
// that is not known.
func splitOf(t *tensor) []box {
	if w := t.store.writers; len(w) == 1 && w[0].out.dims == t.dims && !t.reshaped {
		return w[0].parts
	}
	return nil
}

// aligned returns the parts of s that lie on the clusters of what an earlier step
// wrote beside it into the same store, as concat does; nil when there are none.
func (p *plan) aligned(s *step) []box {
	w := s.out.store.writers[0]
	if w == s || w.parts == nil || w.out.reshaped || s.out.reshaped {
		return nil
	}
	parts := slices.Clone(w.parts)
	for axis, n := range s.out.dims {
		for j := range parts {
			switch {
			case parts[j].empty() || w.out.dims[axis] == n:
			case parts[j].ext(axis) == w.out.dims[axis]:
				parts[j] = parts[j].along(axis, 0, n)
			default:
				return nil
			}
		}
	}
	return parts
}

// joinCycles estimates what it costs later that s is split in the given way, when
// its result meets another tensor of the same shape, or lies beside one, that is
// split differently.
func (p *plan) joinCycles(s *step, parts []box) int64 {
	if p.clusters == 1 {
		return 0
	}
	worst := int64(0)
	meet := func() {
		n := runCycles(firstOf(parts), s.out.dims, int64(s.out.elem), p.chip.NoC.LinkBytes.Int())
		worst = max(worst, n+meetCycles(p.chip, p.clusters))
	}
	if beside := p.aligned(s); beside != nil && !slices.Equal(beside, parts) {
		meet()
	}
	for _, r := range s.out.store.readers {
		if k, ok := r.kernel.(*pair); ok {
			worst = max(worst, p.gatherCycles(s, parts, r, k))
		}
	}
	for _, r := range s.out.store.readers {
		if _, ok := r.kernel.(*addMul); !ok {
			continue
		}
		for _, t := range r.in {
			other := splitOf(t)
			if t.store == s.out.store || other == nil || t.dims != s.out.dims || slices.Equal(other, parts) {
				continue
			}
			meet()
		}
	}
	return worst
}

// canFollow reports whether s can be split in the given parts.
func (p *plan) canFollow(s *step, parts []box, cuts [4]bool) bool {
	for _, b := range parts {
		for axis, ok := range cuts {
			if b.empty() || b.ext(axis) == s.out.dims[axis] {
				continue
			}
			if !ok || b.lo[axis]%s.grain(axis) != 0 {
				return false
			}
		}
	}
	return true
}

// fill adds empty parts for clusters without one.
func (p *plan) fill(parts []box) []box {
	if len(parts) >= p.clusters {
		return parts
	}
	all := make([]box, p.clusters)
	copy(all, parts)
	return all
}

// loadParts shares an input among the clusters that need it, without overlap,
// so that it is read from DRAM once: of several that need the same the first reads it.
func (p *plan) loadParts(t *tensor) []box {
	full := whole(t.dims)
	needs := p.needsOf(t)
	for j := range needs {
		needs[j] = needs[j].and(full)
	}
	each := slices.Clone(needs)
	for j := range each {
		if slices.Contains(each[:j], each[j]) {
			each[j] = box{}
		}
	}
	if partition(each, full) {
		return each
	}
	if parts := inOrder(needs, full, allCuts); partition(parts, full) {
		return parts
	}
	for axis := range allCuts { // needs that are no grid may yet be in order along one axis
		var along [4]bool
		along[axis] = true
		if parts := inOrder(needs, full, along); partition(parts, full) && taken(parts) > 1 {
			return parts
		}
	}
	parts := make([]box, p.clusters)
	parts[0] = full
	return parts
}

// inOrder shares full among clusters that need parts of it which may overlap: along the
// axes marked, each takes what lies before the next one's need, of several whose needs
// begin at the same place the first. Where the needs are no grid, as those of a split
// along one or two axes are, the result does not cover full.
func inOrder(needs []box, full box, axes [4]bool) []box {
	parts := make([]box, len(needs))
	var begins [4][]int
	for axis, ok := range axes {
		for j := range needs {
			if ok && !needs[j].empty() {
				begins[axis] = append(begins[axis], needs[j].lo[axis])
			}
		}
		slices.Sort(begins[axis])
		begins[axis] = slices.Compact(begins[axis])
	}
	for j := range needs {
		if needs[j].empty() {
			continue
		}
		b := full
		for axis, at := range begins {
			if len(at) == 0 {
				continue
			}
			k, _ := slices.BinarySearch(at, needs[j].lo[axis])
			if k > 0 {
				b.lo[axis] = at[k]
			}
			if k+1 < len(at) {
				b.hi[axis] = at[k+1]
			}
		}
		if !slices.Contains(parts[:j], b) {
			parts[j] = b
		}
	}
	return parts
}

// taken returns how many boxes are not empty.
func taken(boxes []box) int {
	n := 0
	for _, b := range boxes {
		if !b.empty() {
			n++
		}
	}
	return n
}

// partition reports whether boxes cover a whole without overlap.
func partition(boxes []box, full box) bool {
	left := full.numel()
	for i, b := range boxes {
		left -= b.numel()
		for _, o := range boxes[:i] {
			if !b.and(o).empty() {
				return false
			}
		}
	}
	return left == 0
}

// storeParts lets each cluster store what it computed, or the first cluster all
// when that is not a box a cluster, without overlap.
func (p *plan) storeParts(t *tensor) []box {
	parts := make([]box, p.clusters)
	alone := !t.reshaped
	for j := range parts {
		n := int64(0)
		for _, w := range t.store.writers {
			b := w.out.inStore(w.parts[j])
			parts[j] = parts[j].hull(b)
			n += b.numel()
			alone = alone && !w.out.reshaped
		}
		alone = alone && parts[j].numel() == n
	}
	if !alone || !partition(parts, whole(t.dims)) {
		clear(parts)
		parts[0] = whole(t.dims)
	}
	return parts
}
