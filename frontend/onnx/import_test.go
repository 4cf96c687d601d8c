package onnx

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// mustImport are the models that have to import, as patterns below onnx/.
var mustImport = []string{
	"models/mlperf-tiny-*", "models/cifar10-resnet20-bn", "models/mnist-cntk", "models/cnn-mnist-pytorch",
	"models/mnist-sigmoid-6x200", "models/mobilenetv2-imagenet-int8-qdq", "models/mobilenetedgetpu-block-qdq",
	"models/stm-mobilenetv2-*", "models/stm-yamnet-256", "models/self-mnist-mobilenetv3-se",
	"models/acasxu-1-1", "models/ort-conv-qdq-*", "models/ort-conv-int4-weights-qdq",
	"backend/light-tests/*",
}

func mustImportFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, p := range mustImport {
		f, err := filepath.Glob(filepath.Join(shared(t, "onnx"), p, "model.onnx"))
		if err != nil || len(f) == 0 {
			t.Fatalf("no models %s (%v)", p, err)
		}
		files = append(files, f...)
	}
	return files
}

func TestImportShared(t *testing.T) {
	for _, f := range mustImportFiles(t) {
		t.Run(filepath.Base(filepath.Dir(f)), func(t *testing.T) {
			m, err := Load(f)
			if err != nil {
				t.Fatal(err)
			}
			g, err := Import(m, ImportOptions{DefaultDim: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(g.Inputs) != len(m.Inputs()) || len(g.Outputs) != len(m.Proto.Graph.Output) {
				t.Errorf("%d inputs and %d outputs, want %d and %d", len(g.Inputs), len(g.Outputs), len(m.Inputs()), len(m.Proto.Graph.Output))
			}
		})
	}
}

// single is a model of one node over float inputs.
func single(opset int64, n *onnxpb.NodeProto, inputs ...*onnxpb.ValueInfoProto) *onnxpb.ModelProto {
	g := &onnxpb.GraphProto{Input: inputs, Node: []*onnxpb.NodeProto{n}}
	for _, o := range n.Output {
		g.Output = append(g.Output, valueInfo(o))
	}
	return modelOf(opset, g)
}

func intAttr(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

func intsAttr(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}

func importModel(t *testing.T, m *onnxpb.ModelProto, opt ImportOptions) (*ir.Graph, error) {
	t.Helper()
	p, err := Parse(encode(t, m), "")
	if err != nil {
		t.Fatal(err)
	}
	return Import(p, opt)
}

func TestImportErrors(t *testing.T) {
	image := func() *onnxpb.ValueInfoProto { return valueInfo("x", 1, 3, 8, 8) }
	tests := []struct {
		name  string
		model *onnxpb.ModelProto
		want  string
	}{
		{"operator of a later opset", single(13, node("HardSwish(x) y"), image()), `"y" HardSwish (ai.onnx 13)`},
		{"other domain", func() *onnxpb.ModelProto {
			n := node("Relu(x) y")
			n.Domain = "com.microsoft"
			return single(13, n, image())
		}(), `"y" Relu (com.microsoft 0)`},
		{"unknown attribute", single(13, node("Relu(x) y", intAttr("slope", 1)), image()), "unknown attribute slope"},
		{"attribute of a wrong type", single(13, node("Softmax(x) y", intsAttr("axis", 1)), image()), "attribute axis is of type INTS, want INT"},
		{"training", single(15, node("BatchNormalization(x, s, s, s, s) y, m"), image(), valueInfo("s", 3)), "the results of training"},
		{"number of boxes", single(11, node("NonMaxSuppression(b, s) y"), valueInfo("b", 1, 4, 4), valueInfo("s", 1, 1, 4)), "depends on data"},
		{"adaptive sampling", single(16, node("RoiAlign(x, r, i) y"), image(), valueInfo("r", 2, 4), valueInfo("i", 2)), "sampling_ratio 0"},
		{"indices of huge windows", single(13, node("MaxPool(x) y, i", intsAttr("kernel_shape", 1<<20, 1<<20, 1<<20),
			intsAttr("pads", 1<<20-1, 1<<20-1, 1<<20-1, 1<<20-1, 1<<20-1, 1<<20-1)), valueInfo("x", 1, 1, 1, 1, 1)), "element operations"},
		{"transposed by huge strides", single(13, node("ConvTranspose(x, w) y", intsAttr("strides", 1<<20, 1<<20, 1<<20)),
			valueInfo("x", 1, 1, 1, 1, 1), valueInfo("w", 1, 1, 1, 1, 1)), "element operations"},
		{"endless sequence", single(14, node("RNN(x, w, r) y"), valueInfo("x", 1<<20, 1, 2), valueInfo("w", 1, 3, 2), valueInfo("r", 1, 3, 3)), "unrolling gives more than"},
		{"empty sequence", single(14, node("RNN(x, w, r) y"), valueInfo("x", 0, 1, 2), valueInfo("w", 1, 3, 2), valueInfo("r", 1, 3, 3)), "empty sequences"},
		{"shape known only at run time", single(13, node("Reshape(x, s) y"), image(), valueInfo("s", 2)), "shape must be a constant"},
		{"missing operand", single(13, node("Add(x) y"), image()), "takes at least 2 inputs, has 1"},
		{"absent operand", single(13, node("Add(x, ) y"), image()), "input 1 is missing"},
		{"wrong channels", single(13, node("Conv(x, w) y"), image(), valueInfo("w", 4, 2, 3, 3)), `node "y" (Conv): conv2d "y": w has 2 input channels`},
		{"kernel too large", single(13, node("MaxPool(x) y", intsAttr("kernel_shape", 9, 9)), image()), "larger than the padded operand"},
		{"huge kernel", single(13, node("MaxPool(x) y", intsAttr("kernel_shape", 1<<40, 1)), image()), "must be 1 to"},
		{"axis", single(13, node("Softmax(x) y", intAttr("axis", 4)), image()), "axis 4 is outside the 4 dimensions"},
		{"permutation", single(13, node("Transpose(x) y", intsAttr("perm", 0, 0, 1, 2)), image()), "does not permute"},
		{"shapes that do not broadcast", single(13, node("Add(x, z) y"), image(), valueInfo("z", 5)), "do not broadcast"},
		{"gigabytes from a small file", func() *onnxpb.ModelProto {
			m := single(13, node("ConstantOfShape(s) y"))
			m.Graph.Initializer = []*onnxpb.TensorProto{{Name: "s", DataType: 7, Dims: []int64{2}, Int64Data: []int64{1 << 15, 1 << 15}}}
			return m
		}(), "take more than 1073741824 bytes"},
		{"endless range", func() *onnxpb.ModelProto {
			m := single(13, node("Range(a, b, c) y"))
			m.Graph.Initializer = []*onnxpb.TensorProto{floats("a", nil, 0), floats("b", nil, 1), floats("c", nil, 0)}
			return m
		}(), "more than 1048576 elements"},
		{"work by repetition", func() *onnxpb.ModelProto {
			m := single(13, node("Range(a, b, c) y"))
			m.Graph.Initializer = []*onnxpb.TensorProto{floats("a", nil, 0), floats("b", nil, 1<<20), floats("c", nil, 1)}
			for i := range 100 {
				m.Graph.Node = append(m.Graph.Node, node(fmt.Sprintf("Range(a, b, c) r%d", i)))
			}
			return m
		}(), "more than 67108864 element operations"},
		{"fractional indices", func() *onnxpb.ModelProto {
			m := single(13, node("Gather(x, i) y"))
			m.Graph.Initializer = []*onnxpb.TensorProto{floats("x", []int64{3}, 1, 2, 3), floats("i", []int64{1}, 1)}
			return m
		}(), "indices are of type f32, want integers"},
		{"axis beyond all integers", single(6, node("Add(x, z) y", intAttr("broadcast", 1), intAttr("axis", 1<<63-1)), image(), valueInfo("z", 3)), "does not lie at dimension"},
		{"indices of maxima of a matrix", single(13, node("MaxPool(x) y, i", intsAttr("kernel_shape", 2)), valueInfo("x", 2, 2)), "want [N,C,spatial"},
		{"gigabytes of indices of maxima", single(13, node("MaxPool(x) y, i", intsAttr("kernel_shape", 1)), valueInfo("x", 1<<20, 1<<10, 1)), "element operations"},
		{"Fourier transform of a number", single(17, node("DFT(x) y"), valueInfo("x")), "axis 1"},
		{"gigabytes of samples", single(16, node("RoiAlign(x, r, i) y", intAttr("sampling_ratio", 1<<31-1), intAttr("output_height", 2)),
			image(), valueInfo("r", 1, 4), func() *onnxpb.ValueInfoProto {
				v := valueInfo("i", 1)
				v.GetType().GetTensorType().ElemType = 7
				return v
			}()), "element operations"},
		{"scale of zero", func() *onnxpb.ModelProto {
			m := single(13, node("QuantizeLinear(x, s) y"), image())
			m.Graph.Initializer = []*onnxpb.TensorProto{floats("s", nil, 0)}
			return m
		}(), "not a positive finite number"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := importModel(t, test.model, ImportOptions{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// TestImportListsAll checks that one error has every unsupported node, also
// those behind others, sorted, and the faults beside them.
func TestImportListsAll(t *testing.T) {
	m := chain()
	m.Graph.Input[0] = valueInfo("x", 1, 3, 8, 8)
	m.Graph.Node = []*onnxpb.NodeProto{
		node("SequenceErase(x) z"), node("Relu(z) a"), node("Bernoulli(a) k"), node("MaxPool(x) p"), node("StringConcat(p, k) y"),
	}
	_, err := importModel(t, m, ImportOptions{})
	var u *UnsupportedError
	if !errors.As(err, &u) {
		t.Fatalf("got %v", err)
	}
	want := "3 nodes are not supported:\n" +
		"\t\"k\" Bernoulli (ai.onnx 13)\n" +
		"\t\"y\" StringConcat (ai.onnx 13)\n" +
		"\t\"z\" SequenceErase (ai.onnx 13)\n" +
		"node \"p\" (MaxPool): the attribute kernel_shape is missing"
	if err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
}

func TestSymbols(t *testing.T) {
	model := func() *onnxpb.ModelProto {
		m := single(13, node("Add(a, b) y"), valueInfo("a", 0, 0, 4), valueInfo("b", 0, 0, 4))
		for _, in := range m.Graph.Input {
			dims := in.Type.GetTensorType().Shape.Dim
			dims[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}
			dims[1].Value = nil
		}
		return m
	}
	shape := func(d ...int) []int { return d }
	tests := []struct {
		name string
		opt  ImportOptions
		want string // shape of y, or part of the error
	}{
		{"nothing bound", ImportOptions{}, `input "a": dimension 0, "N", is symbolic: bind it, for example with --dim N=1`},
		{"dims", ImportOptions{Dims: map[string]int64{"N": 2, "a.1": 3, "b.1": 3}}, "[2 3 4]"},
		{"default is for the first dimension", ImportOptions{DefaultDim: 1}, `"a.1", is symbolic`},
		{"default and dims", ImportOptions{DefaultDim: 5, Dims: map[string]int64{"a.1": 1, "b.1": 3}}, "[5 3 4]"},
		{"shapes bind symbols", ImportOptions{InputShapes: map[string][]int{"a": shape(7, 1, 4)}, Dims: map[string]int64{"b.1": 2}}, "[7 2 4]"},
		{"conflict", ImportOptions{InputShapes: map[string][]int{"a": shape(7, 1, 4), "b": shape(8, 1, 4)}}, `"N", is given as both 7 and 8`},
		{"fixed dimension", ImportOptions{InputShapes: map[string][]int{"a": shape(7, 1, 5)}}, "dimension 2 is 4 in the model and 5 in the given shape"},
		{"rank", ImportOptions{InputShapes: map[string][]int{"a": shape(7)}}, "has 3 dimensions, the given shape [7] has 1"},
		{"unknown symbol", ImportOptions{Dims: map[string]int64{"M": 1}}, `no symbolic dimension "M"; the model has "N", "a.1", "b.1"`},
		{"unknown input", ImportOptions{InputShapes: map[string][]int{"c": nil}}, `"c", which is no input`},
		{"zero", ImportOptions{Dims: map[string]int64{"N": 0}}, `"N" cannot be 0`},
		{"too large", ImportOptions{Dims: map[string]int64{"N": 1 << 30, "a.1": 1 << 30, "b.1": 1}}, "more than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g, err := importModel(t, model(), test.opt)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(g.Type(g.Outputs[0]).Shape)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestImportShapeArithmetic flattens an image the way exporters spell it: with
// its shape taken apart and put together again.
func TestImportShapeArithmetic(t *testing.T) {
	m := chain()
	m.Graph.Input[0] = valueInfo("x", 2, 3, 4, 5)
	m.Graph.Initializer = []*onnxpb.TensorProto{
		{Name: "zero", DataType: 7, Int64Data: []int64{0}},
		{Name: "axes", DataType: 7, Dims: []int64{1}, Int64Data: []int64{0}},
		{Name: "rest", DataType: 7, Dims: []int64{1}, Int64Data: []int64{-1}},
	}
	m.Graph.Node = []*onnxpb.NodeProto{
		node("Shape(x) s"), node("Gather(s, zero) n"), node("Unsqueeze(n, axes) n1"),
		node("Concat(n1, rest) to", intAttr("axis", 0)), node("Reshape(x, to) y"),
	}
	g, err := importModel(t, m, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := "" +
		"graph \"\" {\n" +
		"  %0 = input \"x\" : f32[2,3,4,5]\n" +
		"  %1 = reshape %0 {shape=[2,60]} : f32[2,60] @ \"y\"\n" +
		"  output %1\n" +
		"}\n"
	if got := g.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestImportQDQ shows what becomes of a quantised convolution: codes keep their
// scales, weights are turned to OHWI as codes, and images to NHWC.
func TestImportQDQ(t *testing.T) {
	m := chain()
	m.Graph.Input[0] = valueInfo("x", 1, 2, 3, 3)
	m.Graph.Initializer = []*onnxpb.TensorProto{
		floats("s", nil, 0.5), {Name: "z", DataType: 3, Int32Data: []int32{-3}},
		{Name: "w", DataType: 3, Dims: []int64{2, 2, 1, 2}, Int32Data: []int32{1, 2, 3, 4, 5, 6, 7, 8}},
		floats("ws", []int64{2}, 0.25, 1),
	}
	m.Graph.Node = []*onnxpb.NodeProto{
		node("QuantizeLinear(x, s, z) q"), node("DequantizeLinear(q, s, z) d"),
		node("DequantizeLinear(w, ws) wd", intAttr("axis", 0)), node("Conv(d, wd) y"),
	}
	g, err := importModel(t, m, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `graph "" {
  %0 = input "x" : f32[1,2,3,3]
  %1 = quantize %0 : i8[1,2,3,3] scale=0.5 zero=-3 @ "q"
  %2 = dequantize %1 : f32[1,2,3,3] @ "d"
  %3 = transpose %2 {perm=[0,2,3,1]} : f32[1,3,3,2] @ "y"
  %4 = const "w" : i8[2,1,2,2] scale=[0.25, 1] zero=0 axis=0 {1, 3, 2, 4, 5, 7, 6, 8}
  %5 = dequantize %4 : f32[2,1,2,2] @ "w"
  %6 = conv2d %3, %5 : f32[1,3,2,2] @ "y"
  %7 = transpose %6 {perm=[0,3,1,2]} : f32[1,2,3,2] @ "y"
  output %7
}
`
	if got := g.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestImportOutputs checks that outputs keep their names when a model returns an
// input, a constant or the same value twice.
func TestImportOutputs(t *testing.T) {
	m := chain()
	m.Graph.Initializer = []*onnxpb.TensorProto{floats("w", []int64{1}, 5)}
	m.Graph.Node = append(m.Graph.Node, node("Identity(y) z"), node("Identity(x) i"), node("Identity(w) c"))
	for _, name := range []string{"z", "i", "c"} {
		m.Graph.Output = append(m.Graph.Output, valueInfo(name))
	}
	g, err := importModel(t, m, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, id := range g.Outputs {
		names = append(names, g.Value(id).Name)
	}
	if fmt.Sprint(names) != "[y z i c]" {
		t.Errorf("outputs %v", names)
	}
}

func TestTable(t *testing.T) {
	for _, rows := range [][]row{table, mlTable, contribTable} {
		seen := map[string]bool{}
		for _, r := range rows {
			if seen[r.name] || r.since < 1 || r.until != 0 && r.until < r.since || r.translate == nil {
				t.Errorf("bad row %q", r.name)
			}
			seen[r.name] = true
		}
	}
	list := Operators()
	if len(list) != len(table)+len(mlTable)+len(contribTable) || list[0] != (Operator{"ai.onnx", "Conv", 1, maxOpset}) {
		t.Errorf("%d operators, the first %+v", len(list), list[0])
	}
}

func FuzzImport(f *testing.F) {
	f.Add(encode(f, chain()))
	f.Add(encode(f, single(13, node("Conv(x, w) y", intsAttr("strides", 2, 1)), valueInfo("x", 1, 2, 5, 5), valueInfo("w", 2, 2, 3, 3))))
	f.Add(encode(f, single(12, node("Slice(x, s, e) y"), valueInfo("x", 4, 4), valueInfo("s", 1), valueInfo("e", 1))))
	quant := single(13, node("QuantizeLinear(x, s, z) y"), valueInfo("x", 4, 4))
	quant.Graph.Initializer = []*onnxpb.TensorProto{floats("s", nil, 0.5), {Name: "z", DataType: 3, Int32Data: []int32{1}}}
	f.Add(encode(f, quant))
	// The standard's tests of single operators, where they are at hand.
	if dir, err := sharedPath(f, "onnx", "backend", "node"); err == nil {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "model.onnx"))
		for _, file := range files {
			p, err := readNode(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(encode(f, p))
			// With all inputs but the first as constants, translations get further.
			inputs, err := readSet(filepath.Join(filepath.Dir(file), "test_data_set_0"), "input")
			if err != nil {
				continue // of a type that is not read
			}
			for i := 1; i < min(len(inputs), len(p.Graph.Input)); i++ {
				p.Graph.Initializer = append(p.Graph.Initializer, EncodeTensor(p.Graph.Input[i].Name, inputs[i]))
			}
			if b := encode(f, p); len(b) < 1<<12 {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b, "")
		if err != nil {
			return
		}
		if _, err := Import(m, ImportOptions{DefaultDim: 1}); err != nil && strings.Contains(err.Error(), "inconsistent") {
			t.Error(err)
		}
		executeZeros(t, m)
	})
}

// The batch is dimension 0 of every input, called so.
func TestBatchSymbol(t *testing.T) {
	for _, tt := range []struct {
		dims []string // of each input, symbolic but for numbers
		want string
	}{
		{[]string{"N,3"}, ""}, // which may count anything
		{[]string{"batch_size,seq", "batch_size"}, "batch_size"},
		{[]string{"batch,3", "N,3"}, ""},
		{[]string{"seq,N"}, ""},
		{[]string{"1,3"}, ""},
		{[]string{"batch", ""}, ""},
		{nil, ""},
	} {
		g := &onnxpb.GraphProto{}
		for i, dims := range tt.dims {
			shape := &onnxpb.TensorShapeProto{}
			for _, d := range strings.FieldsFunc(dims, func(r rune) bool { return r == ',' }) {
				p := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: d}}
				if n, err := strconv.ParseInt(d, 10, 64); err == nil {
					p.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}
				}
				shape.Dim = append(shape.Dim, p)
			}
			tensor := &onnxpb.TypeProto_Tensor{ElemType: 1, Shape: shape}
			g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: fmt.Sprint(i), Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: tensor}}})
		}
		m := &Model{Proto: &onnxpb.ModelProto{Graph: g}}
		if got := m.BatchSymbol(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.dims, got, tt.want)
		}
	}
}
