package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// contribRotaryEmbedding has operands x, positions, and tables of cosines and sines
// [positions, turned/2]. One position is that of the first of the sequence.
func contribRotaryEmbedding(c *call) {
	x := c.plain(0)
	s, table := c.typ(x).Shape, c.typeOf(c.in[2]).Shape
	interleaved := c.bool("interleaved", false)
	turned := c.smallInt("rotary_embedding_dim", c.int("rotary_embedding_dim", 0))
	n := c.smallInt("num_heads", c.int("num_heads", 0))
	if c.bool("is_packed_batching", false) {
		c.unsupportedf("is_packed_batching: sequences without padding")
	}
	if scale := c.float("scale", 1); scale != 1 {
		c.unsupportedf("scale %v", scale)
	}
	if c.err == nil && (len(table) != 2 || table[1] < 1 || len(s) != 3 && len(s) != 4) {
		c.failf("operand of shape %v and cosines of shape %v", s, table)
	}
	if c.err != nil {
		return
	}
	flat := len(s) == 3
	if flat {
		if n == 0 {
			n = s[2] / (2 * table[1])
		}
		x = c.splitHeads(x, "num_heads", n)
	}
	hs := c.typ(x).Shape
	at := c.castID(c.indexOperand(1), ir.I64)
	if as := c.typ(at).Shape; c.err == nil && ir.Numel(as) == 1 && (len(as) < 2 || hs[2] > 1) {
		at = c.add(ir.Add, nil, c.counting(hs[2], 0, 1, hs[2]), c.reshape(at, 1, 1))
	}
	cos := c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, c.plain(2), at)
	sin := c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, c.plain(3), at)
	y := c.rotated(x, cos, sin, turned, interleaved)
	if flat {
		y = c.mergedHeads(y)
	}
	c.set(y)
}

// causal is a bias that keeps query i, of which there are some after past keys, from
// keys behind it, and where window is positive from all but the window keys up to it.
func (c *call) causal(d ir.DType, queries, keys, past, window int) ir.ValueID {
	zero, never := c.scalar(d, 0), c.scalar(d, math.Inf(-1))
	columns := c.counting(keys, 0, keys)
	bias := c.where(c.add(ir.Less, nil, c.counting(queries, past, queries, 1), columns), never, zero)
	if window > 0 && window < past+queries {
		bias = c.where(c.add(ir.LessEqual, nil, columns, c.counting(queries, past-window, queries, 1)), never, bias)
	}
	return bias
}

// keyMask reads a mask, operand i, as a bias: low where it hides a key. It is the
// number of keys of each sequence [batch], such ends followed by starts [2·batch],
// or 0 for each that is hidden [batch, keys] or [batch, queries, keys].
func (c *call) keyMask(i int, d ir.DType, h headSizes, low float32) ir.ValueID {
	m := c.castID(c.indexOperand(i), ir.I64)
	if c.err != nil {
		return m
	}
	columns := c.counting(h.keys, 0, h.keys)
	var seen ir.ValueID
	switch s := c.typ(m).Shape; {
	case len(s) == 1 && (s[0] == h.batch || s[0] == 2*h.batch):
		seen = c.add(ir.Less, nil, columns, c.reshape(c.part(m, 0, 0, h.batch), h.batch, 1, 1, 1))
		if s[0] == 2*h.batch {
			starts := c.reshape(c.part(m, 0, h.batch, h.batch), h.batch, 1, 1, 1)
			seen = c.add(ir.BitAnd, nil, seen, c.add(ir.LessEqual, nil, starts, columns))
		}
	case slices.Equal(s, []int{h.batch, h.keys}):
		seen = c.add(ir.Less, nil, c.ids(nil, []int64{0}), c.reshape(m, h.batch, 1, 1, h.keys))
	case slices.Equal(s, []int{h.batch, h.queries, h.keys}):
		seen = c.add(ir.Less, nil, c.ids(nil, []int64{0}), c.reshape(m, h.batch, 1, h.queries, h.keys))
	default:
		c.unsupportedf("mask of shape %v for a batch of %d with %d queries and %d keys", s, h.batch, h.queries, h.keys)
		return m
	}
	return c.where(seen, c.scalar(d, 0), c.scalar(d, float64(low)))
}

// scoreBias returns operand i, which is added to the scores.
func (c *call) scoreBias(i int, h headSizes) ir.ValueID {
	x := c.plain(i)
	s := c.typ(x).Shape
	if c.err == nil && (len(s) != 4 || s[0] != 1 && s[0] != h.batch || s[1] != 1 && s[1] != h.heads || s[2] != h.queries || s[3] != h.keys) {
		c.failf("attention_bias of shape %v, want [%d or 1,%d or 1,%d,%d]", s, h.batch, h.heads, h.queries, h.keys)
	}
	return x
}

// biases lists what is added to the scores where queries follow past keys: operands
// mask and extra, if present, and what the attribute unidirectional hides.
func (c *call) biases(d ir.DType, h headSizes, past, mask, extra int) []ir.ValueID {
	var list []ir.ValueID
	low := c.float("mask_filter_value", -10000)
	if c.operand(mask) != nil {
		list = append(list, c.keyMask(mask, d, h, low))
	}
	if c.bool("unidirectional", false) {
		list = append(list, c.causal(d, h.queries, h.keys, past, 0))
	}
	if c.operand(extra) != nil {
		list = append(list, c.scoreBias(extra, h))
	}
	return list
}

// contribAttention has operands x, the weights of queries, keys and values side by
// side, their biases, a mask, keys and values of the past [2, batch, heads, past,
// size], and what is added to scores.
func contribAttention(c *call) {
	const (
		weights, bias, mask, before, extra, length = 1, 2, 3, 4, 5, 6
	)
	n := c.smallInt("num_heads", c.int("num_heads", 0))
	if c.bool("do_rotary", false) {
		c.unsupportedf("do_rotary")
	}
	c.ignore("rotary_embedding_dim") // of do_rotary
	if c.bool("past_present_share_buffer", false) || c.operand(length) != nil {
		c.unsupportedf("past_present_share_buffer")
	}
	x, w := c.plain(0), c.plain(weights)
	s, ws := c.typ(x).Shape, c.typ(w).Shape
	sizes, given := c.ints("qkv_hidden_sizes")
	if c.err == nil && (len(s) != 3 || len(ws) != 2) {
		c.failf("input of shape %v and weights of shape %v", s, ws)
	}
	if c.err != nil {
		return
	}
	if !given {
		third := int64(ws[1] / 3)
		sizes = []int64{third, third, third}
	}
	if len(sizes) != 3 || slices.Min(sizes) < 1 || slices.Max(sizes) > int64(ws[1]) || sizes[0]+sizes[1]+sizes[2] != int64(ws[1]) {
		c.failf("qkv_hidden_sizes %v for weights of shape %v", sizes, ws)
		return
	}
	in := []ir.ValueID{x, w}
	if c.operand(bias) != nil {
		in = append(in, c.plain(bias))
	}
	y := c.multiplied(in...)
	var qkv [3]ir.ValueID
	at := 0
	for i, size := range sizes {
		qkv[i] = c.splitHeads(c.part(y, 2, at, int(size)), "num_heads", n)
		at += int(size)
	}
	past := 0
	if c.operand(before) != nil {
		old := c.plain(before)
		ps := c.typ(old).Shape
		if c.err == nil && (len(ps) != 5 || ps[0] != 2) {
			c.failf("past of shape %v, want [2, batch, heads, past, size]", ps)
		}
		if c.err != nil {
			return
		}
		past = ps[3]
		for i := range 2 {
			qkv[1+i] = c.appended(c.reshape(c.part(old, 0, i, 1), ps[1:]...), qkv[1+i])
		}
	}
	if len(c.out) > 1 && c.err == nil {
		one := append([]int{1}, c.typ(qkv[1]).Shape...)
		c.setN(1, c.add(ir.Concat, &ir.AxisAttr{Axis: 0}, c.reshape(qkv[1], one...), c.reshape(qkv[2], one...)))
	}
	d := c.typ(x).DType
	h := c.headsOf(qkv[0], qkv[1], qkv[2])
	a := attending{scale: c.float("scale", 0), sink: ir.NoValue, precise: d, bias: c.biases(d, h, past, mask, extra)}
	y, _ = c.attend(qkv[0], qkv[1], qkv[2], h, a)
	c.set(c.mergedHeads(y))
}

// appended puts keys or values [batch, heads, sequence, size] behind those of a
// cache.
func (c *call) appended(cache, x ir.ValueID) ir.ValueID {
	if s := c.typ(cache).Shape; c.err == nil && len(s) == 4 && s[2] == 0 {
		return x
	}
	return c.add(ir.Concat, &ir.AxisAttr{Axis: 2}, cache, x)
}

// multiHeadAttention has operands queries, keys and values, their biases in one
// vector, a mask of keys, what is added to scores, and keys and values of the past.
// Keys and values may be packed with the queries [batch, sequence, heads, 3, size],
// values with the keys [batch, sequence, heads, 2, size]; or both have their heads
// apart [batch, heads, sequence, size].
func multiHeadAttention(c *call) {
	const (
		query, key, val, bias, mask, extra, pastKey, pastValue, length, beams = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	)
	n := c.smallInt("num_heads", c.int("num_heads", 0))
	if c.operand(length) != nil || c.operand(beams) != nil {
		c.unsupportedf("past_sequence_length and cache_indirection: a buffer that past and present share")
	}
	q := c.plain(query)
	var qkv [3]ir.ValueID
	// unpacked takes values out of one that holds several, before the last dimension.
	unpacked := func(x ir.ValueID, to []ir.ValueID) {
		s := c.typ(x).Shape
		if c.err == nil && (len(s) != 5 || s[2] != n || s[3] != len(to)) {
			c.failf("packed operand of shape %v, want [batch, sequence, %d, %d, size]", s, n, len(to))
		}
		if c.err != nil {
			return
		}
		for i := range to {
			to[i] = c.transpose(c.reshape(c.part(x, 3, i, 1), s[0], s[1], s[2], s[4]), 0, 2, 1, 3)
		}
	}
	ranks := [3]int{len(c.typ(q).Shape)}
	for i := key; i <= val; i++ {
		if c.operand(i) != nil {
			ranks[i] = len(c.typeOf(c.in[i]).Shape)
		}
	}
	if c.operand(bias) != nil && ranks != [3]int{3, 3, 3} {
		c.unsupportedf("bias with operands of %d, %d and %d dimensions", ranks[0], ranks[1], ranks[2])
	}
	switch {
	case c.err != nil:
		return
	case ranks == [3]int{5, 0, 0}:
		unpacked(q, qkv[:])
	case ranks == [3]int{3, 5, 0}:
		qkv[0] = c.splitHeads(q, "num_heads", n)
		unpacked(c.plain(key), qkv[1:])
	case ranks == [3]int{3, 4, 4}:
		qkv = [3]ir.ValueID{c.splitHeads(q, "num_heads", n), c.plain(key), c.plain(val)}
	case ranks == [3]int{3, 3, 3}:
		at := 0
		for i := range qkv {
			x := c.plain(i)
			if s := c.typ(x).Shape; c.err == nil && c.operand(bias) != nil {
				b := c.plain(bias)
				if len(c.typ(b).Shape) != 1 {
					c.failf("bias of shape %v, want a vector", c.typ(b).Shape)
				}
				x = c.add(ir.Add, nil, x, c.part(b, 0, at, s[2]))
				at += s[2]
			}
			qkv[i] = c.splitHeads(x, "num_heads", n)
		}
		if b := c.operand(bias); c.err == nil && b != nil && c.typeOf(b).Numel() != at {
			c.failf("bias of shape %v, want [%d]", c.typeOf(b).Shape, at)
		}
	default:
		c.failf("queries, keys and values of %d, %d and %d dimensions", ranks[0], ranks[1], ranks[2])
		return
	}
	past := 0
	if c.operand(pastKey) != nil || c.operand(pastValue) != nil {
		if !c.required(pastKey, pastValue) {
			return
		}
		if s := c.typeOf(c.in[pastKey]).Shape; len(s) == 4 {
			past = s[2]
		}
		qkv[1], qkv[2] = c.appended(c.plain(pastKey), qkv[1]), c.appended(c.plain(pastValue), qkv[2])
	}
	c.setN(1, qkv[1])
	c.setN(2, qkv[2])
	d := c.typ(q).DType
	h := c.headsOf(qkv[0], qkv[1], qkv[2])
	a := attending{scale: c.float("scale", 0), sink: ir.NoValue, precise: d, bias: c.biases(d, h, past, mask, extra)}
	y, _ := c.attend(qkv[0], qkv[1], qkv[2], h, a)
	c.set(c.mergedHeads(y))
}

// Operands of GroupQueryAttention.
const (
	gqaQuery = iota
	gqaKey
	gqaValue
	gqaPastKey
	gqaPastValue
	gqaLengths
	gqaTotal
	gqaCos
	gqaSin
	gqaPositions
	gqaBias
	gqaSink
	gqaKeyScale
	gqaValueScale
	gqaQueryNorm
	gqaKeyNorm
)

// groupQueryAttention is the attention of decoders with a cache [batch, kv heads,
// capacity, size]: queries and keys are normalised and turned by their positions,
// if asked for, and keys and values written behind those of the past.
func groupQueryAttention(c *call) {
	n, kv := c.smallInt("num_heads", c.int("num_heads", 0)), c.smallInt("kv_num_heads", c.int("kv_num_heads", 0))
	for _, name := range []string{"k_quant_type", "v_quant_type"} {
		if q := c.str(name, "NONE"); q != "NONE" {
			c.unsupportedf("%s %s: codes in the cache", name, q)
		}
	}
	c.ignore("kv_cache_bit_width") // of codes in the cache
	if c.operand(gqaKeyScale) != nil || c.operand(gqaValueScale) != nil {
		c.unsupportedf("k_scale and v_scale: codes in the cache")
	}
	if c.bool("sliding_window_cache", false) {
		c.unsupportedf("sliding_window_cache")
	}
	if c.int("qk_output", 0) != 0 {
		c.unsupportedf("qk_output")
	}
	window, causal := c.smallInt("local_window_size", c.int("local_window_size", -1)), c.bool("causal", true)
	if c.err == nil && !causal && window > 0 {
		c.failf("local_window_size %d without causal", window)
	}
	q, k, v := c.gqaHeads(n, kv)
	if epsilon := float64(c.float("qk_norm_epsilon", 1e-6)); c.operand(gqaQueryNorm) != nil || c.operand(gqaKeyNorm) != nil {
		if !c.required(gqaQueryNorm, gqaKeyNorm) {
			return
		}
		norm := func(x ir.ValueID, by int) ir.ValueID {
			return c.rmsNormalised(x, computed(c.typ(x).DType), 3, epsilon, c.id(by))
		}
		q, k = norm(q, gqaQueryNorm), norm(k, gqaKeyNorm)
	}
	h := c.headsOf(q, k, v)
	past := c.gqaPast(h)
	if interleaved := c.bool("rotary_interleaved", false); c.bool("do_rotary", false) {
		if !c.required(gqaCos, gqaSin) {
			return
		}
		cos, sin := c.gqaAngles(gqaCos, past, h), c.gqaAngles(gqaSin, past, h)
		turned := 0
		if s := c.typ(cos).Shape; len(s) == 3 { // cosines may be of a part of each head
			turned = 2 * s[2]
		}
		q, k = c.rotated(q, cos, sin, turned, interleaved), c.rotated(k, cos, sin, turned, interleaved)
	}
	k, v = c.gqaCached(1, gqaPastKey, k, past), c.gqaCached(2, gqaPastValue, v, past)
	h = c.headsOf(q, k, v)
	d := c.typ(q).DType
	a := attending{scale: c.float("scale", 0), softcap: c.float("softcap", 0), sink: ir.NoValue, precise: d}
	if causal {
		a.bias = append(a.bias, c.causal(d, h.queries, h.keys, past, window))
	}
	if c.operand(gqaBias) != nil {
		a.bias = append(a.bias, c.scoreBias(gqaBias, h))
	}
	smooth := c.bool("smooth_softmax", false)
	switch {
	case c.operand(gqaSink) != nil:
		a.sink = c.plain(gqaSink)
		if s := c.typ(a.sink).Shape; c.err == nil && !slices.Equal(s, []int{h.heads}) {
			c.failf("head_sink of shape %v, want [%d]", s, h.heads)
		}
	case smooth && c.err == nil:
		a.sink = c.vector(d, []int{h.heads}, make([]float64, h.heads))
	}
	y, _ := c.attend(q, k, v, h, a)
	c.set(c.mergedHeads(y))
}

// gqaHeads returns queries, keys and values [batch, heads, sequence, size]; the
// queries' operand may hold all three side by side.
func (c *call) gqaHeads(n, kv int) (q, k, v ir.ValueID) {
	q = c.plain(gqaQuery)
	s := c.typ(q).Shape
	if c.err == nil && (len(s) != 3 || n < 1 || kv < 1 || n > maxElements || kv > maxElements) {
		c.failf("queries of shape %v, num_heads %d and kv_num_heads %d", s, n, kv)
	}
	if c.err != nil {
		return q, q, q
	}
	if c.operand(gqaKey) == nil && c.operand(gqaValue) == nil {
		size := s[2] / (n + 2*kv)
		if size*(n+2*kv) != s[2] {
			c.failf("packed queries, keys and values of shape %v for %d and twice %d heads", s, n, kv)
		}
		k, v = c.part(q, 2, n*size, kv*size), c.part(q, 2, (n+kv)*size, kv*size)
		q = c.part(q, 2, 0, n*size)
	} else if c.required(gqaKey, gqaValue) {
		k, v = c.plain(gqaKey), c.plain(gqaValue)
	}
	return c.splitHeads(q, "num_heads", n), c.splitHeads(k, "kv_num_heads", kv), c.splitHeads(v, "kv_num_heads", kv)
}

// gqaPast returns how many tokens come before those of this step. seqlens_k says it
// for each sequence: the number of all, less 1. total_sequence_length is the most of
// these numbers, so that it says as much where the batch is 1; exporters take it from
// a shape, and it is known when seqlens_k is not.
func (c *call) gqaPast(h headSizes) int {
	total := int64(0)
	if !c.required(gqaLengths) {
		return 0
	}
	if c.in[gqaLengths].isConst() {
		list, _ := c.intsOperand(gqaLengths, "seqlens_k")
		if c.err == nil && len(list) != h.batch {
			c.failf("seqlens_k has %d elements for a batch of %d", len(list), h.batch)
		}
		if c.err != nil {
			return 0
		}
		total = list[0] + 1
		if slices.Min(list) != slices.Max(list) {
			c.unsupportedf("sequences of different lengths: seqlens_k %v", list[:min(len(list), maxReported)])
		}
	} else if t := c.operand(gqaTotal); h.batch == 1 && t != nil && t.isConst() {
		list, _ := c.intsOperand(gqaTotal, "total_sequence_length")
		if c.err == nil && len(list) != 1 {
			c.failf("total_sequence_length has %d elements", len(list))
		}
		if c.err != nil {
			return 0
		}
		total = list[0]
	} else if h.batch == 1 {
		c.dataf("seqlens_k or total_sequence_length must be a constant")
	} else {
		c.dataf("seqlens_k must be a constant for a batch of more than one")
	}
	if c.err == nil && (total < int64(h.queries) || total > maxElements) {
		c.unsupportedf("%d tokens in all for %d queries", total, h.queries)
	}
	return int(total) - h.queries
}

// gqaAngles returns cosines or sines [batch or 1, sequence, turned/2] of the
// positions of this step.
func (c *call) gqaAngles(table, past int, h headSizes) ir.ValueID {
	x := c.plain(table)
	if c.operand(gqaPositions) != nil {
		return c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, x, c.indexOperand(gqaPositions))
	}
	s := c.typ(x).Shape
	if c.err == nil && len(s) != 2 {
		c.failf("cosines or sines of shape %v, want [positions, turned/2]", s)
	}
	if c.err != nil {
		return x
	}
	return c.reshape(c.part(x, 0, past, h.queries), 1, h.queries, s[1])
}

// gqaCached writes x behind the past of operand cache, which becomes result i, and
// returns what there is up to x. A cache of more entries keeps the rest.
func (c *call) gqaCached(i, cache int, x ir.ValueID, past int) ir.ValueID {
	if c.operand(cache) == nil {
		if c.err == nil && past > 0 {
			c.failf("%d tokens of the past, but no cache", past)
		}
		c.setN(i, x)
		return x
	}
	old := c.plain(cache)
	s, xs := c.typ(old).Shape, c.typ(x).Shape
	if c.err == nil && (len(s) != 4 || len(xs) != 4 || s[2] < past) {
		c.failf("a cache of shape %v for %d tokens of the past and keys or values %v", s, past, xs)
	}
	if c.err != nil {
		return x
	}
	total := past + xs[2]
	now := x
	if past > 0 {
		now = c.appended(c.part(old, 2, 0, past), x)
	}
	present := now
	if s[2] > total {
		present = c.add(ir.Concat, &ir.AxisAttr{Axis: 2}, now, c.part(old, 2, total, s[2]-total))
	}
	c.setN(i, present)
	return now
}
