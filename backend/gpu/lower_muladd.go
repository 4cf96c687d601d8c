package gpu

import (
	gen "situ/backend/gpu/kernel"
	"situ/internal/fixed"
	"situ/ir"
)

// mulAdd launches the sum of two products of codes.
func (l *lowering) mulAdd() error {
	y := l.g.Type(l.op.Out)
	var args []arg
	var scales [4]float64
	s := gen.MulAdd{Range: codeRange(y, nil)}
	to := l.destination()
	bases, strides := []int{to.base}, [][]int{to.strides}
	for i, id := range l.op.In {
		t := l.g.Type(id)
		scales[i] = float64(t.Quant.Scale[0])
		s.In[i], s.Zero[i] = codes(t), t.Quant.Zero[0]
		x := l.readView(id)
		bases, strides = append(bases, x.base), append(strides, broadcast(t.Shape, x.strides, y.Shape))
		args = append(args, x.at())
	}
	if l.op.Attr.(*ir.MulAddAttr).Subtract {
		scales[2] = -scales[2]
	}
	p, err := fixed.NewMulAdd(scales[0], scales[1], scales[2], scales[3], float64(y.Quant.Scale[0]), 0, 0, 0, 0, 0, 0, 255)
	if err != nil {
		return err
	}
	s.Nest = gen.NewNest(y.Shape, bases, strides...)
	s.MAB, s.MCD, s.Shift = p.MAB, p.MCD, int(p.Shift)
	return l.launch(s, append(args, to.at())...)
}
