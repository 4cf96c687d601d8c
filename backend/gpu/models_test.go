package gpu

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"situ/frontend/onnx"
	"situ/ir"
	"situ/models"
	"situ/passes"
)

// shared returns a folder of test data beside the repository.
func shared(t *testing.T, path ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	p := filepath.Join(append([]string{dir, "..", "shared"}, path...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("no test data: %v", err)
	}
	return p
}

// modelBits takes a model through the passes, compiles it and compares bits on
// the first inputs.
func modelBits(t *testing.T, m *onnx.Model, inputs [][]*ir.Tensor, shapes map[string][]int) {
	t.Helper()
	modelBitsBy(t, needLLC(t), DefaultSM, m, inputs, shapes)
}

// modelBitsBy is modelBits with PTX by a certain llc for a compute capability (×10).
func modelBitsBy(t *testing.T, c *LLC, sm int, m *onnx.Model, inputs [][]*ir.Tensor, shapes map[string][]int) {
	t.Helper()
	g, err := onnx.Import(m, onnx.ImportOptions{DefaultDim: 1, InputShapes: shapes})
	if err != nil {
		t.Fatal(err)
	}
	res, err := passes.Run(g, passes.Config{Quant: passes.Quantisation{Inputs: inputs, WeightBits: 8}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(res.Graph, h100(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, sm); err != nil {
		t.Fatal(err)
	}
	sameBits(t, res.Graph, p, inputs[0])
}

func TestDigits(t *testing.T) {
	m, _ := models.Find("digits")
	mod, _, err := m.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	images, err := m.Calibration()
	if err != nil {
		t.Fatal(err)
	}
	var in [][]*ir.Tensor
	for _, img := range images {
		in = append(in, []*ir.Tensor{ir.NewTensor(ir.F32, []int{1, 1, 28, 28}, img)})
	}
	modelBits(t, mod, in, nil)
}

var allModels = flag.Bool("all-models", false, "run the large models too")

// TestModels compares bits on models of other projects.
func TestModels(t *testing.T) {
	root := shared(t, "onnx")
	names := []string{
		"models/mlperf-tiny-ic-resnet8-int8-qdq", "models/mlperf-tiny-ad-autoencoder-float", "models/mlperf-tiny-kws-dscnn-int8-qlinear",
		"models/mlperf-tiny-vww-mobilenetv1-int8-qdq", "models/cifar10-resnet20-bn", "models/self-mnist-mobilenetv3-se",
		"models/cnn-mnist-pytorch", "models/ort-conv-qdq-u8u8", "models/ort-conv-int4-weights-qdq", "models/stm-yamnet-256",
		"models/self-char-gpt-4l", "models/self-mnist-gru-rows", "models/tfbert-mrpc-12l-tiny",
		"models/dtln-2-dynq", "models/ort-dynamic-quantize-matmul",
	}
	if *allModels {
		names = append(names, "models/mobilenetv2-imagenet-int8-qdq", "models/nanodet-m-320", "models/person-det-yolox-192",
			"models/superres-espcn-224", "models/ultraface-rfb-320", "models/yolox-nano-416", "models/yunet-n-320", "models/dtln-2", "models/gpt2-12l-tiny", "models/bert-toy-6l", "models/ppocr-v4-rec",
			"models/magika-v3-3", "models/tract-byte-bidi-lstm", "models/ort-qdq-minimal-model",
			"backend/light-tests/test_resnet50", "backend/light-tests/test_squeezenet", "backend/light-tests/test_densenet121",
			"backend/light-tests/test_shufflenet")
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			m, in, shapes := openFolder(t, filepath.Join(root, name))
			modelBits(t, m, in, shapes)
		})
	}
}

// openFolder reads a model and the first inputs beside it.
func openFolder(t *testing.T, dir string) (m *onnx.Model, in [][]*ir.Tensor, shapes map[string][]int) {
	t.Helper()
	m, err := onnx.Load(filepath.Join(dir, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	sets, _ := filepath.Glob(filepath.Join(dir, "*_set*"))
	if len(sets) == 0 {
		t.Fatal("no inputs beside the model")
	}
	shapes = map[string][]int{}
	for _, dir := range sets[:1] { // others may have other shapes
		in = append(in, readSet(t, dir, shapes))
	}
	return m, in, shapes
}

// readSet reads the inputs of a test_data_set folder and notes their shapes.
func readSet(t *testing.T, dir string, shapes map[string][]int) (set []*ir.Tensor) {
	for i := 0; ; i++ {
		path := filepath.Join(dir, fmt.Sprintf("input_%d.pb", i))
		if _, err := os.Stat(path); err != nil {
			return set
		}
		name, x, err := onnx.ReadTensorFile(path)
		if err != nil {
			t.Fatal(err)
		}
		shapes[name] = x.Shape
		set = append(set, x)
	}
}
