package runtime

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"situ/backend/gpu"
	"situ/emulator/ptx"
	"situ/ir"
)

// How much of a program's kernels the PTX emulator runs, in thread instructions.
// An idle core does 1 to 4·10⁸ a second.
const (
	wholeBudget  = 6e8 // a program up to this is run in whole, with its outputs
	sampleBudget = 3e8 // else samples of thread blocks together, each kernel once
	leastBlocks  = 8   // of a sampled launch
	sampleSeed   = 1
)

// counting is what the PTX emulator counted of a program.
type counting struct {
	counts  []gpu.Counts // by launch
	sampled int          // launches of which a sample of blocks ran
	ran     float64      // share of the thread instructions that ran
	outputs []*ir.Tensor // nil where not all ran
}

// count counts what every launch of the program does, from a run of all of it if
// that takes no more than whole thread instructions, else from blocks that take
// about sample together.
func (d *emulation) count(ctx context.Context, g *ir.Graph, inputs []*ir.Tensor, whole, sample float64) (*counting, error) {
	c := &counting{counts: make([]gpu.Counts, len(d.program.Launches)), ran: 1}
	probes, err := d.probe(ctx, inputs)
	if err != nil {
		return nil, err
	}
	total := 0.0
	for i := range d.program.Launches {
		total += probes[d.key(i)].whole
	}
	if total <= whole {
		err := d.run(ctx, inputs, func(i int, n *ptx.Counters) {
			c.counts[i] = d.counts(n, func(b *ptx.BufferTraffic) gpu.Place { return d.place(i, b) })
		})
		if err != nil {
			return nil, err
		}
		c.outputs, err = d.outputs(g)
		return c, err
	}
	limit := share(probes, sample)
	known := map[string]*ptx.Counters{}
	var ran float64
	for i := range d.program.Launches {
		key := d.key(i)
		n, ok := known[key]
		if !ok {
			if n, err = d.sample(ctx, i, inputs, max(leastBlocks, int(limit/probes[key].block))); err != nil {
				return nil, err
			}
			known[key] = n
		}
		c.counts[i] = d.counts(n, func(b *ptx.BufferTraffic) gpu.Place { return d.argPlace(i, b) })
		if blocks := len(n.Sampled); blocks > 0 {
			c.sampled++
			ran += probes[key].block * float64(blocks)
		} else {
			ran += probes[key].whole
		}
	}
	c.ran = ran / total
	return c, nil
}

// probe is what one block of a kernel says of the work of a launch, in thread
// instructions.
type probe struct{ block, whole float64 }

// probe runs a block of each different launch.
func (d *emulation) probe(ctx context.Context, inputs []*ir.Tensor) (map[string]probe, error) {
	out := map[string]probe{}
	for i := range d.program.Launches {
		key := d.key(i)
		if _, ok := out[key]; ok {
			continue
		}
		c, err := d.sample(ctx, i, inputs, 1)
		if err != nil {
			return nil, err
		}
		w := float64(max(c.Total.Threads, 1))
		out[key] = probe{block: w / float64(c.Blocks), whole: w}
	}
	return out, nil
}

// share returns how much of each launch may run so that all together are the
// budget: those that need less are run in whole.
func share(probes map[string]probe, budget float64) float64 {
	lo, hi := 0.0, budget
	for range 50 {
		mid := (lo + hi) / 2
		sum := 0.0
		for _, p := range probes {
			sum += math.Min(mid, p.whole)
		}
		if sum > budget {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// key names what a launch does apart from where its data lies: its kernel, and
// which of its arguments are the same place.
func (d *emulation) key(i int) string {
	l := &d.program.Launches[i]
	var s strings.Builder
	s.WriteString(l.Kernel)
	for j := range l.Args {
		fmt.Fprintf(&s, " %d", sameArg(l, j))
	}
	return s.String()
}

// sameArg returns the first argument with the place of the j-th.
func sameArg(l *gpu.Launch, j int) int {
	for k := range j {
		if l.Args[k].Place == l.Args[j].Place {
			return k
		}
	}
	return j
}

// sample runs some blocks of launch i on memory of its own: a buffer of exactly its
// size for each argument, with the constants and inputs that lie there and zeros
// for what other launches would have written and for constants without values.
func (d *emulation) sample(ctx context.Context, i int, inputs []*ir.Tensor, blocks int) (*ptx.Counters, error) {
	l := &d.program.Launches[i]
	caches, err := d.caches(l)
	if err != nil {
		return nil, err
	}
	cfg := ptx.LaunchConfig{Grid: l.Grid, Block: l.Block, SharedBytes: l.Shared, Memory: ptx.NewMemory(maxDeviceBytes),
		Caches: caches, Sample: ptx.Sample{Blocks: blocks, Seed: sampleSeed}}
	for j, a := range l.Args {
		if k := sameArg(l, j); k < j {
			cfg.Args = append(cfg.Args, cfg.Args[k])
			continue
		}
		var addr uint64
		if described := d.described(a.Place); described != nil {
			addr, err = cfg.Memory.Map(argName(j), described)
		} else {
			addr, err = cfg.Memory.Alloc(argName(j), int(max(a.Bytes, 1)))
		}
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", l.Op, l.Node, err)
		}
		cfg.Args = append(cfg.Args, ptx.U64(addr))
		data, err := d.contents(a.Place, inputs)
		if err != nil {
			return nil, err
		}
		if err := cfg.Memory.Write(addr, data); err != nil {
			return nil, err
		}
	}
	c, err := d.module.Launch(ctx, l.Kernel, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", l.Op, l.Node, err)
	}
	return c, nil
}

func argName(j int) string { return fmt.Sprintf("arg%d", j) }

// described returns the zeros that stand for a described constant, nil for what lies at
// any other place. They are the same for all, and no kernel writes them, so that what
// they take is address space.
func (d *emulation) described(at gpu.Place) []byte {
	outside := func(at gpu.Place) bool {
		return at.Buffer == gpu.Constants && at.Bytes > 0 && at.Offset >= int64(len(d.program.Constants))
	}
	if !outside(at) {
		return nil
	}
	if d.zeros == nil {
		most := int64(0)
		for i := range d.program.Launches {
			for _, a := range d.program.Launches[i].Args {
				if outside(a.Place) {
					most = max(most, a.Bytes)
				}
			}
		}
		d.zeros = make([]byte, most)
	}
	return d.zeros[:at.Bytes]
}

// contents is what lies at a place before the first launch.
func (d *emulation) contents(at gpu.Place, inputs []*ir.Tensor) ([]byte, error) {
	if at.Buffer == gpu.Constants && at.Offset+at.Bytes <= int64(len(d.program.Constants)) {
		return d.program.Constants[at.Offset : at.Offset+at.Bytes], nil
	}
	for i, port := range d.program.Inputs {
		if port.Place == at && inputs != nil {
			return binary.Append(nil, binary.LittleEndian, inputs[i].Any())
		}
	}
	return nil, nil
}

// place is where a part of a buffer that launch i touched lies in the program. The
// emulator cuts buffers where arguments begin; the part ends where the last
// argument in it does.
func (d *emulation) place(i int, b *ptx.BufferTraffic) gpu.Place {
	for _, in := range d.program.Buffers {
		off := int64(b.Addr) - int64(d.base[in.Name])
		if off < 0 || off >= in.Bytes {
			continue
		}
		end := off
		for _, a := range d.program.Launches[i].Args {
			if a.Buffer == in.Name && a.Offset < off+int64(b.Bytes) {
				end = max(end, min(a.Offset+a.Bytes, off+int64(b.Bytes)))
			}
		}
		return gpu.Place{Buffer: in.Name, Offset: off, Bytes: end - off}
	}
	return gpu.Place{}
}

// argPlace is where a buffer that sample made for an argument lies in the program.
func (d *emulation) argPlace(i int, b *ptx.BufferTraffic) gpu.Place {
	for j, a := range d.program.Launches[i].Args {
		if argName(j) == b.Name {
			return a.Place
		}
	}
	return gpu.Place{}
}

// counts turns the emulator's counters of a launch into those that the cost model
// takes. place says where a touched buffer lies in the program.
func (d *emulation) counts(c *ptx.Counters, place func(*ptx.BufferTraffic) gpu.Place) gpu.Counts {
	const sector, word = 32, 4
	t := &c.Traffic
	fills := float64(t.AsyncBytes) // counted among loads and among stores to shared memory
	n := gpu.Counts{
		Registers: c.LiveRegisters, Shared: c.SharedBytes, Sampled: len(c.Sampled),
		Warps: float64(c.Total.Warps), Chain: float64(c.Chain), Threads: float64(c.Total.Threads),
		RegisterBytes: word * float64(c.RegisterReads+c.RegisterWrites),
		SharedRead:    float64(t.SharedLoadBytes), SharedWritten: float64(t.SharedStoreBytes) - fills,
		Wavefronts: float64(t.SharedWavefronts),
		Loaded:     max(0, sector*float64(t.LoadSectors)-fills),
		FromL2:     sector * float64(t.L2ReadSectors), ToL2: sector * float64(t.L2WriteSectors),
		FromDRAM: float64(t.DRAMReadBytes), ToDRAM: float64(t.DRAMWriteBytes),
	}
	for _, o := range c.Opcodes {
		threads := float64(o.Threads)
		if ptx.Renames(o.Opcode) {
			n.Warps -= float64(o.Warps)
			continue
		}
		switch o.Class {
		case ptx.Tensor:
			n.Tensor += float64(o.Warps)
			n.TensorMACs += float64(o.Warps) * mmaMACs(o.Opcode)
		case ptx.Dot:
			n.DotMACs += 4 * threads
			n.Products += threads
		case ptx.Move:
			n.Integer += threads
		case ptx.Integer, ptx.Convert, ptx.Compare:
			switch op := o.Opcode; {
			case strings.HasPrefix(op, "cvt.pack."):
				n.Integer += narrowing * threads
			case strings.HasPrefix(op, "mul.") || strings.HasPrefix(op, "mad."):
				n.Products += threads * words(op)
			default:
				n.Integer += threads * words(op)
				if slices.Contains(movable, op) {
					n.Movable += threads
				}
			}
		case ptx.Float:
			n.Float += threads
		case ptx.Special:
			n.Float += special * threads
		}
	}
	for k := range c.Buffers {
		b := &c.Buffers[k]
		n.Touched = append(n.Touched, gpu.Touch{Place: place(b), Read: float64(b.ReadBytes), Written: float64(b.WrittenBytes)})
	}
	return n
}

// special is how many times longer than an addition an approximation takes: there
// are 16 units for 128 lanes (CUDA programming guide).
const special = 8

// movable are the integer instructions that the lanes of products can do as well.
var movable = []string{"add.s32", "add.u32", "sub.s32", "sub.u32", "shl.b32"}

// narrowing is how many times longer than an addition a conversion to bytes takes: the
// 16 results a cycle of "all other type conversions" (CUDA programming guide).
const narrowing = 4

// words is how many 32-bit operations an integer instruction stands for: two for 64
// bits, and for products of 64 bits out of 32; four for a product of 64 bits.
func words(opcode string) float64 {
	product := strings.HasPrefix(opcode, "mul.") || strings.HasPrefix(opcode, "mad.")
	switch {
	case product && strings.Contains(opcode, ".wide.") && strings.HasSuffix(opcode, "32"):
		return 2
	case !strings.HasSuffix(opcode, "64"):
		return 1
	case product:
		return 4
	}
	return 2
}

// mmaMACs returns the multiply-accumulates of one mma instruction, from its shape.
func mmaMACs(opcode string) float64 {
	var m, n, k int
	for _, part := range strings.Split(opcode, ".") {
		if got, _ := fmt.Sscanf(part, "m%dn%dk%d", &m, &n, &k); got == 3 {
			return float64(m * n * k)
		}
	}
	return 0
}
