package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/x448/float16"
)

// fragments runs one instruction of a whole warp: lane i reads n registers from
// words n·i of in, and the instruction's text names them %x0 to %x(n-1) and its
// results %d0 to %d(m-1), which are returned by lane.
func fragments(t *testing.T, instruction string, in []uint32, n, m int) []uint32 {
	t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, ".reg .b32 %%x<%d>; .reg .b32 %%d<%d>; .shared .align 16 .b8 tile[512];\n", n+1, m)
	fmt.Fprintf(&s, "mul.wide.u32 %%rd3, %%r0, %d; add.s64 %%rd3, %%rd3, %%rd0;\n", 4*n)
	for i := range n {
		fmt.Fprintf(&s, "ld.global.u32 %%x%d, [%%rd3+%d];\n", i, 512+4*i)
	}
	fmt.Fprintf(&s, "%s\nmul.wide.u32 %%rd3, %%r0, %d; add.s64 %%rd3, %%rd3, %%rd0;\n", instruction, 4*m)
	for i := range m {
		fmt.Fprintf(&s, "st.global.u32 [%%rd3+%d], %%d%d;\n", 4*i, i)
	}
	s.WriteString("ret;")
	mem := NewMemory(1 << 16)
	b, a := buffer(t, mem, "b", 512+4*len(in))
	for i, v := range in {
		binary.LittleEndian.PutUint32(b[512+4*i:], v)
	}
	run(t, parse(t, snippet(s.String())), "k", LaunchConfig{Block: [3]int{32}, Memory: mem, Args: []Arg{U64(a)}})
	out := make([]uint32, 32*m)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

// list is {%p0, %p1, ...} of n registers from first.
func list(p string, first, n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%%%s%d", p, first+i))
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// The layouts here are those of the PTX manual, written out for each element.
func TestMMABytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, shape := range []struct {
		name    string
		m, k    int
		a, b, c int
	}{{"m16n8k32", 16, 32, 4, 2, 4}, {"m16n8k16", 16, 16, 2, 1, 4}, {"m8n8k16", 8, 16, 1, 1, 2}} {
		for _, signs := range []string{"s8.s8", "s8.u8", "u8.s8", "u8.u8"} {
			for _, shared := range []bool{false, true} {
				name := fmt.Sprintf("%s.%s shared=%v", shape.name, signs, shared)
				n := shape.a + shape.b + shape.c
				in := make([]uint32, 32*n)
				for i := range in {
					in[i] = rng.Uint32()
					if i%5 == 0 {
						in[i] = 0x80ff7f80
					}
				}
				d, after := list("d", 0, shape.c), ""
				if shared { // the result in the registers of A and B
					d = list("x", 0, shape.c)
					for i := range shape.c {
						after += fmt.Sprintf("mov.u32 %%d%d, %%x%d;", i, i)
					}
				}
				got := fragments(t, fmt.Sprintf("mma.sync.aligned.%s.row.col.s32.%s.s32 %s, %s, %s, %s;%s", shape.name, signs, d,
					list("x", 0, shape.a), list("x", shape.a, shape.b), list("x", shape.a+shape.b, shape.c), after), in, n, shape.c)
				element := func(lane, reg, at int, sign byte) int32 {
					v := byte(in[lane*n+reg] >> (8 * at))
					if sign == 'u' {
						return int32(v)
					}
					return int32(int8(v))
				}
				for lane := range 32 {
					for i := range shape.c {
						row, col := lane/4+8*(i/2), lane%4*2+i%2
						want := int32(in[lane*n+shape.a+shape.b+i])
						for k := range shape.k {
							from := k % 16 / 4
							ra := k/16*(shape.m/8) + row/8
							want += element(row%8*4+from, ra, k%4, signs[0]) * element(col*4+from, shape.a+k/16, k%4, signs[3])
						}
						if v := int32(got[lane*shape.c+i]); v != want {
							t.Fatalf("%s: row %d column %d: %d, want %d", name, row, col, v, want)
						}
					}
				}
			}
		}
	}
}

func TestMMAHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, typ := range []string{"f16", "bf16"} {
		for _, k := range []int{16, 8} {
			na, nb := k/4, k/8
			n := na + nb + 4
			in := make([]uint32, 32*n)
			small := func() uint32 { // integers, so that sums are exact in any order
				v := float32(rng.IntN(17) - 8)
				if typ == "f16" {
					return uint32(float16.Fromfloat32(v).Bits())
				}
				return math.Float32bits(v) >> 16
			}
			value := func(lane, reg, at int) float32 {
				v := uint16(in[lane*n+reg] >> (16 * at))
				if typ == "f16" {
					return float16.Frombits(v).Float32()
				}
				return math.Float32frombits(uint32(v) << 16)
			}
			for i := range in {
				in[i] = small() | small()<<16
				if i%n >= na+nb {
					in[i] = math.Float32bits(float32(rng.IntN(1000)))
				}
			}
			got := fragments(t, fmt.Sprintf("mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 %s, %s, %s, %s;", k, typ, typ,
				list("d", 0, 4), list("x", 0, na), list("x", na, nb), list("x", na+nb, 4)), in, n, 4)
			for lane := range 32 {
				for i := range 4 {
					row, col := lane/4+8*(i/2), lane%4*2+i%2
					want := math.Float32frombits(in[lane*n+na+nb+i])
					for e := range k {
						// Registers of A: rows 0-7, rows 8-15, then the next 8 of k.
						want += value(row%8*4+e%8/2, e/8*2+row/8, e%2) * value(col*4+e%8/2, na+e/8, e%2)
					}
					if v := math.Float32frombits(got[lane*4+i]); v != want {
						t.Fatalf("%s k=%d row %d column %d: %g, want %g", typ, k, row, col, v, want)
					}
				}
			}
		}
	}
}

func TestLoadMatrix(t *testing.T) {
	in := make([]uint32, 32*4)
	for i := range in {
		in[i] = uint32(2*i) | uint32(2*i+1)<<16 // element e of 16 bits is e
	}
	fill := "mov.u32 %r5, tile; mad.lo.u32 %r6, %r0, 16, %r5; st.shared.v4.u32 [%r6], {%x0, %x1, %x2, %x3};\n"
	for _, n := range []int{1, 2, 4} {
		for _, trans := range []string{"", ".trans"} {
			got := fragments(t, fill+fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r6];", n, trans, list("d", 0, n)), in, 4, n)
			for lane := range 32 {
				for j := range n {
					row, col := lane/4, lane%4*2
					low, high := 64*j+8*row+col, 64*j+8*row+col+1
					if trans != "" {
						low, high = 64*j+8*col+row, 64*j+8*(col+1)+row
					}
					if want := uint32(low) | uint32(high)<<16; got[lane*n+j] != want {
						t.Fatalf("x%d%s lane %d matrix %d: %#x, want %#x", n, trans, lane, j, got[lane*n+j], want)
					}
				}
			}
		}
	}
}
