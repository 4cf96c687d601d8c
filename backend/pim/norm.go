package pim

import (
	"encoding/binary"
	"errors"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/internal/fixed"
	"situ/ir"
)

// layerNorm lowers the normalisation of codes along the last dimension. In float32
// the pass legalise has spelt it out.
func (l *lowering) layerNorm() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	if isF32(l.outType()) {
		return errors.New("in float32 is spelt out by the pass legalise, which is disabled")
	}
	cx, cy, err := l.codes8()
	if err != nil {
		return err
	}
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
	a := l.op.Attr.(*ir.NormAttr)
	p, err := fixed.NewNorm(x.dims[3], a.RMS, float64(a.Epsilon), cx.scale, cy.scale, cx.zero, cy.zero, c[0], c[1], cy.lo, cy.hi)
	if err != nil {
		return err
	}
	return l.result(&norm{p: p}, x)
}

// norm is the integer normalisation along channels.
type norm struct{ p fixed.NormParams }

func (k *norm) need(_ int, out box) box { return out }
func (k *norm) cuts() [4]bool           { return [4]bool{true, true, true, false} }

func (k *norm) ops(out box) int64 {
	rows, n := places(out)
	return rows * (n*opsNorm + opsNormRow)
}

func (k *norm) cycles(c *arch.Chip, out box) int64 { return vectorCycles(c, k.ops(out), 0, 0) }

// params is the block that the table row of norm describes.
func (k *norm) params(box) []byte {
	b := binary.LittleEndian.AppendUint64(nil, k.p.Eps)
	rms := byte(0)
	if k.p.RMS {
		rms = 1
	}
	b = append(int32s(b, k.p.ZX, k.p.ZY), k.p.Shift, k.p.Lo, k.p.Hi, rms, 0, 0, 0, 0)
	return int32s(int32s(b, k.p.G...), k.p.B...)
}

func (k *norm) emit(e *emitter, out box, dst view, src []view) {
	eachRows(out, [2]view{dst, src[0]}, 1, func(to, from, rows int64) {
		e.emit(isa.OpNorm, to, from, rows, int64(len(k.p.G)), e.params)
	})
}
