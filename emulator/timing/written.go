package timing

import "situ/backend/pim/isa"

// storeW books the writing of activations into a cluster's own weight SRAMs. They
// pass where loadw's tiles do, as wide as a mesh link, behind the scratchpad's
// read port; a buffer of a tile turns columns into rows. It ends when the last
// tile is there.
func (m *model) storeW(k *cluster, a []int64, ready int64, c *Counters) (start, end int64) {
	regions := m.eff.Regions()
	ktiles, ntiles := m.shape.StoreWTiles(a)
	tile := m.shape.TileBytes(8)
	read := a[isa.StoreWK] * a[isa.StoreWN]
	cycles := max(ceilDiv(ktiles*ntiles*tile, m.linkWidth),
		matrixCycles(a[isa.StoreWK], a[isa.StoreWKStep], a[isa.StoreWN], a[isa.StoreWNStep], m.spRead))
	end = ready + m.ps(cycles)
	c.SPRead += read
	c.WeightWrite += ktiles * ntiles * tile * a[isa.StoreWRsplit]
	c.WeightStored += ktiles * ntiles * tile * a[isa.StoreWRsplit]
	k.arrays.overwrite(regions[1].Lo, regions[1].Hi, tile)
	k.free[isa.UnitDMA] = end
	k.sp.set(&regions[0], end)
	k.ws.set(&regions[1], end)
	k.busy[isa.UnitDMA] = interval{ready, end, read, 0}
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
