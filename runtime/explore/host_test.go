package explore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
)

// TestHostParts explores a network whose last operators no chip has a form for: the
// figures are of the rest, and a warning names what the host does.
func TestHostParts(t *testing.T) {
	value := func(name string, dims ...int64) *onnxpb.ValueInfoProto {
		s := &onnxpb.TensorShapeProto{}
		for _, d := range dims {
			s.Dim = append(s.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d}})
		}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(onnxpb.TensorProto_FLOAT), Shape: s}}}}
	}
	w := &onnxpb.TensorProto{Name: "w", DataType: int32(onnxpb.TensorProto_FLOAT), Dims: []int64{32, 16}}
	for i := range 32 * 16 {
		w.FloatData = append(w.FloatData, float32(i%7)/8-0.4)
	}
	model := func(file, tail string) {
		g := &onnxpb.GraphProto{
			Name: "g", Initializer: []*onnxpb.TensorProto{w},
			Input: []*onnxpb.ValueInfoProto{value("x", 4, 32)}, Output: []*onnxpb.ValueInfoProto{value("y", 4, 16)},
			Node: []*onnxpb.NodeProto{{OpType: "MatMul", Name: "fc", Input: []string{"x", "w"}, Output: []string{"y"}}},
		}
		if tail != "" {
			g.Node[0].Output[0] = "s"
			g.Node = append(g.Node, &onnxpb.NodeProto{OpType: tail, Name: "tail", Input: []string{"s"}, Output: []string{"y"}})
		}
		b, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: 8, Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(tail string) *Report {
		dir := t.TempDir()
		model(filepath.Join(dir, "m.onnx"), tail)
		file := filepath.Join(dir, "space.yaml")
		text := []byte("models: [m.onnx]\nbase: edge-dimc\nparameters:\n  array.rows: [32, 64]\nobjectives: [latency, energy]\nfunnel: {finalists: 2}\n")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), s, openStore(t, ""), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	whole, part := run(""), run("Sin")
	if len(part.Front) == 0 || len(part.Front) != len(whole.Front) {
		t.Fatalf("%d designs on the front, %d without a host", len(part.Front), len(whole.Front))
	}
	if w := strings.Join(part.Warnings, "\n"); !strings.Contains(w, `sin "tail"`) {
		t.Errorf("no warning names what the host does: %q", w)
	}
	if w := strings.Join(whole.Warnings, "\n"); strings.Contains(w, "host") {
		t.Errorf("a host where there is none: %q", w)
	}
}
