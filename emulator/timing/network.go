package timing

import "slices"

// network books the links of the dies' meshes, the links between dies and the
// DRAM channels. A cluster's router has its number within the die, row by row;
// the DRAM controller and the die-to-die links hang on router 0 by a link of
// their own. Routes go along x first, then y.
type network struct {
	r     *rates
	links [][]resource // per die, used or not: 4 a router, then the port in and the port out
	pairs [][]resource // die-to-die link from a to b, made on first use of a
	dram  []resource   // channels of a die
	at    []place      // of each cluster of the program

	// One transfer's tree: where it has been, and when its head got there.
	stamp   int32
	visited []int32
	head    []int64
}

// place is where a cluster is: its die, its router there, and that one's place in
// the mesh.
type place struct{ die, router, x, y int }

// Directions of a router's links, and the two ports of router 0.
const (
	east = iota
	west
	south
	north
	dirs
)

// reset makes n the idle network of a chip of which a program uses some clusters.
func (n *network) reset(r *rates, clusters int) {
	routers := r.meshCols * r.meshRows
	n.r, n.stamp = r, 0
	n.links = idle(n.links, r.dies)
	n.pairs = idle(n.pairs, r.dies)
	n.dram = cleared(n.dram, r.dies)
	n.visited = cleared(n.visited, routers)
	n.head = cleared(n.head, routers)
	n.at = slices.Grow(n.at[:0], clusters)[:clusters]
	for i := range n.at {
		router := i % r.perDie
		n.at[i] = place{i / r.perDie, router, router % r.meshCols, router / r.meshCols}
	}
}

// cleared returns n zeros in the memory of s, where that is enough.
func cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// idle empties n lists of resources.
func idle(lists [][]resource, n int) [][]resource {
	lists = slices.Grow(lists[:0], n)[:n]
	for i := range lists {
		lists[i] = lists[i][:0]
	}
	return lists
}

// mesh returns the links of a die.
func (n *network) mesh(die int) []resource {
	if len(n.links[die]) == 0 {
		n.links[die] = cleared(n.links[die], len(n.head)*dirs+2)
	}
	return n.links[die]
}

// cross books one link for a transfer of dur and returns when the head is
// across.
func (n *network) cross(link *resource, at, dur int64) int64 {
	return link.book(at, dur) + n.r.hopPS
}

// transfer is bytes on their way: how long they hold a mesh link, and how long
// after its head the tail arrives, which is the pace of the slowest part.
type transfer struct {
	bytes, dur, tail int64
	c                *Counters
}

// newTransfer starts the count of a transfer that takes some cycles on a link.
func (n *network) newTransfer(bytes, cycles int64, c *Counters) transfer {
	dur := n.r.ps(cycles)
	c.NoCIn += bytes
	return transfer{bytes: bytes, dur: dur, tail: dur, c: c}
}

// dramTime is how long a die's channels take for some bytes.
func (n *network) dramTime(bytes int64) int64 { return int64(float64(bytes) * n.r.dramPSPerByte) }

// begin starts a new tree in a die from a router.
func (n *network) begin(router int, at int64) {
	n.stamp++
	n.visited[router], n.head[router] = n.stamp, at
}

// reach extends the tree to a router and returns when the head is there.
func (n *network) reach(t *transfer, from, to *place, die int) int64 {
	at := n.head[from.router]
	if from.router == to.router {
		return at
	}
	links, cols := n.mesh(die), n.r.meshCols
	router, x, y := from.router, from.x, from.y
	for router != to.router {
		dir, next := north, router-cols
		switch {
		case x < to.x:
			dir, next = east, router+1
			x++
		case x > to.x:
			dir, next = west, router-1
			x--
		case y < to.y:
			dir, next = south, router+cols
			y++
		default:
			y--
		}
		if n.visited[next] != n.stamp {
			at = n.cross(&links[router*dirs+dir], at, t.dur)
			n.visited[next], n.head[next] = n.stamp, at
			t.c.NoCByteHops += t.bytes
		}
		at = n.head[next]
		router = next
	}
	return at
}

// port books the link between router 0 and the DRAM controller or the die
// links; in is towards the router.
func (n *network) port(t *transfer, die int, in bool, at int64) int64 {
	ports := n.mesh(die)[len(n.head)*dirs:]
	port := &ports[1]
	if in {
		port = &ports[0]
	}
	t.c.NoCByteHops += t.bytes
	return n.cross(port, at, t.dur)
}

// link books the die-to-die link.
func (n *network) link(t *transfer, from, to int, at int64) int64 {
	dur := int64(float64(t.bytes) * n.r.linkPSPerByte)
	t.c.Link += t.bytes
	t.tail = max(t.tail, dur)
	if len(n.pairs[from]) == 0 {
		n.pairs[from] = cleared(n.pairs[from], n.r.dies)
	}
	return n.pairs[from][to].book(at, dur) + n.r.linkLatency
}

// receivers are clusters first..first+count-1 except skip (−1 for none), and
// what to do when a transfer's last byte is at one of them.
type receivers struct {
	first, count, skip int
	arrived            func(cluster int, end int64)
}

// spread takes a transfer whose head is at a router to its receivers. Each
// other die gets one copy by its link; within a die links are shared.
func (n *network) spread(t *transfer, from *place, at int64, to *receivers) {
	exit := int64(-1)
	for d, last := n.at[to.first].die, n.at[to.first+to.count-1].die; d <= last; d++ {
		if d == from.die {
			continue
		}
		if exit < 0 {
			n.begin(from.router, at)
			exit = n.port(t, from.die, false, n.reach(t, from, &n.at[0], from.die))
		}
		far := *t
		head := n.link(&far, from.die, d, exit)
		n.within(&far, d, &n.at[0], n.port(&far, d, true, head), to)
	}
	n.within(t, from.die, from, at, to)
}

// within takes a transfer to the receivers of one die, from one of its routers.
func (n *network) within(t *transfer, die int, from *place, at int64, to *receivers) {
	first := die * n.r.perDie
	lo, hi := max(to.first, first), min(to.first+to.count, first+n.r.perDie)
	if lo >= hi {
		return
	}
	n.begin(from.router, at)
	for c := lo; c < hi; c++ {
		if c == to.skip {
			continue
		}
		t.c.NoCOut += t.bytes
		to.arrived(c, n.reach(t, from, &n.at[c], die)+t.tail)
	}
}

// copies counts what multicast adds to a transfer.
func (t *transfer) copies(to *receivers) {
	n := to.count
	if to.skip >= to.first && to.skip < to.first+to.count {
		n--
	}
	t.c.NoCCopied += t.bytes * int64(n-1)
}

// send takes bytes from a cluster to others and returns when the last byte has
// left. cycles is the time of the runs the bytes lie in, here as in the next two.
func (n *network) send(bytes, cycles int64, from int, at int64, to *receivers, c *Counters) int64 {
	t := n.newTransfer(bytes, cycles, c)
	t.copies(to)
	n.spread(&t, &n.at[from], at, to)
	return at + t.dur
}

// fromDRAM reads bytes from a die's DRAM for some clusters and returns when the
// channel is free again.
func (n *network) fromDRAM(bytes, cycles int64, home int, at int64, to *receivers, c *Counters) int64 {
	return n.gathered(bytes, bytes, cycles, home, at, to, c)
}

// gathered is fromDRAM for bytes that occupy the channel as long as bursts do.
func (n *network) gathered(bytes, bursts, cycles int64, home int, at int64, to *receivers, c *Counters) int64 {
	t := n.newTransfer(bytes, cycles, c)
	t.copies(to)
	dur := n.dramTime(bursts)
	at = n.dram[home].book(at, dur)
	t.tail = max(t.tail, dur)
	c.DRAMRead += bytes
	head := at + n.r.dramLatency
	if lo, hi := n.at[to.first].die, n.at[to.first+to.count-1].die; lo == hi && lo != home {
		// From the controller to the die link, not through the mesh.
		head = n.link(&t, home, lo, head)
		home = lo
	}
	n.spread(&t, &place{die: home}, n.port(&t, home, true, head), to)
	return at + dur
}

// toDRAM writes bytes from a cluster to a die's DRAM and returns when they are
// there.
func (n *network) toDRAM(bytes, cycles int64, from, home int, at int64, c *Counters) int64 {
	t := n.newTransfer(bytes, cycles, c)
	here := &n.at[from]
	n.begin(here.router, at)
	head := n.port(&t, here.die, false, n.reach(&t, here, &n.at[0], here.die))
	if here.die != home {
		head = n.link(&t, here.die, home, head)
	}
	dur := n.dramTime(bytes)
	start := n.dram[home].book(head, dur)
	c.NoCOut += bytes
	c.DRAMWrite += bytes
	return max(start+dur, head+t.tail) + n.r.dramLatency
}
