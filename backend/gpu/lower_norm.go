package gpu

import (
	"errors"

	gen "situ/backend/gpu/kernel"
	"situ/internal/fixed"
	"situ/ir"
)

// layerNorm launches the normalisation of codes along the last dimension.
func (l *lowering) layerNorm() error {
	x, y := l.g.Type(l.op.In[0]), l.g.Type(l.op.Out)
	var c [2][]float32
	for i, id := range l.op.In[1:] {
		if id == ir.NoValue {
			continue
		}
		if !l.g.IsConst(id) {
			return errors.New("needs constant gamma and beta")
		}
		c[i] = ir.Data[float32](l.g.Value(id).Const)
	}
	a, n := l.op.Attr.(*ir.NormAttr), x.Shape[len(x.Shape)-1]
	least, _ := x.DType.IntRange()
	lo, hi := y.DType.IntRange()
	p, err := fixed.NewNorm(n, a.RMS, float64(a.Epsilon), float64(x.Quant.Scale[0]), float64(y.Quant.Scale[0]),
		x.Quant.Zero[0]-int32(least), y.Quant.Zero[0]-int32(lo), c[0], c[1], 0, byte(hi-lo))
	if err != nil {
		return err
	}
	s := gen.Norm{
		Rows: x.Numel() / n, N: n, RMS: a.RMS, Warps: gen.RowWarps(x.Numel()/n, n, int(l.gpu.SMs.Value)), In: codes(x), OutSigned: codes(y).Signed, Zero: x.Quant.Zero[0],
		Eps: p.Eps, Shift: int(p.Shift), Range: gen.Range{Zero: p.ZY, Lo: int32(p.Lo), Hi: int32(p.Hi)},
	}
	return l.launch(s, l.value(l.op.In[0]), l.words(p.G), l.words(p.B), l.result())
}
