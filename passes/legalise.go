package passes

import (
	"slices"

	"situ/internal/fixed"
	"situ/ir"
)

// legalise gives operators on codes the form that hardware likes best, changing
// no result:
//
//   - weights whose differences from their zero point fit int8 (int4) are stored as
//     those differences, with zero point 0;
//   - a table or requantisation after another becomes one table, and a table
//     that only clamps becomes the activation of the operator before it;
//   - normalisations and sums of products in float32 are spelt out;
//   - movements of dequantized values move the codes instead, a quarter of the
//     bytes;
//   - what is left of float32 constants is folded.
func legalise(g *ir.Graph, s *State) (*ir.Graph, error) {
	g, err := foldConstants(g, func(ir.OpKind) bool { return true })
	if err != nil {
		return nil, err
	}
	for {
		l := &legaliser{uses: g.Uses()}
		if g, err = rewrite(g, l.op); err != nil {
			return nil, err
		}
		if !l.changed {
			break
		}
	}
	return tidy(g, s)
}

type legaliser struct {
	uses    []int // of the old graph
	changed bool
}

func (l *legaliser) op(r *rewriter, op *ir.Op, in []ir.ValueID) (out ir.ValueID, err error) {
	switch op.Kind {
	case ir.Conv2D, ir.MatMul:
		out, err = signedWeights(r, op, in)
	case ir.LUT, ir.Requantize:
		out, err = l.table(r, op, in)
	case ir.LayerNorm:
		out = ir.NoValue
		if r.g.Type(in[0]).DType == ir.F32 {
			out, err = spellOut(r, op, in)
		}
	case ir.MulAdd:
		out = ir.NoValue
		if r.g.Type(in[0]).DType == ir.F32 {
			out, err = spellOutMulAdd(r, op, in)
		}
	case ir.Reshape, ir.Transpose, ir.Slice, ir.Gather:
		out = ir.NoValue
		if dq := r.producer(in[0], ir.Dequantize); dq != nil && l.uses[op.In[0]] == 1 {
			operands := slices.Clone(in)
			operands[0] = dq.In[0]
			// An error means that scales along an axis do not survive.
			if moved, failed := r.g.Add(op.Kind, op.Name, op.Attr, operands...); failed == nil {
				out, err = r.g.Add(ir.Dequantize, dq.Name, nil, moved)
			}
		}
	default:
		out = ir.NoValue
	}
	l.changed = l.changed || err == nil && out != ir.NoValue
	return out, err
}

// signedWeights stores constant weights signed: as int8 (int4) differences from
// their zero points where these fit, otherwise with 128 taken from codes and
// zero point alike.
func signedWeights(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	v := r.g.Value(in[1])
	q := v.Type.Quant
	if v.Const == nil || q == nil || v.Type.DType.Bits() > 8 {
		return ir.NoValue, nil
	}
	signed := v.Type.DType == ir.I8 || v.Type.DType == ir.I4
	if signed && !slices.ContainsFunc(q.Zero, func(z int32) bool { return z != 0 }) {
		return ir.NoValue, nil
	}
	less := slices.Clone(q.Zero)
	codes, ok := shiftedWeights(v, less)
	if !ok && v.Type.DType == ir.U8 {
		for c := range less {
			less[c] = 128
		}
		codes, ok = shiftedWeights(v, less)
	}
	if !ok {
		return ir.NoValue, nil
	}
	zero := make([]int32, len(less))
	for c, z := range q.Zero {
		zero[c] = z - less[c]
	}
	operands := slices.Clone(in)
	operands[1] = r.g.AddConst(v.Name, codes, &ir.Quant{Axis: q.Axis, Scale: q.Scale, Zero: zero})
	return r.g.AddTyped(op.Kind, op.Name, op.Attr, r.old.Type(op.Out), operands...)
}

// shiftedWeights subtracts less, one entry or one a channel, from weights, and
// reports whether the differences fit the signed type of the same width.
func shiftedWeights(v *ir.Value, less []int32) (*ir.Tensor, bool) {
	d := ir.I8
	if v.Type.DType.Bits() == 4 {
		d = ir.I4
	}
	least, most := d.IntRange()
	inner, n := 1, 1
	if q := v.Type.Quant; !q.IsPerTensor() {
		inner, n = ir.Numel(v.Type.Shape[q.Axis+1:]), v.Type.Shape[q.Axis]
	}
	codes := integers(v.Const)
	signed := make([]int8, len(codes))
	for i, c := range codes {
		diff := c - less[i/inner%n]
		if int64(diff) < least || int64(diff) > most {
			return nil, false
		}
		signed[i] = int8(diff)
	}
	return ir.NewTensor(d, v.Const.Shape, signed), true
}

// table merges a table or a requantisation with what made its operand.
func (l *legaliser) table(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	x, t := in[0], r.old.Type(op.Out)
	if xt := r.g.Type(x); !isCode8(xt) || !isCode8(t) {
		return ir.NoValue, nil
	}
	second, err := tableOf(r.g, op, in, t)
	if err != nil {
		return ir.NoValue, err
	}
	p := r.g.DefOp(x)
	if p == nil {
		return ir.NoValue, nil
	}
	switch p.Kind {
	case ir.LUT, ir.Requantize:
		xt := r.g.Type(p.In[0])
		if !isCode8(xt) {
			break
		}
		first, err := tableOf(r.g, p, p.In, r.g.Type(x))
		if err != nil {
			return ir.NoValue, err
		}
		lo, _ := r.g.Type(x).DType.IntRange()
		codes := make([]int32, 256)
		for i, c := range first {
			codes[i] = second[c-int32(lo)]
		}
		return lookup(r, op.Name, p.In[0], codes, t)
	case ir.Conv2D, ir.MatMul, ir.Add, ir.Sub, ir.Mul:
		if l.uses[op.In[0]] != 1 || !r.g.Type(x).WithQuant(nil).Equal(t.WithQuant(nil)) || !t.Quant.Equal(r.g.Type(x).Quant) {
			break
		}
		act, ok := clampOf(second, t)
		if !ok {
			break
		}
		if before := actOf(p.Attr); before != nil {
			act = clampTwice(*before, act)
		}
		return r.g.AddTyped(p.Kind, p.Name, withAct(p.Attr, &act), t, p.In...)
	}
	return ir.NoValue, nil
}

// tableOf returns the 256 results of a lut or of a requantize of 8-bit codes.
func tableOf(g *ir.Graph, op *ir.Op, in []ir.ValueID, t ir.Type) ([]int32, error) {
	if op.Kind == ir.LUT {
		return integers(g.Value(in[1]).Const), nil
	}
	return requantTable(g.Type(in[0]), t)
}

func lookup(r *rewriter, name string, x ir.ValueID, codes []int32, t ir.Type) (ir.ValueID, error) {
	var table *ir.Tensor
	if t.DType == ir.U8 {
		table = ir.NewTensor(ir.U8, []int{256}, narrow[uint8](codes))
	} else {
		table = ir.NewTensor(ir.I8, []int{256}, narrow[int8](codes))
	}
	return r.g.AddTyped(ir.LUT, name, nil, t, x, r.g.AddConst(name+"/table", table, t.Quant))
}

func narrow[T int8 | uint8](s []int32) []T {
	out := make([]T, len(s))
	for i, v := range s {
		out[i] = T(v)
	}
	return out
}

// clampOf returns the activation that a table on codes of one type amounts to:
// the codes themselves, clamped.
func clampOf(table []int32, t ir.Type) (ir.Act, bool) {
	lo, hi := table[0], table[len(table)-1]
	first, _ := t.DType.IntRange()
	for i, c := range table {
		if c != min(max(int32(i)+int32(first), lo), hi) {
			return ir.Act{}, false
		}
	}
	act := ir.Act{Lo: -inf, Hi: inf}
	least, most := t.DType.IntRange()
	if int64(lo) > least {
		act.Lo = float32(realOf(int64(lo), t))
	}
	if int64(hi) < most {
		act.Hi = float32(realOf(int64(hi), t))
	}
	// The clamp is stated in real numbers: it must round back to the codes.
	ok := (act.Lo == -inf || codeOf(float64(act.Lo), t) == int64(lo)) && (act.Hi == inf || codeOf(float64(act.Hi), t) == int64(hi))
	return act, ok
}

// requantTable tabulates requantize from one 8-bit type to another.
func requantTable(from, to ir.Type) ([]int32, error) {
	m, err := fixed.NewMultiplier(float64(from.Quant.Scale[0]) / float64(to.Quant.Scale[0]))
	if err != nil {
		return nil, err
	}
	lo, hi := to.DType.IntRange()
	first, _ := from.DType.IntRange()
	codes := make([]int32, 256)
	for i := range codes {
		c := int64(fixed.Requantise(int32(i)+int32(first)-from.Quant.Zero[0], m)) + int64(to.Quant.Zero[0])
		codes[i] = int32(min(max(c, lo), hi))
	}
	return codes, nil
}
