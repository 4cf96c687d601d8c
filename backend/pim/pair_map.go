package pim

import "situ/arch"

// pairMapping says how one matrix product of two activations runs on a cluster.
type pairMapping struct {
	Mapping
	vector   bool  // on the vector unit, nothing else of Mapping counts
	tileCols int64 // of an array
	cols     int   // columns of a chunk
	rows     int   // vectors of a strip
	unitK    int   // part of K that is written at a time
	unit     int64 // bytes of each core's weight SRAM that it takes
	cycles   int64 // of one product, those before it being under way
	first    int64 // before the first
}

// chunks lists the columns [from, to) that are computed together.
func (m *pairMapping) chunks(n int) [][2]int {
	var out [][2]int
	for i := 0; i < n; i += m.cols {
		out = append(out, [2]int{i, min(i+m.cols, n)})
	}
	return out
}

// writtenShare is the part of a core's weight SRAM that activations may take, in
// two halves: while one is in use the other is written.
const writtenShare = 4

// mapping chooses how products of some rows of a run, by time.
func (k *pair) mapping(c *arch.Chip, rows int64) pairMapping {
	v := k.onVector(c, rows)
	if a, ok := k.inArrays(c, rows); ok && a.cycles <= v.cycles {
		return a
	}
	return v
}

// onVector maps products on the vector unit.
func (k *pair) onVector(c *arch.Chip, rows int64) pairMapping {
	n, length := int64(k.size[3]), int64(k.k)
	half := max(accumulators(c)/8, 1) // sums
	m := pairMapping{vector: true, cols: int(min(n, half)), unitK: k.k}
	m.rows = int(max(min(half/int64(m.cols), rows), 1))
	strips := ceilDiv(rows, int64(m.rows)) * ceilDiv(n, int64(m.cols))
	m.cycles = strips*(2*c.Vector.StartCycles.Int()+2*c.IssueCycles.Int()) + ceilDiv(rows*n*opsRequant, c.Vector.Lanes.Int()) +
		max(ceilDiv(rows*n*length, c.Vector.Lanes.Int()*c.Vector.MACsPerLane.Int()), rows*k.readCycles(c))
	return m
}

// readCycles is how long the scratchpad takes to read b once.
func (k *pair) readCycles(c *arch.Chip) int64 {
	n, length, port := int64(k.size[3]), int64(k.k), c.Scratchpad.ReadBytes.Int()
	if k.b.axis[2] == 3 && k.b.mult[2] == 1 { // K lies along the channels
		n, length = length, n
	}
	return length * ceilDiv(n, port)
}

// inArrays maps products in the arrays. It reports false when the accumulators do
// not hold the sums of a single vector, or the weight SRAM no tile beside theirs.
func (k *pair) inArrays(c *arch.Chip, rows int64) (pairMapping, bool) {
	tile := c.TileBytes(arch.Weights{Bits: 8})
	fit := max(c.WeightSRAM.Bytes.Int()/(2*writtenShare)/tile, 1)
	if 2*tile > c.WeightSRAM.Bytes.Int() {
		return pairMapping{}, false
	}
	m := pairMapping{tileCols: c.Cols(8)}
	ref := int64(0)
	if k.za != 0 {
		ref = 1
	}
	var ok bool
	m.Mapping, ok = k.maps.best(Problem{M: rows, K: int64(k.planes * k.k), N: int64(k.size[3]), Groups: 1, Weights: arch.Weights{Bits: 8}, Slices: 1,
		Streamed: true, Written: true, UnitTiles: fit})
	if !ok {
		return m, false
	}
	tiles := ceilDiv(int64(k.size[3]), m.tileCols)
	each := ceilDiv(tiles, ceilDiv(tiles, m.NTiles)) // tiles of a chunk, evenly
	m.cols = int(min(each*m.tileCols, int64(k.size[3])))
	sums := accumulators(c) / int64(4*m.cols)
	m.rows = int(min(sums/2-ref, m.Rows))
	if m.rows < 1 {
		m.rows = int(min(sums-ref, m.Rows))
	}
	passes := min(ceilDiv(ceilDiv(int64(k.planes*k.k), c.Array.Rows.Int()), m.KSplit), fit)
	m.unitK = k.k
	if m.Units > 1 {
		m.unitK = int(passes*m.KSplit*c.Array.Rows.Int()) / k.planes
	}
	m.unit = passes * tile
	m.cycles = m.Mapping.Cycles + ref*m.Chunks*m.Units*(passes*c.InputCycles()+c.IssueCycles.Int())
	if ref > 0 && passes > 1 { // and the weights once more
		m.cycles += m.Chunks * m.Units * passes * tileCycles(c, arch.Weights{Bits: 8})
	}
	m.first = writeCycles(c, m.Mapping.DRAMBytes/max(m.Chunks*m.Units, 1))
	return m, m.rows >= 1 && m.unitK >= 1
}

// writeCycles is how long activations take to the weight SRAMs.
func writeCycles(c *arch.Chip, bytes int64) int64 { return ceilDiv(bytes, c.NoC.LinkBytes.Int()) }

// gatherCycles estimates what it takes to bring the result of s, split in the given
// way, to a product that reads it and is split by its leading indices, by heads.
func (p *plan) gatherCycles(s *step, parts []box, r *step, k *pair) int64 {
	j := 1
	if k.size[1] == 1 {
		j = 0
	}
	if k.size[j] == 1 {
		return 0
	}
	axis, grain := k.out.axis[j], k.out.mult[j]
	most := int64(0)
	written := s.out.inStore(whole(s.out.dims))
	for c, piece := range whole(r.out.dims).pieces(axis, p.clusters, grain) {
		for i, t := range r.in {
			if t.store == s.out.store {
				want := r.needs(i, piece).and(written)
				most = max(most, want.numel()-want.and(s.out.inStore(parts[c])).numel())
			}
		}
	}
	if most == 0 {
		return 0
	}
	return ceilDiv(most*int64(s.out.elem), p.chip.NoC.LinkBytes.Int()) + meetCycles(p.chip, p.clusters)
}

// placePairs maps the products of two activations and returns what b takes of each
// core's weight SRAM.
func (p *plan) placePairs() int64 {
	most := int64(0)
	for _, s := range p.steps {
		if k, ok := s.kernel.(*pair); ok {
			_, rows := k.problem(k.out.indices(firstOf(s.parts), k.size))
			k.m = k.mapping(p.chip, rows)
			k.once = k.m.unitK >= k.k || rows <= int64(k.m.rows)
			if !k.m.vector {
				most = max(most, k.m.unit)
			}
		}
	}
	p.writtenHalf = most
	if 2*most > p.chip.WeightSRAM.Bytes.Int()/2 {
		p.writtenHalf = 0
		return most
	}
	return 2 * most
}

// fromDRAM reports whether a step is a product in the arrays whose second operand
// is in DRAM and goes from there to the weight SRAMs, not through the scratchpad.
// That is so unless g, the group it runs in or nil, has a buffer for the operand
// because another step reads it, too.
func (s *step) fromDRAM(g *group) bool {
	k, ok := s.kernel.(*pair)
	return ok && !k.m.vector && k.once && s.in[1].store.spilled && s.in[0].store != s.in[1].store &&
		(g == nil || g.buffer(s.in[1]) < 0)
}

// directTraffic returns the bytes that a step reads past the scratchpad for a part
// of its result.
func (s *step) directTraffic(g *group, out box) int64 {
	if !s.fromDRAM(g) {
		return 0
	}
	return s.kernel.need(1, out).numel() * int64(s.in[1].elem)
}

// locatePairs says where in the weight SRAMs the second operands go.
func (p *plan) locatePairs(at, bytes int64) {
	p.writtenAt, p.writtenEnd = at, at+bytes
	for _, s := range p.steps {
		if k, ok := s.kernel.(*pair); ok {
			k.at, k.half = at, p.writtenHalf
		}
	}
}

// count adds what no mapping of a product can avoid for some rows of a result.
func (k *pair) count(rows int64, w *Work) {
	sums := rows * int64(k.size[3])
	w.AccWrite += 4 * sums
	w.AccRead += 4 * sums
	w.SPRead += k.block() * int64(k.size[3])
	countResults(sums, k.raw, k.scales != nil, w)
}
