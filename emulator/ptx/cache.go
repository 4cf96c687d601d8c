package ptx

import "math/bits"

// Geometry of both caches: lines of four sectors.
const (
	sectorBytes = 32
	lineSectors = 4
	lineBytes   = sectorBytes * lineSectors
)

// A line of a cache. A byte of a sector may be present without the rest, after
// a partial write.
type line struct {
	tag   uint64 // line address plus one; 0: empty
	used  uint64
	bytes [lineSectors]uint32 // which bytes of each sector are present
	dirty uint8               // sectors with bytes newer than the level below
}

// A cache is set-associative with least-recently-used replacement. The set is
// a hash of the line address, as strides of a power of two would otherwise meet
// in few sets.
type cache struct {
	ways  int
	sets  [][]line // nil until used
	clock uint64
}

// newCache returns a cache of at most size bytes; one without a set when size
// is too small for one.
func newCache(size, ways int) *cache {
	return &cache{ways: ways, sets: make([][]line, size/lineBytes/ways)}
}

func (c *cache) reset() {
	for _, set := range c.sets {
		clear(set)
	}
	c.clock = 0
}

// find returns the line that holds a sector, and whether it was there. A new
// one takes the place of the least recently used, which is returned as it was.
// With allocate false, an absent line stays absent and nil is returned.
func (c *cache) find(sector uint64, allocate bool) (l *line, hit bool, evicted line) {
	if len(c.sets) == 0 {
		return nil, false, line{}
	}
	tag := sector/lineSectors + 1
	h := tag * 0x9e3779b97f4a7c15
	h ^= h >> 29
	set := &c.sets[(h>>16)%uint64(len(c.sets))]
	if *set == nil {
		if !allocate {
			return nil, false, line{}
		}
		*set = make([]line, c.ways)
	}
	ways := *set
	c.clock++
	victim := 0
	for i := range ways {
		if ways[i].tag == tag {
			ways[i].used = c.clock
			return &ways[i], true, line{}
		}
		if ways[i].used < ways[victim].used {
			victim = i
		}
	}
	if !allocate {
		return nil, false, line{}
	}
	evicted = ways[victim]
	ways[victim] = line{tag: tag, used: c.clock}
	return &ways[victim], false, evicted
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
	last          *line // that was accessed, nearly always the next one too
}

// l2Ways is the associativity of the modelled L2.
const l2Ways = 16

// NewL2 returns an empty cache of size bytes.
func NewL2(size int) *L2 { return &L2{c: newCache(max(size, 0), l2Ways)} }

// access does one transaction.
func (l *L2) access(t transaction) {
	ln := l.last
	if ln != nil && ln.tag == t.sector/lineSectors+1 {
		l.c.clock++
		ln.used = l.c.clock
	} else {
		var evicted line
		ln, _, evicted = l.c.find(t.sector, true)
		if evicted.dirty != 0 {
			n := int64(bits.OnesCount8(evicted.dirty))
			l.written += n * sectorBytes
			l.dirty -= n
		}
		l.last = ln
	}
	if ln == nil { // no cache: straight to memory
		if t.reads {
			l.misses++
			l.read += sectorBytes
		}
		if t.written != 0 {
			l.written += sectorBytes
		}
		return
	}
	s := t.sector % lineSectors
	if t.reads {
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
	for _, set := range l.c.sets {
		for i := range set {
			set[i].dirty = 0
		}
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
	sector  uint64 // address / 32
	written uint32 // bytes of the sector that are written
	reads   bool
}
