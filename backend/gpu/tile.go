package gpu

import (
	"math"

	"situ/arch"
	gen "situ/backend/gpu/kernel"
)

// tileShapes are the tiles that a product on the tensor cores chooses from.
var tileShapes = []gen.Tile{
	{WarpsM: 2, WarpsN: 4, M16: 4, N8: 8, Stages: 3}, // 128×256
	{WarpsM: 4, WarpsN: 2, M16: 4, N8: 8, Stages: 3}, // 256×128
	{WarpsM: 2, WarpsN: 2, M16: 4, N8: 8, Stages: 3}, // 128×128 of four warps
	{WarpsM: 2, WarpsN: 4, M16: 4, N8: 4, Stages: 3}, // 128×128
	{WarpsM: 4, WarpsN: 1, M16: 4, N8: 8, Stages: 3}, // 256×64
	{WarpsM: 1, WarpsN: 4, M16: 4, N8: 8, Stages: 3}, // 64×256
	{WarpsM: 4, WarpsN: 2, M16: 2, N8: 4, Stages: 3}, // 128×64
	{WarpsM: 2, WarpsN: 2, M16: 2, N8: 8, Stages: 3}, // 64×128
	{WarpsM: 2, WarpsN: 2, M16: 2, N8: 4, Stages: 3}, // 64×64
	{WarpsM: 4, WarpsN: 1, M16: 2, N8: 4, Stages: 3}, // 128×32
	{WarpsM: 2, WarpsN: 2, M16: 2, N8: 2, Stages: 3}, // 64×32
	{WarpsM: 2, WarpsN: 2, M16: 1, N8: 4, Stages: 3}, // 32×64
	{WarpsM: 2, WarpsN: 2, M16: 1, N8: 2, Stages: 3}, // 32×32
}

// What a choice costs that no figure of an architecture says, in cycles, registers or
// instructions: rough, since it only ranks tiles.
const (
	fillLatency  = 400  // from the first products of a thread block to the last, beside its turns, and its epilogue
	turnLatency  = 40   // a barrier and the first fragments of a turn
	baseRegs     = 56   // of a thread: addresses and fragments beside accumulators
	loadLatency  = 30   // of dependent loads that hit L1, per word and thread of the dp4a form
	wordInsts    = 6    // instructions of one dp4a with its loads and addresses
	startInsts   = 150  // of a thread before the first turn
	turnInsts    = 20   // of a turn, beside the copies
	copyInsts    = 5    // of a copy of 16 bytes
	resultInsts  = 6    // of one result's requantisation, without operators behind it
	plainInsts   = 40   // the same of the dp4a form
	chainInsts   = 8    // of one operator behind it
	energyWeight = 0.25 // of cycles of memories, for the energy that they take whatever the time is
	reusedByTaps = 0.4  // of an image with overlapping windows, the share that L1 does not have
)

// tensorTile chooses the tile with which a product takes the least time on the
// tensor cores of a GPU; ok is false when dot products in ordinary threads are
// expected to be faster, as for few rows or narrow groups. The resources are those of
// machine.counted.
func tensorTile(s gen.ConvTensor, a *arch.GPU) (best gen.Tile, ok bool) {
	m, k, og := s.M(), s.K(), s.O/s.Groups
	sms, lanes := a.SMs.Value, a.Cores.Lanes.Value
	outputs := float64(m) * float64(s.O)
	wait := a.DRAM.LatencyNS.Value * 1e-3 * a.ClockMHz.Value // for the first operands
	plain := outputs/(sms*lanes)*(float64((k+3)/4)*wordInsts+plainInsts) + float64((k+3)/4)*loadLatency + wait
	tensorRate := a.Tensor.Int8MACs.Value * min(a.Ceiling.Tensor.Value, a.Ceiling.MMASync.Value)
	l2Rate := min(a.L2.PortBytes.Value, a.L2.BytesPerCycle.Value*a.Ceiling.L2.Value/sms)
	image := 1.0
	if s.Overlaps() {
		image = reusedByTaps
	}
	perResult := resultInsts + chainInsts*float64(len(s.Out.Then))
	moved := 1 + float64(len(s.Out.Then)) // bytes of a result, and of what is added to it
	wave := fillLatency + wait
	least := math.Inf(1)
	for _, t := range tileShapes {
		s.Tile = t
		threads := float64(t.Threads())
		regs := threads * 4 * math.Ceil(float64(4*t.M16*t.N8+baseRegs)/8) * 8
		if int64(s.Shared()) > a.Shared.Bytes.Int() || regs > a.Register.Bytes.Value {
			continue
		}
		rows, cols := float64(t.Rows()), float64(t.Cols())
		depth := float64((k + gen.TileK - 1) / gen.TileK * gen.TileK)
		turns := depth / gen.TileK
		blocks := math.Ceil(float64(m)/rows) * math.Ceil(float64(og)/cols) * float64(s.Groups)
		perSM := math.Ceil(blocks / sms)
		resident := max(1, math.Floor(min(a.Shared.Bytes.Value/float64(s.Shared()), a.Register.Bytes.Value/regs, a.Cores.MaxWarps.Value*32/threads)))
		together := min(resident, perSM)
		warps := threads / 32
		products := float64(t.M16*t.N8) * depth / 32 // instructions of a warp
		fragments := float64(t.M16+t.N8/2) * depth / 32
		copies := (rows + cols) * gen.TileK / 16 / threads * turns // of a thread
		integer := startInsts + turns*turnInsts + copies*copyInsts + rows*cols/threads*perResult
		issue := min(a.Cores.Schedulers.Value, together*warps*2/a.Cores.Latency.Value) // about half wait for none before
		shared := perSM * (warps*float64(16*t.M16+8*t.N8) + rows + cols) * depth / a.Shared.BytesPerCycle.Value
		l2 := blocks / sms * ((rows*image+cols)*depth + rows*cols*moved) / l2Rate
		cycles := max(
			perSM*rows*cols*depth/tensorRate,
			perSM*warps*(products+fragments+integer)/issue,
			perSM*threads*integer/a.Cores.IntLanes.Value,
			shared, l2,
		)
		cycles = max(cycles, (cycles+perSM*(wave+turns*turnLatency))/together) + wave + energyWeight*(shared+l2)
		if cycles < least {
			best, least = t, cycles
		}
	}
	return best, least < plain
}
