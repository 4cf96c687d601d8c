package passes

import (
	"slices"

	"situ/ir"
)

// Parts is a graph cut for a target that does not take all of its operators: what
// a host does before, the target's part, and what the host does after.
type Parts struct {
	Graph               *ir.Graph // that was cut
	Before, Chip, After Part
	Host                []int   // operators of Graph in Before and After, ascending
	HostShare           float64 // of all elementary operations, from 0 to 1
}

// Part is one of the graphs that another was cut into; Graph is nil when no
// operator falls there. In and Out name its inputs and outputs in the other graph,
// Ops the operators.
type Part struct {
	Graph   *ir.Graph
	In, Out []ir.ValueID
	Ops     []int
}

// Split cuts g so that none of the refused operators, given by index, is in the
// target's part. There is one cut before and one after: a refused operator goes with
// all that it follows from, or with all that follows from it, whichever is the less
// work.
func Split(g *ir.Graph, refused []int) *Parts {
	const before, after = 1, 2
	side := make([]uint8, len(g.Ops))
	work := make([]int64, len(g.Ops))
	total := int64(0)
	for i := range g.Ops {
		work[i] = Work(g, &g.Ops[i])
		total += work[i]
	}
	refused = slices.Clone(refused)
	slices.Sort(refused)
	for _, i := range refused {
		if side[i] != 0 {
			continue
		}
		up, down := ancestors(g, i), descendants(g, i)
		where, set := uint8(before), up
		if sum(work, up) > sum(work, down) {
			where, set = after, down
		}
		for j, in := range set {
			if in {
				side[j] |= where
			}
		}
	}
	p := &Parts{Graph: g}
	host := int64(0)
	for i := range side {
		if side[i]&after != 0 { // all that follows from it is there too
			side[i] = after
		}
		if side[i] != 0 {
			p.Host = append(p.Host, i)
			host += work[i]
		}
	}
	p.HostShare = float64(host) / float64(max(total, 1))
	for k, part := range []*Part{&p.Chip, &p.Before, &p.After} {
		take := func(i int) bool { return int(side[i]) == k }
		part.Graph, part.In, part.Out = ir.Extract(g, take)
		for i := range g.Ops {
			if take(i) {
				part.Ops = append(part.Ops, i)
			}
		}
	}
	return p
}

func sum(work []int64, set []bool) int64 {
	n := int64(0)
	for i, in := range set {
		if in {
			n += work[i]
		}
	}
	return n
}

// ancestors marks operator i and all that it follows from.
func ancestors(g *ir.Graph, i int) []bool {
	set := make([]bool, len(g.Ops))
	set[i] = true
	for j := i; j >= 0; j-- {
		if !set[j] {
			continue
		}
		for _, id := range g.Ops[j].In {
			if id != ir.NoValue && g.Value(id).Def >= 0 {
				set[g.Value(id).Def] = true
			}
		}
	}
	return set
}

// descendants marks operator i and all that follows from it.
func descendants(g *ir.Graph, i int) []bool {
	set := make([]bool, len(g.Ops))
	set[i] = true
	for j := i + 1; j < len(g.Ops); j++ {
		set[j] = slices.ContainsFunc(g.Ops[j].In, func(id ir.ValueID) bool {
			return id != ir.NoValue && g.Value(id).Def >= 0 && set[g.Value(id).Def]
		})
	}
	return set
}
