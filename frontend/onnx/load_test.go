package onnx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
)

// sharedPath returns a path below the folder of shared test models.
func sharedPath(t testing.TB, elem ...string) (path string, err error) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	path = filepath.Join(append([]string{dir, "..", "shared"}, elem...)...)
	_, err = os.Stat(path)
	return path, err
}

// shared is sharedPath for tests that cannot do without.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	path, err := sharedPath(t, elem...)
	if err != nil {
		t.Skipf("the shared models are not here: %v", err)
	}
	return path
}

// Small constructors for models under test.

func valueInfo(name string, dims ...int64) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for _, d := range dims {
		shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{
			Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d}})
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(onnxpb.TensorProto_FLOAT), Shape: shape}}}}
}

// node parses "Op(in, in) out, out".
func node(s string, attrs ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	list := func(s string) []string {
		if strings.TrimSpace(s) == "" {
			return nil
		}
		f := strings.Split(s, ",")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		return f
	}
	op, rest, _ := strings.Cut(s, "(")
	in, out, _ := strings.Cut(rest, ")")
	return &onnxpb.NodeProto{OpType: op, Input: list(in), Output: list(out), Attribute: attrs}
}

func floats(name string, dims []int64, data ...float32) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), Dims: dims, FloatData: data}
}

func modelOf(opset int64, g *onnxpb.GraphProto) *onnxpb.ModelProto {
	return &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: opset}}, Graph: g}
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// chain is x → Relu → y, for the error tests to spoil.
func chain() *onnxpb.ModelProto {
	return modelOf(13, &onnxpb.GraphProto{
		Input:  []*onnxpb.ValueInfoProto{valueInfo("x", 1, 4)},
		Output: []*onnxpb.ValueInfoProto{valueInfo("y", 1, 4)},
		Node:   []*onnxpb.NodeProto{node("Relu(x) y")},
	})
}

func TestParseErrors(t *testing.T) {
	spoil := func(f func(*onnxpb.ModelProto)) []byte {
		m := chain()
		f(m)
		return encode(t, m)
	}
	initial := func(tp *onnxpb.TensorProto) []byte {
		return spoil(func(m *onnxpb.ModelProto) { m.Graph.Initializer = append(m.Graph.Initializer, tp) })
	}
	whole := encode(t, chain())
	deep := []byte{}
	for range 100 { // attribute → graph → node → attribute …
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), deep)
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), deep)
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), deep)
	}
	deep = protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), deep)
	fields := make([]byte, 2*maxFields+2) // empty nodes
	for i := 0; i < len(fields); i += 2 {
		fields[i] = 1<<3 | 2
	}
	fields = protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), fields)

	tests := []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "empty file"},
		{"text", []byte("hello, this is no model"), "not an ONNX file, or a damaged one"},
		{"truncated", whole[:len(whole)-3], "ends too early"},
		{"length beyond the end", []byte{7<<3 | 2, 0xff, 0xff, 0xff, 0xff, 7}, "ModelProto.graph: the data ends too early"},
		{"deep nesting", deep, "nested more than"},
		{"many tiny messages", fields, "fields in the file"},
		{"no graph", spoil(func(m *onnxpb.ModelProto) { m.Graph = nil }), "no graph"},
		{"format version", spoil(func(m *onnxpb.ModelProto) { m.IrVersion = 99 }), "version 99; versions 3 to 13"},
		{"no opset", spoil(func(m *onnxpb.ModelProto) { m.OpsetImport[0].Version = 0 }), "version 0; versions 1 to 26"},
		{"future opset", spoil(func(m *onnxpb.ModelProto) { m.OpsetImport[0].Version = 27 }), "version 27; versions 1 to 26"},
		{"no opset", spoil(func(m *onnxpb.ModelProto) { m.OpsetImport = nil }), "does not say which version"},
		{"two opsets", spoil(func(m *onnxpb.ModelProto) {
			m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "ai.onnx", Version: 9})
		}), "imported as version 13 and 9"},
		{"missing input", spoil(func(m *onnxpb.ModelProto) { m.Graph.Node[0].Input[0] = "ghost" }), `node "y" (Relu) reads "ghost", which nothing defines`},
		{"missing output", spoil(func(m *onnxpb.ModelProto) { m.Graph.Output[0].Name = "ghost" }), `graph output "ghost"`},
		{"no output", spoil(func(m *onnxpb.ModelProto) { m.Graph.Output = nil }), "no outputs"},
		{"value defined twice", spoil(func(m *onnxpb.ModelProto) {
			m.Graph.Node = append(m.Graph.Node, node("Abs(x) y"))
		}), `node "y" (Abs) defines "y", which node "y" (Relu) defines already`},
		{"input redefined", spoil(func(m *onnxpb.ModelProto) {
			m.Graph.Node = append(m.Graph.Node, node("Abs(y) x"))
		}), "which a graph input defines already"},
		{"initializer twice", spoil(func(m *onnxpb.ModelProto) {
			m.Graph.Initializer = []*onnxpb.TensorProto{floats("w", nil, 1), floats("w", nil, 1)}
		}), `initializer "w" is empty or defined twice`},
		{"cycle", spoil(func(m *onnxpb.ModelProto) {
			m.Graph.Node = []*onnxpb.NodeProto{node("Add(x, b) a"), node("Abs(c) b"), node("Neg(a) c"), node("Relu(c) y")}
		}), `cyclic: "a" (Add) ← "b" (Abs) ← "c" (Neg) ← "a" (Add)`},
		{"cycle of one", spoil(func(m *onnxpb.ModelProto) { m.Graph.Node[0].Input[0] = "y" }), `cyclic: "y" (Relu) ← "y" (Relu)`},
		{"cycle through a subgraph", spoil(func(m *onnxpb.ModelProto) {
			body := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("Neg(y) inner")}, Output: []*onnxpb.ValueInfoProto{valueInfo("inner")}}
			m.Graph.Node = []*onnxpb.NodeProto{node("Relu(c) y"), node("If(x) c",
				&onnxpb.AttributeProto{Name: "then_branch", Type: onnxpb.AttributeProto_GRAPH, G: body})}
		}), "cyclic"},
		{"negative dimension", initial(floats("w", []int64{-1})), "dimension -1"},
		{"negative input dimension", spoil(func(m *onnxpb.ModelProto) { m.Graph.Input[0] = valueInfo("x", -7) }), "negative dimension -7"},
		{"overflowing product", initial(floats("w", []int64{1 << 62, 1 << 62})), "dimension 4611686018427387904"},
		{"product wraps to zero", initial(floats("w", []int64{1 << 30, 1 << 30, 1 << 4})), "more than 2147483648 elements"},
		{"input too large", spoil(func(m *onnxpb.ModelProto) { m.Graph.Input[0] = valueInfo("x", 1<<20, 1<<20) }), "more than 2147483648 elements"},
		{"gigabytes from 100 bytes", initial(floats("w", []int64{1 << 15, 1 << 15}, 1)), "needs 1073741824 elements, 1 are present"},
		{"raw data of a wrong length", initial(&onnxpb.TensorProto{Name: "w", DataType: 6, Dims: []int64{3}, RawData: make([]byte, 11)}), "needs 12 bytes, 11 are present"},
		{"constant of a wrong length", spoil(func(m *onnxpb.ModelProto) {
			m.Graph.Node[0].Attribute = []*onnxpb.AttributeProto{{Name: "value", T: floats("", []int64{9}, 1)}}
		}), `node "y" (Relu): attribute "value": shape [9]`},
		{"segment", initial(&onnxpb.TensorProto{Name: "w", DataType: 1, Segment: &onnxpb.TensorProto_Segment{}}), "segments"},
		{"sparse", spoil(func(m *onnxpb.ModelProto) {
			m.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{{Values: floats("s", nil, 1)}}
		}), `"s": sparse`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.file, "")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	m := chain()
	m.Graph.Node = nil
	for i := range 25 {
		m.Graph.Node = append(m.Graph.Node, node("Relu(g"+string(rune('a'+i))+") o"+string(rune('a'+i))))
	}
	_, err := Parse(encode(t, m), "")
	if err == nil || !strings.Contains(err.Error(), `"ga"`) || !strings.Contains(err.Error(), `"gs"`) || !strings.Contains(err.Error(), "and 6 more") {
		t.Errorf("got %v", err)
	}
}

func TestParseSortsNodes(t *testing.T) {
	m := chain()
	m.Graph.Node = []*onnxpb.NodeProto{node("Add(a, b) y"), node("Relu(a) b"), node("Abs(x) a"), node("Neg(x) c")}
	got, err := Parse(encode(t, m), "")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, n := range got.Proto.Graph.Node {
		order = append(order, n.OpType)
	}
	if s := strings.Join(order, " "); s != "Abs Relu Add Neg" {
		t.Errorf("order %s", s)
	}
}

// TestParseSharesWeights checks that large raw data ends up, unchanged, in the
// initialiser it belongs to and is not copied.
func TestParseSharesWeights(t *testing.T) {
	m := chain()
	for _, size := range []int{4, 40000, 0, 8, 50000} {
		raw := make([]byte, size)
		for i := range raw {
			raw[i] = byte(i*7 + size)
		}
		m.Graph.Initializer = append(m.Graph.Initializer, &onnxpb.TensorProto{
			Name: "w" + string(rune('a'+len(m.Graph.Initializer))), DataType: 2, Dims: []int64{int64(size)}, RawData: raw})
	}
	b := encode(t, m)
	got, err := Parse(b, "")
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(m, got.Proto) {
		t.Error("the model changed on its way")
	}
	data := got.Proto.Graph.Initializer[1].RawData
	data[0]++ // visible in the file's bytes when shared
	if again, err := Parse(b, ""); err != nil || again.Proto.Graph.Initializer[1].RawData[0] != data[0] {
		t.Errorf("weights were copied (%v)", err)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.onnx")
	if err := os.WriteFile(bad, []byte("\x00"), 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent.onnx"): "absent.onnx",
		dir:                               "not a regular file",
		os.DevNull:                        "not a regular file",
		bad:                               "bad.onnx: not an ONNX file, or a damaged one: ModelProto: malformed",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%s): %v, want an error with %q", path, err, want)
		}
	}
}

// TestLoadShared loads every shared model, those with unsupported operators too.
func TestLoadShared(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "onnx", "models"), "*", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	light, err := filepath.Glob(filepath.Join(shared(t, "onnx", "backend", "light-tests"), "*", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, light...)
	if len(files) < 50 {
		t.Fatalf("only %d models found", len(files))
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, chain()))
	m := chain()
	m.Graph.Initializer = []*onnxpb.TensorProto{
		floats("w", []int64{2}, 1, 2),
		{Name: "q", DataType: int32(onnxpb.TensorProto_INT4), Dims: []int64{3}, RawData: []byte{0x21, 0x03}},
		{Name: "e", DataType: 1, Dims: []int64{1}, DataLocation: onnxpb.TensorProto_EXTERNAL,
			ExternalData: []*onnxpb.StringStringEntryProto{{Key: "location", Value: "../x"}}},
	}
	f.Add(encode(f, m))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b, dir)
		if err != nil {
			return
		}
		for _, tp := range m.Proto.Graph.Initializer {
			if x, err := DecodeTensor(tp, m.Dir); err == nil && x.Numel() > len(b) {
				t.Errorf("%d elements out of %d bytes", x.Numel(), len(b))
			}
		}
	})
}
