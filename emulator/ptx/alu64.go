package ptx

import (
	"math/bits"
	"strings"
)

// add64 adds an operation on n 64-bit operands for each of the types.
func add64(class Class, op, typeNames string, n int, f func(d, a, b, c l64)) {
	for _, name := range strings.Fields(typeNames) {
		t := types[name]
		alus[op+"."+name] = alu{class: class, dst: t, src: []typ{t, t, t}[:n], kind: kindF64, f64: f}
	}
}

// addMixed adds an operation whose operands differ in width.
func addMixed(k kind, op, dst, src string, exec func(w *warp, in *instr)) {
	var s []typ
	for _, name := range strings.Fields(src) {
		s = append(s, types[name])
	}
	alus[op] = alu{class: Integer, dst: types[dst], src: s, kind: k, exec: exec}
}

func init() {
	add64(Move, "mov", "b64 u64 s64 f64", 1, func(d, a, _, _ l64) { *d = *a })
	add64(Integer, "add", "u64 s64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return x + y }) })
	add64(Integer, "sub", "u64 s64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return x - y }) })
	add64(Integer, "mul.lo", "u64 s64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return x * y }) })
	add64(Integer, "mul.hi", "u64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 { hi, _ := bits.Mul64(x, y); return hi })
	})
	add64(Integer, "mul.hi", "s64", 2, func(d, a, b, _ l64) { map2(d, a, b, mulHi64) })
	add64(Integer, "mad.lo", "u64 s64", 3, func(d, a, b, c l64) {
		map3(d, a, b, c, func(x, y, z uint64) uint64 { return x*y + z })
	})
	add64(Integer, "div", "u64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 {
			if y == 0 {
				return ^uint64(0)
			}
			return x / y
		})
	})
	add64(Integer, "div", "s64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 {
			if y == 0 {
				return ^uint64(0)
			}
			return uint64(int64(x) / int64(y))
		})
	})
	add64(Integer, "rem", "u64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 {
			if y == 0 {
				return x
			}
			return x % y
		})
	})
	add64(Integer, "rem", "s64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 {
			if y == 0 {
				return x
			}
			return uint64(int64(x) % int64(y))
		})
	})
	add64(Integer, "min", "u64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return min(x, y) }) })
	add64(Integer, "max", "u64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return max(x, y) }) })
	add64(Integer, "min", "s64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 { return uint64(min(int64(x), int64(y))) })
	})
	add64(Integer, "max", "s64", 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 { return uint64(max(int64(x), int64(y))) })
	})
	add64(Integer, "neg", "s64", 1, func(d, a, _, _ l64) { map1(d, a, func(x uint64) uint64 { return -x }) })
	add64(Integer, "abs", "s64", 1, func(d, a, _, _ l64) {
		map1(d, a, func(x uint64) uint64 { s := uint64(int64(x) >> 63); return (x ^ s) - s })
	})
	add64(Integer, "and", "b64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return x & y }) })
	add64(Integer, "or", "b64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return x | y }) })
	add64(Integer, "xor", "b64", 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return x ^ y }) })
	add64(Integer, "not", "b64", 1, func(d, a, _, _ l64) { map1(d, a, func(x uint64) uint64 { return ^x }) })
	add64(Integer, "brev", "b64", 1, func(d, a, _, _ l64) { map1(d, a, bits.Reverse64) })

	// Shifts take their amount from 32 bits.
	addMixed(kindExec64, "shl.b64", "b64", "b64 u32", func(w *warp, in *instr) {
		shl64(w.out64, w.r64(in.a), w.r32(in.b))
	})
	for _, op := range []string{"shr.u64", "shr.b64"} {
		addMixed(kindExec64, op, "b64", "b64 u32", func(w *warp, in *instr) {
			shrU64(w.out64, w.r64(in.a), w.r32(in.b))
		})
	}
	addMixed(kindExec64, "shr.s64", "b64", "b64 u32", func(w *warp, in *instr) {
		shrS64(w.out64, w.r64(in.a), w.r32(in.b))
	})

	// Products of twice the width.
	addMixed(kindExec64, "mul.wide.s32", "s64", "s32 s32", func(w *warp, in *instr) {
		mulWideS(w.out64, w.r32(in.a), w.r32(in.b))
	})
	addMixed(kindExec64, "mul.wide.u32", "u64", "u32 u32", func(w *warp, in *instr) {
		mulWideU(w.out64, w.r32(in.a), w.r32(in.b))
	})
	addMixed(kindExec64, "mad.wide.s32", "s64", "s32 s32 s64", func(w *warp, in *instr) {
		madWideS(w.out64, w.r32(in.a), w.r32(in.b), w.r64(in.c))
	})
	addMixed(kindExec64, "mad.wide.u32", "u64", "u32 u32 u64", func(w *warp, in *instr) {
		madWideU(w.out64, w.r32(in.a), w.r32(in.b), w.r64(in.c))
	})
	wide16 := func(x, y uint32) uint32 { return uint32(int32(int16(x)) * int32(int16(y))) }
	addMixed(kindExec32, "mul.wide.s16", "s32", "s16 s16", func(w *warp, in *instr) {
		map2(w.out32, w.r32(in.a), w.r32(in.b), wide16)
	})
	addMixed(kindExec32, "mul.wide.u16", "u32", "u16 u16", func(w *warp, in *instr) {
		map2(w.out32, w.r32(in.a), w.r32(in.b), func(x, y uint32) uint32 { return x * y })
	})
	addMixed(kindExec32, "mad.wide.s16", "s32", "s16 s16 s32", func(w *warp, in *instr) {
		map3(w.out32, w.r32(in.a), w.r32(in.b), w.r32(in.c), func(x, y, z uint32) uint32 { return wide16(x, y) + z })
	})
	addMixed(kindExec32, "mad.wide.u16", "u32", "u16 u16 u32", func(w *warp, in *instr) {
		map3(w.out32, w.r32(in.a), w.r32(in.b), w.r32(in.c), func(x, y, z uint32) uint32 { return x*y + z })
	})
	addMixed(kindExec32, "clz.b64", "u32", "b64", func(w *warp, in *instr) {
		map1(w.out32, w.r64(in.a), func(x uint64) uint32 { return uint32(bits.LeadingZeros64(x)) })
	})
	addMixed(kindExec32, "popc.b64", "u32", "b64", func(w *warp, in *instr) {
		map1(w.out32, w.r64(in.a), func(x uint64) uint32 { return uint32(bits.OnesCount64(x)) })
	})
	addMixed(kindExec64, "bfe.u64", "u64", "u64 u32 u32", func(w *warp, in *instr) {
		map3(w.out64, w.r64(in.a), w.r32(in.b), w.r32(in.c), extract64)
	})
	addMixed(kindExec64, "bfe.s64", "s64", "s64 u32 u32", func(w *warp, in *instr) {
		map3(w.out64, w.r64(in.a), w.r32(in.b), w.r32(in.c), extractSigned64)
	})
}

func mulHi64(x, y uint64) uint64 {
	hi, _ := bits.Mul64(x, y)
	return hi - uint64(int64(x)>>63)&y - uint64(int64(y)>>63)&x
}

func extract64(x uint64, pos, n uint32) uint64 {
	pos, n = pos&255, n&255
	return x >> pos & (1<<n - 1)
}

func extractSigned64(x uint64, pos, n uint32) uint64 {
	pos, n = pos&255, n&255
	if n == 0 {
		return 0
	}
	v := int64(x) >> min(pos, 63)
	if n >= 64 {
		return uint64(v)
	}
	return uint64(v << (64 - n) >> (64 - n))
}

func insert64(x, y uint64, pos, n uint32) uint64 {
	pos, n = pos&255, n&255
	m := uint64(1<<n-1) << pos
	return y&^m | x<<pos&m
}
