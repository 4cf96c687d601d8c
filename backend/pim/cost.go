package pim

import "situ/arch"

// The estimates of this file follow the emulator's model of time, less what
// depends on what other units do at the same time.

// Lane operations of the vector unit for one element.
const (
	opsShl     = 1
	opsRequant = 4
	opsAdd     = 6
	opsMul     = 5
	opsMulAdd  = 9
	opsLUT     = 1
	opsSoftmax = 6
	opsNorm    = 9
	opsNormRow = 8 // of a row
	opsMean    = 3 // behind the sum
)

// tileCycles is how long an array takes to load its weights.
func tileCycles(c *arch.Chip, w arch.Weights) int64 {
	return ceilDiv(c.TileBytes(w), c.WeightSRAM.PortBytes.Int())
}

// vectorCycles is the time of an instruction of the vector unit: lane
// operations, or cycles of the scratchpad's read or write port, whichever take
// longer.
func vectorCycles(c *arch.Chip, ops, read, write int64) int64 {
	return max(ceilDiv(ops, c.Vector.Lanes.Int()), read, write) + c.Vector.StartCycles.Int()
}

// f32Cycles is vectorCycles for float32 operations.
func f32Cycles(c *arch.Chip, elems, ops int64) int64 {
	return ceilDiv(elems*ops, c.Vector.F32Lanes.Int()) + c.Vector.StartCycles.Int()
}

// runCycles is how long a port of some bytes a cycle takes for box b of a tensor
// of dims d: the channels of a place are a run, and runs of all channels one
// behind the other are one.
func runCycles(b box, d dims, elem, width int64) int64 {
	if b.ext(3) == d[3] {
		return ceilDiv(b.numel()*elem, width)
	}
	places := int64(b.ext(0)) * int64(b.ext(1)) * int64(b.ext(2))
	return places * ceilDiv(int64(b.ext(3))*elem, width)
}

// places returns the number of elements of b but for channels, and those.
func places(b box) (n, channels int64) {
	return int64(b.ext(0)) * int64(b.ext(1)) * int64(b.ext(2)), int64(b.ext(3))
}

// dramCycles returns the cycles that the channels of one die take for n bytes.
func dramCycles(c *arch.Chip, n int64) int64 {
	perDie := c.DRAM.Sustained() / c.Dies.Value * 1e9
	return int64(float64(n) / perDie * c.ClockMHz.Value * 1e6)
}

// accumulators returns the accumulator bytes of a cluster.
func accumulators(c *arch.Chip) int64 {
	return c.CoresPerCluster.Int() * c.Accumulator.Bytes.Int()
}

// linkCycles returns the cycles a link between dies takes for n bytes.
func linkCycles(c *arch.Chip, n int64) int64 {
	return int64(float64(n) / (c.DieLink.GBs.Value * 1e3) * c.ClockMHz.Value)
}

// meetCycles estimates what it takes to have data sent and meet at a barrier,
// apart from the data.
func meetCycles(c *arch.Chip, clusters int) int64 {
	t := 4 * c.ClustersPerDie.Int() * c.NoC.HopCycles.Int()
	if int64(clusters) > c.ClustersPerDie.Int() {
		t += int64(2 * c.DieLink.LatencyNS.Value * c.ClockMHz.Value / 1e3)
	}
	return t
}
