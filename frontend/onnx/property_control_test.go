package onnx

import (
	"context"
	"strings"
	"testing"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
	"situ/ir/eval"
)

func boolValue(name string, dims ...int64) *onnxpb.ValueInfoProto {
	v := valueInfo(name, dims...)
	v.Type.GetTensorType().ElemType = int32(onnxpb.TensorProto_BOOL)
	return v
}

func intValue(name string, dims ...int64) *onnxpb.ValueInfoProto {
	v := valueInfo(name, dims...)
	v.Type.GetTensorType().ElemType = int32(onnxpb.TensorProto_INT64)
	return v
}

// body is a graph of nodes with the given inputs and outputs.
func body(inputs []*onnxpb.ValueInfoProto, outputs string, nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	g := &onnxpb.GraphProto{Input: inputs, Node: nodes}
	for _, o := range strings.Fields(outputs) {
		g.Output = append(g.Output, valueInfo(o))
	}
	return g
}

func scalars(d ir.DType, v ...float64) *ir.Tensor { return fromFloats(d, []int{len(v)}, v) }

// TestControlFlow evaluates nested graphs by hand-computed results.
func TestControlFlow(t *testing.T) {
	x := valueInfo("x", 2)
	values := func(name string, v ...float32) *onnxpb.TensorProto {
		return floats(name, []int64{int64(len(v))}, v...)
	}
	branch := func(op string) *onnxpb.GraphProto {
		return body(nil, "r", node(op+"(x, k) r")) // x is captured
	}
	conditional := &onnxpb.GraphProto{
		Input:       []*onnxpb.ValueInfoProto{x, boolValue("c", 1)},
		Initializer: []*onnxpb.TensorProto{values("k", 10, 20)},
		Node:        []*onnxpb.NodeProto{node("If(c) y", graphAttr("then_branch", branch("Add")), graphAttr("else_branch", branch("Mul")))},
		Output:      []*onnxpb.ValueInfoProto{valueInfo("y")},
	}
	// Adds x until the sum's first element exceeds 10, at most n times, and counts.
	search := func(n int64, withRows bool) *onnxpb.GraphProto {
		inner := body([]*onnxpb.ValueInfoProto{intValue("i"), boolValue("go"), valueInfo("a", 1), valueInfo("n", 1)}, "on b m",
			node("Add(a, x) b"), node("Add(n, one) m"), node("Less(b, ten) on"))
		results := "s, n2"
		if withRows {
			inner.Output = append(inner.Output, valueInfo("b"))
			results += ", rows"
		}
		g := &onnxpb.GraphProto{
			Input: []*onnxpb.ValueInfoProto{valueInfo("x", 1)},
			Initializer: []*onnxpb.TensorProto{values("zero", 0), values("one", 1), values("ten", 10),
				{Name: "limit", DataType: 7, Int64Data: []int64{n}}},
			Node:   []*onnxpb.NodeProto{node("Loop(limit, , zero, zero) "+results, graphAttr("body", inner))},
			Output: []*onnxpb.ValueInfoProto{valueInfo("s"), valueInfo("n2")},
		}
		if n < 0 {
			g.Node[0].Input[0] = ""
		}
		if withRows {
			g.Output = append(g.Output, valueInfo("rows"))
		}
		return g
	}
	// Sums of 1, 2, … n, collected.
	counted := &onnxpb.GraphProto{
		Input: []*onnxpb.ValueInfoProto{valueInfo("x", 1)},
		Initializer: []*onnxpb.TensorProto{{Name: "limit", DataType: 7, Int64Data: []int64{4}},
			{Name: "on", DataType: 9, Int32Data: []int32{1}}},
		Node: []*onnxpb.NodeProto{node("Loop(limit, on, x) s, rows", graphAttr("body", body(
			[]*onnxpb.ValueInfoProto{intValue("i"), boolValue("go"), valueInfo("a", 1)}, "go b twice",
			node("Cast(i) f", intAttr("to", 1)), node("Add(a, f) b"), node("Add(b, b) twice"))))},
		Output: []*onnxpb.ValueInfoProto{valueInfo("s"), valueInfo("rows")},
	}
	// Running sums from the end, results from the end too: stacked along axis 1.
	scanned := &onnxpb.GraphProto{
		Input: []*onnxpb.ValueInfoProto{valueInfo("x", 2), valueInfo("rows", 2, 3)},
		Node: []*onnxpb.NodeProto{node("Scan(x, rows) last, sums", intAttr("num_scan_inputs", 1),
			intsAttr("scan_input_axes", 1), intsAttr("scan_input_directions", 1),
			intsAttr("scan_output_axes", -1), intsAttr("scan_output_directions", 1),
			graphAttr("body", body([]*onnxpb.ValueInfoProto{valueInfo("a", 2), valueInfo("r", 2)}, "b b2",
				node("Add(a, r) b"), node("Identity(b) b2"))))},
		Output: []*onnxpb.ValueInfoProto{valueInfo("last"), valueInfo("sums")},
	}
	tests := []struct {
		name  string
		graph *onnxpb.GraphProto
		in    []*ir.Tensor
		fixed map[string]*ir.Tensor
		want  []*ir.Tensor
		err   string
	}{
		{name: "then", graph: conditional, in: []*ir.Tensor{scalars(ir.F32, 1, 2)}, fixed: map[string]*ir.Tensor{"c": fromInts(ir.Bool, []int{1}, []int64{1})},
			want: []*ir.Tensor{scalars(ir.F32, 11, 22)}},
		{name: "else", graph: conditional, in: []*ir.Tensor{scalars(ir.F32, 1, 2)}, fixed: map[string]*ir.Tensor{"c": fromInts(ir.Bool, []int{1}, []int64{0})},
			want: []*ir.Tensor{scalars(ir.F32, 10, 40)}},
		{name: "then at run time", graph: conditional, in: []*ir.Tensor{scalars(ir.F32, 1, 2), fromInts(ir.Bool, []int{1}, []int64{1})},
			want: []*ir.Tensor{scalars(ir.F32, 11, 22)}},
		{name: "else at run time", graph: conditional, in: []*ir.Tensor{scalars(ir.F32, 1, 2), fromInts(ir.Bool, []int{1}, []int64{0})},
			want: []*ir.Tensor{scalars(ir.F32, 10, 40)}},
		{name: "until", graph: search(20, false), in: []*ir.Tensor{scalars(ir.F32, 3)}, want: []*ir.Tensor{scalars(ir.F32, 12), scalars(ir.F32, 4)}},
		{name: "bounded", graph: search(2, false), in: []*ir.Tensor{scalars(ir.F32, 3)}, want: []*ir.Tensor{scalars(ir.F32, 6), scalars(ir.F32, 2)}},
		{name: "never", graph: search(0, false), in: []*ir.Tensor{scalars(ir.F32, 3)}, want: []*ir.Tensor{scalars(ir.F32, 0), scalars(ir.F32, 0)}},
		{name: "open end", graph: search(-1, false), in: []*ir.Tensor{scalars(ir.F32, 3)}, err: "depends on data and no trip count bounds it"},
		{name: "open length", graph: search(20, true), in: []*ir.Tensor{scalars(ir.F32, 3)}, err: "the length of its results depends on data"},
		{name: "huge", graph: search(1<<40, false), in: []*ir.Tensor{scalars(ir.F32, 3)}, err: "unrolling gives more than"},
		{name: "known in time", graph: search(20, true), fixed: map[string]*ir.Tensor{"x": scalars(ir.F32, 4)},
			want: []*ir.Tensor{scalars(ir.F32, 12), scalars(ir.F32, 3), fromFloats(ir.F32, []int{3, 1}, []float64{4, 8, 12})}},
		{name: "counted", graph: counted, in: []*ir.Tensor{scalars(ir.F32, 5)},
			want: []*ir.Tensor{scalars(ir.F32, 11), fromFloats(ir.F32, []int{4, 1}, []float64{10, 12, 16, 22})}},
		{name: "scan", graph: scanned, in: []*ir.Tensor{scalars(ir.F32, 0, 100), fromFloats(ir.F32, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6})},
			want: []*ir.Tensor{scalars(ir.F32, 6, 115), fromFloats(ir.F32, []int{2, 3}, []float64{6, 5, 3, 115, 111, 106})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := importModel(t, modelOf(16, tt.graph), ImportOptions{Values: tt.fixed})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := eval.New(g)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Run(context.Background(), tt.in, eval.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.want {
				if d, err := compareTensors(got[i], want, 0); err != nil || d.absolute > 0 {
					t.Errorf("result %d is %v, want %v (%v)", i, numbers(got[i]), numbers(want), err)
				}
			}
		})
	}
}

// TestNestedErrors are faults inside nested graphs.
func TestNestedErrors(t *testing.T) {
	model := func(then *onnxpb.GraphProto) *onnxpb.ModelProto {
		return single(16, node("If(c) y", graphAttr("then_branch", then), graphAttr("else_branch", body(nil, "r", node("Neg(x) r")))),
			boolValue("c", 1), valueInfo("x", 2))
	}
	deep := body(nil, "r", node("Neg(x) r"))
	for range 18 {
		deep = body(nil, "r", node("If(c) r", graphAttr("then_branch", deep), graphAttr("else_branch", body(nil, "r", node("Neg(x) r")))))
	}
	tests := []struct {
		name string
		then *onnxpb.GraphProto
		want string
	}{
		{"undefined name", body(nil, "r", node("Neg(z) r")), `reads "z"`},
		{"cycle", body(nil, "r", node("Neg(q) r"), node("Neg(r) q")), "cyclic"},
		{"defined twice", body(nil, "r", node("Neg(x) r"), node("Abs(x) r")), "defines already"},
		{"nested too deep", deep, "nested more than 16 deep"},
		{"unsupported inside", body(nil, "r", node("Frob(x) r")), `"y/r" Frob`},
		{"different shapes", body(nil, "r", node("ReduceSum(x) r", intAttr("keepdims", 0))), "in one branch"},
		{"number of results", body(nil, "r q", node("Neg(x) r"), node("Neg(r) q")), "its branches 2 and 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse(encode(t, model(tt.then)), "")
			if err == nil {
				_, err = Import(m, ImportOptions{})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}
