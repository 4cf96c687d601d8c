package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"situ/frontend/onnx"
	"situ/frontend/onnx/onnxpb"
	"situ/ir"
	"situ/ir/irtest"
)

// contrib appends a node of ONNX Runtime's own operators.
func (g *graphOf) contrib(s string, attrs map[string]any) {
	g.node(s, attrs)
	g.p.Node[len(g.p.Node)-1].Domain = "com.microsoft"
}

func (g *graphOf) tensor(name string, t *ir.Tensor) {
	g.p.Initializer = append(g.p.Initializer, onnx.EncodeTensor(name, t))
}

// quant adds a scale and a zero point, named after what they belong to, and returns
// the three as operands.
func (g *graphOf) quant(name string, scale float32, zero uint8) string {
	g.tensor(name+"_s", ir.NewTensor(ir.F32, nil, []float32{scale}))
	g.tensor(name+"_z", ir.NewTensor(ir.U8, nil, []uint8{zero}))
	return fmt.Sprintf("%s, %s_s, %s_z", name, name, name)
}

// codedWeights adds int8 weights with a scale a channel, such that sums are near
// one, and returns the three as operands.
func (g *graphOf) codedWeights(name string, shape ...int) string {
	fan := ir.Numel(shape[1:])
	codes := make([]int8, ir.Numel(shape))
	for i := range codes {
		codes[i] = int8(g.rng.IntN(241) - 120)
	}
	scales := make([]float32, shape[0])
	for i := range scales {
		scales[i] = float32((0.8 + 0.4*g.rng.Float64()) / (70 * math.Sqrt(float64(fan))))
	}
	g.tensor(name, ir.NewTensor(ir.I8, shape, codes))
	g.tensor(name+"_s", ir.NewTensor(ir.F32, []int{shape[0]}, scales))
	g.tensor(name+"_z", ir.NewTensor(ir.I8, []int{shape[0]}, make([]int8, shape[0])))
	return fmt.Sprintf("%s, %s_s, %s_z", name, name, name)
}

// qOperator is a small network as ONNX Runtime's quantiser writes it in the format
// QOperator: residual, gate of channels, two branches, classifier.
func qOperator() *graphOf {
	g := newGraph()
	g.p.Input = []*onnxpb.ValueInfoProto{infoOf("x", float, 1, 3, 12, 12)}
	g.p.Output = []*onnxpb.ValueInfoProto{infoOf("y", float, 1, 10)}
	of := map[string]string{"q": g.quant("q", 0.03, 128)} // codes with their scale and zero point
	qconv := func(from, to string, out, in, kernel int, attrs map[string]any) {
		w := g.codedWeights(to+"_w", out, in, kernel, kernel)
		of[to] = g.quant(to, 0.03, 120)
		g.tensor(to+"_b", ir.NewTensor(ir.I32, []int{out}, slices.Repeat([]int32{100}, out)))
		g.node(fmt.Sprintf("QLinearConv(%s, %s, %s_s, %s_z, %s_b) %s", of[from], w, to, to, to, to), attrs)
	}
	apply := func(op, from, to string, scale float32, zero uint8, attrs map[string]any) {
		of[to] = g.quant(to, scale, zero)
		g.contrib(fmt.Sprintf("%s(%s, %s_s, %s_z) %s", op, from, to, to, to), attrs)
	}
	same := map[string]any{"pads": []int{1, 1, 1, 1}}
	g.node("QuantizeLinear(x, q_s, q_z) q", nil)
	qconv("q", "c1", 16, 3, 3, same)
	apply("QLinearLeakyRelu", of["c1"], "l1", 0.025, 30, map[string]any{"alpha": float32(0.1)})
	qconv("l1", "c2", 16, 16, 3, same)
	apply("QLinearAdd", of["c2"]+", "+of["l1"], "sum", 0.04, 100, nil)
	apply("QLinearGlobalAveragePool", of["sum"], "mean", 0.01, 110, nil)
	qconv("mean", "squeezed", 16, 16, 1, nil)
	apply("QLinearSigmoid", of["squeezed"], "gate", 1./256, 0, nil)
	apply("QLinearMul", of["sum"]+", "+of["gate"], "gated", 0.03, 90, nil)
	apply("QLinearAveragePool", of["gated"], "pooled", 0.02, 90, map[string]any{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}})
	qconv("pooled", "left", 8, 16, 1, nil)
	qconv("pooled", "right", 8, 16, 3, same)
	of["joined"] = g.quant("joined", 0.03, 128)
	g.contrib(fmt.Sprintf("QLinearConcat(joined_s, joined_z, %s, %s) joined", of["left"], of["right"]), map[string]any{"axis": 1})
	apply("QLinearGlobalAveragePool", of["joined"], "features", 0.01, 128, nil)
	g.node("Flatten(features) flat", nil)
	w := g.codedWeights("fc", 10, 16)
	g.tensor("fc_b", ir.NewTensor(ir.I32, []int{10}, []int32{0, 100, -100, 50, 0, 0, 7, -9, 300, 1}))
	of["scores"] = g.quant("scores", 0.02, 128)
	g.contrib(fmt.Sprintf("QGemm(flat, features_s, features_z, %s, fc_b, scores_s, scores_z) scores", w), map[string]any{"transB": 1})
	apply("QLinearSoftmax", of["scores"], "shares", 1./256, 0, map[string]any{"axis": -1, "opset": 13})
	g.node("DequantizeLinear(shares, shares_s, shares_z) y", nil)
	return g
}

// TestQOperator: such a network computes on codes from end to end, with the same
// bits on a chip and in the evaluator, close to what the operators say.
func TestQOperator(t *testing.T) {
	ctx := context.Background()
	m := qOperator().model(t)
	var samples [][]*ir.Tensor
	g := newGraph()
	for range 4 {
		samples = append(samples, []*ir.Tensor{irtest.Tensor(g.rng, 1.5, 1, 3, 12, 12)})
	}
	p, err := prepare(ctx, m, QuantOptions{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Fallback) > 0 {
		t.Errorf("stays in float32: %v", p.Fallback)
	}
	for _, op := range p.Fixed.Ops {
		if op.Kind != ir.Quantize && op.Kind != ir.Dequantize && p.Fixed.Type(op.Out).DType == ir.F32 {
			t.Errorf("%s %q computes float32", op.Kind, op.Name)
		}
	}
	for _, on := range []string{"corsair-card", "edge-dimc"} {
		target, err := OpenTarget(on)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range samples {
			want, err := evaluate(ctx, p.Fixed, in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := emulate(ctx, p, target, in)
			if err != nil {
				t.Fatalf("%s: %v", on, err)
			}
			if !slices.Equal(ir.Data[float32](got[0]), ir.Data[float32](want[0])) {
				t.Errorf("%s: got  %v\nwant %v", on, ir.Data[float32](got[0]), ir.Data[float32](want[0]))
			}
			said, err := evaluate(ctx, m.Graph, in)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range ir.Data[float32](said[0]) {
				if d := math.Abs(float64(v - ir.Data[float32](want[0])[i])); d > 4./256 {
					t.Errorf("share %d is %v, the operators say %v", i, ir.Data[float32](want[0])[i], v)
				}
			}
		}
	}
}

// decoderBlock is a step of a decoder as model builders for ONNX Runtime write it:
// packed weights, fused normalisations, and attention with a cache.
func decoderBlock() *graphOf {
	const hidden, heads, kv, size, past, inner = 64, 4, 2, 16, 15, 96
	g := newGraph()
	g.p.Input = []*onnxpb.ValueInfoProto{
		infoOf("x", float, 1, 1, hidden), infoOf("mask", int64s, 1, past+1), infoOf("positions", int64s, 1, 1),
		infoOf("past_key_values.0.key", float, 1, kv, past, size), infoOf("past_key_values.0.value", float, 1, kv, past, size),
	}
	g.p.Output = []*onnxpb.ValueInfoProto{infoOf("y", float, 1, 1, hidden),
		infoOf("present.0.key", float, 1, kv, past+1, size), infoOf("present.0.value", float, 1, kv, past+1, size)}
	product := func(from, to string, k, n int) {
		const block = 32
		blocks := k / block
		codes := make([]uint8, n*blocks*block/2)
		for i := range codes {
			codes[i] = uint8(g.rng.IntN(256))
		}
		scales := make([]float32, n*blocks)
		for i := range scales {
			scales[i] = float32((0.5 + g.rng.Float64()) / (4.5 * math.Sqrt(float64(k))))
		}
		g.tensor(to+"_w", ir.NewTensor(ir.U8, []int{n, blocks, block / 2}, codes))
		g.tensor(to+"_s", ir.NewTensor(ir.F32, []int{n * blocks}, scales))
		g.contrib(fmt.Sprintf("MatMulNBits(%s, %s_w, %s_s) %s", from, to, to, to), map[string]any{"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4})
	}
	table := func(name string, f func(float64) float64) {
		v := make([]float32, 32*size/2)
		for i := range v {
			v[i] = float32(f(float64(i/(size/2)) * math.Pow(10000, -float64(i%(size/2))/(size/2))))
		}
		g.tensor(name, ir.NewTensor(ir.F32, []int{32, size / 2}, v))
	}
	gamma := func(name string) { g.tensor(name, irtest.Tensor(g.rng, 1, hidden)) }
	table("cos", math.Cos)
	table("sin", math.Sin)
	gamma("g1")
	gamma("g2")
	gamma("g3")
	// The lengths follow from the mask, as builders have it.
	g.list("axis1", 1)
	g.ints("one", nil, 1)
	g.node("ReduceSum(mask, axis1) many", nil)
	g.node("Sub(many, one) lengths64", nil)
	g.node("Cast(lengths64) lengths", map[string]any{"to": int(onnxpb.TensorProto_INT32)})
	g.node("Shape(mask) shape", nil)
	g.node("Gather(shape, one) total64", nil)
	g.node("Cast(total64) total", map[string]any{"to": int(onnxpb.TensorProto_INT32)})

	g.node("SimplifiedLayerNormalization(x, g1) n1", map[string]any{"axis": -1, "epsilon": float32(1e-5), "stash_type": 1})
	product("n1", "q", hidden, heads*size)
	product("n1", "k", hidden, kv*size)
	product("n1", "v", hidden, kv*size)
	g.contrib("RotaryEmbedding(q, positions, cos, sin) qr", nil)
	g.contrib("RotaryEmbedding(k, positions, cos, sin) kr", nil)
	g.contrib("GroupQueryAttention(qr, kr, v, past_key_values.0.key, past_key_values.0.value, lengths, total) a, present.0.key, present.0.value",
		map[string]any{"num_heads": heads, "kv_num_heads": kv})
	product("a", "o", heads*size, hidden)
	g.contrib("SkipSimplifiedLayerNormalization(o, x, g2) n2, , , r2", map[string]any{"epsilon": float32(1e-5)})
	product("n2", "up", hidden, inner)
	product("n2", "gate", hidden, inner)
	g.contrib("QuickGelu(gate) active", map[string]any{"alpha": float32(1)})
	g.node("Mul(active, up) both", nil)
	product("both", "down", inner, hidden)
	g.contrib("SkipSimplifiedLayerNormalization(down, r2, g3) y", map[string]any{"epsilon": float32(1e-5)})
	return g
}

// TestDecoderBlock: it compiles, all of it in fixed point, with the same bits on a
// chip and in the evaluator, near the float model.
func TestDecoderBlock(t *testing.T) {
	ctx := context.Background()
	m := decoderBlock().model(t)
	r := newGraph().rng
	in := make([]*ir.Tensor, len(m.Graph.Inputs))
	for i, id := range m.Graph.Inputs {
		switch typ := m.Graph.Type(id); m.Graph.Value(id).Name {
		case "positions":
			in[i] = ir.NewTensor(ir.I64, typ.Shape, []int64{15})
		case "mask":
			in[i] = ir.NewTensor(ir.I64, typ.Shape, slices.Repeat([]int64{1}, typ.Numel()))
		default:
			in[i] = irtest.Tensor(r, 1.5, typ.Shape...)
		}
	}
	p, err := prepare(ctx, m, QuantOptions{}, [][]*ir.Tensor{in})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Fallback) > 0 {
		t.Errorf("stays in float32: %v", p.Fallback)
	}
	want, err := evaluate(ctx, p.Fixed, in)
	if err != nil {
		t.Fatal(err)
	}
	said, err := evaluate(ctx, m.Graph, in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		d := compare(want[i], said[i], 0)
		if t.Logf("output %d: %.1f dB", i, d.sqnr()); d.sqnr() < 20 {
			t.Errorf("output %d: %.1f dB between signal and quantisation noise", i, d.sqnr())
		}
	}
	target, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	got, err := emulate(ctx, p, target, in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !slices.Equal(ir.Data[float32](got[i]), ir.Data[float32](want[i])) {
			t.Errorf("output %d differs from the evaluator's", i)
		}
	}
}
