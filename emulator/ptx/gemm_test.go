package ptx

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"situ/internal/cputime"
)

// gemmText is an int8 product as a compiler would write it: C = A·Bᵀ, A of
// m×k and B of n×k bytes in rows, C of m×n words. A block of four warps makes a
// tile of 64×64, 64 of k at a time, copied asynchronously into one of two
// buffers whose rows are 80 bytes apart so that ldmatrix meets no conflict.
func gemmText() string {
	const pitch, tile = 80, 64 * 80
	var s strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&s, "\t"+format+"\n", args...) }
	s.WriteString(header + ".visible .entry gemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n, .param .u32 k)\n{\n")
	p(".reg .pred %%p<4>; .reg .b32 %%r<40>; .reg .b64 %%rd<24>; .reg .b32 %%acc<32>; .reg .b32 %%fa<8>; .reg .b32 %%fb<8>;")
	p(".shared .align 16 .b8 tiles[%d];", 4*tile)
	p("ld.param.u64 %%rd0, [a]; ld.param.u64 %%rd1, [b]; ld.param.u64 %%rd2, [c]; ld.param.u32 %%r0, [n]; ld.param.u32 %%r1, [k];")
	p("mov.u32 %%r2, %%tid.x; mov.u32 %%r3, %%ctaid.x; mov.u32 %%r4, %%ctaid.y;")
	p("shr.u32 %%r5, %%r2, 2; and.b32 %%r6, %%r2, 3; shl.b32 %%r6, %%r6, 4;") // row, column of copies
	p("mov.u32 %%r7, tiles; mad.lo.u32 %%r8, %%r5, %d, %%r6; add.u32 %%r8, %%r8, %%r7;", pitch)
	for i, cta := range []string{"%r4", "%r3"} { // sources: rd3, rd4 and 32 rows below rd5, rd6
		p("shl.b32 %%r9, %s, 6; add.u32 %%r9, %%r9, %%r5; mul.wide.u32 %%rd7, %%r9, %%r1; cvt.u64.u32 %%rd8, %%r6;", cta)
		p("add.s64 %%rd7, %%rd7, %%rd8; add.s64 %%rd%d, %%rd%d, %%rd7;", 3+i, i)
		p("mul.wide.u32 %%rd7, %%r1, 32; add.s64 %%rd%d, %%rd%d, %%rd7;", 5+i, 3+i)
	}
	p("and.b32 %%r10, %%r2, 31; shr.u32 %%r11, %%r2, 5;")
	p("shr.u32 %%r12, %%r11, 1; shl.b32 %%r12, %%r12, 5; and.b32 %%r13, %%r11, 1; shl.b32 %%r13, %%r13, 5;") // corner of the warp
	p("shr.u32 %%r14, %%r10, 3; and.b32 %%r15, %%r10, 7; and.b32 %%r16, %%r14, 1; shr.u32 %%r17, %%r14, 1;")
	p("shl.b32 %%r18, %%r16, 3; add.u32 %%r18, %%r18, %%r15; add.u32 %%r18, %%r18, %%r12; mul.lo.u32 %%r18, %%r18, %d;", pitch)
	p("shl.b32 %%r19, %%r17, 4; add.u32 %%r18, %%r18, %%r19; add.u32 %%r18, %%r18, %%r7;") // A fragments
	p("shl.b32 %%r20, %%r17, 3; add.u32 %%r20, %%r20, %%r15; add.u32 %%r20, %%r20, %%r13; mul.lo.u32 %%r20, %%r20, %d;", pitch)
	p("shl.b32 %%r21, %%r16, 4; add.u32 %%r20, %%r20, %%r21; add.u32 %%r20, %%r20, %%r7; add.u32 %%r20, %%r20, %d;", tile)
	for i := range 32 {
		p("mov.u32 %%acc%d, 0;", i)
	}
	load := func() {
		for i, src := range []string{"%rd3", "%rd5", "%rd4", "%rd6"} {
			p("cp.async.cg.shared.global [%%r8+%d], [%s], 16;", i/2*tile+i%2*32*pitch, src)
			p("add.s64 %s, %s, 64;", src, src)
		}
		p("cp.async.commit_group;")
	}
	load()
	p("mov.u32 %%r22, 0;")          // k done
	p("mov.u32 %%r23, %d;", 2*tile) // to the other buffer
	s.WriteString("loop:\n")
	p("add.u32 %%r8, %%r8, %%r23; add.u32 %%r24, %%r22, 64; setp.ge.u32 %%p0, %%r24, %%r1; @%%p0 bra last;")
	load()
	p("cp.async.wait_group 1; bra.uni ready;")
	s.WriteString("last:\n")
	p("cp.async.wait_all;")
	s.WriteString("ready:\n")
	p("bar.sync 0;")
	for kk := 0; kk < 64; kk += 32 {
		for i := range 2 {
			p("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%fa%d, %%fa%d, %%fa%d, %%fa%d}, [%%r18+%d];", 4*i, 4*i+1, 4*i+2, 4*i+3, kk+i*16*pitch)
			p("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%fb%d, %%fb%d, %%fb%d, %%fb%d}, [%%r20+%d];", 4*i, 4*i+1, 4*i+2, 4*i+3, kk+i*16*pitch)
		}
		for i := range 2 {
			for j := range 4 {
				c := 16*i + 4*j
				acc := fmt.Sprintf("{%%acc%d, %%acc%d, %%acc%d, %%acc%d}", c, c+1, c+2, c+3)
				p("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 %s, {%%fa%d, %%fa%d, %%fa%d, %%fa%d}, {%%fb%d, %%fb%d}, %s;",
					acc, 4*i, 4*i+1, 4*i+2, 4*i+3, 2*j, 2*j+1, acc)
			}
		}
	}
	p("bar.sync 0;")
	p("add.u32 %%r18, %%r18, %%r23; add.u32 %%r20, %%r20, %%r23; neg.s32 %%r23, %%r23;")
	p("mov.u32 %%r22, %%r24; setp.lt.u32 %%p1, %%r22, %%r1; @%%p1 bra loop;")
	// Lane 4g+t has columns 2t and 2t+1 of rows g and g+8 of each tile.
	p("shr.u32 %%r25, %%r10, 2; add.u32 %%r25, %%r25, %%r12; shl.b32 %%r26, %%r4, 6; add.u32 %%r25, %%r25, %%r26;")
	p("and.b32 %%r27, %%r10, 3; shl.b32 %%r27, %%r27, 1; add.u32 %%r27, %%r27, %%r13; shl.b32 %%r28, %%r3, 6; add.u32 %%r27, %%r27, %%r28;")
	p("mad.lo.u32 %%r29, %%r25, %%r0, %%r27; mul.wide.u32 %%rd9, %%r29, 4; add.s64 %%rd9, %%rd2, %%rd9; mul.wide.u32 %%rd10, %%r0, 32;")
	for half := range 4 {
		for j := range 4 {
			c := 16*(half/2) + 4*j + 2*(half%2)
			p("st.global.v2.u32 [%%rd9+%d], {%%acc%d, %%acc%d};", 32*j, c, c+1)
		}
		p("add.s64 %%rd9, %%rd9, %%rd10;")
	}
	p("ret;")
	s.WriteString("}\n")
	return s.String()
}

// gemm is a product set up to run.
type gemm struct {
	m, n, k int
	a, b    []byte
	mem     *Memory
	module  *Module
	cfg     LaunchConfig
	c       uint64
}

func newGemm(t testing.TB, m, n, k int) *gemm {
	g := &gemm{m: m, n: n, k: k, mem: NewMemory(1 << 28), module: parse(t, gemmText())}
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(name string, size int) ([]byte, uint64) {
		addr, err := g.mem.Alloc(name, size)
		if err != nil {
			t.Fatal(err)
		}
		b, err := g.mem.View(addr, size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b, addr
	}
	var a, b uint64
	g.a, a = fill("A", m*k)
	g.b, b = fill("B", n*k)
	_, g.c = fill("C", 4*m*n)
	// Extremes in one row and column: sums of 2¹⁴ products each.
	for i := range k {
		g.a[i], g.b[i] = 0x80, 0x80
	}
	g.cfg = LaunchConfig{
		Grid: [3]int{n / 64, m / 64}, Block: [3]int{128}, Memory: g.mem,
		Args: []Arg{U64(a), U64(b), U64(g.c), U32(uint32(n)), U32(uint32(k))},
	}
	return g
}

func (g *gemm) launch(t testing.TB) *Counters {
	t.Helper()
	c, err := g.module.Launch(context.Background(), "gemm", g.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGemm(t *testing.T) {
	g := newGemm(t, 128, 192, 256)
	c := g.launch(t)
	got, err := g.mem.View(g.c, 4*g.m*g.n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.m {
		for j := range g.n {
			var want int32
			for e := range g.k {
				want += int32(int8(g.a[i*g.k+e])) * int32(int8(g.b[j*g.k+e]))
			}
			if v := int32(binary.LittleEndian.Uint32(got[4*(i*g.n+j):])); v != want {
				t.Fatalf("C[%d][%d] = %d, want %d", i, j, v, want)
			}
		}
	}
	blocks, steps := int64(6), int64(4)
	tr := &c.Traffic
	for _, x := range []struct {
		name      string
		got, want int64
	}{
		{"tensor instructions", c.Classes[Tensor].Warps, blocks * steps * 4 * 16},
		{"tensor work", c.Classes[Tensor].Warps * 16 * 8 * 32, int64(g.m * g.n * g.k)},
		{"ldmatrix", c.Classes[Matrix].Warps, blocks * steps * 4 * 8},
		{"bytes copied", tr.AsyncBytes, blocks * steps * 2 * 64 * 64},
		{"sectors loaded", tr.LoadSectors, blocks * steps * 2 * 64 * 64 / 32},
		{"sectors stored", tr.StoreSectors, int64(g.m * g.n * 4 / 32)},
		{"bytes stored", tr.StoreBytes, int64(g.m * g.n * 4)},
		{"bytes read from DRAM", tr.DRAMReadBytes, int64((g.m + g.n) * g.k)},
		{"bytes written to DRAM", tr.DRAMWriteBytes, int64(4 * g.m * g.n)},
		// Eight lanes copy two rows of 64 bytes that are 80 apart: they meet in
		// four banks. ldmatrix, with rows of 16, meets in none.
		{"bank conflicts", tr.SharedConflicts, blocks * steps * 4 * 4 * 4},
		{"bytes read from shared memory", tr.SharedLoadBytes, blocks * steps * 4 * 8 * 512},
		{"divergent branches", c.DivergentWarps, 0},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d, want %d", x.name, x.got, x.want)
		}
	}
}

// BenchmarkGemm runs the int8 product; the metrics are thread instructions a
// second and a second of processor time, and multiply-accumulates.
func BenchmarkGemm(b *testing.B) {
	g := newGemm(b, 512, 512, 512)
	var n int64
	cpu := cputime.Process()
	for b.Loop() {
		n += g.launch(b).Total.Threads
	}
	b.ReportMetric(float64(n)/(cputime.Process()-cpu).Seconds()/1e6, "Mthreadinst/cpu-s")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mthreadinst/s")
	b.ReportMetric(float64(g.m*g.n*g.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
