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
	phase uint8  // of the base within a sector or, in shared memory, a word
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

// shapeOf returns the shape of an access of size bytes by the lanes of mask at
// register a (of 32 bits if narrow) plus off, the memory that it spans, and the
// address of its base; nil if the shape is not the one kept for the site, or if part
// of it is outside memory or not aligned.
func (w *warp) shapeOf(site int32, sp space, mask uint32, size int, a int32, narrow bool, off uint64) (s *shape, mem []byte, base uint64) {
	s = &w.worker.shapes[site]
	if s.mask != mask {
		return nil, nil, 0
	}
	if narrow {
		reg := w.r32(a)
		// Differences of 32 bits wrap; those of addresses do not.
		first := int64(reg[s.first&(lanes-1)])
		if first+s.low < 0 || first+s.low+int64(s.span) > 1<<32 || !sameShape32(reg, s) {
			return nil, nil, 0
		}
		base = uint64(first) + off
	} else {
		reg := w.r64(a)
		if !sameShape64(reg, s) {
			return nil, nil, 0
		}
		base = reg[s.first&(lanes-1)] + off
	}
	low := base + uint64(s.low)
	if sp == spaceShared {
		mem = w.worker.shared
		if base&uint64(max(size, 4)-1) != uint64(s.phase) {
			return nil, nil, 0
		}
	} else {
		if base%sectorBytes != uint64(s.phase) {
			return nil, nil, 0
		}
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

// record keeps the shape of an access that was found to be in memory and aligned,
// and returns it; nil if the lanes lie too far apart.
func (k *worker) record(site int32, sp space, addr *[lanes]uint64, mask uint32, size int) *shape {
	s := &k.shapes[site]
	s.mask = 0
	s.first = uint8(bits.TrailingZeros32(mask))
	s.size = uint8(size)
	base := addr[s.first&(lanes-1)]
	low, high := int64(0), int64(0)
	s.dense = mask == full
	for i := range lanes {
		s.delta[i], s.care[i] = 0, 0
		if mask>>i&1 == 0 {
			continue
		}
		d := int64(addr[i] - base)
		if d < -maxShape || d > maxShape {
			return nil
		}
		low, high = min(low, d), max(high, d)
		s.delta[i], s.care[i] = int32(d), -1
		s.dense = s.dense && d == int64(i*size)
	}
	s.low, s.span = low, uint64(high-low)+uint64(size)
	for i := range lanes {
		s.at[i] = uint32(int64(s.delta[i]) - low)
	}
	s.count = int64(bits.OnesCount32(mask) * size)
	if sp == spaceShared {
		s.phase = uint8(base & uint64(max(size, 4)-1))
		s.waves, s.phases = k.passes(addr, mask, size)
	} else {
		s.phase = uint8(base % sectorBytes)
		set := k.coalesce(addr, mask, size)
		s.sectors = set.n
		for i := range set.n {
			s.sector[i], s.bytes[i] = int32(set.at[i]-base/sectorBytes), set.bytes[i]
		}
	}
	s.mask = mask
	return s
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
