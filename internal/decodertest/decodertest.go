// Package decodertest writes small decoders as exporters write them, with random
// weights, for tests: keys and values of earlier tokens are inputs of the model, and
// its outputs are these with the new ones behind.
package decodertest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
)

// Decoder says what a model is like. Its inputs are those of Hugging Face Optimum:
// input_ids [batch_size, sequence_length], attention_mask [batch_size, past_sequence_length
// + sequence_length], position_ids [batch_size, sequence_length] and, for each layer,
// past_key_values.N.key and .value [batch_size, KV, past_sequence_length, Dim]. Its
// outputs are logits [batch_size, sequence_length, Vocabulary] and present.N.key and
// .value, with past_sequence_length + sequence_length tokens.
type Decoder struct {
	Layers, Heads, KV, Dim, Vocabulary int
	// ByOrder adds a bias that falls with the distance of a key in the cache (ALiBi), so
	// that the result depends on the order of the entries.
	ByOrder bool
	// Total, unless "", is what the last dimension of attention_mask is called, as ONNX
	// Runtime GenAI has a name for it.
	Total string
}

// Small has two layers of two heads that share one head of keys and values.
var Small = Decoder{Layers: 2, Heads: 2, KV: 1, Dim: 8, Vocabulary: 32}

// ONNX returns the model.
func (d Decoder) ONNX() []byte {
	b := &builder{rng: rand.New(rand.NewPCG(1, 2)), graph: &onnxpb.GraphProto{Name: "decoder"}}
	const past, seq = "past_sequence_length", "sequence_length"
	total := cmp.Or(d.Total, past+" + "+seq)
	i64, f32 := onnxpb.TensorProto_INT64, onnxpb.TensorProto_FLOAT
	hidden := d.Heads * d.Dim
	b.graph.Input = []*onnxpb.ValueInfoProto{info("input_ids", i64, "batch_size", seq), info("attention_mask", i64, "batch_size", total), info("position_ids", i64, "batch_size", seq)}
	b.graph.Output = []*onnxpb.ValueInfoProto{info("logits", f32, "batch_size", seq, d.Vocabulary)}

	length := func(x string, axis int) string {
		return b.add("Gather", []string{b.add("Shape", []string{x}), b.ints(nil, axis)})
	}
	before := length("past_key_values.0.key", 2)
	all := b.add("Add", []string{before, length("input_ids", 1)})
	// Of the new tokens each sees those up to itself, unless the mask hides them.
	rows := b.add("Unsqueeze", []string{b.add("Range", []string{before, all, b.ints(nil, 1)}), b.ints([]int{1}, 1)})
	columns := b.add("Range", []string{b.ints(nil, 0), all, b.ints(nil, 1)})
	hidden1 := b.add("Greater", []string{columns, rows})
	hidden2 := b.add("Unsqueeze", []string{b.add("Equal", []string{"attention_mask", b.ints(nil, 0)}), b.ints([]int{2}, 1, 2)})
	bias := b.add("Where", []string{b.add("Or", []string{hidden1, hidden2}), b.scalar(-math.MaxFloat32), b.scalar(0)})
	if d.ByOrder {
		near := b.add("Mul", []string{b.add("Cast", []string{columns}, "to", int(f32)), b.scalar(0.5)})
		bias = b.add("Add", []string{bias, near})
	}

	frequencies := make([]float32, d.Dim/2)
	for i := range frequencies {
		frequencies[i] = float32(math.Pow(100, -2*float64(i)/float64(d.Dim)))
	}
	angles := b.add("MatMul", []string{b.add("Unsqueeze", []string{b.add("Cast", []string{"position_ids"}, "to", int(f32)), b.ints([]int{1}, 2)}),
		b.floats(frequencies, 1, d.Dim/2)})
	angles = b.add("Unsqueeze", []string{b.add("Concat", []string{angles, angles}, "axis", -1), b.ints([]int{1}, 1)})
	cos, sin := b.add("Cos", []string{angles}), b.add("Sin", []string{angles})
	rotated := func(x string) string {
		lower := b.add("Slice", []string{x, b.ints([]int{1}, 0), b.ints([]int{1}, d.Dim/2), b.ints([]int{1}, 3)})
		upper := b.add("Slice", []string{x, b.ints([]int{1}, d.Dim/2), b.ints([]int{1}, d.Dim), b.ints([]int{1}, 3)})
		turned := b.add("Concat", []string{b.add("Neg", []string{upper}), lower}, "axis", -1)
		return b.add("Add", []string{b.add("Mul", []string{x, cos}), b.add("Mul", []string{turned, sin})})
	}

	x := b.add("Gather", []string{b.weights(1, d.Vocabulary, hidden), "input_ids"})
	for n := range d.Layers {
		y := b.norm(x, hidden)
		heads := func(n int) string {
			p := b.add("MatMul", []string{y, b.weights(1/math.Sqrt(float64(hidden)), hidden, n*d.Dim)})
			return b.add("Transpose", []string{b.add("Reshape", []string{p, b.ints([]int{4}, 0, 0, n, d.Dim)})}, "perm", []int{0, 2, 1, 3})
		}
		q, k, v := rotated(heads(d.Heads)), rotated(heads(d.KV)), heads(d.KV)
		grown := func(what, fresh string) string {
			name := fmt.Sprintf("%d.%s", n, what)
			b.graph.Input = append(b.graph.Input, info("past_key_values."+name, f32, "batch_size", d.KV, past, d.Dim))
			b.graph.Output = append(b.graph.Output, info("present."+name, f32, "batch_size", d.KV, total, d.Dim))
			z := "present." + name
			b.add("Concat", []string{"past_key_values." + name, fresh}, "axis", -2)
			b.graph.Node[len(b.graph.Node)-1].Output[0] = z
			if d.KV == d.Heads {
				return z
			}
			z = b.add("Expand", []string{b.add("Unsqueeze", []string{z, b.ints([]int{1}, 2)}), b.ints([]int{5}, 1, 1, d.Heads/d.KV, 1, 1)})
			return b.add("Reshape", []string{z, b.ints([]int{4}, 0, d.Heads, -1, d.Dim)})
		}
		k, v = grown("key", k), grown("value", v)
		scores := b.add("MatMul", []string{q, b.add("Transpose", []string{k}, "perm", []int{0, 1, 3, 2})})
		scores = b.add("Add", []string{b.add("Mul", []string{scores, b.scalar(1 / math.Sqrt(float64(d.Dim)))}), bias})
		z := b.add("MatMul", []string{b.add("Softmax", []string{scores}, "axis", -1), v})
		z = b.add("Reshape", []string{b.add("Transpose", []string{z}, "perm", []int{0, 2, 1, 3}), b.ints([]int{3}, 0, 0, hidden)})
		x = b.add("Add", []string{x, b.add("MatMul", []string{z, b.weights(1/math.Sqrt(float64(hidden)), hidden, hidden)})})
		y = b.norm(x, hidden)
		gate := b.add("MatMul", []string{y, b.weights(1/math.Sqrt(float64(hidden)), hidden, 2*hidden)})
		gate = b.add("Mul", []string{gate, b.add("Sigmoid", []string{gate})})
		up := b.add("MatMul", []string{y, b.weights(1/math.Sqrt(float64(hidden)), hidden, 2*hidden)})
		x = b.add("Add", []string{x, b.add("MatMul", []string{b.add("Mul", []string{gate, up}), b.weights(1/math.Sqrt(float64(2*hidden)), 2*hidden, hidden)})})
	}
	b.add("MatMul", []string{b.norm(x, hidden), b.weights(1/math.Sqrt(float64(hidden)), hidden, d.Vocabulary)})
	b.graph.Node[len(b.graph.Node)-1].Output[0] = "logits"

	file, err := proto.MarshalOptions{Deterministic: true}.Marshal(&onnxpb.ModelProto{IrVersion: 8, Graph: b.graph, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}})
	if err != nil {
		panic(err) // the message is ours
	}
	return file
}

// builder writes a graph; its methods return the name of what they add.
type builder struct {
	rng   *rand.Rand
	graph *onnxpb.GraphProto
}

// add appends a node. Attributes are names and values: int or []int.
func (b *builder) add(op string, in []string, attributes ...any) string {
	name := fmt.Sprintf("%s_%d", op, len(b.graph.Node))
	n := &onnxpb.NodeProto{OpType: op, Name: name, Input: in, Output: []string{name}}
	for i := 0; i < len(attributes); i += 2 {
		a := &onnxpb.AttributeProto{Name: attributes[i].(string)}
		switch v := attributes[i+1].(type) {
		case int:
			a.Type, a.I = onnxpb.AttributeProto_INT, int64(v)
		case []int:
			a.Type = onnxpb.AttributeProto_INTS
			for _, x := range v {
				a.Ints = append(a.Ints, int64(x))
			}
		}
		n.Attribute = append(n.Attribute, a)
	}
	b.graph.Node = append(b.graph.Node, n)
	return name
}

// norm is a root-mean-square normalisation of the last dimension, of n elements.
func (b *builder) norm(x string, n int) string {
	mean := b.add("ReduceMean", []string{b.add("Pow", []string{x, b.scalar(2)})}, "axes", []int{-1}, "keepdims", 1)
	root := b.add("Sqrt", []string{b.add("Add", []string{mean, b.scalar(1e-5)})})
	gain := make([]float32, n)
	for i := range gain {
		gain[i] = float32(1 + 0.1*b.rng.NormFloat64())
	}
	return b.add("Mul", []string{b.floats(gain, n), b.add("Div", []string{x, root})})
}

func (b *builder) weights(std float64, shape ...int) string {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(std * b.rng.NormFloat64())
	}
	return b.floats(v, shape...)
}

func (b *builder) scalar(v float64) string { return b.floats([]float32{float32(v)}) }

func (b *builder) floats(v []float32, shape ...int) string {
	raw, _ := binary.Append(nil, binary.LittleEndian, v)
	return b.constant(onnxpb.TensorProto_FLOAT, raw, shape)
}

func (b *builder) ints(shape []int, v ...int) string {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return b.constant(onnxpb.TensorProto_INT64, raw, shape)
}

func (b *builder) constant(t onnxpb.TensorProto_DataType, raw []byte, shape []int) string {
	name := fmt.Sprintf("constant_%d", len(b.graph.Initializer))
	p := &onnxpb.TensorProto{Name: name, DataType: int32(t), RawData: raw}
	for _, d := range shape {
		p.Dims = append(p.Dims, int64(d))
	}
	b.graph.Initializer = append(b.graph.Initializer, p)
	return name
}

// info describes an input or output; a dimension is a number or a name.
func info(name string, t onnxpb.TensorProto_DataType, dims ...any) *onnxpb.ValueInfoProto {
	s := &onnxpb.TensorShapeProto{}
	for _, d := range dims {
		dim := &onnxpb.TensorShapeProto_Dimension{}
		switch d := d.(type) {
		case int:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}
		case string:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: d}
		}
		s.Dim = append(s.Dim, dim)
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(t), Shape: s}}}}
}
