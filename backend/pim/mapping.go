package pim

import (
	"situ/arch"
)

// Problem is the matrix product that one cluster computes for one layer: M input
// vectors of length K, N results each. In a grouped product the N columns fall
// into Groups with an input of their own.
type Problem struct {
	M, K, N    int64
	Groups     int64 // 1 for an ordinary product
	WeightBits int
	// Streamed weights come from DRAM during the inference; UnitTiles is then
	// the number of tiles of one core that arrive at a time.
	Streamed  bool
	UnitTiles int64
	// Written weights come from the scratchpad instead, see storew.
	Written bool
	// Lean prefers few weight bytes to little time.
	Lean bool
}

// Mapping says how a Problem runs on the cores of a cluster.
type Mapping struct {
	NTiles, KSplit, RSplit int64 // cores side by side along columns, K, and input vectors
	Chunks                 int64 // products one after the other, along N
	Strips                 int64 // and along M, so that sums fit the accumulators
	Rows                   int64 // input vectors of a strip
	Units                  int64 // and along K, when streamed weights do not fit at once
	CoreBytes              int64 // weight SRAM of each core
	DRAMBytes              int64 // weights read during one inference
	Cycles                 int64 // estimate for one inference
}

// Map chooses the mapping of the least estimated time. It reports false when
// the accumulators do not hold one input vector's sums over a single tile, or a
// core's weight SRAM not one tile.
func Map(c *arch.Chip, p Problem) (Mapping, bool) {
	cores := c.CoresPerCluster.Int()
	cols := c.Cols(p.WeightBits)
	perTile := cols // live columns of a tile
	tiles := ceilDiv(p.N, cols)
	if p.Groups > 1 {
		perTile = p.N / p.Groups
		tiles = p.Groups
		if perTile > cols { // each group is a product by itself
			tiles = ceilDiv(perTile, cols) * p.Groups
			perTile = cols
		}
	}
	ktiles := ceilDiv(p.K, c.Array.Rows.Int())
	var best Mapping
	found := false
	for nt := min(tiles, cores); nt >= 1; nt = nextSplit(tiles, nt) {
		for ks := min(ktiles, cores/nt); ks >= 1; ks = nextSplit(ktiles, ks) {
			rs := min(cores/(nt*ks), p.M)
			for _, r := range [2]int64{rs, 1} {
				m, ok := p.mapped(c, nt, ks, max(r, 1), ktiles, tiles, perTile)
				if ok && (!found || better(p, m, best)) {
					best, found = m, true
				}
				if rs == 1 {
					break
				}
			}
		}
	}
	return best, found
}

// nextSplit returns the next smaller number of parts that shortens n/parts
// rounded up, so that only useful splits are tried.
func nextSplit(n, parts int64) int64 {
	if parts <= 1 {
		return 0
	}
	return min(parts-1, ceilDiv(n, ceilDiv(n, parts)+1))
}

func better(p Problem, a, b Mapping) bool {
	if p.Lean && a.CoreBytes != b.CoreBytes {
		return a.CoreBytes < b.CoreBytes
	}
	if a.Cycles != b.Cycles {
		return a.Cycles < b.Cycles
	}
	return a.CoreBytes < b.CoreBytes
}

// mapped completes and estimates one choice.
func (p Problem) mapped(c *arch.Chip, nt, ks, rs, ktiles, tiles, perTile int64) (Mapping, bool) {
	tile := c.TileBytes(p.WeightBits)
	passes := ceilDiv(ktiles, ks)
	m := Mapping{NTiles: nt, KSplit: ks, RSplit: rs, Chunks: ceilDiv(tiles, nt), Units: 1}
	m.CoreBytes = m.Chunks * passes * tile
	n := min(nt*perTile, p.N)
	acc := accumulators(c)
	limit := acc / 2 / (4 * n)
	if limit < 1 {
		if limit = acc / (4 * n); limit < 1 {
			return m, false
		}
	}
	unitPasses := passes
	if p.Streamed {
		if p.UnitTiles < 1 {
			return m, false
		}
		m.Units = ceilDiv(passes, p.UnitTiles)
		unitPasses = min(passes, p.UnitTiles)
		m.CoreBytes = unitPasses * tile
	}
	kBytes := ceilDiv(p.K, passes)
	least := ceilDiv(p.M, limit)
	for _, more := range [4]int64{1, 2, 4, 8} {
		strips := min(least*more, p.M)
		rows := ceilDiv(p.M, strips)
		one := m.Units * MVMCycles(c, rows, rs, unitPasses, rows*kBytes, p.WeightBits)
		if unitPasses == 1 && m.Units == 1 {
			// The arrays keep the weights from strip to strip.
			one -= tileCycles(c, p.WeightBits) * (strips - 1) / strips
		}
		rq := RequantCycles(c, rows, n)
		groups := m.Chunks * strips
		// Requantisation of a group overlaps the product of the next.
		t := groups*max(one, rq) + min(one, rq) + groups*(2+m.Units)*c.IssueCycles.Int()
		var dram int64
		if p.Streamed {
			dram = m.Chunks * nt * ktiles * tile
			if m.Units > 1 {
				dram *= strips
			}
			if p.Written {
				t = max(t, writeCycles(c, dram))
			} else {
				t = max(t, dramCycles(c, dram))
			}
		}
		if m.Strips == 0 || t < m.Cycles {
			m.Strips, m.Rows, m.Cycles, m.DRAMBytes = strips, rows, t, dram
		}
	}
	return m, true
}
