package pim

// This file estimates DRAM traffic, by which choices about spilling, fusing and
// streaming are made. What is the same for all choices is left out: inputs,
// outputs, and constants that stay.

// traffic returns the DRAM bytes of one inference on all clusters, and chooses
// for products in strips the order of loops that needs fewer.
func (p *plan) traffic() int64 {
	n := int64(0)
	for i := p.mainFrom; i < len(p.steps); {
		s := p.steps[i]
		for j := range p.clusters {
			switch {
			case s.parts[j].empty() && s.group == nil || s.isTransfer():
			case s.group == nil:
				n += p.weightTraffic(s, j, 1, s.parts[j], false) + s.directTraffic(nil, s.parts[j])
			default:
				n += p.groupTraffic(s.group, j)
			}
		}
		i = s.end() + 1
	}
	if !p.resident { // each cluster loads its own
		for _, s := range p.steps[p.mainFrom:] {
			for j := range p.clusters {
				if b := s.blob(j); b != nil && !s.parts[j].empty() {
					n += int64(len(b.data))
				}
			}
		}
	}
	return n
}

// groupTraffic returns the DRAM bytes of a group on cluster j.
func (p *plan) groupTraffic(g *group, j int) int64 {
	m := p.moves(g, j)
	if m.strips == 0 {
		return 0
	}
	ring := int64(0)
	for k := g.first; k <= g.last; k++ {
		ring += p.ringBytes(p.steps[k], j)
	}
	weights := func(chunkOuter bool) int64 {
		n := int64(0)
		for k := g.first; k <= g.last; k++ {
			times := int64(m.strips)
			if ring <= p.ringEnd-p.ringBase {
				times = 1
			}
			n += p.weightTraffic(p.steps[k], j, times, m.first[k-g.first], chunkOuter)
		}
		return n
	}
	n := weights(false) + m.in
	g.chunkOuter = false
	if k, ok := p.steps[g.last].kernel.(*product); ok && g.first == g.last && k.parts[j].streamed {
		chunks := int64(len(k.parts[j].chunks))
		if other := weights(true) + m.in*chunks; other < n {
			n, g.chunkOuter = other, true
		}
	}
	return n + m.out
}

// ringBytes returns what the streamed weights of a step take of each core's
// weight SRAM when all are there.
func (p *plan) ringBytes(s *step, j int) int64 {
	k, ok := s.kernel.(*product)
	if !ok || k.parts[j] == nil || !k.parts[j].streamed {
		return 0
	}
	return k.parts[j].coreBytes(p.chip.TileBytes(k.w.form))
}

// weightTraffic returns the weights a step reads from DRAM when it runs times
// over, each for a result like out. With chunkOuter all runs of a chunk follow
// each other.
func (p *plan) weightTraffic(s *step, j int, times int64, out box, chunkOuter bool) int64 {
	k, ok := s.kernel.(*product)
	if !ok || k.parts[j] == nil || !k.parts[j].streamed || out.empty() {
		return 0
	}
	q, tile := k.parts[j], p.chip.TileBytes(k.w.form)
	n := int64(0)
	for i := range q.chunks {
		ch := &q.chunks[i]
		again := times
		switch fits := ch.coreBytes(&q.m, tile) <= p.ringEnd-p.ringBase; {
		case !fits:
			again *= int64(len(k.strips(p.chip, q, ch, out)))
		case chunkOuter:
			again = 1
		}
		n += again * ch.dramBytes(tile)
	}
	return n
}
