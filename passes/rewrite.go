package passes

import "situ/ir"

// rewriter is an ir.Rewriter with its two graphs at hand.
type rewriter struct {
	*ir.Rewriter
	old, g *ir.Graph // g is the graph being built
}

func newRewriter(old *ir.Graph) *rewriter {
	r := ir.NewRewriter(old)
	return &rewriter{r, old, r.Dst}
}

// finish ends the rewriting; outputs keep the names they had, unless they have
// become inputs, constants or each other.
func (r *rewriter) finish() *ir.Graph {
	for _, out := range r.old.Outputs {
		if v := r.g.Value(r.Map(out)); v.Def >= 0 {
			v.Name = r.old.Value(out).Name
		}
	}
	return r.Finish()
}

// producer returns the operator that defines a value of the new graph if it is
// of the given kind, else nil.
func (r *rewriter) producer(id ir.ValueID, kind ir.OpKind) *ir.Op { return producer(r.g, id, kind) }

// producer returns the operator that defines id if it is of the given kind,
// else nil.
func producer(g *ir.Graph, id ir.ValueID, kind ir.OpKind) *ir.Op {
	if op := g.DefOp(id); op != nil && op.Kind == kind {
		return op
	}
	return nil
}

// A rule rewrites one operator, whose operands in the new graph are in. It
// returns the value that takes the result's place, or NoValue to have the
// operator copied.
type rule func(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error)

// rewrite applies a rule to every operator in order and drops what has become
// unused.
func rewrite(g *ir.Graph, f rule) (*ir.Graph, error) {
	r := newRewriter(g)
	for i := range g.Ops {
		op := &g.Ops[i]
		out, err := f(r, op, r.MapAll(op.In))
		if err != nil {
			return nil, err
		}
		if out == ir.NoValue {
			r.Copy(op)
		} else {
			r.Set(op.Out, out)
		}
	}
	return r.finish(), nil
}
