package gpu

import (
	"fmt"
	"math"

	"situ/arch"
)

// Counts is what one launch of a program did, as an emulator counted it. Amounts
// are of the whole grid.
type Counts struct {
	Registers int // of a thread
	Shared    int // bytes of a block, declared and of the launch
	Sampled   int // thread blocks that ran, the rest being scaled from them; 0: all

	Warps      float64 // warp instructions issued
	Chain      float64 // those of them that wait one for the other: of each basic block the longest chain
	Threads    float64 // thread instructions, those of the next four included
	Integer    float64 // thread instructions of integer arithmetic but products, comparisons and moves; 64-bit ones twice
	Movable    float64 // those of them that a product by 1 or a power of two does as well: 32-bit sums and left shifts
	Products   float64 // thread instructions of integer products, dp4a among them; with results of 64 bits twice
	Float      float64 // thread instructions of floating-point arithmetic
	Tensor     float64 // warp instructions on the tensor cores
	TensorMACs float64 // multiply-accumulates they are made of
	DotMACs    float64 // multiply-accumulates of dp4a

	RegisterBytes float64 // read and written by threads
	SharedRead    float64 // bytes from shared memory to registers
	SharedWritten float64 // bytes from registers to shared memory
	Wavefronts    float64 // passes over the banks of shared memory, copies into it included
	Loaded        float64 // bytes of sectors from L1 or through it to registers
	FromL2        float64 // bytes of sectors read from L2, by loads, copies and atomics
	ToL2          float64 // bytes of sectors written to L2
	FromDRAM      float64 // bytes into an L2 that holds nothing of this program before
	ToDRAM        float64 // bytes out of it, when all is written back after

	Touched []Touch // what was touched of each buffer
}

// Touch is how many different bytes of a place a launch read and wrote, in whole
// sectors.
type Touch struct {
	Place
	Read, Written float64
}

// maxRegisters is what the instruction set can name for one thread; a kernel that
// needs more keeps the rest in memory.
const maxRegisters = 255

// Resident returns how many thread blocks of so many threads, registers of a
// thread and bytes of shared memory run on one SM at a time. The error says what
// the block lacks when there is no room for a single one.
func Resident(a *arch.GPU, threads, registers, shared int) (int, error) {
	// Registers are given to a warp in units of 256, shared memory holds 1 KiB of
	// the system's for each block: CUDA occupancy calculator.
	const unit, system = 256, 1 << 10
	warps := (threads + 31) / 32
	regs := warps * roundUpTo(32*roundUpTo(min(max(registers, 16), maxRegisters), 8), unit) * 4
	if have := a.Register.Bytes.Int(); int64(regs) > have {
		return 0, fmt.Errorf("a block of %d threads with %d registers each needs %d bytes of registers, an SM of %s has %d", threads, registers, regs, a.Name, have)
	}
	if have := a.Shared.Bytes.Int(); int64(shared) > have {
		return 0, fmt.Errorf("a block needs %d bytes of shared memory, %s has %d", shared, a.Name, have)
	}
	if have := a.Cores.MaxWarps.Int(); int64(warps) > have {
		return 0, fmt.Errorf("a block of %d warps, an SM of %s runs %d", warps, a.Name, have)
	}
	n := min(a.Cores.MaxBlocks.Int(), a.Cores.MaxWarps.Int()/int64(warps), a.Register.Bytes.Int()/int64(regs))
	if shared > 0 {
		n = min(n, max(1, (a.Shared.Bytes.Int()+system)/int64(shared+system)))
	}
	return int(n), nil
}

// L1Share is what a block has of an SM's L1 when resident blocks with so much
// shared memory each run there, which the two share.
func L1Share(a *arch.GPU, resident, shared int) int {
	const least = 8 << 10 // an SM keeps some L1 however much shared memory blocks take
	return max(int(a.Shared.L1Bytes.Int())-resident*shared, least) / resident
}

// L2Usable is the part of L2 that data meant to stay finds.
func L2Usable(a *arch.GPU) int { return int(a.L2.Bytes.Value * a.L2.UsableFraction.Value) }

func roundUpTo(n, unit int) int { return (n + unit - 1) / unit * unit }

// beyondFirst is the traffic of one launch between L2 and DRAM beyond the first
// read and the last write of each sector: what did not stay in L2 within the
// launch.
func (c *Counts) beyondFirst() float64 {
	var read, written float64
	for _, t := range c.Touched {
		read += t.Read
		written += t.Written
	}
	return math.Max(0, c.FromDRAM-read) + math.Max(0, c.ToDRAM-written)
}
