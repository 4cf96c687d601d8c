package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"situ/backend/pim"
	"situ/frontend/onnx/onnxpb"
	"situ/ir"
	"situ/ir/irtest"
	"situ/passes"
)

// graphOf builds an ONNX graph for the tests of what the host does.
type graphOf struct {
	p   *onnxpb.GraphProto
	rng *rand.Rand
}

func newGraph() *graphOf {
	return &graphOf{&onnxpb.GraphProto{Name: "g"}, rand.New(rand.NewPCG(7, 7))}
}

func infoOf(name string, t onnxpb.TensorProto_DataType, dims ...int) *onnxpb.ValueInfoProto {
	s := &onnxpb.TensorShapeProto{}
	for _, d := range dims {
		dim := &onnxpb.TensorShapeProto_Dimension{}
		if d >= 0 {
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}
		}
		s.Dim = append(s.Dim, dim)
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(t), Shape: s}}}}
}

func (g *graphOf) ints(name string, dims []int64, v ...int64) {
	g.p.Initializer = append(g.p.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_INT64), Dims: dims, Int64Data: v})
}

func (g *graphOf) list(name string, v ...int64) { g.ints(name, []int64{int64(len(v))}, v...) }

func (g *graphOf) floats(name string, v ...float32) {
	g.p.Initializer = append(g.p.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), Dims: []int64{int64(len(v))}, FloatData: v})
}

// weights adds normal values of a standard deviation that keeps sums near one.
func (g *graphOf) weights(name string, dims ...int64) {
	n, fan := int64(1), int64(1)
	for i, d := range dims {
		if n *= d; i > 0 {
			fan *= d
		}
	}
	t := &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), Dims: dims}
	for range n {
		t.FloatData = append(t.FloatData, float32(g.rng.NormFloat64()/math.Sqrt(float64(fan))))
	}
	g.p.Initializer = append(g.p.Initializer, t)
}

// node appends "Op(in, in) out, out"; attributes are int, float32, []int or graphs.
func (g *graphOf) node(s string, attrs map[string]any) {
	g.p.Node = append(g.p.Node, nodeOf(s, attrs))
}

func nodeOf(s string, attrs map[string]any) *onnxpb.NodeProto {
	op, rest, _ := strings.Cut(s, "(")
	in, out, _ := strings.Cut(rest, ")")
	list := func(s string) (l []string) {
		for _, f := range strings.Split(s, ",") {
			l = append(l, strings.TrimSpace(f))
		}
		return l
	}
	n := &onnxpb.NodeProto{OpType: op, Name: "n_" + list(out)[0], Input: list(in), Output: list(out)}
	for name, v := range attrs {
		a := &onnxpb.AttributeProto{Name: name}
		switch v := v.(type) {
		case int:
			a.Type, a.I = onnxpb.AttributeProto_INT, int64(v)
		case float32:
			a.Type, a.F = onnxpb.AttributeProto_FLOAT, v
		case []int:
			a.Type = onnxpb.AttributeProto_INTS
			for _, x := range v {
				a.Ints = append(a.Ints, int64(x))
			}
		case *onnxpb.GraphProto:
			a.Type, a.G = onnxpb.AttributeProto_GRAPH, v
		}
		n.Attribute = append(n.Attribute, a)
	}
	return n
}

func (g *graphOf) model(t *testing.T) *Model {
	t.Helper()
	b, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g.p})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadModel("m", b, ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const float, int64s = onnxpb.TensorProto_FLOAT, onnxpb.TensorProto_INT64

// detector is a small detector as they are exported: convolutions, boxes decoded
// from the last one, non-maximum suppression inside, and the chosen boxes, scores and
// classes gathered.
func detector() *graphOf {
	g := newGraph()
	g.p.Input = append(g.p.Input, infoOf("image", float, 1, 3, 32, 32))
	channels := []int64{3, 16, 32, 32}
	x := "image"
	for i, c := range channels[1:] {
		w, y := "w"+string(rune('0'+i)), "c"+string(rune('0'+i))
		g.weights(w, c, channels[i], 3, 3)
		g.node("Conv("+x+", "+w+") "+y, map[string]any{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}})
		g.node("Sigmoid("+y+") s"+y, nil)
		g.node("Mul("+y+", s"+y+") a"+y, nil)
		x = "a" + y
	}
	g.weights("head", 8, 32, 1, 1) // 4 of a box, 4 classes
	g.node("Conv("+x+", head) raw", map[string]any{"kernel_shape": []int{1, 1}})
	g.list("flat", 1, 8, 16)
	g.node("Reshape(raw, flat) rows", nil)
	g.list("p4", 4, 4)
	g.node("Split(rows, p4) where, what", map[string]any{"axis": 1})
	g.node("Sigmoid(what) scores", nil)
	g.node("Transpose(where) offsets", map[string]any{"perm": []int{0, 2, 1}})
	g.list("p2", 2, 2)
	g.node("Split(offsets, p2) centre, size", map[string]any{"axis": 2})
	g.node("Exp(size) extent", nil)
	g.node("Concat(centre, extent) boxes", map[string]any{"axis": 2})
	g.list("most", 5)
	g.floats("iou", 0.4)
	g.floats("least", 0.3)
	g.node("NonMaxSuppression(boxes, scores, most, iou, least) chosen", map[string]any{"center_point_box": 1})
	g.list("zero", 0)
	g.list("one", 1)
	g.list("two", 2)
	g.list("three", 3)
	g.node("Slice(chosen, one, two, one) class", nil)
	g.node("Slice(chosen, two, three, one) box", nil)
	g.node("Squeeze(box, one) boxIndex", nil)
	g.node("Gather(boxes, boxIndex) best", map[string]any{"axis": 1})
	g.node("GatherND(scores, chosen) bestScores", nil)
	g.p.Output = append(g.p.Output, infoOf("best", float, 1, -1, 4), infoOf("class", int64s, -1, 1), infoOf("bestScores", float, -1))
	return g
}

// emulateOn returns what emulates the target's part of a model; without llc, which
// kernels need, the test is skipped.
func emulateOn(t *testing.T, target *Target) func(context.Context, *Prepared, *Target, []*ir.Tensor) ([]*ir.Tensor, error) {
	if target.GPU == nil {
		return emulate
	}
	needLLC(t)
	return emulateKernels
}

// TestDetector holds a detector with suppression inside to the evaluator's bits on a
// chip and as kernels, and what the report says of its host.
func TestDetector(t *testing.T) {
	ctx := context.Background()
	m := detector().model(t)
	if m.Host == nil || len(m.Graph.Outputs) != 2 {
		t.Fatalf("host %v, graph of %d outputs; want the boxes and the scores to be handed over", m.Host, len(m.Graph.Outputs))
	}
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := synthetic(m.Graph, 3)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := evaluate(ctx, p.Fixed, in)
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.finish(ctx, in, ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := want[1].Shape[0]; n == 0 || len(want) != 3 || want[0].Shape[1] != n || want[2].Shape[0] != n {
		t.Fatalf("outputs of shapes %v, %v and %v", want[0].Shape, want[1].Shape, want[2].Shape)
	}
	for _, on := range []string{"corsair-card", "edge-dimc", "a100"} {
		target, err := OpenTarget(on)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(on, func(t *testing.T) {
			got, err := emulateOn(t, target)(ctx, p, target, in)
			if err != nil {
				t.Fatal(err)
			}
			for i := range ref {
				d := compare(got[i], ref[i], 0)
				if !sameBits(got[i], ref[i]) && !(target.GPU != nil && d.maxRel <= lastBits) {
					t.Errorf("operand %d of the host differs in %d elements", i, d.beyond)
				}
			}
		})
	}
	card, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.finish(ctx, [][]*ir.Tensor{in}, [][]*ir.Tensor{ref}); err != nil {
		t.Fatal(err)
	}
	r, _, err := runPIM(ctx, p, card, in, RunOptions{Mode: TimingOnly})
	if err != nil {
		t.Fatal(err)
	}
	p.describe(r)
	if to := int64(4 * (16*4 + 4*16)); r.Host == nil || r.Host.BytesTo != to || r.Host.BytesFrom != 0 || !(r.Host.Share > 0 && r.Host.Share < 0.1) {
		t.Errorf("host %+v, want %d bytes to it and a small share", r.Host, to)
	}
	var ops []string
	for _, f := range r.Fallback {
		if f.On == OnHost {
			ops = append(ops, f.Op)
		}
	}
	if got := strings.Join(ops, " "); got != "NonMaxSuppression Slice Slice Squeeze Gather GatherND" {
		t.Errorf("on the host: %s", got)
	}
}

// greedy is a decoder that runs until it makes the token 0, at most as often as data
// say: a recurrent cell and the largest of its scores, in a Loop.
func greedy(cond string) *graphOf {
	g := newGraph()
	g.p.Input = append(g.p.Input, infoOf("x", float, 1, 16))
	g.weights("encode", 16, 16)
	g.node("MatMul(x, encode) e", nil)
	g.node("Tanh(e) h0", nil)
	g.weights("cell", 16, 16)
	g.weights("out", 16, 8)
	g.weights("table", 8, 16)
	g.ints("start", []int64{1}, 3)
	g.ints("end", []int64{1}, 0)
	body := &onnxpb.GraphProto{
		Name:  "step",
		Input: []*onnxpb.ValueInfoProto{infoOf("i", int64s), infoOf("go", onnxpb.TensorProto_BOOL), infoOf("h", float, 1, 16), infoOf("token", int64s, 1)},
		Node: []*onnxpb.NodeProto{
			nodeOf("Gather(table, token) emb", nil), nodeOf("MatMul(h, cell) hc", nil), nodeOf("Add(hc, emb) pre", nil), nodeOf("Tanh(pre) h1", nil),
			nodeOf("MatMul(h1, out) scores", nil), nodeOf("ArgMax(scores) next", map[string]any{"axis": 1, "keepdims": 0}),
			nodeOf("Equal(next, end) stop", nil), nodeOf(cond, nil), nodeOf("Identity(next) made", nil)},
		Output: []*onnxpb.ValueInfoProto{infoOf("on", onnxpb.TensorProto_BOOL, 1), infoOf("h1", float, 1, 16), infoOf("next", int64s, 1), infoOf("made", int64s, 1)},
	}
	g.node("Loop(, , h0, start) last, token, tokens", map[string]any{"body": body})
	g.p.Output = append(g.p.Output, infoOf("tokens", int64s, -1, 1))
	return g
}

// TestGreedyDecoding runs a Loop whose length only data tell behind a compiled
// encoder, and one that never ends.
func TestGreedyDecoding(t *testing.T) {
	ctx := context.Background()
	m := greedy("Not(stop) on").model(t)
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	card, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	lengths := map[int]bool{}
	for seed := range uint64(6) {
		in, err := synthetic(m.Graph, seed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := emulate(ctx, p, card, in)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := evaluate(ctx, p.Fixed, in)
		if err != nil {
			t.Fatal(err)
		}
		if !sameBits(got[0], ref[0]) {
			t.Errorf("seed %d: what the loop reads differs", seed)
		}
		out, err := m.finish(ctx, in, got, nil)
		if err != nil {
			if strings.Contains(err.Error(), "still runs after") {
				continue // a cycle of tokens without the end
			}
			t.Fatal(err)
		}
		tokens := ir.Data[int64](out[0])
		lengths[len(tokens)] = true
		for i, v := range tokens {
			if (v == 0) != (i == len(tokens)-1) {
				t.Errorf("seed %d: tokens %v", seed, tokens)
			}
		}
	}
	if len(lengths) < 2 {
		t.Errorf("all inputs give as many tokens: %v", lengths)
	}
}

// around is a small transformer-like model whose positions are a running sum over
// its token ids and whose outputs are sines: a target has neither.
func around() *graphOf {
	g := newGraph()
	g.p.Input = append(g.p.Input, infoOf("ids", int64s, 1, 8))
	g.ints("pad", []int64{1}, 0)
	g.list("axis", 1)
	g.node("Equal(ids, pad) padding", nil)
	g.node("Not(padding) real", nil)
	g.node("Cast(real) ones", map[string]any{"to": int(int64s)})
	g.p.Initializer = append(g.p.Initializer, &onnxpb.TensorProto{Name: "along", DataType: int32(onnxpb.TensorProto_INT32), Int32Data: []int32{1}})
	g.node("CumSum(ones, along) positions", nil)
	g.weights("words", 20, 16)
	g.weights("places", 9, 16)
	g.node("Gather(words, ids) word", nil)
	g.node("Gather(places, positions) place", nil)
	g.node("Add(word, place) x", nil)
	g.weights("w1", 16, 32)
	g.weights("w2", 32, 16)
	g.node("MatMul(x, w1) h", nil)
	g.node("Relu(h) a", nil)
	g.node("MatMul(a, w2) y", nil)
	g.node("Sin(y) wave", nil)
	g.p.Output = append(g.p.Output, infoOf("wave", float, 1, 8, 16))
	return g
}

// TestHostAround runs what a target refuses before and after its part, for one input
// and for several at once.
func TestHostAround(t *testing.T) {
	ctx := context.Background()
	m := around().model(t)
	if m.Host != nil {
		t.Fatal("nothing here depends on data")
	}
	ids := func(k int64) []*ir.Tensor {
		return []*ir.Tensor{ir.NewTensor(ir.I64, []int{1, 8}, []int64{3 + k, 5, 0, 7, 19 - k, 0, 0, 1})}
	}
	sets := [][]*ir.Tensor{ids(0), ids(1), ids(2)}
	for _, on := range []string{"corsair-card", "a100"} {
		target, err := OpenTarget(on)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(on, func(t *testing.T) {
			p, err := prepare(ctx, m, QuantOptions{}, sets)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range sets {
				got, err := emulateOn(t, target)(ctx, p, target, in)
				if err != nil {
					t.Fatal(err)
				}
				want, err := evaluate(ctx, p.Fixed, in)
				if err != nil {
					t.Fatal(err)
				}
				if !sameBits(got[0], want[0]) {
					t.Error("other bits than the evaluator's")
				}
			}
			r := &Result{}
			p.describeHost(r)
			if r.Host == nil || r.Host.BytesFrom != 8*8 || r.Host.BytesTo != 4*8*16 || !(r.Host.Share > 0 && r.Host.Share < 0.2) {
				t.Errorf("host %+v, want 64 bytes from it, 512 to it and a small share", r.Host)
			}
			if target.Chip == nil {
				return
			}
			b, err := p.batch(len(sets))
			if err != nil {
				t.Fatal(err)
			}
			many, err := b.compareOn(ctx, target, p, sets, CompareOptions{Batches: []int{len(sets)}}, "")
			if err != nil {
				t.Fatal(err)
			}
			if many.Agreement == nil || !many.Agreement.BitExact || many.Batch != len(sets) {
				t.Errorf("a batch of %d: %+v", many.Batch, many.Agreement)
			}
		})
	}
}

// TestHostBatchOutputs identifies the outputs of a batch one by one where the host makes
// some that have no dimension for entries.
func TestHostBatchOutputs(t *testing.T) {
	ctx := context.Background()
	card, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	for end, shape := range map[string][]int{"ReduceSum(wave) y": {}, "Reshape(wave, rows) y": {4, 8}} {
		g := newGraph()
		g.p.Input = append(g.p.Input, infoOf("x", float, 1, 16))
		g.weights("w", 16, 32)
		g.node("MatMul(x, w) h", nil)
		g.node("Sin(h) wave", nil)
		g.list("rows", 4, 8)
		attrs := map[string]any{}
		if len(shape) == 0 {
			attrs["keepdims"] = 0
		}
		g.node(end, attrs)
		g.p.Output = append(g.p.Output, infoOf("y", float, shape...))
		m := g.model(t)
		sets := make([][]*ir.Tensor, 3)
		for k := range sets {
			if sets[k], err = synthetic(m.Graph, uint64(k)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := prepare(ctx, m, QuantOptions{}, sets)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.compile(card, pim.Latency); err != nil {
			t.Fatal(err)
		}
		b, err := p.batch(len(sets))
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.compareOn(ctx, card, p, sets, CompareOptions{Batches: []int{len(sets)}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if !r.Agreement.BitExact || len(r.Outputs) != len(sets) {
			t.Fatalf("%s: %+v, outputs %+v", end, r.Agreement, r.Outputs)
		}
		for k, o := range r.Outputs {
			want, err := evaluate(ctx, p.Fixed, sets[k])
			if err != nil {
				t.Fatal(err)
			}
			if o.Name != fmt.Sprintf("y[%d]", k) || !slices.Equal(o.Shape, shape) || o.SHA256 != hash(want[0]) {
				t.Errorf("%s: output %+v", end, o)
			}
		}
	}
}

// TestHostWithoutTarget refuses models of which nothing is left, with the reason.
func TestHostWithoutTarget(t *testing.T) {
	g := newGraph()
	g.p.Input = append(g.p.Input, infoOf("x", float, 4))
	g.node("NonZero(x) at", nil)
	g.p.Output = append(g.p.Output, infoOf("at", int64s, 1, -1))
	p, err := Prepare(context.Background(), g.model(t), QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	card, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.compile(card, 0); !errors.Is(err, errAllHost) || !strings.Contains(err.Error(), `"n_at" (NonZero)`) {
		t.Errorf("compiling nothing gives %v", err)
	}
	if _, err := NewPricer(p, card.Chip); !errors.Is(err, errAllHost) {
		t.Errorf("a pricer of nothing gives %v", err)
	}
	if _, err := Price(context.Background(), p, card.Chip, 0, true); !errors.Is(err, errAllHost) {
		t.Errorf("pricing nothing gives %v", err)
	}
	in := []*ir.Tensor{ir.NewTensor(ir.F32, []int{4}, []float32{0, 1, 0, 2})}
	got, err := emulate(context.Background(), p, card, in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.finish(context.Background(), [][]*ir.Tensor{in}, [][]*ir.Tensor{got})
	if err != nil || len(out[0]) != 1 || out[0][0].Numel() != 2 {
		t.Errorf("the host alone gives %v, %v", out, err)
	}
}

// TestHostParts leaves random operators of random quantised networks to the host: values
// of all types cross to it and back, and the bits are those of the whole graph.
func TestHostParts(t *testing.T) {
	ctx := context.Background()
	chip, err := OpenTarget("edge-dimc")
	if err != nil {
		t.Fatal(err)
	}
	codes, ran := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{MaxDim: 8, MaxElems: 2048})
		p, err := Prepare(ctx, &Model{Name: "random", Graph: g}, QuantOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Fixed.Ops {
			if rapid.IntRange(0, 4).Draw(t, "refused") == 0 {
				p.refused = append(p.refused, i)
			}
		}
		p.parts = passes.Split(p.Fixed, p.refused)
		p.Chip = p.parts.Chip.Graph
		in, err := synthetic(g, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := emulate(ctx, p, chip, in)
		if err != nil {
			t.Fatalf("%v\n%v", err, p.Fixed)
		}
		want, err := evaluate(ctx, p.Fixed, in)
		if err != nil {
			t.Fatal(err)
		}
		if p.Chip != nil {
			ran++
		}
		for _, id := range p.parts.After.In {
			if p.Fixed.Type(id).IsQuantised() && slices.Contains(p.parts.Chip.Out, id) {
				codes++
			}
		}
		for i := range want {
			if !sameBits(got[i], want[i]) {
				t.Fatalf("output %d has other bits; the host runs %v of\n%v", i, p.parts.Host, p.Fixed)
			}
		}
	})
	if ran == 0 || codes == 0 {
		t.Errorf("%d networks had a part on the chip, %d codes went to the host", ran, codes)
	}
}
