package ptx

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"
)

// header begins every PTX text of the tests.
const header = ".version 7.0\n.target sm_80\n.address_size 64\n"

// parse parses text and fails the test if it cannot.
func parse(t testing.TB, text string) *Module {
	t.Helper()
	m, err := Parse(text, "test.ptx")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// opCase is an opcode and what it does to bits, zero-extended to 64.
type opCase struct {
	op   string
	dst  string   // type of the result
	src  []string // of the operands
	want func(a, b, c uint64) uint64
}

// moduleFor wraps one instruction in a kernel: thread i reads its operands from
// element i of a, b and c, and runs the instruction where bit 0 of element i of
// mask is set; otherwise the result keeps the bits of a constant.
func moduleFor(c opCase) string {
	reg := func(typ string) string { return "b" + strings.TrimLeft(typ, "usfb") }
	var s strings.Builder
	s.WriteString(header + ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 mask)\n{\n")
	s.WriteString(".reg .b64 %rd<20>; .reg .b32 %r<4>; .reg .pred %p, %pd, %ps<3>;\n")
	s.WriteString("mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 8;\n")
	s.WriteString("ld.param.u64 %rd4, [mask]; add.s64 %rd4, %rd4, %rd0; ld.global.u32 %r1, [%rd4]; setp.ne.u32 %p, %r1, 0;\n")
	args := ""
	for i, typ := range c.src {
		n := "abc"[i : i+1]
		fmt.Fprintf(&s, "ld.param.u64 %%rd1, [%s]; add.s64 %%rd1, %%rd1, %%rd0;\n", n)
		if typ == "pred" {
			fmt.Fprintf(&s, "ld.global.u32 %%r2, [%%rd1]; and.b32 %%r2, %%r2, 1; setp.eq.u32 %%ps%d, %%r2, 1;\n", i)
			args += fmt.Sprintf(", %%ps%d", i)
			continue
		}
		fmt.Fprintf(&s, ".reg .%s %%%s; ld.global.%s %%%s, [%%rd1];\n", reg(typ), n, reg(typ), n)
		args += ", %" + n
	}
	s.WriteString("ld.param.u64 %rd1, [out]; add.s64 %rd1, %rd1, %rd0;\n")
	if c.dst == "pred" {
		fmt.Fprintf(&s, "setp.ne.u32 %%pd, 0, 0; @%%p %s %%pd%s;\nselp.u32 %%r3, 1, 0, %%pd; st.global.u32 [%%rd1], %%r3;\nret;\n}\n", c.op, args)
		return s.String()
	}
	fmt.Fprintf(&s, ".reg .%s %%d;\nmov.%s %%d, 77;\n@%%p %s %%d%s;\nst.global.%s [%%rd1], %%d;\nret;\n}\n", reg(c.dst), reg(c.dst), c.op, args, reg(c.dst))
	return s.String()
}

// interesting draws bits that are often at the edge of something.
func interesting() *rapid.Generator[uint64] {
	edges := []uint64{0, 1, 2, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x10000,
		0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1, 0xff80ff7f,
		0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x80000001, 0x007fffff,
		0x4f000000, 0x5f000000, 0xcf000001, 0x3f000000, 0x40200000}
	return rapid.OneOf(rapid.SampledFrom(edges), rapid.Uint64(),
		rapid.Map(rapid.Int64Range(-300, 300), func(v int64) uint64 { return uint64(v) }),
		rapid.Map(rapid.Float32(), func(v float32) uint64 { return uint64(math.Float32bits(v)) }))
}

func width(typ string) int {
	if typ == "pred" {
		return 1
	}
	return types[typ].bits
}

func cut(v uint64, typ string) uint64 { return v & (^uint64(0) >> (64 - width(typ))) }

// checkOp compares an opcode with its Go function on drawn operands.
func checkOp(t *testing.T, c opCase) {
	const n = 48 // a warp and a half
	m := parse(t, moduleFor(c))
	mem := NewMemory(1 << 20)
	var addr [5]uint64
	var args []Arg
	for i := range addr {
		a, err := mem.Alloc("abcde"[i:i+1], 8*n)
		if err != nil {
			t.Fatal(err)
		}
		addr[i] = a
		args = append(args, U64(a))
	}
	view := func(i int) []byte {
		b, err := mem.View(addr[i], 8*n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	gen := rapid.SliceOfN(interesting(), 4*n, 4*n)
	whole := rapid.Bool()
	rapid.Check(t, func(t *rapid.T) {
		v := gen.Draw(t, "operands")
		all := whole.Draw(t, "whole")
		clear(view(0))
		for i := range n {
			for j := range 3 {
				binary.LittleEndian.PutUint64(view(1 + j)[8*i:], v[j*n+i])
			}
			on := v[3*n+i] & 1
			if all {
				on = 1
			}
			binary.LittleEndian.PutUint64(view(4)[8*i:], on)
		}
		if _, err := m.Launch(context.Background(), "k", LaunchConfig{Block: [3]int{n}, Args: args, Memory: mem, Workers: 1}); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			var x [3]uint64
			for j, typ := range c.src {
				x[j] = cut(v[j*n+i], typ)
			}
			want := cut(c.want(x[0], x[1], x[2]), c.dst)
			if !all && v[3*n+i]&1 == 0 {
				want = cut(77, c.dst)
				if c.dst == "pred" {
					want = 0
				}
			}
			if got := cut(binary.LittleEndian.Uint64(view(0)[8*i:]), c.dst); got != want {
				t.Fatalf("%s of %#x in thread %d: %#x, want %#x", c.op, x[:len(c.src)], i, got, want)
			}
		}
	})
}

func s8(x uint64) int64     { return int64(int8(x)) }
func s16(x uint64) int64    { return int64(int16(x)) }
func s32(x uint64) int64    { return int64(int32(x)) }
func fl(x uint64) float32   { return math.Float32frombits(uint32(x)) }
func fb(x float32) uint64   { return uint64(nan32(x)) }
func bit(b bool) uint64     { return map[bool]uint64{true: 1}[b] }
func rep(s string) []string { return strings.Fields(s) }

// bigMulHi is the upper half of a product, by big integers.
func bigMulHi(x, y *big.Int, n uint) uint64 {
	p := new(big.Int).Mul(x, y)
	p.Rsh(p, n)
	return new(big.Int).And(p, new(big.Int).SetUint64(^uint64(0))).Uint64()
}

// fieldSigned is bfe as the PTX manual words it, bit by bit.
func fieldSigned(x uint64, pos, n, word int, signed bool) uint64 {
	sign := uint64(0)
	if signed && n > 0 {
		sign = x >> min(pos+n-1, word-1) & 1
	}
	var out uint64
	for i := range word {
		b := sign
		if i < n && pos+i < word {
			b = x >> (pos + i) & 1
		}
		out |= b << i
	}
	return out
}

func dot(a, b, c uint64, ua, ub bool) uint64 {
	s := s32(c)
	for i := range 4 {
		x, y := s8(a>>(8*i)), s8(b>>(8*i))
		if ua {
			x &= 255
		}
		if ub {
			y &= 255
		}
		s += x * y
	}
	return uint64(s)
}

func divInt(x, y int64, zero int64) int64 {
	if y == 0 {
		return zero
	}
	return x / y
}

func remInt(x, y int64) int64 {
	if y == 0 {
		return x
	}
	return x % y
}

func clampTo(f float64, lo, hi int64) uint64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f <= float64(lo):
		return uint64(lo)
	case f >= float64(hi):
		return uint64(hi)
	}
	return uint64(int64(f))
}

var opCases = []opCase{
	{"mov.u32", "u32", rep("u32"), func(a, _, _ uint64) uint64 { return a }},
	{"mov.b64", "b64", rep("b64"), func(a, _, _ uint64) uint64 { return a }},
	{"mov.b16", "b16", rep("b16"), func(a, _, _ uint64) uint64 { return a }},
	{"add.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return a + b }},
	{"add.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return a + b }},
	{"add.u64", "u64", rep("u64 u64"), func(a, b, _ uint64) uint64 { return a + b }},
	{"sub.u16", "u16", rep("u16 u16"), func(a, b, _ uint64) uint64 { return a - b }},
	{"sub.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return a - b }},
	{"sub.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 { return a - b }},
	{"mul.lo.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return a * b }},
	{"mul.lo.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return a * b }},
	{"mul.lo.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 { return a * b }},
	{"mul.hi.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return uint64(s16(a) * s16(b) >> 16) }},
	{"mul.hi.u16", "u16", rep("u16 u16"), func(a, b, _ uint64) uint64 { return a * b >> 16 }},
	{"mul.hi.u32", "u32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return a * b >> 32 }},
	{"mul.hi.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return uint64(s32(a) * s32(b) >> 32) }},
	{"mul.hi.u64", "u64", rep("u64 u64"), func(a, b, _ uint64) uint64 {
		return bigMulHi(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b), 64)
	}},
	{"mul.hi.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 {
		return bigMulHi(big.NewInt(int64(a)), big.NewInt(int64(b)), 64)
	}},
	{"mul.wide.s32", "s64", rep("s32 s32"), func(a, b, _ uint64) uint64 { return uint64(s32(a) * s32(b)) }},
	{"mul.wide.u32", "u64", rep("u32 u32"), func(a, b, _ uint64) uint64 { return a * b }},
	{"mul.wide.s16", "s32", rep("s16 s16"), func(a, b, _ uint64) uint64 { return uint64(s16(a) * s16(b)) }},
	{"mul.wide.u16", "u32", rep("u16 u16"), func(a, b, _ uint64) uint64 { return a * b }},
	{"mad.lo.s16", "s16", rep("s16 s16 s16"), func(a, b, c uint64) uint64 { return a*b + c }},
	{"mad.lo.s32", "s32", rep("s32 s32 s32"), func(a, b, c uint64) uint64 { return a*b + c }},
	{"mad.lo.s64", "s64", rep("s64 s64 s64"), func(a, b, c uint64) uint64 { return a*b + c }},
	{"mad.hi.s32", "s32", rep("s32 s32 s32"), func(a, b, c uint64) uint64 { return uint64(s32(a)*s32(b)>>32) + c }},
	{"mad.hi.u32", "u32", rep("u32 u32 u32"), func(a, b, c uint64) uint64 { return a*b>>32 + c }},
	{"mad.wide.s32", "s64", rep("s32 s32 s64"), func(a, b, c uint64) uint64 { return uint64(s32(a)*s32(b)) + c }},
	{"mad.wide.u32", "u64", rep("u32 u32 u64"), func(a, b, c uint64) uint64 { return a*b + c }},
	{"mad.wide.s16", "s32", rep("s16 s16 s32"), func(a, b, c uint64) uint64 { return uint64(s16(a)*s16(b)) + c }},
	{"mad.wide.u16", "u32", rep("u16 u16 u32"), func(a, b, c uint64) uint64 { return a*b + c }},
	{"div.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return uint64(divInt(s32(a), s32(b), -1)) }},
	{"div.u32", "u32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return uint64(divInt(int64(a), int64(b), -1)) }},
	{"div.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return uint64(divInt(s16(a), s16(b), -1)) }},
	{"div.u16", "u16", rep("u16 u16"), func(a, b, _ uint64) uint64 { return uint64(divInt(int64(a), int64(b), -1)) }},
	{"div.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 { return uint64(divInt(int64(a), int64(b), -1)) }},
	{"div.u64", "u64", rep("u64 u64"), func(a, b, _ uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return a / b
	}},
	{"rem.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return uint64(remInt(s32(a), s32(b))) }},
	{"rem.u32", "u32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return uint64(remInt(int64(a), int64(b))) }},
	{"rem.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return uint64(remInt(s16(a), s16(b))) }},
	{"rem.u16", "u16", rep("u16 u16"), func(a, b, _ uint64) uint64 { return uint64(remInt(int64(a), int64(b))) }},
	{"rem.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 { return uint64(remInt(int64(a), int64(b))) }},
	{"rem.u64", "u64", rep("u64 u64"), func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return a % b
	}},
	{"min.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return uint64(min(s16(a), s16(b))) }},
	{"max.u16", "u16", rep("u16 u16"), func(a, b, _ uint64) uint64 { return max(a, b) }},
	{"min.u16", "u16", rep("u16 u16"), func(a, b, _ uint64) uint64 { return min(a, b) }},
	{"max.s16", "s16", rep("s16 s16"), func(a, b, _ uint64) uint64 { return uint64(max(s16(a), s16(b))) }},
	{"min.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return uint64(min(s32(a), s32(b))) }},
	{"max.s32", "s32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return uint64(max(s32(a), s32(b))) }},
	{"min.u32", "u32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return min(a, b) }},
	{"max.u32", "u32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return max(a, b) }},
	{"min.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 { return uint64(min(int64(a), int64(b))) }},
	{"max.s64", "s64", rep("s64 s64"), func(a, b, _ uint64) uint64 { return uint64(max(int64(a), int64(b))) }},
	{"min.u64", "u64", rep("u64 u64"), func(a, b, _ uint64) uint64 { return min(a, b) }},
	{"max.u64", "u64", rep("u64 u64"), func(a, b, _ uint64) uint64 { return max(a, b) }},
	{"neg.s16", "s16", rep("s16"), func(a, _, _ uint64) uint64 { return -a }},
	{"neg.s32", "s32", rep("s32"), func(a, _, _ uint64) uint64 { return -a }},
	{"neg.s64", "s64", rep("s64"), func(a, _, _ uint64) uint64 { return -a }},
	{"abs.s16", "s16", rep("s16"), func(a, _, _ uint64) uint64 { return uint64(max(s16(a), -s16(a))) }},
	{"abs.s32", "s32", rep("s32"), func(a, _, _ uint64) uint64 { return uint64(max(s32(a), -s32(a))) }},
	{"abs.s64", "s64", rep("s64"), func(a, _, _ uint64) uint64 { return uint64(max(int64(a), -int64(a))) }},
	{"and.b32", "b32", rep("b32 b32"), func(a, b, _ uint64) uint64 { return a & b }},
	{"or.b64", "b64", rep("b64 b64"), func(a, b, _ uint64) uint64 { return a | b }},
	{"xor.b16", "b16", rep("b16 b16"), func(a, b, _ uint64) uint64 { return a ^ b }},
	{"and.b64", "b64", rep("b64 b64"), func(a, b, _ uint64) uint64 { return a & b }},
	{"xor.b64", "b64", rep("b64 b64"), func(a, b, _ uint64) uint64 { return a ^ b }},
	{"or.b32", "b32", rep("b32 b32"), func(a, b, _ uint64) uint64 { return a | b }},
	{"xor.b32", "b32", rep("b32 b32"), func(a, b, _ uint64) uint64 { return a ^ b }},
	{"not.b16", "b16", rep("b16"), func(a, _, _ uint64) uint64 { return ^a }},
	{"not.b32", "b32", rep("b32"), func(a, _, _ uint64) uint64 { return ^a }},
	{"not.b64", "b64", rep("b64"), func(a, _, _ uint64) uint64 { return ^a }},
	{"cnot.b32", "b32", rep("b32"), func(a, _, _ uint64) uint64 { return bit(a == 0) }},
	{"shl.b16", "b16", rep("b16 u32"), func(a, b, _ uint64) uint64 { return a << b }},
	{"shl.b32", "b32", rep("b32 u32"), func(a, b, _ uint64) uint64 { return a << b }},
	{"shl.b64", "b64", rep("b64 u32"), func(a, b, _ uint64) uint64 { return a << b }},
	{"shr.u16", "u16", rep("u16 u32"), func(a, b, _ uint64) uint64 { return a >> b }},
	{"shr.s16", "s16", rep("s16 u32"), func(a, b, _ uint64) uint64 { return uint64(s16(a) >> b) }},
	{"shr.u32", "u32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return a >> b }},
	{"shr.s32", "s32", rep("s32 u32"), func(a, b, _ uint64) uint64 { return uint64(s32(a) >> b) }},
	{"shr.u64", "u64", rep("u64 u32"), func(a, b, _ uint64) uint64 { return a >> b }},
	{"shr.s64", "s64", rep("s64 u32"), func(a, b, _ uint64) uint64 { return uint64(int64(a) >> b) }},
	{"shf.l.wrap.b32", "b32", rep("b32 b32 u32"), func(a, b, c uint64) uint64 { return (b<<32 | a) << (c & 31) >> 32 }},
	{"shf.r.wrap.b32", "b32", rep("b32 b32 u32"), func(a, b, c uint64) uint64 { return (b<<32 | a) >> (c & 31) }},
	{"shf.l.clamp.b32", "b32", rep("b32 b32 u32"), func(a, b, c uint64) uint64 { return (b<<32 | a) << min(c, 32) >> 32 }},
	{"shf.r.clamp.b32", "b32", rep("b32 b32 u32"), func(a, b, c uint64) uint64 { return (b<<32 | a) >> min(c, 32) }},
	{"bfe.u32", "u32", rep("u32 u32 u32"), func(a, b, c uint64) uint64 { return fieldSigned(a, int(b&255), int(c&255), 32, false) }},
	{"bfe.s32", "s32", rep("s32 u32 u32"), func(a, b, c uint64) uint64 { return fieldSigned(a, int(b&255), int(c&255), 32, true) }},
	{"bfe.u64", "u64", rep("u64 u32 u32"), func(a, b, c uint64) uint64 { return fieldSigned(a, int(b&255), int(c&255), 64, false) }},
	{"bfe.s64", "s64", rep("s64 u32 u32"), func(a, b, c uint64) uint64 { return fieldSigned(a, int(b&255), int(c&255), 64, true) }},
	{"prmt.b32", "b32", rep("b32 b32 b32"), func(a, b, c uint64) uint64 {
		all := [8]uint64{a & 255, a >> 8 & 255, a >> 16 & 255, a >> 24, b & 255, b >> 8 & 255, b >> 16 & 255, b >> 24}
		var out uint64
		for i := range 4 {
			x := all[c>>(4*i)&7]
			if c>>(4*i)&8 != 0 {
				x = 255 * (x >> 7)
			}
			out |= x << (8 * i)
		}
		return out
	}},
	{"clz.b32", "b32", rep("b32"), func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
	{"clz.b64", "b32", rep("b64"), func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }},
	{"popc.b32", "b32", rep("b32"), func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
	{"popc.b64", "b32", rep("b64"), func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
	{"brev.b32", "b32", rep("b32"), func(a, _, _ uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }},
	{"brev.b64", "b64", rep("b64"), func(a, _, _ uint64) uint64 { return bits.Reverse64(a) }},
	{"sad.u32", "u32", rep("u32 u32 u32"), func(a, b, c uint64) uint64 { return c + max(a, b) - min(a, b) }},
	{"sad.s32", "u32", rep("s32 s32 u32"), func(a, b, c uint64) uint64 { return c + uint64(max(s32(a)-s32(b), s32(b)-s32(a))) }},
	{"dp4a.s32.s32", "s32", rep("b32 b32 s32"), func(a, b, c uint64) uint64 { return dot(a, b, c, false, false) }},
	{"dp4a.u32.u32", "s32", rep("b32 b32 s32"), func(a, b, c uint64) uint64 { return dot(a, b, c, true, true) }},
	{"dp4a.u32.s32", "s32", rep("b32 b32 s32"), func(a, b, c uint64) uint64 { return dot(a, b, c, true, false) }},
	{"dp4a.s32.u32", "s32", rep("b32 b32 s32"), func(a, b, c uint64) uint64 { return dot(a, b, c, false, true) }},

	{"add.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return fb(fl(a) + fl(b)) }},
	{"add.rn.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return fb(fl(a) + fl(b)) }},
	{"sub.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return fb(fl(a) - fl(b)) }},
	{"mul.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return fb(fl(a) * fl(b)) }},
	{"mul.ftz.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 {
		return uint64(flush(uint32(fb(fl(uint64(flush(uint32(a)))) * fl(uint64(flush(uint32(b))))))))
	}},
	{"add.sat.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 {
		v := fl(a) + fl(b)
		if !(v > 0) {
			return 0
		}
		return fb(min(v, 1))
	}},
	{"fma.rn.f32", "f32", rep("f32 f32 f32"), func(a, b, c uint64) uint64 { return fmaExact(fl(a), fl(b), fl(c)) }},
	{"div.rn.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return fb(fl(a) / fl(b)) }},
	{"rcp.rn.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return fb(1 / fl(a)) }},
	{"sqrt.rn.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return fb(float32(math.Sqrt(float64(fl(a))))) }},
	{"ex2.approx.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return fb(float32(math.Exp2(float64(fl(a))))) }},
	{"lg2.approx.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return fb(float32(math.Log2(float64(fl(a))))) }},
	{"rsqrt.approx.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return fb(float32(1 / math.Sqrt(float64(fl(a))))) }},
	{"neg.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return a ^ 1<<31 }},
	{"abs.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 { return a & (1<<31 - 1) }},
	{"copysign.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return b&(1<<31-1) | a&(1<<31) }},
	{"min.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 { return floatMin(a, b) }},
	{"max.f32", "f32", rep("f32 f32"), func(a, b, _ uint64) uint64 {
		if math.IsNaN(float64(fl(a))) || math.IsNaN(float64(fl(b))) {
			return floatMin(a, b)
		}
		return floatMin(a^1<<31, b^1<<31) ^ 1<<31
	}},
	{"add.f64", "f64", rep("f64 f64"), func(a, b, _ uint64) uint64 { return b64(f64(a) + f64(b)) }},
	{"min.f64", "f64", rep("f64 f64"), func(a, b, _ uint64) uint64 {
		switch x, y := f64(a), f64(b); {
		case math.IsNaN(x):
			return b
		case math.IsNaN(y):
			return a
		case x == y: // −0 is the less
			return max(a, b)
		case x < y:
			return a
		}
		return b
	}},
	{"max.f64", "f64", rep("f64 f64"), func(a, b, _ uint64) uint64 {
		switch x, y := f64(a), f64(b); {
		case math.IsNaN(x):
			return b
		case math.IsNaN(y):
			return a
		case x == y:
			return min(a, b)
		case x > y:
			return a
		}
		return b
	}},
	{"mul.rn.f64", "f64", rep("f64 f64"), func(a, b, _ uint64) uint64 { return b64(f64(a) * f64(b)) }},

	{"setp.eq.s32", "pred", rep("s32 s32"), func(a, b, _ uint64) uint64 { return bit(a == b) }},
	{"setp.ne.b64", "pred", rep("b64 b64"), func(a, b, _ uint64) uint64 { return bit(a != b) }},
	{"setp.lt.s32", "pred", rep("s32 s32"), func(a, b, _ uint64) uint64 { return bit(s32(a) < s32(b)) }},
	{"setp.lt.u32", "pred", rep("u32 u32"), func(a, b, _ uint64) uint64 { return bit(a < b) }},
	{"setp.hs.u32", "pred", rep("u32 u32"), func(a, b, _ uint64) uint64 { return bit(a >= b) }},
	{"setp.le.s16", "pred", rep("s16 s16"), func(a, b, _ uint64) uint64 { return bit(s16(a) <= s16(b)) }},
	{"setp.gt.u16", "pred", rep("u16 u16"), func(a, b, _ uint64) uint64 { return bit(a > b) }},
	{"setp.ge.s64", "pred", rep("s64 s64"), func(a, b, _ uint64) uint64 { return bit(int64(a) >= int64(b)) }},
	{"setp.gt.and.s32", "pred", rep("s32 s32 pred"), func(a, b, c uint64) uint64 { return bit(s32(a) > s32(b)) & c }},
	{"setp.gt.or.u32", "pred", rep("u32 u32 pred"), func(a, b, c uint64) uint64 { return bit(a > b) | c }},
	{"setp.le.xor.u64", "pred", rep("u64 u64 pred"), func(a, b, c uint64) uint64 { return bit(a <= b) ^ c }},
	{"setp.lt.f32", "pred", rep("f32 f32"), func(a, b, _ uint64) uint64 { return bit(fl(a) < fl(b)) }},
	{"setp.neu.f32", "pred", rep("f32 f32"), func(a, b, _ uint64) uint64 { return bit(fl(a) != fl(b)) }},
	{"setp.ne.f32", "pred", rep("f32 f32"), func(a, b, _ uint64) uint64 {
		return bit(fl(a) != fl(b) && fl(a) == fl(a) && fl(b) == fl(b))
	}},
	{"setp.geu.f32", "pred", rep("f32 f32"), func(a, b, _ uint64) uint64 { return bit(!(fl(a) < fl(b))) }},
	{"setp.nan.f32", "pred", rep("f32 f32"), func(a, b, _ uint64) uint64 { return bit(fl(a) != fl(a) || fl(b) != fl(b)) }},
	{"set.lt.u32.s32", "u32", rep("s32 s32"), func(a, b, _ uint64) uint64 { return -bit(s32(a) < s32(b)) }},
	{"set.ge.f32.u32", "f32", rep("u32 u32"), func(a, b, _ uint64) uint64 { return 0x3f800000 * bit(a >= b) }},
	{"selp.b32", "b32", rep("b32 b32 pred"), func(a, b, c uint64) uint64 { return c*a + (1-c)*b }},
	{"selp.b64", "b64", rep("b64 b64 pred"), func(a, b, c uint64) uint64 { return c*a + (1-c)*b }},
	{"selp.u16", "u16", rep("u16 u16 pred"), func(a, b, c uint64) uint64 { return c*a + (1-c)*b }},
	{"and.pred", "pred", rep("pred pred"), func(a, b, _ uint64) uint64 { return a & b }},
	{"or.pred", "pred", rep("pred pred"), func(a, b, _ uint64) uint64 { return a | b }},
	{"xor.pred", "pred", rep("pred pred"), func(a, b, _ uint64) uint64 { return a ^ b }},
	{"not.pred", "pred", rep("pred"), func(a, _, _ uint64) uint64 { return ^a }},

	{"cvt.s64.s32", "s64", rep("s32"), func(a, _, _ uint64) uint64 { return uint64(s32(a)) }},
	{"cvt.u64.u32", "u64", rep("u32"), func(a, _, _ uint64) uint64 { return a }},
	{"cvt.u32.u64", "u32", rep("u64"), func(a, _, _ uint64) uint64 { return a }},
	{"cvt.s32.s8", "s32", rep("s32"), func(a, _, _ uint64) uint64 { return uint64(s8(a)) }},
	{"cvt.s32.s16", "s32", rep("s16"), func(a, _, _ uint64) uint64 { return uint64(s16(a)) }},
	{"cvt.u32.u8", "u32", rep("u16"), func(a, _, _ uint64) uint64 { return a & 255 }},
	{"cvt.u16.u32", "u16", rep("u32"), func(a, _, _ uint64) uint64 { return a }},
	{"cvt.s8.s32", "s32", rep("s32"), func(a, _, _ uint64) uint64 { return uint64(s8(a)) }},
	{"cvt.u8.u32", "u32", rep("u32"), func(a, _, _ uint64) uint64 { return a & 255 }},
	{"cvt.s64.s8", "s64", rep("s64"), func(a, _, _ uint64) uint64 { return uint64(s8(a)) }},
	{"cvt.u64.u16", "u64", rep("u16"), func(a, _, _ uint64) uint64 { return a }},
	{"cvt.pack.sat.s8.s32.b32", "b32", []string{"s32", "s32", "b32"}, func(a, b, c uint64) uint64 {
		return c<<16&0xffff0000 | uint64(uint8(max(-128, min(127, s32(a)))))<<8 | uint64(uint8(max(-128, min(127, s32(b)))))
	}},
	{"cvt.pack.sat.u8.s32.b32", "b32", []string{"s32", "s32", "b32"}, func(a, b, c uint64) uint64 {
		return c<<16&0xffff0000 | uint64(max(0, min(255, s32(a))))<<8 | uint64(max(0, min(255, s32(b))))
	}},
	{"cvt.sat.s8.s32", "s32", rep("s32"), func(a, _, _ uint64) uint64 { return uint64(max(-128, min(127, s32(a)))) }},
	{"cvt.sat.u8.s32", "u32", rep("s32"), func(a, _, _ uint64) uint64 { return uint64(max(0, min(255, s32(a)))) }},
	{"cvt.sat.s32.s64", "s32", rep("s64"), func(a, _, _ uint64) uint64 {
		return uint64(max(math.MinInt32, min(math.MaxInt32, int64(a))))
	}},
	{"cvt.rn.f32.s32", "f32", rep("s32"), func(a, _, _ uint64) uint64 { return fb(float32(s32(a))) }},
	{"cvt.rn.f32.u32", "f32", rep("u32"), func(a, _, _ uint64) uint64 { return fb(float32(a)) }},
	{"cvt.rn.f32.s64", "f32", rep("s64"), func(a, _, _ uint64) uint64 { return fb(float32(int64(a))) }},
	{"cvt.rn.f32.u64", "f32", rep("u64"), func(a, _, _ uint64) uint64 {
		f, _ := new(big.Float).SetUint64(a).Float32()
		return fb(f)
	}},
	{"cvt.rn.f64.s64", "f64", rep("s64"), func(a, _, _ uint64) uint64 { return b64(float64(int64(a))) }},
	{"cvt.rzi.s32.f32", "s32", rep("f32"), func(a, _, _ uint64) uint64 {
		return clampTo(math.Trunc(float64(fl(a))), math.MinInt32, math.MaxInt32)
	}},
	{"cvt.rni.s32.f32", "s32", rep("f32"), func(a, _, _ uint64) uint64 {
		return clampTo(math.RoundToEven(float64(fl(a))), math.MinInt32, math.MaxInt32)
	}},
	{"cvt.rmi.s64.f32", "s64", rep("f32"), func(a, _, _ uint64) uint64 {
		return clampTo(math.Floor(float64(fl(a))), math.MinInt64, math.MaxInt64)
	}},
	{"cvt.rpi.u32.f32", "u32", rep("f32"), func(a, _, _ uint64) uint64 {
		return clampTo(math.Ceil(float64(fl(a))), 0, math.MaxUint32)
	}},
	{"cvt.rni.f32.f32", "f32", rep("f32"), func(a, _, _ uint64) uint64 {
		return fb(float32(math.RoundToEven(float64(fl(a)))))
	}},
	{"cvt.f64.f32", "f64", rep("f32"), func(a, _, _ uint64) uint64 { return b64(float64(fl(a))) }},
	{"cvt.rn.f32.f64", "f32", rep("f64"), func(a, _, _ uint64) uint64 { return fb(float32(f64(a))) }},
	{"cvt.rn.f16.f32", "f16", rep("f32"), func(a, _, _ uint64) uint64 { return uint64(float16.Fromfloat32(fl(a)).Bits()) }},
	{"cvt.f32.f16", "f32", rep("f16"), func(a, _, _ uint64) uint64 { return fb(float16.Frombits(uint16(a)).Float32()) }},
}

// floatMin is min.f32 in words of the manual: the number, if one operand is
// NaN, and -0 below +0.
func floatMin(a, b uint64) uint64 {
	x, y := fl(a), fl(b)
	switch {
	case x != x && y != y:
		return canonicalNaN
	case x != x:
		return b
	case y != y:
		return a
	}
	if x == y {
		return max(a, b) // equal bits, or zeros of both signs
	}
	return fb(min(x, y))
}

// fmaExact is a fused multiply-add by arbitrary precision.
func fmaExact(x, y, z float32) uint64 {
	fx, fy, fz := float64(x), float64(y), float64(z)
	p := fx * fy
	if math.IsNaN(p) || math.IsNaN(fz) || math.IsInf(p, 0) || math.IsInf(fz, 0) || p+fz == 0 {
		return fb(float32(p + fz))
	}
	s := new(big.Float).SetPrec(2000).SetFloat64(p)
	s.Add(s, new(big.Float).SetPrec(2000).SetFloat64(fz))
	f, _ := s.Float32()
	return fb(f)
}

func TestOps(t *testing.T) {
	for _, c := range opCases {
		t.Run(c.op, func(t *testing.T) { checkOp(t, c) })
	}
}
