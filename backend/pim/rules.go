package pim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"situ/backend/pim/isa"
	"situ/internal/fixed"
	"situ/internal/vecf32"
	"situ/ir"
)

// rules lower one operator each; kinds without a rule are not taken.
var rules = map[ir.OpKind]func(l *lowering) error{
	ir.Conv2D: (*lowering).conv2d, ir.MatMul: (*lowering).matmul,
	ir.MaxPool: (*lowering).pooling, ir.AvgPool: (*lowering).pooling,
	ir.ReduceSum: (*lowering).reduction, ir.ReduceMean: (*lowering).reduction,
	ir.ReduceMax: (*lowering).reduction, ir.ReduceMin: (*lowering).reduction,
	ir.Softmax: (*lowering).softmax, ir.LogSoftmax: (*lowering).softmax, ir.LRN: (*lowering).softmax,
	ir.LayerNorm: (*lowering).layerNorm, ir.MulAdd: (*lowering).mulAdd,
	ir.Add: (*lowering).binary, ir.Sub: (*lowering).binary, ir.Mul: (*lowering).binary, ir.Div: (*lowering).binary,
	ir.Min: (*lowering).binary, ir.Max: (*lowering).binary, ir.Pow: (*lowering).binary,
	ir.Mod: (*lowering).integers, ir.BitAnd: (*lowering).integers, ir.BitOr: (*lowering).integers, ir.BitXor: (*lowering).integers,
	ir.Equals: (*lowering).integers, ir.Less: (*lowering).integers, ir.LessEqual: (*lowering).integers,
	ir.Where: (*lowering).where, ir.Cast: (*lowering).cast,
	ir.Relu: unaryRule(vecf32.Relu), ir.LeakyRelu: unaryRule(vecf32.LeakyRelu), ir.Clip: unaryRule(vecf32.Clip),
	ir.Sigmoid: unaryRule(vecf32.Sigmoid), ir.HardSigmoid: unaryRule(vecf32.HardSigmoid), ir.HardSwish: unaryRule(vecf32.HardSwish),
	ir.Tanh: unaryRule(vecf32.Tanh), ir.Exp: unaryRule(vecf32.Exp), ir.Log: unaryRule(vecf32.Log), ir.Sqrt: unaryRule(vecf32.Sqrt),
	ir.Reciprocal: unaryRule(vecf32.Reciprocal), ir.Neg: unaryRule(vecf32.Neg), ir.Abs: unaryRule(vecf32.Abs),
	ir.Erf: unaryRule(vecf32.Erf), ir.Floor: unaryRule(vecf32.Floor), ir.Ceil: unaryRule(vecf32.Ceil), ir.Round: unaryRule(vecf32.Round),
	ir.Softplus: unaryRule(vecf32.Softplus), ir.Elu: unaryRule(vecf32.Elu),
	ir.LUT:     (*lowering).lut,
	ir.Reshape: (*lowering).reshape, ir.Transpose: (*lowering).transpose, ir.Concat: (*lowering).concat,
	ir.Slice: (*lowering).slice, ir.Pad: (*lowering).pad, ir.Expand: (*lowering).expand, ir.Gather: (*lowering).gather,
	ir.GatherElements: (*lowering).gatherElements, ir.ScatterElements: (*lowering).scatterElements, ir.TopK: (*lowering).topK,
	ir.Quantize: (*lowering).quantize, ir.Dequantize: (*lowering).dequantize,
	ir.Requantize: (*lowering).requantize, ir.Reinterpret: (*lowering).reshape,
}

// Lowers reports whether operators of a kind have a form on the machine. Whether a
// given one fits depends on its types and attributes, which Compile looks at.
func Lowers(k ir.OpKind) bool { return rules[k] != nil }

// code8 is a quantised 8-bit type as the machine sees it: unsigned codes.
type code8 struct {
	scale  float64
	zero   int32
	lo, hi byte // codes that an activation allows
}

// codes8 describes the 8-bit types of the first operand and of the result.
func (l *lowering) codes8() (x, y code8, err error) {
	if x, err = code8Of(l.inType(0), nil); err == nil {
		y, err = code8Of(l.outType(), nil)
	}
	return x, y, err
}

// code8Of describes the 8-bit type t narrowed by act, which may be nil.
func code8Of(t ir.Type, act *ir.Act) (code8, error) {
	if !t.IsQuantised() || t.DType.Bits() > 8 || !t.Quant.IsPerTensor() {
		return code8{}, fmt.Errorf("%s is not a quantised type of 8 bits with a single scale", t.DType)
	}
	least, most := t.DType.IntRange()
	offset := int64(0)
	if least < 0 {
		offset = 128
	}
	c := code8{scale: float64(t.Quant.Scale[0]), zero: t.Quant.Zero[0] + int32(offset)}
	if act != nil {
		least, most = codeOf(float64(act.Lo), t), codeOf(float64(act.Hi), t)
	}
	c.lo, c.hi = byte(least+offset), byte(most+offset)
	return c, nil
}

// codeOf returns the code of a real number, saturated; NaN is zero.
func codeOf(v float64, t ir.Type) int64 {
	lo, hi := t.DType.IntRange()
	z := int64(t.Quant.Zero[0])
	r := math.RoundToEven(v/float64(t.Quant.Scale[0])) + float64(z)
	switch {
	case r != r:
		return z
	case r <= float64(lo):
		return lo
	case r >= float64(hi):
		return hi
	}
	return int64(r)
}

func isF32(t ir.Type) bool { return t.DType == ir.F32 }

// outType returns the type of the result at hand.
func (l *lowering) outType() ir.Type { return l.g.Type(l.op.Out) }

func (l *lowering) inType(i int) ir.Type { return l.g.Type(l.op.In[i]) }

func (l *lowering) binary() error {
	if isPlain(l.outType()) {
		return l.integers()
	}
	a, err := l.in(0)
	if err != nil {
		return err
	}
	b, err := l.in(1)
	if err != nil {
		return err
	}
	if err := broadcasts(dimsOf(l.outType().Shape), a, b); err != nil {
		return err
	}
	var act *ir.Act
	if t, ok := l.op.Attr.(*ir.BinaryAttr); ok {
		act = t.Act
	}
	if isF32(l.outType()) {
		k := &binaryF{fn: vecf32.BinOp(l.op.Kind-ir.Add) + vecf32.Add, a: a.dims, b: b.dims}
		if act != nil {
			k.clip = &vecf32.Params{A: act.Lo, B: act.Hi}
		}
		return l.result(k, a, b)
	}
	ca, err := code8Of(l.inType(0), nil)
	if err != nil {
		return err
	}
	cb, err := code8Of(l.inType(1), nil)
	if err != nil {
		return err
	}
	cy, err := code8Of(l.outType(), act)
	if err != nil {
		return err
	}
	switch l.op.Kind {
	case ir.Add, ir.Sub:
		if l.op.Kind == ir.Sub {
			cb.scale = -cb.scale
		}
		p, err := fixed.NewAdd(ca.scale, cb.scale, cy.scale, ca.zero, cb.zero, cy.zero, cy.lo, cy.hi)
		if err != nil {
			return err
		}
		return l.result(newAdd(a.dims, b.dims, p), a, b)
	case ir.Mul:
		p, err := fixed.NewMul(ca.scale, cb.scale, cy.scale, ca.zero, cb.zero, cy.zero, cy.lo, cy.hi)
		if err != nil {
			return err
		}
		return l.result(newMul(a.dims, b.dims, p), a, b)
	}
	return errors.New("has no fixed-point form")
}

func unaryRule(fn vecf32.Fn) func(l *lowering) error {
	return func(l *lowering) error {
		x, err := l.in(0)
		if err != nil {
			return err
		}
		if !isF32(l.outType()) {
			return errors.New("has no fixed-point form other than lut")
		}
		var p vecf32.Params
		switch a := l.op.Attr.(type) {
		case *ir.ClipAttr:
			p = vecf32.Params{A: a.Lo, B: a.Hi}
		case *ir.AlphaBetaAttr:
			p = vecf32.Params{A: a.Alpha, B: a.Beta}
		}
		return l.result(&unaryF{fn: fn, p: p}, x)
	}
}

func (l *lowering) lut() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	if !l.g.IsConst(l.op.In[1]) {
		return errors.New("its table is not constant")
	}
	table, err := bytesOf(l.g.Value(l.op.In[1]).Const)
	if err != nil {
		return err
	}
	k := &lookup{}
	copy(k.table[:], table)
	return l.result(k, x)
}

func (l *lowering) requantize() error {
	if l.inType(0).DType == ir.I32 {
		return l.productResult()
	}
	x, err := l.in(0)
	if err != nil {
		return err
	}
	cx, cy, err := l.codes8()
	if err != nil {
		return err
	}
	m, err := fixed.NewMultiplier(cx.scale / cy.scale)
	if err != nil {
		return err
	}
	k := &lookup{}
	for q := range k.table {
		v := int64(fixed.Requantise(int32(q)-cx.zero, m)) + int64(cy.zero)
		k.table[q] = byte(min(max(v, int64(cy.lo)), int64(cy.hi)))
	}
	return l.result(k, x)
}

func (l *lowering) quantize() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	if l.outType().DType.Bits() > 8 {
		return l.wideCodes(isa.OpQuantW, l.outType())
	}
	c, err := code8Of(l.outType(), nil)
	if err != nil {
		return err
	}
	return l.result(&convert{op: isa.OpQuant, scale: l.outType().Quant.Scale[0], zero: int64(c.zero)}, x)
}

func (l *lowering) dequantize() error {
	if l.inType(0).DType == ir.I32 && l.isSums(l.op.In[0]) {
		return l.productResult()
	}
	if l.inType(0).DType.Bits() > 8 {
		return l.wideCodes(isa.OpDequantW, l.inType(0))
	}
	x, err := l.in(0)
	if err != nil {
		return err
	}
	c, err := code8Of(l.inType(0), nil)
	if err != nil {
		return err
	}
	return l.result(&convert{op: isa.OpDequant, scale: l.inType(0).Quant.Scale[0], zero: int64(c.zero)}, x)
}

func (l *lowering) softmax() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	rank := len(l.outType().Shape)
	if !isF32(l.outType()) {
		cx, cy, err := l.codes8()
		if err != nil {
			return err
		}
		p, err := fixed.NewSoftmax(cx.scale, cy.scale, cy.zero, cy.lo, cy.hi)
		if err != nil {
			return err
		}
		return l.result(&softmax{p: p, n: x.dims[3]}, x)
	}
	k := &alongF{log: l.op.Kind == ir.LogSoftmax}
	switch a := l.op.Attr.(type) {
	case *ir.AxisAttr:
		k.axis = a.Axis
	case *ir.LRNAttr:
		k.axis, k.lrn, k.size, k.alpha, k.beta, k.bias = a.Axis, true, a.Size, a.Alpha, a.Beta, a.Bias
	}
	k.axis += 4 - rank
	if k.axis < 0 || rank > 4 && k.axis == 0 {
		return errors.New("works along one of the leading dimensions of more than four")
	}
	k.in = x.dims
	if k.axis == 3 {
		return l.result(k, x)
	}
	if err := l.result(k, l.densely(x)); err != nil {
		return err
	}
	l.vals[l.op.Out].store.whole = true
	return nil
}

// meanMultipliers returns the constants of a mean: for each divisor the
// multiplier of sx/(sy·divisor), multipliers first.
func meanMultipliers(sx, sy float64, divisors []int) ([]byte, error) {
	var ms, shifts []int32
	for _, d := range divisors {
		m, err := fixed.NewMultiplier(sx / (sy * float64(d)))
		if err != nil {
			return nil, err
		}
		ms, shifts = append(ms, m.M), append(shifts, int32(m.Shift))
	}
	return int32s(int32s(nil, ms...), shifts...), nil
}

func (l *lowering) pooling() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	a := l.op.Attr.(*ir.PoolAttr)
	w := window{kernel: a.Kernel, stride: a.Strides, dilation: a.Dilations, pad: [2]int{a.Pads[0], a.Pads[1]}, in: x.dims}
	if t := l.outType(); isF32(t) {
		k := &maxPoolF{window: w}
		if l.op.Kind != ir.MaxPool || !k.fits(t.Shape) {
			return errors.New("pools float32, for which a PIM chip has no instruction")
		}
		return l.result(k, x)
	}
	if x.elem != 1 || isPlain(l.outType()) {
		return fmt.Errorf("pools %s, for which a PIM chip has no instruction", l.outType().DType)
	}
	k := &pool{window: w}
	if l.op.Kind == ir.MaxPool {
		return l.result(k, x)
	}
	n := a.Kernel[0] * a.Kernel[1]
	divisors := make([]int, n)
	for i := range divisors {
		divisors[i] = i + 1
	}
	if a.CountPad {
		k.counted = [4]int{a.Pads[0], a.Pads[1], a.Pads[2] - a.CeilPads[0], a.Pads[3] - a.CeilPads[1]}
	}
	return l.mean(k, divisors, 1, x)
}

// mean completes a mean over windows and appends it.
func (l *lowering) mean(k *pool, divisors []int, perCount int64, x *tensor) error {
	cx, cy, err := l.codes8()
	if err != nil {
		return err
	}
	k.mean, k.perCount, k.zx, k.zy = true, perCount, int64(cx.zero), int64(cy.zero)
	if k.mults, err = meanMultipliers(cx.scale, cy.scale, divisors); err != nil {
		return err
	}
	return l.result(k, x)
}

// reduction lowers a reduction to a pool over the reduced dimensions, which are
// first brought side by side, or to its float32 form.
func (l *lowering) reduction() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	shape, axes := l.inType(0).Shape, l.op.Attr.(*ir.ReduceAttr).Axes
	outer, n, inner := 1, 1, 1
	side := len(axes) > 0 && axes[len(axes)-1]-axes[0] == len(axes)-1
	for i, d := range shape {
		switch {
		case slices.Contains(axes, i):
			n *= d
		case len(axes) > 0 && i < axes[0]:
			outer *= d
		default:
			inner *= d
		}
	}
	if !side && n > 1 && len(axes) > 0 {
		return l.reductionApart(x, shape, axes)
	}
	if isPlain(l.outType()) {
		return l.reduceIntegers(x, outer, n, inner)
	}
	if isF32(l.outType()) {
		if err := l.result(&reduceF{fn: vecf32.RedOp(l.op.Kind-ir.ReduceSum) + vecf32.ReduceSum, in: x.dims, outer: outer, n: n, inner: inner}, l.densely(x)); err != nil {
			return err
		}
		l.vals[l.op.Out].store.whole = true
		return nil
	}
	images := len(shape) == 4 && slices.Equal(axes, []int{1, 2})
	if images {
		k := &pool{window: window{kernel: [2]int{shape[1], shape[2]}, stride: [2]int{1, 1}, dilation: [2]int{1, 1}, in: x.dims}}
		return l.pooled(k, n, x, dims{shape[0], 1, 1, shape[3]})
	}
	v := l.view4(x, dims{1, outer, n, inner})
	k := &pool{window: window{kernel: [2]int{1, n}, stride: [2]int{1, 1}, dilation: [2]int{1, 1}, in: v.dims}}
	return l.pooled(k, n, v, dims{1, outer, 1, inner})
}

// reductionApart reduces dimensions that do not lie side by side: a transpose
// brings them to the end first.
func (l *lowering) reductionApart(x *tensor, shape, axes []int) error {
	if len(shape) > 4 {
		return errors.New("reduces dimensions that do not lie side by side, of more than four")
	}
	var perm [4]int
	at := 0
	off := 4 - len(shape)
	place := func(reduced bool) {
		for i := range 4 {
			if (i >= off && slices.Contains(axes, i-off)) == reduced {
				perm[at] = i
				at++
			}
		}
	}
	place(false)
	place(true)
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	t := l.transposed(x, perm)
	outer := int(x.dims.numel()) / n
	if isPlain(l.outType()) {
		return l.reduceIntegers(t, outer, n, 1)
	}
	if isF32(l.outType()) {
		if err := l.result(&reduceF{fn: vecf32.RedOp(l.op.Kind-ir.ReduceSum) + vecf32.ReduceSum, in: t.dims, outer: outer, n: n, inner: 1}, l.densely(t)); err != nil {
			return err
		}
		l.vals[l.op.Out].store.whole = true
		return nil
	}
	v := l.view4(t, dims{1, outer, n, 1})
	k := &pool{window: window{kernel: [2]int{1, n}, stride: [2]int{1, 1}, dilation: [2]int{1, 1}, in: v.dims}}
	return l.pooled(k, n, v, dims{1, outer, 1, 1})
}

// pooled appends the pool that computes the reduction at hand of n elements;
// got are the dimensions of its result before they become those of the operator.
func (l *lowering) pooled(k *pool, n int, x *tensor, got dims) error {
	if x.elem != 1 {
		return fmt.Errorf("reduces codes of %s, for which a PIM chip has no instruction", l.outType().DType)
	}
	var err error
	switch l.op.Kind {
	case ir.ReduceMean:
		err = l.mean(k, []int{n}, 0, x)
	case ir.ReduceSum:
		err = l.mean(k, []int{1}, 0, x)
	case ir.ReduceMax:
		err = l.result(k, x)
	case ir.ReduceMin:
		// min x = ¬max ¬x on unsigned codes.
		flip := &lookup{}
		for i := range flip.table {
			flip.table[i] = byte(255 - i)
		}
		inverted := &tensor{name: x.name, dims: x.dims, elem: 1}
		l.ownStore(inverted)
		l.add(flip, inverted, x)
		if err = l.result(k, inverted); err != nil {
			return err
		}
		y := l.vals[l.op.Out]
		y.dims, y.store.dims = got, got
		back := &tensor{name: y.name, dims: got, elem: 1, zero: y.zero}
		l.ownStore(back)
		l.add(flip, back, y)
		l.vals[l.op.Out] = back
	}
	if err != nil {
		return err
	}
	y := l.vals[l.op.Out]
	y.dims, y.store.dims = got, got
	if want := dimsOf(l.outType().Shape); want != got {
		l.vals[l.op.Out] = l.view4(y, want)
	}
	return nil
}
