package passes

import (
	"errors"
	"fmt"
	"slices"

	"situ/ir"
)

// Batch returns g for n independent inputs at once: dimension 0 of every input, and
// of every value that depends on one, is n instead of 1. Entry i of each result is
// what g computes of entry i of the inputs, bit for bit. Constants are shared with
// g. It returns an error that names the operator where entries would meet, as in a
// transpose that moves dimension 0, and for a graph whose inputs do not begin with
// a dimension of 1.
func Batch(g *ir.Graph, n int) (*ir.Graph, error) { return Rebatch(g, 1, n) }

// Rebatch is Batch for a graph of a batch: dimension 0 is n instead of from.
func Rebatch(g *ir.Graph, from, n int) (*ir.Graph, error) {
	if n < 1 {
		return nil, fmt.Errorf("batch %d: at least 1", n)
	}
	r := newRewriter(g)
	batched := make([]bool, len(g.Values))
	for _, id := range g.Inputs {
		s := g.Type(id).Shape
		if len(s) == 0 || s[0] != from {
			return nil, fmt.Errorf("input %q has shape %v: a batch needs dimension 0 to be %d", g.Value(id).Name, s, from)
		}
		batched[id] = true
		v := r.g.Value(r.Map(id))
		v.Type = batchedType(v.Type, n)
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		in := make([]bool, len(op.In))
		for j, id := range op.In {
			in[j] = id != ir.NoValue && batched[id]
		}
		t := g.Type(op.Out)
		if !slices.Contains(in, true) {
			r.Copy(op)
			continue
		}
		if err := entriesApart(g, op, in, from); err != nil {
			return nil, fmt.Errorf("%s %q cannot take a batch: %w", op.Kind, op.Name, err)
		}
		r.CopyAs(op, batchedType(t, n))
		batchAttr(r.g.Ops[len(r.g.Ops)-1].Attr, n)
		batched[op.Out] = true
	}
	for _, id := range g.Outputs {
		if !batched[id] {
			return nil, fmt.Errorf("output %q does not depend on the input", g.Value(id).Name)
		}
	}
	out := r.finish()
	if err := ir.Verify(out); err != nil {
		return nil, fmt.Errorf("a batch of %d: %w", n, err)
	}
	return out, nil
}

// batchedType is t with n entries along dimension 0.
func batchedType(t ir.Type, n int) ir.Type {
	t.Shape = slices.Clone(t.Shape)
	t.Shape[0] = n
	return t
}

// batchAttr changes what attributes say of dimension 0.
func batchAttr(a ir.Attr, n int) {
	switch a := a.(type) {
	case *ir.ShapeAttr:
		a.Shape[0] = n
	case *ir.SliceAttr:
		a.Sizes[0] = n
	}
}

// entriesApart reports why an operator would mix the entries of a batch, of which
// its operands marked in have n in dimension 0.
func entriesApart(g *ir.Graph, op *ir.Op, in []bool, n int) error {
	out := g.Type(op.Out)
	rank := len(out.Shape)
	if rank == 0 || out.Shape[0] != n {
		return fmt.Errorf("its result has shape %v", out.Shape)
	}
	if out.Quant != nil && out.Quant.Axis == 0 {
		return errors.New("its result has scales along dimension 0")
	}
	x := g.Type(op.In[0]).Shape
	axis := -1
	switch a := op.Attr.(type) {
	case *ir.AxisAttr:
		axis = a.Axis
	case *ir.LRNAttr:
		axis = a.Axis
	case *ir.TopKAttr:
		axis = a.Axis
	case *ir.ScatterAttr:
		axis = a.Axis
	case *ir.ReduceAttr:
		if slices.Contains(a.Axes, 0) {
			axis = 0
		}
	case *ir.PermAttr:
		if a.Perm[0] != 0 {
			axis = 0
		}
	case *ir.PadAttr:
		if a.Begin[0] != 0 || a.End[0] != 0 {
			axis = 0
		}
	case *ir.SliceAttr:
		if a.Starts[0] != 0 || a.Steps[0] != 1 {
			axis = 0
		}
	}
	switch op.Kind {
	case ir.Gather:
		// Entries are of the table's batch or of the indices', not of both.
		if in[0] && in[1] && len(g.Type(op.In[1]).Shape) > 0 || in[1] && !in[0] && axis != 0 {
			return errors.New("it looks up with the indices of each entry")
		}
		if in[1] && !in[0] {
			return nil
		}
	case ir.Conv2D:
		if !in[0] || slices.Contains(in[1:], true) {
			return errors.New("its weights depend on the input")
		}
		return nil
	case ir.MatMul:
		for j, id := range op.In {
			if in[j] && (j > 1 || len(g.Type(id).Shape) != rank || j == 1 && rank < 3) {
				return errors.New("an operand has no dimension of its own for the batch")
			}
		}
		return nil
	case ir.Concat, ir.GatherElements, ir.ScatterElements, ir.Sample:
		if slices.Contains(in, false) {
			return errors.New("not all of its operands depend on the input")
		}
	case ir.Det:
		if len(x) < 3 {
			return errors.New("its operand has no dimension for the batch")
		}
	}
	if axis == 0 {
		return errors.New("it works along dimension 0")
	}
	if op.Kind.Is(ir.Elementwise) || op.Kind == ir.Expand {
		for j, id := range op.In {
			if in[j] && len(g.Type(id).Shape) != rank {
				return fmt.Errorf("operand %d has rank %d, its result %d", j, len(g.Type(id).Shape), rank)
			}
			if s := g.Type(id).Shape; !in[j] && len(s) == rank && s[0] != 1 {
				return fmt.Errorf("operand %d has entries of its own", j)
			}
		}
	}
	return nil
}
