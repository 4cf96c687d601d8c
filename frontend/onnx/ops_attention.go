package onnx

import (
	"math"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// heads brings [batch, sequence, heads·size] to [batch, heads, sequence, size];
// operands that have four dimensions are so already.
func (c *call) heads(x ir.ValueID, attr string) (_ ir.ValueID, split bool) {
	s := c.typ(x).Shape
	if c.err != nil || len(s) == 4 {
		return x, false
	}
	return c.splitHeads(x, attr, c.smallInt(attr, c.int(attr, 0))), true
}

// splitHeads brings [batch, sequence, n·size] to [batch, n, sequence, size]; what
// names n in errors. mergedHeads is its inverse.
func (c *call) splitHeads(x ir.ValueID, what string, n int) ir.ValueID {
	s := c.typ(x).Shape
	if c.err == nil && (len(s) != 3 || n < 1 || s[2]%n != 0) {
		c.failf("%s is %d for an operand of shape %v", what, n, s)
	}
	if c.err != nil {
		return x
	}
	return c.transpose(c.reshape(x, s[0], s[1], n, s[2]/n), 0, 2, 1, 3)
}

func (c *call) mergedHeads(x ir.ValueID) ir.ValueID {
	s := c.typ(x).Shape
	if c.err != nil {
		return x
	}
	return c.reshape(c.transpose(x, 0, 2, 1, 3), s[0], s[2], s[1]*s[3])
}

// attention is softmax(Q·Kᵀ·scale, capped, + mask) · V for each head. Keys and
// values of a cache come before those of this step. Groups of heads may share
// keys and values.
func attention(c *call) {
	// Read even where operands have their heads apart.
	c.ignore("q_num_heads", "kv_num_heads")
	q, flat := c.heads(c.plain(0), "q_num_heads")
	k, _ := c.heads(c.plain(1), "kv_num_heads")
	v, _ := c.heads(c.plain(2), "kv_num_heads")
	past := 0
	if c.operand(4) != nil && c.operand(5) != nil {
		join := func(i int, x ir.ValueID) ir.ValueID { return c.add(ir.Concat, &ir.AxisAttr{Axis: 2}, c.plain(i), x) }
		if s := c.typ(c.plain(4)).Shape; len(s) == 4 {
			past = s[2]
		}
		k, v = join(4, k), join(5, v)
	}
	c.setN(1, k)
	c.setN(2, v)
	h := c.headsOf(q, k, v)
	d := c.typ(q).DType
	a := attending{scale: c.float("scale", 0), softcap: c.float("softcap", 0), sink: ir.NoValue, precise: d,
		bias: c.attentionBias(d, h.queries, h.keys, past)}
	if p := c.int("softmax_precision", 0); p != 0 {
		var err error
		if a.precise, err = dtypeOf(int32(p)); err != nil {
			c.unsupportedf("softmax_precision: %v", err)
		}
	}
	y, stages := c.attend(q, k, v, h, a)
	mode := c.int("qk_matmul_output_mode", 0)
	if c.err == nil && (mode < 0 || int(mode) >= len(stages)) {
		c.failf("qk_matmul_output_mode %d", mode)
	}
	if c.err != nil {
		return
	}
	c.setN(3, stages[mode])
	if flat {
		y = c.mergedHeads(y)
	}
	c.set(y)
}

// headSizes describes the heads of queries [batch, heads, queries, size], keys and
// values [batch, heads/groups, keys, …].
type headSizes struct{ batch, heads, groups, queries, keys, size int }

// headsOf checks that queries, keys and values go together.
func (c *call) headsOf(q, k, v ir.ValueID) headSizes {
	qs, ks, vs := c.typ(q).Shape, c.typ(k).Shape, c.typ(v).Shape
	if c.err == nil && (len(qs) != 4 || len(ks) != 4 || len(vs) != 4 || qs[3] != ks[3] || ks[2] != vs[2] || ks[1] != vs[1] || ks[1] < 1 || qs[1]%ks[1] != 0) {
		c.failf("queries of shape %v, keys %v and values %v", qs, ks, vs)
	}
	if c.err != nil {
		return headSizes{}
	}
	return headSizes{qs[0], qs[1], qs[1] / ks[1], qs[2], ks[2], qs[3]}
}

// attending says how scores become weights.
type attending struct {
	scale, softcap float32      // 0: 1/√size; no cap
	bias           []ir.ValueID // added to the scores [batch, heads, queries, keys]
	sink           ir.ValueID   // scores [heads] of a key without a value, may be absent
	precise        ir.DType     // type of the softmax
}

// attend is softmax(Q·Kᵀ·scale, capped, + bias) · V for each head. stages are the
// scores as they are, capped, biased, and the weights.
func (c *call) attend(q, k, v ir.ValueID, h headSizes, a attending) (y ir.ValueID, stages []ir.ValueID) {
	if c.err != nil {
		return q, nil
	}
	k, v = c.repeated(k, h.groups), c.repeated(v, h.groups)
	d := c.typ(q).DType
	scale := 1 / math.Sqrt(float64(h.size))
	if a.scale != 0 {
		scale = float64(a.scale)
	}
	// Both factors take the root, so that 16-bit floats do not overflow.
	root := c.scalar(d, math.Sqrt(scale))
	scores := c.add(ir.MatMul, nil, c.add(ir.Mul, nil, q, root), c.add(ir.Mul, nil, c.transpose(k, 0, 1, 3, 2), root))
	stages = append(stages, scores)
	if a.softcap != 0 {
		cap := c.scalar(d, float64(a.softcap))
		scores = c.add(ir.Mul, nil, c.add(ir.Tanh, nil, c.add(ir.Div, nil, scores, cap)), cap)
	}
	stages = append(stages, scores)
	for _, bias := range a.bias {
		scores = c.add(ir.Add, nil, scores, bias)
	}
	stages = append(stages, scores)
	if a.sink != ir.NoValue {
		sink := c.reshape(a.sink, 1, h.heads, 1, 1)
		sink = c.add(ir.Expand, &ir.ShapeAttr{Shape: []int{h.batch, h.heads, h.queries, 1}}, sink)
		scores = c.add(ir.Concat, &ir.AxisAttr{Axis: 3}, scores, sink)
	}
	weights := c.castID(c.add(ir.Softmax, &ir.AxisAttr{Axis: 3}, c.castID(scores, a.precise)), d)
	if a.sink != ir.NoValue {
		weights = c.part(weights, 3, 0, h.keys)
	}
	return c.add(ir.MatMul, nil, weights, v), append(stages, weights)
}

// repeated gives each head n times in a row.
func (c *call) repeated(x ir.ValueID, n int) ir.ValueID {
	if n == 1 || c.err != nil {
		return x
	}
	s := c.typ(x).Shape
	x = c.reshape(x, s[0], s[1], 1, s[2], s[3])
	x = c.add(ir.Expand, &ir.ShapeAttr{Shape: []int{s[0], s[1], n, s[2], s[3]}}, x)
	return c.reshape(x, s[0], s[1]*n, s[2], s[3])
}

// attentionBias lists what is added to the scores [batch, heads, queries, keys]:
// −∞ where a query must not look.
func (c *call) attentionBias(d ir.DType, queries, keys, past int) []ir.ValueID {
	var list []ir.ValueID
	never := c.scalar(d, math.Inf(-1))
	zero := c.scalar(d, 0)
	if c.operand(3) != nil {
		mask := c.plain(3)
		if c.typ(mask).DType == ir.Bool {
			mask = c.where(mask, zero, never)
		}
		// Keys beyond a short mask are not looked at.
		s := c.typ(mask).Shape
		if n := len(s); c.err == nil && n > 0 && s[n-1] < keys && s[n-1] > 1 {
			a := &ir.PadAttr{Begin: make([]int, n), End: make([]int, n), Value: math.Inf(-1)}
			a.End[n-1] = keys - s[n-1]
			mask = c.add(ir.Pad, a, mask)
		}
		list = append(list, mask)
	}
	if c.bool("is_causal", false) {
		if c.operand(6) != nil {
			c.unsupportedf("is_causal with nonpad_kv_seqlen")
		}
		list = append(list, c.causal(d, queries, keys, past, 0))
	}
	if c.operand(6) != nil {
		n := c.castID(c.indexOperand(6), ir.I64)
		if s := c.typ(n).Shape; c.err == nil && len(s) == 1 {
			n = c.reshape(n, s[0], 1, 1, 1)
		}
		list = append(list, c.where(c.add(ir.Less, nil, c.counting(keys, 0, keys), n), zero, never))
	}
	return list
}

// rotaryEmbedding turns pairs of elements of each head by an angle that grows
// with the position: (a, b) → (a·cos − b·sin, a·sin + b·cos). Pairs are
// neighbours, or lie half the turned part apart.
func rotaryEmbedding(c *call) {
	x := c.plain(0)
	interleaved := c.bool("interleaved", false)
	turned := c.smallInt("rotary_embedding_dim", c.int("rotary_embedding_dim", 0))
	given := slices.Clone(c.typ(x).Shape)
	c.ignore("num_heads")
	x, flat := c.heads(x, "num_heads")
	cos, sin := c.plain(1), c.plain(2)
	if c.operand(3) != nil {
		at := c.indexOperand(3)
		cos = c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, cos, at)
		sin = c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, sin, at)
	}
	y := c.rotated(x, cos, sin, turned, interleaved)
	if c.err == nil && flat {
		y = c.reshape(c.transpose(y, 0, 2, 1, 3), given...)
	}
	c.set(y)
}

// rotated turns x [batch, heads, sequence, size] by the angles of cosines and sines
// [batch or 1, sequence, turned/2]; turned 0 means all of a head.
func (c *call) rotated(x, cos, sin ir.ValueID, turned int, interleaved bool) ir.ValueID {
	s, cs := c.typ(x).Shape, c.typ(cos).Shape
	if c.err != nil {
		return x
	}
	if turned == 0 && len(s) == 4 {
		turned = s[3]
	}
	if len(s) != 4 || turned < 2 || turned%2 != 0 || turned > s[3] || len(cs) != 3 ||
		cs[0] != s[0] && cs[0] != 1 || cs[1] != s[2] || cs[2] != turned/2 || !slices.Equal(cs, c.typ(sin).Shape) {
		c.failf("operand of shape %v, of which %d are turned, and angles of shape %v", s, turned, cs)
		return x
	}
	cos, sin = c.reshape(cos, cs[0], 1, cs[1], cs[2]), c.reshape(sin, cs[0], 1, cs[1], cs[2])
	half := turned / 2
	part := func(start, step, size int) ir.ValueID {
		return c.add(ir.Slice, &ir.SliceAttr{
			Starts: []int{0, 0, 0, start}, Steps: []int{1, 1, 1, step}, Sizes: []int{s[0], s[1], s[2], size}}, x)
	}
	a, b := part(0, 1, half), part(half, 1, half)
	if interleaved {
		a, b = part(0, 2, half), part(1, 2, half)
	}
	mul := func(x, y ir.ValueID) ir.ValueID { return c.add(ir.Mul, nil, x, y) }
	re := c.add(ir.Sub, nil, mul(a, cos), mul(b, sin))
	im := c.add(ir.Add, nil, mul(a, sin), mul(b, cos))
	var y ir.ValueID
	if interleaved {
		pair := []int{s[0], s[1], s[2], half, 1}
		y = c.add(ir.Concat, &ir.AxisAttr{Axis: 4}, c.reshape(re, pair...), c.reshape(im, pair...))
		y = c.reshape(y, s[0], s[1], s[2], turned)
	} else {
		y = c.add(ir.Concat, &ir.AxisAttr{Axis: 3}, re, im)
	}
	if turned < s[3] {
		y = c.add(ir.Concat, &ir.AxisAttr{Axis: 3}, y, part(turned, 1, s[3]-turned))
	}
	return y
}

// rmsNormalization is x / √(mean x² + epsilon) · scale over the dimensions from
// axis on, normalised in the type of stash_type.
func rmsNormalization(c *call) {
	x := c.id(0)
	s, d := c.typ(x).Shape, c.typ(x).DType
	axis := c.axis(c.int("axis", -1), len(s))
	epsilon := float64(c.float("epsilon", 1e-5))
	stash, err := dtypeOf(int32(c.int("stash_type", int64(onnxpb.TensorProto_FLOAT))))
	if err != nil {
		c.unsupportedf("stash_type: %v", err)
	}
	if d == ir.F64 {
		stash = d
	}
	if c.err == nil {
		c.set(c.rmsNormalised(x, stash, axis, epsilon, c.id(1)))
	}
}

// rmsNormalised normalises x over the dimensions from axis on, in the type stash.
func (c *call) rmsNormalised(x ir.ValueID, stash ir.DType, axis int, epsilon float64, scale ir.ValueID) ir.ValueID {
	t := c.typ(x)
	a := &ir.ReduceAttr{Axes: from(axis, len(t.Shape)), KeepDims: true}
	w := c.castID(x, stash)
	mean := c.add(ir.ReduceMean, a, c.add(ir.Mul, nil, w, w))
	rms := c.add(ir.Sqrt, nil, c.add(ir.Add, nil, mean, c.scalar(stash, epsilon)))
	return c.add(ir.Mul, nil, c.castID(c.add(ir.Div, nil, w, rms), t.DType), scale)
}
