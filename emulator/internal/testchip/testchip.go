// Package testchip holds a small chip and a program builder for the emulator's
// tests.
package testchip

import (
	"situ/arch"
	"situ/backend/pim/isa"
)

func fig(v float64) arch.Figure { return arch.Figure{Value: v, Source: "test", Confidence: "A"} }

// New returns a chip of dies × clustersPerDie clusters of four cores of 16×8
// (4-bit: 16×16) arrays with a shifter for each 8 rows, meshes two wide, with round figures at 1 GHz.
func New(dies, clustersPerDie int) *arch.Chip {
	return &arch.Chip{
		Name: "test", Kind: "pim", ClockMHz: fig(1000), Dies: fig(float64(dies)), ClustersPerDie: fig(float64(clustersPerDie)),
		MeshColumns: fig(float64(min(2, clustersPerDie))), IssueCycles: fig(1), CoresPerCluster: fig(4),
		Array: arch.Array{Rows: fig(16), Cols: fig(8), ColsInt4: fig(16), InputBitsPerCycle: fig(2), WeightSets: fig(1), PipelineCycles: fig(5),
			MACEnergyFJ: fig(100), MACInt4EnergyFJ: fig(50), LoadEnergyFJBit: fig(10), InputEnergyFJBit: fig(10),
			ShiftRows: fig(8), ShiftEnergyFJ: fig(40)},
		WeightSRAM:  arch.WeightSRAM{Bytes: fig(1 << 14), PortBytes: fig(16), ReadEnergyFJBit: fig(20), WriteEnergyFJ: fig(30)},
		Accumulator: arch.Accumulator{Bytes: fig(1 << 12), EnergyFJBit: fig(5)},
		Scratchpad:  arch.Scratchpad{Bytes: fig(1 << 16), ReadBytes: fig(32), WriteBytes: fig(16), ReadEnergyFJBit: fig(40), WriteEnergyFJBit: fig(50)},
		Vector: arch.Vector{Lanes: fig(16), F32Lanes: fig(4), StartCycles: fig(3), OpEnergyFJ: fig(200), F32OpEnergyFJ: fig(600),
			MACEnergyFJ: fig(150), MACsPerLane: fig(4), F32OpsPerSpecial: fig(10)},
		NoC:     arch.NoC{LinkBytes: fig(8), HopCycles: fig(2), EnergyFJBitHop: fig(100)},
		DieLink: arch.Link{GBs: fig(4), LatencyNS: fig(50), EnergyFJBit: fig(500)},
		DRAM:    arch.DRAM{Bytes: fig(1 << 30), ChannelsPerDie: fig(1), GBs: fig(float64(2 * dies)), Ceiling: fig(1), LatencyNS: fig(100), EnergyFJBit: fig(4000)},
		Power:   arch.Power{StaticW: fig(0.01), TDPW: fig(1)},
	}
}

// Program returns an empty program for a chip that may use all of its memories
// and, behind its constants, dram bytes of DRAM.
func Program(c *arch.Chip, consts []byte, dram int64) *isa.Program {
	return &isa.Program{
		Model: "test", Arch: c.Name, Fingerprint: c.Fingerprint(), Consts: consts, DRAMBytes: int64(len(consts)) + dram,
		ScratchpadBytes: c.Scratchpad.Bytes.Int(), AccumulatorBytes: c.Accumulator.Bytes.Int() * c.CoresPerCluster.Int(),
		WeightSRAMBytes: c.WeightSRAM.Bytes.Int(),
		Init:            make([]isa.Stream, c.NumClusters()), Main: make([]isa.Stream, c.NumClusters()),
	}
}

// Emit appends an instruction of layer −1 to a stream.
func Emit(s *isa.Stream, op isa.Op, args ...int64) { EmitLayer(s, -1, op, args...) }

// EmitLayer appends an instruction to a stream.
func EmitLayer(s *isa.Stream, layer int32, op isa.Op, args ...int64) {
	s.Insts = append(s.Insts, isa.Inst{Op: op, Args: args})
	s.Layer = append(s.Layer, layer)
}
