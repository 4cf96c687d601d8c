package ptx

import "math/bits"

// Traffic is what a launch moved through the memory system.
type Traffic struct {
	// Global memory. A request is one access of a warp; its lanes are merged
	// into sectors of 32 bytes. Bytes are those the threads asked for.
	LoadRequests, LoadSectors, LoadBytes       int64
	StoreRequests, StoreSectors, StoreBytes    int64
	AtomicRequests, AtomicSectors, AtomicBytes int64

	// Sectors of loads that L1 had.
	L1HitSectors int64
	// Sectors between the SMs and L2.
	L2ReadSectors, L2WriteSectors int64
	// Sectors read that L2 had, and had not.
	L2HitSectors, L2MissSectors int64
	// Bytes between L2 and memory. Written includes what is still in L2 at the
	// end of the launch, unless the caller gave the cache.
	DRAMReadBytes, DRAMWriteBytes int64

	// Shared memory. A wavefront is one pass over the 32 banks; conflicts are
	// the wavefronts beyond those that the bytes need at least.
	SharedLoads, SharedLoadBytes   int64
	SharedStores, SharedStoreBytes int64
	SharedWavefronts               int64
	SharedConflicts                int64

	ConstRequests, ConstBytes int64
	LocalRequests, LocalBytes int64

	AsyncCopies, AsyncBytes int64 // cp.async: also in loads and shared stores
}

// sectorSet collects the sectors that the lanes of a request touch.
type sectorSet struct {
	n     int
	at    [lanes]uint64
	bytes [lanes]uint32
}

// add marks size bytes at addr; they do not cross a sector.
func (s *sectorSet) add(addr uint64, size int) {
	sector := addr / sectorBytes
	mask := uint32((uint64(1)<<size - 1) << (addr % sectorBytes))
	// Neighbours come one after the other, nearly always.
	for i := s.n - 1; i >= 0; i-- {
		if s.at[i] == sector {
			s.bytes[i] |= mask
			return
		}
	}
	s.at[s.n], s.bytes[s.n] = sector, mask
	s.n++
}

// coalesce merges the accesses of the lanes in mask, of size bytes each.
func (k *worker) coalesce(addr *[lanes]uint64, mask uint32, size int) *sectorSet {
	s := &k.sectors
	s.n = 0
	last := -1
	for m := mask; m != 0; m &= m - 1 {
		a := addr[bits.TrailingZeros32(m)&(lanes-1)]
		sector := a / sectorBytes
		if last >= 0 && s.at[last] == sector {
			s.bytes[last] |= uint32((uint64(1)<<size - 1) << (a % sectorBytes))
			continue
		}
		if last >= 0 && sector > s.at[last] && last == s.n-1 && k.rising {
			last++
			s.at[last], s.bytes[last] = sector, uint32((uint64(1)<<size-1)<<(a%sectorBytes))
			s.n++
			continue
		}
		if last >= 0 {
			k.rising = false
		}
		s.add(a, size)
		last = s.n - 1
	}
	k.rising = true
	return s
}

// loads counts a global load of the lanes in mask.
func (k *worker) loads(addr *[lanes]uint64, mask uint32, size int, bypass bool) {
	s := k.coalesce(addr, mask, size)
	t := &k.traffic
	t.LoadRequests++
	t.LoadSectors += int64(s.n)
	t.LoadBytes += int64(bits.OnesCount32(mask) * size)
	for _, sector := range s.at[:s.n] {
		k.load(sector, bypass)
	}
}

// loadsOf is loads for an access whose shape is known.
func (k *worker) loadsOf(s *shape, base uint64, bypass bool) {
	t := &k.traffic
	t.LoadRequests++
	t.LoadSectors += int64(s.sectors)
	t.LoadBytes += s.count
	for _, d := range s.sector[:s.sectors] {
		k.load(base/sectorBytes+uint64(int64(d)), bypass)
	}
}

// load brings in a sector, from L1 if it is there.
func (k *worker) load(sector uint64, bypass bool) {
	if !bypass {
		if at, _ := k.l1.find(sector); at >= 0 {
			b := &k.l1.lines[at].bytes[sector%lineSectors]
			if *b == full {
				k.traffic.L1HitSectors++
				return
			}
			*b = full
		}
	}
	k.stream = append(k.stream, readOf(sector))
}

// stores counts a global store. L1 writes through and brings nothing in; what
// it holds stays right.
func (k *worker) stores(addr *[lanes]uint64, mask uint32, size int) {
	s := k.coalesce(addr, mask, size)
	t := &k.traffic
	t.StoreRequests++
	t.StoreSectors += int64(s.n)
	t.StoreBytes += int64(bits.OnesCount32(mask) * size)
	for i := range s.n {
		k.stream = append(k.stream, writeOf(s.at[i], s.bytes[i]))
	}
}

// storesOf is stores for an access whose shape is known.
func (k *worker) storesOf(s *shape, base uint64) {
	t := &k.traffic
	t.StoreRequests++
	t.StoreSectors += int64(s.sectors)
	t.StoreBytes += s.count
	for i, d := range s.sector[:s.sectors] {
		k.stream = append(k.stream, writeOf(base/sectorBytes+uint64(int64(d)), s.bytes[i]))
	}
}

// atomics counts an atomic operation, which L2 does.
func (k *worker) atomics(addr *[lanes]uint64, mask uint32, size int) {
	s := k.coalesce(addr, mask, size)
	t := &k.traffic
	t.AtomicRequests++
	t.AtomicSectors += int64(s.n)
	t.AtomicBytes += int64(bits.OnesCount32(mask) * size)
	for i := range s.n {
		k.stream = append(k.stream, atomicOf(s.at[i], s.bytes[i]))
	}
}

const banks = 32

// sharedAccess counts an access to shared memory.
func (k *worker) sharedAccess(addr *[lanes]uint64, mask uint32, size int, store bool) {
	waves, phases := k.passes(addr, mask, size)
	k.countShared(int64(bits.OnesCount32(mask)*size), waves, phases, store)
}

// countShared adds an access of n bytes to shared memory, in so many passes over the
// banks where phases would do.
func (k *worker) countShared(n, waves, phases int64, store bool) {
	t := &k.traffic
	if store {
		t.SharedStores++
		t.SharedStoreBytes += n
	} else {
		t.SharedLoads++
		t.SharedLoadBytes += n
	}
	t.SharedWavefronts += waves
	t.SharedConflicts += waves - phases
}

// passes returns how many passes over the banks an access to shared memory needs, and
// how many at least. Accesses of 8 bytes a lane are done half a warp at a time, of 16
// bytes a quarter; in each such phase a bank gives one word of 4 bytes per
// wavefront, to any number of lanes. Both numbers stay the same where all addresses
// move by the same number of words.
func (k *worker) passes(addr *[lanes]uint64, mask uint32, size int) (waves, phases int64) {
	group := lanes
	switch size {
	case 8:
		group = lanes / 2
	case 16:
		group = lanes / 4
	}
	for first := 0; first < lanes; first += group {
		m := mask >> first & uint32(uint64(1)<<group-1)
		if m == 0 {
			continue
		}
		n := int64(1)
		if !apart(addr, m, first, size) {
			n = k.wavefronts(addr, m, first, max(size/4, 1))
		}
		waves += n
		phases++
	}
	return waves, phases
}

// apart reports whether the lanes of one phase, whose addresses are multiples of
// their size, each ask other banks: then one pass serves them.
func apart(addr *[lanes]uint64, mask uint32, first, size int) bool {
	shift := uint(bits.TrailingZeros(uint(max(size, 4))))
	units := uint64(4*banks>>shift - 1)
	var seen uint32
	for m := mask; m != 0; m &= m - 1 {
		unit := uint32(1) << (addr[(first+bits.TrailingZeros32(m))&(lanes-1)] >> shift & units)
		if seen&unit != 0 {
			return false
		}
		seen |= unit
	}
	return true
}

// wavefronts returns how many passes over the banks the lanes of one phase
// need: the most different words that one bank has to give.
func (k *worker) wavefronts(addr *[lanes]uint64, mask uint32, first, words int) int64 {
	k.phase++
	worst := int64(1)
	for m := mask; m != 0; m &= m - 1 {
		lane := first + bits.TrailingZeros32(m)
		base := addr[lane&(lanes-1)] / 4
		for w := base; w < base+uint64(words); w++ {
			b := &k.banks[w%banks]
			if b.phase != k.phase {
				b.phase, b.n = k.phase, 1
				b.words[0] = w
				continue
			}
			seen := false
			for _, x := range b.words[:b.n] {
				if x == w {
					seen = true
					break
				}
			}
			if !seen {
				b.words[b.n] = w
				b.n++
				worst = max(worst, int64(b.n))
			}
		}
	}
	return worst
}

// A bankState is the words that one phase asked of a bank.
type bankState struct {
	phase uint64
	n     int
	words [lanes]uint64
}
