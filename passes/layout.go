package passes

import (
	"slices"

	"situ/ir"
)

// layout removes the transposes that the importer puts around NHWC operators.
//
// While the graph is rebuilt, no transpose is written. Instead each value of the
// old graph is a view: a value of the new graph and how to read it. Operators
// that do not care about the order of dimensions compute on the new value as it
// lies and pass the view on, with their attributes and constants permuted;
// opposite transposes meet in a view and vanish. Only where an operator needs
// its operand in the order it was written (a convolution, a graph output) is a
// transpose written for what is left. A flattened image before a product with
// constant weights costs nothing either: the weights' rows are permuted.
func layout(g *ir.Graph, _ *State) (*ir.Graph, error) {
	l := &layouter{rewriter: newRewriter(g), views: make([]view, len(g.Values)), written: map[ir.ValueID][]written{}}
	for i := range g.Values {
		l.views[i].id = ir.NoValue
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		v, err := l.op(op)
		if err != nil {
			return nil, err
		}
		l.views[op.Out] = v
	}
	for _, out := range g.Outputs {
		id, err := l.plain(out)
		if err != nil {
			return nil, err
		}
		l.Set(out, id)
	}
	return l.finish(), nil
}

// A view says how a value of the old graph is read from one of the new graph:
// old dimension i is dimension perm[i] of id (nil: in order). When flat is set,
// besides, the last dimension of both runs over the same elements of a flattened
// block, in different order; perm is nil then.
type view struct {
	id   ir.ValueID
	perm []int
	flat *flattened
}

// flattened relates two orders of a flattened block: new has dims as they lie,
// old has dimension perm[i] of them as its dimension i.
type flattened struct {
	dims, perm []int
}

type written struct {
	perm []int
	id   ir.ValueID
}

type layouter struct {
	*rewriter
	views   []view                   // by old id
	written map[ir.ValueID][]written // transposes written of a new value
}

// view returns how an old value is read.
func (l *layouter) view(old ir.ValueID) view {
	if v := l.views[old]; v.id != ir.NoValue {
		return v
	}
	return view{id: l.Map(old)} // input or constant
}

// plain returns an old value as a new value in its old order.
func (l *layouter) plain(old ir.ValueID) (ir.ValueID, error) {
	if old == ir.NoValue {
		return old, nil
	}
	v := l.view(old)
	if v.flat != nil {
		return l.unflatten(v)
	}
	return l.ordered(v.id, v.perm)
}

// ordered returns id with its dimensions permuted; nil perm leaves it.
func (l *layouter) ordered(id ir.ValueID, perm []int) (ir.ValueID, error) {
	if perm == nil || isIdentity(perm) {
		return id, nil
	}
	for _, w := range l.written[id] {
		if slices.Equal(w.perm, perm) {
			return w.id, nil
		}
	}
	out, err := transpose(l.rewriter, l.g.Value(id).Name, id, perm)
	if err == nil {
		l.written[id] = append(l.written[id], written{perm, out})
	}
	return out, err
}

func (l *layouter) unflatten(v view) (ir.ValueID, error) {
	shape := l.g.Type(v.id).Shape
	lead, name := shape[:len(shape)-1], l.g.Value(v.id).Name
	open, err := reshape(l.rewriter, name, v.id, slices.Concat(lead, v.flat.dims))
	if err != nil {
		return ir.NoValue, err
	}
	perm := make([]int, 0, len(shape)+len(v.flat.perm))
	for i := range lead {
		perm = append(perm, i)
	}
	for _, p := range v.flat.perm {
		perm = append(perm, len(lead)+p)
	}
	if open, err = l.ordered(open, perm); err != nil {
		return ir.NoValue, err
	}
	return reshape(l.rewriter, name, open, shape)
}

// op writes one operator and returns how its old result is read.
func (l *layouter) op(op *ir.Op) (view, error) {
	k := op.Kind
	switch {
	case k == ir.Transpose:
		v, perm := l.view(op.In[0]), op.Attr.(*ir.PermAttr).Perm
		if v.flat == nil && !l.g.IsConst(v.id) {
			if v.perm != nil {
				perm = compose(v.perm, perm)
			}
			return normal(view{id: v.id, perm: perm}), nil
		}
	case isUnary(k) || isNumber(k) || k == ir.LUT:
		return l.unary(op)
	case isBinary(k), k == ir.MulAdd:
		return l.joined(op, nil)
	case k == ir.Concat:
		return l.joined(op, op.Attr.(*ir.AxisAttr))
	case k == ir.Reshape:
		return l.reshape(op)
	case k == ir.MatMul:
		if v := l.view(op.In[0]); v.flat != nil {
			return l.matmul(op, v)
		}
	case k == ir.LayerNorm:
		if v := l.view(op.In[0]); v.perm != nil && v.perm[len(v.perm)-1] == len(v.perm)-1 {
			return l.emit(op, op.Attr, l.lies(op.Out, v.perm), append([]ir.ValueID{v.id}, l.MapAll(op.In[1:])...), v)
		}
	case isReduction(k), k == ir.Slice, k == ir.Pad, k == ir.LRN, k == ir.Softmax, k == ir.LogSoftmax:
		if v := l.view(op.In[0]); v.perm != nil {
			return l.permuted(op, v)
		}
	}
	return l.copyPlain(op)
}

// normal drops a permutation that changes nothing.
func normal(v view) view {
	if v.perm != nil && isIdentity(v.perm) {
		v.perm = nil
	}
	return v
}

func (l *layouter) copyPlain(op *ir.Op) (view, error) {
	in := make([]ir.ValueID, len(op.In))
	for i, id := range op.In {
		var err error
		if in[i], err = l.plain(id); err != nil {
			return view{}, err
		}
	}
	return l.emit(op, op.Attr, l.old.Type(op.Out), in, view{})
}

// emit writes op on new operands with result type t, to be read as in as says.
func (l *layouter) emit(op *ir.Op, attr ir.Attr, t ir.Type, in []ir.ValueID, as view) (view, error) {
	id, err := l.g.AddTyped(op.Kind, op.Name, attr, t, in...)
	if err != nil {
		return view{}, err
	}
	l.g.Value(id).Name = l.old.Value(op.Out).Name
	as.id = id
	return normal(as), nil
}

// lies returns the type of an old value as it lies under a view with perm.
func (l *layouter) lies(old ir.ValueID, perm []int) ir.Type {
	t := l.old.Type(old)
	if perm == nil {
		return t
	}
	inv := inverse(perm)
	t.Shape = permuted(t.Shape, inv)
	if q := t.Quant; q != nil && !q.IsPerTensor() {
		t.Quant = &ir.Quant{Scale: q.Scale, Zero: q.Zero, Axis: perm[q.Axis]}
	}
	return t
}

func (l *layouter) unary(op *ir.Op) (view, error) {
	v := l.view(op.In[0])
	t := l.lies(op.Out, v.perm)
	if v.flat != nil && t.Quant != nil && !t.Quant.IsPerTensor() {
		return l.copyPlain(op)
	}
	in := append([]ir.ValueID{v.id}, l.MapAll(op.In[1:])...)
	return l.emit(op, op.Attr, t, in, v)
}

// muchMore is how many times as many elements in order make a concat stay in order:
// a cache of keys is not turned for the sake of those that join it.
const muchMore = 4

// joined writes an operator with several operands that must lie alike: an
// element-wise one, or (axis given) concat.
func (l *layouter) joined(op *ir.Op, axis *ir.AxisAttr) (view, error) {
	t := l.old.Type(op.Out)
	// The operand with the most elements that lies in another order decides.
	var lead view
	size, inOrder := 0, 0
	for _, id := range op.In {
		v := l.view(id)
		n := l.old.Type(id).Numel()
		if v.perm == nil && v.flat == nil && !l.g.IsConst(v.id) {
			inOrder += n
		}
		if len(l.old.Type(id).Shape) == len(t.Shape) && n > size && (v.perm != nil || v.flat != nil) {
			lead, size = v, n
		}
	}
	if size == 0 || axis != nil && (lead.flat != nil || inOrder > muchMore*size) {
		return l.copyPlain(op)
	}
	in := make([]ir.ValueID, len(op.In))
	for i, id := range op.In {
		var err error
		if lead.flat != nil {
			in[i], err = l.flatOperand(id, lead.flat, t.Shape)
		} else {
			in[i], err = l.operand(id, lead.perm)
		}
		if err != nil {
			return view{}, err
		}
		if in[i] == ir.NoValue {
			return l.copyPlain(op)
		}
	}
	attr := op.Attr
	if axis != nil {
		attr = &ir.AxisAttr{Axis: lead.perm[axis.Axis]}
	}
	return l.emit(op, attr, l.lies(op.Out, lead.perm), in, lead)
}

// operand returns an old value as it must lie to meet others that are read with
// perm.
func (l *layouter) operand(old ir.ValueID, perm []int) (ir.ValueID, error) {
	v := l.view(old)
	if v.flat == nil && slices.Equal(v.perm, perm) {
		return v.id, nil
	}
	id, err := l.plain(old)
	if err != nil {
		return id, err
	}
	shape := l.g.Type(id).Shape
	if ir.Numel(shape) == 1 && len(shape) == 0 {
		return id, nil
	}
	if missing := len(perm) - len(shape); missing > 0 {
		ones := slices.Repeat([]int{1}, missing)
		if id, err = reshape(l.rewriter, l.g.Value(id).Name, id, slices.Concat(ones, shape)); err != nil {
			return id, err
		}
	}
	return l.ordered(id, inverse(perm))
}

// flatOperand returns an old value with its last dimension in the new order of a
// flattened block, NoValue when that is not free.
func (l *layouter) flatOperand(old ir.ValueID, f *flattened, shape []int) (ir.ValueID, error) {
	v, t := l.view(old), l.old.Type(old)
	switch {
	case v.flat != nil && slices.Equal(v.flat.dims, f.dims) && slices.Equal(v.flat.perm, f.perm) && len(t.Shape) == len(shape):
		return v.id, nil
	case v.perm != nil || v.flat != nil:
		return ir.NoValue, nil
	case t.Numel() == 1 || t.Shape[len(t.Shape)-1] == 1:
		return v.id, nil
	case l.g.IsConst(v.id):
		// As a block [lead, old dims…] transposed into the new order.
		n := len(t.Shape) - 1
		c := l.g.Value(v.id)
		dims := permuted(f.dims, f.perm)
		perm := make([]int, n, n+len(dims))
		for i := range n {
			perm[i] = i
		}
		for _, p := range inverse(f.perm) {
			perm = append(perm, n+p)
		}
		moved := transposed(c.Const.Reshaped(slices.Concat(t.Shape[:n], dims)...), perm)
		return l.g.AddConst(c.Name, moved.Reshaped(t.Shape...), t.Quant), nil
	}
	return ir.NoValue, nil
}

// permuted writes an operator whose attributes name dimensions on an operand
// that lies in another order.
func (l *layouter) permuted(op *ir.Op, v view) (view, error) {
	rank := len(v.perm)
	inv := inverse(v.perm)
	as := v
	var attr ir.Attr
	switch a := op.Attr.(type) {
	case *ir.AxisAttr: // softmax: fixed point needs the last axis to be last
		if a.Axis == rank-1 && v.perm[a.Axis] != rank-1 {
			return l.copyPlain(op)
		}
		attr = &ir.AxisAttr{Axis: v.perm[a.Axis]}
	case *ir.LRNAttr:
		b := *a
		b.Axis = v.perm[a.Axis]
		attr = &b
	case *ir.PadAttr:
		b := *a
		b.Begin, b.End = permuted(a.Begin, inv), permuted(a.End, inv)
		attr = &b
	case *ir.SliceAttr:
		attr = &ir.SliceAttr{Starts: permuted(a.Starts, inv), Steps: permuted(a.Steps, inv), Sizes: permuted(a.Sizes, inv)}
	case *ir.ReduceAttr:
		b := &ir.ReduceAttr{KeepDims: a.KeepDims}
		for _, ax := range a.Axes {
			b.Axes = append(b.Axes, v.perm[ax])
		}
		slices.Sort(b.Axes)
		attr = b
		if !a.KeepDims {
			as.perm = withoutAxes(v.perm, a.Axes)
		}
	}
	return l.emit(op, attr, l.lies(op.Out, as.perm), []ir.ValueID{v.id}, as)
}

// withoutAxes returns what remains of a permutation when the dimensions axes of
// its result are taken away.
func withoutAxes(perm, axes []int) []int {
	var kept, sorted []int
	for i, p := range perm {
		if !slices.Contains(axes, i) {
			kept = append(kept, p)
		}
	}
	sorted = slices.Sorted(slices.Values(kept))
	for i, p := range kept {
		kept[i] = slices.Index(sorted, p)
	}
	return kept
}

// matmul multiplies a flattened block by constant weights: their rows are put in
// the order in which the block lies.
func (l *layouter) matmul(op *ir.Op, a view) (view, error) {
	b := l.g.Value(l.view(op.In[1]).id)
	dq := l.producer(l.view(op.In[1]).id, ir.Dequantize)
	if dq != nil {
		b = l.g.Value(dq.In[0])
	}
	n := len(b.Type.Shape)
	if b.Const == nil || n != 2 || b.Type.Quant != nil && b.Type.Quant.Axis == 0 {
		return l.copyPlain(op)
	}
	dims := permuted(a.flat.dims, a.flat.perm)
	perm := append(inverse(a.flat.perm), len(dims))
	moved := transposed(b.Const.Reshaped(slices.Concat(dims, b.Type.Shape[1:])...), perm)
	w := l.g.AddConst(b.Name, moved.Reshaped(b.Type.Shape...), b.Type.Quant)
	if dq != nil {
		var err error
		if w, err = l.g.Add(ir.Dequantize, dq.Name, nil, w); err != nil {
			return view{}, err
		}
	}
	in := []ir.ValueID{a.id, w}
	for _, id := range op.In[2:] {
		bias, err := l.plain(id)
		if err != nil {
			return view{}, err
		}
		in = append(in, bias)
	}
	return l.emit(op, op.Attr, l.old.Type(op.Out), in, view{})
}
