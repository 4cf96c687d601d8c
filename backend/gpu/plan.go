package gpu

import (
	"slices"

	"situ/ir"
)

// A kernel is one launch: a leading operator and the element-wise operators fused
// behind it.
type kernel struct {
	lead  int          // index of the leading operator
	fused []int        // indices of operators computed on its result, in order
	reads []ir.ValueID // operands from memory that depend on graph inputs, roots of views
	parms []ir.ValueID // constant operands
	out   ir.ValueID   // what it writes
}

// computes reports whether operator i is part of the kernel.
func (k *kernel) computes(i int) bool { return i == k.lead || slices.Contains(k.fused, i) }

// plan is a graph as a sequence of kernels.
type plan struct {
	g       *ir.Graph
	batch   float64
	kernels []kernel

	live    []bool  // the value depends on a graph input
	uses    []int   // of each value
	readers [][]int // operators that use the value
	home    []int   // kernel that writes the value, −1: none (constants, inputs, views)
}

// newPlan fuses g into kernels.
func newPlan(g *ir.Graph, batch int) *plan {
	p := &plan{g: g, batch: float64(batch), uses: g.Uses(), live: make([]bool, len(g.Values)), readers: make([][]int, len(g.Values)), home: make([]int, len(g.Values))}
	for i := range p.home {
		p.home[i] = -1
	}
	for _, v := range g.Inputs {
		p.live[v] = true
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		for _, v := range op.In {
			if v < 0 {
				continue
			}
			p.readers[v] = append(p.readers[v], i)
			if p.live[v] {
				p.live[op.Out] = true
			}
		}
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		if !p.live[op.Out] || p.isView(op) {
			continue // constants are computed once, when the model is loaded
		}
		k := p.fuseInto(op)
		if k < 0 {
			p.kernels = append(p.kernels, kernel{lead: i, out: op.Out})
			k = len(p.kernels) - 1
		} else {
			p.kernels[k].fused = append(p.kernels[k].fused, i)
		}
		p.addOperands(k, op)
		p.home[p.kernels[k].out] = -1
		p.kernels[k].out = op.Out
		p.home[op.Out] = k
	}
	return p
}

// isView reports whether op only renames memory: no kernel is launched for it. A
// concatenation's operands are written in place by their producers, and products of two
// activations read and write transposed.
func (p *plan) isView(op *ir.Op) bool {
	switch op.Kind {
	case ir.Reshape, ir.Reinterpret:
		return true
	case ir.Concat:
		for _, v := range op.In {
			if !p.live[v] || p.uses[v] != 1 {
				return false
			}
		}
		return true
	case ir.Transpose:
		return p.readStrided(op.Out) || p.isPair(p.g.DefOp(p.onlyUse(op.In[0])))
	case ir.Slice:
		for _, s := range op.Attr.(*ir.SliceAttr).Steps {
			if s != 1 {
				return false
			}
		}
		return true
	}
	return false
}

// isPair reports whether op, which may be nil, is a product of two activations: it
// reads and writes wherever rows or columns lie together.
func (p *plan) isPair(op *ir.Op) bool {
	return op != nil && op.Kind == ir.MatMul && p.live[op.In[0]] && p.live[op.In[1]]
}

// readStrided reports whether only products of two activations read a value.
func (p *plan) readStrided(v ir.ValueID) bool {
	if slices.Contains(p.g.Outputs, v) || p.readers[v] == nil {
		return false
	}
	for _, i := range p.readers[v] {
		if op := &p.g.Ops[i]; !p.isPair(op) && !(op.Kind == ir.Reshape && p.readStrided(op.Out)) {
			return false
		}
	}
	return true
}

// fuseInto returns the kernel that op can be appended to, or −1: op is
// element-wise, the latest of the kernels that produce its operands ends in a
// value that only op uses, and has as many elements as op's result.
func (p *plan) fuseInto(op *ir.Op) int {
	if !op.Kind.Is(ir.Elementwise) {
		return -1
	}
	latest, ok := -1, false
	for _, v := range op.In {
		if v < 0 || !p.live[v] {
			continue
		}
		for _, root := range p.roots(v, nil) {
			if k := p.home[root]; k > latest {
				latest, ok = k, p.onlyUse(v) == root && p.g.Type(v).Numel() == p.g.Type(op.Out).Numel()
			}
		}
	}
	if !ok {
		return -1
	}
	return latest
}

// onlyUse follows v back through renamings and returns the value whose memory it
// names when nobody else uses it on the way, else NoValue.
func (p *plan) onlyUse(v ir.ValueID) ir.ValueID {
	for p.uses[v] == 1 {
		def := p.g.DefOp(v)
		if def == nil || def.Kind != ir.Reshape && def.Kind != ir.Reinterpret {
			return v
		}
		v = def.In[0]
	}
	return ir.NoValue
}

// roots appends to rs the values whose memory v names.
func (p *plan) roots(v ir.ValueID, rs []ir.ValueID) []ir.ValueID {
	def := p.g.DefOp(v)
	if def == nil || !p.live[v] || !p.isView(def) {
		return append(rs, v)
	}
	for _, in := range def.In {
		rs = p.roots(in, rs)
	}
	return rs
}

// addOperands notes what kernel k reads from memory for op.
func (p *plan) addOperands(k int, op *ir.Op) {
	for _, v := range op.In {
		if v < 0 {
			continue
		}
		if !p.live[v] {
			p.kernels[k].parms = addUnique(p.kernels[k].parms, v)
			continue
		}
		for _, root := range p.roots(v, nil) {
			if p.home[root] != k {
				p.kernels[k].reads = addUnique(p.kernels[k].reads, root)
			}
		}
	}
}

func addUnique(vs []ir.ValueID, v ir.ValueID) []ir.ValueID {
	if slices.Contains(vs, v) {
		return vs
	}
	return append(vs, v)
}

// bytes returns the size of a value for the whole batch.
func (p *plan) bytes(v ir.ValueID) float64 {
	b := float64(p.g.Type(v).Bytes())
	if p.live[v] {
		b *= p.batch
	}
	return b
}

// elems returns the number of elements of a value for the whole batch.
func (p *plan) elems(v ir.ValueID) float64 {
	n := float64(p.g.Type(v).Numel())
	if p.live[v] {
		n *= p.batch
	}
	return n
}

func (p *plan) sum(vs []ir.ValueID) float64 {
	var b float64
	for _, v := range vs {
		b += p.bytes(v)
	}
	return b
}

// parmBytes returns the bytes of constants that a kernel reads: of a table in which
// indices select rows no more than there are rows in the result.
func (p *plan) parmBytes(k *kernel) float64 {
	total := p.sum(k.parms)
	if op := &p.g.Ops[k.lead]; op.Kind == ir.Gather && slices.Contains(k.parms, op.In[0]) {
		total -= max(0, p.bytes(op.In[0])-p.elems(op.Out)*p.bytes(op.In[0])/p.elems(op.In[0]))
	}
	return total
}
