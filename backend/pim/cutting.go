package pim

// cutting is what a group needs when it is cut in some way.
type cutting struct {
	least int64 // bytes of its buffers for the first strips alone
	total int64 // and for all; what follows is known when it is not 0

	bufs []bufferSize
	one  groupMoves // of the first cluster
}

type bufferSize struct {
	size  int64
	count int
}

// groupMoves is what a group moves on one cluster.
type groupMoves struct {
	in, out int64 // bytes from and to DRAM, weights apart
	strips  int
	first   []box // part of its result that each step computes in the first strip that needs any
}

// cuttings are those of the groups of programs on a single cluster, where a step's
// part is its whole result. They follow from the graph and the alignment of
// buffers alone, and so are kept from chip to chip.
type cuttings struct {
	align  int64
	groups map[string]*groupCuttings
	n      int
}

// groupCuttings are those of a group, by its numbers of pieces: in alone, by axis and
// number, where a single axis is cut into few.
type groupCuttings struct {
	alone [4][]*cutting
	all   map[[4]int]*cutting
}

// mostAlone bounds the numbers of pieces of an axis that are looked up at once.
const mostAlone = 64

// at returns where the cutting into some pieces is, and sets it unless c is nil.
func (k *groupCuttings) at(n [4]int, c *cutting) *cutting {
	axis := 0
	for i := 1; i < len(n); i++ {
		if n[i] != 1 {
			axis = i
		}
	}
	if pieces := n[axis]; pieces < mostAlone && n[0]*n[1]*n[2]*n[3] == pieces {
		list := k.alone[axis]
		if c != nil {
			for len(list) <= pieces {
				list = append(list, nil)
			}
			list[pieces], k.alone[axis] = c, list
		}
		if pieces >= len(list) {
			return nil
		}
		return list[pieces]
	}
	if c != nil {
		k.all[n] = c
	}
	return k.all[n]
}

// maxCuttings bounds how many are kept.
const maxCuttings = 1 << 16

// of returns the known cuttings of a group.
func (c *cuttings) of(g *group, align int64) *groupCuttings {
	if c.groups == nil || c.align != align || c.n > maxCuttings {
		*c = cuttings{align: align, groups: map[string]*groupCuttings{}}
	}
	known := c.groups[g.key]
	if known == nil {
		known = &groupCuttings{all: map[[4]int]*cutting{}}
		c.groups[g.key] = known
	}
	return known
}

// cutting returns what a group needs as it is cut now; all is false when only the
// first strip is asked for.
func (p *plan) cutting(g *group, all bool) *cutting {
	if p.clusters > 1 {
		c := &cutting{}
		p.measure(g, c, all)
		return c
	}
	if g.known == nil {
		g.known = p.cuttings.of(g, p.align)
	}
	c := g.known.at(g.n, nil)
	if c == nil {
		c = g.known.at(g.n, &cutting{})
		p.cuttings.n++
		p.measure(g, c, false)
	}
	if all && c.total == 0 {
		p.measure(g, c, true)
	}
	return c
}

// measure goes through the strips of a group, of each cluster the first or all,
// and fills a cutting.
func (p *plan) measure(g *group, c *cutting, all bool) {
	bufs := make([]bufferSize, len(g.bufs))
	for b := range bufs {
		bufs[b].count = 1
	}
	memory := g.passMemory(2)
	prev, q := memory(), memory()
	for j := range p.clusters {
		part := p.steps[g.last].parts[j]
		n := g.pieces(&part)
		for i := range n {
			if i == 0 {
				clear(prev.holds)
				clear(prev.slot)
			} else if !all {
				break
			}
			p.strip(g, part, i, &prev, &q)
			for b := range bufs {
				buf := &g.bufs[b]
				bufs[b].size = max(bufs[b].size, roundUp(q.holds[b].numel()*int64(buf.st.elem), p.align))
				shared := i > 0 && q.slot[b] != prev.slot[b] && q.fresh[b] != q.holds[b]
				if shared || n > 1 && (!buf.made || buf.stored) {
					bufs[b].count = 2
				}
			}
			if j == 0 {
				c.one.add(p, g, i, &q)
			}
			prev, q = q, prev
		}
		if j == 0 {
			c.one.strips = n
		}
	}
	total := int64(0)
	for _, b := range bufs {
		total += b.size * int64(b.count)
	}
	if !all {
		c.one, c.least = groupMoves{}, total
		return
	}
	c.total, c.bufs = total, bufs
}

// add adds strip i.
func (m *groupMoves) add(p *plan, g *group, i int, q *pass) {
	for k := g.first; k <= g.last; k++ {
		m.in += p.steps[k].directTraffic(g, q.out[k-g.first])
	}
	for b := range g.bufs {
		n := q.fresh[b].and(g.bufs[b].whole()).numel() * int64(g.bufs[b].st.elem)
		switch {
		case g.bufs[b].stored:
			m.out += n
		case !g.bufs[b].made:
			m.in += n
		}
	}
	if i == 0 {
		m.first = append(m.first[:0], q.out...)
	}
	for k := range m.first {
		if m.first[k].empty() {
			m.first[k] = q.out[k]
		}
	}
}

// moves returns what a group moves on cluster j.
func (p *plan) moves(g *group, j int) groupMoves {
	if p.clusters == 1 {
		return p.cutting(g, true).one
	}
	part := p.steps[g.last].parts[j]
	m := groupMoves{strips: g.pieces(&part)}
	memory := g.passMemory(2)
	prev, q := memory(), memory()
	for i := range m.strips {
		p.strip(g, part, i, &prev, &q)
		m.add(p, g, i, &q)
		prev, q = q, prev
	}
	return m
}

// sizeBuffers sets the sizes of a group's buffers.
func (p *plan) sizeBuffers(g *group) {
	for b, need := range p.cutting(g, true).bufs {
		g.bufs[b].size, g.bufs[b].count = need.size, need.count
	}
}
