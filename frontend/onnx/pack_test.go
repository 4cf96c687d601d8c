package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
)

// A packed model holds what was beside it, and one without is not changed.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	raw := []byte{0, 0, 128, 63, 0, 0, 0, 64}
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), append([]byte{7}, raw...), 0o666); err != nil {
		t.Fatal(err)
	}
	w := &onnxpb.TensorProto{Name: "w", DataType: 1, Dims: []int64{2}, DataLocation: onnxpb.TensorProto_EXTERNAL, ExternalData: []*onnxpb.StringStringEntryProto{
		{Key: "location", Value: "w.bin"}, {Key: "offset", Value: "1"}}}
	value := func(name string) *onnxpb.ValueInfoProto {
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{
			ElemType: 1, Shape: &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 2}}}}}}}}
	}
	m := &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 13}}, Graph: &onnxpb.GraphProto{
		Name: "g", Input: []*onnxpb.ValueInfoProto{value("x")}, Output: []*onnxpb.ValueInfoProto{value("y")}, Initializer: []*onnxpb.TensorProto{w},
		Node: []*onnxpb.NodeProto{{OpType: "Add", Input: []string{"x", "w"}, Output: []string{"y"}}}}}
	write := func(name string) string {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b, err := Pack(write("beside.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(b, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeTensor(p.Proto.Graph.Initializer[0], "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{1, 2}, got.Any()); diff != "" {
		t.Error(diff)
	}
	if _, err := Import(p, ImportOptions{}); err != nil {
		t.Error(err)
	}

	w.DataLocation, w.ExternalData, w.RawData = onnxpb.TensorProto_DEFAULT, nil, raw
	path := write("inside.onnx")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = Pack(path); err != nil || !bytes.Equal(b, want) {
		t.Errorf("a model in one piece was changed (%v)", err)
	}

	w.RawData, w.DataLocation = nil, onnxpb.TensorProto_EXTERNAL
	w.ExternalData = []*onnxpb.StringStringEntryProto{{Key: "location", Value: "absent.bin"}}
	if _, err := Pack(write("lost.onnx")); err == nil {
		t.Error("a model whose data is missing was packed")
	}
}
