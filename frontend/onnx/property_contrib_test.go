package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"situ/frontend/onnx/onnxpb"
	"situ/internal/ort"
	"situ/ir"
)

// A contribTest is one node that ONNX Runtime runs, too.
type contribTest struct {
	nodeTest
	// near is how far results may lie apart: of floats relative to the largest, of
	// codes in steps.
	near float64
}

// draws makes operands of random tests. They are drawn from a seed, not by rapid,
// for ONNX Runtime runs hundreds of nodes in one model.
type draws struct{ *rand.Rand }

func (r draws) between(lo, hi int) int { return lo + r.IntN(hi-lo+1) }

func (r draws) coin() bool { return r.IntN(2) == 0 }

func (r draws) floats(shape ...int) *ir.Tensor {
	v := make([]float64, ir.Numel(shape))
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return fromFloats(ir.F32, shape, v)
}

func (r draws) ints(d ir.DType, lo, hi int, shape ...int) *ir.Tensor {
	v := make([]int64, ir.Numel(shape))
	for i := range v {
		v[i] = int64(r.between(lo, hi))
	}
	return fromInts(d, shape, v)
}

// codes draws from all of an 8-bit type's range.
func (r draws) codes(d ir.DType, shape ...int) *ir.Tensor {
	lo, hi := d.IntRange()
	return r.ints(d, int(lo), int(hi), shape...)
}

// weights are codes whose products in pairs fit 16 bits, which kernels of ONNX
// Runtime saturate to on processors without instructions for them.
func (r draws) weights(d ir.DType, shape ...int) *ir.Tensor {
	if d == ir.U8 {
		return r.ints(d, 64, 127, shape...)
	}
	return r.ints(d, -60, 60, shape...)
}

func (r draws) type8() ir.DType { return types8[r.IntN(2)] }

// scales draws numbers around a size.
func (r draws) scales(size float64, shape ...int) *ir.Tensor {
	v := make([]float64, ir.Numel(shape))
	for i := range v {
		v[i] = size * (0.7 + 0.6*r.Float64())
	}
	return fromFloats(ir.F32, shape, v)
}

// zero draws a zero point near the middle of a type.
func (r draws) zero(d ir.DType, shape ...int) *ir.Tensor {
	if d == ir.U8 {
		return r.ints(d, 100, 150, shape...)
	}
	return r.ints(d, -20, 20, shape...)
}

// optional returns nil for every other operand.
func (r draws) optional(t *ir.Tensor) *ir.Tensor {
	if r.coin() {
		return nil
	}
	return t
}

// contrib is a test of a contributed operator; what is missing at the end is left out.
func contrib(op string, near float64, in []*ir.Tensor, attrs ...*onnxpb.AttributeProto) contribTest {
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return contribTest{nodeTest{op: op, domain: contribDomain, opset: 1, attrs: attrs, in: in}, near}
}

// known makes operands constants, of others some.
func (c contribTest) known(r draws, always ...int) contribTest {
	c.fixed = make([]bool, len(c.in))
	for i := 1; i < len(c.in); i++ {
		c.fixed[i] = r.coin() || slices.Contains(always, i)
	}
	return c
}

func (c contribTest) giving(results int) contribTest {
	c.results = results
	return c
}

// contribCases draw a test of each operator that ONNX Runtime executes on a CPU.
var contribCases = map[string]func(r draws) contribTest{
	"QLinearAdd": func(r draws) contribTest { return r.qLinearPair("QLinearAdd") },
	"QLinearMul": func(r draws) contribTest { return r.qLinearPair("QLinearMul") },
	"QLinearSigmoid": func(r draws) contribTest {
		d := r.type8()
		return contrib("QLinearSigmoid", 1, []*ir.Tensor{r.codes(d, 2, 5), r.scales(0.05), r.zero(d), r.scales(1. / 256), r.zero(d)}).known(r)
	},
	"QLinearLeakyRelu": func(r draws) contribTest {
		d := r.type8()
		return contrib("QLinearLeakyRelu", 1, []*ir.Tensor{r.codes(d, 2, 5), r.scales(0.05), r.zero(d), r.scales(0.05), r.zero(d)},
			floatAttr("alpha", float32(r.IntN(5))/8)).known(r)
	},
	"QLinearAveragePool": func(r draws) contribTest {
		d, last := r.type8(), r.coin()
		shape := []int{2, r.between(1, 5), r.between(4, 7), r.between(4, 7)}
		attrs := []*onnxpb.AttributeProto{intsAttr("kernel_shape", 3, 2), intsAttr("strides", int64(r.between(1, 3)), int64(r.between(1, 2))),
			intAttr("count_include_pad", int64(r.IntN(2))), intsAttr("pads", int64(r.IntN(3)), int64(r.IntN(2)), int64(r.IntN(3)), int64(r.IntN(2)))}
		if last {
			attrs = append(attrs, intAttr("channels_last", 1))
			shape = permutedInts(shape, channelsLast(4))
		}
		return contrib("QLinearAveragePool", 1, []*ir.Tensor{r.codes(d, shape...), r.scales(0.05), r.zero(d), r.scales(0.05), r.zero(d)}, attrs...).known(r, 1, 2, 3, 4)
	},
	"QLinearGlobalAveragePool": func(r draws) contribTest {
		d := r.type8()
		in := []*ir.Tensor{r.codes(d, 2, r.between(1, 9), r.between(1, 4), r.between(1, 4)), r.scales(0.05), r.zero(d), r.scales(0.04), r.zero(d)}
		return contrib("QLinearGlobalAveragePool", 1, in, intAttr("channels_last", int64(r.IntN(2)))).known(r, 1, 2, 3, 4)
	},
	"QLinearConcat": func(r draws) contribTest {
		d := r.type8()
		in := []*ir.Tensor{r.scales(0.05), r.zero(d)}
		for range r.between(1, 3) {
			in = append(in, r.codes(d, 2, r.between(1, 4), 3), r.scales(0.05), r.zero(d))
		}
		c := contrib("QLinearConcat", 1, in, intAttr("axis", int64([]int{1, -2}[r.IntN(2)]))).known(r)
		c.fixed[0] = c.fixed[1]
		return c
	},
	"QLinearSoftmax": func(r draws) contribTest {
		d := r.type8()
		z := r.ints(d, 0, 0)
		if d == ir.I8 {
			z = r.ints(d, -128, -128)
		}
		return contrib("QLinearSoftmax", 1, []*ir.Tensor{r.codes(d, 2, 3, 6), r.scales(0.03), r.zero(d), r.scales(1. / 256), z},
			intAttr("axis", int64([]int{-1, 1, 2}[r.IntN(3)])), intAttr("opset", int64([]int{11, 13}[r.IntN(2)]))).known(r, 1, 2, 3, 4)
	},
	"QLinearWhere": func(r draws) contribTest {
		d := r.type8()
		return contrib("QLinearWhere", 1, []*ir.Tensor{r.ints(ir.Bool, 0, 1, 3, 1), r.codes(d, 3, 4), r.scales(0.05), r.zero(d), r.codes(d, 4), r.scales(0.05), r.zero(d),
			r.scales(0.05), r.zero(d)}).known(r, 2, 3, 5, 6, 7, 8)
	},
	"QGemm": func(r draws) contribTest {
		d, w, m, k, n := r.type8(), r.type8(), r.between(1, 4), r.between(1, 9), r.between(1, 5)
		if d == ir.I8 {
			w = ir.I8 // ONNX Runtime has no other
		}
		scales, zeros := r.scales(0.02), r.zero(w)
		if w == ir.U8 {
			zeros = r.ints(w, 90, 100)
		}
		if r.coin() {
			scales, zeros = r.scales(0.02, n), fromInts(w, []int{n}, slices.Repeat(int64s(zeros), n))
		}
		a, b := []int{m, k}, []int{k, n}
		attrs := []*onnxpb.AttributeProto{intAttr("transA", int64(r.IntN(2))), intAttr("transB", int64(r.IntN(2))), floatAttr("alpha", []float32{1, 0.5}[r.IntN(2)])}
		if attrs[0].I == 1 {
			slices.Reverse(a)
		}
		if attrs[1].I == 1 {
			slices.Reverse(b)
		}
		in := []*ir.Tensor{r.codes(d, a...), r.scales(0.05), r.zero(d), r.weights(w, b...), scales, zeros,
			r.optional(r.ints(ir.I32, -2000, 2000, [][]int{{n}, {1, n}, {m, n}}[r.IntN(3)]...))}
		if r.coin() {
			return contrib("QGemm", 1e-5, in, attrs...).known(r)
		}
		return contrib("QGemm", 1, append(in, r.scales(0.1), r.zero(d)), attrs...).known(r)
	},
	"QLinearConv": func(r draws) contribTest {
		d, w, c, o, last := r.type8(), ir.I8, r.between(1, 3), r.between(1, 4), r.coin()
		shape := []int{2, c, 5, 6}
		attrs := []*onnxpb.AttributeProto{intsAttr("strides", int64(r.between(1, 2)), 1), intsAttr("pads", 1, int64(r.IntN(2)), 0, 1)}
		if last {
			attrs = append(attrs, intAttr("channels_last", 1))
			shape = permutedInts(shape, channelsLast(4))
		}
		scales := r.scales(0.02)
		if r.coin() {
			scales = r.scales(0.02, o)
		}
		return contrib("QLinearConv", 1, []*ir.Tensor{r.codes(d, shape...), r.scales(0.05), r.zero(d), r.weights(w, o, c, 3, 3), scales, ir.Zeros(w, scales.Shape...),
			r.scales(0.1), r.zero(d), r.optional(r.ints(ir.I32, -2000, 2000, o))}, attrs...).known(r, 1, 2, 3, 4, 5, 6, 7, 8)
	},
	"QuantizeLinear": func(r draws) contribTest {
		d := []ir.DType{ir.I8, ir.U8, ir.I16, ir.U16}[r.IntN(4)]
		return contrib("QuantizeLinear", 0, []*ir.Tensor{r.floats(3, 4), r.scales(0.01, 4), r.ints(d, 0, 100, 4)}, intAttr("axis", 1)).known(r)
	},
	"DequantizeLinear": func(r draws) contribTest {
		d := []ir.DType{ir.I8, ir.U8, ir.I16, ir.U16}[r.IntN(4)]
		return contrib("DequantizeLinear", 1e-6, []*ir.Tensor{r.codes(d, 3, 4), r.scales(0.01, 4), r.ints(d, 0, 100, 4)}, intAttr("axis", 1)).known(r)
	},
	"MatMulIntegerToFloat": func(r draws) contribTest {
		d, w, n := r.type8(), r.type8(), r.between(1, 5)
		if d == ir.I8 {
			w = ir.I8
		}
		scales, zeros := r.scales(0.02), r.optional(r.ints(w, 64, 127))
		if r.coin() {
			scales = r.scales(0.02, n)
			if zeros != nil {
				zeros = r.ints(w, 64, 100, n)
			}
		}
		return contrib("MatMulIntegerToFloat", 1e-5, []*ir.Tensor{r.codes(d, 2, 3, 7), r.weights(w, 7, n), r.scales(0.05), scales, r.optional(r.zero(d)), zeros,
			r.optional(r.floats(n))}).known(r)
	},
	"DynamicQuantizeMatMul": func(r draws) contribTest {
		w, n := r.type8(), r.between(1, 5)
		scales, zeros := r.scales(0.02), r.optional(r.ints(w, 64, 127))
		if r.coin() {
			scales = r.scales(0.02, n)
			if zeros != nil {
				zeros = r.ints(w, 64, 100, n)
			}
		}
		return contrib("DynamicQuantizeMatMul", 1e-4, []*ir.Tensor{r.floats(2, 3, 7), r.weights(w, 7, n), scales, zeros, r.optional(r.floats(n))}).known(r)
	},
	"MatMulNBits": func(r draws) contribTest {
		bits, block := []int{4, 8}[r.IntN(2)], 16<<r.IntN(3)
		k, n := r.between(1, 80), r.between(1, 20)
		blocks := (k + block - 1) / block
		var zeros *ir.Tensor
		switch r.IntN(3) {
		case 0:
			zeros = r.codes(ir.U8, n, (blocks*bits+7)/8)
		case 1:
			if bits == 4 { // ONNX Runtime has no others
				zeros = r.scales(7, n, blocks)
			}
		}
		return contrib("MatMulNBits", 1e-5, []*ir.Tensor{r.floats(2, 3, k), r.codes(ir.U8, n, blocks, block*bits/8), r.scales(0.1, n, blocks), zeros, nil, r.optional(r.floats(n))},
			intAttr("K", int64(k)), intAttr("N", int64(n)), intAttr("block_size", int64(block)), intAttr("bits", int64(bits)), intAttr("accuracy_level", 1)).known(r, 1, 2, 3, 5)
	},
	"FusedConv": func(r draws) contribTest {
		o := r.between(1, 4)
		attrs := []*onnxpb.AttributeProto{intsAttr("kernel_shape", 3, 3), intsAttr("pads", 1, 1, 1, 1)}
		switch r.IntN(6) {
		case 0:
			attrs = append(attrs, strAttr("activation", "Relu"))
		case 1:
			attrs = append(attrs, strAttr("activation", "Tanh"))
		case 2:
			attrs = append(attrs, strAttr("activation", "Sigmoid"))
		case 3:
			attrs = append(attrs, strAttr("activation", "LeakyRelu"), floatsAttr("activation_params", 0.25))
		case 4:
			attrs = append(attrs, strAttr("activation", "Clip"), floatsAttr("activation_params", -0.5, 0.75))
		case 5:
			attrs = append(attrs, strAttr("activation", "HardSigmoid"), floatsAttr("activation_params", 0.3, 0.4))
		}
		return contrib("FusedConv", 1e-5, []*ir.Tensor{r.floats(1, 2, 5, 5), r.floats(o, 2, 3, 3), r.floats(o), r.optional(r.floats(1, o, 5, 5))}, attrs...).known(r)
	},
	"FusedGemm": func(r draws) contribTest {
		attrs := []*onnxpb.AttributeProto{intAttr("transB", 1), floatAttr("alpha", 0.5), floatAttr("beta", 2)}
		switch r.IntN(4) {
		case 0:
			attrs = append(attrs, strAttr("activation", "Relu"))
		case 1:
			attrs = append(attrs, strAttr("activation", "LeakyRelu"), floatAttr("activation_alpha", 0.25))
		case 2:
			attrs = append(attrs, strAttr("activation", "HardSigmoid"), floatAttr("activation_alpha", 0.25), floatAttr("activation_beta", 0.4))
		case 3:
			attrs = append(attrs, strAttr("activation", "Tanh"))
		}
		return contrib("FusedGemm", 1e-5, []*ir.Tensor{r.floats(3, 4), r.floats(5, 4), r.floats(5)}, attrs...).known(r)
	},
	"FusedMatMul": func(r draws) contribTest {
		// A matrix product [2,3,M,K]·[2,3,K,N], its operands as they come.
		operand := func(rows, cols int, batch, matrix bool) *ir.Tensor {
			s := []int{2, 3, rows, cols}
			if matrix {
				s[2], s[3] = s[3], s[2]
			}
			if batch {
				s = []int{s[2], s[0], s[1], s[3]}
			}
			return r.floats(s...)
		}
		ab, am, bb, bm := r.coin(), r.coin(), r.coin(), r.coin()
		flag := func(name string, v bool) *onnxpb.AttributeProto {
			if v {
				return intAttr(name, 1)
			}
			return intAttr(name, 0)
		}
		return contrib("FusedMatMul", 1e-5, []*ir.Tensor{operand(4, 5, ab, am), operand(5, 2, bb, bm)}, floatAttr("alpha", 0.5),
			flag("transBatchA", ab), flag("transA", am), flag("transBatchB", bb), flag("transB", bm)).known(r)
	},
	"Gelu": func(r draws) contribTest { return contrib("Gelu", 1e-5, []*ir.Tensor{r.floats(3, 4)}) },
	"BiasGelu": func(r draws) contribTest {
		return contrib("BiasGelu", 1e-5, []*ir.Tensor{r.floats(3, 4), r.floats(4)}).known(r)
	},
	"FastGelu": func(r draws) contribTest {
		return contrib("FastGelu", 1e-5, []*ir.Tensor{r.floats(3, 4), r.optional(r.floats(4))}).known(r)
	},
	"QuickGelu": func(r draws) contribTest {
		return contrib("QuickGelu", 1e-5, []*ir.Tensor{r.floats(3, 4)}, floatAttr("alpha", float32(r.Float64())))
	},
	"SkipLayerNormalization": func(r draws) contribTest {
		skip := [][]int{{2, 3, 8}, {1, 3, 8}, {3, 8}}[r.IntN(3)]
		c := contrib("SkipLayerNormalization", 1e-4, []*ir.Tensor{r.floats(2, 3, 8), r.floats(skip...), r.floats(8), r.optional(r.floats(8)), r.optional(r.floats(8))},
			floatAttr("epsilon", 1e-5)).known(r)
		return c.giving(4)
	},
	"SkipSimplifiedLayerNormalization": func(r draws) contribTest {
		shape := [][]int{{2, 3, 8}, {3, 8}}[r.IntN(2)]
		return contrib("SkipSimplifiedLayerNormalization", 1e-4, []*ir.Tensor{r.floats(shape...), r.floats(shape...), r.floats(8), r.optional(r.floats(8))}, floatAttr("epsilon", 1e-5)).known(r).giving(4)
	},
	"SimplifiedLayerNormalization": func(r draws) contribTest {
		c := contrib("SimplifiedLayerNormalization", 1e-4, []*ir.Tensor{r.floats(2, 3, 8), r.floats(8)}, floatAttr("epsilon", 1e-5), intAttr("axis", -1), intAttr("stash_type", 1)).known(r)
		c.domain, c.opset = "", 21
		return c
	},
	"EmbedLayerNormalization": func(r draws) contribTest {
		in := []*ir.Tensor{r.ints(ir.I32, 0, 8, 2, 4), nil, r.floats(9, 8), r.floats(6, 8), nil, r.floats(8), r.floats(8), nil, nil}
		if r.coin() {
			in[1], in[4] = r.ints(ir.I32, 0, 1, 2, 4), r.floats(2, 8)
		}
		if r.coin() {
			in[7] = fromInts(ir.I32, []int{2, 4}, []int64{1, 1, 1, 0, 1, 1, 1, 1})
		}
		if r.coin() {
			in[8] = r.ints(ir.I32, 0, 5, r.between(1, 2), 4)
		}
		return contrib("EmbedLayerNormalization", 1e-4, in, floatAttr("epsilon", 1e-5)).known(r).giving(3)
	},
	"RotaryEmbedding": func(r draws) contribTest {
		const heads, size, positions = 2, 8, 10
		shape, turned := [][]int{{2, 3, heads * size}, {2, heads, 3, size}}[r.IntN(2)], []int{0, 4}[r.IntN(2)]
		half := size / 2
		attrs := []*onnxpb.AttributeProto{intAttr("interleaved", int64(r.IntN(2)))}
		if turned > 0 {
			half = turned / 2
			attrs = append(attrs, intAttr("rotary_embedding_dim", int64(turned)), intAttr("num_heads", heads))
		}
		at := r.ints(ir.I64, 0, positions-1, 2, 3)
		if r.coin() {
			at = r.ints(ir.I64, 0, positions-3, 1)
		}
		return contrib("RotaryEmbedding", 1e-5, []*ir.Tensor{r.floats(shape...), at, r.floats(positions, half), r.floats(positions, half)}, attrs...).known(r)
	},
	"Attention": func(r draws) contribTest {
		const batch, queries, in, heads, size = 2, 3, 6, 2, 4
		past := []int{0, 2}[r.IntN(2)]
		operands := []*ir.Tensor{r.floats(batch, queries, in), r.floats(in, 3*heads*size), r.floats(3 * heads * size), nil, nil, nil} // ONNX Runtime crashes without biases
		attrs := []*onnxpb.AttributeProto{intAttr("num_heads", heads), intAttr("unidirectional", int64(r.IntN(2)))}
		results := 1
		if past > 0 {
			operands[4], results = r.floats(2, batch, heads, past, size), 2
		} else if r.coin() {
			operands[1], operands[2] = r.floats(in, 2*heads*size+heads*3), r.floats(2*heads*size+heads*3)
			attrs = append(attrs, intsAttr("qkv_hidden_sizes", heads*size, heads*size, heads*3))
		}
		operands[3] = r.mask(batch, queries, past+queries)
		if past == 0 { // ONNX Runtime takes only one of the two
			operands[5] = r.optional(r.floats(r.between(1, batch), []int{1, heads}[r.IntN(2)], queries, queries))
		}
		if r.coin() {
			attrs = append(attrs, floatAttr("scale", 0.3))
		}
		return contrib("Attention", 1e-4, operands, attrs...).known(r).giving(results)
	},
	"MultiHeadAttention": func(r draws) contribTest {
		const batch, queries, heads, size = 2, 3, 2, 4
		attrs := []*onnxpb.AttributeProto{intAttr("num_heads", heads)}
		keys, past, results := queries, 0, 1
		in := make([]*ir.Tensor, 8)
		switch r.IntN(2) {
		case 0:
			keys = 5
			in[0], in[1], in[2] = r.floats(batch, queries, heads*size), r.floats(batch, heads, keys, size), r.floats(batch, heads, keys, size)
		case 1:
			v := heads * r.between(3, 4)
			in[0], in[1], in[2] = r.floats(batch, queries, heads*size), r.floats(batch, keys, heads*size), r.floats(batch, keys, v)
			in[3] = r.optional(r.floats(2*heads*size + v))
			if v == heads*size && r.coin() {
				past, results = 2, 3
				in[6], in[7] = r.floats(batch, heads, past, size), r.floats(batch, heads, past, size)
				attrs = append(attrs, intAttr("unidirectional", int64(r.IntN(2))))
			}
		}
		in[4] = r.mask(batch, queries, past+keys)
		if in[4] != nil && len(in[4].Shape) == 1 && in[4].Shape[0] != batch {
			in[4] = nil
		}
		in[5] = r.optional(r.floats(r.between(1, batch), []int{1, heads}[r.IntN(2)], queries, past+keys))
		return contrib("MultiHeadAttention", 1e-4, in, attrs...).known(r).giving(results)
	},
	"GroupQueryAttention": func(r draws) contribTest {
		const kv, size, positions = 2, 32, 16
		heads, batch := kv*r.between(1, 2), r.between(1, 2)
		queries, past, spare := r.between(1, 4), 0, 0
		if r.coin() {
			past, spare = r.between(1, 4), r.IntN(3)
			if batch > 1 || spare > 0 {
				queries = 1
			}
		}
		in := make([]*ir.Tensor, 12)
		if r.coin() {
			in[0] = r.floats(batch, queries, (heads+2*kv)*size)
		} else {
			in[0], in[1], in[2] = r.floats(batch, queries, heads*size), r.floats(batch, queries, kv*size), r.floats(batch, queries, kv*size)
		}
		if past > 0 || r.coin() {
			capacity := past
			if spare > 0 {
				capacity = past + queries + spare
			}
			in[3], in[4] = r.floats(batch, kv, capacity, size), r.floats(batch, kv, capacity, size)
			for i := range batch * kv { // ONNX Runtime keeps nothing beyond where it writes in place
				clear(ir.Data[float32](in[3])[(i*capacity+past)*size : (i+1)*capacity*size])
				clear(ir.Data[float32](in[4])[(i*capacity+past)*size : (i+1)*capacity*size])
			}
		}
		total := past + queries
		in[5], in[6] = r.ints(ir.I32, total-1, total-1, batch), r.ints(ir.I32, total, total)
		attrs := []*onnxpb.AttributeProto{intAttr("num_heads", int64(heads)), intAttr("kv_num_heads", kv)}
		if r.coin() {
			half := []int{size / 2, size / 4}[r.IntN(2)]
			attrs = append(attrs, intAttr("do_rotary", 1), intAttr("rotary_interleaved", int64(r.IntN(2))))
			in[7], in[8] = r.floats(positions, half), r.floats(positions, half)
			if past > 0 && r.coin() {
				in[9] = r.ints(ir.I64, 0, positions-1, batch, queries)
			}
		}
		if r.coin() {
			attrs = append(attrs, intAttr("local_window_size", int64(r.between(1, 5))))
		}
		if r.coin() {
			attrs = append(attrs, floatAttr("softcap", 3))
		}
		if r.coin() {
			attrs = append(attrs, floatAttr("scale", 0.5))
		}
		in[10] = r.optional(r.floats(1, []int{1, heads}[r.IntN(2)], queries, total))
		switch r.IntN(3) {
		case 0:
			attrs = append(attrs, intAttr("smooth_softmax", 1))
		case 1:
			in[11] = r.floats(heads)
		}
		c := contrib("GroupQueryAttention", 1e-4, in, attrs...).known(r, 5, 6)
		if batch == 1 {
			c.fixed[5] = r.coin()
		}
		return c.giving(3)
	},
}

// mask draws one of the forms that attentions take, perhaps none.
func (r draws) mask(batch, queries, keys int) *ir.Tensor {
	switch r.IntN(5) {
	case 0:
		return r.ints(ir.I32, 1, keys, batch)
	case 1:
		m := r.ints(ir.I32, keys-1, keys, 2*batch)
		for i := range batch {
			ir.Data[int32](m)[batch+i] = int32(r.IntN(2))
		}
		return m
	case 2, 3:
		m := r.ints(ir.I32, 0, 1, batch, keys)
		if r.coin() {
			m = r.ints(ir.I32, 0, 1, batch, queries, keys)
		}
		// Where all is hidden, only what numbers near −10000 round to is left.
		for i := 0; i < m.Numel(); i += keys {
			ir.Data[int32](m)[i] = 1
		}
		return m
	}
	return nil
}

func (r draws) qLinearPair(op string) contribTest {
	d := r.type8()
	b := [][]int{{2, 3, 4}, {4}, {3, 1}, {}}[r.IntN(4)]
	scale := 0.05
	if op == "QLinearMul" {
		scale = 0.3
	}
	return contrib(op, 1, []*ir.Tensor{r.codes(d, 2, 3, 4), r.scales(0.05), r.zero(d), r.codes(d, b...), r.scales(0.05), r.zero(d),
		r.scales(scale), r.zero(d)}).known(r)
}

func permutedInts(s, perm []int) []int {
	out := make([]int, len(perm))
	for i, p := range perm {
		out[i] = s[p]
	}
	return out
}

// needORT skips a test where ONNX Runtime is not at hand.
func needORT(t *testing.T) {
	shared(t, "tools", "ort")
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("needs node: %v", err)
	}
	if _, err := ort.Dir(); err != nil {
		t.Skipf("needs ONNX Runtime for node: %v", err)
	}
}

// runORT runs nodes in ONNX Runtime, all in one model, and returns the results of
// each.
func runORT(t *testing.T, tests []contribTest) [][]*ir.Tensor {
	t.Helper()
	g := &onnxpb.GraphProto{Name: "tests"}
	dir := t.TempDir()
	inputs := 0
	for i, n := range tests {
		p := &onnxpb.NodeProto{Name: fmt.Sprint("n", i), OpType: n.op, Domain: n.domain, Attribute: n.attrs}
		for k, x := range n.in {
			if x == nil {
				p.Input = append(p.Input, "")
				continue
			}
			name := fmt.Sprintf("n%d_x%d", i, k)
			p.Input = append(p.Input, name)
			if k < len(n.fixed) && n.fixed[k] {
				g.Initializer = append(g.Initializer, EncodeTensor(name, x))
				continue
			}
			v := valueInfo(name, int64List(x.Shape)...)
			v.Type.GetTensorType().ElemType = int32(protoDType(x.DType))
			if len(x.Shape) == 0 {
				v.Type.GetTensorType().Shape = &onnxpb.TensorShapeProto{}
			}
			g.Input = append(g.Input, v)
			if err := WriteTensorFile(filepath.Join(dir, fmt.Sprintf("input_%d.pb", inputs)), name, x); err != nil {
				t.Fatal(err)
			}
			inputs++
		}
		for k := range max(n.results, 1) {
			name := fmt.Sprintf("n%d_y%d", i, k)
			if !n.wanted(k) {
				name = ""
			} else {
				g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
			}
			p.Output = append(p.Output, name)
		}
		g.Node = append(g.Node, p)
	}
	m := modelOf(21, g)
	m.IrVersion = 10
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: contribDomain, Version: 1})
	path := filepath.Join(dir, "model.onnx")
	if err := WriteModel(path, m); err != nil {
		t.Fatal(err)
	}
	if err := ort.Run(path, dir); err != nil {
		text := err.Error()
		t.Fatal(text[:min(len(text), 3000)])
	}
	var all [][]*ir.Tensor
	at := 0
	for _, n := range tests {
		var out []*ir.Tensor
		for k := range max(n.results, 1) {
			if !n.wanted(k) {
				out = append(out, nil)
				continue
			}
			_, y, err := ReadTensorFile(filepath.Join(dir, fmt.Sprintf("output_%d.pb", at)))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, y)
			at++
		}
		all = append(all, out)
	}
	return all
}

// wanted reports whether a test asks for result k: those that only training uses
// are left out.
func (n nodeTest) wanted(k int) bool { return !strings.HasPrefix(n.op, "Skip") || k != 1 && k != 2 }

// TestContribORT compares contributed operators with ONNX Runtime on random cases.
// Floats agree to rounding. Codes may differ by one, which a softmax makes use of: ONNX
// Runtime's sums exponentials from a table, rounded to integers.
func TestContribORT(t *testing.T) {
	needORT(t)
	const each = 12
	var tests []contribTest
	for _, op := range slices.Sorted(maps.Keys(contribCases)) {
		r := draws{rand.New(rand.NewPCG(1, uint64(len(op))))}
		for range each {
			tests = append(tests, contribCases[op](r))
		}
	}
	wants := runORT(t, tests)
	codes, apart := map[string]int{}, map[string]int{}
	for i, n := range tests {
		what := fmt.Sprintf("%s %v %v constants %v", n.op, n.attrs, shapesOf(n.in), n.fixed)
		got, err := n.run()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for k, want := range wants[i] {
			if want == nil {
				continue
			}
			y := got[0]
			got = got[1:]
			if y.DType != want.DType || !slices.Equal(y.Shape, want.Shape) {
				t.Errorf("%s: result %d is %v, want %v", what, k, y.Type(), want.Type())
				continue
			}
			near, a, b := n.near, numbers(y), numbers(want)
			if y.DType.IsFloat() {
				largest := 0.0
				for _, v := range b {
					largest = max(largest, math.Abs(v))
				}
				near *= largest
			}
			for j := range a {
				if n.near == 1 {
					codes[n.op]++
					if a[j] != b[j] {
						apart[n.op]++
					}
				}
				if !(math.Abs(a[j]-b[j]) <= near) {
					t.Errorf("%s: result %d: element %d is %v, want %v\ngot  %.5v\nwant %.5v", what, k, j, a[j], b[j], a[:min(len(a), 40)], b[:min(len(b), 40)])
					break
				}
			}
		}
	}
	for _, op := range slices.Sorted(maps.Keys(codes)) {
		t.Logf("%s: %d of %d codes differ by one", op, apart[op], codes[op])
	}
}

// TestContribDefinitions covers what ONNX Runtime does not execute on a CPU: forms
// that must equal other forms, and functions by their definition.
func TestContribDefinitions(t *testing.T) {
	r := draws{rand.New(rand.NewPCG(3, 4))}
	run := func(op string, in []*ir.Tensor, attrs ...*onnxpb.AttributeProto) *ir.Tensor {
		t.Helper()
		c := contrib(op, 0, in, attrs...)
		out, err := c.run()
		if err != nil {
			t.Fatalf("%s of %v: %v", op, shapesOf(in), err)
		}
		return out[0]
	}
	standard := func(op string, in []*ir.Tensor, attrs ...*onnxpb.AttributeProto) *ir.Tensor {
		t.Helper()
		out, err := nodeTest{op: op, opset: 21, in: in, attrs: attrs}.run()
		if err != nil {
			t.Fatalf("%s of %v: %v", op, shapesOf(in), err)
		}
		return out[0]
	}
	equal := func(what string, got, want *ir.Tensor, near float64) {
		t.Helper()
		a, b := numbers(got), numbers(want)
		if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
			t.Fatalf("%s: %v, want %v", what, got.Type(), want.Type())
		}
		for i := range a {
			if !(math.Abs(a[i]-b[i]) <= near*max(1, math.Abs(b[i]))) {
				t.Fatalf("%s: element %d is %v, want %v", what, i, a[i], b[i])
			}
		}
	}
	permuted := func(x *ir.Tensor, perm ...int) *ir.Tensor { return permute(x, perm, false) }

	// Channels last.
	x, w, b := r.floats(2, 3, 6, 5), r.floats(4, 3, 3, 2), r.floats(4)
	last := permuted(x, channelsLast(4)...)
	pads := intsAttr("pads", 1, 0, 1, 1)
	y := permuted(standard("Conv", []*ir.Tensor{x, w, b}, pads), channelsLast(4)...)
	equal("NhwcConv", run("NhwcConv", []*ir.Tensor{last, w, b}, pads), y, 1e-6)
	relu := standard("Relu", []*ir.Tensor{standard("Add", []*ir.Tensor{y, y})})
	equal("NhwcFusedConv", run("NhwcFusedConv", []*ir.Tensor{last, w, b, y}, pads, strAttr("activation", "Relu")), relu, 1e-6)
	kernel, codes := intsAttr("kernel_shape", 3, 2), r.codes(ir.U8, 2, 3, 6, 5)
	equal("NhwcMaxPool", run("NhwcMaxPool", []*ir.Tensor{permuted(codes, channelsLast(4)...)}, kernel),
		permuted(standard("MaxPool", []*ir.Tensor{codes}, kernel), channelsLast(4)...), 0)

	// Biases.
	a, bias, skip := r.floats(2, 3, 8), r.floats(8), r.floats(2, 3, 8)
	sum := standard("Add", []*ir.Tensor{a, bias})
	equal("BiasAdd", run("BiasAdd", []*ir.Tensor{a, bias, skip}), standard("Add", []*ir.Tensor{sum, skip}), 0)
	halves := numbers(sum)
	var gated []float64
	for i := range 6 {
		for k := range 4 {
			g := halves[i*8+4+k]
			gated = append(gated, halves[i*8+k]*g/2*(1+math.Erf(g/math.Sqrt2)))
		}
	}
	equal("BiasSplitGelu", run("BiasSplitGelu", []*ir.Tensor{a, bias}), fromFloats(ir.F32, []int{2, 3, 4}, gated), 1e-5)
	equal("LayerNormalization", run("LayerNormalization", []*ir.Tensor{a, bias}), standard("LayerNormalization", []*ir.Tensor{a, bias}), 0)

	// Quantisation in blocks, to 4 bits.
	blocks, points := r.scales(0.1, 2, 3, 2), r.ints(ir.U4, 6, 9, 2, 3, 2)
	inBlocks := []*onnxpb.AttributeProto{intAttr("axis", 2), intAttr("block_size", 4)}
	codes4 := standard("QuantizeLinear", []*ir.Tensor{a, blocks, points}, inBlocks...)
	equal("QuantizeLinear", run("QuantizeLinear", []*ir.Tensor{a, blocks, points}, inBlocks...), codes4, 0)
	equal("DequantizeLinear", run("DequantizeLinear", []*ir.Tensor{codes4, blocks, points}, inBlocks...),
		standard("DequantizeLinear", []*ir.Tensor{codes4, blocks, points}, inBlocks...), 0)

	// Means of codes; zero points that are missing are 0.
	xs, ys := fromFloats(ir.F32, nil, []float64{0.5}), fromFloats(ir.F32, nil, []float64{0.25})
	q := r.ints(ir.I8, -20, 20, 2, 3, 4)
	var means []int64
	for i := range 2 {
		for k := range 4 {
			s := 0.0
			for j := range 3 {
				s += numbers(q)[(i*3+j)*4+k]
			}
			means = append(means, int64(math.RoundToEven(float64(float32(s*0.5)/3)/0.25)))
		}
	}
	equal("QLinearReduceMean", run("QLinearReduceMean", []*ir.Tensor{q, xs, nil, ys}, intsAttr("axes", -2), intAttr("keepdims", 0)), fromInts(ir.I8, []int{2, 4}, means), 0)
	zero := ir.Zeros(ir.I8)
	equal("QLinearAdd", run("QLinearAdd", []*ir.Tensor{q, xs, nil, q, ys, nil, ys}), run("QLinearAdd", []*ir.Tensor{q, xs, zero, q, ys, zero, ys, zero}), 0)

	// Weights of 8 bits with zero points that are floats.
	p := []*ir.Tensor{r.floats(16), r.codes(ir.U8, 2, 1, 16), r.scales(0.1, 2), fromInts(ir.U8, []int{2, 1}, []int64{100, 30})}
	sizes := []*onnxpb.AttributeProto{intAttr("K", 16), intAttr("N", 2), intAttr("block_size", 16), intAttr("bits", 8)}
	products := func(zeros *ir.Tensor) *ir.Tensor {
		c := contrib("MatMulNBits", 0, []*ir.Tensor{p[0], p[1], p[2], zeros}, sizes...)
		c.fixed = []bool{false, true, true, true}
		out, err := c.run()
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	equal("MatMulNBits", products(fromFloats(ir.F32, []int{2, 1}, []float64{100, 30})), products(p[3]), 0)

	// Packed queries, keys and values.
	const batch, n, heads, size = 2, 3, 2, 4
	count := intAttr("num_heads", heads)
	qkv := r.floats(batch, n, heads, 3, size)
	part := func(packed *ir.Tensor, of, i int) *ir.Tensor {
		var v []float64
		for k := range batch * n * heads {
			v = append(v, numbers(packed)[(k*of+i)*size:][:size]...)
		}
		return fromFloats(ir.F32, []int{batch, n, heads * size}, v)
	}
	apart := run("MultiHeadAttention", []*ir.Tensor{part(qkv, 3, 0), part(qkv, 3, 1), part(qkv, 3, 2)}, count)
	equal("packed QKV", run("MultiHeadAttention", []*ir.Tensor{qkv}, count), apart, 0)
	keys := r.floats(batch, n, heads, 2, size)
	apart = run("MultiHeadAttention", []*ir.Tensor{a, part(keys, 2, 0), part(keys, 2, 1)}, count)
	equal("packed KV", run("MultiHeadAttention", []*ir.Tensor{a, keys}, count), apart, 0)

	// Queries and keys normalised for each head.
	gamma := [2]*ir.Tensor{r.floats(size), r.floats(size)}
	normed := func(x, by *ir.Tensor) *ir.Tensor {
		c := contrib("SimplifiedLayerNormalization", 0, []*ir.Tensor{x.Reshaped(batch, n, heads, size), by}, floatAttr("epsilon", 1e-6))
		out, err := c.run()
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Reshaped(batch, n, heads*size)
	}
	k, v := r.floats(batch, n, heads*size), r.floats(batch, n, heads*size)
	lengths := fromInts(ir.I32, []int{batch}, []int64{n - 1, n - 1})
	gqa := func(in ...*ir.Tensor) *ir.Tensor {
		c := contrib("GroupQueryAttention", 0, in, count, intAttr("kv_num_heads", heads))
		c.fixed = []bool{5: true, 6: false}
		out, err := c.run()
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	equal("norms", gqa(a, k, v, nil, nil, lengths, nil, nil, nil, nil, nil, nil, nil, nil, gamma[0], gamma[1]), gqa(normed(a, gamma[0]), normed(k, gamma[1]), v, nil, nil, lengths), 1e-6)
}

// TestContribRefusals: what has no translation, or makes no sense, is refused by an
// error that says so.
func TestContribRefusals(t *testing.T) {
	r := draws{rand.New(rand.NewPCG(5, 6))}
	f, one := r.floats, intAttr("num_heads", 1)
	gqa := []*onnxpb.AttributeProto{intAttr("num_heads", 2), intAttr("kv_num_heads", 1)}
	ints := func(v ...int64) *ir.Tensor { return fromInts(ir.I32, []int{len(v)}, v) }
	nbits := func(k, n, block, bits int64) []*onnxpb.AttributeProto {
		return []*onnxpb.AttributeProto{intAttr("K", k), intAttr("N", n), intAttr("block_size", block), intAttr("bits", bits)}
	}
	packed := []*ir.Tensor{f(2, 16), r.codes(ir.U8, 3, 1, 8), f(3, 1)}
	scale, wide := r.scales(0.1), r.scales(0.1, 3)
	q := r.codes(ir.U8, 2, 3)
	huge := int64(math.MaxInt64)
	for _, test := range []struct {
		op    string
		in    []*ir.Tensor
		attrs []*onnxpb.AttributeProto
		want  string
	}{
		{"FusedConv", []*ir.Tensor{f(1, 1, 4, 4), f(1, 1, 3, 3)}, []*onnxpb.AttributeProto{strAttr("activation", "Swish")}, `activation "Swish"`},
		{"FusedConv", []*ir.Tensor{f(1, 1, 4, 4), f(1, 1, 3, 3)}, []*onnxpb.AttributeProto{strAttr("activation", "Relu"), floatsAttr("activation_params", 1)}, "takes 0 parameters"},
		{"FusedGemm", []*ir.Tensor{f(2, 3), f(3, 2)}, []*onnxpb.AttributeProto{strAttr("activation", "Relu"), floatAttr("activation_alpha", 1)}, "takes 0 parameters"},
		{"Gelu", []*ir.Tensor{f(3)}, []*onnxpb.AttributeProto{strAttr("approximate", "tanh")}, "unknown attribute approximate"},
		{"BiasSplitGelu", []*ir.Tensor{f(2, 3), f(3)}, nil, "even last dimension"},
		{"MatMulNBits", packed, nbits(16, 3, 16, 3), "bits 3"},
		{"MatMulNBits", packed, nbits(16, 3, 24, 4), "power of two"},
		{"MatMulNBits", packed, nbits(16, 3, 8, 4), "power of two from 16 on"},
		{"MatMulNBits", packed, nbits(16, 4, 16, 4), "B is u8[3,1,8]"},
		{"MatMulNBits", packed, nbits(huge, huge, huge, 4), "out of range"},
		{"MatMulNBits", packed, nbits(16, math.MaxInt32, 1<<30, 8), "B is"},
		{"MatMulNBits", packed, nbits(17, 3, 16, 4), "last dimension is K"},
		{"MatMulNBits", append(slices.Clone(packed), nil, ints(0)), nbits(16, 3, 16, 4), "g_idx"},
		{"MatMulNBits", packed, append(nbits(16, 3, 16, 4), intAttr("weight_prepacked", 1)), "weight_prepacked"},
		{"MatMulNBits", append(slices.Clone(packed), r.codes(ir.U8, 4)), nbits(16, 3, 16, 4), "zero_points are u8[4]"},
		{"QLinearAdd", []*ir.Tensor{q, scale, nil, q, scale, nil}, nil, "input 6 is missing"},
		{"QLinearAdd", []*ir.Tensor{q, wide, nil, q, scale, nil, scale}, nil, "want one scale"},
		{"QLinearAdd", []*ir.Tensor{q, scale, r.codes(ir.I8), q, scale, nil, scale}, nil, "the zero point is i8"},
		{"QLinearConcat", []*ir.Tensor{scale, r.codes(ir.U8), q, scale}, []*onnxpb.AttributeProto{intAttr("axis", 0)}, "4 operands"},
		{"QLinearConcat", []*ir.Tensor{scale, r.codes(ir.U8), q, scale, r.codes(ir.U8)}, []*onnxpb.AttributeProto{intAttr("axis", huge)}, "axis 9223372036854775807"},
		{"QLinearAveragePool", []*ir.Tensor{r.codes(ir.U8, 1, 1, 4, 4), scale, nil, scale}, nil, "kernel_shape is missing"},
		{"QGemm", []*ir.Tensor{q, scale, nil, r.codes(ir.U8, 2, 3, 1), scale}, nil, "want matrices"},
		{"QGemm", []*ir.Tensor{q, scale, nil, r.codes(ir.U8, 3, 2), scale, nil, f(2)}, nil, "is f32, want i32"},
		{"QGemm", []*ir.Tensor{q, scale, nil, r.codes(ir.U8, 3, 2), scale, nil, r.ints(ir.I32, 0, 9, 5, 2, 2)}, nil, "broadcast"},
		{"MatMulIntegerToFloat", []*ir.Tensor{q, r.codes(ir.U8, 3, 2), wide, scale}, nil, "want one scale"},
		{"SkipLayerNormalization", []*ir.Tensor{f(2, 3, 4), f(2, 3, 5), f(4)}, nil, "do not broadcast"},
		{"SkipLayerNormalization", []*ir.Tensor{f(3, 4), f(2, 3, 4), f(4)}, nil, "skip [2 3 4]"},
		{"EmbedLayerNormalization", []*ir.Tensor{r.ints(ir.I32, 0, 1, 2, 3), nil, f(2, 4), f(3, 4), nil, f(4)}, nil, "input 6 is missing"},
		{"EmbedLayerNormalization", []*ir.Tensor{r.ints(ir.I32, 0, 1, 2, 3), r.ints(ir.I32, 0, 1, 2, 3), f(2, 4), f(3, 4), nil, f(4), f(4)}, nil, "input 4 is missing"},
		{"RotaryEmbedding", []*ir.Tensor{f(1, 2, 8), r.ints(ir.I64, 0, 1, 1, 2), f(4, 4), f(4, 4)}, []*onnxpb.AttributeProto{floatAttr("scale", 2)}, "scale 2"},
		{"RotaryEmbedding", []*ir.Tensor{f(1, 2, 8), r.ints(ir.I64, 0, 1, 1, 2), f(4, 4), f(4, 4)}, []*onnxpb.AttributeProto{intAttr("is_packed_batching", 1)}, "is_packed_batching"},
		{"RotaryEmbedding", []*ir.Tensor{f(1, 2, 8), r.ints(ir.I64, 0, 1, 1, 2), f(4, 4), f(4, 4)}, []*onnxpb.AttributeProto{intAttr("num_heads", 3)}, "num_heads is 3"},
		{"Attention", []*ir.Tensor{f(1, 2, 4), f(4, 12)}, []*onnxpb.AttributeProto{intAttr("num_heads", 5)}, "num_heads is 5"},
		{"Attention", []*ir.Tensor{f(1, 2, 4), f(4, 12)}, []*onnxpb.AttributeProto{one, intsAttr("qkv_hidden_sizes", 4, huge, 4)}, "qkv_hidden_sizes"},
		{"Attention", []*ir.Tensor{f(1, 2, 4), f(4, 12)}, []*onnxpb.AttributeProto{one, intAttr("do_rotary", 1)}, "do_rotary"},
		{"Attention", []*ir.Tensor{f(1, 2, 4), f(4, 12), nil, r.ints(ir.I32, 0, 1, 5)}, []*onnxpb.AttributeProto{one}, "mask of shape [5]"},
		{"Attention", []*ir.Tensor{f(1, 2, 4), f(4, 12), nil, nil, nil, nil, ints(0)}, []*onnxpb.AttributeProto{one}, "past_present_share_buffer"},
		{"MultiHeadAttention", []*ir.Tensor{f(1, 2, 4), f(1, 2, 4)}, []*onnxpb.AttributeProto{one}, "3, 3 and 0 dimensions"},
		{"MultiHeadAttention", []*ir.Tensor{f(1, 2, 4), f(1, 2, 4), f(1, 2, 4), f(11)}, []*onnxpb.AttributeProto{one}, "dimension 0 of [11]"},
		{"MultiHeadAttention", []*ir.Tensor{f(1, 2, 4), f(1, 2, 4), f(1, 2, 4), nil, nil, nil, f(1, 1, 3, 4)}, []*onnxpb.AttributeProto{one}, "input 7 is missing"},
		{"MultiHeadAttention", []*ir.Tensor{f(1, 2, 4), f(1, 2, 4), f(1, 2, 4), nil, nil, f(3, 1, 2, 2)}, []*onnxpb.AttributeProto{one}, "attention_bias of shape [3 1 2 2]"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, []*onnxpb.AttributeProto{intAttr("num_heads", 2)}, "kv_num_heads 0"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, []*onnxpb.AttributeProto{intAttr("num_heads", math.MaxInt32), intAttr("kv_num_heads", math.MaxInt32)}, "packed queries"},
		{"GroupQueryAttention", []*ir.Tensor{f(2, 1, 16), nil, nil, nil, nil, ints(0, 1)}, gqa, "different lengths"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(math.MaxInt32)}, gqa, "2147483646 tokens of the past, but no cache"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(0)}, gqa, "1 tokens in all for 2 queries"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(4)}, gqa, "no cache"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, f(1, 1, 2, 4), f(1, 1, 2, 4), ints(4)}, gqa, "a cache of shape [1 1 2 4] for 3 tokens"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, append(gqa[:2:2], strAttr("k_quant_type", "PER_TENSOR")), "k_quant_type PER_TENSOR"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, append(gqa[:2:2], intAttr("sliding_window_cache", 1)), "sliding_window_cache"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, append(gqa[:2:2], intAttr("qk_output", 1)), "qk_output"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, append(gqa[:2:2], intAttr("do_rotary", 1)), "input 7 is missing"},
		{"GroupQueryAttention", []*ir.Tensor{f(1, 2, 16), nil, nil, nil, nil, ints(1)}, append(gqa[:2:2], intAttr("causal", 0), intAttr("local_window_size", 2)), "without causal"},
		{"DynamicQuantizeLSTM", []*ir.Tensor{f(1, 1, 1)}, nil, "DynamicQuantizeLSTM (com.microsoft"},
	} {
		c := contrib(test.op, 0, test.in, test.attrs...)
		c.fixed = append([]bool{false}, slices.Repeat([]bool{true}, len(c.in))...)
		if _, err := c.run(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v of %v: got %v, want an error with %q", test.op, test.attrs, shapesOf(test.in), err, test.want)
		}
	}
	// What only a run can tell is left to the host.
	c := contrib("GroupQueryAttention", 0, []*ir.Tensor{f(2, 1, 16), nil, nil, nil, nil, ints(0, 0)}, gqa...)
	if _, err := c.run(); err == nil || !strings.Contains(err.Error(), "seqlens_k must be a constant for a batch of more than one") {
		t.Errorf("got %v", err)
	}
}

// TestContribMutations changes operands and attributes of sensible nodes to others
// at random. They may be refused, but nothing else may happen.
func TestContribMutations(t *testing.T) {
	r := draws{rand.New(rand.NewPCG(9, 9))}
	types := []ir.DType{ir.F32, ir.F16, ir.F64, ir.I8, ir.U8, ir.I32, ir.I64, ir.Bool}
	numbers := []int64{-1, 0, 1, 2, 3, 7, 1 << 20, math.MaxInt32, math.MaxInt64, math.MinInt64}
	for _, op := range slices.Sorted(maps.Keys(contribCases)) {
		for range 60 {
			c := contribCases[op](r)
			for range r.between(1, 2) {
				if k := r.IntN(len(c.in) + len(c.attrs)); k < len(c.in) {
					switch r.IntN(3) {
					case 0:
						c.in[k] = nil
					default:
						shape := make([]int, r.IntN(5))
						for i := range shape {
							shape[i] = r.IntN(5)
						}
						c.in[k] = r.ints(types[r.IntN(len(types))], 0, 3, shape...)
					}
				} else if a := c.attrs[k-len(c.in)]; a.Type == onnxpb.AttributeProto_INT {
					a.I = numbers[r.IntN(len(numbers))]
				} else if a.Type == onnxpb.AttributeProto_INTS {
					a.Ints = a.Ints[:r.IntN(len(a.Ints)+1)]
				}
			}
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s %v of %v: panic: %v", op, c.attrs, shapesOf(c.in), p)
					}
				}()
				c.run()
			}()
		}
	}
}

// TestContribModels: models as ONNX Runtime writes them after its fusions give the
// recorded outputs of the models they were made of.
func TestContribModels(t *testing.T) {
	needORT(t)
	models := map[string][]string{ // with some of the operators that fusions give them
		"bert-toy-6l":                     {"Attention", "BiasGelu", "FusedGemm", "SkipLayerNormalization"},
		"gpt2-12l-tiny":                   {"FusedMatMul"},
		"cifar10-resnet20-bn":             {"FusedConv"},
		"yolox-nano-416":                  {"QuickGelu"},
		"self-char-gpt-4l-dynq":           {"DynamicQuantizeMatMul", "Gelu"},
		"mlperf-tiny-ic-resnet8-int8-qdq": {"QLinearAdd", "QLinearSoftmax"},
	}
	dir := t.TempDir()
	written := func(name string) string { return filepath.Join(dir, name+".onnx") }
	var pairs []string
	for name := range models {
		pairs = append(pairs, filepath.Join(shared(t, "onnx", "models", name), "model.onnx"), written(name))
	}
	if err := ort.Optimise(pairs...); err != nil {
		t.Fatal(err)
	}
	for name, ops := range models {
		t.Run(name, func(t *testing.T) {
			m, err := Load(written(name))
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range ops {
				if !slices.ContainsFunc(m.Proto.Graph.Node, func(n *onnxpb.NodeProto) bool { return n.Domain == contribDomain && n.OpType == op }) {
					t.Errorf("ONNX Runtime wrote no %s", op)
				}
			}
			ds, err := runSet(m, filepath.Join(shared(t, "onnx", "models", name), "test_data_set_0"), false)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range ds {
				if d.relative > cmp.Or(bounds[name], 1e-4) && (d.step == 0 || d.off > 1e-3) {
					t.Errorf("output %d: relative error %.3g, %.3g of all are more than a step away", i, d.relative, d.off)
				}
			}
		})
	}
}
