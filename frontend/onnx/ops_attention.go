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
	n := c.smallInt(attr, c.int(attr, 0))
	if c.err == nil && (len(s) != 3 || n < 1 || s[2]%n != 0) {
		c.failf("%s is %d for an operand of shape %v", attr, n, s)
	}
	if c.err != nil {
		return x, false
	}
	return c.transpose(c.reshape(x, s[0], s[1], n, s[2]/n), 0, 2, 1, 3), true
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
	qs, ks, vs := c.typ(q).Shape, c.typ(k).Shape, c.typ(v).Shape
	if c.err == nil && (len(qs) != 4 || len(ks) != 4 || len(vs) != 4 || qs[3] != ks[3] || ks[2] != vs[2] || ks[1] != vs[1] || ks[1] < 1 || qs[1]%ks[1] != 0) {
		c.failf("queries of shape %v, keys %v and values %v", qs, ks, vs)
	}
	if c.err != nil {
		return
	}
	k, v = c.repeated(k, qs[1]/ks[1]), c.repeated(v, qs[1]/ks[1])

	d := c.typ(q).DType
	scale := 1 / math.Sqrt(float64(qs[3]))
	if s := c.float("scale", 0); s != 0 {
		scale = float64(s)
	}
	// Both factors take the root, so that 16-bit floats do not overflow.
	root := c.scalar(d, math.Sqrt(scale))
	scores := c.add(ir.MatMul, nil, c.add(ir.Mul, nil, q, root), c.add(ir.Mul, nil, c.transpose(k, 0, 1, 3, 2), root))
	stages := []ir.ValueID{scores} // by the attribute qk_matmul_output_mode
	if limit := c.float("softcap", 0); limit != 0 {
		cap := c.scalar(d, float64(limit))
		scores = c.add(ir.Mul, nil, c.add(ir.Tanh, nil, c.add(ir.Div, nil, scores, cap)), cap)
	}
	stages = append(stages, scores)
	for _, bias := range c.attentionBias(d, qs[2], ks[2], past) {
		scores = c.add(ir.Add, nil, scores, bias)
	}
	stages = append(stages, scores)
	precise := d
	if p := c.int("softmax_precision", 0); p != 0 {
		var err error
		if precise, err = dtypeOf(int32(p)); err != nil {
			c.unsupportedf("softmax_precision: %v", err)
		}
	}
	weights := c.castID(c.add(ir.Softmax, &ir.AxisAttr{Axis: 3}, c.castID(scores, precise)), d)
	stages = append(stages, weights)
	mode := c.int("qk_matmul_output_mode", 0)
	if c.err == nil && (mode < 0 || int(mode) >= len(stages)) {
		c.failf("qk_matmul_output_mode %d", mode)
	}
	y := c.add(ir.MatMul, nil, weights, v)
	if c.err != nil {
		return
	}
	c.setN(3, stages[mode])
	if flat {
		y = c.reshape(c.transpose(y, 0, 2, 1, 3), qs[0], qs[2], qs[1]*vs[3])
	}
	c.set(y)
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
	columns := c.counting(keys, 0, keys)
	if c.bool("is_causal", false) {
		if c.operand(6) != nil {
			c.unsupportedf("is_causal with nonpad_kv_seqlen")
		}
		list = append(list, c.where(c.add(ir.Less, nil, c.counting(queries, past, queries, 1), columns), never, zero))
	}
	if c.operand(6) != nil {
		n := c.castID(c.indexOperand(6), ir.I64)
		if s := c.typ(n).Shape; c.err == nil && len(s) == 1 {
			n = c.reshape(n, s[0], 1, 1, 1)
		}
		list = append(list, c.where(c.add(ir.Less, nil, columns, n), zero, never))
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
	s, cs := c.typ(x).Shape, c.typ(cos).Shape
	if c.err != nil {
		return
	}
	if turned == 0 && len(s) == 4 {
		turned = s[3]
	}
	if len(s) != 4 || turned < 2 || turned%2 != 0 || turned > s[3] || len(cs) != 3 ||
		cs[0] != s[0] && cs[0] != 1 || cs[1] != s[2] || cs[2] != turned/2 || !slices.Equal(cs, c.typ(sin).Shape) {
		c.failf("operand of shape %v, of which %d are turned, and angles of shape %v", s, turned, cs)
		return
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
	if flat {
		y = c.reshape(c.transpose(y, 0, 2, 1, 3), given...)
	}
	c.set(y)
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
	if c.err != nil {
		return
	}
	a := &ir.ReduceAttr{KeepDims: true}
	for i := axis; i < len(s); i++ {
		a.Axes = append(a.Axes, i)
	}
	w := c.castID(x, stash)
	mean := c.add(ir.ReduceMean, a, c.add(ir.Mul, nil, w, w))
	rms := c.add(ir.Sqrt, nil, c.add(ir.Add, nil, mean, c.scalar(stash, epsilon)))
	c.set(c.add(ir.Mul, nil, c.castID(c.add(ir.Div, nil, w, rms), d), c.id(1)))
}
