// Package models holds the models that ship with situ: trained weights as ONNX,
// with the few images that go with them, and builders of published architectures
// whose weights are not trained but drawn from a seed.
//
// To add a model: add its row to the table below; its ONNX file is embedded or
// built. How a trained model was made is a program beside this one (train). The
// builders are in vision.go, transformer.go and llama.go, on top of builder.go.
package models

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx"
	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// Dims are the sizes of a model that its user chooses, by name.
type Dims map[string]int

// Dim is a size that may be chosen.
type Dim struct {
	Name    string `json:"name"`
	Default int    `json:"default"` // 0 when it follows from others
	Doc     string `json:"doc"`
}

// Model describes a model that ships.
type Model struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"` // how it was made
	// Described models are too large to hold: their large weights have a type and
	// no values. They compile and are timed; nothing can compute with them.
	Described bool  `json:"described,omitempty"`
	Dims      []Dim `json:"dims,omitempty"`

	build       func(d Dims) (*builder, error) // nil for those embedded
	onnx        []byte
	calibration []byte // gzip of byte images
	images      []byte
	labels      []byte
}

var (
	//go:embed digits.onnx
	digitsONNX []byte
	//go:embed digits-calibration.gz
	digitsCalibration []byte
	//go:embed digits-images.gz
	digitsImages []byte
	//go:embed digits-labels.gz
	digitsLabels []byte
)

const (
	untrained = "built; weights drawn from a seed, not trained"
	described = "built; weights described, not stored"
)

var (
	batchDim   = Dim{"batch", 1, "inputs of one run"}
	visionDims = []Dim{batchDim}
	bertDims   = []Dim{batchDim, {"seq", 128, "tokens, at most 512"}}
	squadDims  = []Dim{batchDim, {"seq", 384, "tokens, at most 512; SQuAD is run with 384"}}
	// See spanOf for what follows from one of seq and context alone.
	decoderDims = []Dim{batchDim,
		{"seq", 0, "new tokens of a run; alone: a prompt with nothing before it; without it 1"},
		{"context", 0, "tokens that the last new one sees, itself included; those before the new ones are in the cache; 2048, or the most the model takes, when neither is given"}}
)

var table = []Model{
	{
		Name:        "digits",
		Description: "CNN for 28×28 digits",
		Source:      "trained on the 60,000 MNIST images by go run ./models/train",
		onnx:        digitsONNX, calibration: digitsCalibration, images: digitsImages, labels: digitsLabels,
	},
	{Name: "resnet18", Description: "ResNet-18 for 224×224 images", Source: untrained, Dims: visionDims, build: resnet([4]int{2, 2, 2, 2}, false)},
	{Name: "resnet50", Description: "ResNet-50 v1.5 for 224×224 images", Source: untrained, Dims: visionDims, build: resnet([4]int{3, 4, 6, 3}, true)},
	{Name: "mobilenetv2", Description: "MobileNetV2 for 224×224 images", Source: untrained, Dims: visionDims, build: mobilenetV2},
	{Name: "vgg16", Description: "VGG-16 for 224×224 images", Source: untrained, Dims: visionDims, build: vgg16},
	{Name: "bert-base", Description: "BERT-base encoder", Source: untrained, Dims: bertDims, build: bertBase.bert},
	{Name: "bert-large", Description: "BERT-large encoder", Source: described, Described: true, Dims: squadDims, build: bertLarge.bert},
	{Name: "gpt2", Description: "GPT-2 small, a decode step or a prompt", Source: untrained, Dims: decoderDims, build: gpt2Small.gpt2},
	{Name: "llama3-8b", Description: "Llama 3 8B, a decode step or a prompt", Source: described, Described: true, Dims: decoderDims, build: llama3x8B.build},
	{Name: "llama3-70b", Description: "Llama 3 70B, a decode step or a prompt", Source: described, Described: true, Dims: decoderDims, build: llama3x70B.build},
	{Name: "mixtral-8x7b", Description: "Mixtral 8x7B, a decode step or a prompt, with a stated routing", Source: described, Described: true, Dims: decoderDims, build: mixtral8x7B.build},
}

// List returns the models that ship.
func List() []Model { return table }

// Find returns the model of a name.
func Find(name string) (*Model, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}

// Names lists the names of the models that ship, for messages.
func Names() string {
	var names []string
	for _, m := range table {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// HasImages reports whether calibration and test inputs come with the model.
func (m *Model) HasImages() bool { return m.images != nil }

// graph builds the model for the sizes given; others are at their default. A size
// the model does not have, or below 1, is an error.
func (m *Model) graph(given map[string]int64) (*builder, error) {
	d := Dims{}
	for _, dim := range m.Dims {
		d[dim.Name] = dim.Default
	}
	const most = 1 << 20
	for name, n := range given {
		if _, ok := d[name]; !ok {
			var names []string
			for _, dim := range m.Dims {
				names = append(names, dim.Name)
			}
			return nil, fmt.Errorf("model %s has no dimension %q; it has %s", m.Name, name, strings.Join(names, ", "))
		}
		if n < 1 || n > most {
			return nil, fmt.Errorf("model %s: dimension %s is %d, want 1 to %d", m.Name, name, n, most)
		}
		d[name] = int(n)
	}
	b, err := m.build(d)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	b.graph.Name = m.Name
	return b, nil
}

// Open returns the model for the sizes given, checked and ready to import, and
// the number of its trained parameters (0 for a model with a file of its own,
// whose constants say it).
func (m *Model) Open(dims map[string]int64) (*onnx.Model, int64, error) {
	if m.build == nil {
		p, err := onnx.Parse(m.onnx, "")
		return p, 0, err
	}
	b, err := m.graph(dims)
	if err != nil {
		return nil, 0, err
	}
	p, err := onnx.New(b.proto(), b.tensors(m.Described))
	return p, b.params, err
}

// proto returns the model without the data of its initialisers.
func (b *builder) proto() *onnxpb.ModelProto {
	g := b.graph
	g.Initializer = nil
	for _, in := range b.inits {
		t := &onnxpb.TensorProto{Name: in.name, DataType: int32(onnxpb.TensorProto_FLOAT)}
		if in.given != nil && in.given.DType == ir.I64 {
			t.DataType = int32(onnxpb.TensorProto_INT64)
		}
		for _, n := range in.shape {
			t.Dims = append(t.Dims, int64(n))
		}
		g.Initializer = append(g.Initializer, t)
	}
	version := int64(8)
	if b.opset > 19 {
		version = 11
	}
	return &onnxpb.ModelProto{IrVersion: version, ProducerName: "situ", Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: b.opset}}}
}

// ErrDescribed is returned for what needs the values of weights that are only
// described.
var ErrDescribed = errors.New("its weights are described, not stored: it can be compiled and timed, but has no values to compute with or to write")

// ONNX returns the model as an ONNX file for the sizes given. A described model
// gives ErrDescribed.
func (m *Model) ONNX(dims map[string]int64) ([]byte, error) {
	switch {
	case m.build == nil:
		return m.onnx, nil
	case m.Described:
		return nil, fmt.Errorf("model %s: %w", m.Name, ErrDescribed)
	}
	b, err := m.graph(dims)
	if err != nil {
		return nil, err
	}
	p, tensors := b.proto(), b.tensors(false)
	for i, t := range p.Graph.Initializer {
		p.Graph.Initializer[i] = onnx.EncodeTensor(t.Name, tensors[t.Name])
	}
	return marshal(p)
}

func marshal(p *onnxpb.ModelProto) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

// Identity returns bytes that differ where two models or two versions of one do:
// the file, or the graph with the names that its weights are drawn by.
func (m *Model) Identity(dims map[string]int64) ([]byte, error) {
	if m.build == nil {
		return m.onnx, nil
	}
	b, err := m.graph(dims)
	if err != nil {
		return nil, err
	}
	p, err := marshal(b.proto())
	return slices.Concat(p, []byte(fmt.Sprint(weightSeed))), err
}

// Calibration returns inputs for calibration: images of 784 values in 0..1.
func (m *Model) Calibration() ([][]float32, error) { return unpack(m.calibration) }

// Test returns labelled test inputs.
func (m *Model) Test() (images [][]float32, labels []byte, err error) {
	if images, err = unpack(m.images); err != nil {
		return nil, nil, err
	}
	labels, err = gunzip(m.labels)
	return images, labels, err
}

func unpack(zipped []byte) ([][]float32, error) {
	b, err := gunzip(zipped)
	if err != nil {
		return nil, err
	}
	const pixels = 28 * 28
	out := make([][]float32, len(b)/pixels)
	for i := range out {
		out[i] = make([]float32, pixels)
		for j, v := range b[i*pixels : (i+1)*pixels] {
			out[i][j] = float32(v) / 255
		}
	}
	return out, nil
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return io.ReadAll(r)
}
