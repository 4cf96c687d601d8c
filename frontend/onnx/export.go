package onnx

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// Versions of exported models. Codes of 8 bits are older than those of 4 and of
// 16, and more tools read them.
const (
	exportIRVersion = 10
	exportOpset     = 20
	exportOpsetNew  = 21 // with codes of other widths, or in blocks
)

// Export turns a graph into an ONNX model of opset 20, or 21
// when it has codes of 4 or 16 bits or in blocks: the inverse of Import up
// to layout: what runs over images runs with the channels first, and images are
// transposed where the graph needs the channels last. Floating-point
// graphs and those with quantize and dequantize can be written; the error lists
// the operators that compute on codes, which have no ONNX form.
func Export(g *ir.Graph) (*onnxpb.ModelProto, error) {
	e := &exporter{
		g:     g,
		names: make([]string, len(g.Values)),
		have:  make([]bool, len(g.Values)),
		first: map[ir.ValueID]string{},
		taken: map[string]bool{},
		out:   &onnxpb.GraphProto{Name: g.Name},
	}
	if e.out.Name == "" {
		e.out.Name = "graph"
	}
	// Inputs and outputs keep their names; the others make way.
	for _, list := range [][]ir.ValueID{g.Inputs, g.Outputs} {
		for _, id := range list {
			if e.names[id] == "" {
				e.names[id] = e.unique(g.Value(id).Name)
			}
		}
	}
	for _, id := range g.Inputs {
		e.out.Input = append(e.out.Input, e.info(id))
		e.have[id] = true
	}
	for _, id := range g.Outputs {
		e.out.Output = append(e.out.Output, e.info(id))
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		if err := e.op(op); err != nil {
			e.faults.addf("%s %q: %v", op.Kind, op.Name, err)
		}
	}
	if err := e.faults.err(); err != nil {
		return nil, err
	}
	for _, id := range g.Outputs {
		e.name(id)
	}
	opset := int64(exportOpset)
	if slices.ContainsFunc(g.Values, func(v ir.Value) bool {
		return v.Type.DType.Bits() == 4 || v.Type.Quant != nil && v.Type.Quant.Block > 0 || v.Type.IsQuantised() && v.Type.DType.Bits() == 16
	}) {
		opset = exportOpsetNew
	}
	return &onnxpb.ModelProto{
		IrVersion:    exportIRVersion,
		ProducerName: "situ",
		OpsetImport:  []*onnxpb.OperatorSetIdProto{{Version: opset}},
		Graph:        e.out,
	}, nil
}

// EncodeModel returns the ONNX file of a model, the same bytes every time.
func EncodeModel(m *onnxpb.ModelProto) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// WriteModel writes a model to a file.
func WriteModel(path string, m *onnxpb.ModelProto) error {
	b, err := EncodeModel(m)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, b, 0o666)
}

type exporter struct {
	g      *ir.Graph
	names  []string              // of each value; "" until it is used
	have   []bool                // by id: the name stands for something already
	first  map[ir.ValueID]string // names of images with the channels first, see export_image.go
	taken  map[string]bool
	out    *onnxpb.GraphProto
	faults faults
}

// unique returns the wanted name, or one like it that is still free.
func (e *exporter) unique(want string) string {
	if want == "" {
		want = "v"
	}
	name := want
	for n := 1; e.taken[name]; n++ {
		name = want + "_" + strconv.Itoa(n)
	}
	e.taken[name] = true
	return name
}

func (e *exporter) info(id ir.ValueID) *onnxpb.ValueInfoProto {
	t := e.g.Type(id)
	shape := &onnxpb.TensorShapeProto{}
	for _, d := range t.Shape {
		shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{
			Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}})
	}
	return &onnxpb.ValueInfoProto{Name: e.names[id], Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(protoDType(t.DType)), Shape: shape}}}}
}

// node appends a node and returns its result's name: result, or a new one when
// that is "".
func (e *exporter) node(op, result string, in []string, attrs ...*onnxpb.AttributeProto) string {
	if result == "" {
		result = e.unique(op)
	}
	e.out.Node = append(e.out.Node, &onnxpb.NodeProto{OpType: op, Input: slices.Clone(in), Output: []string{result}, Attribute: attrs})
	return result
}

// tensor adds a constant that is no value of the graph.
func (e *exporter) tensor(t *ir.Tensor) string {
	name := e.unique("const")
	e.out.Initializer = append(e.out.Initializer, EncodeTensor(name, t))
	return name
}

func (e *exporter) ints(v []int) string {
	return e.tensor(ir.NewTensor(ir.I64, []int{len(v)}, int64List(v)))
}

func int64List(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

func attrInt(name string, v int) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: int64(v)}
}

func attrInts(name string, v ...int) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: int64List(v)}
}

func attrFloat(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

func attrString(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

// onnxNames are the operators whose ONNX form has the same operands and
// attributes, but for those that op handles.
var onnxNames = map[ir.OpKind]string{
	ir.ReduceSum: "ReduceSum", ir.ReduceMean: "ReduceMean", ir.ReduceMax: "ReduceMax", ir.ReduceMin: "ReduceMin",
	ir.Softmax: "Softmax", ir.LogSoftmax: "LogSoftmax", ir.Concat: "Concat", ir.Gather: "Gather",
	ir.Add: "Add", ir.Sub: "Sub", ir.Mul: "Mul", ir.Div: "Div", ir.Min: "Min", ir.Max: "Max", ir.Pow: "Pow",
	ir.Relu: "Relu", ir.LeakyRelu: "LeakyRelu", ir.Elu: "Elu", ir.HardSigmoid: "HardSigmoid", ir.HardSwish: "HardSwish",
	ir.Sigmoid: "Sigmoid", ir.Tanh: "Tanh", ir.Exp: "Exp", ir.Log: "Log", ir.Sqrt: "Sqrt", ir.Reciprocal: "Reciprocal",
	ir.Neg: "Neg", ir.Abs: "Abs", ir.Erf: "Erf", ir.Floor: "Floor", ir.Ceil: "Ceil", ir.Round: "Round", ir.Softplus: "Softplus",
	ir.Sin: "Sin", ir.Cos: "Cos", ir.Tan: "Tan", ir.Asin: "Asin", ir.Acos: "Acos", ir.Atan: "Atan",
	ir.Sinh: "Sinh", ir.Cosh: "Cosh", ir.Asinh: "Asinh", ir.Acosh: "Acosh", ir.Atanh: "Atanh",
	ir.Equals: "Equal", ir.Less: "Less", ir.LessEqual: "LessOrEqual", ir.Where: "Where",
	ir.ReduceProd: "ReduceProd", ir.GatherElements: "GatherElements", ir.Det: "Det",
	ir.Reshape: "Reshape", ir.Expand: "Expand", ir.Transpose: "Transpose", ir.Reinterpret: "Identity",
}

// op writes one operator.
func (e *exporter) op(op *ir.Op) error {
	for _, id := range op.In {
		if id >= 0 && e.g.Type(id).IsQuantised() && !op.Kind.Is(ir.MovesCodes) && op.Kind != ir.Dequantize && op.Kind != ir.Reinterpret {
			return fmt.Errorf("computes on codes, which has no ONNX form")
		}
	}
	if e.isConstant(op) {
		return e.canBlock(e.g.Type(op.In[0]))
	}
	if e.moved(op) {
		return nil
	}
	first := e.runsFirst(op)
	in := make([]string, len(op.In))
	for i, id := range op.In {
		switch {
		case id == ir.NoValue:
		case first && len(e.g.Type(id).Shape) == imageRank:
			in[i] = e.channelsFirst(id)
		default:
			in[i] = e.name(id)
		}
	}
	out := e.result(op.Out, first)
	place := func(d int) int { // of a dimension in what the node sees
		if first {
			return slices.Index(toChannelsFirst, d)
		}
		return d
	}
	switch a := op.Attr.(type) {
	case nil:
		switch op.Kind {
		case ir.Cast:
			e.node("Cast", out, in, attrInt("to", int(protoDType(e.g.Type(op.Out).DType))))
			return nil
		case ir.Quantize:
			e.quantisation("QuantizeLinear", out, in, e.g.Type(op.Out), place)
			return nil
		case ir.Dequantize:
			e.quantisation("DequantizeLinear", out, in, e.g.Type(op.In[0]), place)
			return nil
		}
		if e.bits(op, out, in) {
			return nil
		}
		return e.simple(op, out, in)
	case *ir.ConvAttr:
		e.conv(op, a, in, out)
	case *ir.MatMulAttr:
		r := e.node("MatMul", e.before(out, a.Act != nil || len(in) > 2), in[:2])
		if len(in) > 2 {
			r = e.node("Add", e.before(out, a.Act != nil), []string{r, in[2]})
		}
		e.act(op, a.Act, r, out)
	case *ir.PoolAttr:
		return e.pool(op, a, in, out)
	case *ir.BinaryAttr:
		e.act(op, a.Act, e.node(onnxNames[op.Kind], e.before(out, a.Act != nil), in), out)
	case *ir.MulAddAttr:
		sum := ir.Add
		if a.Subtract {
			sum = ir.Sub
		}
		e.node(onnxNames[sum], out, []string{e.node("Mul", "", in[:2]), e.node("Mul", "", in[2:])})
	case *ir.ReduceAttr:
		keep := 0
		if a.KeepDims {
			keep = 1
		}
		axes := make([]int, len(a.Axes))
		for i, d := range a.Axes {
			axes[i] = place(d)
		}
		e.node(onnxNames[op.Kind], out, append(in, e.ints(axes)), attrInt("keepdims", keep))
	case *ir.AxisAttr:
		if op.Kind == ir.CumSum {
			e.node("CumSum", out, append(in, e.tensor(fromInts(ir.I64, nil, []int64{int64(a.Axis)}))))
			return nil
		}
		return e.simple(op, out, in, attrInt("axis", place(a.Axis)))
	case *ir.ShapeAttr:
		return e.simple(op, out, append(in, e.ints(a.Shape)))
	case *ir.PermAttr:
		return e.simple(op, out, in, attrInts("perm", a.Perm...))
	case *ir.AlphaBetaAttr:
		attrs := []*onnxpb.AttributeProto{attrFloat("alpha", a.Alpha)}
		if op.Kind == ir.HardSigmoid {
			attrs = append(attrs, attrFloat("beta", a.Beta))
		}
		return e.simple(op, out, in, attrs...)
	case *ir.LRNAttr:
		e.lrn(op, a, in, out)
	case *ir.NormAttr:
		e.norm(op, a, in, out)
	case *ir.ClipAttr:
		e.act(op, &ir.Act{Lo: a.Lo, Hi: a.Hi}, in[0], out)
	case *ir.SliceAttr:
		e.slice(a, in, out)
	case *ir.PadAttr:
		e.pad(op, a, in, out)
	case *ir.ModAttr:
		return e.mod(op, a, out, in)
	case *ir.TopKAttr:
		e.topK(a, out, in)
	case *ir.ScatterAttr:
		e.scatter(a, out, in)
	case *ir.SampleAttr:
		return e.sample(op, a, in, out)
	default:
		return fmt.Errorf("has no ONNX form")
	}
	return nil
}

func (e *exporter) simple(op *ir.Op, out string, in []string, attrs ...*onnxpb.AttributeProto) error {
	name, ok := onnxNames[op.Kind]
	if !ok {
		return fmt.Errorf("has no ONNX form")
	}
	e.node(name, out, in, attrs...)
	return nil
}

// before is the name for a node's result: out, unless more nodes follow.
func (e *exporter) before(out string, more bool) string {
	if more {
		return ""
	}
	return out
}

// act clamps x, of the result type of op, to an interval; nil is no activation
// and x is out already.
func (e *exporter) act(op *ir.Op, a *ir.Act, x, out string) {
	if a == nil {
		return
	}
	in := []string{x, "", ""}
	for i, v := range []float32{a.Lo, a.Hi} {
		if !math.IsInf(float64(v), 0) {
			in[1+i] = e.tensor(fromFloats(e.g.Type(op.Out).DType, nil, []float64{float64(v)}))
		}
	}
	e.node("Clip", out, in)
}

func (e *exporter) quantisation(name, out string, in []string, t ir.Type, place func(int) int) {
	q := t.Quant
	var shape []int
	attrs := []*onnxpb.AttributeProto{}
	if !q.IsPerTensor() {
		shape = []int{len(q.Scale)}
		attrs = append(attrs, attrInt("axis", place(q.Axis)))
	}
	in = append(in, e.tensor(ir.NewTensor(ir.F32, shape, q.Scale)))
	in = append(in, e.tensor(fromInts(t.DType, shape, convert[int64](q.Zero))))
	e.node(name, out, in, attrs...)
}

func (e *exporter) conv(op *ir.Op, a *ir.ConvAttr, in []string, out string) {
	y := e.node("Conv", e.before(out, a.Act != nil), in,
		attrInts("kernel_shape", e.g.Type(op.In[1]).Shape[1:3]...), attrInts("strides", a.Strides[:]...),
		attrInts("pads", a.Pads[:]...), attrInts("dilations", a.Dilations[:]...), attrInt("group", a.Groups))
	e.act(op, a.Act, y, out)
}

func (e *exporter) pool(op *ir.Op, a *ir.PoolAttr, in []string, out string) error {
	name := "MaxPool"
	attrs := []*onnxpb.AttributeProto{attrInts("kernel_shape", a.Kernel[:]...), attrInts("strides", a.Strides[:]...),
		attrInts("pads", a.Pads[:]...), attrInts("dilations", a.Dilations[:]...)}
	if op.Kind == ir.AvgPool {
		name = "AveragePool"
		if a.CountPad {
			if a.CeilPads != [2]int{} {
				return fmt.Errorf("counts some of its padding only, which has no ONNX form")
			}
			attrs = append(attrs, attrInt("count_include_pad", 1))
		}
	}
	e.node(name, out, in, attrs...)
	return nil
}

// lrn brings the axis to where ONNX has the channels.
func (e *exporter) lrn(op *ir.Op, a *ir.LRNAttr, in []string, out string) {
	perm := make([]int, len(e.g.Type(op.Out).Shape))
	for i := range perm {
		perm[i] = i
	}
	channels := min(1, len(perm)-1)
	perm[channels], perm[a.Axis] = perm[a.Axis], perm[channels] // its own inverse
	x := e.node("Transpose", "", in, attrInts("perm", perm...))
	y := e.node("LRN", "", []string{x}, attrInt("size", a.Size),
		attrFloat("alpha", a.Alpha), attrFloat("beta", a.Beta), attrFloat("bias", a.Bias))
	e.node("Transpose", out, []string{y}, attrInts("perm", perm...))
}

func (e *exporter) slice(a *ir.SliceAttr, in []string, out string) {
	ends := make([]int, len(a.Starts))
	axes := make([]int, len(a.Starts))
	for d := range ends {
		axes[d] = d
		if ends[d] = a.Starts[d] + a.Steps[d]*a.Sizes[d]; ends[d] < 0 {
			ends[d] = math.MinInt32 // −1 would count from the end
		}
	}
	e.node("Slice", out, append(in, e.ints(a.Starts), e.ints(ends), e.ints(axes), e.ints(a.Steps)))
}

func (e *exporter) pad(op *ir.Op, a *ir.PadAttr, in []string, out string) {
	mode := map[ir.PadMode]string{ir.PadConstant: "constant", ir.PadReflect: "reflect", ir.PadEdge: "edge", ir.PadWrap: "wrap"}[a.Mode]
	in = append(in, e.ints(append(append([]int{}, a.Begin...), a.End...)))
	if a.Mode == ir.PadConstant {
		t, v := e.g.Type(op.Out), a.Value
		if t.IsQuantised() { // the code of the value
			lo, hi := t.DType.IntRange()
			v = math.RoundToEven(v/float64(t.Quant.Scale[0])) + float64(t.Quant.Zero[0])
			v = min(max(v, float64(lo)), float64(hi))
		}
		in = append(in, e.tensor(fromFloats(t.DType, nil, []float64{v})))
	}
	e.node("Pad", out, in, attrString("mode", mode))
}
