package pim

import (
	"math"

	"situ/arch"
)

// Problem is the matrix product that one cluster computes for one layer: M input
// vectors of length K, N results each. In a grouped product the N columns fall
// into Groups with an input of their own.
type Problem struct {
	M, K, N int64
	Groups  int64 // 1 for an ordinary product
	Weights arch.Weights
	Slices  int64 // products of such weights that make up the whole, one after the other
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

// mapper finds mappings for one chip, whose figures it holds as integers. It finds
// each Problem's once: networks repeat shapes, and splits are compared over and
// over.
type mapper struct {
	chip  *arch.Chip
	found map[Problem]choice

	cores, rows, accumulators, issue, input, pipeline int64
	spRead, spWrite, lanes, start                     int64
	shadow                                            bool            // arrays have a second set of weights
	limit                                             int64           // mappings that take longer are not worth a look
	tiles                                             [2][2]tileShape // 8 and 4 bits, without blocks and with
}

// tileShape is an array for one width of weights.
type tileShape struct {
	cols, bytes int64
	load        int64 // cycles to load the weights
}

// choice is the best mapping of a problem, and whether there is any.
type choice struct {
	m  Mapping
	ok bool
}

// on makes c the chip.
func (mp *mapper) on(c *arch.Chip) {
	found := mp.found
	if found == nil {
		found = map[Problem]choice{}
	}
	clear(found)
	*mp = mapper{
		chip: c, found: found,
		cores: c.CoresPerCluster.Int(), rows: c.Array.Rows.Int(), accumulators: accumulators(c), issue: c.IssueCycles.Int(),
		input: c.InputCycles(), pipeline: c.Array.PipelineCycles.Int(),
		spRead: c.Scratchpad.ReadBytes.Int(), spWrite: c.Scratchpad.WriteBytes.Int(),
		lanes: c.Vector.Lanes.Int(), start: c.Vector.StartCycles.Int(),
		shadow: c.Array.WeightSets.Int() >= 2,
	}
	for _, w := range [4]arch.Weights{{Bits: 8}, {Bits: 4}, {Bits: 8, Blocks: true}, {Bits: 4, Blocks: true}} {
		if !w.Blocks || c.ShiftRows() > 0 {
			*mp.tile(w) = tileShape{c.Cols(w.Bits), c.TileBytes(w), tileCycles(c, w)}
		}
	}
}

func (mp *mapper) tile(w arch.Weights) *tileShape {
	return &mp.tiles[(8-w.Bits)/4][one(w.Blocks)]
}

// best returns the mapping of the least estimated time. It reports false when
// the accumulators do not hold one input vector's sums over a single tile, or a
// core's weight SRAM not one tile.
func (mp *mapper) best(p Problem) (Mapping, bool) {
	b, ok := mp.found[p]
	if !ok {
		mp.each(p, func(m *Mapping) {
			if !b.ok || better(&p, m, &b.m) {
				b = choice{*m, true}
				if !p.Lean {
					mp.limit = m.Cycles
				}
			}
		})
		mp.found[p] = b
	}
	return b.m, b.ok
}

// each calls f for every mapping of a problem that is worth a look: with as many
// cores as there are, and with one for the input vectors. f must not keep what it
// is given; it may lower mp.limit.
func (mp *mapper) each(p Problem, f func(*Mapping)) {
	mp.limit = math.MaxInt64
	t := mp.tile(p.Weights)
	tiles, perTile := t.along(&p)
	ktiles := ceilDiv(p.K, mp.rows)
	var m Mapping
	for nt := min(tiles, mp.cores); nt >= 1; nt = nextSplit(tiles, nt) {
		for ks := min(ktiles, mp.cores/nt); ks >= 1; ks = nextSplit(ktiles, ks) {
			rs := min(mp.cores/(nt*ks), p.M)
			for _, r := range [2]int64{rs, 1} {
				m = Mapping{NTiles: nt, KSplit: ks, RSplit: max(r, 1), Chunks: ceilDiv(tiles, nt), Units: p.Slices}
				if mp.complete(&p, &m, t, ktiles, perTile) {
					f(&m)
				}
				if rs == 1 {
					break
				}
			}
		}
	}
}

// along returns the tiles along the columns of a product, and the live columns of
// each.
func (t *tileShape) along(p *Problem) (tiles, perTile int64) {
	if p.Groups <= 1 {
		return ceilDiv(p.N, t.cols), t.cols
	}
	perTile = p.N / p.Groups
	if perTile > t.cols { // each group is a product by itself
		return ceilDiv(perTile, t.cols) * p.Groups, t.cols
	}
	return p.Groups, perTile
}

// least returns cycles in which no mapping runs a problem on some clusters, each of
// which does its share of it: all arrays multiply all the time, or all lanes
// requantise.
func (mp *mapper) least(p Problem, clusters int64) int64 {
	tiles, _ := mp.tile(p.Weights).along(&p)
	return max(p.M*tiles*ceilDiv(p.K, mp.rows)*p.Slices*mp.input/(mp.cores*clusters), p.M*p.N*opsRequant/(mp.lanes*clusters))
}

// nextSplit returns the next smaller number of parts that shortens n/parts
// rounded up, so that only useful splits are tried.
func nextSplit(n, parts int64) int64 {
	if parts <= 1 {
		return 0
	}
	return min(parts-1, ceilDiv(n, ceilDiv(n, parts)+1))
}

func better(p *Problem, a, b *Mapping) bool {
	if p.Lean && a.CoreBytes != b.CoreBytes {
		return a.CoreBytes < b.CoreBytes
	}
	if a.Cycles != b.Cycles {
		return a.Cycles < b.Cycles
	}
	return a.CoreBytes < b.CoreBytes
}

// complete fills in and estimates a mapping whose splits are given. It reports
// false when it is not possible.
func (mp *mapper) complete(p *Problem, m *Mapping, t *tileShape, ktiles, perTile int64) bool {
	passes := ceilDiv(ktiles, m.KSplit)
	m.CoreBytes = m.Chunks * passes * t.bytes * p.Slices
	n := min(m.NTiles*perTile, p.N)
	limit := mp.accumulators / 2 / (4 * n)
	if limit < 1 {
		if limit = mp.accumulators / (4 * n); limit < 1 {
			return false
		}
	}
	unitPasses := passes
	if p.Streamed {
		if p.UnitTiles < 1 {
			return false
		}
		m.Units = ceilDiv(passes, p.UnitTiles) * p.Slices
		unitPasses = min(passes, p.UnitTiles)
		m.CoreBytes = unitPasses * t.bytes
	}
	// No strips take less than the arrays for all vectors, nor less than the vector
	// unit for all sums.
	if m.Chunks*max(passes*p.Slices*ceilDiv(p.M, m.RSplit)*mp.input, ceilDiv(p.M*n*opsRequant, mp.lanes)) > mp.limit {
		return false
	}
	kBytes := ceilDiv(p.K, passes)
	least := ceilDiv(p.M, limit)
	for more := int64(1); more <= 8; more *= 2 {
		strips := min(least*more, p.M)
		if strips == m.Strips {
			break // there are no more
		}
		rows := ceilDiv(p.M, strips)
		one := m.Units * mp.mvmCycles(t, rows, m.RSplit, unitPasses, rows*kBytes)
		if unitPasses == 1 && m.Units == 1 {
			// The arrays keep the weights from strip to strip.
			one -= t.load * (strips - 1) / strips
		}
		one += (p.Slices - 1) * (ceilDiv(rows*n*opsShl, mp.lanes) + mp.start)
		rq := mp.requantCycles(rows, n)
		groups := m.Chunks * strips
		// Requantisation of a group overlaps the product of the next.
		cycles := groups*max(one, rq) + min(one, rq) + groups*(2+m.Units)*mp.issue
		var dram int64
		if p.Streamed {
			dram = m.Chunks * m.NTiles * ktiles * t.bytes * p.Slices
			if m.Units > 1 {
				dram *= strips
			}
			if p.Written {
				cycles = max(cycles, writeCycles(mp.chip, dram))
			} else {
				cycles = max(cycles, dramCycles(mp.chip, dram))
			}
		}
		if m.Strips == 0 || cycles < m.Cycles {
			m.Strips, m.Rows, m.Cycles, m.DRAMBytes = strips, rows, cycles, dram
		}
	}
	return true
}

// mvmCycles estimates one mvm instruction on m input vectors: passes of array
// loading and input streaming. inBytes are the distinct input bytes of one pass.
func (mp *mapper) mvmCycles(t *tileShape, m, rsplit, passes, inBytes int64) int64 {
	stream := max(ceilDiv(m, rsplit)*mp.input, ceilDiv(inBytes, mp.spRead))
	if mp.shadow {
		return mp.pipeline + t.load + passes*stream + (passes-1)*max(t.load-stream, 0)
	}
	return mp.pipeline + passes*(t.load+stream)
}

// requantCycles estimates the requantisation of rows of n sums.
func (mp *mapper) requantCycles(rows, n int64) int64 {
	return max(ceilDiv(rows*n*opsRequant, mp.lanes), rows*ceilDiv(n, mp.spWrite)) + mp.start
}
