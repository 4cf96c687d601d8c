package ptx

import "sync"

// Blocks finish in any order, but what they sent to L2 is counted in the order
// of the grid, so that counters do not depend on timing.
type order struct {
	mu      sync.Mutex
	cond    *sync.Cond
	next    int // block whose stream comes next
	total   int
	stopped bool
	pending map[int][]transaction
	group   [][]transaction // blocks resident together
	taken   int             // blocks of the group, those drained early included
	groups  int32           // of resident blocks before this one
	entries int             // transactions in group

	resident int
	workers  int
	l2       *L2
	own      bool // l2 ends with the launch
	foot     *footprint
	before   L2 // counters of l2 when the launch began
}

const (
	// window is how far a block may run ahead of the slowest one.
	window = 64
	// maxEntries closes a group of resident blocks early.
	maxEntries = 4 << 20
	// manyEntries are worth more than one goroutine.
	manyEntries = 1 << 13
	// turn is how many sectors a resident block sends before the next one.
	turn = 32
)

func newOrder(l *launch, total int) *order {
	o := &order{
		total: total, pending: map[int][]transaction{},
		resident: max(l.cfg.Caches.Resident, 1), workers: l.cfg.Workers,
		l2: l.cfg.L2, foot: newFootprint(l),
	}
	o.cond = sync.NewCond(&o.mu)
	if o.l2 == nil {
		o.own = true
		size := l.cfg.Caches.L2Bytes
		if l.blocks != nil {
			// Beside a sampled block run fewer others, and between two lie
			// fewer, and less of what they would have brought in.
			of := l.grid
			if total <= o.resident {
				of = min(l.grid, o.resident)
			}
			size = int(float64(size) * float64(total) / float64(of))
		}
		o.l2 = takeL2(size)
	}
	o.before = *o.l2
	return o
}

// admit takes the stream of block i.
func (o *order) admit(i int, stream []transaction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i >= o.next+window && !o.stopped {
		o.cond.Wait()
	}
	if o.stopped {
		return
	}
	o.pending[i] = stream
	for {
		s, ok := o.pending[o.next]
		if !ok {
			return
		}
		delete(o.pending, o.next)
		o.foot.block(o.next, s)
		o.next++
		o.cond.Broadcast()
		o.group = append(o.group, s)
		o.entries += len(s)
		o.taken++
		if full := o.taken == o.resident; full || o.entries >= maxEntries {
			o.drain()
			if full {
				o.groups++
				o.taken = 0
			}
		}
	}
}

func (o *order) stop() {
	o.mu.Lock()
	o.stopped = true
	o.cond.Broadcast()
	o.mu.Unlock()
}

// drain sends the group through L2, a turn of each block after the other.
func (o *order) drain() {
	if o.foot.sampled {
		inTurns(o.group, func(turn []transaction) {
			for _, t := range turn {
				misses := o.l2.misses
				o.l2.access(t)
				if t.reads() {
					o.foot.fetch(t.sector(), o.groups, o.l2.misses > misses)
				}
			}
		})
	} else {
		shards := 1
		if o.entries >= manyEntries {
			shards = o.workers
		}
		o.l2.accessAll(o.group, shards)
	}
	for _, s := range o.group {
		giveStream(s)
	}
	o.group, o.entries = o.group[:0], 0
}

// inTurns calls f with the turns of a group of resident blocks in the order in which
// they reach L2.
func inTurns(group [][]transaction, f func(turn []transaction)) {
	for at, left := 0, true; left; at += turn {
		left = false
		for _, s := range group {
			if at >= len(s) {
				continue
			}
			left = true
			f(s[at:min(at+turn, len(s))])
		}
	}
}

// finish sends what is left.
func (o *order) finish() {
	o.drain()
	if o.own {
		o.l2.writeBack()
	}
}

// end gives back what another launch can use, after the counters have been read.
func (o *order) end() {
	if o.own {
		giveL2(o.l2)
	}
}
