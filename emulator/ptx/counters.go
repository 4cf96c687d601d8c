package ptx

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Count is instructions: issued for a warp, and executed by threads. A thread
// whose guard is false, or that took the other side of a branch, executes
// nothing; the warp's instruction is issued all the same.
type Count struct{ Warps, Threads int64 }

// An OpcodeCount is the count of one opcode with its modifiers.
type OpcodeCount struct {
	Opcode string
	Class  Class
	Count
}

// A BufferTraffic is what a launch touched of a buffer, in whole sectors,
// however often. A buffer into which arguments point is cut there; the name of
// a part has its offset behind a plus.
type BufferTraffic struct {
	Name                    string
	Addr                    uint64
	Bytes                   int
	ReadBytes, WrittenBytes int64
}

// Counters are what a launch did. Everything is exact for the blocks that ran;
// if they are a sample, every number is scaled to the grid by blocks, and
// DRAM traffic and buffers are estimated as docs/ptx.md says.
type Counters struct {
	Kernel         string
	Grid, Block    [3]int
	Blocks         int   // of the grid
	Sampled        []int // blocks that ran, as linear indices; nil: all
	Seed           uint64
	WarpsPerBlock  int
	SharedBytes    int // of a block
	Total          Count
	Chain          int64          // warp instructions that wait one for the other, see chains in compile.go
	Classes        [classes]Count // by Class
	Opcodes        []OpcodeCount  // most threads first
	RegisterReads  int64          // 32-bit registers read by threads
	RegisterWrites int64
	DivergentWarps int64 // branches that split a warp
	Traffic        Traffic
	Buffers        []BufferTraffic // that were touched, by address
	LiveRegisters  int             // see KernelInfo
}

// counters adds up what the workers counted.
func (l *launch) counters(workers []*worker) *Counters {
	k := l.kernel
	c := &Counters{
		Kernel: k.name, Grid: l.cfg.Grid, Block: l.cfg.Block, Blocks: l.grid, Sampled: l.blocks,
		WarpsPerBlock: l.warps, SharedBytes: l.sharedBytes, LiveRegisters: k.liveRegs,
	}
	n := l.grid
	if l.blocks != nil {
		n = len(l.blocks)
		c.Seed = l.cfg.Sample.Seed
	}
	scale := func(v int64) int64 {
		if n == l.grid {
			return v
		}
		return int64(math.Round(float64(v) * float64(l.grid) / float64(n)))
	}
	opcodes := map[string]*OpcodeCount{}
	for pc := range k.code {
		in := &k.code[pc]
		var sum Count
		for _, w := range workers {
			sum.Warps += int64(w.counts[pc].warps)
			sum.Threads += int64(w.counts[pc].threads)
		}
		if sum.Warps == 0 {
			continue
		}
		c.Chain += scale(sum.Warps * int64(in.chain))
		if !Renames(in.name) {
			c.RegisterReads += scale(sum.Threads * int64(in.reads))
			c.RegisterWrites += scale(sum.Threads * int64(in.writes))
		}
		sum = Count{scale(sum.Warps), scale(sum.Threads)}
		c.Total.add(sum)
		c.Classes[in.class].add(sum)
		o := opcodes[in.name]
		if o == nil {
			o = &OpcodeCount{Opcode: in.name, Class: in.class}
			opcodes[in.name] = o
		}
		o.add(sum)
	}
	for _, o := range opcodes {
		c.Opcodes = append(c.Opcodes, *o)
	}
	slices.SortFunc(c.Opcodes, func(a, b OpcodeCount) int {
		return cmp.Or(cmp.Compare(b.Threads, a.Threads), cmp.Compare(a.Opcode, b.Opcode))
	})
	t := &c.Traffic
	for _, w := range workers {
		c.DivergentWarps += w.divergent
		to, from := t.fields(), w.traffic.fields()
		for i := range to {
			*to[i] += *from[i]
		}
	}
	c.DivergentWarps = scale(c.DivergentWarps)
	o := l.order
	t.L2HitSectors = o.l2.hits - o.before.hits
	t.L2MissSectors = o.l2.misses - o.before.misses
	for _, b := range o.foot.of {
		if b != nil {
			t.L2ReadSectors += b.reads
			t.L2WriteSectors += b.writes
		}
	}
	for _, v := range t.fields() {
		*v = scale(*v)
	}
	written := o.l2.written - o.before.written
	t.DRAMReadBytes, t.DRAMWriteBytes = o.l2.read-o.before.read, written
	if n != l.grid {
		t.DRAMReadBytes, t.DRAMWriteBytes = o.foot.estimate(n, l.grid, written/sectorBytes)
		t.L2MissSectors = t.DRAMReadBytes / sectorBytes
		t.L2HitSectors = max(0, t.L2ReadSectors-t.L2MissSectors)
	}
	for i, b := range o.foot.of {
		if b == nil {
			continue
		}
		r := o.foot.spans[i]
		limit := r.sectors()
		c.Buffers = append(c.Buffers, BufferTraffic{
			Name: r.name, Addr: r.base, Bytes: r.size,
			ReadBytes:    sectorBytes * unique(b.read.n, b.readPairs, n, l.grid, limit),
			WrittenBytes: sectorBytes * unique(b.written.n, b.writtenPairs, n, l.grid, limit),
		})
	}
	return c
}

func (c *Count) add(d Count) {
	c.Warps += d.Warps
	c.Threads += d.Threads
}

// fields returns the numbers that add up over blocks.
func (t *Traffic) fields() []*int64 {
	return []*int64{
		&t.LoadRequests, &t.LoadSectors, &t.LoadBytes,
		&t.StoreRequests, &t.StoreSectors, &t.StoreBytes,
		&t.AtomicRequests, &t.AtomicSectors, &t.AtomicBytes,
		&t.L1HitSectors, &t.L2ReadSectors, &t.L2WriteSectors, &t.L2HitSectors, &t.L2MissSectors,
		&t.SharedLoads, &t.SharedLoadBytes, &t.SharedStores, &t.SharedStoreBytes,
		&t.SharedWavefronts, &t.SharedConflicts,
		&t.ConstRequests, &t.ConstBytes, &t.LocalRequests, &t.LocalBytes,
		&t.AsyncCopies, &t.AsyncBytes,
	}
}

// String is a table of the counters.
func (c *Counters) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, grid %v, block %v", c.Kernel, c.Grid, c.Block)
	if c.Sampled != nil {
		fmt.Fprintf(&s, "; scaled from %d of %d blocks, seed %d", len(c.Sampled), c.Blocks, c.Seed)
	}
	s.WriteString("\n")
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, values ...any) {
		fmt.Fprint(w, name, "\t")
		for _, v := range values {
			fmt.Fprint(w, v, "\t")
		}
		fmt.Fprintln(w)
	}
	row("", "warps", "threads")
	row("instructions", c.Total.Warps, c.Total.Threads)
	for i, n := range c.Classes {
		if n.Warps != 0 {
			row(Class(i).String(), n.Warps, n.Threads)
		}
	}
	row("divergent branches", c.DivergentWarps)
	t := &c.Traffic
	row("", "read", "written")
	row("registers", c.RegisterReads, c.RegisterWrites)
	row("", "requests", "sectors", "bytes")
	row("global loads", t.LoadRequests, t.LoadSectors, t.LoadBytes)
	row("global stores", t.StoreRequests, t.StoreSectors, t.StoreBytes)
	row("atomics", t.AtomicRequests, t.AtomicSectors, t.AtomicBytes)
	row("", "accesses", "", "bytes")
	row("shared loads", t.SharedLoads, "", t.SharedLoadBytes)
	row("shared stores", t.SharedStores, "", t.SharedStoreBytes)
	row("", "wavefronts", "conflicts")
	row("shared", t.SharedWavefronts, t.SharedConflicts)
	row("", "hit", "missed")
	row("L1 sectors", t.L1HitSectors, t.LoadSectors-t.L1HitSectors)
	row("L2 sectors read", t.L2HitSectors, t.L2MissSectors)
	row("", "read", "written")
	row("DRAM bytes", t.DRAMReadBytes, t.DRAMWriteBytes)
	w.Flush()
	return s.String()
}
