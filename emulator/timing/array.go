package timing

import "situ/backend/pim/isa"

// arrays is the state of a cluster's compute-in-memory arrays, which work
// together. A product runs passes; in each, every core used loads its tile and
// then streams its share of the input vectors. With a second set of weights the
// load of a pass overlaps the streaming of the one before.
type arrays struct {
	loaded     int64 // end of the last load
	last, prev int64 // end of the last streaming and of that before
	held       tiles // what the arrays hold after a product of one pass
}

// tiles identifies the weights of a product of one pass.
type tiles struct{ ws, wbits, shifts, ktiles, ntiles, ksplit, rsplit int64 }

// mvmCost is what a product asks of the arrays.
type mvmCost struct {
	tiles          tiles
	passes         int64
	load           int64 // cycles a pass
	stream, tail   int64 // cycles of a pass and of the last one
	m, k, n        int64
	reads, latches int64 // scratchpad reads and input latch writes, bytes
	tileBytes      int64
	slots          int64
	shifts         int64 // of sums of blocks
}

func (r *rates) mvmCostOf(a []int64) mvmCost {
	m := a[isa.MVMRowsY] * a[isa.MVMRowsX]
	k := a[isa.MVMSegNz] * a[isa.MVMSegNy] * a[isa.MVMSegNx] * a[isa.MVMSegLen]
	ntiles, ksplit, wbits := a[isa.MVMNtiles], a[isa.MVMKsplit], a[isa.MVMWbits]
	rows := a[isa.MVMRow0] + k // of the tiles, from the first tile's on
	ktiles := ceilDiv(rows, r.shape.Rows)
	v := mvmCost{
		tiles:  tiles{a[isa.MVMWs], wbits, a[isa.MVMShifts], ktiles, ntiles, ksplit, a[isa.MVMRsplit]},
		passes: ceilDiv(ktiles, ksplit), m: m, k: k, n: a[isa.MVMN],
		tileBytes: r.shape.TileBytes(wbits, a[isa.MVMShifts]), slots: m * ktiles * r.shape.Rows * ntiles * r.shape.ArrayCols(wbits),
		latches: m * k * ntiles,
	}
	if a[isa.MVMShifts] != 0 {
		v.shifts = m * v.n * (ceilDiv(rows, r.shape.ShiftRows) - a[isa.MVMRow0]/r.shape.ShiftRows)
	}
	groups := int64(1)
	if a[isa.MVMNSstep] != 0 {
		groups = ntiles
	}
	v.reads = m * k * groups
	v.load = ceilDiv(v.tileBytes, r.weightPort)
	share := ceilDiv(m, a[isa.MVMRsplit]) * r.inputCycles
	perPass := ksplit * r.shape.Rows
	v.stream = max(share, ceilDiv(m*min(perPass, k)*groups, r.spRead))
	v.tail = max(share, ceilDiv(m*min(rows-(v.passes-1)*perPass, k)*groups, r.spRead))
	return v
}

// run books a product whose weights and operands are ready at the given times.
// It returns when streaming starts and ends.
func (s *arrays) run(v *mvmCost, r *rates, weights, operands int64) (start, end int64) {
	load, stream := r.ps(v.load), r.ps(v.stream)
	reuse := v.passes == 1 && s.held == v.tiles
	for p := range v.passes {
		if p == v.passes-1 {
			stream = r.ps(v.tail)
		}
		if !reuse {
			free := s.last
			if r.shadow {
				free = s.prev
			}
			s.loaded = max(s.loaded, free, weights) + load
		}
		at := max(s.loaded, s.last, operands)
		if reuse {
			at = max(s.last, operands)
		}
		if p == 0 {
			start = at
		}
		s.prev, s.last = s.last, at+stream
	}
	s.held = tiles{}
	if v.passes == 1 {
		s.held = v.tiles
	}
	return start, s.last
}

// reuses reports whether the arrays already hold the product's weights.
func (s *arrays) reuses(v *mvmCost) bool { return v.passes == 1 && s.held == v.tiles }

// overwrite forgets held tiles when [lo, hi) of the weight SRAM is written.
func (s *arrays) overwrite(lo, hi, tile int64) {
	if s.held.ksplit > 0 && s.held.ws < hi && lo < s.held.ws+ceilDiv(s.held.ktiles, s.held.ksplit)*tile {
		s.held = tiles{}
	}
}

// count adds a product to counters.
func (v *mvmCost) count(c *Counters, accumulate, reuse bool) {
	macs := v.m * v.k * v.n
	if v.tiles.wbits == 4 {
		c.MACsInt4 += macs
	} else {
		c.MACs += macs
	}
	c.ArraySlots += v.slots
	c.BlockShifts += v.shifts
	if reuse {
		c.ArrayReuse++
	} else {
		weights := v.tiles.ktiles * v.tiles.ntiles * v.tiles.rsplit * v.tileBytes
		c.ArrayLoads += v.passes
		c.ArrayWrite += weights
		c.WeightRead += weights
	}
	c.InputLatch += v.latches
	c.SPRead += v.reads
	sums := 4 * v.m * v.n
	c.AccWrite += sums * v.passes
	c.AccRead += sums * (v.passes - 1)
	if accumulate {
		c.AccRead += sums
	}
}
