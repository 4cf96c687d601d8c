package gpu

import (
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// layout addresses elements: a first one and the distance between neighbours in
// each dimension.
type layout struct {
	base    int
	strides []int
}

// view says where the elements of a value lie in the memory of another.
//
// Transposes and slices launch nothing: their result is a view of their operand, which
// kernels that walk strides read as it lies. The first that cannot makes a copy. The
// other way round a result may be written where a concatenation, or a transpose
// whose result has to lie dense, wants it (see destination).
type view struct {
	root ir.ValueID
	layout
}

// readView returns where a value lies.
func (l *lowering) readView(id ir.ValueID) view {
	if v, ok := l.views[id]; ok {
		return v
	}
	return view{l.home[id], layout{0, gen.RowMajor(l.g.Type(id).Shape)}}
}

// value is the argument for a value's memory, in which it lies dense; what is a view
// is copied first.
func (l *lowering) value(id ir.ValueID) arg {
	if v, ok := l.views[id]; ok {
		delete(l.views, id)
		op, chain := l.op, l.chain
		l.op, l.chain = l.g.DefOp(id), nil
		err := l.copy(l.g.Type(id).Shape, v, view{id, layout{0, gen.RowMajor(l.g.Type(id).Shape)}})
		l.op, l.chain = op, chain
		if err != nil && l.failed == nil {
			l.failed = err
		}
	}
	return arg{value: l.home[id]}
}

// at is the argument for the memory that a view is of.
func (v view) at() arg { return arg{value: v.root} }

// copy launches a copy of shape elements.
func (l *lowering) copy(shape []int, from, to view) error {
	s := gen.Copy{Nest: gen.NewNest(shape, []int{to.base, from.base}, to.strides, from.strides), Elem: elemBytes(l.g.Type(to.root).DType)}
	return l.launch(s, from.at(), to.at())
}

// selection makes the result of a transpose, a slice or an expansion a view.
func (l *lowering) selection() error {
	if l.inPlace[l.op.In[0]] {
		return nil
	}
	x, y := l.readView(l.op.In[0]), l.g.Type(l.op.Out)
	from := layout{x.base, make([]int, len(y.Shape))}
	switch a := l.op.Attr.(type) {
	case *ir.PermAttr:
		for i, p := range a.Perm {
			from.strides[i] = x.strides[p]
		}
	case *ir.SliceAttr:
		for i, s := range x.strides {
			from.base += a.Starts[i] * s
			from.strides[i] = a.Steps[i] * s
		}
	case *ir.ShapeAttr: // expand
		from.strides = broadcast(l.g.Type(l.op.In[0]).Shape, x.strides, y.Shape)
	}
	l.views[l.op.Out] = view{x.root, from}
	return nil
}

// broadcast returns the strides with which an operand is walked by the dimensions of
// a result, NumPy's way.
func broadcast(shape, strides, result []int) []int {
	out := make([]int, len(result))
	for i, s := range strides {
		if shape[i] != 1 {
			out[len(out)-len(shape)+i] = s
		}
	}
	return out
}

// alias makes the operator's result share its operand's memory.
func (l *lowering) alias() error {
	x, y := l.op.In[0], l.op.Out
	if l.inPlace[x] {
		return nil
	}
	if v, ok := l.views[x]; ok {
		if strides, ok := reshaped(l.g.Type(x).Shape, v.strides, l.g.Type(y).Shape); ok {
			l.views[y] = view{v.root, layout{v.base, strides}}
			return nil
		}
	}
	l.home[y] = l.value(x).value
	return nil
}

// reshaped returns the strides of elements in another shape with the same elements;
// ok is false where no strides do.
func reshaped(shape, strides, to []int) (out []int, ok bool) {
	// Dimensions of the old shape, without those of length 1, are taken from the end on,
	// and cut or joined to those of the new one.
	out = make([]int, len(to))
	i := len(shape) - 1
	left, step := 1, 0 // what is left of the old dimension at hand, and its stride
	for d := len(to) - 1; d >= 0; d-- {
		n := to[d]
		if n == 1 {
			continue
		}
		for left == 1 {
			if i < 0 {
				return nil, false
			}
			left, step = shape[i], strides[i]
			i--
		}
		out[d] = step
		for n > left { // join with the next one, which must lie on
			if n%left != 0 {
				return nil, false
			}
			n /= left
			span := left * step
			for left = 1; left == 1; i-- {
				if i < 0 {
					return nil, false
				}
				left = shape[i]
				if left != 1 && strides[i] != span {
					return nil, false
				}
			}
			step = span
		}
		if left%n != 0 {
			return nil, false
		}
		left, step = left/n, step*n
	}
	return out, true
}

// destination returns where the kernel being lowered is to put its result, the last of
// its chain: where the operator that alone reads it wants it, or memory of its own.
// Steps that read another tensor expect it to lie as the result does.
func (l *lowering) destination() view {
	dense := !isCode8(l.g.Type(l.out)) || slices.ContainsFunc(l.chain, func(i int) bool {
		return l.g.Ops[i].Kind.Is(ir.Elementwise) && len(l.g.Ops[i].In) > 1 && l.g.Ops[i].Kind != ir.LUT
	})
	if dense {
		return l.readView(l.out)
	}
	at, through := l.wanted(l.out)
	if last := len(at.strides) - 1; l.op.Kind == ir.MatMul && at.strides[last] != 1 && l.g.Type(l.out).Shape[last] > 1 {
		return l.readView(l.out) // products write rows
	}
	for id, v := range through {
		l.views[id], l.inPlace[id] = v, true
	}
	return at
}

// wanted returns where the operator that alone reads a value wants it, and where that
// leaves the value and others on the way that lie in the memory of another.
func (l *lowering) wanted(id ir.ValueID) (at view, through map[ir.ValueID]view) {
	own := l.readView(id)
	if l.inPlace[id] || l.uses[id] != 1 || slices.Contains(l.g.Outputs, id) {
		return own, nil
	}
	op := &l.g.Ops[l.user[id]]
	shape := l.g.Type(id).Shape
	switch op.Kind {
	case ir.Concat:
		at, through = l.wanted(op.Out)
		axis := op.Attr.(*ir.AxisAttr).Axis
		for _, x := range op.In {
			if x == id {
				break
			}
			at.base += l.g.Type(x).Shape[axis] * at.strides[axis]
		}
	case ir.Transpose:
		if l.readsStrided(op.Out) {
			return own, nil
		}
		y, more := l.wanted(op.Out)
		at, through = view{y.root, layout{y.base, make([]int, len(shape))}}, more
		for i, p := range op.Attr.(*ir.PermAttr).Perm {
			at.strides[p] = y.strides[i]
		}
	case ir.Reshape:
		y, more := l.wanted(op.Out)
		strides, ok := reshaped(l.g.Type(op.Out).Shape, y.strides, shape)
		if !ok || y.root == op.Out {
			return own, nil
		}
		at, through = view{y.root, layout{y.base, strides}}, more
	default:
		return own, nil
	}
	if through == nil {
		through = map[ir.ValueID]view{}
	}
	through[id] = at
	return at, through
}

// readsStrided reports whether every operator that reads a value can read it wherever
// it lies.
func (l *lowering) readsStrided(id ir.ValueID) bool {
	if l.uses[id] != 1 || slices.Contains(l.g.Outputs, id) {
		return false
	}
	switch op := &l.g.Ops[l.user[id]]; op.Kind {
	case ir.MatMul:
		return l.isPair(op)
	case ir.Reshape:
		return l.readsStrided(op.Out)
	}
	return false
}

// isPair reports whether op is a product of two activations' codes.
func (l *lowering) isPair(op *ir.Op) bool {
	return op.Kind == ir.MatMul && l.g.Type(op.In[0]).IsQuantised() && !l.g.IsConst(op.In[1])
}
