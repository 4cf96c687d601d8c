package eval_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/ir"
	"situ/ir/eval"
)

// models are the folders below shared/onnx whose goldens the evaluator meets.
var models = []string{
	"models/mlperf-tiny-*", "models/cifar10-resnet20-bn", "models/mnist-cntk", "models/cnn-mnist-pytorch",
	"models/mnist-sigmoid-6x200", "models/mobilenetv2-imagenet-int8-qdq", "models/mobilenetedgetpu-block-qdq",
	"models/stm-mobilenetv2-*", "models/stm-yamnet-256", "models/self-mnist-mobilenetv3-se", "models/acasxu-1-1",
	"models/ort-conv-qdq-*", "backend/light-tests/test_*",
}

// large models take seconds and hundreds of megabytes; -short leaves them out.
var large = []string{"test_vgg19", "test_densenet121", "test_bvlc_alexnet", "test_zfnet512"}

// tolerance is the greatest error allowed in float, relative to the output's
// magnitude. In a quantised model a sum taken in another order may round to
// another code; there 99.9 % of the elements must be within one step.
const tolerance = 1e-4

// shared returns the folder of test data beside the repository.
func shared(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	dir = filepath.Join(dir, "..", "shared", "onnx")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no test data: ", err)
	}
	return dir
}

// load imports the model of a folder, its dimensions bound by the first test set.
func load(t testing.TB, dir string) *ir.Graph {
	m, err := onnx.Load(filepath.Join(dir, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	opt := onnx.ImportOptions{InputShapes: map[string][]int{}, DefaultDim: 1}
	for i, name := range inputNames(m) {
		_, in, err := onnx.ReadTensorFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
		if err != nil {
			t.Fatal(err)
		}
		opt.InputShapes[name] = in.Shape
	}
	g, err := onnx.Import(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// inputNames are the model's inputs that are not initialisers.
func inputNames(m *onnx.Model) []string {
	weights := map[string]bool{}
	for _, w := range m.Proto.Graph.Initializer {
		weights[w.Name] = true
	}
	var names []string
	for _, in := range m.Proto.Graph.Input {
		if !weights[in.Name] {
			names = append(names, in.Name)
		}
	}
	return names
}

// tensors reads the inputs or outputs of a test set.
func tensors(t testing.TB, set, kind string, n int) []*ir.Tensor {
	ts := make([]*ir.Tensor, n)
	for i := range ts {
		var err error
		if _, ts[i], err = onnx.ReadTensorFile(filepath.Join(set, fmt.Sprintf("%s_%d.pb", kind, i))); err != nil {
			t.Fatal(err)
		}
	}
	return ts
}

func TestModels(t *testing.T) {
	root := shared(t)
	for _, pattern := range models {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(dirs) == 0 {
			t.Errorf("no model matches %s (%v)", pattern, err)
		}
		for _, dir := range dirs {
			t.Run(filepath.Base(dir), func(t *testing.T) {
				for _, l := range large {
					if testing.Short() && filepath.Base(dir) == l {
						t.Skip("takes gigabytes; left out with -short")
					}
				}
				checkModel(t, dir)
			})
		}
	}
}

func checkModel(t *testing.T, dir string) {
	g := load(t, dir)
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	sets, _ := filepath.Glob(filepath.Join(dir, "test_data_set_*"))
	for _, set := range sets {
		in := tensors(t, set, "input", len(g.Inputs))
		want := tensors(t, set, "output", len(g.Outputs))
		got, err := e.Run(context.Background(), in, eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			compare(t, fmt.Sprintf("%s output %d", filepath.Base(set), i), got[i], want[i], step(g, g.Outputs[i]))
		}
	}
}

// step returns the largest scale with which codes become part of a float value,
// 0 for a value that depends on none.
func step(g *ir.Graph, id ir.ValueID) float64 {
	largest := 0.0
	seen := map[ir.ValueID]bool{}
	var walk func(id ir.ValueID)
	walk = func(id ir.ValueID) {
		if id == ir.NoValue || seen[id] {
			return
		}
		seen[id] = true
		switch op := g.DefOp(id); {
		case op == nil:
		case op.Kind == ir.Dequantize:
			largest = max(largest, float64(slices.Max(g.Type(op.In[0]).Quant.Scale)))
		default:
			for _, in := range op.In {
				walk(in)
			}
		}
	}
	walk(id)
	return largest
}

func compare(t *testing.T, what string, got, want *ir.Tensor, step float64) {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		t.Errorf("%s is %s%v, want %s%v", what, got.DType, got.Shape, want.DType, want.Shape)
		return
	}
	if want.DType != ir.F32 {
		t.Errorf("%s is %s: the goldens compared here are f32", what, want.DType)
		return
	}
	y, w := ir.Data[float32](got), ir.Data[float32](want)
	scale := 0.0
	for _, v := range w {
		scale = max(scale, math.Abs(float64(v)))
	}
	limit, allowed := tolerance*scale, 0
	if step > 0 {
		limit, allowed = max(limit, 1.001*step), len(w)/1000
	}
	worst, beyond := 0.0, 0
	for i := range w {
		d := math.Abs(float64(y[i]) - float64(w[i]))
		if !(d <= limit) { // NaN counts
			beyond++
		}
		if !(d <= worst) {
			worst = d
		}
	}
	report := fmt.Sprintf("%s: greatest error %.3g of magnitude %.3g (relative %.2g), %d of %d elements beyond %.3g",
		what, worst, scale, worst/scale, beyond, len(w), limit)
	if beyond > allowed {
		t.Error(report)
	} else {
		t.Log(report)
	}
}

// BenchmarkModels times one run of float models.
func BenchmarkModels(b *testing.B) {
	root := shared(b)
	for _, name := range []string{"backend/light-tests/test_resnet50", "models/mobilenetv2-imagenet-int8-qdq", "models/cifar10-resnet20-bn"} {
		b.Run(strings.TrimPrefix(filepath.Base(name), "test_"), func(b *testing.B) {
			dir := filepath.Join(root, name)
			g := load(b, dir)
			e, err := eval.New(g)
			if err != nil {
				b.Fatal(err)
			}
			in := tensors(b, filepath.Join(dir, "test_data_set_0"), "input", len(g.Inputs))
			for b.Loop() {
				if _, err := e.Run(context.Background(), in, eval.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
