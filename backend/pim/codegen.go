package pim

import (
	"fmt"
	"slices"

	"situ/backend/pim/isa"
)

// generate writes the streams of a plan in which everything has its place. It is
// an error when there are more than maxInsts instructions.
func (p *plan) generate() (initial, main []isa.Stream, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooLong:
			err = fmt.Errorf("model %q takes more than %d instructions on %s", p.g.Name, maxInsts, p.chip.Name)
		case tooManyTurns:
			err = fmt.Errorf("the states of model %q have entries of more than %d sizes; keep fewer with --state", p.g.Name, isa.NumRegs-1)
		default:
			panic(r)
		}
	}()
	e := &p.emitter
	e.reset(p)
	barrier := int64(0)
	meet := func() {
		barrier++
		for j := range p.clusters {
			e.cluster = j
			e.emit(isa.OpBarrier, barrier, 0, int64(p.clusters))
		}
	}
	initial = e.begin(0)
	p.initial(e)
	p.emitSteps(e, 0, p.mainFrom, meet)
	p.end(e)
	main = e.begin(1)
	for i, entry := range p.rounds {
		e.round = i
		at := p.moveTo(entry)
		p.emitSteps(e, p.mainFrom, len(p.steps), meet)
		if p.barriers[len(p.steps)] {
			meet()
		}
		at()
	}
	for j := range p.clusters {
		e.cluster = j
		for k, t := range e.turns[j] {
			e.emit(isa.OpWrap, int64(k+1), t.step, t.size)
		}
		e.emit(isa.OpHalt)
	}
	return initial, main, nil
}

// moveTo moves inputs and outputs to where a batch has the entries of a round, until the
// function that it returns is called.
func (p *plan) moveTo(entry int) (back func()) {
	move := func(entry int64) {
		for _, list := range [2][]*tensor{p.inputs, p.outputs} {
			for _, t := range list {
				t.store.dram += p.entryBytes(t.store) * entry
			}
		}
	}
	move(int64(entry))
	return func() { move(-int64(entry)) }
}

// emitSteps emits the steps from one up to another, which begins no group.
func (p *plan) emitSteps(e *emitter, from, to int, meet func()) {
	for i := from; i < to; {
		s := p.steps[i]
		e.layer = s.layer
		if p.barriers[i] {
			meet()
		}
		for j := range p.clusters {
			e.cluster = j
			if s.group != nil {
				p.emitGroup(e, s.group)
			} else {
				p.emitStep(e, s)
			}
		}
		i = s.end() + 1
	}
	e.layer = -1
}

// initial emits what runs once but for states: constants and weights that stay.
func (p *plan) initial(e *emitter) {
	if p.resident && p.constBytes > 0 {
		e.cluster = 0
		e.emit(isa.OpLoad, 0, 0, 1, 0, 0, 1, 0, 0, p.constBytes)
		if p.clusters > 1 {
			e.emit(isa.OpSend, 0, 0, 1, 0, 0, 1, 0, 0, p.constBytes, 1, int64(p.clusters-1))
		}
	}
	for _, s := range p.steps {
		k, ok := s.kernel.(*product)
		if !ok {
			continue
		}
		e.layer = s.layer
		for _, q := range k.different {
			if q.streamed {
				continue
			}
			e.cluster = q.first
			for i := range q.chunks {
				for u := range q.chunks[i].units {
					e.loadWeights(q, &q.chunks[i], &q.chunks[i].units[u], k.w.form, q.chunks[i].units[u].ws, q.first, q.count)
				}
			}
		}
	}
	e.layer = -1
}

// end ends the init streams.
func (p *plan) end(e *emitter) {
	for j := range p.clusters {
		e.cluster = j
		if p.clusters > 1 {
			e.emit(isa.OpBarrier, 0, 0, int64(p.clusters))
		}
		e.emit(isa.OpHalt)
	}
}

// emitStep emits one step for the cluster at hand.
func (p *plan) emitStep(e *emitter, s *step) {
	j := e.cluster
	p.emitBorder(e, s)
	part := s.parts[j]
	if part.empty() {
		return
	}
	switch s.kernel.(type) {
	case *loader:
		if st := s.out.store; !st.spilled {
			e.transfer(isa.OpLoad, part, p.local(s.out, j), p.home(s.out), s.out.elem)
			p.send(e, s)
		}
		return
	case *storer:
		if t := s.in[0]; !t.store.spilled {
			e.transfer(isa.OpStore, part, p.home(t), p.local(t, j), t.elem)
		}
		return
	}
	p.emitConstants(e, s)
	if !p.emitAsBefore(e, s) {
		begin, start := len(e.stream().Insts), e.half[j]
		s.kernel.emit(e, part, p.turned(e, s, p.local(s.out, j), s.out.store.boxes[j]), p.operands(e, s, nil, nil))
		insts := e.stream().Insts
		e.before = emittedStep{s, j, insts[begin:len(insts):len(insts)], start, e.half[j]}
	}
	p.send(e, s)
}

// emittedStep is what a cluster emitted of a step.
type emittedStep struct {
	step    *step
	cluster int
	insts   []isa.Inst

	start, half int64 // accumulator half that is free before and after
}

// emitAsBefore emits a step with the instructions of the cluster before, where they
// are the same, and reports whether they are.
func (p *plan) emitAsBefore(e *emitter, s *step) bool {
	j, b := e.cluster, &e.before
	if s.alike == nil || !s.alike[j] || b.step != s || b.cluster != j-1 || len(s.blobs) > 0 && s.blobOf[j] != s.blobOf[j-1] {
		return false
	}
	if k, ok := s.kernel.(*product); ok && (k.parts[j] != k.parts[j-1] || k.parts[j].streamed || e.half[j] != b.start) {
		return false
	}
	e.again(b.insts)
	e.half[j], b.cluster = b.half, j
	return true
}

// emitBorder fills the border of a store before its first writer.
func (p *plan) emitBorder(e *emitter, s *step) {
	if s.out == nil {
		return
	}
	st := s.out.store
	if st.spilled || st.writers[0] != s {
		return
	}
	p.repeat(e, st, 0, 1, func(e *emitter) {
		b := st.boxes[e.cluster]
		for _, edge := range b.minus(whole(st.dims)) {
			e.fillBox(edge, dense(0, b, st.elem), st.elem, int64(st.fill))
		}
	})
}

// emitConstants loads the constants of a step unless they stay.
func (p *plan) emitConstants(e *emitter, s *step) {
	if b := s.blob(e.cluster); b != nil && !p.resident {
		e.emit(isa.OpLoad, s.blobAt, b.at, 1, 0, 0, 1, 0, 0, int64(len(b.data)))
	}
}

// operands returns the views of a step's operands on the cluster at hand, until it is
// asked again, and points e at its constants. In a group, q is the strip.
func (p *plan) operands(e *emitter, s *step, g *group, q *pass) []view {
	b := s.blob(e.cluster)
	if b != nil {
		e.params = b.at
		if !p.resident {
			e.params = s.blobAt
		}
	}
	e.direct = s.fromDRAM(g)
	e.src = slices.Grow(e.src[:0], len(s.in))[:len(s.in)]
	src := e.src
	for i, t := range s.in {
		k := -1
		if g != nil {
			k = g.buffer(t)
		}
		switch {
		case k >= 0:
			src[i] = g.bufs[k].view(t, q.holds[k], q.slot[k])
		case i == 1 && e.direct:
			src[i] = p.home(t)
		case t.store.constant():
			src[i] = dense(e.params+b.consts[i], whole(t.dims), t.elem)
		default:
			src[i] = p.local(t, e.cluster)
		}
	}
	return src
}

// local returns the view of a tensor in the scratchpad of cluster j.
func (p *plan) local(t *tensor, j int) view { return t.window(t.store.addr, t.store.boxes[j]) }

// home returns the view of a tensor in DRAM.
func (p *plan) home(t *tensor) view { return t.window(t.store.dram, whole(t.store.dims)) }

// place returns the view of a strip in its frame's coordinates.
func (b *stripBuffer) place(holds box, slot int) view {
	return dense(b.addr+int64(slot%b.count)*b.size, holds, b.st.elem)
}

// view returns the view of a tensor in a strip.
func (b *stripBuffer) view(t *tensor, holds box, slot int) view {
	v := b.place(holds, slot)
	if b.t == nil {
		for i := range v.lo {
			v.lo[i] -= t.off[i]
		}
	}
	return v
}

// emitGroup emits a group for the cluster at hand.
func (p *plan) emitGroup(e *emitter, g *group) {
	for k := g.first; k <= g.last; k++ {
		e.layer = p.steps[k].layer
		if k == g.last {
			p.emitBorder(e, p.steps[k])
		}
		p.emitConstants(e, p.steps[k])
	}
	ps := p.passes(g, e.cluster)
	if len(ps) == 0 {
		return
	}
	if g.first < g.last {
		e.ring[e.cluster].rewind()
	}
	last := p.steps[g.last]
	if g.chunkOuter {
		for c := range last.kernel.(*product).partOf(last.parts[e.cluster]).chunks {
			e.chunk = c
			p.emitPasses(e, g, ps)
		}
		e.chunk = -1
	} else {
		p.emitPasses(e, g, ps)
	}
	if !last.out.store.spilled {
		p.send(e, last)
	}
}

// emitPasses runs a group strip by strip: what the next one needs is loaded
// before one is computed, and the results of the one before are stored after.
func (p *plan) emitPasses(e *emitter, g *group, ps []pass) {
	none := pass{holds: make([]box, len(g.bufs)), slot: make([]int, len(g.bufs))}
	before := func(i int) *pass {
		if i == 0 {
			return &none
		}
		return &ps[i-1]
	}
	load := func(i int) {
		if i >= len(ps) {
			return
		}
		e.layer = p.steps[g.first].layer
		for k := range g.bufs {
			b := &g.bufs[k]
			if b.made || ps[i].fresh[k].empty() {
				continue
			}
			p.keep(e, b, k, before(i), &ps[i])
			if in := ps[i].fresh[k].and(b.whole()); !in.empty() {
				e.transfer(isa.OpLoad, in, b.place(ps[i].holds[k], ps[i].slot[k]), b.home(), b.st.elem)
			}
		}
	}
	store := func(i int) {
		s := p.steps[g.last]
		k := g.result
		if i < 0 || k < 0 {
			return
		}
		e.layer = s.layer
		b, out := &g.bufs[k], ps[i].holds[k]
		if e.chunk >= 0 {
			ch := s.kernel.(*product).partOf(s.parts[e.cluster]).chunks[e.chunk]
			out = out.along(3, s.out.off[3]+ch.c0, s.out.off[3]+ch.c0+ch.n)
		}
		e.transfer(isa.OpStore, out, p.turned(e, s, b.home(), b.whole()), b.place(ps[i].holds[k], ps[i].slot[k]), b.st.elem)
	}
	load(0)
	for i := range ps {
		q := &ps[i]
		load(i + 1)
		for n := g.first; n <= g.last; n++ {
			s := p.steps[n]
			e.layer = s.layer
			var dst view
			if k := g.resultBuffer(n, s.out); k < 0 {
				dst = p.turned(e, s, p.local(s.out, e.cluster), s.out.store.boxes[e.cluster])
			} else {
				if n < g.last && !q.fresh[k].empty() {
					p.keep(e, &g.bufs[k], k, before(i), q)
				}
				dst = g.bufs[k].view(s.out, q.holds[k], q.slot[k])
			}
			if out := q.out[n-g.first]; !out.empty() {
				s.kernel.emit(e, out, dst, p.operands(e, s, g, q))
			}
		}
		store(i - 1)
	}
	store(len(ps) - 1)
}

// keep copies into the place of a new strip what the one before holds of it, and
// fills the border of the rest.
func (p *plan) keep(e *emitter, b *stripBuffer, k int, old, q *pass) {
	to := b.place(q.holds[k], q.slot[k])
	for _, shared := range q.holds[k].minus(q.fresh[k]) {
		from := b.place(old.holds[k], old.slot[k])
		e.copyBox(shared.dims(), to.at(shared.lo), from.at(shared.lo), to.st, from.st, b.st.elem)
	}
	for _, edge := range q.fresh[k].minus(b.whole()) {
		e.fillBox(edge, to, b.st.elem, int64(b.st.fill))
	}
}

// send emits the sends of what the cluster at hand computed in s to those that
// need it, one for neighbours that take the same.
func (p *plan) send(e *emitter, s *step) {
	if !s.sends {
		return
	}
	st := s.out.store
	if _, ok := s.kernel.(*updater); ok { // by registers of the cluster
		p.sendFrom(e, s, st.addr)
		return
	}
	p.repeat(e, st, 1+slices.Index(st.writers, s), 2, func(e *emitter) { p.sendFrom(e, s, 0) })
}

// sendFrom is send where the store lies at an address.
func (p *plan) sendFrom(e *emitter, s *step, addr int64) {
	st := s.out.store
	own := s.out.inStore(s.parts[e.cluster])
	type group struct {
		first, count int
		what, box    box
	}
	var g group
	flush := func() {
		if g.count > 0 && !(g.count == 1 && g.first == e.cluster) {
			to, from := dense(addr, g.box, st.elem), dense(addr, st.boxes[e.cluster], st.elem)
			e.transfer(isa.OpSend, g.what, p.turned(e, s, to, g.box), p.turned(e, s, from, st.boxes[e.cluster]), st.elem, int64(g.first), int64(g.count))
		}
		g = group{}
	}
	for j := range p.clusters {
		if j == e.cluster && g.count > 0 && st.boxes[j] == g.box {
			g.count++ // the sender is left out, so the group may span it
			continue
		}
		if j == e.cluster || !own.meets(&st.got[j]) {
			flush()
			continue
		}
		what := own.and(st.got[j])
		if g.count > 0 && g.what == what && g.box == st.boxes[j] {
			g.count++
			continue
		}
		flush()
		g = group{j, 1, what, st.boxes[j]}
	}
	flush()
}
