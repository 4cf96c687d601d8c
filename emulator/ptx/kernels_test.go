package ptx

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// The texts in testdata were written by llc (LLVM 14) from the .ll beside them:
//
//	llc -march=nvptx64 -mcpu=sm_80 -O3 misc.ll -o misc.ptx
func load(t testing.TB, file string) *Module {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(string(text), file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// buffer allocates n bytes and returns them with their address.
func buffer(t testing.TB, m *Memory, name string, n int) ([]byte, uint64) {
	t.Helper()
	a, err := m.Alloc(name, n)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.View(a, n)
	if err != nil {
		t.Fatal(err)
	}
	return b, a
}

func run(t testing.TB, m *Module, kernel string, cfg LaunchConfig) *Counters {
	t.Helper()
	c, err := m.Launch(context.Background(), kernel, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMisc(t *testing.T) {
	const n, threads = 150, 64 // the last block is partly over the end
	const factor, long = float32(0.37), int64(-987654321987)
	minus := long
	m := load(t, "misc.ptx")
	mem := NewMemory(1 << 20)
	p, pa := buffer(t, mem, "p", 4*n)
	q, qa := buffer(t, mem, "q", n)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	for i := range q {
		q[i] = byte(rng.Uint32())
	}
	word := func(b []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(b[4*i:])) }
	table := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	numbers := []int32{1, -2, 3, 4}
	want := make([]int32, n)
	for i := range n {
		v := word(p, i)
		// The neighbour of the last thread in use is not there: its product
		// is that of the thread itself only if it has none. n is even.
		j := i ^ 1
		x := uint32(word(p, j) * int32(int8(q[j])))
		x = uint32(bits.LeadingZeros32(x)) // 0..32: the clamp to int8 does nothing
		x = bits.RotateLeft32(x, int(v&31))
		x = bits.ReverseBytes32(x)
		if int32(x) < 0 {
			x = -x
		}
		f := f32(fma32(b32(float32(int32(x))), b32(factor), b32(1.5)))
		f = float32(1 / float64(f))
		f = float32(math.Exp2(float64(f)))
		f = float32(math.Sqrt(float64(f))) / 3
		r := int32(int64(v)*long>>31) + int32(f)
		quotient := r / n
		r = int32(uint32(r) % 7)
		s := quotient + table[r&7] + numbers[r&3]
		want[i] = s * 3
		if i%threads&1 != 0 {
			want[i] = ^s
		}
	}
	c := run(t, m, "misc", LaunchConfig{
		Grid: [3]int{3}, Block: [3]int{threads}, Memory: mem,
		Args: []Arg{U64(pa), U64(qa), S32(n), F32(factor), U64(uint64(minus))},
	})
	for i := range n {
		if got := word(p, i); got != want[i] {
			t.Fatalf("p[%d] = %d, want %d", i, got, want[i])
		}
	}
	// 150 threads are five warps, the last of which splits at the end; of the
	// sixth no thread has work. Each of the five splits into odd and even.
	if c.DivergentWarps != 6 {
		t.Errorf("%d divergent branches, want 6", c.DivergentWarps)
	}
	if got := c.Classes[ConstLoad]; got != (Count{5, n}) {
		t.Errorf("const loads %v", got)
	}
}

func TestTile(t *testing.T) {
	m := load(t, "misc.ptx")
	mem := NewMemory(1 << 20)
	a, aa := buffer(t, mem, "A", 512)
	b, ba := buffer(t, mem, "B", 256)
	c, ca := buffer(t, mem, "C", 512)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range a {
		a[i] = byte(rng.Uint32())
	}
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	run(t, m, "tile", LaunchConfig{
		Block: [3]int{32}, SharedBytes: 512, Memory: mem, Args: []Arg{U64(aa), U64(ba), U64(ca)},
	})
	// Thread i copied 16 bytes: row i%8 of matrix i/8. Element (row, col) of A
	// is in matrix row/8 + 2·(col/16), and B's in lane 4·col + row%16/4.
	at := func(row, col int) int32 {
		return int32(int8(a[16*(row%8+8*(row/8+2*(col/16)))+col%16]))
	}
	bt := func(row, col int) int32 { return int32(int8(b[8*(4*col+row%16/4)+4*(row/16)+row%4])) }
	word := func(i int) int32 { return int32(binary.LittleEndian.Uint32(c[4*i:])) }
	for lane := range 32 {
		var sums [4]int32
		for i := range sums {
			row, col := lane/4+8*(i/2), lane%4*2+i%2
			for k := range 32 {
				sums[i] += at(row, k) * bt(k, col)
			}
		}
		for k := range 4 { // the fourth goes through dp4a
			sums[3] += int32(int8(b[8*lane+k])) * int32(int8(b[8*lane+4+k]))
		}
		if lane == 0 {
			sums[0] += 32 // the atomic additions of all lanes
		}
		for i, want := range sums {
			if got := word(4*lane + i); got != want {
				t.Fatalf("lane %d value %d: %d, want %d", lane, i, got, want)
			}
		}
	}
}

func TestReduce(t *testing.T) {
	const n = 100_003
	m := load(t, "reduce.ptx")
	var first *Counters
	for _, workers := range []int{1, 3} {
		mem := NewMemory(1 << 20)
		src, sa := buffer(t, mem, "src", n)
		dst, da := buffer(t, mem, "dst", 4)
		want := int32(0)
		for i := range src {
			src[i] = byte(i * i >> 3)
			want += int32(int8(src[i])) << (i % 256 & 1)
		}
		c := run(t, m, "reduce", LaunchConfig{
			Grid: [3]int{7}, Block: [3]int{256}, Memory: mem, Workers: workers,
			Args: []Arg{U64(sa), U64(da), S32(n)},
		})
		if got := int32(binary.LittleEndian.Uint32(dst)); got != want {
			t.Errorf("sum %d, want %d", got, want)
		}
		if got := c.Traffic.LoadBytes; got != n {
			t.Errorf("%d bytes loaded, want %d", got, n)
		}
		if got := c.Traffic.AtomicRequests; got != 7 {
			t.Errorf("%d atomic requests, want 7", got)
		}
		if first == nil {
			first = c
		} else if got, want := c.String(), first.String(); got != want {
			t.Errorf("counters depend on the number of workers:\n%s\n%s", got, want)
		}
	}
	if !strings.Contains(first.String(), "instructions") {
		t.Errorf("table:\n%s", first)
	}
}
