package ptx

// A graph is the basic blocks of a kernel.
type graph struct {
	start []int32 // first instruction of each block, and the end
	of    []int32 // instruction → block
	succ  [][]int32
}

// newGraph splits code into basic blocks. The last instruction is an exit.
func newGraph(code []instr) *graph {
	n := len(code)
	leader := make([]bool, n+1)
	leader[0] = true
	for i := range code {
		switch code[i].kind {
		case kindBranch:
			leader[code[i].target] = true
			leader[i+1] = true
		case kindExit:
			leader[i+1] = true
		}
	}
	g := &graph{of: make([]int32, n)}
	for i := range n {
		if leader[i] {
			g.start = append(g.start, int32(i))
		}
		g.of[i] = int32(len(g.start) - 1)
	}
	g.start = append(g.start, int32(n))
	g.succ = make([][]int32, g.blocks())
	for b := range g.succ {
		last := &code[g.start[b+1]-1]
		next := int32(b + 1)
		switch {
		case last.kind == kindBranch && last.guard == unused:
			g.succ[b] = []int32{g.of[last.target]}
		case last.kind == kindBranch:
			g.succ[b] = []int32{next, g.of[last.target]}
		case last.kind == kindExit && last.guard == unused:
		default:
			g.succ[b] = []int32{next}
		}
	}
	return g
}

func (g *graph) blocks() int { return len(g.start) - 1 }

// reconverge sets the rpc of each branch: where its immediate post-dominator
// begins. The algorithm is the iterative one over a reverse post-order of the
// reversed graph (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm).
func (g *graph) reconverge(code []instr) {
	n := g.blocks()
	exit := int32(n) // the node after every exit
	pred := make([][]int32, n+1)
	succ := make([][]int32, n+1)
	for b := range n {
		succ[b] = g.succ[b]
		if last := &code[g.start[b+1]-1]; last.kind == kindExit {
			succ[b] = append([]int32{exit}, g.succ[b]...)
		}
		for _, s := range succ[b] {
			pred[s] = append(pred[s], int32(b))
		}
	}
	// Post-order of the reversed graph, from exit.
	order := make([]int32, 0, n+1)
	number := make([]int32, n+1)
	for i := range number {
		number[i] = -1
	}
	type frame struct{ node, edge int32 }
	stack := []frame{{exit, 0}}
	seen := make([]bool, n+1)
	seen[exit] = true
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if int(f.edge) < len(pred[f.node]) {
			p := pred[f.node][f.edge]
			f.edge++
			if !seen[p] {
				seen[p] = true
				stack = append(stack, frame{p, 0})
			}
			continue
		}
		number[f.node] = int32(len(order))
		order = append(order, f.node)
		stack = stack[:len(stack)-1]
	}
	idom := make([]int32, n+1)
	for i := range idom {
		idom[i] = -1
	}
	idom[exit] = exit
	for changed := true; changed; {
		changed = false
		for i := len(order) - 2; i >= 0; i-- {
			b := order[i]
			best := int32(-1)
			for _, s := range succ[b] {
				if idom[s] < 0 {
					continue
				}
				if best < 0 {
					best = s
					continue
				}
				x, y := best, s
				for x != y {
					for number[x] < number[y] {
						x = idom[x]
					}
					for number[y] < number[x] {
						y = idom[y]
					}
				}
				best = x
			}
			if best >= 0 && idom[b] != best {
				idom[b] = best
				changed = true
			}
		}
	}
	for b := range n {
		last := &code[g.start[b+1]-1]
		if last.kind != kindBranch {
			continue
		}
		last.rpc = noReconverge
		if d := idom[b]; d >= 0 && d != exit {
			last.rpc = g.start[d]
		}
	}
}
