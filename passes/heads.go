package passes

import (
	"slices"

	"situ/ir"
)

// sharedHeads rewrites a product whose second operand repeats each of its matrices for
// several of the first: query heads that share keys and values (grouped-query
// attention, Ainslie et al. 2023), as exporters write them by expand. The first
// operand's matrices of a group become rows of one product, so that nothing is repeated:
//
//	x[b, k·r, m, n] · expand(y[b, k, 1, n, p] to r) = reshape(reshape(x)[b, k, r·m, n] · y[b, k, n, p])
//
// It returns NoValue for other products.
func sharedHeads(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	x, y := r.g.Type(in[0]).Shape, in[1]
	turn := r.producer(y, ir.Transpose)
	if turn != nil && slices.Equal(turn.Attr.(*ir.PermAttr).Perm, []int{0, 1, 3, 2}) {
		y = turn.In[0]
	} else {
		turn = nil
	}
	merged := r.producer(y, ir.Reshape)
	if merged == nil || len(x) != 4 || len(in) > 2 || r.old.Type(op.Out).DType != ir.F32 {
		return ir.NoValue, nil
	}
	repeated := r.producer(merged.In[0], ir.Expand)
	if repeated == nil {
		return ir.NoValue, nil
	}
	one, many, all := r.g.Type(repeated.In[0]).Shape, r.g.Type(repeated.Out).Shape, r.g.Type(y).Shape
	if len(one) != 5 || one[2] != 1 || !slices.Equal(many, []int{one[0], one[1], many[2], one[3], one[4]}) ||
		!slices.Equal(all, []int{one[0], one[1] * many[2], one[3], one[4]}) || !slices.Equal(x[:2], all[:2]) {
		return ir.NoValue, nil
	}
	rows, err := reshape(r, op.Name, in[0], []int{one[0], one[1], many[2] * x[2], x[3]})
	if err != nil {
		return rows, err
	}
	if y, err = reshape(r, merged.Name, repeated.In[0], []int{one[0], one[1], one[3], one[4]}); err != nil {
		return y, err
	}
	if turn != nil {
		if y, err = r.g.Add(ir.Transpose, turn.Name, turn.Attr, y); err != nil {
			return y, err
		}
	}
	z, err := r.g.Add(ir.MatMul, op.Name, op.Attr, rows, y)
	if err != nil {
		return z, err
	}
	return reshape(r, op.Name, z, r.old.Type(op.Out).Shape)
}
