package pim

import (
	"cmp"
	"fmt"
	"slices"
)

// scratchpad is how the scratchpad of a cluster is used; all clusters use the
// same addresses.
type scratchpad struct {
	align      int64    // of buffers: a page of the machine's scoreboard
	resident   bool     // constants of steps stay, at address 0
	constBytes int64    // of those
	items      []item   // everything that comes and goes
	inOrder    []*store // stores as they are first written
	high       int64    // end of what is used
}

// placing is memory that is used again and again.
type placing struct {
	live        []int64
	starts      []int
	order, near []*item
	counts      []int // of strips, see cutAlong
}

// firstWriter returns the index of the step that writes the store first, −1 for
// constants.
func (st *store) firstWriter() int {
	if len(st.writers) == 0 {
		return -1
	}
	return st.writers[0].index
}

// item is a buffer that lives from the start of step first to the end of last.
type item struct {
	what        string
	size        int64
	first, last int
	addr        *int64
	store       *store   // what it holds, nil for strips and constants
	heirs       []*store // what takes over its place in turn
}

// apart reports whether two buffers are of states that lie on different clusters.
func (a *item) apart(b *item) bool {
	if a.store == nil || b.store == nil || !a.store.kept || !b.store.kept {
		return false
	}
	for j := range a.store.boxes {
		if !a.store.boxes[j].empty() && !b.store.boxes[j].empty() {
			return false
		}
	}
	return true
}

// pageSize returns the alignment of buffers: the scoreboard has at most 8192
// pages of at least 64 bytes.
func pageSize(bytes int64) int64 {
	n := int64(64)
	for n*8192 < bytes {
		n *= 2
	}
	return n
}

// placeBuffers finds a place in the scratchpad for every store, spilling stores
// to DRAM until the others fit.
func (p *plan) placeBuffers() error {
	size := p.chip.Scratchpad.Bytes.Int()
	p.align = pageSize(size)
	for _, st := range p.stores {
		// Constant operands that are large stay in DRAM.
		st.spilled, st.inner, st.tried = st.remote || st.constBytes() > size/8, false, false
	}
	for _, s := range p.steps {
		s.group = nil
	}
	p.inOrder = slices.Clone(p.stores)
	slices.SortStableFunc(p.inOrder, func(a, b *store) int { return cmp.Compare(a.firstWriter(), b.firstWriter()) })
	p.makeBlobs()
	p.resident = p.constBytes <= size/4
	p.spillStates(size)
	for {
		p.orderSteps()
		err := p.settle()
		if err == nil {
			break
		}
		if p.resident && p.constBytes > size/32 {
			p.resident = false
		} else if !p.spillOne() {
			return err
		}
	}
	p.fuse()
	p.moved = p.traffic() // settles the order of loops
	return nil
}

// settle cuts strips and gives all buffers an address. When fragmentation
// defeats it, it leaves more and more of the scratchpad to it.
func (p *plan) settle() error {
	size := p.chip.Scratchpad.Bytes.Int()
	p.joinGroups()
	for room := size; room > size/2; room -= size / 16 {
		if err := p.collect(room); err != nil {
			return err
		}
		if p.pack(size) {
			return nil
		}
	}
	return fmt.Errorf("the buffers do not fit the scratchpad of %d bytes", size)
}

// orderSteps decides where the clusters have to meet: before a step that reads
// what another cluster sent or spilled since they last met, and before one that
// replaces for others part of a state that they have read since.
func (p *plan) orderSteps() {
	p.barriers = make([]bool, len(p.steps)+1)
	if p.clusters == 1 {
		return
	}
	dirty, read := map[*store]bool{}, map[*store]bool{}
	any := false
	for i, s := range p.steps {
		if i == p.mainFrom {
			clear(dirty) // the init streams end with a meeting
		}
		if _, ok := s.kernel.(*updater); ok && read[s.out.store] && (s.out.store.spilled || s.sends) {
			p.barriers[i] = true
		}
		for _, t := range s.in {
			if dirty[t.store] {
				p.barriers[i] = true
			}
		}
		if p.barriers[i] {
			clear(dirty)
			clear(read)
		}
		for _, t := range s.in {
			read[t.store] = true
		}
		if s.out != nil && (s.out.store.spilled && !isLoader(s) || !s.out.store.spilled && s.sends) {
			dirty[s.out.store] = true
			any = true
		}
	}
	p.barriers[len(p.steps)] = any
}

func isLoader(s *step) bool { _, ok := s.kernel.(*loader); return ok }

// sendsFrom reports whether some cluster needs what another computes in s; got is
// what each reads of its result's store.
func sendsFrom(s *step, got []box) bool {
	for i, part := range s.parts {
		own := s.out.inStore(part)
		for j := range got {
			if i != j && own.meets(&got[j]) {
				return true
			}
		}
	}
	return false
}

// collect lists all buffers and how long they live, cutting steps with spilled
// operands into strips such that no step needs more than room.
func (p *plan) collect(room int64) error {
	p.items = p.items[:0]
	if p.resident {
		room -= roundUp(p.constBytes, p.align)
	}
	live := zeroed(p.placing.live, len(p.steps))
	p.placing.live = live
	starts := slices.Grow(p.placing.starts[:0], len(p.steps))[:len(p.steps)] // when a step's result begins to live
	p.placing.starts = starts
	since := 0 // first step after the last barrier
	for i, s := range p.steps {
		if p.barriers[i] || i == p.mainFrom {
			since = i
		}
		starts[i] = i
		if s.out != nil && s.sends {
			// Another cluster may be ahead and send while this one is still here.
			starts[i] = since
		}
		if s.group != nil {
			starts[i] = min(starts[i], s.group.first)
		}
	}
	p.inherit()
	for _, st := range p.inOrder {
		if st.constant() || st.spilled || st.size == 0 {
			continue
		}
		first, last := len(p.steps), -1
		for _, w := range st.writers {
			first, last = min(first, starts[w.index]), max(last, w.end())
		}
		for _, r := range st.readers {
			last = max(last, r.end())
		}
		if st.kept {
			first, last = 0, len(p.steps)-1
		}
		if st.over != nil {
			k := st.over.item
			st.item = k
			p.items[k].heirs = append(p.items[k].heirs, st)
			p.items[k].last = max(p.items[k].last, last)
			continue
		}
		st.item = len(p.items)
		p.items = append(p.items, item{what: st.name, size: roundUp(st.size, p.align), first: first, last: last, addr: &st.addr, store: st})
	}
	kept := slices.Max(p.keptLoads())
	for i := range live {
		live[i] = kept
	}
	for k := range p.items {
		if p.items[k].store.kept {
			continue
		}
		for i := p.items[k].first; i <= p.items[k].last; i++ {
			live[i] += p.items[k].size
		}
	}
	for i := 0; i < len(p.steps); {
		first, last := i, p.steps[i].end()
		i = last + 1
		left := room - slices.Max(live[first:last+1])
		for k := first; k <= last; k++ {
			s := p.steps[k]
			if p.resident || len(s.blobs) == 0 {
				continue
			}
			n := int64(0)
			for _, b := range s.blobs {
				n = max(n, roundUp(int64(len(b.data)), p.align))
			}
			left -= n
			p.items = append(p.items, item{what: "constants", size: n, first: first, last: last, addr: &s.blobAt})
		}
		g := p.steps[first].group
		if left < 0 || g != nil && !p.cutGroup(g, left) {
			return p.tooLarge(last, left)
		}
		if g == nil {
			continue
		}
		for k := range g.bufs {
			b := &g.bufs[k]
			p.items = append(p.items, item{what: "strips of " + b.st.name, size: b.size * int64(b.count), first: first, last: last, addr: &b.addr})
		}
	}
	return nil
}

// inherit decides which results take over the place of an operand: those of
// element-wise steps on codes, when nothing reads the operand any more and both
// are the same box on every cluster.
func (p *plan) inherit() {
	for _, st := range p.stores {
		st.over = nil
	}
	for _, s := range p.steps {
		switch s.kernel.(type) {
		case *addMul, *mulAdd, *lookup:
		default:
			continue
		}
		if s.group != nil && s.group.first < s.group.last || s.sends {
			continue
		}
		for _, t := range s.in {
			if p.canInherit(s, t) {
				s.out.store.over = t.store
				break
			}
		}
	}
}

func (p *plan) canInherit(s *step, t *tensor) bool {
	from, to := t.store, s.out.store
	if from == to || from.spilled || to.spilled || from.kept || to.kept || from.constant() || len(to.writers) != 1 || t.reshaped ||
		t.dims != from.dims || s.out.dims != to.dims || from.dims != to.dims || from.holding.id != to.holding.id {
		return false
	}
	for _, o := range s.in { // another window would be read after it is overwritten
		if o.store == from && o.dims != from.dims {
			return false
		}
	}
	for _, r := range from.readers {
		if r.index > s.index || r != s && r.group != nil && r.group == s.group {
			return false
		}
	}
	for _, w := range from.writers {
		if w.index >= s.index {
			return false
		}
	}
	return true
}

// joinGroups gives every step with spilled operands or result a group of its
// own, unless it is in one.
func (p *plan) joinGroups() {
	for i, s := range p.steps {
		if s.group != nil && s.group.first < s.group.last {
			continue
		}
		s.group = p.newGroup(i, i)
	}
}

// pack assigns addresses, the largest buffers first, each at the lowest place
// that is free as long as it lives. It reports whether all fit.
func (p *plan) pack(size int64) bool {
	base := int64(0)
	if p.resident {
		base = roundUp(p.constBytes, p.align)
	}
	order := p.placing.order[:0]
	for i := range p.items {
		order = append(order, &p.items[i])
	}
	p.placing.order = order
	slices.SortStableFunc(order, func(a, b *item) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	p.high = base
	near := p.placing.near // placed and alive at the same time, by address
	for i, it := range order {
		near = near[:0]
		for _, o := range order[:i] {
			if o.first > it.last || it.first > o.last || o.apart(it) {
				continue
			}
			k := len(near)
			near = append(near, o)
			for ; k > 0 && *near[k-1].addr > *o.addr; k-- {
				near[k] = near[k-1]
			}
			near[k] = o
		}
		at := base
		for _, o := range near {
			if at+it.size <= *o.addr {
				break
			}
			at = max(at, *o.addr+o.size)
		}
		*it.addr = at
		for _, st := range it.heirs {
			st.addr = at
		}
		p.high = max(p.high, at+it.size)
	}
	p.placing.near = near
	return p.high <= size
}

// spillOne moves one more store to DRAM: the largest of those alive when most is
// alive. It reports false when there is none left.
func (p *plan) spillOne() bool {
	live := make([]int64, len(p.steps)+1)
	for i := range p.items {
		for k := p.items[i].first; k <= p.items[i].last; k++ {
			live[k] += p.items[i].size
		}
	}
	peak := 0
	for i, n := range live {
		if n > live[peak] {
			peak = i
		}
	}
	var worst *store
	pick := func(all, kept bool) {
		for i := range p.items {
			it := &p.items[i]
			if it.store == nil || kept && !it.store.kept || !all && (it.first > peak || peak > it.last) || worst != nil && it.size <= worst.size {
				continue
			}
			worst = it.store
			for _, st := range it.heirs { // the one that is there at the peak
				if st.firstWriter() <= peak {
					worst = st
				}
			}
		}
	}
	// A state costs DRAM one reading a run, other stores that and a writing.
	if pick(false, true); worst == nil {
		pick(false, false)
	}
	if worst == nil {
		pick(true, false)
	}
	if worst == nil {
		return false
	}
	if worst.kept {
		p.spillKept(slices.Max(p.keptLoads()) - p.chip.Scratchpad.Bytes.Int()/spillStep)
		return true
	}
	worst.spilled = true
	return true
}
