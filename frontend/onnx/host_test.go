package onnx

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
	"situ/ir/eval"
)

func int64Init(name string, v ...int64) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: name, DataType: 7, Dims: []int64{int64(len(v))}, Int64Data: v}
}

func ints64(shape []int, v ...int64) *ir.Tensor { return fromInts(ir.I64, shape, v) }

// runHost imports a model of which an end depends on data and runs graph and Host.
func runHost(t *testing.T, ctx context.Context, g *onnxpb.GraphProto, in []*ir.Tensor) (*ir.Graph, *Host, []*ir.Tensor, error) {
	t.Helper()
	m, err := Parse(encode(t, modelOf(16, g)), "")
	if err != nil {
		t.Fatal(err)
	}
	graph, h, err := ImportHost(m, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h == nil {
		t.Fatal("nothing was left to the host")
	}
	e, err := eval.New(graph)
	if err != nil {
		t.Fatal(err)
	}
	before, err := e.Run(ctx, in, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Run(ctx, in, before, HostOptions{MemoryLimit: 1 << 26})
	return graph, h, got, err
}

// loopOf is a graph of a Loop without a trip count over x [1] that carries x, whose
// body computes on, b and perhaps further results from a.
func loopOf(results string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	inner := body([]*onnxpb.ValueInfoProto{intValue("i"), boolValue("go"), valueInfo("a", 1)}, "on b", nodes...)
	out := "s"
	for _, r := range strings.Fields(results) {
		inner.Output = append(inner.Output, valueInfo(r, 1))
		out += ", all_" + r
	}
	g := &onnxpb.GraphProto{
		Input:       []*onnxpb.ValueInfoProto{valueInfo("x", 1)},
		Initializer: []*onnxpb.TensorProto{floats("one", []int64{1}, 1), floats("ten", []int64{1}, 10), floats("none", []int64{1}, -1e9)},
		Node: []*onnxpb.NodeProto{node("Add(x, one) x1"), node("Less(x1, ten) first"),
			node("Loop(, first, x1) "+out, graphAttr("body", inner))},
	}
	for _, o := range g.Node[2].Output {
		g.Output = append(g.Output, valueInfo(o))
	}
	return g
}

// TestHost runs ends of models that depend on data, by results computed by hand.
func TestHost(t *testing.T) {
	until := loopOf("c", node("Add(a, a) b"), node("Mul(b, b) c"), node("Less(b, ten) on"))
	// Boxes 0 and 1 overlap; the scores of class 0 choose 0 and 2, none of class 1.
	boxes := fromFloats(ir.F32, []int{1, 3, 4}, []float64{0, 0, 2, 2, 0, 0, 2, 1.9, 5, 5, 6, 6})
	scores := fromFloats(ir.F32, []int{1, 2, 3}, []float64{0.9, 0.8, 0.7, 0.1, 0.2, 0.3})
	detect := &onnxpb.GraphProto{
		Input: []*onnxpb.ValueInfoProto{valueInfo("half", 1, 3, 4), valueInfo("scores", 1, 2, 3)},
		Initializer: []*onnxpb.TensorProto{floats("two", []int64{1}, 2), int64Init("most", 5), floats("iou", []int64{1}, 0.5), floats("least", []int64{1}, 0.5),
			int64Init("from", 2), int64Init("to", 3), int64Init("axis", 1)},
		Node: []*onnxpb.NodeProto{node("Mul(half, two) boxes"), node("NonMaxSuppression(boxes, scores, most, iou, least) chosen"),
			node("Slice(chosen, from, to, axis) column"), node("Squeeze(column, axis) which"), node("Gather(boxes, which) best", intAttr("axis", 1)),
			node("ReduceMax(scores) top", intsAttr("axes", 2))},
		Output: []*onnxpb.ValueInfoProto{valueInfo("best"), intValue("chosen"), valueInfo("top")},
	}
	pick := &onnxpb.GraphProto{
		Input:       []*onnxpb.ValueInfoProto{valueInfo("x", 4)},
		Node:        []*onnxpb.NodeProto{node("NonZero(x) at"), node("Squeeze(at, zero) flat"), node("Gather(x, flat) some"), node("ReduceSum(some) total", intAttr("keepdims", 0))},
		Initializer: []*onnxpb.TensorProto{int64Init("zero", 0)},
		Output:      []*onnxpb.ValueInfoProto{valueInfo("some"), valueInfo("total")},
	}
	shapes := &onnxpb.GraphProto{ // x as a matrix of n rows, beside n ones and the numbers below n
		Input:       []*onnxpb.ValueInfoProto{valueInfo("x", 6), intValue("n", 1)},
		Initializer: []*onnxpb.TensorProto{int64Init("rest", -1), int64Init("zero", 0), {Name: "one", DataType: 7, Int64Data: []int64{1}}, {Name: "nothing", DataType: 7, Int64Data: []int64{0}}},
		Node: []*onnxpb.NodeProto{node("Concat(n, rest) shape", intAttr("axis", 0)), node("Reshape(x, shape) m"),
			node("ConstantOfShape(n) z"), node("Squeeze(n, zero) k"), node("Range(nothing, k, one) r"), node("TopK(x, n) v, i")},
		Output: []*onnxpb.ValueInfoProto{valueInfo("m"), valueInfo("z"), intValue("r"), valueInfo("v"), intValue("i")},
	}
	differing := &onnxpb.GraphProto{ // [x, x] or x + x, by the sum of x
		Input:       []*onnxpb.ValueInfoProto{valueInfo("x", 2)},
		Initializer: []*onnxpb.TensorProto{floats("zero", []int64{1}, 0)},
		Node: []*onnxpb.NodeProto{node("ReduceSum(x) sum", intAttr("keepdims", 0)), node("Less(zero, sum) c"), node("Abs(x) ax"),
			node("If(c) y", graphAttr("then_branch", body(nil, "r", node("Concat(ax, ax) r", intAttr("axis", 0)))),
				graphAttr("else_branch", body(nil, "r", node("Add(ax, ax) r"))))},
		Output: []*onnxpb.ValueInfoProto{valueInfo("y")},
	}
	tests := []struct {
		name  string
		graph *onnxpb.GraphProto
		in    []*ir.Tensor
		host  []string // operators of the nodes left to the host
		want  []*ir.Tensor
	}{
		{"loop", until, []*ir.Tensor{scalars(ir.F32, 2)}, []string{"Loop"}, []*ir.Tensor{scalars(ir.F32, 12), fromFloats(ir.F32, []int{2, 1}, []float64{36, 144})}},
		{"no iterations", until, []*ir.Tensor{scalars(ir.F32, 20)}, []string{"Loop"}, []*ir.Tensor{scalars(ir.F32, 21), fromFloats(ir.F32, []int{0, 1}, nil)}},
		{"boxes", detect, []*ir.Tensor{boxes, scores}, []string{"NonMaxSuppression", "Slice", "Squeeze", "Gather"}, []*ir.Tensor{
			fromFloats(ir.F32, []int{1, 2, 4}, []float64{0, 0, 4, 4, 10, 10, 12, 12}), ints64([]int{2, 3}, 0, 0, 0, 0, 0, 2), fromFloats(ir.F32, []int{1, 2, 1}, []float64{0.9, 0.3})}},
		{"no box", detect, []*ir.Tensor{boxes, fromFloats(ir.F32, []int{1, 2, 3}, make([]float64, 6))}, []string{"NonMaxSuppression", "Slice", "Squeeze", "Gather"}, []*ir.Tensor{
			fromFloats(ir.F32, []int{1, 0, 4}, nil), ints64([]int{0, 3}), fromFloats(ir.F32, []int{1, 2, 1}, make([]float64, 2))}},
		{"elements", pick, []*ir.Tensor{scalars(ir.F32, 0, 3, 0, 4)}, []string{"NonZero", "Squeeze", "Gather", "ReduceSum"}, []*ir.Tensor{scalars(ir.F32, 3, 4), fromFloats(ir.F32, nil, []float64{7})}},
		{"no elements", pick, []*ir.Tensor{scalars(ir.F32, 0, 0, 0, 0)}, []string{"NonZero", "Squeeze", "Gather", "ReduceSum"}, []*ir.Tensor{scalars(ir.F32), fromFloats(ir.F32, nil, []float64{0})}},
		{"shapes", shapes, []*ir.Tensor{scalars(ir.F32, 1, 5, 3, 2, 4, 0), ints64([]int{1}, 3)}, []string{"Reshape", "ConstantOfShape", "Range", "TopK"}, []*ir.Tensor{
			fromFloats(ir.F32, []int{3, 2}, []float64{1, 5, 3, 2, 4, 0}), scalars(ir.F32, 0, 0, 0), ints64([]int{3}, 0, 1, 2), scalars(ir.F32, 5, 4, 3), ints64([]int{3}, 1, 4, 2)}},
		{"then", differing, []*ir.Tensor{scalars(ir.F32, 1, 2)}, []string{"If"}, []*ir.Tensor{scalars(ir.F32, 1, 2, 1, 2)}},
		{"else", differing, []*ir.Tensor{scalars(ir.F32, -1, -2)}, []string{"If"}, []*ir.Tensor{scalars(ir.F32, 2, 4)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, h, got, err := runHost(t, context.Background(), tt.graph, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			var ops []string
			for _, n := range h.Nodes {
				ops = append(ops, n.Op)
			}
			if !slices.Equal(ops, tt.host) {
				t.Errorf("left to the host: %v, want %v", ops, tt.host)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%d outputs, want %d", len(got), len(tt.want))
			}
			for i, want := range tt.want {
				if d, err := compareTensors(got[i], want, 0); err != nil || d.absolute > 1e-6 {
					t.Errorf("output %d is %v, want %v (%v)", i, numbers(got[i]), numbers(want), err)
				}
			}
			if len(g.Outputs) > 0 {
				if err := ir.Verify(g); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestHostConcurrently runs one Host from several goroutines.
func TestHostConcurrently(t *testing.T) {
	m, err := Parse(encode(t, modelOf(16, loopOf("", node("Add(a, one) b"), node("Less(b, ten) on")))), "")
	if err != nil {
		t.Fatal(err)
	}
	_, h, err := ImportHost(m, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			x := scalars(ir.F32, float64(k))
			first := fromInts(ir.Bool, []int{1}, []int64{1})
			before := make([]*ir.Tensor, 2)
			for _, o := range h.operands {
				before[o.output] = map[string]*ir.Tensor{"x1": x, "first": first}[o.name]
			}
			for range 20 {
				got, err := h.Run(context.Background(), []*ir.Tensor{x}, before, HostOptions{})
				if err != nil || numbers(got[0])[0] != 10 {
					t.Errorf("got %v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestHostBounds gives the host work without end.
func TestHostBounds(t *testing.T) {
	tests := []struct {
		name  string
		graph *onnxpb.GraphProto
		err   string
	}{
		{"never ends", loopOf("", node("Identity(a) b"), node("Less(none, b) on")), "still runs after 65536 iterations"},
		{"doubles", loopOf("", node("Concat(a, a) b", intAttr("axis", 0)), node("ReduceMin(a) low", intAttr("keepdims", 0)), node("Less(none, low) on")), "still read take 67108868 bytes, the limit is 67108864"},
		{"collects", loopOf("c", node("Identity(a) b"), node("Less(none, b) on"), node("Expand(a, many) c")), "results have more than 67108864 elements"},
	}
	tests[2].graph.Initializer = append(tests[2].graph.Initializer, int64Init("many", 1<<22))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, _, err := runHost(t, context.Background(), tt.graph, []*ir.Tensor{scalars(ir.F32, 1)})
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want an error with %q", err, tt.err)
			}
		})
	}
	// Results are held while they are read: two of 32 MiB are too many at once, for
	// what there is beside them, one after the other they are not.
	large := func(order ...int) *onnxpb.GraphProto {
		g := &onnxpb.GraphProto{
			Input: []*onnxpb.ValueInfoProto{valueInfo("x", 1)}, Initializer: []*onnxpb.TensorProto{int64Init("many", 1, 1<<22)},
			Node: []*onnxpb.NodeProto{node("NonZero(x) at")},
		}
		var pair [2][]*onnxpb.NodeProto
		for k := range 3 {
			name := string(rune('a' + k))
			pair[0] = append(pair[0], node("Expand(at, many) "+name))
			pair[1] = append(pair[1], node("ReduceMin("+name+") low_"+name, intAttr("keepdims", 0)))
			g.Output = append(g.Output, valueInfo("low_"+name, 1))
		}
		for _, i := range order {
			g.Node = append(g.Node, pair[i/3][i%3])
		}
		return g
	}
	if _, _, _, err := runHost(t, context.Background(), large(0, 3, 1, 4, 2, 5), []*ir.Tensor{scalars(ir.F32, 1)}); err != nil {
		t.Errorf("large results one after the other: %v", err)
	}
	if _, _, _, err := runHost(t, context.Background(), large(0, 1, 2, 3, 4, 5), []*ir.Tensor{scalars(ir.F32, 1)}); err == nil || !strings.Contains(err.Error(), "still read take 67108872 bytes, the limit is 67108864") {
		t.Errorf("large results at once: %v", err)
	}
	nested := loopOf("", node("Expand(a, many) p"), node("Expand(a, many) q"), node("Expand(a, many) r"),
		node("ReduceMin(p) b", intAttr("keepdims", 1)), node("Add(q, r) s"), node("ReduceMin(s) low", intAttr("keepdims", 0)), node("Less(none, low) on"))
	nested.Initializer = append(nested.Initializer, int64Init("many", 3<<21))
	if _, _, _, err := runHost(t, context.Background(), nested, []*ir.Tensor{scalars(ir.F32, 1)}); err == nil || !strings.Contains(err.Error(), "still read take") {
		t.Errorf("large results in a loop: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, _, _, err := runHost(t, ctx, tests[0].graph, []*ir.Tensor{scalars(ir.F32, 1)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled run gives %v after %v", err, time.Since(start))
	}
	// What cannot be executed either is refused when the model is read.
	unknown := loopOf("", node("Foo(a) b"), node("Less(b, ten) on"))
	unknown.Node[2].Name = "outer"
	m, err := Parse(encode(t, modelOf(16, unknown)), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ImportHost(m, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "Foo") {
		t.Errorf("an unknown operator in a nested graph gives %v", err)
	}
}

// TestNestedLeavesNoInputs: what the file states of values in a nested graph that is
// left to the host makes no inputs.
func TestNestedLeavesNoInputs(t *testing.T) {
	g := loopOf("", node("NonZero(a) q"), node("Cast(q) f", intAttr("to", 1)), node("ReduceMax(f) r", intAttr("keepdims", 0)),
		node("Identity(a) b"), node("Less(r, ten) on"))
	for _, n := range g.Node {
		if n.OpType == "Loop" { // twice, so that the body is translated
			n.Input[0], n.Input[1] = "twice", ""
		}
	}
	g.Initializer = append(g.Initializer, int64Init("twice", 2))
	g.ValueInfo = append(g.ValueInfo, valueInfo("r"), valueInfo("f", 3))
	graph, h, out, err := runHost(t, context.Background(), g, []*ir.Tensor{scalars(ir.F32, 1)})
	if err != nil || len(graph.Inputs) != 1 || len(h.Nodes) == 0 || len(out) != len(h.Outputs) {
		t.Errorf("%d inputs, outputs %v, %v", len(graph.Inputs), out, err)
	}
}

// TestNodesOnHost executes the standard's own tests of single operators node by
// node: those that the importer passes with constants must give the recorded results.
func TestNodesOnHost(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "onnx", "backend", "node"), "*", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, f := range files {
		dir := filepath.Dir(f)
		name := filepath.Base(dir)
		if disputed.MatchString(name) {
			continue
		}
		m, err := Load(f)
		if err != nil {
			continue
		}
		inputs, err := readSet(filepath.Join(dir, "test_data_set_0"), "input")
		if err != nil {
			continue
		}
		want, err := readSet(filepath.Join(dir, "test_data_set_0"), "output")
		if err != nil {
			continue
		}
		got, err := executed(m, inputs)
		if err != nil {
			if reason := err.Error(); !slices.ContainsFunc(beyond, func(b string) bool { return strings.Contains(reason, b) }) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for i := range want {
			d, err := compareTensors(got[i], want[i], 0)
			if err != nil || d.relative > 1e-3 { // the standard's own tolerance
				t.Errorf("%s: output %d: relative error %g (%v)", name, i, d.relative, err)
			}
		}
		passed++
	}
	if t.Logf("%d passed", passed); passed < 1270 {
		t.Errorf("%d tests passed, want 1270", passed)
	}
}

// executeZeros runs graph and Host of a small model on zeros: it may fail, but in
// order.
func executeZeros(t *testing.T, m *Model) {
	g, h, err := ImportHost(m, ImportOptions{DefaultDim: 1})
	if err != nil || h == nil {
		return
	}
	var in []*ir.Tensor
	for _, id := range g.Inputs {
		if g.Type(id).Numel() > 1<<12 {
			return
		}
		in = append(in, ir.Zeros(g.Type(id).DType, g.Type(id).Shape...))
	}
	e, err := eval.New(g)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	before, err := e.Run(ctx, in, eval.Options{MemoryLimit: 1 << 22})
	if err != nil {
		return
	}
	if _, err := h.Run(ctx, in, before, HostOptions{MemoryLimit: 1 << 22}); err != nil && strings.Contains(err.Error(), "internal error") {
		t.Error(err)
	}
}

// executed runs all nodes of a model on the host.
func executed(m *Model, inputs []*ir.Tensor) ([]*ir.Tensor, error) {
	im := newImporter(m)
	if err := im.constants(); err != nil {
		return nil, err
	}
	im.used = map[string]bool{}
	im.markUsed(m.Proto.Graph)
	h := &Host{model: m, nodes: m.Proto.Graph.Node, known: im.env, used: im.used}
	if len(m.Inputs()) != len(inputs) {
		return nil, errors.New("its inputs are not supported")
	}
	at := map[string]int{}
	for i, in := range m.Inputs() {
		at[in.Name] = i
		h.operands = append(h.operands, operand{in.Name, i, -1})
	}
	for _, o := range m.Proto.Graph.Output {
		r := operand{o.Name, -1, -1}
		if i, ok := at[o.Name]; ok {
			r.input = i
		}
		h.results = append(h.results, r)
	}
	return h.Run(context.Background(), inputs, nil, HostOptions{MemoryLimit: 1 << 30})
}

// TestEmptyOnHost executes the standard's tests with nothing in their inputs, as a
// detector that finds no box makes them: results or errors, no panics.
func TestEmptyOnHost(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "onnx", "backend", "node"), "*", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, f := range files {
		dir := filepath.Dir(f)
		m, err := Load(f)
		if err != nil {
			continue
		}
		inputs, err := readSet(filepath.Join(dir, "test_data_set_0"), "input")
		if err != nil || len(inputs) == 0 {
			continue
		}
		for mask := 1; mask < 1<<min(len(inputs), 3); mask++ {
			for axis := range 4 {
				changed := slices.Clone(inputs)
				for i := range changed {
					if mask>>i&1 == 1 && axis < len(inputs[i].Shape) {
						shape := slices.Clone(inputs[i].Shape)
						shape[axis] = 0
						changed[i] = ir.Zeros(inputs[i].DType, shape...)
					}
				}
				func() {
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("%s with inputs %b empty along %d: panic: %v", filepath.Base(dir), mask, axis, r)
						}
					}()
					_, err := executed(m, changed)
					if err == nil {
						ran++
					} else if strings.Contains(err.Error(), "internal error") {
						t.Errorf("%s with inputs %b empty along %d: %v", filepath.Base(dir), mask, axis, err)
					}
				}()
			}
		}
	}
	if t.Logf("%d ran", ran); ran < 3000 {
		t.Errorf("%d ran, 3000 should", ran)
	}
}
