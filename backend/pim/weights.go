package pim

import (
	"cmp"
	"fmt"
	"slices"

	"situ/arch"
	"situ/backend/pim/isa"
)

// placeWeights gives every product its parts and their places in the weight
// SRAMs. It reports false when they do not all fit and the plan is not to stream.
func (p *plan) placeWeights() (bool, error) {
	written := p.placePairs()
	size := p.chip.WeightSRAM.Bytes.Int() - written
	var products []*step
	for _, s := range p.steps {
		if k, ok := s.kernel.(*product); ok {
			if err := p.makeParts(s, k, 0); err != nil {
				return false, err
			}
			products = append(products, s)
		}
	}
	top := make([]int64, p.clusters)
	reside := func(s *step, limit int64) bool {
		k := s.kernel.(*product)
		next := append(p.tops[:0], top...)
		for _, q := range k.different {
			n := q.coreBytes(p.chip.TileBytes(k.w.form))
			at := int64(0)
			for j := q.first; j < q.first+q.count; j++ {
				at = max(at, next[j])
			}
			if at+n > limit {
				return false
			}
			for j := q.first; j < q.first+q.count; j++ {
				next[j] = at + n
			}
			k.place(q, at, p.chip.TileBytes(k.w.form))
		}
		top, p.tops = next, top
		return true
	}
	all := true
	for _, s := range products {
		all = all && reside(s, size)
	}
	p.ringBase, p.ringEnd = slices.Max(top), slices.Max(top)
	defer func() { p.locatePairs(p.ringEnd, written) }()
	if all || !p.stream {
		return all, nil
	}
	// The smallest layers stay in a share of the memory; the others are streamed
	// through the rest.
	slices.SortStableFunc(products, func(a, b *step) int { return cmp.Compare(p.partBytes(a), p.partBytes(b)) })
	clear(top)
	for i, s := range products {
		if reside(s, int64(float64(size)*p.share)) {
			continue
		}
		p.ringBase, p.ringEnd = slices.Max(top), size
		ring := max(p.ringEnd-p.ringBase, 1) // of no room at all nothing is made resident
		for _, s := range products[i:] {
			if err := p.makeParts(s, s.kernel.(*product), ring); err != nil {
				return false, err
			}
		}
		break
	}
	return true, nil
}

// partBytes returns what the largest part of a product takes of a core's weight
// SRAM.
func (p *plan) partBytes(s *step) int64 {
	k := s.kernel.(*product)
	n := int64(0)
	for _, q := range k.different {
		n = max(n, q.coreBytes(p.chip.TileBytes(k.w.form)))
	}
	return n
}

// makeParts maps a product on the cores of each cluster. A ring of more than 0
// bytes a core means that weights are streamed through it.
func (p *plan) makeParts(s *step, k *product, ring int64) error {
	k.parts, k.different = slices.Grow(k.parts[:0], p.clusters)[:p.clusters], nil
	clear(k.parts)
	tile := p.chip.TileBytes(k.w.form)
	for j, out := range s.parts {
		if out.empty() {
			continue
		}
		if j > 0 { // neighbours with the same channels share weights
			if q := k.parts[j-1]; q != nil && q.c0 == out.lo[3] && q.c1 == out.hi[3] {
				k.parts[j] = q
				q.count++
				continue
			}
		}
		pr := k.problem(out)
		pr.Lean = p.lean
		m, ok := Mapping{}, false
		tiles := int64(0)
		if ring > 0 {
			// Half of the ring leaves room for the next weights to arrive; all of it
			// sometimes saves reading them again.
			pr.Streamed = true
			for _, n := range [2]int64{ring / tile / 2, ring / tile} {
				pr.UnitTiles = n
				if m2, ok2 := p.maps.best(pr); ok2 && (!ok || m2.Cycles < m.Cycles) {
					m, ok, tiles = m2, true, n
				}
			}
		} else {
			m, ok = p.maps.best(pr)
		}
		if !ok {
			return fmt.Errorf("%s %q does not fit %s: one input vector's sums need %d bytes of the %d of a cluster's accumulators, one tile of weights %d of the %d of a core's weight SRAM",
				p.layers[s.layer].Op, p.layers[s.layer].Name, p.chip.Name, 4*min(k.cols, out.ext(3)), accumulators(p.chip), tile, p.chip.WeightSRAM.Bytes.Int())
		}
		if n := m.Chunks * m.Strips * m.Units; n > maxInsts {
			return fmt.Errorf("%s %q takes %d products of the arrays' size on %s, more than a program can hold", p.layers[s.layer].Op, p.layers[s.layer].Name, n, p.chip.Name)
		}
		q := k.makePart(out, m, tiles)
		q.streamed = ring > 0
		q.first, q.count = j, 1
		k.parts[j] = q
	}
	return nil
}

// place gives the units of a resident part their addresses.
func (k *product) place(q *part, at, tile int64) {
	for i := range q.chunks {
		for j := range q.chunks[i].units {
			u := &q.chunks[i].units[j]
			u.ws = at
			at += ceilDiv(int64(u.ktiles), q.m.KSplit) * tile
		}
	}
}

// ring is the weight SRAM through which weights are streamed, the same range of
// every core of a cluster.
type ring struct {
	base, end, next int64
	held            []held // oldest first
}

type held struct {
	u        *unit
	at, size int64
}

// rewind makes the next unit go to the start, so that as many as fit stay.
func (r *ring) rewind() { r.next = r.base }

// find returns where a unit lies, if it is there.
func (r *ring) find(u *unit) (int64, bool) {
	for _, h := range r.held {
		if h.u == u {
			return h.at, true
		}
	}
	return 0, false
}

// take makes room for a unit and returns its address.
func (r *ring) take(u *unit, size int64) int64 {
	if r.next+size > r.end || r.next < r.base {
		r.next = r.base
	}
	at := r.next
	r.held = slices.DeleteFunc(r.held, func(h held) bool { return h.at < at+size && at < h.at+h.size })
	r.held = append(r.held, held{u, at, size})
	r.next = at + size
	return at
}

// weights returns the weight SRAM address of a unit, after emitting its load
// when it is streamed and not there.
func (e *emitter) weights(q *part, ch *chunk, u *unit, form arch.Weights) int64 {
	if !q.streamed {
		return u.ws
	}
	r := &e.ring[e.cluster]
	if at, ok := r.find(u); ok {
		return at
	}
	at := r.take(u, ceilDiv(int64(u.ktiles), q.m.KSplit)*e.chip.TileBytes(form))
	e.loadWeights(q, ch, u, form, at, e.cluster, 1)
	return at
}

func (e *emitter) loadWeights(q *part, ch *chunk, u *unit, form arch.Weights, at int64, first, count int) {
	e.emit(isa.OpLoadW, at, u.dram, int64(u.ktiles), int64(ch.tiles), q.m.KSplit, q.m.RSplit, int64(form.Bits), int64(first), int64(count), one(form.Blocks))
}

// one returns 1 for true.
func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
