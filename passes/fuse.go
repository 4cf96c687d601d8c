package passes

import (
	"slices"

	"situ/internal/par"
	"situ/ir"
)

// fuse moves into a product what follows or precedes it, when nothing else looks
// at the value between:
//
//   - first, relu and clip change places with a movement or maximum before them,
//     and so does arithmetic with constants with a reshape that only adds or drops
//     dimensions of 1: they then meet the product;
//   - a factor of scores moves to the queries, and through movements to the projection
//     that made them, whose weights then take it in;
//   - multiplication by a constant per channel (batch normalisation) goes into
//     the weights and the bias, addition of one into the bias;
//   - in float models a sum or difference of two products becomes one operator;
//   - relu and clip become the activation of the product, sum, or difference;
//   - zeros padded around an image become the padding of the convolution or of
//     an average that counts padding.
//
// In float models, a scale and shift per channel that follow no product become a
// depthwise 1×1 convolution: the same thing in fixed point, and one operator less.
func fuse(g *ir.Graph, _ *State) (*ir.Graph, error) {
	float := !slices.ContainsFunc(g.Ops, func(op ir.Op) bool { return op.Kind == ir.Dequantize })
	for {
		k := &sinker{uses: g.Uses(), float: float}
		sunk, err := rewrite(g, k.op)
		if err != nil {
			return nil, err
		}
		g = sunk
		if !k.changed {
			break
		}
	}
	f := &fuser{uses: g.Uses(), origin: origins(g), float: float}
	fused, err := rewrite(g, f.op)
	if err != nil {
		return nil, err
	}
	if !f.float {
		return fused, nil
	}
	a := &affiner{uses: fused.Uses()}
	affine, err := rewrite(fused, a.op)
	if err != nil || !a.found {
		return affine, err
	}
	f.uses, f.origin = affine.Uses(), origins(affine)
	return rewrite(affine, f.op)
}

// sinker moves movements behind the operators that could be fused but for them.
type sinker struct {
	uses    []int // of the old graph's values
	float   bool  // nothing is quantised yet
	changed bool
}

func (k *sinker) op(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	p := r.g.DefOp(op0(in))
	if p == nil || k.uses[op.In[0]] != 1 || r.g.Type(in[0]).DType != ir.F32 {
		return ir.NoValue, nil
	}
	x := p.In[0]
	operands := []ir.ValueID{x}
	if op.Kind == ir.Mul && p.Kind == ir.MatMul {
		return k.factor(r, op, in[1], p)
	}
	switch {
	case op.Kind == ir.Relu || op.Kind == ir.Clip:
		switch p.Kind {
		case ir.Reshape, ir.Transpose, ir.Slice, ir.Gather, ir.MaxPool:
		default:
			return ir.NoValue, nil
		}
	case k.isFactor(r.old, op) && (p.Kind == ir.Reshape || p.Kind == ir.Transpose) && k.scaled(r.old, op.In[0]):
		operands = append(operands, in[1])
	case (op.Kind == ir.Add || op.Kind == ir.Mul) && p.Kind == ir.Reshape:
		c := k.narrow(r, in[1], r.g.Type(in[0]).Shape, r.g.Type(x).Shape)
		if c == ir.NoValue || !slices.Equal(r.old.Type(op.Out).Shape, r.g.Type(in[0]).Shape) {
			return ir.NoValue, nil
		}
		operands = append(operands, c)
	default:
		return ir.NoValue, nil
	}
	k.changed = true
	y, err := r.g.AddTyped(op.Kind, op.Name, op.Attr, r.g.Type(x), operands...)
	if err != nil {
		return y, err
	}
	return r.g.Add(p.Kind, p.Name, p.Attr, append([]ir.ValueID{y}, p.In[1:]...)...)
}

// op0 returns the first operand, NoValue without operands.
func op0(in []ir.ValueID) ir.ValueID {
	if len(in) == 0 {
		return ir.NoValue
	}
	return in[0]
}

// narrow returns a constant that broadcasts against a reshaped value in the form
// that broadcasts against the value before, when the reshape does nothing but add
// or drop dimensions of 1. The constant varies along the last dimension alone.
func (k *sinker) narrow(r *rewriter, c ir.ValueID, after, before []int) ir.ValueID {
	if len(after) == 0 || len(before) == 0 || after[len(after)-1] != before[len(before)-1] {
		return ir.NoValue
	}
	if !slices.Equal(withoutOnes(after), withoutOnes(before)) {
		return ir.NoValue
	}
	n := after[len(after)-1]
	data := floats(r.g, c)
	if data == nil || len(data) != 1 && (len(data) != n || r.g.Type(c).Shape[len(r.g.Type(c).Shape)-1] != n) {
		return ir.NoValue
	}
	return vector(r.g, r.g.Value(c).Name, data)
}

func withoutOnes(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

type fuser struct {
	uses   []int        // of the old graph's values
	origin []ir.ValueID // the same
	float  bool
}

func (f *fuser) op(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	switch op.Kind {
	case ir.Mul, ir.Add:
		if f.uses[op.In[0]] == 1 {
			if out, err := intoProduct(r, op, in); err != nil || out != ir.NoValue {
				return out, err
			}
		}
		if op.Kind == ir.Add {
			return f.intoMulAdd(r, op, in)
		}
	case ir.Sub:
		return f.intoMulAdd(r, op, in)
	case ir.Relu:
		return f.activation(r, op, in[0], ir.Act{Lo: 0, Hi: inf})
	case ir.Clip:
		a := op.Attr.(*ir.ClipAttr)
		return f.activation(r, op, in[0], ir.Act{Lo: a.Lo, Hi: a.Hi})
	case ir.Conv2D:
		if pad := r.producer(in[0], ir.Pad); pad != nil && isZeroPad(r.g, pad) {
			a := *op.Attr.(*ir.ConvAttr)
			a.Pads = addPads(a.Pads, pad.Attr.(*ir.PadAttr))
			return r.g.AddTyped(ir.Conv2D, op.Name, &a, r.old.Type(op.Out), append([]ir.ValueID{pad.In[0]}, in[1:]...)...)
		}
	case ir.AvgPool:
		a := *op.Attr.(*ir.PoolAttr)
		pad := r.producer(in[0], ir.Pad)
		if pad != nil && isZeroPad(r.g, pad) && (a.CountPad || a.Pads == [4]int{}) && a.CeilPads == [2]int{} {
			a.Pads, a.CountPad = addPads(a.Pads, pad.Attr.(*ir.PadAttr)), true
			return r.g.AddTyped(ir.AvgPool, op.Name, &a, r.old.Type(op.Out), pad.In[0])
		}
	}
	return ir.NoValue, nil
}

// isZeroPad reports whether a pad writes zeros around images and crops nothing.
func isZeroPad(g *ir.Graph, pad *ir.Op) bool {
	a := pad.Attr.(*ir.PadAttr)
	if a.Mode != ir.PadConstant || a.Value != 0 || len(a.Begin) != 4 || g.Type(pad.In[0]).DType != ir.F32 {
		return false
	}
	for i := range 4 {
		if a.Begin[i] < 0 || a.End[i] < 0 || i%3 == 0 && a.Begin[i]+a.End[i] != 0 {
			return false
		}
	}
	return true
}

func addPads(p [4]int, a *ir.PadAttr) [4]int {
	return [4]int{p[0] + a.Begin[1], p[1] + a.Begin[2], p[2] + a.End[1], p[3] + a.End[2]}
}

// activation clamps inside the operator that made x.
func (f *fuser) activation(r *rewriter, op *ir.Op, x ir.ValueID, act ir.Act) (ir.ValueID, error) {
	p := r.g.DefOp(x)
	if p == nil || f.uses[op.In[0]] != 1 {
		return ir.NoValue, nil
	}
	switch p.Kind {
	case ir.Conv2D, ir.MatMul, ir.Add, ir.Sub, ir.Mul:
	default:
		return ir.NoValue, nil
	}
	if before := actOf(p.Attr); before != nil {
		act = clampTwice(*before, act)
	}
	return r.g.AddTyped(p.Kind, p.Name, withAct(p.Attr, &act), r.g.Type(x), p.In...)
}

// intoProduct puts a scale or shift per channel into the product that made the
// first operand.
func intoProduct(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	p := r.g.DefOp(in[0])
	if p == nil || p.Kind != ir.Conv2D && p.Kind != ir.MatMul || actOf(p.Attr) != nil {
		return ir.NoValue, nil
	}
	t := r.g.Type(in[0])
	rank := len(t.Shape)
	n := t.Shape[rank-1]
	c, ok := perChannel(r.g, in[1], rank, n)
	if !ok || t.DType != ir.F32 || !slices.Equal(t.Shape, r.old.Type(op.Out).Shape) {
		return ir.NoValue, nil
	}
	bias := make([]float32, n)
	hasBias := len(p.In) > 2 && p.In[2] != ir.NoValue
	if hasBias {
		b := floats(r.g, p.In[2])
		if b == nil {
			return ir.NoValue, nil
		}
		copy(bias, b)
	}
	w := p.In[1]
	if op.Kind == ir.Add {
		hasBias = true
		for i := range bias {
			bias[i] += c[i]
		}
	} else {
		data := floats(r.g, w)
		if data == nil {
			return ir.NoValue, nil
		}
		for i := range bias {
			bias[i] *= c[i]
		}
		v := r.g.Value(w)
		scaled := make([]float32, len(data))
		if p.Kind == ir.Conv2D { // OHWI: channels are first
			k := len(data) / n
			par.Ranges(n, k, func(from, to int) {
				for o := from; o < to; o++ {
					for i, x := range data[o*k : (o+1)*k] {
						scaled[o*k+i] = x * c[o]
					}
				}
			})
		} else { // […,K,N]: channels are last
			for i, x := range data {
				scaled[i] = x * c[i%n]
			}
		}
		w = r.g.AddConst(v.Name, ir.NewTensor(ir.F32, v.Const.Shape, scaled), nil)
	}
	operands := []ir.ValueID{p.In[0], w}
	if hasBias {
		operands = append(operands, vector(r.g, op.Name+"/bias", bias))
	}
	return r.g.AddTyped(p.Kind, p.Name, withAct(p.Attr, actOf(op.Attr)), t, operands...)
}

// affiner makes depthwise 1×1 convolutions of scales and shifts per channel.
type affiner struct {
	uses  []int // of the old graph's values
	found bool
}

func (a *affiner) op(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	if op.Kind != ir.Mul && op.Kind != ir.Add {
		return ir.NoValue, nil
	}
	t := r.old.Type(op.Out)
	if len(t.Shape) != 4 || t.DType != ir.F32 || !slices.Equal(r.g.Type(in[0]).Shape, t.Shape) {
		return ir.NoValue, nil
	}
	n := t.Shape[3]
	c, ok := perChannel(r.g, in[1], 4, n)
	if !ok || len(floats(r.g, in[1])) == 1 {
		return ir.NoValue, nil
	}
	if a.uses[op.In[0]] == 1 { // the shift of a scale that has just become a convolution
		if out, err := intoProduct(r, op, in); err != nil || out != ir.NoValue {
			return out, err
		}
	}
	a.found = true
	scale := slices.Repeat([]float32{1}, n)
	operands := []ir.ValueID{in[0], ir.NoValue}
	if op.Kind == ir.Mul {
		scale = c
	} else {
		operands = append(operands, vector(r.g, op.Name+"/bias", c))
	}
	operands[1] = r.g.AddConst(op.Name+"/scale", ir.NewTensor(ir.F32, []int{n, 1, 1, 1}, scale), nil)
	attr := &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Groups: n, Act: actOf(op.Attr)}
	return r.g.AddTyped(ir.Conv2D, op.Name, attr, t, operands...)
}
