package ptx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"situ/internal/cputime"
)

// snippet wraps statements in a kernel k(out) with registers to use; the first
// line of body is line 8.
func snippet(body string) string {
	return header + `.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<8>; .reg .b64 %rd<16>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1;
` + body + "\n}\n"
}

// words runs a snippet with a block of n threads and returns the words it
// wrote, one for each thread.
func words(t testing.TB, body string, n int) []uint32 {
	t.Helper()
	mem := NewMemory(1 << 20)
	out, a := buffer(t, mem, "out", 4*n)
	run(t, parse(t, snippet(body)), "k", LaunchConfig{Block: [3]int{n}, Memory: mem, Args: []Arg{U64(a)}})
	w := make([]uint32, n)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(out[4*i:])
	}
	return w
}

// A maze is a random control-flow graph: each block changes x in its own way,
// burns fuel and goes to one of two blocks by a bit of x.
type maze struct {
	mul, add []uint32
	bit      []int
	to       [][2]int
}

func drawMaze(t *rapid.T) maze {
	n := rapid.IntRange(1, 9).Draw(t, "blocks")
	var m maze
	for range n {
		m.mul = append(m.mul, rapid.Uint32().Draw(t, "mul")|1)
		m.add = append(m.add, rapid.Uint32().Draw(t, "add"))
		m.bit = append(m.bit, rapid.IntRange(16, 31).Draw(t, "bit"))
		next := rapid.IntRange(0, n-1)
		m.to = append(m.to, [2]int{next.Draw(t, "zero"), next.Draw(t, "one")})
	}
	return m
}

func (m maze) text() string {
	var s strings.Builder
	s.WriteString("mad.lo.u32 %r1, %r0, 2654435761, 12345; and.b32 %r2, %r0, 15; add.u32 %r2, %r2, 5;\n")
	for i := range m.mul {
		fmt.Fprintf(&s, "B%d:\n", i)
		fmt.Fprintf(&s, "mad.lo.u32 %%r1, %%r1, %d, %d;\n", m.mul[i], m.add[i])
		s.WriteString("sub.u32 %r2, %r2, 1; setp.eq.u32 %p0, %r2, 0;\n")
		if i%2 == 0 {
			s.WriteString("@%p0 bra done;\n")
		} else { // threads end here, not where all meet
			s.WriteString("@%p0 st.global.u32 [%rd2], %r1;\n@%p0 exit;\n")
		}
		fmt.Fprintf(&s, "shr.u32 %%r3, %%r1, %d; and.b32 %%r3, %%r3, 1; setp.eq.u32 %%p1, %%r3, 1;\n", m.bit[i])
		fmt.Fprintf(&s, "@%%p1 bra B%d;\nbra.uni B%d;\n", m.to[i][1], m.to[i][0])
	}
	s.WriteString("done:\nst.global.u32 [%rd2], %r1;\nret;\n")
	return s.String()
}

func (m maze) thread(i uint32) uint32 {
	x := i*2654435761 + 12345
	fuel := i&15 + 5
	for b := 0; ; {
		x = x*m.mul[b] + m.add[b]
		if fuel--; fuel == 0 {
			return x
		}
		b = m.to[b][x>>m.bit[b]&1]
	}
}

// Whatever the control flow, reducible or not, each thread must compute what it
// would alone.
func TestDivergence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMaze(rt)
		for i, got := range words(t, m.text(), 80) {
			if want := m.thread(uint32(i)); got != want {
				rt.Fatalf("thread %d: %#x, want %#x\n%s", i, got, want, m.text())
			}
		}
	})
}

// The sides of a branch meet at its post-dominator: what follows is issued
// once for the warp.
func TestReconvergence(t *testing.T) {
	mem := NewMemory(1 << 20)
	_, a := buffer(t, mem, "out", 128)
	c := run(t, parse(t, snippet(`
and.b32 %r1, %r0, 3; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 1;
@%p0 bra A;
@%p1 bra B;
mov.u32 %r2, 7; bra M;
A: mov.u32 %r2, 5; bra M;
B: mov.u32 %r2, 6;
M: popc.b32 %r3, %r2;
activemask.b32 %r4;
st.global.u32 [%rd2], %r4;
ret;`)), "k", LaunchConfig{Block: [3]int{32}, Memory: mem, Args: []Arg{U64(a)}})
	for _, o := range c.Opcodes {
		if o.Opcode == "popc.b32" && o.Count != (Count{1, 32}) {
			t.Errorf("popc after the branch: %v, want one warp of 32 threads", o.Count)
		}
	}
	if c.DivergentWarps != 2 {
		t.Errorf("%d divergent branches, want 2", c.DivergentWarps)
	}
}

func TestWarpOperations(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       func(i uint32) uint32
	}{
		{"up", "shfl.sync.up.b32 %r1, %r0, 3, 0, -1;", func(i uint32) uint32 {
			if i%32 < 3 {
				return i
			}
			return i - 3
		}},
		{"down in segments of 8", "shfl.sync.down.b32 %r1, %r0, 1, 0x1807, -1;", func(i uint32) uint32 {
			if i%8 == 7 {
				return i
			}
			return i + 1
		}},
		{"butterfly", "shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;", func(i uint32) uint32 { return i ^ 5 }},
		{"index", "xor.b32 %r2, %r0, 31; shfl.sync.idx.b32 %r1, %r0, %r2, 31, -1;", func(i uint32) uint32 { return i ^ 31 }},
		{"index in place", "mov.u32 %r1, %r0; shfl.sync.idx.b32 %r1, %r1, 9, 31, -1;", func(i uint32) uint32 { return i&^31 | 9 }},
		{"validity", "shfl.sync.up.b32 %r2|%p0, %r0, 4, 0, -1; selp.u32 %r1, 1, 0, %p0;", func(i uint32) uint32 {
			return uint32(bit(i%32 >= 4))
		}},
		{"ballot", "and.b32 %r2, %r0, 5; setp.eq.u32 %p0, %r2, 5; vote.sync.ballot.b32 %r1, %p0, -1;", func(uint32) uint32 { return 0xa0a0a0a0 }},
		{"any", "setp.eq.u32 %p0, %r0, 40; vote.sync.any.pred %p1, %p0, -1; selp.u32 %r1, 1, 0, %p1;", func(i uint32) uint32 { return i / 32 }},
		{"all of the negation", "setp.eq.u32 %p0, %r0, 40; vote.sync.all.pred %p1, !%p0, -1; selp.u32 %r1, 1, 0, %p1;", func(i uint32) uint32 { return 1 - i/32 }},
		{"lane and warp", "mov.u32 %r2, %laneid; mov.u32 %r3, %warpid; mov.u32 %r4, WARP_SZ; mad.lo.u32 %r1, %r3, %r4, %r2;", func(i uint32) uint32 { return i }},
		{"lane masks", "mov.u32 %r2, %lanemask_lt; popc.b32 %r1, %r2;", func(i uint32) uint32 { return i % 32 }},
		{"all lane masks", "mov.u32 %r2, %lanemask_le; mov.u32 %r3, %lanemask_gt; mov.u32 %r4, %lanemask_ge; mov.u32 %r5, %lanemask_eq; mov.u32 %r6, %lanemask_lt; xor.b32 %r1, %r2, %r3; xor.b32 %r7, %r4, %r6; and.b32 %r1, %r1, %r7; and.b32 %r8, %r2, %r4; xor.b32 %r8, %r8, %r5; sub.u32 %r1, %r1, %r8; clz.b32 %r9, %r5; add.u32 %r1, %r1, %r9;", func(i uint32) uint32 {
			return 30 - i%32 // all ones, no bit that differs, and 31-lane
		}},
		{"pack and unpack in place", "mov.b32 %r1, 0x12345678; mov.b32 {%h0, %h1}, %r1; mov.b32 %r1, {%h1, %h0};", func(uint32) uint32 { return 0x56781234 }},
		{"64 bits of 32", "mov.b64 %rd5, {%r0, 9}; mov.b64 {_, %r1}, %rd5; cvt.u32.u64 %r2, %rd5; add.u32 %r1, %r1, %r2;", func(i uint32) uint32 { return i + 9 }},
		{"insert", "bfi.b32 %r1, %r0, 0xffffffff, 8, 4;", func(i uint32) uint32 { return 0xfffff0ff | i&15<<8 }},
		{"insert 64", "cvt.u64.u32 %rd5, %r0; bfi.b64 %rd6, %rd5, 0, 36, 3; shr.u64 %rd6, %rd6, 36; cvt.u32.u64 %r1, %rd6;", func(i uint32) uint32 { return i & 7 }},
		{"local memory", ".local .align 4 .b8 depot[16]; mov.u64 %rd5, depot; cvta.local.u64 %rd6, %rd5; st.u32 [%rd6+8], %r0; ld.local.u32 %r1, [%rd5+8];", func(i uint32) uint32 { return i }},
		{"generic shared memory", ".shared .align 4 .b8 tile[256]; mov.u64 %rd5, tile; cvta.shared.u64 %rd6, %rd5; add.s64 %rd6, %rd6, %rd1; st.u32 [%rd6], %r0; cvta.to.shared.u64 %rd7, %rd6; ld.shared.u32 %r1, [%rd7];", func(i uint32) uint32 { return i }},
		{"barrier", ".shared .align 4 .b8 tile[256]; mov.u32 %r2, tile; mad.lo.u32 %r3, %r0, 4, %r2; st.shared.u32 [%r3], %r0; bar.sync 0; xor.b32 %r4, %r0, 63; mad.lo.u32 %r3, %r4, 4, %r2; ld.shared.u32 %r1, [%r3];", func(i uint32) uint32 { return i ^ 63 }},
		{"barrier some threads never see", "mov.u32 %r1, %r0; st.global.u32 [%rd2], %r1; setp.gt.u32 %p0, %r0, 40; @%p0 exit; bar.sync 0; bar.sync 1;", func(i uint32) uint32 { return i }},
		{"guarded loads", "mov.u32 %r1, 3; setp.gt.u32 %p0, %r0, 9; st.global.u32 [%rd2], %r0; @!%p0 ld.global.u32 %r1, [%rd2];", func(i uint32) uint32 {
			if i > 9 {
				return 3
			}
			return i
		}},
		{"signed bytes to all widths", "st.global.u32 [%rd2], 0xfe; ld.global.s8 %h0, [%rd2]; cvt.u32.u16 %r2, %h0; ld.global.s8 %rd5, [%rd2]; cvt.u32.u64 %r3, %rd5; ld.global.s8 %r4, [%rd2]; add.u32 %r1, %r2, %r3; add.u32 %r1, %r1, %r4;", func(uint32) uint32 { return 0xfffe - 4 }},
		{"shared atomics", ".shared .align 4 .b8 sum[4]; mov.u32 %r2, sum; atom.shared.add.u32 %r3, [%r2], %r0; bar.sync 0; ld.shared.u32 %r1, [sum];", func(uint32) uint32 { return 63 * 32 }},
		{"atomic maximum", "red.global.max.s32 [%rd0], %r0; bar.sync 0; ld.global.u32 %r1, [%rd0]; bar.sync 0;", func(uint32) uint32 { return 63 }},
		{"compare and swap", "atom.global.cas.b32 %r1, [%rd2], 0, 7; ld.global.u32 %r2, [%rd2]; add.u32 %r1, %r1, %r2;", func(uint32) uint32 { return 7 }},
		{"negated operand", "setp.gt.u32 %p0, %r0, 9; setp.lt.and.u32 %p1|%p2, %r0, 20, !%p0; selp.u32 %r1, 1, 0, %p1; @%p2 add.u32 %r1, %r1, 2;", func(i uint32) uint32 {
			return uint32(bit(i <= 9))
		}},
		{"nested names", "mov.u32 %r1, 1; { .reg .b32 %r1; mov.u32 %r1, 5; bra L; L: } setp.ne.u32 %p0, %r0, 0; @%p0 bra L; L: add.u32 %r1, %r1, 1;", func(uint32) uint32 { return 2 }},
		{"loads in place", "cvt.u64.u32 %rd5, %r0; shl.b64 %rd5, %rd5, 2; add.s64 %rd5, %rd5, %rd0; st.global.u32 [%rd5], %r0; bar.sync 0; and.b64 %rd6, %rd5, -16; ld.global.v4.u32 {%r4, _, _, %r5}, [%rd6]; sub.u32 %r1, %r5, %r4; bar.sync 0;", func(uint32) uint32 { return 3 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, got := range words(t, c.body+"\nst.global.u32 [%rd2], %r1; ret;", 64) {
				want := c.want(uint32(i))
				if got != want {
					t.Fatalf("thread %d: %#x, want %#x", i, got, want)
				}
			}
		})
	}
}

// A copy arrives when the warp waits, not before; groups arrive in order.
func TestAsyncCopy(t *testing.T) {
	body := `.shared .align 16 .b8 tile[1024];
mul.wide.u32 %%rd3, %%r0, 16; mov.u64 %%rd4, tile; add.s64 %%rd4, %%rd4, %%rd3;
st.global.u32 [%%rd2], %%r0; bar.sync 0; and.b64 %%rd5, %%rd2, -16;
cp.async.ca.shared.global [%%rd4], [%%rd2], 4; cp.async.commit_group;
cp.async.cg.shared.global [%%rd4], [%%rd5], 16, 4; cp.async.commit_group;
%s ld.shared.u32 %%r1, [%%rd4]; bar.sync 0; st.global.u32 [%%rd2], %%r1; ret;`
	for _, c := range []struct {
		wait string
		want func(i uint32) uint32
	}{
		{"", func(uint32) uint32 { return 0 }},
		{"cp.async.wait_group 2;", func(uint32) uint32 { return 0 }},
		{"cp.async.wait_group 1;", func(i uint32) uint32 { return i }},
		{"cp.async.wait_group 0;", func(i uint32) uint32 { return i &^ 3 }},
		{"cp.async.wait_all;", func(i uint32) uint32 { return i &^ 3 }},
	} {
		for i, got := range words(t, fmt.Sprintf(body, c.wait), 64) {
			if want := c.want(uint32(i)); got != want {
				t.Fatalf("%q thread %d: %d, want %d", c.wait, i, got, want)
			}
		}
	}
}

// launchError runs a snippet that must fail.
func launchError(t *testing.T, body string, change func(*LaunchConfig)) error {
	t.Helper()
	mem := NewMemory(1 << 20)
	_, a := buffer(t, mem, "out", 256)
	cfg := LaunchConfig{Block: [3]int{64}, Memory: mem, Args: []Arg{U64(a)}, MaxSteps: 100_000}
	if change != nil {
		change(&cfg)
	}
	_, err := parse(t, snippet(body)).Launch(context.Background(), "k", cfg)
	if err == nil {
		t.Fatalf("no error from\n%s", body)
	}
	return err
}

func TestKernelErrors(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"outside", "\nadd.s64 %rd3, %rd2, 16;\nld.global.u32 %r1, [%rd3];\nret;", "test.ptx:10: ld.global.u32 in k, block [0 0 0] thread [60 0 0]: address 0x100000100 is outside every buffer (the last one before it, out, ends at 0x100000100)"},
		{"over the end", "mov.u32 %r1, 0; st.global.v2.u32 [%rd0+256], {%r1, %r1}; ret;", "outside every buffer"},
		{"misaligned", "ld.global.u32 %r1, [%rd2+2]; ret;", "is not a multiple of 4"},
		{"null", "mov.u64 %rd3, 0; st.u32 [%rd3], %r0; ret;", "address 0x0 is outside"},
		{"shared", ".shared .b8 x[64]; ld.shared.u8 %r1, [x+64]; ret;", "shared memory has 64"},
		{"local", ".local .b8 x[64]; ld.local.u8 %r1, [x+64]; ret;", "local memory has 64"},
		{"copy", ".shared .align 16 .b8 x[64]; cp.async.cg.shared.global [x+64], [%rd0], 16; ret;", "shared memory has 64"},
		{"divergent barrier", "setp.lt.u32 %p0, %r0, 16; @%p0 bra A; bra B; A: bar.sync 0; B: ret;", "16 of 32 threads of a warp reach the barrier"},
		{"different barriers", "setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 1; ret; A: bar.sync 0; ret;", "they never meet"},
		{"endless", "A: bra A;", "has not ended after"},
		{"spin on a value nobody writes", ".shared .align 4 .b8 x[4]; A: ld.shared.u32 %r1, [x]; setp.eq.u32 %p0, %r1, 0; @%p0 bra A; ret;", "has not ended after"},
		{"trap", "trap;", "the kernel traps"},
		{"shuffle from nobody", "setp.lt.u32 %p0, %r0, 16; @%p0 bra A; ret; A: shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; ret;", "reads from lane 16, which is not here"},
		{"mma of half a warp", "setp.lt.u32 %p0, %r0, 16; @%p0 mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2}; ret;", "needs all 32 threads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := launchError(t, c.body, nil); !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q in it", err, c.want)
			}
		})
	}
}

func TestLaunchErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*LaunchConfig)
		want   string
	}{
		{func(c *LaunchConfig) { c.Args = nil }, "0 arguments for 1 parameters"},
		{func(c *LaunchConfig) { c.Args[0] = U32(1) }, "argument 0 has 4 bytes, parameter out has 8"},
		{func(c *LaunchConfig) { c.Block = [3]int{33, 32} }, "has 1056 threads"},
		{func(c *LaunchConfig) { c.Block = [3]int{1, 1, 65} }, "dimension 2 must be 1 to 64"},
		{func(c *LaunchConfig) { c.Grid = [3]int{-1} }, "must be 1 to"},
		{func(c *LaunchConfig) { c.Grid = [3]int{1 << 20, 1 << 15} }, "2³¹"},
		{func(c *LaunchConfig) { c.SharedBytes = 1 << 20 }, "a block has at most"},
		{func(c *LaunchConfig) { c.Memory = nil }, "no memory"},
		{func(c *LaunchConfig) { c.Grid[0] = 9; c.Sample.Blocks = 2; c.L2 = NewL2(1 << 20) }, "cannot share an L2"},
	} {
		if err := launchError(t, "ret;", c.change); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %q in it", err, c.want)
		}
	}
	if _, err := parse(t, snippet("ret;")).Launch(context.Background(), "none", LaunchConfig{}); err == nil || !strings.Contains(err.Error(), `no kernel "none"; there are ["k"]`) {
		t.Errorf("unknown kernel: %v", err)
	}
}

// Whichever block fails first in time, the error is that of the first in the
// grid.
func TestFirstFailure(t *testing.T) {
	body := `mov.u32 %r1, %ctaid.x; setp.lt.u32 %p0, %r1, 20; @%p0 bra A; setp.eq.u32 %p1, %r1, 20; mov.u32 %r2, 0;
@!%p1 bra B;
L: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 20000; @%p2 bra L;
B: ld.global.u32 %r3, [%rd0+256];
A: ret;`
	for range 5 {
		err := launchError(t, body, func(c *LaunchConfig) { c.Grid[0], c.Workers, c.MaxSteps = 64, 4, 1<<20 })
		if !strings.Contains(err.Error(), "block [20 0 0]") {
			t.Error(err)
		}
	}
}

func TestCancel(t *testing.T) {
	m := parse(t, snippet("A: bra A;"))
	mem := NewMemory(1 << 10)
	_, a := buffer(t, mem, "out", 256)
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	_, err := m.Launch(ctx, "k", LaunchConfig{Grid: [3]int{4}, Memory: mem, Args: []Arg{U64(a)}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// BenchmarkIntegers runs requantisation as an epilogue does it, on values in
// registers: 64-bit products, shifts, clamps, with loads and stores around.
func BenchmarkIntegers(b *testing.B) {
	var s strings.Builder
	s.WriteString("mov.u32 %r9, %ctaid.x; mov.u32 %r10, %ntid.x; mad.lo.u32 %r11, %r9, %r10, %r0; mul.wide.u32 %rd3, %r11, 4; add.s64 %rd3, %rd0, %rd3;\n")
	s.WriteString("mov.u32 %r12, 0; A: ld.global.u32 %r1, [%rd3];\n")
	for i := range 8 {
		fmt.Fprintf(&s, "mul.wide.s32 %%rd4, %%r1, %d; add.s64 %%rd4, %%rd4, %d; shr.s64 %%rd4, %%rd4, %d; cvt.u32.u64 %%r2, %%rd4;\n", 1<<30+rand.IntN(1<<30), 1<<30, 25+i)
		fmt.Fprintf(&s, "max.s32 %%r2, %%r2, -128; min.s32 %%r2, %%r2, 127; mad.lo.s32 %%r1, %%r2, %d, %%r1; setp.gt.s32 %%p0, %%r1, %d; selp.b32 %%r1, %%r1, %%r2, %%p0;\n", 3+i, 1000*i)
	}
	s.WriteString("st.global.u32 [%rd3], %r1; add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 16; @%p1 bra A; ret;\n")
	m := parse(b, snippet(s.String()))
	mem := NewMemory(1 << 20)
	_, a := buffer(b, mem, "out", 4*64*256)
	cfg := LaunchConfig{Grid: [3]int{64}, Block: [3]int{256}, Memory: mem, Args: []Arg{U64(a)}}
	var n int64
	cpu := cputime.Process()
	for b.Loop() {
		n += run(b, m, "k", cfg).Total.Threads
	}
	b.ReportMetric(float64(n)/(cputime.Process()-cpu).Seconds()/1e6, "Mthreadinst/cpu-s")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mthreadinst/s")
}
