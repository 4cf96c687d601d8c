package ptx

import "encoding/binary"

// Operations on all lanes that have a form for a machine's vectors. These are the
// portable ones; an init of the machine's file puts its own in their place. The
// tables, by opcode and by comparison, take precedence over the loops of
// alu32.go, alu64.go and compare.go; they are empty where there is nothing
// better.
var (
	vector32        map[string]func(d, a, b, c l32)
	vector64        map[string]func(d, a, b, c l64)
	vectorCompare32 map[string]compare32
	vectorCompare64 map[string]compare64

	// widenS and widenU extend to 64 bits by the sign and by zeros, narrow takes
	// the low half.
	widenS = func(d l64, a l32) { map1(d, a, func(x uint32) uint64 { return uint64(int64(int32(x))) }) }
	widenU = func(d l64, a l32) { map1(d, a, func(x uint32) uint64 { return uint64(x) }) }
	narrow = func(d l32, a l64) { map1(d, a, func(x uint64) uint32 { return uint32(x) }) }
	// signExtend brings the low 32 - shift bits to 32 by their sign, and cuts.
	signExtend = func(d, a l32, shift, cut uint32) {
		map1(d, a, func(x uint32) uint32 { return uint32(int32(x<<shift)>>shift) & cut })
	}
	mask32 = func(d, a l32, cut uint32) { map1(d, a, func(x uint32) uint32 { return x & cut }) }

	mulWideS = func(d l64, a, b l32) {
		map2(d, a, b, func(x, y uint32) uint64 { return uint64(int64(int32(x)) * int64(int32(y))) })
	}
	mulWideU = func(d l64, a, b l32) {
		map2(d, a, b, func(x, y uint32) uint64 { return uint64(x) * uint64(y) })
	}
	madWideS = func(d l64, a, b l32, c l64) {
		map3(d, a, b, c, func(x, y uint32, z uint64) uint64 { return uint64(int64(int32(x))*int64(int32(y))) + z })
	}
	madWideU = func(d l64, a, b l32, c l64) {
		map3(d, a, b, c, func(x, y uint32, z uint64) uint64 { return uint64(x)*uint64(y) + z })
	}
	shl64  = func(d, a l64, b l32) { map2(d, a, b, func(x uint64, y uint32) uint64 { return x << y }) }
	shrU64 = func(d, a l64, b l32) { map2(d, a, b, func(x uint64, y uint32) uint64 { return x >> y }) }
	shrS64 = func(d, a l64, b l32) {
		map2(d, a, b, func(x uint64, y uint32) uint64 { return uint64(int64(x) >> y) })
	}

	// select32 and select64 take a where a bit of m is set, else b.
	select32 = func(d, a, b l32, m uint32) {
		for i := range d {
			d[i] = b[i] ^ (a[i]^b[i])&-(m>>i&1)
		}
	}
	select64 = func(d, a, b l64, m uint32) {
		for i := range d {
			d[i] = b[i] ^ (a[i]^b[i])&-uint64(m>>i&1)
		}
	}

	// sameShape64 and sameShape32 report whether the lanes of a register lie as
	// a shape says.
	sameShape64 = func(reg l64, s *shape) bool {
		base := reg[s.first&(lanes-1)]
		var off uint64
		for i, v := range reg {
			off |= (v - base ^ uint64(int64(s.delta[i]))) & uint64(int64(s.care[i]))
		}
		return off == 0
	}
	sameShape32 = func(reg l32, s *shape) bool {
		base := reg[s.first&(lanes-1)]
		var off uint32
		for i, v := range reg {
			off |= (v - base ^ uint32(s.delta[i])) & uint32(s.care[i])
		}
		return off == 0
	}

	// Words and bytes that lie in memory one after the other, lane by lane.
	loadWords = func(d l32, b *[4 * lanes]byte) {
		for i := range d {
			d[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
	storeWords = func(b *[4 * lanes]byte, d l32) {
		for i, v := range d {
			binary.LittleEndian.PutUint32(b[4*i:], v)
		}
	}
	loadBytes = func(d l32, b *[lanes]byte) {
		for i, v := range b {
			d[i] = uint32(v)
		}
	}
	loadSigned = func(d l32, b *[lanes]byte) {
		for i, v := range b {
			d[i] = uint32(int32(int8(v)))
		}
	}

	// loadRows reads the rows of an 8×8 matrix of 16-bit elements, 16 bytes each at
	// the offsets in mem, which it has room for.
	loadRows = func(d l32, mem []byte, at *[8]uint32) {
		for i, off := range at {
			row := (*[16]byte)(mem[off:])
			for j := range 4 {
				d[4*i+j] = binary.LittleEndian.Uint32(row[4*j:])
			}
		}
	}
)
