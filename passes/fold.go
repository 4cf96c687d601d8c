package passes

import (
	"slices"

	"situ/ir"
	"situ/ir/eval"
)

// maxFolded bounds constants made by folding, in bytes, unless the operands are
// as large already: a model must not grow without bound by its own expands.
const maxFolded = 1 << 26

// fold replaces operators on constants by their result. A dequantize of a
// constant stays: it says how weights were quantised, and the pass fix reads it.
// In a model whose weights alone are quantised it goes, too: such a model is
// calibrated like one in floating point.
func fold(g *ir.Graph, _ *State) (*ir.Graph, error) {
	g, err := foldConstants(g, func(k ir.OpKind) bool { return k != ir.Dequantize })
	if err != nil || slices.ContainsFunc(g.Values, func(v ir.Value) bool { return v.Const == nil && v.Type.Quant != nil }) {
		return g, err
	}
	return foldConstants(g, func(ir.OpKind) bool { return true })
}

// describedResult says how the result of an operator on constants is described
// when one of them has no elements: as that operand is.
func describedResult(operands []*ir.Tensor) (std float32, ok bool) {
	for _, t := range operands {
		if t == nil {
			continue
		}
		if std, ok := t.Described(); ok {
			return std, true
		}
	}
	return 0, false
}

// foldConstants folds operators of the kinds that want accepts.
func foldConstants(g *ir.Graph, want func(ir.OpKind) bool) (*ir.Graph, error) {
	return rewrite(g, func(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
		if !want(op.Kind) {
			return ir.NoValue, nil
		}
		size := int64(0)
		operands := make([]*ir.Tensor, len(in))
		for i, id := range in {
			if id == ir.NoValue {
				continue
			}
			if !r.g.IsConst(id) {
				return ir.NoValue, nil
			}
			operands[i] = r.g.Value(id).Const
			size += r.g.Type(id).Bytes()
		}
		t := r.old.Type(op.Out)
		if t.Bytes() > maxFolded && t.Bytes() > size {
			return ir.NoValue, nil
		}
		if std, ok := describedResult(operands); ok {
			return r.g.AddConst(r.old.Value(op.Out).Name, ir.Describe(t.DType, std, t.Shape...), t.Quant), nil
		}
		out, err := eval.EvalOp(r.old, op, operands)
		if err != nil {
			return ir.NoValue, err
		}
		return r.g.AddConst(r.old.Value(op.Out).Name, out, t.Quant), nil
	})
}
