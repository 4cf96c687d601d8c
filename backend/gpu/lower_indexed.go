package gpu

import (
	"fmt"
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// alongAxis returns what lies before and behind an axis, and checks that indices
// differ from x along it alone.
func alongAxis(x, indices []int, axis int) (outer, inner int, err error) {
	if !slices.Equal(x[:axis], indices[:axis]) || !slices.Equal(x[axis+1:], indices[axis+1:]) {
		return 0, 0, fmt.Errorf("has indices of shape %v for elements of shape %v; a kernel takes those that differ along the axis alone", indices, x)
	}
	return ir.Numel(x[:axis]), ir.Numel(x[axis+1:]), nil
}

func (l *lowering) gatherElements() error {
	x, at, axis := l.g.Type(l.op.In[0]), l.g.Type(l.op.In[1]), l.op.Attr.(*ir.AxisAttr).Axis
	outer, inner, err := alongAxis(x.Shape, at.Shape, axis)
	if err != nil {
		return err
	}
	s := gen.GatherElements{Elem: elemBytes(x.DType), Outer: outer, N: x.Shape[axis], M: at.Shape[axis], Inner: inner, IndexBytes: elemBytes(at.DType)}
	return l.launch(s, l.value(l.op.In[0]), l.value(l.op.In[1]), l.result())
}

var scatterModes = map[ir.ScatterMode]gen.ScatterMode{
	ir.ScatterSet: gen.ScatterSet, ir.ScatterAdd: gen.ScatterAdd, ir.ScatterMul: gen.ScatterMul, ir.ScatterMin: gen.ScatterMin, ir.ScatterMax: gen.ScatterMax,
}

// scatterElements copies the first operand, then puts the updates into the copy.
func (l *lowering) scatterElements() error {
	a := l.op.Attr.(*ir.ScatterAttr)
	x, at := l.g.Type(l.op.In[0]), l.g.Type(l.op.In[1])
	outer, inner, err := alongAxis(x.Shape, at.Shape, a.Axis)
	if err != nil {
		return err
	}
	n, ok := number(x.DType)
	if !ok || n.Bool && a.Mode != ir.ScatterSet || n.Float && (a.Mode == ir.ScatterMin || a.Mode == ir.ScatterMax) {
		return fmt.Errorf("of %s with %s has no kernel", x.DType, a.Mode)
	}
	rows := gen.RowMajor(x.Shape)
	copied := gen.Copy{Nest: gen.NewNest(x.Shape, []int{0, 0}, rows, rows), Elem: n.Bytes}
	if err := l.launch(copied, l.value(l.op.In[0]), l.result()); err != nil {
		return err
	}
	s := gen.ScatterElements{Mode: scatterModes[a.Mode], Type: n, Outer: outer, N: x.Shape[a.Axis], M: at.Shape[a.Axis], Inner: inner, IndexBytes: elemBytes(at.DType)}
	return l.launch(s, l.value(l.op.In[1]), l.value(l.op.In[2]), l.result())
}

// mostTop is how many elements a topk kernel finds, one a pass over a lane.
const mostTop = 64

func (l *lowering) topK() error {
	a, x := l.op.Attr.(*ir.TopKAttr), l.g.Type(l.op.In[0])
	n, ok := number(x.DType)
	switch {
	case !ok || n.Bool:
		return fmt.Errorf("of %s has no kernel", x.DType)
	case a.K > mostTop:
		return fmt.Errorf("finds %d elements; a kernel finds at most %d, one a pass", a.K, mostTop)
	}
	s := gen.TopK{Type: n, Outer: ir.Numel(x.Shape[:a.Axis]), N: x.Shape[a.Axis], Inner: ir.Numel(x.Shape[a.Axis+1:]), K: a.K, Smallest: a.Smallest}
	return l.launch(s, l.value(l.op.In[0]), l.result())
}
