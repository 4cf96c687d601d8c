package ptx

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/bits"
	"slices"
)

// access is what one instruction does to virtual registers.
type access struct {
	defs, uses []int32
	early      bool // results may not share registers with operands
	guarded    bool // a result may keep its old value
}

// maxLiveness bounds the memory of the liveness sets, in bytes.
const maxLiveness = 256 << 20

// allocate maps virtual registers to places in the banks of a warp, so that
// registers that are never alive together share a place and the working set of
// a warp stays small. Lanes never read each other's place except in shfl, whose
// operand is alive there, so liveness of one thread is enough.
func (c *compiler) allocate(g *graph, flow []access) error {
	n := len(c.regs)
	words := (n + 63) / 64
	if g.blocks()*words > maxLiveness/8/2 {
		return fmt.Errorf("kernel %s: %d registers in %d basic blocks is more than can be analysed", c.t.name, n, g.blocks())
	}
	in := liveness(g, flow, words)
	first, last := c.intervals(g, flow, in, words)

	slot := make([]int32, n)
	for i := range slot {
		slot[i] = unused
	}
	k := c.k
	for special, v := range c.special {
		// Special registers keep a place for the whole kernel.
		slot[v] = int32(k.n32)
		k.specials = append(k.specials, pinned{int32(special), slot[v]})
		k.n32++
	}
	slices.SortFunc(k.specials, func(a, b pinned) int { return cmp.Compare(a.slot, b.slot) })
	var order []int32
	for v, r := range c.t.regs {
		switch {
		case first[v] > last[v]:
		case r.class == classPred:
			slot[v] = int32(k.preds)
			k.preds++
		default:
			order = append(order, int32(v))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(first[a], first[b]) })
	banks := map[class]*bank{class32: {size: k.n32}, class64: {}}
	for _, v := range order {
		slot[v] = banks[c.regs[v].class].take(first[v], last[v])
	}
	k.n32, k.n64 = banks[class32].size, banks[class64].size
	for v := range c.t.regs {
		if in[0][v/64]>>(v%64)&1 != 0 {
			switch c.regs[v].class {
			case class32:
				k.zero32 = append(k.zero32, slot[v])
			case class64:
				k.zero64 = append(k.zero64, slot[v])
			}
		}
	}
	for i := range k.code {
		in := &k.code[i]
		for _, f := range []*int32{&in.guard, &in.d, &in.d2, &in.a, &in.b, &in.c} {
			if *f >= 0 {
				*f = slot[*f]
			}
		}
		for j, x := range in.xs {
			if x >= 0 {
				in.xs[j] = slot[x]
			}
		}
	}
	return nil
}

// liveness returns for each block the registers alive at its start.
func liveness(g *graph, flow []access, words int) [][]uint64 {
	n := g.blocks()
	in := make([][]uint64, n)
	gen := make([][]uint64, n) // read before written
	kill := make([][]uint64, n)
	for b := range n {
		in[b], gen[b], kill[b] = make([]uint64, words), make([]uint64, words), make([]uint64, words)
		for i := g.start[b]; i < g.start[b+1]; i++ {
			f := &flow[i]
			for _, u := range f.uses {
				gen[b][u/64] |= 1 << (u % 64) &^ kill[b][u/64]
			}
			if f.guarded {
				continue
			}
			for _, d := range f.defs {
				kill[b][d/64] |= 1 << (d % 64)
			}
		}
		copy(in[b], gen[b])
	}
	for changed := true; changed; {
		changed = false
		for b := n - 1; b >= 0; b-- {
			for _, s := range g.succ[b] {
				for w, x := range in[s] {
					if x = in[b][w] | x&^kill[b][w]; x != in[b][w] {
						in[b][w] = x
						changed = true
					}
				}
			}
		}
	}
	return in
}

// intervals returns the first and last position at which each register is
// alive; instruction i reads at 2i and writes at 2i+1. It also finds the most
// registers alive at once.
func (c *compiler) intervals(g *graph, flow []access, in [][]uint64, words int) (first, last []int32) {
	n := len(c.regs)
	first, last = make([]int32, n), make([]int32, n)
	for v := range first {
		first[v], last[v] = 1<<31-1, -1
	}
	touch := func(v, at int32) {
		first[v], last[v] = min(first[v], at), max(last[v], at)
	}
	live := make([]uint64, words)
	weight := func(v int32) int { return int(c.weigh([]int32{v})) }
	for b := range g.blocks() {
		clear(live)
		for _, s := range g.succ[b] {
			for w, x := range in[s] {
				live[w] |= x
			}
		}
		count := 0
		each(live, func(v int32) {
			touch(v, 2*g.start[b+1]-1)
			count += weight(v)
		})
		each(in[b], func(v int32) { touch(v, 2*g.start[b]) })
		c.k.liveRegs = max(c.k.liveRegs, count)
		for i := g.start[b+1] - 1; i >= g.start[b]; i-- {
			f := &flow[i]
			for _, d := range f.defs {
				at := 2*i + 1
				if f.early || f.guarded {
					at = 2 * i
				}
				touch(d, 2*i+1)
				touch(d, at)
				if live[d/64]>>(d%64)&1 != 0 && !f.guarded {
					live[d/64] &^= 1 << (d % 64)
					count -= weight(d)
				}
			}
			for _, u := range f.uses {
				touch(u, 2*i)
				if live[u/64]>>(u%64)&1 == 0 {
					live[u/64] |= 1 << (u % 64)
					count += weight(u)
				}
			}
			c.k.liveRegs = max(c.k.liveRegs, count)
		}
	}
	return first, last
}

// each calls f with every member of a set.
func each(set []uint64, f func(v int32)) {
	for w, x := range set {
		for x != 0 {
			f(int32(w*64 + bits.TrailingZeros64(x)))
			x &= x - 1
		}
	}
}

// A bank hands out places in the order of first use, and takes them back after
// the last one.
type bank struct {
	size int
	free []int32
	busy ends
}

type busy struct{ end, slot int32 }

// ends is a heap of places in use, the one that ends first on top.
type ends []busy

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].end < e[j].end }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(busy)) }
func (e *ends) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func (b *bank) take(first, last int32) int32 {
	for len(b.busy) > 0 && b.busy[0].end < first {
		b.free = append(b.free, heap.Pop(&b.busy).(busy).slot)
	}
	var s int32
	if n := len(b.free); n > 0 {
		s = b.free[n-1]
		b.free = b.free[:n-1]
	} else {
		s = int32(b.size)
		b.size++
	}
	heap.Push(&b.busy, busy{last, s})
	return s
}
