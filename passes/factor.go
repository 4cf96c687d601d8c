package passes

import "situ/ir"

// isFactor reports whether op multiplies by a single constant.
func (k *sinker) isFactor(g *ir.Graph, op *ir.Op) bool {
	if op.Kind != ir.Mul || actOf(op.Attr) != nil {
		return false
	}
	_, ok := scalarOf(g, op.In[1])
	return ok
}

// factor turns the product p of two activations times a constant into that of the
// first one times the constant, where the constant then goes into weights: scores
// are scaled so, by 1/√d.
func (k *sinker) factor(r *rewriter, op *ir.Op, c ir.ValueID, p *ir.Op) (ir.ValueID, error) {
	old := r.old.DefOp(op.In[0])
	if !k.float || !k.isFactor(r.old, op) || len(p.In) > 2 || actOf(p.Attr) != nil || r.g.IsConst(p.In[1]) ||
		old == nil || k.uses[old.In[0]] != 1 || !k.scaled(r.old, old.In[0]) {
		return ir.NoValue, nil
	}
	k.changed = true
	x, err := r.g.AddTyped(ir.Mul, op.Name, op.Attr, r.g.Type(p.In[0]), p.In[0], c)
	if err != nil {
		return x, err
	}
	return r.g.AddTyped(ir.MatMul, p.Name, p.Attr, r.old.Type(op.Out), x, p.In[1])
}

// scaled reports whether a factor of a value can go into the weights of the product
// that made it: nothing but movements, and additions of constants, lies between, and
// nothing else looks at what does.
func (k *sinker) scaled(g *ir.Graph, id ir.ValueID) bool {
	for {
		op := g.DefOp(id)
		if op == nil || k.uses[id] != 1 {
			return false
		}
		switch op.Kind {
		case ir.Reshape, ir.Transpose:
		case ir.Add:
			t := g.Type(id)
			if _, ok := perChannel(g, op.In[1], len(t.Shape), t.Shape[len(t.Shape)-1]); !ok || actOf(op.Attr) != nil {
				return false
			}
		case ir.MatMul, ir.Conv2D:
			return floats(g, op.In[1]) != nil && actOf(op.Attr) == nil && (len(op.In) < 3 || floats(g, op.In[2]) != nil)
		default:
			return false
		}
		id = op.In[0]
	}
}
