package pim

import (
	"encoding/binary"
	"math"
	"slices"

	"situ/arch"
	"situ/backend/pim/isa"
)

// splits remembers what follows from how steps are split over clusters, whatever
// the arrays and vector units are: it is kept from chip to chip. Lists of boxes
// have numbers, 0 that of none, so that keys hold a few numbers for each step.
type splits struct {
	ids    map[string]int32 // of lists of boxes
	lists  [][]box
	nets   map[links]int32
	ways   map[string][]way
	shares map[string]int32
	held   map[string]*holding
	alike  map[string][]bool
	size   int // of all, in boxes, roughly
	key    []byte
	raw    []byte

	recorder emitter // of instructions that are kept
}

// maxSplits bounds what is remembered, in boxes of 64 bytes.
const maxSplits = 1 << 19

// links is what the estimated time of moving data between clusters depends on.
type links struct {
	link, issue, hop, perDie, dies int64
	linkGBs, linkLatency, clock    float64
}

func linksOf(c *arch.Chip) links {
	return links{
		link: c.NoC.LinkBytes.Int(), issue: c.IssueCycles.Int(), hop: c.NoC.HopCycles.Int(), perDie: c.ClustersPerDie.Int(), dies: c.Dies.Int(),
		linkGBs: c.DieLink.GBs.Value, linkLatency: c.DieLink.LatencyNS.Value, clock: c.ClockMHz.Value,
	}
}

// way is one way to split a step, given how the steps are split that it reads from
// or meets.
type way struct {
	split int32
	parts []box
	join  int64 // see plan.joinCycles
	floor int64 // see plan.fetchFloor
	fetch int64 // see plan.fetchCycles: that, or no more than that
	known int8  // how often fetch was computed, the second time to the end
}

// on returns the number of a chip's links. It forgets everything when that is
// too much.
func (m *splits) on(c *arch.Chip) int32 {
	if m.ids == nil || m.size > maxSplits {
		*m = splits{
			ids: map[string]int32{}, lists: [][]box{nil}, nets: map[links]int32{}, ways: map[string][]way{},
			shares: map[string]int32{}, held: map[string]*holding{}, alike: map[string][]bool{},
		}
	}
	n := linksOf(c)
	id, ok := m.nets[n]
	if !ok {
		id = int32(len(m.nets))
		m.nets[n] = id
		m.size++
	}
	return id
}

// id returns the number of a list of boxes, which must not change from now on.
func (m *splits) id(list []box) int32 {
	m.raw = m.raw[:0]
	for i := range list {
		for axis := range list[i].lo {
			m.raw = binary.AppendVarint(m.raw, int64(list[i].lo[axis]))
			m.raw = binary.AppendVarint(m.raw, int64(list[i].hi[axis]))
		}
	}
	id, ok := m.ids[string(m.raw)]
	if !ok {
		id = int32(len(m.lists))
		m.ids[string(m.raw)] = id
		m.lists = append(m.lists, list)
		m.size += 2 * len(list)
	}
	return id
}

// start begins a key with what is asked about.
func (m *splits) start(what ...int) {
	m.key = m.key[:0]
	for _, n := range what {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(n))
	}
}

// with appends how steps are split.
func (m *splits) with(steps []*step) {
	for _, s := range steps {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(s.split))
	}
}

// waysOf returns the ways in which a step can be split.
func (p *plan) waysOf(s *step) []way {
	m := &p.splits
	byChannels := 0
	if p.byChannels {
		byChannels = 1
	}
	m.start(s.index, p.clusters, byChannels, s.grain(3), int(p.net))
	m.with(s.near)
	ways, ok := m.ways[string(m.key)]
	if ok {
		return ways
	}
	key := string(m.key)
	all := p.candidates(s)
	ways = make([]way, len(all))
	for i, parts := range all {
		id := m.id(parts)
		parts = m.lists[id]
		ways[i] = way{split: id, parts: parts, join: p.joinCycles(s, parts), floor: p.fetchFloor(s, parts)}
	}
	m.ways[key] = ways
	m.size += 2 * len(ways)
	return ways
}

// fetchTime is fetchCycles of a way to split a step, but that it may stop at limit.
func (p *plan) fetchTime(s *step, w *way, limit int64) int64 {
	if w.known == 2 || w.known == 1 && w.fetch >= limit {
		return w.fetch
	}
	if w.known == 1 {
		limit = math.MaxInt64
	}
	w.fetch = p.fetchCycles(s, w.parts, limit)
	w.known++
	if w.fetch < limit {
		w.known = 2
	}
	return w.fetch
}

// near lists the steps on whose splits it depends in which ways s can be split and
// what that costs.
func near(s *step) []*step {
	var list []*step
	add := func(st *store) {
		for _, w := range st.writers {
			if w != s {
				list = append(list, w)
			}
		}
	}
	for _, t := range s.in {
		add(t.store)
	}
	if s.out == nil {
		return list
	}
	add(s.out.store)
	for _, r := range s.out.store.readers {
		if _, ok := r.kernel.(*addMul); ok {
			for _, t := range r.in {
				add(t.store)
			}
		}
	}
	return unique(list)
}

// unique drops steps that are listed before.
func unique(list []*step) []*step {
	seen := map[*step]bool{}
	out := list[:0]
	for _, s := range list {
		if !seen[s] {
			out = append(out, s)
		}
		seen[s] = true
	}
	return out
}

// holding is what clusters hold of a store and send of it, given how the steps are
// split that write and read it.
type holding struct {
	id    int32 // of boxes
	no    int   // of the holding
	boxes []box
	got   []box
	size  int64  // bytes of the largest box
	sends []bool // of each writer: some cluster needs what another computes in it

	insts [][]written // by number and cluster, see plan.repeat
}

// written are instructions that a cluster executes, if they have been written.
type written struct {
	written bool
	insts   []isa.Inst
}

// repeat emits for the cluster at hand what write emits where a store is at address
// 0, moved to where it is: its address is in the first operands. The instructions
// are kept with what clusters hold of the store, under a number: 0 is what happens
// before the first writer, then come its writers.
func (p *plan) repeat(e *emitter, st *store, number, operands int, write func(*emitter)) {
	h, m := st.holding, &p.splits
	if h.insts == nil {
		h.insts = make([][]written, 1+len(st.writers))
	}
	if h.insts[number] == nil {
		h.insts[number] = make([]written, p.clusters)
	}
	known := &h.insts[number][e.cluster]
	if !known.written {
		r := &m.recorder
		*r = emitter{chip: p.chip, args: r.args, streams: emptied(r.streams, p.clusters), cluster: e.cluster, layer: -1}
		write(r)
		*known = written{true, slices.Clone(r.stream().Insts)}
		m.size += 2 * len(known.insts)
	}
	for _, in := range known.insts {
		args := e.emit(in.Op, in.Args...)
		for i := range operands {
			args[i] += st.addr
		}
	}
}

// spread says which box of its store each cluster holds, and which steps send.
func (p *plan) spread() {
	m := &p.splits
	for _, st := range p.stores {
		m.start(st.index, p.clusters)
		m.with(st.writers)
		m.with(st.readers)
		h := m.held[string(m.key)]
		if h == nil {
			key := string(m.key)
			h = p.holdingOf(st)
			h.no = len(m.held)
			m.held[key] = h
			m.size += 4 * p.clusters
		}
		st.holding, st.boxes, st.got, st.size = h, h.boxes, h.got, h.size
		for i, w := range st.writers {
			w.sends = h.sends[i]
		}
	}
	for _, s := range p.steps {
		s.alike = nil
		switch s.kernel.(type) {
		case *product, *addMul:
			s.alike = p.alikeClusters(s)
		}
	}
}

// alikeClusters says of each cluster whether what it computes in s lies in its
// boxes as with the cluster before. Kernels that know nothing of places but views
// then write the same instructions.
func (p *plan) alikeClusters(s *step) []bool {
	m := &p.splits
	m.start(s.index, p.clusters, int(s.split), s.out.store.holding.no)
	for _, t := range s.in {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(t.store.holding.no))
	}
	alike, ok := m.alike[string(m.key)]
	if ok {
		return alike
	}
	key := string(m.key)
	alike = make([]bool, p.clusters)
	for j := 1; j < p.clusters; j++ {
		a, b := s.parts[j-1], s.parts[j]
		same := !a.empty() && a.dims() == b.dims() && alikeIn(s.out, a, b, j)
		for i, t := range s.in {
			same = same && alikeIn(t, s.kernel.need(i, a), s.kernel.need(i, b), j)
		}
		alike[j] = same
	}
	m.alike[key] = alike
	m.size += 2 + p.clusters/64
	return alike
}

// alikeIn reports whether box b of a tensor lies in what cluster j holds of its store
// as box a in what the cluster before holds.
func alikeIn(t *tensor, a, b box, j int) bool {
	if t.reshaped || t.store.constant() {
		return a == b
	}
	x, y := &t.store.boxes[j-1], &t.store.boxes[j]
	if x.dims() != y.dims() || a.dims() != b.dims() {
		return false
	}
	for axis := range a.lo {
		if a.lo[axis]-x.lo[axis] != b.lo[axis]-y.lo[axis] {
			return false
		}
	}
	return true
}

func (p *plan) holdingOf(st *store) *holding {
	h := &holding{boxes: make([]box, p.clusters), got: make([]box, p.clusters), sends: make([]bool, len(st.writers))}
	if st.constant() {
		return h
	}
	for j := range h.boxes {
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
		h.got[j], h.boxes[j] = got, b
	}
	p.keepWhole(st, h.got)
	for j := range h.boxes {
		b := h.boxes[j].hull(h.got[j])
		if st.whole && !b.empty() {
			b = whole(st.dims)
		}
		h.boxes[j] = b
		h.size = max(h.size, b.numel()*int64(st.elem))
	}
	h.id = p.splits.id(h.boxes)
	for i, w := range st.writers {
		h.sends[i] = sendsFrom(w, h.got)
	}
	return h
}
