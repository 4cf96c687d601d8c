package models

import (
	"fmt"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// builder writes the ONNX graph of a model whose weights follow from a seed. Its
// methods append a node and return the name of the result; node and weight names
// are those of the published implementations, as far as there is one.
type builder struct {
	graph  *onnxpb.GraphProto
	opset  int64
	params int64 // trained parameters, each once
	inits  []initialiser
}

// initialiser is a constant of a graph that is made when it is needed.
type initialiser struct {
	name  string
	shape []int
	fill  filler
	given *ir.Tensor // instead of fill
	large bool       // may be described instead of stored
}

func newBuilder(name string, opset int64) *builder {
	return &builder{graph: &onnxpb.GraphProto{Name: name}, opset: opset}
}

func (b *builder) input(name string, t onnxpb.TensorProto_DataType, dims ...int) string {
	b.graph.Input = append(b.graph.Input, valueInfo(name, t, dims))
	return name
}

// output gives the value x the name of a result of the model.
func (b *builder) output(name, x string, dims ...int) {
	b.add("Identity", name, []string{x}, nil)
	b.graph.Node[len(b.graph.Node)-1].Output[0] = name
	b.graph.Output = append(b.graph.Output, valueInfo(name, onnxpb.TensorProto_FLOAT, dims))
}

func valueInfo(name string, t onnxpb.TensorProto_DataType, dims []int) *onnxpb.ValueInfoProto {
	s := &onnxpb.TensorShapeProto{}
	for _, d := range dims {
		s.Dim = append(s.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}})
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(t), Shape: s}}}}
}

// attrs are the attributes of a node: int, float32 or []int by name.
type attrs map[string]any

// add appends a node and returns its first result.
func (b *builder) add(op, name string, in []string, a attrs) string {
	n := &onnxpb.NodeProto{OpType: op, Name: name, Input: in, Output: []string{name + "/out"}}
	for key, v := range a {
		p := &onnxpb.AttributeProto{Name: key}
		switch v := v.(type) {
		case int:
			p.Type, p.I = onnxpb.AttributeProto_INT, int64(v)
		case float32:
			p.Type, p.F = onnxpb.AttributeProto_FLOAT, v
		case string:
			p.Type, p.S = onnxpb.AttributeProto_STRING, []byte(v)
		case []int:
			p.Type = onnxpb.AttributeProto_INTS
			for _, x := range v {
				p.Ints = append(p.Ints, int64(x))
			}
		default:
			panic(fmt.Sprintf("models: attribute %s of type %T", key, v))
		}
		n.Attribute = append(n.Attribute, p)
	}
	slices.SortFunc(n.Attribute, func(x, y *onnxpb.AttributeProto) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	b.graph.Node = append(b.graph.Node, n)
	return n.Output[0]
}

// parameter adds trained values; buffer adds values that training does not set
// by gradient, such as running means, and constants of the architecture.
func (b *builder) parameter(name string, f filler, shape ...int) string {
	b.params += int64(ir.Numel(shape))
	b.inits = append(b.inits, initialiser{name: name, shape: shape, fill: f, large: ir.Numel(shape) > describedElems})
	return name
}

func (b *builder) buffer(name string, f filler, shape ...int) string {
	b.inits = append(b.inits, initialiser{name: name, shape: shape, fill: f})
	return name
}

// constant adds a tensor of given elements.
func (b *builder) constant(name string, t *ir.Tensor) string {
	b.inits = append(b.inits, initialiser{name: name, shape: t.Shape, given: t})
	return name
}

func (b *builder) int64s(name string, v ...int64) string {
	return b.constant(name, ir.NewTensor(ir.I64, []int{len(v)}, v))
}

func (b *builder) scalar(name string, v float32) string {
	return b.constant(name, ir.NewTensor(ir.F32, nil, []float32{v}))
}

// reshape changes the shape of x.
func (b *builder) reshape(name, x string, shape ...int) string {
	v := make([]int64, len(shape))
	for i, d := range shape {
		v[i] = int64(d)
	}
	return b.add("Reshape", name, []string{x, b.int64s(name+".shape", v...)}, nil)
}

// slice takes elements from up to to of one axis.
func (b *builder) slice(name, x string, axis, from, to int) string {
	return b.add("Slice", name, []string{x, b.int64s(name+".from", int64(from)), b.int64s(name+".to", int64(to)), b.int64s(name+".axis", int64(axis))}, nil)
}

func (b *builder) transpose(name, x string, perm ...int) string {
	return b.add("Transpose", name, []string{x}, attrs{"perm": perm})
}

// linear is x·w, and plus a bias where there is one.
func (b *builder) linear(name, x string, in, out int, std float32, bias bool) string {
	y := b.add("MatMul", name, []string{x, b.parameter(name+".weight", normal(std), in, out)}, nil)
	if bias {
		y = b.add("Add", name+"/bias", []string{y, b.parameter(name+".bias", normal(0.02), out)}, nil)
	}
	return y
}
