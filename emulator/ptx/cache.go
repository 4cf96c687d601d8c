package ptx

import (
	"math/bits"
	"sync"
)

// Geometry of both caches: lines of four sectors.
const (
	sectorBytes = 32
	lineSectors = 4
	lineBytes   = sectorBytes * lineSectors
)

// A line of a cache. A byte of a sector may be present without the rest, after
// a partial write.
type line struct {
	bytes [lineSectors]uint32 // which bytes of each sector are present
	dirty uint8               // sectors with bytes newer than the level below
}

// A cache is set-associative with least-recently-used replacement. The set is
// a hash of the line address, as strides of a power of two would otherwise meet
// in few sets.
type cache struct {
	ways  int // at most 16
	count modulus
	sets  []cacheSet
	// By way of set 0, of set 1, and so on; a tag is the line address plus one,
	// 0 if there is none.
	tags  []uint64
	lines []line
	epoch uint32
	// The line that was found last is nearly always the next one too: its tag,
	// and where it is.
	last   uint64
	lastAt int
}

// A cacheSet is what a set has beside its ways.
type cacheSet struct {
	order uint64 // a digit of four bits for each way, the most recently used one lowest
	epoch uint32 // with another one than the cache's the set is empty
}

// newCache returns a cache of at most size bytes; one without a set when size
// is too small for one.
func newCache(size, ways int) *cache {
	n := size / lineBytes / ways
	return &cache{
		ways: ways, count: newModulus(n), epoch: 1,
		sets: make([]cacheSet, n), tags: make([]uint64, n*ways), lines: make([]line, n*ways),
	}
}

// reset empties the cache.
func (c *cache) reset() {
	c.last = 0
	c.epoch++
	if c.epoch == 0 {
		clear(c.sets)
		c.epoch = 1
	}
}

// find returns the index of the line that holds a sector. A new one takes the place
// of the least recently used, whose dirty sectors are returned. The index is -1 if
// the cache has no lines.
func (c *cache) find(sector uint64) (at int, evicted uint8) {
	switch tag := sector/lineSectors + 1; {
	case tag == c.last:
		return c.lastAt, 0
	case len(c.sets) == 0:
		return -1, 0
	default:
		return c.search(tag, c.set(tag))
	}
}

// set is the one that a line belongs to.
func (c *cache) set(tag uint64) int {
	h := tag * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return int(c.count.of(h >> 16))
}

func (c *cache) search(tag uint64, n int) (at int, evicted uint8) {
	set := &c.sets[n]
	first := n * c.ways
	tags := c.tags[first : first+c.ways]
	if set.epoch != c.epoch {
		// Ways are filled from the first on.
		*set = cacheSet{order: 0x0123456789abcdef >> (4 * (16 - c.ways)), epoch: c.epoch}
		clear(tags)
		clear(c.lines[first : first+c.ways])
	}
	c.last = tag
	for way, t := range tags {
		if t != tag {
			continue
		}
		// The lowest digit that is zero in x is that of the way.
		const ones = 0x1111111111111111
		x := set.order ^ uint64(way)*ones
		set.use(way, bits.TrailingZeros64((x-ones)&^x&(8*ones))&^3)
		c.lastAt = first + way
		return c.lastAt, 0
	}
	place := 4 * (c.ways - 1)
	way := int(set.order >> place & 15)
	set.use(way, place)
	at = first + way
	evicted = c.lines[at].dirty
	tags[way], c.lines[at] = tag, line{}
	c.lastAt = at
	return at, evicted
}

// use makes a way, whose digit is at a place of the order, the most recently used one.
func (s *cacheSet) use(way, place int) {
	below := uint64(1)<<place - 1
	s.order = s.order&^(below<<4|15) | s.order&below<<4 | uint64(way)
}

// A modulus divides by a number again and again: by way of its inverse, which
// leaves at most one divisor too much.
type modulus struct{ n, inverse uint64 }

func newModulus(n int) modulus {
	return modulus{uint64(n), ^uint64(0) / uint64(max(n, 1))}
}

func (m modulus) of(x uint64) uint64 {
	q, _ := bits.Mul64(x, m.inverse)
	r := x - q*m.n
	if r >= m.n {
		r -= m.n
	}
	return r
}

// An L2 is the state of a second-level cache, which several launches may share
// one after the other. It writes back; a write brings no sector in, it marks
// its bytes, and a later read of the rest fetches the sector.
type L2 struct {
	c *cache
	// Bytes read from and written to memory.
	read, written int64
	hits, misses  int64 // sectors
	dirty         int64 // sectors newer here than in memory
}

// l2Ways is the associativity of the modelled L2.
const l2Ways = 16

// NewL2 returns an empty cache of size bytes.
func NewL2(size int) *L2 { return &L2{c: newCache(max(size, 0), l2Ways)} }

// accessAll does the transactions of a group of resident blocks. Sets have nothing to
// do with each other, so that each of several goroutines can do those of its own.
func (l *L2) accessAll(group [][]transaction, shards int) {
	if len(l.c.sets) == 0 {
		shards = 1
	}
	parts := make([]L2, shards)
	var wg sync.WaitGroup
	for i := range parts {
		c := *l.c
		c.last = 0
		parts[i].c = &c
		wg.Go(func() { parts[i].accessShard(group, i, shards) })
	}
	wg.Wait()
	l.c.last = 0
	for i := range parts {
		p := &parts[i]
		l.read += p.read
		l.written += p.written
		l.hits += p.hits
		l.misses += p.misses
		l.dirty += p.dirty
	}
}

// accessShard does the transactions of every set whose number modulo shards is shard.
func (l *L2) accessShard(group [][]transaction, shard, shards int) {
	inTurns(group, func(turn []transaction) {
		var other uint64 // a line of another shard, nearly always the next one too
		for _, t := range turn {
			if tag := t.sector()/lineSectors + 1; shards > 1 && tag != l.c.last {
				if tag == other {
					continue
				}
				if l.c.set(tag)%shards != shard {
					other = tag
					continue
				}
			}
			l.access(t)
		}
	})
}

// access does one transaction.
func (l *L2) access(t transaction) {
	sector := t.sector()
	at, evicted := l.c.find(sector)
	if evicted != 0 {
		n := int64(bits.OnesCount8(evicted))
		l.written += n * sectorBytes
		l.dirty -= n
	}
	if at < 0 { // no cache: straight to memory
		if t.reads() {
			l.misses++
			l.read += sectorBytes
		}
		if t.written != 0 {
			l.written += sectorBytes
		}
		return
	}
	ln := &l.c.lines[at]
	s := sector % lineSectors
	if t.reads() {
		if ln.bytes[s] == full {
			l.hits++
		} else {
			l.misses++
			l.read += sectorBytes
			ln.bytes[s] = full
		}
	}
	if t.written != 0 {
		ln.bytes[s] |= t.written
		if ln.dirty>>s&1 == 0 {
			ln.dirty |= 1 << s
			l.dirty++
		}
	}
}

// Flush writes what is dirty back to memory and returns how many bytes that
// are; the cache keeps its contents.
func (l *L2) Flush() int64 {
	for i := range l.c.lines {
		l.c.lines[i].dirty = 0
	}
	return l.writeBack()
}

// writeBack is Flush for a cache that is not used again.
func (l *L2) writeBack() int64 {
	n := l.dirty * sectorBytes
	l.written += n
	l.dirty = 0
	return n
}

// A transaction is a sector on its way from an SM to L2.
type transaction struct {
	// Address / 32, shifted left by one; the lowest bit says that the sector is
	// read.
	what    uint64
	written uint32 // bytes of the sector that are written
}

func readOf(sector uint64) transaction { return transaction{what: sector<<1 | 1} }

func writeOf(sector uint64, bytes uint32) transaction {
	return transaction{what: sector << 1, written: bytes}
}

func atomicOf(sector uint64, bytes uint32) transaction {
	return transaction{what: sector<<1 | 1, written: bytes}
}

func (t transaction) sector() uint64 { return t.what >> 1 }
func (t transaction) reads() bool    { return t.what&1 != 0 }
