package pim

import (
	"errors"
	"fmt"
	"math"

	"situ/ir"
)

// reshape shows the operand under other dimensions; reinterpret lands here too.
func (l *lowering) reshape() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	d := dimsOf(l.outType().Shape)
	if x.store.constant() {
		t, err := l.fresh(l.op.Out)
		if err != nil {
			return err
		}
		t.store.data, t.store.absent = x.store.data, x.store.absent
		l.vals[l.op.Out] = t
		return nil
	}
	if d == x.dims {
		return l.alias(x, d, x.off, x.reshaped)
	}
	x = l.densely(x)
	return l.alias(x, d, dims{}, d != x.store.dims)
}

// rank4 returns the attribute list of an operator, one entry a dimension, for
// four dimensions. Merged leading dimensions must have the entry nothing.
func rank4(list, shape []int, nothing func(axis int) int) ([4]int, error) {
	off := 4 - len(list)
	var out [4]int
	for i := range out {
		if i < off {
			out[i] = nothing(-1)
		}
	}
	for i, v := range list {
		if i+off > 0 || off == 0 {
			out[i+off] = v
			continue
		}
		if v != nothing(i) {
			return out, errors.New("works on the leading dimensions of more than four")
		}
	}
	if off < 0 {
		d := dimsOf(shape)
		out[0] = nothing(-1)
		if nothing(0) != 0 && nothing(0) != 1 {
			out[0] = d[0]
		}
	}
	return out, nil
}

// transposed appends a transpose of t and returns its result.
func (l *lowering) transposed(t *tensor, perm [4]int) *tensor {
	out := &tensor{name: t.name, elem: t.elem, zero: t.zero}
	for i, p := range perm {
		out.dims[i] = t.dims[p]
	}
	l.ownStore(out)
	l.add(transposition(t, perm, out.dims), out, t)
	return out
}

func transposition(t *tensor, perm [4]int, out dims) *move {
	p := straight(0, whole(out), dims{})
	p.axis = perm
	return &move{in: []dims{t.dims}, elem: t.elem, pieces: []piece{p}}
}

func (l *lowering) transpose() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	shape, perm := l.inType(0).Shape, l.op.Attr.(*ir.PermAttr).Perm
	// Dimensions that stay neighbours move as one; those of 1 not at all.
	var groups [][2]int // first dimension and extent of runs, in result order
	last := -2
	for _, p := range perm {
		if shape[p] == 1 {
			continue
		}
		if between := last >= 0 && p > last && ir.Numel(shape[last+1:p]) == 1; between {
			groups[len(groups)-1][1] *= shape[p]
		} else {
			groups = append(groups, [2]int{p, shape[p]})
		}
		last = p
	}
	if len(groups) > 4 {
		return errors.New("permutes more than four dimensions that do not move together")
	}
	var p4 [4]int
	var from, to dims
	if len(shape) <= 4 {
		off := 4 - len(shape)
		for i := range off {
			p4[i] = i
		}
		for i, p := range perm {
			p4[off+i] = p + off
		}
		return l.result(transposition(x, p4, dimsOf(l.outType().Shape)), x)
	}
	off := 4 - len(groups)
	for i := range off {
		p4[i], from[i], to[i] = i, 1, 1
	}
	for i, g := range groups {
		order := 0 // of the group in the operand
		for _, h := range groups {
			if h[0] < g[0] {
				order++
			}
		}
		p4[off+i] = off + order
		from[off+order], to[off+i] = g[1], g[1]
	}
	y := l.transposed(l.view4(x, from), p4)
	return l.alias(l.densely(y), dimsOf(l.outType().Shape), dims{}, true)
}

func (l *lowering) slice() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	a := l.op.Attr.(*ir.SliceAttr)
	shape := l.inType(0).Shape
	starts, err := rank4(a.Starts, shape, func(int) int { return 0 })
	if err != nil {
		return err
	}
	steps, err := rank4(a.Steps, shape, func(int) int { return 1 })
	if err != nil {
		return err
	}
	out := dimsOf(l.outType().Shape)
	if len(shape) > 4 && out[0] != x.dims[0] {
		return errors.New("cuts the leading dimensions of more than four")
	}
	if steps == [4]int{1, 1, 1, 1} && !x.reshaped && !x.store.constant() {
		off := x.off
		for i := range off {
			off[i] += starts[i]
		}
		return l.alias(x, out, off, false)
	}
	p := straight(0, whole(out), dims(starts))
	p.step = steps
	return l.result(&move{in: []dims{x.dims}, elem: x.elem, pieces: []piece{p}}, x)
}

func (l *lowering) expand() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	out := dimsOf(l.outType().Shape)
	p := straight(0, whole(out), dims{})
	for i, n := range x.dims {
		if n == 1 {
			p.step[i] = 0
		} else if n != out[i] {
			return errors.New("repeats some of the leading dimensions of more than four")
		}
	}
	return l.result(&move{in: []dims{x.dims}, elem: x.elem, pieces: []piece{p}}, x)
}

func (l *lowering) gather() error {
	if !l.g.IsConst(l.op.In[1]) {
		return l.lookUp()
	}
	x, err := l.in(0)
	if err != nil {
		return err
	}
	var index []int
	switch data := l.g.Value(l.op.In[1]).Const.Any().(type) {
	case []int32:
		for _, v := range data {
			index = append(index, int(v))
		}
	case []int64:
		for _, v := range data {
			index = append(index, int(v))
		}
	}
	shape, axis := l.inType(0).Shape, l.op.Attr.(*ir.AxisAttr).Axis
	before, after := ir.Numel(shape[:axis]), ir.Numel(shape[axis+1:])
	v := l.view4(x, dims{1, before, shape[axis], after})
	got := dims{1, before, len(index), after}
	k := &move{in: []dims{v.dims}, elem: v.elem}
	// Indices in arithmetic progression are one piece.
	for i := 0; i < len(index); {
		n, step := 1, 1
		if i+1 < len(index) {
			step = index[i+1] - index[i]
			for i+n < len(index) && index[i+n]-index[i+n-1] == step {
				n++
			}
		}
		p := straight(0, whole(got).along(2, i, i+n), dims{0, 0, index[i], 0})
		p.step[2] = step
		k.pieces = append(k.pieces, p)
		i += n
	}
	if err := l.result(k, v); err != nil {
		return err
	}
	y := l.vals[l.op.Out]
	y.dims, y.store.dims = got, got
	l.vals[l.op.Out] = l.view4(y, dimsOf(l.outType().Shape))
	return nil
}

func (l *lowering) pad() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	a := l.op.Attr.(*ir.PadAttr)
	begin, err := rank4(a.Begin, l.inType(0).Shape, func(int) int { return 0 })
	if err != nil {
		return err
	}
	out := dimsOf(l.outType().Shape)
	if len(a.Begin) > 4 && out[0] != x.dims[0] {
		return errors.New("pads the leading dimensions of more than four")
	}
	k := &move{in: []dims{x.dims}, elem: x.elem}
	if a.Mode == ir.PadConstant {
		k.filled = true
		if !l.outType().IsQuantised() || x.elem != 1 {
			zero := l.outType().Quant == nil || l.outType().Quant.Zero[0] == 0
			if bits := math.Float32bits(float32(a.Value)); bits != 0 || !zero {
				return fmt.Errorf("pads %s with a value that is not 0, for which a PIM chip has no instruction", l.outType().DType)
			}
			k.fill = byte(x.zero)
		} else {
			c, err := code8Of(l.outType(), &ir.Act{Lo: float32(a.Value), Hi: float32(a.Value)})
			if err != nil {
				return err
			}
			k.fill = byte(codeOf(a.Value, l.outType()) + int64(c.zero-l.outType().Quant.Zero[0]))
		}
		p := straight(0, whole(out), dims{})
		for i := range out {
			p.to.lo[i] = max(begin[i], 0)
			p.from[i] = max(-begin[i], 0)
			p.to.hi[i] = min(begin[i]+x.dims[i], out[i])
		}
		k.pieces = []piece{p}
		return l.result(k, x)
	}
	// Other modes repeat or mirror the operand: along each axis a list of
	// stretches, and a piece for each combination.
	k.pieces = []piece{straight(0, whole(out), dims{})}
	for axis := range out {
		ss := stretches(a.Mode, begin[axis], x.dims[axis], out[axis])
		var next []piece
		for _, p := range k.pieces {
			for _, s := range ss {
				q := p
				q.to = q.to.along(axis, s.lo, s.hi)
				q.from[axis], q.step[axis] = s.from, s.step
				next = append(next, q)
			}
		}
		k.pieces = next
	}
	return l.result(k, x)
}

// stretch says that result places [lo, hi) come from from, from+step, …
type stretch struct{ lo, hi, from, step int }

// stretches cuts n result places, of which the first lies begin before the
// operand's m places, into stretches.
func stretches(mode ir.PadMode, begin, m, n int) []stretch {
	var out []stretch
	for i := range n {
		from := padSource(mode, i-begin, m)
		if k := len(out) - 1; k >= 0 {
			s := &out[k]
			if s.hi-s.lo == 1 {
				if d := from - s.from; d >= -1 && d <= 1 {
					s.step, s.hi = d, i+1
					continue
				}
			} else if from == s.from+(i-s.lo)*s.step {
				s.hi = i + 1
				continue
			}
		}
		out = append(out, stretch{i, i + 1, from, 1})
	}
	return out
}

// padSource returns the place that padding at place i of m repeats.
func padSource(mode ir.PadMode, i, m int) int {
	switch mode {
	case ir.PadEdge:
		return min(max(i, 0), m-1)
	case ir.PadWrap:
		return ((i % m) + m) % m
	}
	if m == 1 {
		return 0
	}
	period := 2 * (m - 1)
	i = ((i % period) + period) % period
	return min(i, period-i)
}

// concat lets the operands be made in their places in the result where that is
// possible, and copies the others.
func (l *lowering) concat() error {
	axis := l.op.Attr.(*ir.AxisAttr).Axis + 4 - len(l.outType().Shape)
	if axis < 0 || len(l.outType().Shape) > 4 && axis == 0 {
		return errors.New("joins along one of the leading dimensions of more than four")
	}
	ts := make([]*tensor, len(l.op.In))
	for i := range ts {
		t, err := l.in(i)
		if err != nil {
			return err
		}
		ts[i] = t
	}
	y, err := l.fresh(l.op.Out)
	if err != nil {
		return err
	}
	k := &move{elem: y.elem}
	var copied []*tensor
	off := dims{}
	moved := map[*store]bool{}
	for _, t := range ts {
		if s := t.store; l.canMove(t, axis, y) && !moved[s] {
			moved[s] = true
			l.moveStore(s, y.store, off)
		} else {
			to := whole(t.dims).shift(off)
			k.pieces = append(k.pieces, straight(len(copied), to, dims{}))
			copied = append(copied, t)
			k.in = append(k.in, t.dims)
		}
		off[axis] += t.dims[axis]
	}
	l.vals[l.op.Out] = y
	// Copies go to parts of the result: one step each, writing its own window.
	for i, t := range copied {
		p := k.pieces[i]
		part := &tensor{name: y.name, dims: t.dims, elem: y.elem, zero: y.zero, store: y.store, off: p.to.lo}
		y.store.tens = append(y.store.tens, part)
		l.add(&move{in: []dims{t.dims}, elem: y.elem, pieces: []piece{straight(0, whole(t.dims), dims{})}}, part, t)
	}
	return nil
}

// canMove reports whether the store of t may become a part of y's.
func (l *lowering) canMove(t *tensor, axis int, y *tensor) bool {
	s := t.store
	if t.reshaped || !t.isWhole() || s.whole || s.input || s.output || s.constant() || s == y.store {
		return false
	}
	return !s.bordered || axis == 3 && s.fill == y.zero && (!y.store.bordered || y.store.fill == s.fill)
}

// moveStore makes everything in s a part of to, at off.
func (l *lowering) moveStore(s, to *store, off dims) {
	for _, t := range s.tens {
		t.store = to
		for i := range off {
			t.off[i] += off[i]
		}
		to.tens = append(to.tens, t)
	}
	to.kept = to.kept || s.kept
	to.bordered = to.bordered || s.bordered
	if s.bordered {
		to.fill = s.fill
	}
	for i, o := range l.stores {
		if o == s {
			l.stores = append(l.stores[:i], l.stores[i+1:]...)
			break
		}
	}
}
