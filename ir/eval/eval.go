package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"situ/ir"
)

// Evaluator is a graph made ready to run. It is immutable: Run may be called
// concurrently.
type Evaluator struct {
	g       *ir.Graph
	kernels []kernel       // one an operator
	dead    [][]ir.ValueID // values without a use after operator i
	peak    int64
	peakAt  int // the operator during which the peak is reached, −1 without operators
}

// Options adjust a run. The zero value is the ordinary one.
type Options struct {
	// Observe, when not nil, is called with every input and every operator's
	// result, in graph order. The tensor must not be written to.
	Observe func(id ir.ValueID, t *ir.Tensor)

	// Plain computes products by their definition instead of the fast kernels.
	Plain bool

	// MemoryLimit bounds the bytes of intermediate tensors alive at once; 0 is
	// no limit. A graph that needs more gives an error before anything is
	// computed.
	MemoryLimit int64
}

// New prepares g for evaluation. It returns an error that lists every operator
// that cannot be evaluated on its operands' types, or names a constant without
// elements. g must pass ir.Verify and
// must not change afterwards.
func New(g *ir.Graph) (*Evaluator, error) {
	if id := g.Described(); id != ir.NoValue {
		return nil, fmt.Errorf("constant %q is described, not stored: graph %q can be compiled and timed, there is nothing to compute with", g.Value(id).Name, g.Name)
	}
	e := &Evaluator{g: g, kernels: make([]kernel, len(g.Ops))}
	var errs []error
	for i := range g.Ops {
		op := &g.Ops[i]
		k, err := prepareOp(g, op)
		if err != nil {
			errs = append(errs, opError(op, err))
			continue
		}
		e.kernels[i] = k
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e.liveness()
	return e, nil
}

// EvalOp evaluates one operator of g on the given operands (nil for those
// absent), whose types are those of the operator's operands in g.
func EvalOp(g *ir.Graph, op *ir.Op, in []*ir.Tensor) (*ir.Tensor, error) {
	k, err := prepareOp(g, op)
	if err != nil {
		return nil, opError(op, err)
	}
	out, err := k(&env{}, in)
	if err != nil {
		return nil, opError(op, err)
	}
	return out, nil
}

// Peak returns how many bytes intermediate tensors and results take at most at
// one time during Run; constants and inputs are not counted.
func (e *Evaluator) Peak() int64 { return e.peak }

// Run evaluates the graph. inputs correspond to the graph's Inputs in order and
// must have their element types and shapes. The results correspond to its
// Outputs; they may share memory with inputs and constants and must not be
// written to. It stops between two operators when ctx is cancelled.
func (e *Evaluator) Run(ctx context.Context, inputs []*ir.Tensor, opts Options) ([]*ir.Tensor, error) {
	g := e.g
	if opts.MemoryLimit > 0 && e.peak > opts.MemoryLimit {
		op := &g.Ops[e.peakAt]
		return nil, opError(op, fmt.Errorf("intermediate tensors take %d bytes here, the limit is %d: use a smaller batch or smaller inputs",
			e.peak, opts.MemoryLimit))
	}
	if err := e.checkInputs(inputs); err != nil {
		return nil, err
	}
	observe := opts.Observe
	if observe == nil {
		observe = func(ir.ValueID, *ir.Tensor) {}
	}
	vals := make([]*ir.Tensor, len(g.Values))
	for i := range g.Values {
		vals[i] = g.Values[i].Const
	}
	for i, id := range g.Inputs {
		vals[id] = inputs[i]
		observe(id, inputs[i])
	}
	env := &env{plain: opts.Plain}
	var in []*ir.Tensor
	for i := range g.Ops {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		op := &g.Ops[i]
		in = in[:0]
		for _, id := range op.In {
			if id == ir.NoValue {
				in = append(in, nil)
				continue
			}
			in = append(in, vals[id])
		}
		out, err := e.kernels[i](env, in)
		if err != nil {
			return nil, opError(op, err)
		}
		vals[op.Out] = out
		observe(op.Out, out)
		for _, id := range e.dead[i] {
			vals[id] = nil
		}
	}
	outs := make([]*ir.Tensor, len(g.Outputs))
	for i, id := range g.Outputs {
		outs[i] = vals[id]
	}
	return outs, nil
}

func (e *Evaluator) checkInputs(inputs []*ir.Tensor) error {
	g := e.g
	if len(inputs) != len(g.Inputs) {
		return fmt.Errorf("graph %q takes %d inputs, got %d", g.Name, len(g.Inputs), len(inputs))
	}
	for i, id := range g.Inputs {
		v, t := g.Value(id), inputs[i]
		switch {
		case t == nil:
			return fmt.Errorf("input %q is missing", v.Name)
		case t.DType != v.Type.DType:
			return fmt.Errorf("input %q is %s, want %s", v.Name, t.DType, v.Type.DType)
		case !slices.Equal(t.Shape, v.Type.Shape):
			return fmt.Errorf("input %q has shape %v, want %v", v.Name, t.Shape, v.Type.Shape)
		}
	}
	return nil
}

// liveness finds after which operator each value is dead and the peak of live
// bytes. Operators that share their operand's elements take no memory but
// prolong the operand's life.
func (e *Evaluator) liveness() {
	g := e.g
	root := make([]ir.ValueID, len(g.Values))
	last := make([]int, len(g.Values)) // operator of the last use
	for i := range root {
		root[i] = ir.ValueID(i)
		last[i] = int(g.Values[i].Def)
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		for _, id := range op.In {
			if id != ir.NoValue {
				last[id] = i
			}
		}
		if sharesOperand(op.Kind) {
			root[op.Out] = root[op.In[0]]
		}
	}
	for _, id := range g.Outputs {
		last[id] = len(g.Ops)
	}
	e.dead = make([][]ir.ValueID, len(g.Ops))
	rootLast := make([]int, len(g.Values))
	for i := range g.Values {
		rootLast[root[i]] = max(rootLast[root[i]], last[i])
		if g.Values[i].Const == nil && last[i] >= 0 && last[i] < len(g.Ops) {
			e.dead[last[i]] = append(e.dead[last[i]], ir.ValueID(i))
		}
	}
	freed := make([]int64, len(g.Ops)+1)
	live := int64(0)
	e.peakAt = -1
	for i := range g.Ops {
		if out := g.Ops[i].Out; root[out] == out {
			n := storedBytes(g.Type(out))
			live += n
			freed[rootLast[out]] += n
		}
		if live > e.peak || e.peakAt < 0 {
			e.peak, e.peakAt = live, i
		}
		live -= freed[i]
	}
}

// storedBytes returns the memory an ir.Tensor of type t takes.
func storedBytes(t ir.Type) int64 {
	return int64(t.Numel()) * int64(max(t.DType.Bits(), 8)/8)
}

func opError(op *ir.Op, err error) error {
	return fmt.Errorf("%s %q: %w", op.Kind, op.Name, err)
}
