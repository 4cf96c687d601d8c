package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// contribDomain holds operators that ONNX Runtime adds to the standard and its
// quantiser, optimisers and model builders write. ContribOperators.md of ONNX
// Runtime describes them; they have one version.
const contribDomain = "com.microsoft"

// contribTable holds the operators of contribDomain. Those that have a namesake in
// the standard read attributes as its newest version does.
var contribTable = []row{
	// Products.
	{"FusedConv", 1, 0, 2, fusedConv(false)},
	{"NhwcConv", 1, 0, 2, nhwcConv},
	{"NhwcFusedConv", 1, 0, 2, fusedConv(true)},
	{"FusedGemm", 1, 0, 2, fusedGemm},
	{"FusedMatMul", 1, 0, 2, fusedMatMul},
	{"MatMulNBits", 1, 0, 3, matMulNBits},
	{"Attention", 1, 0, 2, contribAttention},
	{"MultiHeadAttention", 1, 0, 1, multiHeadAttention},
	{"GroupQueryAttention", 1, 0, 1, groupQueryAttention},
	{"RotaryEmbedding", 1, 0, 4, contribRotaryEmbedding},

	// Windows, normalisations.
	{"NhwcMaxPool", 1, 0, 1, nhwcMaxPool},
	{"LayerNormalization", 1, 0, 2, layerNormalization},
	{"SimplifiedLayerNormalization", 1, 0, 2, rmsNormalization},
	{"SkipLayerNormalization", 1, 0, 3, skipLayerNormalization},
	{"SkipSimplifiedLayerNormalization", 1, 0, 3, skipSimplifiedLayerNormalization},
	{"EmbedLayerNormalization", 1, 0, 1, embedLayerNormalization},

	// Element-wise functions.
	{"Gelu", 1, 0, 1, function(func(c *call, x ir.ValueID) ir.ValueID { return c.gelu(x, false) })},
	{"BiasGelu", 1, 0, 2, function(func(c *call, x ir.ValueID) ir.ValueID { return c.gelu(c.biased(x, 1), false) })},
	{"FastGelu", 1, 0, 1, function(func(c *call, x ir.ValueID) ir.ValueID { return c.gelu(c.biased(x, 1), true) })},
	{"QuickGelu", 1, 0, 1, function(func(c *call, x ir.ValueID) ir.ValueID { return c.swish(x, c.float("alpha", 1.702)) })},
	{"BiasSplitGelu", 1, 0, 2, function(biasSplitGelu)},
	{"BiasAdd", 1, 0, 3, function(func(c *call, x ir.ValueID) ir.ValueID { return c.biased(c.biased(x, 1), 2) })},

	// Quantisation.
	{"QuantizeLinear", 1, 0, 2, quantizeLinear},
	{"DequantizeLinear", 1, 0, 2, dequantizeLinear},
	{"QLinearAdd", 1, 0, 1, qLinearPair(ir.Add)},
	{"QLinearMul", 1, 0, 1, qLinearPair(ir.Mul)},
	{"QLinearAveragePool", 1, 0, 1, qLinearAveragePool},
	{"QLinearGlobalAveragePool", 1, 0, 1, qLinearGlobalAveragePool},
	{"QLinearReduceMean", 1, 0, 1, qLinearReduceMean},
	{"QLinearSigmoid", 1, 0, 1, qLinearSigmoid},
	{"QLinearLeakyRelu", 1, 0, 1, qLinearLeakyRelu},
	{"QLinearSoftmax", 1, 0, 1, qLinearSoftmax},
	{"QLinearConcat", 1, 0, 3, qLinearConcat},
	{"QLinearWhere", 1, 0, 1, qLinearWhere},
	{"QLinearConv", 1, 0, 8, contribQLinearConv},
	{"QGemm", 1, 0, 1, qGemm},
	{"MatMulIntegerToFloat", 1, 0, 4, matMulIntegerToFloat},
	{"DynamicQuantizeMatMul", 1, 0, 3, dynamicQuantizeMatMul},
}

// required reports whether operands are there.
func (c *call) required(indices ...int) bool {
	for _, i := range indices {
		if c.operand(i) == nil {
			c.failf("input %d is missing", i)
		}
	}
	return c.err == nil
}

// biased adds operand i, if there is one, computed as x is.
func (c *call) biased(x ir.ValueID, i int) ir.ValueID {
	if c.operand(i) == nil {
		return x
	}
	return c.add(ir.Add, nil, x, c.castID(c.id(i), c.typ(x).DType))
}

// inLayout hands f an operand's value with channels in front, whose result has them
// where the operand has.
func (c *call) inLayout(last bool, x ir.ValueID, f func(x ir.ValueID) ir.ValueID) ir.ValueID {
	if rank := len(c.typ(x).Shape); last && rank > 2 {
		return c.transpose(f(c.transpose(x, channelsFirst(rank)...)), channelsLast(rank)...)
	}
	return f(x)
}

// fusedActivations are the functions that fused operators apply to their result,
// with the parameters that they have, by default those of the operators.
var fusedActivations = map[string]struct {
	params []float32
	apply  func(c *call, x ir.ValueID, p []float32) ir.ValueID
}{
	"Relu":     {nil, func(c *call, x ir.ValueID, _ []float32) ir.ValueID { return c.add(ir.Relu, nil, x) }},
	"Sigmoid":  {nil, func(c *call, x ir.ValueID, _ []float32) ir.ValueID { return c.add(ir.Sigmoid, nil, x) }},
	"Tanh":     {nil, func(c *call, x ir.ValueID, _ []float32) ir.ValueID { return c.add(ir.Tanh, nil, x) }},
	"Softplus": {nil, func(c *call, x ir.ValueID, _ []float32) ir.ValueID { return c.add(ir.Softplus, nil, x) }},
	"Softsign": {nil, func(c *call, x ir.ValueID, _ []float32) ir.ValueID { return softsign(c, x) }},
	"LeakyRelu": {[]float32{0.01}, func(c *call, x ir.ValueID, p []float32) ir.ValueID {
		return c.add(ir.LeakyRelu, &ir.AlphaBetaAttr{Alpha: p[0]}, x)
	}},
	"Elu": {[]float32{1}, func(c *call, x ir.ValueID, p []float32) ir.ValueID {
		return c.add(ir.Elu, &ir.AlphaBetaAttr{Alpha: p[0]}, x)
	}},
	"HardSigmoid": {[]float32{0.2, 0.5}, func(c *call, x ir.ValueID, p []float32) ir.ValueID {
		return c.add(ir.HardSigmoid, &ir.AlphaBetaAttr{Alpha: p[0], Beta: p[1]}, x)
	}},
	"Clip": {[]float32{-math.MaxFloat32, math.MaxFloat32}, func(c *call, x ir.ValueID, p []float32) ir.ValueID {
		return c.add(ir.Clip, &ir.ClipAttr{Lo: p[0], Hi: p[1]}, x)
	}},
	"": {nil, func(_ *call, x ir.ValueID, _ []float32) ir.ValueID { return x }},
}

// fusedActivation applies the function that the attribute activation names. given
// are its parameters, NaN where there is none.
func (c *call) fusedActivation(x ir.ValueID, given ...float32) ir.ValueID {
	name := c.str("activation", "")
	f, ok := fusedActivations[name]
	if !ok {
		c.unsupportedf("activation %q", name)
		return x
	}
	p := slices.Clone(f.params)
	for i, v := range given {
		switch {
		case v != v:
		case i >= len(p):
			c.failf("activation %s takes %d parameters, parameter %d is %v", name, len(p), i, v)
			return x
		default:
			p[i] = v
		}
	}
	return f.apply(c, x, p)
}

// fusedConv is activation(Conv(x, w, b) + z). Where channels come last they do so
// in x, z and the result, not in w.
func fusedConv(last bool) func(*call) {
	return func(c *call) {
		y := c.biased(c.inLayout(last, c.plain(0), c.convolution), 3)
		c.set(c.fusedActivation(y, c.floats("activation_params")...))
	}
}

// nhwcConv is a convolution with channels last in x and the result.
func nhwcConv(c *call) { c.set(c.inLayout(true, c.plain(0), c.convolution)) }

// nhwcMaxPool is MaxPool with channels last.
func nhwcMaxPool(c *call) {
	ceil := c.bool("ceil_mode", false)
	c.set(c.inLayout(true, c.id(0), func(x ir.ValueID) ir.ValueID {
		w := c.window(c.typ(x).Shape, nil, ceil)
		return c.pool(ir.MaxPool, x, &w, false)
	}))
}

func fusedGemm(c *call) {
	gemm(c)
	if c.err != nil {
		return
	}
	y := c.use(c.out[0])
	c.set(c.fusedActivation(y, c.float("activation_alpha", nan), c.float("activation_beta", nan), c.float("activation_gamma", nan)))
}

// fusedMatMul is alpha · A · B. Matrices may be transposed; transBatch says before
// that that the first dimension is one of the matrices', not of the batch.
func fusedMatMul(c *call) {
	arranged := func(i int, batch, matrix string) *value {
		v := c.in[i]
		n := len(c.typeOf(v).Shape)
		perm := from(0, n)
		if c.bool(batch, false) && n > 2 {
			perm = append(append(from(1, n-1), 0), n-1)
		}
		if c.bool(matrix, false) && n > 1 {
			perm[n-2], perm[n-1] = perm[n-1], perm[n-2]
		}
		if slices.IsSorted(perm) {
			return v
		}
		return c.permuted(v, perm...)
	}
	a, b := arranged(0, "transBatchA", "transA"), arranged(1, "transBatchB", "transB")
	alpha := c.float("alpha", 1)
	if alpha != 1 && c.scalable(b) {
		b, alpha = scaled(b, alpha), 1
	}
	y := c.product(c.unquantised(c.use(a)), c.unquantised(c.use(b)), nil)
	if alpha != 1 {
		y = c.add(ir.Mul, nil, y, c.number(y, float64(alpha)))
	}
	c.set(y)
}

// biasSplitGelu adds a bias, halves the last dimension and gates one half by the
// other: left · gelu(right).
func biasSplitGelu(c *call, x ir.ValueID) ir.ValueID {
	x = c.biased(x, 1)
	s := c.typ(x).Shape
	if c.err == nil && (len(s) == 0 || s[len(s)-1]%2 != 0) {
		c.failf("operand of shape %v, want an even last dimension", s)
	}
	if c.err != nil {
		return x
	}
	last, half := len(s)-1, s[len(s)-1]/2
	return c.add(ir.Mul, nil, c.part(x, last, 0, half), c.gelu(c.part(x, last, half, half), false))
}

// skipped is input + skip + bias, the bias being operand i, if any; gamma is
// operand 2.
func (c *call) skipped(bias int) ir.ValueID {
	x := c.id(0)
	s, ss := c.typ(x).Shape, c.typ(c.id(1)).Shape
	if c.err == nil && (len(s) == 0 || len(ss) > len(s) || !slices.Equal(c.typeOf(c.in[2]).Shape, s[len(s)-1:])) {
		c.failf("input of shape %v, skip %v, gamma %v", s, ss, c.typeOf(c.in[2]).Shape)
	}
	x = c.biased(c.biased(x, 1), bias)
	if c.err == nil && !slices.Equal(c.typ(x).Shape, s) {
		c.failf("skip of shape %v or bias do not broadcast to the input %v", ss, s)
	}
	return x
}

// defaultEpsilon is what fused normalisations add to the variance.
const defaultEpsilon = 1e-12

// skipLayerNormalization has operands input, skip, gamma, beta, bias and results
// output, mean, inverse deviation, sum.
func skipLayerNormalization(c *call) {
	x := c.skipped(4)
	epsilon := float64(c.float("epsilon", defaultEpsilon))
	if c.err != nil {
		return
	}
	t := c.typ(x)
	y, mean, inverse := c.layerNormalised(x, computed(t.DType), len(t.Shape)-1, epsilon, 2, 3)
	c.set(y)
	c.setN(1, mean)
	c.setN(2, inverse)
	c.setN(3, x)
}

// skipSimplifiedLayerNormalization has operands input, skip, gamma, bias and
// results output, two that only training uses, sum.
func skipSimplifiedLayerNormalization(c *call) {
	x := c.skipped(3)
	epsilon := float64(c.float("epsilon", defaultEpsilon))
	if c.err != nil {
		return
	}
	t := c.typ(x)
	c.set(c.rmsNormalised(x, computed(t.DType), len(t.Shape)-1, epsilon, c.id(2)))
	c.setN(3, x)
}

// embedLayerNormalization adds the rows of three tables that words, positions and
// segments [batch, sequence] select, and normalises the sums. Its second result
// counts the ones of each sequence's mask.
func embedLayerNormalization(c *call) {
	if !c.required(0, 2, 3, 5, 6) {
		return
	}
	epsilon := float64(c.float("epsilon", defaultEpsilon))
	c.ignore("mask_index_type") // says whether the second result is wanted
	words := c.indexOperand(0)
	s := c.typ(words).Shape
	if c.err == nil && len(s) != 2 {
		c.failf("input_ids of shape %v, want [batch, sequence]", s)
	}
	if c.err != nil {
		return
	}
	rows := func(table int, at ir.ValueID) ir.ValueID {
		return c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, c.id(table), at)
	}
	x := rows(2, words)
	positions := ir.NoValue
	if c.operand(8) != nil {
		positions = c.indexOperand(8)
	} else {
		positions = c.counting(s[1], 0, 1, s[1])
	}
	x = c.add(ir.Add, nil, x, rows(3, positions))
	if c.operand(1) != nil {
		if !c.required(4) {
			return
		}
		x = c.add(ir.Add, nil, x, rows(4, c.indexOperand(1)))
	}
	t := c.typ(x)
	if c.err == nil && (len(t.Shape) != 3 || !slices.Equal(t.Shape[:2], s)) {
		c.failf("embeddings of shape %v for words %v", t.Shape, s)
	}
	if c.err != nil {
		return
	}
	y, _, _ := c.layerNormalised(x, computed(t.DType), 2, epsilon, 5, 6)
	c.set(y)
	c.setN(2, x)
	if len(c.out) < 2 {
		return
	}
	if c.operand(7) == nil {
		c.setN(1, c.constant("", ir.Zeros(ir.I32, s[0]), nil))
		return
	}
	mask := c.indexOperand(7)
	if ms := c.typ(mask).Shape; c.err == nil && !slices.Equal(ms, s) {
		c.failf("mask of shape %v for words %v", ms, s)
	}
	ones := c.castID(c.add(ir.Equals, nil, mask, c.number(mask, 1)), ir.I32)
	c.setN(1, c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: []int{1}}, ones))
}
