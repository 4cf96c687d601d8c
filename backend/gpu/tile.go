package gpu

import (
	"math"

	"situ/arch"
	gen "situ/backend/gpu/kernel"
)

// tileShapes are the tiles that a product on the tensor cores chooses from.
var tileShapes = []gen.Tile{
	{WarpsM: 2, WarpsN: 4, M16: 4, N8: 8, Stages: 3}, // 128×256
	{WarpsM: 2, WarpsN: 4, M16: 4, N8: 4, Stages: 3}, // 128×128
	{WarpsM: 4, WarpsN: 2, M16: 2, N8: 4, Stages: 3}, // 128×64
	{WarpsM: 2, WarpsN: 2, M16: 2, N8: 4, Stages: 3}, // 64×64
	{WarpsM: 4, WarpsN: 1, M16: 2, N8: 4, Stages: 3}, // 128×32
	{WarpsM: 2, WarpsN: 2, M16: 2, N8: 2, Stages: 3}, // 64×32
	{WarpsM: 2, WarpsN: 2, M16: 1, N8: 4, Stages: 3}, // 32×64
	{WarpsM: 2, WarpsN: 2, M16: 1, N8: 2, Stages: 3}, // 32×32
}

// What a choice costs that no figure of an architecture says, in cycles or
// registers: rough, since it only ranks tiles.
const (
	fillLatency  = 700 // from the first copy to the first product of a thread block, and its epilogue
	turnLatency  = 40  // a barrier and the first fragments of a turn
	baseRegs     = 56  // of a thread: addresses and fragments beside accumulators
	loadLatency  = 30  // of dependent loads that hit L1, per word and thread of the dp4a form
	wordInsts    = 6   // instructions of one dp4a with its loads and addresses
	maxResident  = 2048
	epilogueInst = 40 // instructions of one result's requantisation
)

// tensorTile chooses the tile with which a product takes the least time on the
// tensor cores of a GPU; ok is false when dot products in ordinary threads are
// expected to be faster, as for few rows or narrow groups.
func tensorTile(s gen.ConvTensor, a *arch.GPU) (best gen.Tile, ok bool) {
	m, k, og := s.M(), s.K(), s.O/s.Groups
	sms, lanes := a.SMs.Value, a.Cores.Lanes.Value
	outputs := float64(m) * float64(s.O)
	plain := outputs/(sms*lanes)*(float64((k+3)/4)*wordInsts+epilogueInst) + float64((k+3)/4)*loadLatency
	least := math.Inf(1)
	for _, t := range tileShapes {
		s.Tile = t
		if int64(s.Shared()) > a.Shared.Bytes.Int() {
			continue
		}
		rows, cols := float64(t.Rows()), float64(t.Cols())
		depth := float64((k + gen.TileK - 1) / gen.TileK * gen.TileK)
		blocks := math.Ceil(float64(m)/rows) * math.Ceil(float64(og)/cols) * float64(s.Groups)
		regs := float64(t.Threads()) * float64(4*t.M16*t.N8+baseRegs) * 4
		resident := max(1, math.Floor(min(a.Shared.Bytes.Value/float64(s.Shared()), a.Register.Bytes.Value/regs, maxResident/float64(t.Threads()))))
		perSM := math.Ceil(blocks / sms)
		warps := float64(t.WarpsM * t.WarpsN)
		busy := max(
			rows*cols*depth/a.Tensor.Int8MACs.Value,
			(rows+cols)*depth/a.L2.PortBytes.Value,
			(warps*float64(16*t.M16+8*t.N8)+rows+cols)*depth/a.Shared.BytesPerCycle.Value,
		) + rows*cols*epilogueInst/lanes
		waves := math.Ceil(perSM / resident)
		cycles := max(perSM*busy, waves*(fillLatency+depth/gen.TileK*turnLatency))
		if cycles < least {
			best, least = t, cycles
		}
	}
	return best, least < plain
}
