package timing

import (
	"math"

	"situ/arch"
	"situ/emulator/effect"
)

// rates is a chip in the units of the model.
type rates struct {
	shape     effect.Shape
	periodPS  float64
	issuePS   int64
	clusters  int
	perDie    int
	dies      int
	meshCols  int
	meshRows  int
	hopPS     int64
	linkWidth int64 // bytes a cycle

	inputCycles, pipeline, weightPort int64
	shadow                            bool // arrays have a second set of weights

	spRead, spWrite                     int64 // bytes a cycle
	lanes, f32Lanes, macsPerLane, start int64
	special                             int64 // lane operations of exp, log, division …

	dramPSPerByte float64 // of one die's channels together
	dramLatency   int64
	linkPSPerByte float64
	linkLatency   int64
}

func ratesOf(c *arch.Chip) rates {
	r := rates{
		shape: effect.ShapeOf(c), periodPS: c.PeriodPS(),
		clusters: c.NumClusters(), perDie: int(c.ClustersPerDie.Int()), dies: int(c.Dies.Int()), meshCols: int(c.MeshColumns.Int()),
		linkWidth:   c.NoC.LinkBytes.Int(),
		inputCycles: c.InputCycles(), pipeline: c.Array.PipelineCycles.Int(), weightPort: c.WeightSRAM.PortBytes.Int(),
		shadow: c.Array.WeightSets.Int() > 1,
		spRead: c.Scratchpad.ReadBytes.Int(), spWrite: c.Scratchpad.WriteBytes.Int(),
		lanes: c.Vector.Lanes.Int(), f32Lanes: c.Vector.F32Lanes.Int(), macsPerLane: c.Vector.MACsPerLane.Int(),
		start: c.Vector.StartCycles.Int(), special: c.Vector.F32OpsPerSpecial.Int(),
		dramPSPerByte: 1000 / (c.DRAM.Sustained() / c.Dies.Value), dramLatency: int64(math.Round(c.DRAM.LatencyNS.Value * 1000)),
		linkPSPerByte: 1000 / c.DieLink.GBs.Value, linkLatency: int64(math.Round(c.DieLink.LatencyNS.Value * 1000)),
	}
	r.meshRows = (r.perDie + r.meshCols - 1) / r.meshCols
	r.issuePS = r.ps(c.IssueCycles.Int())
	r.hopPS = r.ps(c.NoC.HopCycles.Int())
	return r
}

// ps returns the time of some cycles in picoseconds, rounded.
func (r *rates) ps(cycles int64) int64 { return int64(math.Round(float64(cycles) * r.periodPS)) }

// ceilDiv returns a/b rounded up; hosts divide 32 bits in half the time of 64.
func ceilDiv(a, b int64) int64 {
	if n := a + b - 1; uint64(n|b) < 1<<32 {
		return int64(uint32(n) / uint32(b))
	}
	return (a + b - 1) / b
}
