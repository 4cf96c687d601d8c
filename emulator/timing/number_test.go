package timing

import (
	"testing"

	"situ/backend/pim/isa"
	"situ/emulator/internal/testchip"
)

// TestGather: each entry from DRAM takes the channel for whole bursts of 64
// bytes, 32 ns, from when the indices are read; bytes are those of the entries.
func TestGather(t *testing.T) {
	gather := func(n, size int64) inst {
		return inst{0, isa.OpGatherD, []int64{0, 0, 4096, int64(isa.I32), 10, 1, 0, 0, n, size, 4, size, size}}
	}
	// Indices 1 to 2, latency to 102, link and port to 104, 3 bursts to 200.
	got, res := events(t, testchip.New(1, 1), nil, gather(3, 20), copyTo(0, 2048, 0, 32))
	check(t, got, when{1, 98}, when{200, 205})
	c := res.Main.Total()
	if c.DRAMRead != 60 || c.SPReceived != 60 || c.NoCIn != 60 || c.NoCOut != 60 || c.SPRead != 12+32 || c.SPWrite != 60+32 {
		t.Errorf("counters %+v", c)
	}
	// An entry of 65 bytes is two bursts; indices cannot be overwritten before
	// they are read.
	got, _ = events(t, testchip.New(1, 1), nil, gather(1, 65), fill(0, 4096, 16))
	check(t, got, when{1, 66}, when{2, 6})
	// In the scratchpad an entry is a run: 3 cycles to start, 32 bytes read a
	// cycle, the indices too.
	local := inst{0, isa.OpGather, []int64{0, 1024, 4096, int64(isa.I64), 10, 1, 0, 0, 4, 33, 8, 33, 33}}
	got, res = events(t, testchip.New(1, 1), nil, local)
	check(t, got, when{1, 1 + 3 + 4*2 + 1})
	if c := res.Main.Total(); c.SPRead != 4*33+4*8 || c.SPWrite != 4*33 || c.VectorOps != 4 {
		t.Errorf("counters %+v", c)
	}
}

// TestNumberLanes: 16 lanes of 32 bits; 64-bit integers take a lane twice,
// divisions eight times as long.
func TestNumberLanes(t *testing.T) {
	binary := func(fn int64, d isa.DType) inst {
		n, y := d.Size(), d.Size()
		if isa.Compares(fn) {
			y = 1
		}
		return inst{0, isa.OpBinaryI, []int64{fn, int64(d), 8192, 0, 4096, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 640, y, n, n}}
	}
	for _, c := range []struct {
		in     inst
		cycles int64
	}{
		{binary(isa.IAdd, isa.U8), 40},                     // 1280 bytes read at 32, 640 written at 16
		{binary(isa.IAdd, isa.I32), 160},                   // 5120 read, 2560 written
		{binary(isa.ILess, isa.I64), 320},                  // 10240 read
		{binary(isa.IDiv, isa.I64), 640 * 2 * 8 / 16},      // work
		{binary(isa.IEqual, isa.F32), max(640/4, 5120/32)}, // float lanes: 4
	} {
		got, _ := events(t, testchip.New(1, 1), nil, c.in)
		check(t, got, when{1, 1 + 3 + c.cycles})
	}
}
