package ptx

import (
	"encoding/binary"
	"math/bits"
)

// A shape is how the addresses of one access of a warp lie to each other. The same
// instruction makes an access of the same shape again and again, at another place:
// in loops, in other warps, in other blocks. What follows from the shape alone is
// worked out once: how lanes fall into sectors, how many passes over the banks of
// shared memory they need, which bytes they span.
type shape struct {
	mask  uint32 // lanes; 0: there is no shape yet
	first uint8  // the lowest of them, whose address is the base
	last  uint8  // the highest
	turn  uint8  // what the place of the base within a sector or word is masked by
	phase uint8  // that place
	size  uint8  // bytes of a lane
	dense bool   // 32 lanes with no gap between them
	low   int64  // lowest address minus base
	span  uint64 // bytes from the lowest address to the end of the highest
	count int64  // bytes of all lanes

	delta [lanes]int32  // address minus base
	care  [lanes]int32  // -1 for the lanes of mask
	at    [lanes]uint32 // address minus the lowest one

	waves, phases int64 // of shared memory: passes over the banks, and how many there are at least

	// Of global memory: sectors relative to that of the base, and bytes in them.
	sectors int
	sector  [lanes]int32
	bytes   [lanes]uint32
}

// maxShape is how far apart the lanes of a shape may lie.
const maxShape = 1 << 30

// shapeWays is how many shapes are kept for an access.
const shapeWays = 4

// shapes are those of one access.
type shapes struct {
	last uint8 // the one that was used last
	next uint8 // the one that is replaced next
	of   [shapeWays]shape
}

// A place is where a warp's access goes: to register a, of 32 bits if narrow, plus off.
type place struct {
	space  space
	a      int32
	narrow bool
	off    uint64
}

// place is that of the instruction's address operand.
func (in *instr) place() place { return place{in.space, in.a, in.base32, uint64(in.imm)} }

// shapeOf returns the shape of an access of size bytes by the lanes of mask, the memory
// that it spans, and the address of its base. It returns nil where part of the access is
// outside memory or not aligned, or where lanes go to different buffers.
func (w *warp) shapeOf(site int32, p place, mask uint32, size int) (s *shape, mem []byte, base uint64) {
	k := &w.worker.shapes[site]
	s = &k.of[k.last]
	if !w.lies(s, p, mask) {
		s = nil
		for i := range k.of {
			if i != int(k.last) && w.lies(&k.of[i], p, mask) {
				s, k.last = &k.of[i], uint8(i)
				break
			}
		}
		if s == nil {
			k.last = k.next
			k.next = (k.next + 1) % shapeWays
			s = &k.of[k.last]
			w.locate(p)
			if !w.worker.record(s, p.space, &w.addr, mask, size) {
				return nil, nil, 0
			}
		}
	}
	lane := s.first & (lanes - 1)
	if p.narrow {
		base = uint64(w.r32(p.a)[lane]) + p.off
	} else {
		base = w.r64(p.a)[lane] + p.off
	}
	low := base + uint64(s.low)
	if p.space == spaceShared {
		mem = w.worker.shared
	} else {
		r := w.worker.hints[w.pc]
		if low-r.base >= uint64(len(r.data)) {
			if r = findRegion(w.worker.launch.regions, low); r == nil {
				return nil, nil, 0
			}
			w.worker.hints[w.pc] = r
		}
		mem = r.data
		low -= r.base
	}
	if low > uint64(len(mem)) || uint64(len(mem))-low < s.span {
		return nil, nil, 0
	}
	return s, mem[low : low+s.span], base
}

// lies reports whether an access has a shape.
func (w *warp) lies(s *shape, p place, mask uint32) bool {
	if s.mask != mask {
		return false
	}
	// The highest lane tells most apart.
	i, last := s.first&(lanes-1), s.last&(lanes-1)
	if p.narrow {
		reg := w.r32(p.a)
		// Differences of 32 bits wrap; those of addresses do not.
		base := int64(reg[i])
		return reg[last]-reg[i] == uint32(s.delta[last]) && uint8(uint64(base)+p.off)&s.turn == s.phase &&
			base+s.low >= 0 && base+s.low+int64(s.span) <= 1<<32 && sameShape32(reg, s)
	}
	reg := w.r64(p.a)
	return reg[last]-reg[i] == uint64(int64(s.delta[last])) && uint8(reg[i]+p.off)&s.turn == s.phase && sameShape64(reg, s)
}

// locate computes the addresses of all lanes.
func (w *warp) locate(p place) {
	if p.narrow {
		map1(&w.addr, w.r32(p.a), func(x uint32) uint64 { return uint64(x) + p.off })
	} else {
		map1(&w.addr, w.r64(p.a), func(x uint64) uint64 { return x + p.off })
	}
}

// record makes s the shape of an access. It returns false if the lanes lie too far apart
// or one of them is not aligned.
func (k *worker) record(s *shape, sp space, addr *[lanes]uint64, mask uint32, size int) bool {
	s.mask = 0
	s.first, s.last = uint8(bits.TrailingZeros32(mask)), uint8(bits.Len32(mask)-1)
	s.size = uint8(size)
	base := addr[s.first&(lanes-1)]
	var low, high int64
	var apart uint64 // from where lanes would be without a gap
	var ragged uint64
	for i := range lanes {
		care := -int32(mask >> i & 1)
		d := int64(addr[i]-base) & int64(care)
		low, high = min(low, d), max(high, d)
		ragged |= addr[i] & uint64(int64(care))
		apart |= uint64(d - int64(i*size))
		s.delta[i], s.care[i] = int32(d), care
	}
	if ragged&uint64(size-1) != 0 || low < -maxShape || high > maxShape {
		return false
	}
	for i, d := range s.delta {
		s.at[i] = uint32(int64(d) - low)
	}
	s.dense = mask == full && apart == 0
	s.low, s.span = low, uint64(high-low)+uint64(size)
	s.count = int64(bits.OnesCount32(mask) * size)
	if sp == spaceShared {
		s.turn = uint8(max(size, 4) - 1)
		s.waves, s.phases = k.passes(addr, mask, size)
	} else {
		s.turn = sectorBytes - 1
		set := k.coalesce(addr, mask, size)
		s.sectors = set.n
		for i, sector := range set.at[:set.n] {
			s.sector[i], s.bytes[i] = int32(sector-base/sectorBytes), set.bytes[i]
		}
	}
	s.phase = uint8(base) & s.turn
	s.mask = mask
	return true
}

// lane returns the bytes of a lane in the memory that shapeOf returned.
func (s *shape) lane(mem []byte, i int) []byte {
	return mem[s.at[i&(lanes-1)]:][:s.size]
}

// load reads the elements of a lane's access at offset off in it to a register, size
// bytes each, signed or not. mem is what shapeOf returned.
func (s *shape) load(d l32, mem []byte, off int, size uint8, signed bool) {
	mem = mem[off:]
	switch {
	case size == 4 && s.dense && s.size == 4:
		loadWords(d, (*[4 * lanes]byte)(mem))
	case size == 4 && s.mask == full:
		for i := range d {
			d[i] = binary.LittleEndian.Uint32(mem[s.at[i]:])
		}
	case size == 4:
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			d[i] = binary.LittleEndian.Uint32(mem[s.at[i]:])
		}
	case size == 1 && s.dense && s.size == 1 && signed:
		loadSigned(d, (*[lanes]byte)(mem))
	case size == 1 && s.dense && s.size == 1:
		loadBytes(d, (*[lanes]byte)(mem))
	case size == 1 && signed:
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			d[i] = uint32(int32(int8(mem[s.at[i]])))
		}
	case size == 1:
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			d[i] = uint32(mem[s.at[i]])
		}
	default: // 2
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			v := binary.LittleEndian.Uint16(mem[s.at[i]:])
			if d[i] = uint32(v); signed {
				d[i] = uint32(int32(int16(v)))
			}
		}
	}
}

// store writes a register to the elements of a lane's access, as load reads them.
func (s *shape) store(d l32, mem []byte, off int, size uint8) {
	mem = mem[off:]
	switch {
	case size == 4 && s.dense && s.size == 4:
		storeWords((*[4 * lanes]byte)(mem), d)
	case size == 4:
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			binary.LittleEndian.PutUint32(mem[s.at[i]:], d[i])
		}
	case size == 1:
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			mem[s.at[i]] = byte(d[i])
		}
	default: // 2
		for m := s.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			binary.LittleEndian.PutUint16(mem[s.at[i]:], uint16(d[i]))
		}
	}
}
