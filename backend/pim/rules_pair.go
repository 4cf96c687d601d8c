package pim

import (
	"errors"
	"fmt"
	"slices"

	"situ/backend/pim/isa"
	"situ/internal/fixed"
	"situ/ir"
)

// isPair reports whether a product has no constant matrix as its second operand
// that serves all of the first.
func (l *lowering) isPair(op *ir.Op) bool {
	if op.Kind != ir.MatMul {
		return false
	}
	b := l.g.Value(op.In[1])
	return b.Const == nil || l.g.IsConst(op.In[0]) || ir.Numel(b.Type.Shape[:max(len(b.Type.Shape)-2, 0)]) != 1
}

// maxColumns bounds the columns of a product of two activations, for each of which
// the compiler holds parameters.
const maxColumns = 1 << 22

// makePair appends the product op of two activations with result type t for the
// operator at hand. sumQuant is the quantisation of the sums when op itself gives
// int32.
func (l *lowering) makePair(op *ir.Op, t ir.Type, sumQuant *ir.Quant) error {
	ta, tb := l.g.Type(op.In[0]), l.g.Type(op.In[1])
	switch {
	case !ta.IsQuantised() || !tb.IsQuantised():
		return errors.New("computes in floating point, which the arrays do not; quantise it")
	case len(ta.Shape) < 2 || len(tb.Shape) < 2:
		return errors.New("multiplies a vector; reshape it to a matrix")
	case len(op.In) > 2 && op.In[2] >= 0 && !l.g.IsConst(op.In[2]):
		return errors.New("its bias is not constant")
	}
	zb := tb.Quant.Zero
	if slices.ContainsFunc(zb, func(z int32) bool { return z != zb[0] }) {
		return errors.New("its second operand has several zero points")
	}
	a, err := l.value(op.In[0])
	if err != nil {
		return err
	}
	b, err := l.columns(op.In[1])
	if err != nil {
		return err
	}
	ca, err := code8Of(ta, nil)
	if err != nil {
		return err
	}
	out := dimsOf(t.Shape)
	if out[3] > maxColumns {
		return fmt.Errorf("has %d columns, at most %d are possible", out[3], maxColumns)
	}
	k := &pair{size: out, k: a.dims[3], a: plainAccess(a.dims), b: plainAccess(b.dims), out: plainAccess(out), za: int64(ca.zero), zb: int64(b.zero)}
	k.out.mult = [4]int{1, 1, 1, 1}
	for i := range 2 {
		if a.dims[i] != out[i] && a.dims[i] != 1 || b.dims[i] != out[i] && b.dims[i] != 1 {
			return errors.New("broadcasts over more than four dimensions")
		}
	}
	k.planes = planesFor(int32(-k.zb), int32(255-k.zb))
	if err := l.scalePair(k, op, t, sumQuant); err != nil {
		return err
	}
	if !l.opened { // what writing b costs is booked by itself
		l.layers = append(l.layers, isa.Layer{Name: op.Name, Op: isa.OpStoreW.String()})
		k.writes = int32(len(l.layers) - 1)
	}
	if err := l.result(k, a, b); err != nil {
		return err
	}
	l.layers[len(l.layers)-1].MACs = k.macs()
	l.layers[len(l.layers)-1].Op = op.Kind.String()
	return nil
}

// columns is value for the second operand of a product, which when constant may
// have a scale for each column.
func (l *lowering) columns(id ir.ValueID) (*tensor, error) {
	v := l.g.Value(id)
	if l.vals[id] != nil || v.Const == nil || v.Type.Quant.IsPerTensor() {
		return l.value(id)
	}
	if v.Type.Quant.Axis != len(v.Type.Shape)-1 {
		return nil, errors.New("its second operand has scales along another dimension than the last")
	}
	data, err := bytesOf(v.Const)
	if err != nil {
		return nil, err
	}
	t := &tensor{name: v.Name, dims: dimsOf(v.Type.Shape), elem: 1, zero: int(v.Type.Quant.Zero[0])}
	if lo, _ := v.Type.DType.IntRange(); lo < 0 {
		t.zero += 128
	}
	l.ownStore(t)
	t.store.data = data
	return t, nil
}

// scalePair computes how sums become results.
func (l *lowering) scalePair(k *pair, op *ir.Op, t ir.Type, sumQuant *ir.Quant) error {
	n := k.size[3]
	k.bias = make([]int32, n)
	if len(op.In) > 2 && op.In[2] >= 0 {
		bias := ir.Data[int32](l.g.Value(op.In[2]).Const)
		for c := range k.bias {
			k.bias[c] = bias[c%len(bias)]
		}
	}
	if k.raw = isSumType(t); k.raw {
		return nil
	}
	at := func(s []float32, c int) float64 { return float64(s[min(c, len(s)-1)]) }
	if isF32(t) {
		k.scales = make([]float32, n)
		for c := range k.scales {
			k.scales[c] = float32(at(sumQuant.Scale, c))
		}
		return nil
	}
	cy, err := code8Of(t, productAct(op.Attr))
	if err != nil {
		return err
	}
	k.zero, k.lo, k.hi = int64(cy.zero), int64(cy.lo), int64(cy.hi)
	k.mult, k.shift = make([]int32, n), make([]uint8, n)
	sa, sb := float64(l.g.Type(op.In[0]).Quant.Scale[0]), l.g.Type(op.In[1]).Quant.Scale
	for c := range k.mult {
		real := sa * at(sb, c) / cy.scale
		if sumQuant != nil {
			real = at(sumQuant.Scale, c) / cy.scale
		}
		m, err := fixed.NewMultiplier(real)
		if err != nil {
			return fmt.Errorf("column %d: %w", c, err)
		}
		k.mult[c], k.shift[c] = m.M, m.Shift
	}
	return nil
}
