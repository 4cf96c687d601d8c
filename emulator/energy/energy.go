// Package energy turns the counters of a run into joules by the table of the
// architecture. Counters say what happened; this package alone knows what it
// costs.
//
// To charge for something new: count it in emulator/timing, give it a figure in
// arch, and add its product to Of.
package energy

import (
	"situ/arch"
	"situ/emulator/timing"
)

// Joules is energy by how far data travelled.
type Joules struct {
	Total    float64 `json:"total"`
	Compute  float64 `json:"compute"`  // multiply-accumulates in arrays, vector unit operations
	Register float64 `json:"register"` // arrays written, input latches, accumulators
	SRAM     float64 `json:"sram"`     // weight SRAMs and scratchpads
	NoC      float64 `json:"noc"`
	DRAM     float64 `json:"dram"`
	Link     float64 `json:"link"`    // die to die
	Network  float64 `json:"network"` // card to card: none on one card
	Static   float64 `json:"static"`  // static power × time
}

// Of returns the energy of counted work that took ps picoseconds. Array
// multiply-accumulates are charged for live rows and columns only: the rest of
// a tile holds zeros, and idle rows and columns do not switch.
func Of(n *timing.Counters, ps int64, c *arch.Chip) Joules {
	const femto, bits = 1e-15, 8
	j := Joules{
		Compute: femto * (float64(n.MACs)*c.Array.MACEnergyFJ.Value + float64(n.MACsInt4)*c.Array.MACInt4EnergyFJ.Value +
			float64(n.BlockShifts)*c.Array.ShiftEnergyFJ.Value +
			float64(n.VectorMACs)*c.Vector.MACEnergyFJ.Value + float64(n.VectorOps)*c.Vector.OpEnergyFJ.Value +
			float64(n.FloatOps)*c.Vector.F32OpEnergyFJ.Value),
		Register: femto * bits * (float64(n.ArrayWrite)*c.Array.LoadEnergyFJBit.Value + float64(n.InputLatch)*c.Array.InputEnergyFJBit.Value +
			float64(n.AccRead+n.AccWrite)*c.Accumulator.EnergyFJBit.Value),
		SRAM: femto * bits * (float64(n.WeightRead)*c.WeightSRAM.ReadEnergyFJBit.Value + float64(n.WeightWrite)*c.WeightSRAM.WriteEnergyFJ.Value +
			float64(n.SPRead)*c.Scratchpad.ReadEnergyFJBit.Value + float64(n.SPWrite)*c.Scratchpad.WriteEnergyFJBit.Value),
		NoC:    femto * bits * float64(n.NoCByteHops) * c.NoC.EnergyFJBitHop.Value,
		DRAM:   femto * bits * float64(n.DRAMRead+n.DRAMWrite) * c.DRAM.EnergyFJBit.Value,
		Link:   femto * bits * float64(n.Link) * c.DieLink.EnergyFJBit.Value,
		Static: c.Power.StaticW.Value * float64(ps) * 1e-12,
	}
	j.Total = j.Compute + j.Register + j.SRAM + j.NoC + j.DRAM + j.Link + j.Network + j.Static
	return j
}
