package passes

import (
	"slices"

	"situ/internal/fixed"
	"situ/ir"
)

// Sums of two products (rotary embeddings x·cos + x'·sin, the cells c·f + g·i of
// recurrent networks) are one operator, which in fixed point is rounded once
// instead of three times.

// intoMulAdd takes the two products that a sum or difference adds up, when nothing
// else looks at them. origin is that of the old graph: a function of one variable is
// a table instead.
func (f *fuser) intoMulAdd(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	t := r.old.Type(op.Out)
	if !f.float || t.DType != ir.F32 || actOf(op.Attr) != nil || f.origin[op.Out] != op.Out {
		return ir.NoValue, nil
	}
	var operands []ir.ValueID
	for i, id := range in {
		p := r.producer(id, ir.Mul)
		if p == nil || f.uses[op.In[i]] != 1 || actOf(p.Attr) != nil || !slices.Equal(r.g.Type(id).Shape, t.Shape) {
			return ir.NoValue, nil
		}
		for _, factor := range p.In {
			if _, ok := scalarOf(r.g, factor); ok {
				return ir.NoValue, nil // a matter of scales
			}
		}
		operands = append(operands, p.In...)
	}
	return r.g.Add(ir.MulAdd, op.Name, &ir.MulAddAttr{Subtract: op.Kind == ir.Sub}, operands...)
}

// mulAdd writes a sum of products on exact codes.
func (f *fixer) mulAdd(op *ir.Op, t ir.Type) (ir.ValueID, error) {
	in := make([]ir.ValueID, len(op.In))
	var s [4]float64
	for i, id := range op.In {
		c, err := f.operand(id)
		if err != nil || c == ir.NoValue {
			return ir.NoValue, err
		}
		in[i], s[i] = c, float64(f.g.Type(c).Quant.Scale[0])
	}
	if _, err := fixed.NewMulAdd(s[0], s[1], s[2], s[3], float64(t.Quant.Scale[0]), 0, 0, 0, 0, 0, 0, 255); err != nil {
		return ir.NoValue, nil
	}
	return f.g.AddTyped(op.Kind, op.Name, op.Attr, t, in...)
}

// spellOutMulAdd writes a float32 sum of products as the operators that it is made
// of, which every back end takes.
func spellOutMulAdd(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	ab, err := r.g.Add(ir.Mul, op.Name, nil, in[0], in[1])
	if err != nil {
		return ab, err
	}
	cd, err := r.g.Add(ir.Mul, op.Name, nil, in[2], in[3])
	if err != nil {
		return cd, err
	}
	kind := ir.Add
	if op.Attr.(*ir.MulAddAttr).Subtract {
		kind = ir.Sub
	}
	return r.g.Add(kind, op.Name, nil, ab, cd)
}
