package passes

import (
	"cmp"
	"slices"

	"situ/ir"
)

// Fallback is an operator that stays in floating point.
type Fallback struct {
	Node  string  // name of the operator in the model
	Op    string  // mnemonic
	Share float64 // of all elementary operations of the graph, from 0 to 1
}

// Fallbacks lists the operators of a graph that compute or move floating-point
// numbers, the largest share first. The conversions quantize and dequantize are
// not among them.
func Fallbacks(g *ir.Graph) []Fallback {
	total := int64(0)
	var list []Fallback
	var work []int64
	for i := range g.Ops {
		op := &g.Ops[i]
		n := Work(g, op)
		total += n
		if op.Kind == ir.Quantize || op.Kind == ir.Dequantize {
			continue
		}
		float := g.Type(op.Out).DType.IsFloat() ||
			op.Kind != ir.LayerNorm && slices.ContainsFunc(op.In, func(id ir.ValueID) bool { return id != ir.NoValue && g.Type(id).DType.IsFloat() })
		if float {
			list = append(list, Fallback{Node: op.Name, Op: op.Kind.String()})
			work = append(work, n)
		}
	}
	for i := range list {
		list[i].Share = float64(work[i]) / float64(max(total, 1))
	}
	slices.SortStableFunc(list, func(a, b Fallback) int { return cmp.Compare(b.Share, a.Share) })
	return list
}

// Work returns the number of elementary operations of op: multiply-accumulates
// of products, elements visited by windows and reductions, result elements of
// everything else.
func Work(g *ir.Graph, op *ir.Op) int64 {
	n := int64(g.Type(op.Out).Numel())
	switch a := op.Attr.(type) {
	case *ir.ConvAttr:
		w := g.Type(op.In[1]).Shape
		return n * int64(ir.Numel(w[1:]))
	case *ir.MatMulAttr:
		s := g.Type(op.In[0]).Shape
		return n * int64(s[len(s)-1])
	case *ir.PoolAttr:
		return n * int64(a.Kernel[0]*a.Kernel[1])
	case *ir.ReduceAttr:
		return int64(g.Type(op.In[0]).Numel())
	}
	return n
}
