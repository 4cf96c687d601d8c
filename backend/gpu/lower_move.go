package gpu

import (
	"errors"
	"fmt"
	"math"
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// concat copies those operands that were not written where they belong.
func (l *lowering) concat() error {
	axis := l.op.Attr.(*ir.AxisAttr).Axis
	to := l.destination()
	for _, id := range l.op.In {
		x := l.g.Type(id).Shape
		if !l.inPlace[id] {
			if err := l.copy(x, l.readView(id), to); err != nil {
				return err
			}
		}
		to.base += x[axis] * to.strides[axis]
	}
	return nil
}

func (l *lowering) pad() error {
	x, y := l.g.Type(l.op.In[0]), l.g.Type(l.op.Out)
	a := l.op.Attr.(*ir.PadAttr)
	s := gen.Pad{Elem: elemBytes(x.DType), Shape: slices.Clone(x.Shape), Begin: slices.Clone(a.Begin), End: slices.Clone(a.End), Mode: gen.PadMode(a.Mode)}
	switch {
	case a.Mode != ir.PadConstant:
	case y.IsQuantised() && y.Quant.IsPerTensor():
		s.Value = codeOf(a.Value, y)
	case x.DType == ir.F32:
		s.Value = int64(int32(math.Float32bits(float32(a.Value))))
	case a.Value != 0:
		return fmt.Errorf("of %s with %g has no kernel, only with 0", x.DType, a.Value)
	case y.IsQuantised() && slices.ContainsFunc(y.Quant.Zero, func(z int32) bool { return z != 0 }):
		return errors.New("pads a per-axis quantised operand: a single code for the padding does not exist")
	}
	return l.launch(s, l.value(l.op.In[0]), l.result())
}

func (l *lowering) gather() error {
	g, op := l.g, l.op
	x, axis := g.Type(op.In[0]), op.Attr.(*ir.AxisAttr).Axis
	s := gen.Gather{
		Elem: elemBytes(x.DType), Outer: ir.Numel(x.Shape[:axis]), Axis: x.Shape[axis], Inner: ir.Numel(x.Shape[axis+1:]),
		Count: g.Type(op.In[1]).Numel(), IndexBytes: elemBytes(g.Type(op.In[1]).DType), Checked: !g.IsConst(op.In[1]),
	}
	return l.launch(s, l.value(op.In[0]), l.value(op.In[1]), l.result())
}
