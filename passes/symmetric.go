package passes

import (
	"math"

	"situ/ir"
)

// evenLoss bounds how much coarser steps become by making a range symmetric.
const evenLoss = 1.5

// even marks the second operands of products of two activations, such as keys and
// values, whose range is nearly symmetric. Like weights they get the zero point 0:
// the arrays of a PIM chip take numbers of eight bits, and codes less any other
// zero point take nine.
func (q *quantiser) even() {
	q.symmetric = make([]bool, len(q.old.Values))
	for i := range q.old.Ops {
		op := &q.old.Ops[i]
		if op.Kind != ir.MatMul || !q.isProduct(op) || q.old.IsConst(op.In[1]) {
			continue
		}
		src, _ := q.source(op.In[1])
		if src == ir.NoValue || !q.coded[src] {
			continue
		}
		root := q.root(src)
		q.symmetric[root] = evenly(q.ranges[root])
	}
}

// evenly reports whether a range is nearly symmetric.
func evenly(r Range) bool { return 2*max(-r.Lo, r.Hi) <= evenLoss*(r.Hi-r.Lo) }

// symmetricType returns the int8 type without a zero point for a range.
func symmetricType(r Range, shape []int) ir.Type {
	scale := float32(max(-r.Lo, r.Hi) / math.MaxInt8)
	if scale == 0 {
		scale = 1 // always 0: any scale will do
	}
	return ir.Type{DType: ir.I8, Shape: shape, Quant: ir.PerTensor(max(scale, minScale), 0)}
}
