package pim

import (
	"situ/backend/pim/isa"
)

// generate writes the streams of a plan in which everything has its place.
func (p *plan) generate() (initial, main []isa.Stream) {
	e := &emitter{chip: p.chip, half: make([]int64, p.clusters), ring: make([]ring, p.clusters), chunk: -1, layer: -1}
	for j := range e.ring {
		e.ring[j] = ring{base: p.ringBase, end: p.ringEnd}
	}
	e.streams = make([]isa.Stream, p.clusters)
	p.initial(e)
	initial = e.streams
	e.streams = make([]isa.Stream, p.clusters)
	barrier := int64(0)
	meet := func() {
		barrier++
		for j := range p.clusters {
			e.cluster = j
			e.emit(isa.OpBarrier, barrier, 0, int64(p.clusters))
		}
	}
	for i, s := range p.steps {
		e.layer = s.layer
		if p.barriers[i] {
			meet()
		}
		for j := range p.clusters {
			e.cluster = j
			p.emitStep(e, s)
		}
	}
	e.layer = -1
	if p.barriers[len(p.steps)] {
		meet()
	}
	for j := range p.clusters {
		e.cluster = j
		e.emit(isa.OpHalt)
	}
	return initial, e.streams
}

// initial emits what runs once: constants and weights that stay.
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
		for _, q := range different(k.parts) {
			if q.streamed {
				continue
			}
			e.cluster = q.first
			for i := range q.chunks {
				for u := range q.chunks[i].units {
					e.loadWeights(q, &q.chunks[i], &q.chunks[i].units[u], k.w.bits, q.chunks[i].units[u].ws, q.first, q.count)
				}
			}
		}
	}
	e.layer = -1
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
	if s.out != nil {
		if st := s.out.store; !st.spilled && st.writers[0] == s && !st.boxes[j].empty() {
			root := tensor{dims: st.dims, elem: st.elem, store: st}
			e.border(&root, st.boxes[j], dense(st.addr, st.boxes[j], st.elem))
		}
	}
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
	if b := s.blob(j); b != nil {
		e.params = b.at
		if !p.resident {
			e.params = s.blobAt
			e.emit(isa.OpLoad, s.blobAt, b.at, 1, 0, 0, 1, 0, 0, int64(len(b.data)))
		}
	}
	src := make([]view, len(s.in))
	for i, t := range s.in {
		if t.store.data != nil {
			src[i] = dense(e.params+s.blob(j).consts[i], whole(t.dims), t.elem)
		} else if !t.store.spilled {
			src[i] = p.local(t, j)
		}
	}
	var dst view
	if !s.out.store.spilled {
		dst = p.local(s.out, j)
	}
	switch {
	case len(s.strips.bufs) == 0:
		s.kernel.emit(e, part, dst, src)
	case s.strips.chunkOuter:
		for c := range s.kernel.(*product).partOf(part).chunks {
			e.chunk = c
			p.emitStrips(e, s, part, dst, src)
		}
		e.chunk = -1
	default:
		p.emitStrips(e, s, part, dst, src)
	}
	if !s.out.store.spilled {
		p.send(e, s)
	}
}

// local returns the view of a tensor in the scratchpad of cluster j.
func (p *plan) local(t *tensor, j int) view { return t.window(t.store.addr, t.store.boxes[j]) }

// home returns the view of a tensor in DRAM.
func (p *plan) home(t *tensor) view { return t.window(t.store.dram, whole(t.store.dims)) }

// emitStrips runs a step strip by strip: the next strips are loaded before one
// is computed, and the results of the one before are stored after.
func (p *plan) emitStrips(e *emitter, s *step, part box, dst view, src []view) {
	pieces := s.strips.cut(part)
	result := s.strips.buffer(-1)
	load := func(i int) {
		if i >= len(pieces) {
			return
		}
		for k := range s.strips.bufs {
			b := &s.strips.bufs[k]
			if b.operand < 0 {
				continue
			}
			t := s.in[b.operand]
			need := s.kernel.need(b.operand, pieces[i])
			v := dense(b.place(i), need, t.elem)
			for _, edge := range need.minus(whole(t.dims)) {
				e.fillBox(edge, v, t.elem, int64(t.store.fill))
			}
			if in := need.and(whole(t.dims)); !in.empty() {
				e.transfer(isa.OpLoad, in, v, p.home(t), t.elem)
			}
		}
	}
	store := func(i int) {
		if result == nil || i < 0 {
			return
		}
		out := pieces[i]
		if e.chunk >= 0 {
			ch := s.kernel.(*product).partOf(part).chunks[e.chunk]
			out = out.along(3, ch.c0, ch.c0+ch.n)
		}
		e.transfer(isa.OpStore, out, p.home(s.out), dense(result.place(i), pieces[i], s.out.elem), s.out.elem)
	}
	load(0)
	for i, out := range pieces {
		load(i + 1)
		for k := range s.strips.bufs {
			if b := &s.strips.bufs[k]; b.operand >= 0 {
				src[b.operand] = dense(b.place(i), s.kernel.need(b.operand, out), s.in[b.operand].elem)
			}
		}
		if result != nil {
			dst = dense(result.place(i), out, s.out.elem)
		}
		s.kernel.emit(e, out, dst, src)
		store(i - 1)
	}
	store(len(pieces) - 1)
}

// place returns where strip i lies.
func (b *stripBuffer) place(i int) int64 { return b.addr + int64(i%b.count)*b.size }

// send emits the sends of what the cluster at hand computed in s to those that
// need it, one for neighbours that take the same.
func (p *plan) send(e *emitter, s *step) {
	st := s.out.store
	own := s.out.inStore(s.parts[e.cluster])
	type group struct {
		first, count int
		what, box    box
	}
	var g group
	flush := func() {
		if g.count > 0 && !(g.count == 1 && g.first == e.cluster) {
			e.transfer(isa.OpSend, g.what, dense(st.addr, g.box, st.elem), dense(st.addr, st.boxes[e.cluster], st.elem), st.elem, int64(g.first), int64(g.count))
		}
		g = group{}
	}
	for j := range p.clusters {
		what := own.and(st.got[j])
		if j == e.cluster && g.count > 0 && st.boxes[j] == g.box {
			g.count++ // the sender is left out, so the group may span it
			continue
		}
		if j == e.cluster || what.empty() {
			flush()
			continue
		}
		if g.count > 0 && g.what == what && g.box == st.boxes[j] {
			g.count++
			continue
		}
		flush()
		g = group{j, 1, what, st.boxes[j]}
	}
	flush()
}
