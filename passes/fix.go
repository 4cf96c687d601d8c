package passes

import (
	"math"
	"slices"

	"situ/internal/fixed"
	"situ/ir"
)

// fix turns "dequantize, operator, quantize" into the operator on codes. The
// scales are those of the pairs, whoever wrote them: the model's author or the
// pass quantise.
//
// The new graph is built from its outputs on demand. A quantize asks quantised
// for its operand as codes; that function looks at the operator behind it and
// asks in turn for its operands' codes. Where there is no fixed-point form the
// operator stays in float32, its operands dequantized. Nothing is written that
// nobody asks for, so a value may exist as codes, as float32, or both.
func fix(g *ir.Graph, s *State) (*ir.Graph, error) {
	if !slices.ContainsFunc(g.Ops, func(op ir.Op) bool { return op.Kind == ir.Quantize || op.Kind == ir.Dequantize }) {
		return g, nil
	}
	f := &fixer{rewriter: newRewriter(g), state: s, asCodes: map[codesKey]ir.ValueID{}, origin: origins(g), exact: exactValues(g)}
	for _, out := range g.Outputs {
		if _, err := f.value(out); err != nil {
			return nil, err
		}
	}
	return f.finish(), nil
}

type fixer struct {
	*rewriter
	state   *State
	asCodes map[codesKey]ir.ValueID // what quantised returned
	origin  []ir.ValueID            // by old id
	exact   []bool                  // by old id: wanted in float32 at any rate, see parts.go
}

// codesKey is a float32 value of the old graph and the quantisation asked for.
type codesKey struct {
	id    ir.ValueID
	dtype ir.DType
	quant string
}

// value returns an old value as it is: codes as codes, float32 as float32.
func (f *fixer) value(old ir.ValueID) (ir.ValueID, error) {
	if old == ir.NoValue || f.Has(old) {
		return f.Map(old), nil
	}
	id, err := f.write(f.old.DefOp(old))
	if err != nil {
		return ir.NoValue, err
	}
	f.Set(old, id)
	return id, nil
}

func (f *fixer) values(old []ir.ValueID) ([]ir.ValueID, error) {
	in := make([]ir.ValueID, len(old))
	for i, id := range old {
		var err error
		if in[i], err = f.value(id); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// write adds an operator of the old graph with the result type it has.
func (f *fixer) write(op *ir.Op) (ir.ValueID, error) {
	t := f.old.Type(op.Out)
	switch {
	case op.Kind == ir.Quantize && isCode8(t):
		id, err := f.quantised(op.In[0], t)
		if err != nil {
			return id, err
		}
		if id != ir.NoValue {
			if v := f.g.Value(id); v.Def >= 0 {
				v.Name = f.old.Value(op.Out).Name
			}
			return id, nil
		}
	case op.Kind == ir.Dequantize || t.DType != ir.F32:
	case op.Kind == ir.Conv2D || op.Kind == ir.MatMul || op.Kind == ir.Mul || op.Kind == ir.Add:
		id, err := f.dequantizedProduct(op)
		if err != nil || id != ir.NoValue {
			return id, err
		}
	default:
		id, err := f.codes(op.Out)
		if err != nil {
			return id, err
		}
		if id != ir.NoValue {
			return f.g.Add(ir.Dequantize, op.Name, nil, id)
		}
	}
	in, err := f.values(op.In)
	if err != nil {
		return ir.NoValue, err
	}
	return f.g.AddTyped(op.Kind, op.Name, op.Attr, t, in...)
}

// isCode8 reports whether t holds 8-bit codes with a single scale.
func isCode8(t ir.Type) bool {
	return t.IsQuantised() && t.DType.Bits() == 8 && t.Quant.IsPerTensor()
}

// codes returns codes of a float32 value that stand for exactly that value:
// those it was dequantized from, moved as the value was. NoValue when there are
// none of 8 bits with a single scale.
func (f *fixer) codes(old ir.ValueID) (ir.ValueID, error) {
	op := f.old.DefOp(old)
	if op == nil {
		return ir.NoValue, nil
	}
	if op.Kind == ir.Dequantize {
		if !isCode8(f.old.Type(op.In[0])) {
			return ir.NoValue, nil
		}
		return f.value(op.In[0])
	}
	if !op.Kind.Is(ir.MovesCodes) {
		return ir.NoValue, nil
	}
	in := slices.Clone(op.In)
	for i, id := range in {
		if i > 0 && op.Kind == ir.Gather {
			continue
		}
		c, err := f.codes(id)
		if err != nil || c == ir.NoValue {
			return ir.NoValue, err
		}
		in[i] = c
		if first, t := f.g.Type(in[0]), f.g.Type(c); t.DType != first.DType || !t.Quant.Equal(first.Quant) {
			return ir.NoValue, nil
		}
	}
	if a, ok := op.Attr.(*ir.PadAttr); ok && a.Mode == ir.PadConstant {
		if t := f.g.Type(in[0]); realOf(codeOf(a.Value, t), t) != a.Value {
			return ir.NoValue, nil
		}
	}
	return f.move(op, in)
}

// move repeats a movement of the old graph on codes.
func (f *fixer) move(op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	if op.Kind == ir.Gather {
		var err error
		if in[1], err = f.value(op.In[1]); err != nil {
			return ir.NoValue, err
		}
	}
	key := codesKey{op.Out, f.g.Type(in[0]).DType, f.g.Type(in[0]).Quant.String()}
	if id, ok := f.asCodes[key]; ok {
		return id, nil
	}
	id, err := f.g.Add(op.Kind, op.Name, op.Attr, in...)
	if err == nil {
		f.asCodes[key] = id
	}
	return id, err
}

// codeOf returns the code of a real number: round to even, saturate.
func codeOf(v float64, t ir.Type) int64 {
	lo, hi := t.DType.IntRange()
	c := math.RoundToEven(v/float64(t.Quant.Scale[0])) + float64(t.Quant.Zero[0])
	return int64(min(max(c, float64(lo)), float64(hi)))
}

// realOf returns the number that a code stands for.
func realOf(code int64, t ir.Type) float64 {
	return float64(code-int64(t.Quant.Zero[0])) * float64(t.Quant.Scale[0])
}

// quantised returns a float32 value of the old graph as codes of the element
// type and quantisation of t (8 bits, a single scale). NoValue when that has no
// fixed-point form.
func (f *fixer) quantised(old ir.ValueID, t ir.Type) (ir.ValueID, error) {
	t.Shape = f.old.Type(old).Shape
	key := codesKey{old, t.DType, t.Quant.String()}
	if id, ok := f.asCodes[key]; ok {
		return id, nil
	}
	id, err := f.lower(old, t)
	if err != nil {
		return ir.NoValue, err
	}
	f.asCodes[key] = id
	return id, nil
}

func (f *fixer) lower(old ir.ValueID, t ir.Type) (ir.ValueID, error) {
	op := f.old.DefOp(old)
	if op == nil || f.exact[old] {
		return ir.NoValue, nil
	}
	if same, err := f.codes(old); err != nil || same != ir.NoValue && f.g.Type(same).Equal(t) {
		return same, err
	}
	switch {
	case op.Kind == ir.Dequantize:
		return f.requantised(op, t)
	case op.Kind.Is(ir.MovesCodes):
		return f.movedCodes(op, t)
	case op.Kind == ir.Where:
		return f.choice(op, t)
	}
	if id, err := f.table(old, t); err != nil || id != ir.NoValue {
		return id, err
	}
	u, act := f.activated(op)
	switch u.Kind {
	case ir.Conv2D, ir.MatMul, ir.Mul, ir.Add:
		p, err := f.product(u)
		if err != nil {
			return ir.NoValue, err
		}
		if p != nil && p.fits(t) {
			return p.write(f, withAct(p.attr, act), t)
		}
	}
	switch u.Kind {
	case ir.Add, ir.Sub, ir.Mul:
		return f.onCodes(u, &ir.BinaryAttr{Act: act}, t)
	case ir.LayerNorm:
		if act == nil {
			return f.normalised(u, t)
		}
	case ir.MulAdd:
		if act == nil {
			return f.mulAdd(u, t)
		}
	case ir.AvgPool, ir.ReduceMean, ir.ReduceSum, ir.Softmax:
		if act != nil || u.Kind == ir.Softmax && u.Attr.(*ir.AxisAttr).Axis != len(t.Shape)-1 {
			return ir.NoValue, nil
		}
		return f.onCodes(u, u.Attr, t)
	}
	return ir.NoValue, nil
}

// onCodes writes op on the exact codes of all its operands.
func (f *fixer) onCodes(op *ir.Op, attr ir.Attr, t ir.Type) (ir.ValueID, error) {
	in := make([]ir.ValueID, len(op.In))
	for i, id := range op.In {
		c, err := f.operand(id)
		if err != nil || c == ir.NoValue {
			return ir.NoValue, err
		}
		in[i] = c
	}
	if !f.scalable(op, in, t) {
		return ir.NoValue, nil
	}
	return f.g.AddTyped(op.Kind, op.Name, attr, t, in...)
}

// normalised writes a layer normalisation on exact codes.
func (f *fixer) normalised(op *ir.Op, t ir.Type) (ir.ValueID, error) {
	x, err := f.operand(op.In[0])
	if err != nil || x == ir.NoValue {
		return ir.NoValue, err
	}
	in := []ir.ValueID{x}
	var c [2][]float32
	for i, id := range op.In[1:] {
		if id != ir.NoValue {
			if c[i] = floats(f.old, id); c[i] == nil {
				return ir.NoValue, nil
			}
		}
		in = append(in, f.Map(id))
	}
	a, n := op.Attr.(*ir.NormAttr), t.Shape[len(t.Shape)-1]
	xs, ys := float64(f.g.Type(x).Quant.Scale[0]), float64(t.Quant.Scale[0])
	if _, err := fixed.NewNorm(n, a.RMS, float64(a.Epsilon), xs, ys, 0, 0, c[0], c[1], 0, 255); err != nil {
		return ir.NoValue, nil
	}
	return f.g.AddTyped(op.Kind, op.Name, a, t, in...)
}

// scalable reports whether the arithmetic of internal/fixed covers the scales of
// an element-wise operator, a reduction or a softmax.
func (f *fixer) scalable(op *ir.Op, in []ir.ValueID, t ir.Type) bool {
	scale := func(t ir.Type) float64 { return float64(t.Quant.Scale[0]) }
	a, y := scale(f.g.Type(in[0])), scale(t)
	var err error
	switch op.Kind {
	case ir.Add, ir.Sub:
		_, err = fixed.NewAdd(a, scale(f.g.Type(in[1])), y, 0, 0, 0, 0, 255)
	case ir.Mul:
		_, err = fixed.NewMultiplier(a * scale(f.g.Type(in[1])) / y)
	case ir.Softmax:
		_, err = fixed.NewSoftmax(a, y, 0, 0, 255)
	default:
		_, err = fixed.NewMultiplier(a / y)
	}
	return err == nil
}

// operand returns exact codes of a float32 value, or those of a clamp from 0 of
// such a value, which are exact as well.
func (f *fixer) operand(old ir.ValueID) (ir.ValueID, error) {
	c, err := f.codes(old)
	if err != nil || c != ir.NoValue {
		return c, err
	}
	if op := f.old.DefOp(old); op != nil && op.Kind == ir.Relu {
		if c, err = f.codes(op.In[0]); err != nil || c != ir.NoValue {
			if err != nil {
				return c, err
			}
			return f.quantised(old, f.g.Type(c))
		}
	}
	return ir.NoValue, nil
}

// requantised changes the quantisation of what a dequantize takes.
func (f *fixer) requantised(dq *ir.Op, t ir.Type) (ir.ValueID, error) {
	src := f.old.Type(dq.In[0])
	if f.old.IsConst(dq.In[0]) || !src.Quant.IsPerTensor() || src.DType.Bits() > 8 {
		return ir.NoValue, nil
	}
	x, err := f.value(dq.In[0])
	if err != nil {
		return x, err
	}
	return f.g.AddTyped(ir.Requantize, dq.Name, nil, t, x)
}

// movedCodes quantises before a movement instead of after it: the same codes,
// as quantisation is monotonic and works element by element.
func (f *fixer) movedCodes(op *ir.Op, t ir.Type) (ir.ValueID, error) {
	in := slices.Clone(op.In)
	for i, id := range in {
		if i > 0 && op.Kind == ir.Gather {
			continue
		}
		c, err := f.madeCodes(op, id, t)
		if err != nil {
			return c, err
		}
		in[i] = c
	}
	return f.move(op, in)
}

// madeCodes returns a float32 value as codes of t: as quantised does, or by a
// quantize for op.
func (f *fixer) madeCodes(op *ir.Op, id ir.ValueID, t ir.Type) (ir.ValueID, error) {
	c, err := f.quantised(id, t)
	if err != nil || c != ir.NoValue {
		return c, err
	}
	x, err := f.value(id)
	if err != nil {
		return x, err
	}
	t.Shape = f.old.Type(id).Shape
	return f.g.AddTyped(ir.Quantize, op.Name, nil, t, x)
}

// choice lets a where choose among codes: those of the chosen numbers, as
// quantisation works element by element.
func (f *fixer) choice(op *ir.Op, t ir.Type) (ir.ValueID, error) {
	cond, err := f.value(op.In[0])
	if err != nil {
		return cond, err
	}
	a, err := f.madeCodes(op, op.In[1], t)
	if err != nil {
		return a, err
	}
	b, err := f.madeCodes(op, op.In[2], t)
	if err != nil {
		return b, err
	}
	return f.g.Add(op.Kind, op.Name, nil, cond, a, b)
}

// activated follows relu and clip back to the operator that they clamp, and
// returns it with all clamps in one, its own included.
func (f *fixer) activated(op *ir.Op) (*ir.Op, *ir.Act) {
	var act *ir.Act
	for {
		var a *ir.Act
		switch op.Kind {
		case ir.Relu:
			a = &ir.Act{Lo: 0, Hi: inf}
		case ir.Clip:
			c := op.Attr.(*ir.ClipAttr)
			a = &ir.Act{Lo: c.Lo, Hi: c.Hi}
		default:
			a = actOf(op.Attr)
		}
		if a != nil {
			if act != nil {
				b := clampTwice(*a, *act)
				a = &b
			}
			act = a
		}
		if op.Kind != ir.Relu && op.Kind != ir.Clip {
			return op, act
		}
		x := f.old.DefOp(op.In[0])
		if x == nil {
			return op, act
		}
		op = x
	}
}
