package ptx

import (
	"math/bits"
	"strings"
)

// An alu is an operation that works on each lane by itself.
type alu struct {
	class Class
	dst   typ
	src   []typ
	kind  kind
	f32   func(d, a, b, c l32)
	f64   func(d, a, b, c l64)
	exec  func(w *warp, in *instr)
}

// alus maps opcodes with all their modifiers to operations.
var alus = map[string]alu{}

// add32 adds an operation on n 32-bit operands for each of the types.
func add32(class Class, op, typeNames string, n int, f func(d, a, b, c l32)) {
	for _, name := range strings.Fields(typeNames) {
		t := types[name]
		src := []typ{t, t, t}[:n]
		alus[op+"."+name] = alu{class: class, dst: t, src: src, kind: kindF32, f32: f}
	}
}

func init() {
	add32(Move, "mov", "b32 u32 s32 f32 b16 u16 s16 f16 b8 u8", 1, func(d, a, _, _ l32) { *d = *a })
	add32(Integer, "add", "u32 s32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x + y }) })
	add32(Integer, "sub", "u32 s32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x - y }) })
	add32(Integer, "mul.lo", "u32 s32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x * y }) })
	add32(Integer, "mul.hi", "u32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(uint64(x) * uint64(y) >> 32) })
	})
	add32(Integer, "mul.hi", "s32", 2, func(d, a, b, _ l32) { map2(d, a, b, mulHi32) })
	add32(Integer, "mad.lo", "u32 s32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, z uint32) uint32 { return x*y + z })
	})
	add32(Integer, "mad.hi", "u32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, z uint32) uint32 { return uint32(uint64(x)*uint64(y)>>32) + z })
	})
	add32(Integer, "mad.hi", "s32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, z uint32) uint32 { return mulHi32(x, y) + z })
	})
	add32(Integer, "div", "u32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return full
			}
			return x / y
		})
	})
	add32(Integer, "div", "s32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return full
			}
			return uint32(int32(x) / int32(y))
		})
	})
	add32(Integer, "rem", "u32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return x
			}
			return x % y
		})
	})
	add32(Integer, "rem", "s32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return x
			}
			return uint32(int32(x) % int32(y))
		})
	})
	add32(Integer, "min", "u32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return min(x, y) }) })
	add32(Integer, "max", "u32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return max(x, y) }) })
	add32(Integer, "min", "s32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(min(int32(x), int32(y))) })
	})
	add32(Integer, "max", "s32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(max(int32(x), int32(y))) })
	})
	add32(Integer, "neg", "s32", 1, func(d, a, _, _ l32) { map1(d, a, func(x uint32) uint32 { return -x }) })
	add32(Integer, "abs", "s32", 1, func(d, a, _, _ l32) {
		map1(d, a, func(x uint32) uint32 { s := uint32(int32(x) >> 31); return (x ^ s) - s })
	})
	add32(Integer, "and", "b32 b16", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x & y }) })
	add32(Integer, "or", "b32 b16", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x | y }) })
	add32(Integer, "xor", "b32 b16", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x ^ y }) })
	add32(Integer, "not", "b32", 1, func(d, a, _, _ l32) { map1(d, a, func(x uint32) uint32 { return ^x }) })
	add32(Integer, "cnot", "b32", 1, func(d, a, _, _ l32) {
		map1(d, a, func(x uint32) uint32 { return uint32(bits.LeadingZeros32(x) / 32) })
	})
	add32(Integer, "shl", "b32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x << y }) })
	add32(Integer, "shr", "u32 b32", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x >> y }) })
	add32(Integer, "shr", "s32", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(int32(x) >> y) })
	})
	add32(Integer, "shf.l.wrap", "b32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, n uint32) uint32 { n &= 31; return y<<n | x>>(32-n) })
	})
	add32(Integer, "shf.r.wrap", "b32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, n uint32) uint32 { n &= 31; return y<<(32-n) | x>>n })
	})
	add32(Integer, "shf.l.clamp", "b32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, n uint32) uint32 { n = min(n, 32); return y<<n | x>>(32-n) })
	})
	add32(Integer, "shf.r.clamp", "b32", 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, n uint32) uint32 { n = min(n, 32); return y<<(32-n) | x>>n })
	})
	add32(Integer, "bfe", "u32", 3, func(d, a, b, c l32) { map3(d, a, b, c, extract32) })
	add32(Integer, "bfe", "s32", 3, func(d, a, b, c l32) { map3(d, a, b, c, extractSigned32) })
	add32(Integer, "prmt", "b32", 3, func(d, a, b, c l32) { map3(d, a, b, c, permute) })
	add32(Integer, "clz", "b32", 1, func(d, a, _, _ l32) {
		map1(d, a, func(x uint32) uint32 { return uint32(bits.LeadingZeros32(x)) })
	})
	add32(Integer, "popc", "b32", 1, func(d, a, _, _ l32) {
		map1(d, a, func(x uint32) uint32 { return uint32(bits.OnesCount32(x)) })
	})
	add32(Integer, "brev", "b32", 1, func(d, a, _, _ l32) { map1(d, a, bits.Reverse32) })
	add32(Integer, "sad", "u32", 3, func(d, a, b, c l32) { map3(d, a, b, c, sad) })
	alus["sad.s32"] = alu{class: Integer, dst: types["s32"], src: []typ{types["s32"], types["s32"], types["u32"]}, kind: kindF32,
		f32: func(d, a, b, c l32) {
			map3(d, a, b, c, func(x, y, z uint32) uint32 {
				return z + uint32(max(int32(x), int32(y))) - uint32(min(int32(x), int32(y)))
			})
		}}
	init16()
	initDot()
}

func mulHi32(x, y uint32) uint32 { return uint32(int64(int32(x)) * int64(int32(y)) >> 32) }

func sad(x, y, z uint32) uint32 { return z + max(x, y) - min(x, y) }

// extract32 is bfe.u32: n bits of x from bit pos, both counted modulo 256.
func extract32(x, pos, n uint32) uint32 {
	pos, n = pos&255, n&255
	return x >> pos & (1<<n - 1)
}

// extractSigned32 is bfe.s32: bits beyond the field or the word are copies of
// the sign, which is the top bit of the field or of x.
func extractSigned32(x, pos, n uint32) uint32 {
	pos, n = pos&255, n&255
	if n == 0 {
		return 0
	}
	v := int32(x) >> min(pos, 31)
	if n >= 32 {
		return uint32(v)
	}
	// The sign bit of a field that reaches over the end is bit 31.
	return uint32(v << (32 - n) >> (32 - n))
}

// insert32 is bfi.b32: the low n bits of x into y at pos.
func insert32(x, y, pos, n uint32) uint32 {
	pos, n = pos&255, n&255
	m := uint32(1<<n-1) << pos
	return y&^m | x<<pos&m
}

// permute is prmt.b32: four bytes, each chosen of eight by a nibble whose top
// bit replaces the byte by its sign.
func permute(x, y, sel uint32) uint32 {
	v := uint64(y)<<32 | uint64(x)
	var out uint32
	for i := range 4 {
		s := sel >> (4 * i)
		b := byte(v >> (8 * (s & 7)))
		if s&8 != 0 {
			b = byte(int8(b) >> 7)
		}
		out |= uint32(b) << (8 * i)
	}
	return out
}

// init16 adds the operations on 16 bits; registers keep them zero-extended.
func init16() {
	const i16 = "u16 s16"
	s := func(x uint32) int32 { return int32(int16(x)) }
	add32(Integer, "add", i16, 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return (x + y) & 0xffff }) })
	add32(Integer, "sub", i16, 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return (x - y) & 0xffff }) })
	add32(Integer, "mul.lo", i16, 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x * y & 0xffff }) })
	add32(Integer, "mad.lo", i16, 3, func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, z uint32) uint32 { return (x*y + z) & 0xffff })
	})
	add32(Integer, "mul.hi", "u16", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x * y >> 16 }) })
	add32(Integer, "mul.hi", "s16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(s(x)*s(y)) >> 16 })
	})
	add32(Integer, "min", "u16", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return min(x, y) }) })
	add32(Integer, "max", "u16", 2, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return max(x, y) }) })
	add32(Integer, "min", "s16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(min(s(x), s(y))) & 0xffff })
	})
	add32(Integer, "max", "s16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(max(s(x), s(y))) & 0xffff })
	})
	add32(Integer, "div", "u16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return 0xffff
			}
			return x / y
		})
	})
	add32(Integer, "rem", "u16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return x
			}
			return x % y
		})
	})
	add32(Integer, "div", "s16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return 0xffff
			}
			return uint32(s(x)/s(y)) & 0xffff
		})
	})
	add32(Integer, "rem", "s16", 2, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 {
			if y == 0 {
				return x
			}
			return uint32(s(x)%s(y)) & 0xffff
		})
	})
	add32(Integer, "neg", "s16", 1, func(d, a, _, _ l32) { map1(d, a, func(x uint32) uint32 { return -x & 0xffff }) })
	add32(Integer, "abs", "s16", 1, func(d, a, _, _ l32) {
		map1(d, a, func(x uint32) uint32 { return uint32(max(s(x), -s(x))) & 0xffff })
	})
	add32(Integer, "not", "b16", 1, func(d, a, _, _ l32) { map1(d, a, func(x uint32) uint32 { return ^x & 0xffff }) })
	shift16("shl", "b16", func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x << y & 0xffff }) })
	shift16("shr", "u16", func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x >> y }) })
	shift16("shr", "b16", func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return x >> y }) })
	shift16("shr", "s16", func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return uint32(s(x)>>y) & 0xffff })
	})
}

// shift16 adds a shift of 16 bits by an amount of 32.
func shift16(op, name string, f func(d, a, b, c l32)) {
	t := types[name]
	alus[op+"."+name] = alu{class: Integer, dst: t, src: []typ{t, types["u32"]}, kind: kindF32, f32: f}
}

// initDot adds dp4a: c plus the products of four bytes.
func initDot() {
	for _, a := range []string{"s32", "u32"} {
		for _, b := range []string{"s32", "u32"} {
			f := func(d, x, y, c l32) { map3(d, x, y, c, dotSS) }
			switch a + b {
			case "u32u32":
				f = func(d, x, y, c l32) { map3(d, x, y, c, dotUU) }
			case "s32u32":
				f = func(d, x, y, c l32) { map3(d, x, y, c, func(x, y, c uint32) uint32 { return dotUS(y, x, c) }) }
			case "u32s32":
				f = func(d, x, y, c l32) { map3(d, x, y, c, dotUS) }
			}
			t := types["s32"]
			alus["dp4a."+a+"."+b] = alu{class: Dot, dst: t, src: []typ{t, t, t}, kind: kindF32, f32: f}
		}
	}
}

func dotSS(x, y, c uint32) uint32 {
	return c + uint32(int32(int8(x))*int32(int8(y))+
		int32(int8(x>>8))*int32(int8(y>>8))+
		int32(int8(x>>16))*int32(int8(y>>16))+
		int32(x)>>24*(int32(y)>>24))
}

func dotUU(x, y, c uint32) uint32 {
	return c + x&255*(y&255) + x>>8&255*(y>>8&255) + x>>16&255*(y>>16&255) + x>>24*(y>>24)
}

// dotUS multiplies unsigned bytes of x with signed bytes of y.
func dotUS(x, y, c uint32) uint32 {
	return c + uint32(int32(x&255)*int32(int8(y))+
		int32(x>>8&255)*int32(int8(y>>8))+
		int32(x>>16&255)*int32(int8(y>>16))+
		int32(x>>24)*(int32(y)>>24))
}
