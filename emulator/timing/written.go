package timing

import (
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/sequence"
)

// storeW books the writing of activations into a cluster's own weight SRAMs, from
// its scratchpad or from DRAM. They pass where loadw's tiles do, as wide as a mesh
// link, and a buffer of a tile turns columns into rows. It ends when the last tile
// is there.
func (m *model) storeW(id int, st *sequence.Step, regions []effect.Region, ready int64, c *Counters) (start, end int64) {
	k, a := &m.clusters[id], st.Args
	ktiles, ntiles := m.shape.StoreWTiles(a)
	tile := m.shape.TileBytes(8, 0)
	read, written := a[isa.StoreWK]*a[isa.StoreWN], ktiles*ntiles*tile*a[isa.StoreWRsplit]
	cycles := ceilDiv(ktiles*ntiles*tile, m.linkWidth)
	matrix := func(width int64) int64 {
		return matrixCycles(a[isa.StoreWK], a[isa.StoreWKStep], a[isa.StoreWN], a[isa.StoreWNStep], width)
	}
	if st.Op == isa.OpStoreW {
		end = ready + m.ps(max(cycles, matrix(m.spRead)))
		c.SPRead += read
		k.free[isa.UnitDMA] = end
		k.sp.set(&regions[0], end)
		k.busy[isa.UnitDMA] = interval{ready, end, read, 0}
	} else {
		m.to.first, m.to.count, m.to.skip, m.latest = id, 1, -1, 0
		k.free[isa.UnitDMA] = m.net.fromDRAM(read, max(cycles, matrix(m.linkWidth)), m.dieOf(a[isa.LoadASrc]), ready, &m.to, c)
		c.WeightFetched += read
		end = m.latest
	}
	c.WeightWrite += written
	c.WeightStored += written
	k.arrays.overwrite(regions[1].Lo, regions[1].Hi, tile)
	k.ws.set(&regions[1], end)
	return ready, end
}

// matrixCycles is how long a port of some bytes a cycle takes for a matrix of
// bytes, whose columns or rows are runs.
func matrixCycles(k, kStep, n, nStep, width int64) int64 {
	if kStep == 1 {
		return runCycles(1, 0, n, nStep, k, width)
	}
	if nStep == 1 {
		return runCycles(1, 0, k, kStep, n, width)
	}
	return k * n
}

// dotCost is the cost of dot: every vector of a meets the whole of b.
func (r *rates) dotCost(a []int64) vectorCost {
	m, k, n := a[isa.DotRowsY]*a[isa.DotRowsX], a[isa.DotK], a[isa.DotN]
	return vectorCost{
		macs: m * k * n, spRead: m*k + m*k*n, accWrite: 4 * m * n,
		readCycles: m * matrixCycles(k, a[isa.DotKStep], n, a[isa.DotNStep], r.spRead),
	}
}
