package passes

import (
	"math"
	"slices"

	"situ/internal/fixed"
	"situ/ir"
)

// product is a convolution or matrix product on codes, ready to be written:
// sums of (x − zx)(w − zw), plus bias in units of the sums, times scale.
type product struct {
	op   *ir.Op     // the product in the old graph
	attr ir.Attr    //
	x, w ir.ValueID // codes in the new graph
	xs   float64    // scale of x
	ws   []float64  // scales of w, one or one per channel
	bias []int32    // nil when there is none
}

// product recognises a product of dequantized operands, or one of plain integer
// codes whose sums are then cast to float32 and scaled. It returns nil for
// anything else.
func (f *fixer) product(op *ir.Op) (*product, error) {
	if op.Kind == ir.Conv2D || op.Kind == ir.MatMul {
		return f.floatProduct(op)
	}
	return f.integerProduct(op)
}

func (f *fixer) floatProduct(op *ir.Op) (*product, error) {
	if f.old.Type(op.Out).DType != ir.F32 {
		return nil, nil
	}
	p := &product{op: op, attr: op.Attr}
	var err error
	if w := f.weights(op); w != ir.NoValue {
		p.w, err = f.value(w)
	} else { // two activations
		p.w, err = f.operand(op.In[1])
	}
	if err != nil || p.w == ir.NoValue {
		return nil, err
	}
	if p.x, err = f.operand(op.In[0]); err != nil || p.x == ir.NoValue {
		return nil, err
	}
	p.setScales(f)
	if len(op.In) > 2 && op.In[2] != ir.NoValue {
		if !p.setBias(f, op.In[2]) {
			return nil, nil
		}
	}
	return p, nil
}

// weights returns the codes that operand 1 of a product was dequantized from, if
// the product can use them.
func (f *fixer) weights(op *ir.Op) ir.ValueID {
	dq := producer(f.old, op.In[1], ir.Dequantize)
	if dq == nil {
		return ir.NoValue
	}
	t := f.old.Type(dq.In[0])
	axis := 0
	if op.Kind == ir.MatMul {
		axis = len(t.Shape) - 1
	}
	if t.DType.Bits() > 8 || !t.Quant.IsPerTensor() && t.Quant.Axis != axis {
		return ir.NoValue
	}
	return dq.In[0]
}

func (p *product) setScales(f *fixer) {
	p.xs = float64(f.g.Type(p.x).Quant.Scale[0])
	p.ws = nil
	for _, s := range f.g.Type(p.w).Quant.Scale {
		p.ws = append(p.ws, float64(s))
	}
}

// setBias expresses a float32 or dequantized bias in units of the sums. It
// reports false when the bias is not constant or too large for int32.
func (p *product) setBias(f *fixer, id ir.ValueID) bool {
	var values []float64
	if data := floats(f.old, id); data != nil {
		for _, b := range data {
			values = append(values, float64(b))
		}
	} else if dq := producer(f.old, id, ir.Dequantize); dq != nil && f.old.IsConst(dq.In[0]) {
		v := f.old.Value(dq.In[0])
		codes := integers(v.Const)
		for i, c := range codes {
			q := v.Type.Quant
			values = append(values, (float64(c)-float64(at(q.Zero, i)))*float64(at(q.Scale, i)))
		}
	}
	if values == nil {
		return false
	}
	n := p.channels(f)
	bias := make([]int32, n)
	for c := range bias {
		b := math.RoundToEven(at(values, c) / (p.xs * at(p.ws, c)))
		if !(math.Abs(b) < 1<<31) {
			return false
		}
		bias[c] = int32(b)
	}
	return p.addBias(bias)
}

// addBias adds to the bias and reports whether it still fits.
func (p *product) addBias(b []int32) bool {
	if p.bias == nil {
		p.bias = b
		return true
	}
	sum := make([]int32, len(b))
	for c := range b {
		s := int64(p.bias[c]) + int64(b[c])
		if s != int64(int32(s)) {
			return false
		}
		sum[c] = int32(s)
	}
	p.bias = sum
	return true
}

func (p *product) channels(f *fixer) int {
	s := f.old.Type(p.op.Out).Shape
	return s[len(s)-1]
}

// at indexes a list that is either per channel or a single entry for all.
func at[T any](s []T, c int) T {
	if len(s) == 1 {
		return s[0]
	}
	return s[c]
}

// integers returns the elements of a constant of at most 32 bits, nil for others.
func integers(t *ir.Tensor) []int32 {
	switch data := t.Any().(type) {
	case []int8:
		return widen(data)
	case []uint8:
		return widen(data)
	case []int16:
		return widen(data)
	case []int32:
		return data
	}
	return nil
}

func widen[T int8 | uint8 | int16](s []T) []int32 {
	out := make([]int32, len(s))
	for i, v := range s {
		out[i] = int32(v)
	}
	return out
}

// integerProduct recognises
//
//	mul(cast(product of codes [+ int32 constant]), float32 constant) [+ float32 constant]
//
// which is how MatMulInteger and ConvInteger are scaled. The scale of the codes
// is then what the multiplication says.
func (f *fixer) integerProduct(op *ir.Op) (*product, error) {
	shift := ir.NoValue
	if op.Kind == ir.Add {
		m := producer(f.old, op.In[0], ir.Mul)
		if m == nil || actOf(m.Attr) != nil {
			return nil, nil
		}
		shift, op = op.In[1], m
	}
	if op.Kind != ir.Mul {
		return nil, nil
	}
	cast := producer(f.old, op.In[0], ir.Cast)
	if cast == nil {
		return nil, nil
	}
	sums, biases := cast.In[0], []ir.ValueID(nil)
	for {
		add := producer(f.old, sums, ir.Add)
		if add == nil {
			break
		}
		sums, biases = add.In[0], append(biases, add.In[1])
		if f.old.IsConst(sums) {
			sums, biases[len(biases)-1] = add.In[1], add.In[0]
		}
	}
	mm := f.old.DefOp(sums)
	if mm == nil || mm.Kind != ir.Conv2D && mm.Kind != ir.MatMul || f.old.Type(sums).DType != ir.I32 {
		return nil, nil
	}
	shape := f.old.Type(mm.Out).Shape
	n := shape[len(shape)-1]
	scale, ok := perChannel(f.old, op.In[1], len(shape), n)
	if !ok || slices.ContainsFunc(scale, func(s float32) bool { return !(s > 0) || s == inf }) || !f.old.IsConst(mm.In[1]) {
		return nil, nil
	}
	p := &product{op: mm, attr: mm.Attr}
	var err error
	if p.x, err = f.value(f.plainCodes(mm.In[0])); err != nil {
		return nil, err
	}
	xt := f.g.Type(p.x)
	if !isCode8(xt) {
		return nil, nil
	}
	w := f.old.Value(mm.In[1])
	q := w.Type.Quant
	read := &ir.Quant{Axis: -1, Zero: q.Zero, Scale: []float32{scale[0] / xt.Quant.Scale[0]}}
	if uniform := !slices.ContainsFunc(scale, func(s float32) bool { return s != scale[0] }); !uniform || !q.IsPerTensor() {
		read = &ir.Quant{Axis: 0}
		if mm.Kind == ir.MatMul {
			read.Axis = len(w.Type.Shape) - 1
		}
		for c, s := range scale {
			read.Scale = append(read.Scale, s/xt.Quant.Scale[0])
			read.Zero = append(read.Zero, at(q.Zero, c))
		}
	}
	if slices.ContainsFunc(read.Scale, func(s float32) bool { return !(s > 0) || s == inf }) {
		return nil, nil
	}
	p.w = f.g.AddConst(w.Name, w.Const, read)
	p.setScales(f)
	if len(mm.In) > 2 && mm.In[2] != ir.NoValue {
		biases = append(biases, mm.In[2])
	}
	for _, id := range biases {
		if !f.old.IsConst(id) || f.old.Type(id).DType != ir.I32 {
			return nil, nil
		}
		c := f.old.Value(id).Const
		if m := c.Numel(); m != 1 && (m != n || c.Shape[len(c.Shape)-1] != n) {
			return nil, nil
		}
		b := make([]int32, n)
		for i := range b {
			b[i] = at(ir.Data[int32](c), i)
		}
		if !p.addBias(b) {
			return nil, nil
		}
	}
	if shift != ir.NoValue {
		if _, ok := perChannel(f.old, shift, len(shape), n); !ok || !p.setBias(f, shift) {
			return nil, nil
		}
	}
	return p, nil
}

// plainCodes looks behind a reinterpret that only replaces the scale.
func (f *fixer) plainCodes(id ir.ValueID) ir.ValueID {
	if op := producer(f.old, id, ir.Reinterpret); op != nil {
		a, b := f.old.Type(op.In[0]).Quant, f.old.Type(id).Quant
		if a != nil && a.IsPerTensor() && b.IsPerTensor() && a.Zero[0] == b.Zero[0] {
			return op.In[0]
		}
	}
	return id
}

// fits reports whether the sums can be scaled to codes of type t.
func (p *product) fits(t ir.Type) bool {
	return !slices.ContainsFunc(p.ws, func(s float64) bool {
		_, err := fixed.NewMultiplier(p.xs * s / float64(t.Quant.Scale[0]))
		return err != nil
	})
}

// write adds the product with result type t.
func (p *product) write(f *fixer, attr ir.Attr, t ir.Type) (ir.ValueID, error) {
	in := []ir.ValueID{p.x, p.w}
	if p.bias != nil {
		in = append(in, f.g.AddConst(p.op.Name+"/bias", ir.NewTensor(ir.I32, []int{len(p.bias)}, p.bias), p.sumQuant(0)))
	}
	return f.g.AddTyped(p.op.Kind, p.op.Name, attr, t, in...)
}

// sumQuant is the quantisation of the sums, channels along axis.
func (p *product) sumQuant(axis int) *ir.Quant {
	q := &ir.Quant{Axis: axis}
	if len(p.ws) == 1 {
		q.Axis = -1
	}
	for _, s := range p.ws {
		q.Scale = append(q.Scale, float32(p.xs*s))
		q.Zero = append(q.Zero, 0)
	}
	return q
}

// dequantizedProduct writes a product whose result stays float32: the sums as
// int32, dequantized, clamped.
func (f *fixer) dequantizedProduct(op *ir.Op) (ir.ValueID, error) {
	p, err := f.product(op)
	if err != nil || p == nil {
		return ir.NoValue, err
	}
	t := f.old.Type(op.Out)
	q := p.sumQuant(len(t.Shape) - 1)
	if slices.ContainsFunc(q.Scale, func(s float32) bool { return s == 0 || s == inf }) {
		return ir.NoValue, nil
	}
	act := actOf(op.Attr)
	id, err := p.write(f, withAct(p.attr, nil), ir.Type{DType: ir.I32, Shape: t.Shape, Quant: q})
	if err != nil {
		return id, err
	}
	if id, err = f.g.Add(ir.Dequantize, op.Name, nil, id); err != nil || act == nil {
		return id, err
	}
	return clip(f.rewriter, op.Name, id, *act)
}
