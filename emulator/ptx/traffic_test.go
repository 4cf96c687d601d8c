package ptx

import (
	"fmt"
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// drawAccess draws the addresses of a warp's access of size bytes a lane.
func drawAccess(t *rapid.T) (addr [lanes]uint64, mask uint32, size int) {
	size = rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(t, "size")
	mask = rapid.OneOf(rapid.Just(full), rapid.Uint32Range(1, full)).Draw(t, "mask")
	stride := rapid.IntRange(-40, 40).Draw(t, "stride")
	spread := rapid.SampledFrom([]int{1, 1, 8, 300}).Draw(t, "spread")
	for i := range addr {
		jitter := rapid.IntRange(0, spread-1).Draw(t, "jitter")
		addr[i] = uint64(1<<20 + (i*stride+jitter)*size)
	}
	return addr, mask, size
}

func TestCoalesce(t *testing.T) {
	k := &worker{rising: true}
	rapid.Check(t, func(t *rapid.T) {
		addr, mask, size := drawAccess(t)
		want := map[uint64]uint32{}
		for i, a := range addr {
			for b := range size {
				if mask>>i&1 != 0 {
					want[(a+uint64(b))/32] |= 1 << ((a + uint64(b)) % 32)
				}
			}
		}
		s := k.coalesce(&addr, mask, size)
		if s.n != len(want) {
			t.Fatalf("%d sectors, want %d", s.n, len(want))
		}
		for i := range s.n {
			if s.bytes[i] != want[s.at[i]] {
				t.Fatalf("sector %#x: bytes %#x, want %#x", s.at[i], s.bytes[i], want[s.at[i]])
			}
		}
	})
}

func TestWavefronts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &worker{}
		addr, mask, size := drawAccess(t)
		group := 32
		if size > 4 {
			group = 32 * 4 / size
		}
		waves, phases := 0, 0
		for first := 0; first < 32; first += group {
			asked := map[uint64]map[uint64]bool{} // bank → words
			worst := 0
			for i := first; i < first+group; i++ {
				if mask>>i&1 == 0 {
					continue
				}
				for w := addr[i] / 4; w <= (addr[i]+uint64(size)-1)/4; w++ {
					if asked[w%32] == nil {
						asked[w%32] = map[uint64]bool{}
					}
					asked[w%32][w] = true
					worst = max(worst, len(asked[w%32]))
				}
			}
			waves += worst
			phases += min(worst, 1)
		}
		k.sharedAccess(&addr, mask, size, false)
		got := k.traffic
		if got.SharedWavefronts != int64(waves) || got.SharedConflicts != int64(waves-phases) ||
			got.SharedLoads != 1 || got.SharedLoadBytes != int64(size*bits.OnesCount32(mask)) {
			t.Fatalf("%+v, want %d wavefronts in %d phases", got, waves, phases)
		}
	})
}

// copyText is a kernel that copies n words of src, word i·stride to word i,
// count times in one block.
func copyText(stride, count int, load string) string {
	return header + fmt.Sprintf(`.visible .entry k(.param .u64 dst, .param .u64 src)
{
.reg .pred %%p<2>; .reg .b32 %%r<8>; .reg .b64 %%rd<8>;
ld.param.u64 %%rd0, [dst]; ld.param.u64 %%rd1, [src];
mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mad.lo.u32 %%r3, %%r1, %%r2, %%r0;
mul.wide.u32 %%rd2, %%r3, 4; add.s64 %%rd2, %%rd2, %%rd0;
mul.wide.u32 %%rd3, %%r3, %d; add.s64 %%rd3, %%rd3, %%rd1;
mov.u32 %%r5, 0;
L: %s %%r4, [%%rd3]; st.global.u32 [%%rd2], %%r4;
add.u32 %%r5, %%r5, 1; setp.lt.u32 %%p0, %%r5, %d; @%%p0 bra L;
ret;
}
`, 4*stride, load, count)
}

// runCopy runs it on 64 blocks of 128 threads.
func runCopy(t *testing.T, text string, stride int, change func(*LaunchConfig)) *Counters {
	t.Helper()
	mem := NewMemory(1 << 24)
	_, dst := buffer(t, mem, "dst", 4*64*128)
	_, src := buffer(t, mem, "src", 4*64*128*stride)
	cfg := LaunchConfig{Grid: [3]int{64}, Block: [3]int{128}, Memory: mem, Args: []Arg{U64(dst), U64(src)}}
	if change != nil {
		change(&cfg)
	}
	return run(t, parse(t, text), "k", cfg)
}

func TestCaches(t *testing.T) {
	const n = 64 * 128
	type want struct{ sectors, l1, l2hit, read, written int64 }
	shared := NewL2(1 << 20)
	for _, c := range []struct {
		name          string
		stride, count int
		load          string
		change        func(*LaunchConfig)
		want          want
	}{
		{"once", 1, 1, "ld.global.u32", nil, want{n / 8, 0, 0, 4 * n, 4 * n}},
		{"every second word", 2, 1, "ld.global.u32", nil, want{n / 4, 0, 0, 8 * n, 4 * n}},
		{"every eighth word", 8, 1, "ld.global.u32", nil, want{n, 0, 0, 32 * n, 4 * n}},
		{"four times, L1 has it", 1, 4, "ld.global.u32", nil, want{n / 2, 3 * n / 8, 0, 4 * n, 4 * n}},
		{"four times past L1", 1, 4, "ld.global.cg.u32", nil, want{n / 2, 0, 3 * n / 8, 4 * n, 4 * n}},
		{"no L1", 1, 4, "ld.global.u32", func(c *LaunchConfig) { c.Caches.L1Bytes = -1 }, want{n / 2, 0, 3 * n / 8, 4 * n, 4 * n}},
		{"no cache at all", 1, 4, "ld.global.u32", func(c *LaunchConfig) { c.Caches = Caches{L1Bytes: -1, L2Bytes: -1} }, want{n / 2, 0, 0, 16 * n, 16 * n}},
		{"first of two with one L2", 1, 1, "ld.global.u32", func(c *LaunchConfig) { c.L2 = shared }, want{n / 8, 0, 0, 4 * n, 0}},
		{"second of two with one L2", 1, 1, "ld.global.u32", func(c *LaunchConfig) { c.L2 = shared }, want{n / 8, 0, n / 8, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCopy(t, copyText(c.stride, c.count, c.load), c.stride, c.change)
			tr := r.Traffic
			if got := (want{tr.LoadSectors, tr.L1HitSectors, tr.L2HitSectors, tr.DRAMReadBytes, tr.DRAMWriteBytes}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if tr.StoreSectors != int64(c.count)*n/8 || tr.LoadRequests != int64(c.count)*n/32 {
				t.Errorf("%+v", tr)
			}
			if tr.L2ReadSectors != tr.LoadSectors-tr.L1HitSectors || tr.L2ReadSectors != tr.L2HitSectors+tr.L2MissSectors {
				t.Errorf("books do not balance: %+v", tr)
			}
			for _, b := range r.Buffers {
				if want := int64(4 * n); b.Name == "dst" && (b.WrittenBytes != want || b.ReadBytes != 0) {
					t.Errorf("%+v", b)
				}
			}
		})
	}
	if got := shared.Flush(); got != 4*n {
		t.Errorf("flushed %d bytes, want %d", got, 4*n)
	}
}

// An L2 against a plain list of lines in the order of their last use, with one
// set so that the order is the whole truth.
func TestL2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l2 := NewL2(l2Ways * lineBytes)
		type entry struct {
			line         uint64
			valid, dirty [lineSectors]uint32
		}
		var order []entry
		var read, written int64
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			tr := transaction{what: rapid.Uint64Range(0, 201).Draw(t, "sector and whether it is read")}
			if !tr.reads() || rapid.Bool().Draw(t, "atomic") {
				tr.written = rapid.Uint32Range(1, full).Draw(t, "bytes")
			}
			l2.access(tr)
			e := entry{line: tr.sector() / lineSectors}
			for i := range order {
				if order[i].line == e.line {
					e = order[i]
					order = append(order[:i], order[i+1:]...)
					break
				}
			}
			s := tr.sector() % lineSectors
			if tr.reads() && e.valid[s] != full {
				read += sectorBytes
				e.valid[s] = full
			}
			e.valid[s] |= tr.written
			e.dirty[s] |= tr.written
			order = append(order, e)
			if len(order) > l2Ways {
				for _, d := range order[0].dirty {
					if d != 0 {
						written += sectorBytes
					}
				}
				order = order[1:]
			}
			if l2.read != read || l2.written != written {
				t.Fatalf("%d read, %d written; want %d, %d", l2.read, l2.written, read, written)
			}
		}
	})
}

// TestShards has one goroutine and three send the same blocks through an L2 of seven
// sets, twice: counters are the same, those of the second time because what stays is.
func TestShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l2 := [2]*L2{NewL2(7 * l2Ways * lineBytes), NewL2(7 * l2Ways * lineBytes)}
		sector := rapid.Uint64Range(0, 2*7*l2Ways*lineSectors)
		for range 2 {
			group := make([][]transaction, rapid.IntRange(1, 5).Draw(t, "blocks"))
			for i := range group {
				at := sector.Draw(t, "from")
				for range rapid.IntRange(0, 500).Draw(t, "sectors") {
					tr := readOf(at)
					switch rapid.IntRange(0, 4).Draw(t, "kind") {
					case 0:
						tr = writeOf(at, rapid.Uint32Range(1, full).Draw(t, "bytes"))
					case 1:
						at = sector.Draw(t, "to")
					}
					group[i] = append(group[i], tr)
					at++
				}
			}
			for i, shards := range []int{1, 3} {
				l2[i].accessAll(group, shards)
			}
			a, b := *l2[0], *l2[1]
			a.c, b.c = nil, nil
			if a != b {
				t.Fatalf("%+v from three goroutines, %+v from one", b, a)
			}
		}
	})
}

// within2 compares counters scaled from a sample with those of all blocks.
func within2(t *testing.T, name string, sampled, all *Counters) {
	t.Helper()
	near := func(what string, a, b int64) {
		if math.Abs(float64(a-b)) > 0.02*float64(b) {
			t.Errorf("%s: %s: %d from a sample, %d from all", name, what, a, b)
		}
	}
	for c := range all.Classes {
		near(Class(c).String(), sampled.Classes[c].Threads, all.Classes[c].Threads)
	}
	near("register reads", sampled.RegisterReads, all.RegisterReads)
	near("register writes", sampled.RegisterWrites, all.RegisterWrites)
	to, from := all.Traffic.fields(), sampled.Traffic.fields()
	for i := range to {
		near(fmt.Sprint("traffic field ", i), *from[i], *to[i])
	}
	near("DRAM read", sampled.Traffic.DRAMReadBytes, all.Traffic.DRAMReadBytes)
	near("DRAM written", sampled.Traffic.DRAMWriteBytes, all.Traffic.DRAMWriteBytes)
	for i, b := range all.Buffers {
		near(b.Name+" read", sampled.Buffers[i].ReadBytes, b.ReadBytes)
		near(b.Name+" written", sampled.Buffers[i].WrittenBytes, b.WrittenBytes)
	}
	if len(sampled.Sampled) == 0 || len(sampled.Sampled) >= all.Blocks {
		t.Errorf("%s: %d of %d blocks ran", name, len(sampled.Sampled), all.Blocks)
	}
}

func TestSample(t *testing.T) {
	g := newGemm(t, 1024, 1024, 128)
	all := g.launch(t)
	for seed := range uint64(4) {
		g.cfg.Sample = Sample{Blocks: 64, Seed: seed}
		within2(t, fmt.Sprint("product, seed ", seed), g.launch(t), all)
	}
	text := copyText(2, 3, "ld.global.u32")
	sample := func(c *LaunchConfig) { c.Sample = Sample{Blocks: 9, Seed: 4} }
	within2(t, "copy", runCopy(t, text, 2, sample), runCopy(t, text, 2, nil))
	// Source and destination in one buffer: the arguments tell them apart.
	one := func(s Sample) *Counters {
		mem := NewMemory(1 << 24)
		_, a := buffer(t, mem, "arena", 12*64*128)
		return run(t, parse(t, text), "k", LaunchConfig{
			Grid: [3]int{64}, Block: [3]int{128}, Memory: mem, Sample: s,
			Args: []Arg{U64(a + 8*64*128), U64(a)},
		})
	}
	all = one(Sample{})
	within2(t, "arena", one(Sample{Blocks: 9, Seed: 4}), all)
	if len(all.Buffers) != 2 || all.Buffers[1].Name != "arena+65536" || all.Buffers[1].WrittenBytes != 4*64*128 {
		t.Errorf("%+v", all.Buffers)
	}
	// The same seed, the same counters.
	if a, b := runCopy(t, text, 2, sample).String(), runCopy(t, text, 2, sample).String(); a != b {
		t.Errorf("two runs of one sample differ:\n%s\n%s", a, b)
	}
}

// A kernel that sweeps the same large buffer in every block misses L2 on each
// sweep when the buffer does not fit; a sample must see that too.
func TestSampleCapacity(t *testing.T) {
	text := header + `.visible .entry k(.param .u64 dst, .param .u64 src, .param .u32 n)
{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [src]; ld.param.u32 %r1, [n]; mov.u32 %r0, %tid.x;
mul.wide.u32 %rd2, %r0, 32; add.s64 %rd1, %rd1, %rd2;
L: ld.global.cg.u32 %r2, [%rd1]; add.s64 %rd1, %rd1, 4096; sub.u32 %r1, %r1, 1;
setp.ne.u32 %p0, %r1, 0; @%p0 bra L;
ret;
}
`
	m := parse(t, text)
	mem := NewMemory(1 << 24)
	_, src := buffer(t, mem, "src", 1<<20)
	cfg := LaunchConfig{
		Grid: [3]int{64}, Block: [3]int{128}, Memory: mem, Args: []Arg{U64(src), U64(src), U32(256)},
		Caches: Caches{L2Bytes: 256 << 10, Resident: 4},
	}
	all := run(t, m, "k", cfg)
	// Four blocks walk together, sixteen times.
	if got, want := all.Traffic.DRAMReadBytes, int64(16<<20); got < want*98/100 || got > want*102/100 {
		t.Errorf("%d bytes from DRAM, want about %d", got, want)
	}
	cfg.Sample = Sample{Blocks: 16, Seed: 1}
	within2(t, "sweep", run(t, m, "k", cfg), all)
}

func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var grid [3]int
		total := 1
		for d := range grid {
			grid[d] = rapid.IntRange(1, 9).Draw(t, "grid")
			total *= grid[d]
		}
		if total == 1 {
			return
		}
		n := rapid.IntRange(1, total-1).Draw(t, "n")
		got := choose(grid, n, rapid.Uint64().Draw(t, "seed"))
		if len(got) != n {
			t.Fatalf("%d blocks, want %d", len(got), n)
		}
		for i, b := range got {
			if b < 0 || b >= total || i > 0 && b <= got[i-1] {
				t.Fatalf("%v of %d blocks", got, total)
			}
		}
	})
	// Four blocks for each row and column of tiles: none goes unseen.
	for seed := range uint64(200) {
		var rows, columns [16]int
		for _, b := range choose([3]int{16, 16, 1}, 64, seed) {
			rows[b/16]++
			columns[b%16]++
		}
		for i := range 16 {
			if rows[i] == 0 || columns[i] == 0 {
				t.Fatalf("seed %d: rows %v, columns %v", seed, rows, columns)
			}
		}
	}
}
