package passes

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"situ/ir"
)

// canonicalise gives each thing one spelling, so that later passes have fewer
// forms to look for:
//
//   - identities vanish; chains of reshapes, of transposes and of
//     reinterpretations become one;
//   - subtraction and division by a constant become addition and multiplication,
//     a maximum or minimum with a scalar becomes clip, clip from 0 becomes relu;
//   - a movement of a dequantized constant moves the constant instead;
//   - a product with constant weights has them second;
//   - an average over the whole image becomes reducemean;
//   - equal operators on equal operands, and small equal constants, become one.
func canonicalise(g *ir.Graph, _ *State) (*ir.Graph, error) {
	return newCanoniser().run(g)
}

// tidy is canonicalise for graphs that have been through layout: transposes that
// move no data, which layout wants to see, become reshapes.
func tidy(g *ir.Graph, _ *State) (*ir.Graph, error) {
	c := newCanoniser()
	c.reshapes = true
	return c.run(g)
}

func newCanoniser() *canoniser {
	return &canoniser{consts: map[string]ir.ValueID{}, ops: map[string]ir.ValueID{}}
}

func (c *canoniser) run(g *ir.Graph) (*ir.Graph, error) { return rewrite(g, c.op) }

// canoniser remembers the constants and operators of the new graph by content.
type canoniser struct {
	reshapes bool // transposes that move no data become reshapes
	consts   map[string]ir.ValueID
	ops      map[string]ir.ValueID
}

// dedupBytes bounds the constants that are compared: beyond it, equal ones are
// rare and hashing costs more than it saves.
const dedupBytes = 1 << 16

func (c *canoniser) op(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	for i, id := range in {
		if r.g.IsConst(id) {
			in[i] = c.constant(r, id)
			r.Set(op.In[i], in[i])
		}
	}
	out, err := c.simplify(r, op, in)
	if err != nil || out != ir.NoValue {
		return out, err
	}
	key := opKey(op, in, r.old.Type(op.Out))
	if same, ok := c.ops[key]; ok {
		return same, nil
	}
	out = r.Copy(op)
	c.ops[key] = out
	return out, nil
}

func (c *canoniser) constant(r *rewriter, id ir.ValueID) ir.ValueID {
	v := r.g.Value(id)
	if v.Type.Bytes() > dedupBytes || r.g.IsDescribed(id) {
		return id
	}
	h := sha256.New()
	fmt.Fprint(h, v.Type)
	binary.Write(h, binary.LittleEndian, v.Const.Any()) // a hash takes all it is given
	key := string(h.Sum(nil))
	if same, ok := c.consts[key]; ok {
		return same
	}
	c.consts[key] = id
	return id
}

// opKey is equal for operators that compute the same.
func opKey(op *ir.Op, in []ir.ValueID, t ir.Type) string {
	key := fmt.Sprintf("%v %v %v", op.Kind, in, t)
	if act := actOf(op.Attr); act != nil {
		return key + fmt.Sprintf("%+v %+v", withAct(op.Attr, nil), *act)
	}
	return key + fmt.Sprintf("%+v", op.Attr)
}

// simplify returns a simpler value for op, NoValue when there is none.
func (c *canoniser) simplify(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	t := r.old.Type(op.Out)
	switch op.Kind {
	case ir.Reshape, ir.Transpose, ir.Slice, ir.Expand, ir.Pad:
		return c.simplifyMovement(r, op, in[0])
	case ir.Concat:
		if len(in) == 1 {
			return in[0], nil
		}
	case ir.Cast, ir.Requantize:
		if r.g.Type(in[0]).Equal(t) {
			return in[0], nil
		}
	case ir.Reinterpret:
		x := in[0]
		if p := r.producer(x, ir.Reinterpret); p != nil {
			x = p.In[0]
		}
		if r.g.Type(x).Equal(t) {
			return x, nil
		}
		if x != in[0] {
			return r.g.AddTyped(ir.Reinterpret, op.Name, nil, t, x)
		}
	case ir.Sub:
		if data := floats(r.g, in[1]); data != nil {
			c := mapConst(r, in[1], func(x float32) float32 { return -x })
			return r.g.AddTyped(ir.Add, op.Name, op.Attr, t, in[0], c)
		}
	case ir.Div:
		if data := floats(r.g, in[1]); data != nil && !slices.ContainsFunc(data, unfitDivisor) {
			c := mapConst(r, in[1], func(x float32) float32 { return 1 / x })
			return r.g.AddTyped(ir.Mul, op.Name, nil, t, in[0], c)
		}
	case ir.Add, ir.Mul:
		return simplifySum(r, op, in)
	case ir.Max, ir.Min:
		x, s := in[0], in[1]
		c, ok := scalarOf(r.g, s)
		if !ok {
			x, s = s, x
			c, ok = scalarOf(r.g, s)
		}
		if ok && c == c && slices.Equal(r.g.Type(x).Shape, t.Shape) {
			a := ir.Act{Lo: c, Hi: inf}
			if op.Kind == ir.Min {
				a = ir.Act{Lo: -inf, Hi: c}
			}
			return clip(r, op.Name, x, a)
		}
	case ir.Clip:
		a := op.Attr.(*ir.ClipAttr)
		return clip(r, op.Name, in[0], ir.Act{Lo: a.Lo, Hi: a.Hi})
	case ir.MatMul:
		if y, err := sharedHeads(r, op, in); y != ir.NoValue || err != nil {
			return y, err
		}
		return constantFirst(r, op, in)
	case ir.AvgPool:
		a, x := op.Attr.(*ir.PoolAttr), r.g.Type(in[0]).Shape
		if a.Pads == [4]int{} && a.Dilations == [2]int{1, 1} && a.Kernel == [2]int{x[1], x[2]} {
			return r.g.AddTyped(ir.ReduceMean, op.Name, &ir.ReduceAttr{Axes: []int{1, 2}, KeepDims: true}, t, in[0])
		}
	case ir.Quantize:
		// The codes of numbers that come from the same codes are those codes.
		if dq := r.producer(in[0], ir.Dequantize); dq != nil && r.g.Type(dq.In[0]).Equal(t) && t.DType.Bits() <= 16 {
			return dq.In[0], nil
		}
	}
	return ir.NoValue, nil
}

// constantFirst turns a product whose first operand is constant around, so that
// weights are always second: a·b = (bᵀ·aᵀ)ᵀ.
func constantFirst(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	a, b := r.g.Type(in[0]), r.g.Type(in[1])
	if !r.g.IsConst(in[0]) || r.g.IsConst(in[1]) || len(a.Shape) != 2 || len(b.Shape) != 2 || len(in) > 2 || a.DType != ir.F32 {
		return ir.NoValue, nil
	}
	turn := &ir.PermAttr{Perm: []int{1, 0}}
	v := r.g.Value(in[0])
	w := r.g.AddConst(v.Name, transposed(v.Const, turn.Perm), nil)
	x, err := r.g.Add(ir.Transpose, op.Name, turn, in[1])
	if err != nil {
		return x, err
	}
	y, err := r.g.Add(ir.MatMul, op.Name, op.Attr, x, w)
	if err != nil {
		return y, err
	}
	return r.g.Add(ir.Transpose, op.Name, turn, y)
}

var inf = float32(math.Inf(1))

// unfitDivisor reports whether 1/x is not a normal number that multiplies as
// well as x divides.
func unfitDivisor(x float32) bool {
	a := math.Abs(float64(x))
	return !(a > 1e-30 && a < 1e30)
}

func mapConst(r *rewriter, id ir.ValueID, f func(float32) float32) ir.ValueID {
	v := r.g.Value(id)
	src := ir.Data[float32](v.Const)
	dst := make([]float32, len(src))
	for i, x := range src {
		dst[i] = f(x)
	}
	return r.g.AddConst(v.Name, ir.NewTensor(ir.F32, v.Const.Shape, dst), nil)
}

// clip clamps x, merging with a clamp that made x.
func clip(r *rewriter, name string, x ir.ValueID, a ir.Act) (ir.ValueID, error) {
	if p := r.producer(x, ir.Clip); p != nil {
		b := p.Attr.(*ir.ClipAttr)
		x, a = p.In[0], clampTwice(ir.Act{Lo: b.Lo, Hi: b.Hi}, a)
	} else if p := r.producer(x, ir.Relu); p != nil {
		x, a = p.In[0], clampTwice(ir.Act{Lo: 0, Hi: inf}, a)
	}
	if a.Lo == -inf && a.Hi == inf {
		return x, nil
	}
	if a.Lo == 0 && a.Hi == inf {
		return r.g.Add(ir.Relu, name, nil, x)
	}
	return r.g.Add(ir.Clip, name, &ir.ClipAttr{Lo: a.Lo, Hi: a.Hi}, x)
}

// clampTwice returns the clamp that does first a, then b.
func clampTwice(a, b ir.Act) ir.Act {
	clamp := func(x float32) float32 { return min(max(x, b.Lo), b.Hi) }
	return ir.Act{Lo: clamp(a.Lo), Hi: clamp(a.Hi)}
}

// simplifySum handles add and mul: a constant goes second, neutral constants
// vanish, and an expand that broadcasting does anyway is dropped.
func simplifySum(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	t, changed := r.old.Type(op.Out), false
	if t.DType != ir.F32 {
		return ir.NoValue, nil
	}
	if r.g.IsConst(in[0]) && !r.g.IsConst(in[1]) {
		in[0], in[1], changed = in[1], in[0], true
	}
	for i := range in {
		if p := r.producer(in[i], ir.Expand); p != nil && slices.Equal(r.g.Type(in[1-i]).Shape, t.Shape) {
			in[i], changed = p.In[0], true
		}
	}
	neutral := float32(0)
	if op.Kind == ir.Mul {
		neutral = 1
	}
	data := floats(r.g, in[1])
	if data != nil && actOf(op.Attr) == nil && slices.Equal(r.g.Type(in[0]).Shape, t.Shape) &&
		!slices.ContainsFunc(data, func(x float32) bool { return x != neutral }) {
		return in[0], nil
	}
	if !changed {
		return ir.NoValue, nil
	}
	return r.g.AddTyped(op.Kind, op.Name, op.Attr, t, in...)
}

func (c *canoniser) simplifyMovement(r *rewriter, op *ir.Op, x ir.ValueID) (ir.ValueID, error) {
	xt, t := r.g.Type(x), r.old.Type(op.Out)
	if dq := r.producer(x, ir.Dequantize); dq != nil && r.g.IsConst(dq.In[0]) && op.Kind != ir.Pad && op.Kind != ir.Expand {
		// An error means that scales along an axis do not survive: leave it.
		if moved, err := r.g.Add(op.Kind, op.Name, op.Attr, dq.In[0]); err == nil {
			return r.g.Add(ir.Dequantize, dq.Name, nil, moved)
		}
	}
	switch op.Kind {
	case ir.Reshape:
		if p := r.producer(x, ir.Reshape); p != nil && xt.Quant.Equal(t.Quant) {
			x = p.In[0]
			xt = r.g.Type(x)
		}
		if slices.Equal(xt.Shape, t.Shape) {
			return x, nil
		}
		if x != r.Map(op.In[0]) && (xt.Quant == nil || xt.Quant.IsPerTensor()) {
			return r.g.Add(ir.Reshape, op.Name, op.Attr, x)
		}
	case ir.Transpose:
		perm := op.Attr.(*ir.PermAttr).Perm
		if c.reshapes {
			return transpose(r, op.Name, x, perm)
		}
		if p := r.producer(x, ir.Transpose); p != nil {
			x, perm = p.In[0], compose(p.Attr.(*ir.PermAttr).Perm, perm)
		}
		if isIdentity(perm) {
			return x, nil
		}
		return r.g.Add(ir.Transpose, op.Name, &ir.PermAttr{Perm: perm}, x)
	case ir.Pad:
		if slices.Equal(xt.Shape, t.Shape) && !slices.ContainsFunc(op.Attr.(*ir.PadAttr).Begin, func(b int) bool { return b != 0 }) {
			return x, nil
		}
	case ir.Slice:
		a := op.Attr.(*ir.SliceAttr)
		if slices.Equal(xt.Shape, t.Shape) && !slices.ContainsFunc(a.Steps, func(s int) bool { return s < 0 }) {
			return x, nil
		}
	case ir.Expand:
		if slices.Equal(xt.Shape, t.Shape) {
			return x, nil
		}
		if ir.Numel(xt.Shape) == ir.Numel(t.Shape) {
			return r.g.Add(ir.Reshape, op.Name, &ir.ShapeAttr{Shape: t.Shape}, x)
		}
	}
	return ir.NoValue, nil
}

// transpose permutes the dimensions of a value of the new graph, in the cheapest
// way: merged with a transpose before it, as a reshape, or not at all.
func transpose(r *rewriter, name string, x ir.ValueID, perm []int) (ir.ValueID, error) {
	if p := r.producer(x, ir.Transpose); p != nil {
		x, perm = p.In[0], compose(p.Attr.(*ir.PermAttr).Perm, perm)
	}
	t := r.g.Type(x)
	if isIdentity(perm) {
		return x, nil
	}
	if c := r.g.Value(x).Const; c != nil && (t.Quant == nil || t.Quant.IsPerTensor()) {
		return r.g.AddConst(r.g.Value(x).Name, transposed(c, perm), t.Quant), nil
	}
	if !movesData(t.Shape, perm) && (t.Quant == nil || t.Quant.IsPerTensor()) {
		return reshape(r, name, x, permuted(t.Shape, perm))
	}
	return r.g.Add(ir.Transpose, name, &ir.PermAttr{Perm: perm}, x)
}

// reshape gives a value of the new graph another shape, merged with a reshape
// before it, or not at all. Scales must be per tensor.
func reshape(r *rewriter, name string, x ir.ValueID, shape []int) (ir.ValueID, error) {
	if p := r.producer(x, ir.Reshape); p != nil {
		x = p.In[0]
	}
	if slices.Equal(r.g.Type(x).Shape, shape) {
		return x, nil
	}
	if v := r.g.Value(x); v.Const != nil {
		return r.g.AddConst(v.Name, v.Const.Reshaped(shape...), v.Type.Quant), nil
	}
	return r.g.Add(ir.Reshape, name, &ir.ShapeAttr{Shape: shape}, x)
}
