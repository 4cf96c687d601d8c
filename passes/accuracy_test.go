package passes

import (
	"context"
	"encoding/csv"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"situ/frontend/onnx"
	"situ/internal/mnist"
	"situ/ir"
	"situ/ir/eval"
)

var imagesArg = flag.Int("images", 300, "number of MNIST test images to classify (10000: all)")

// labelled is a set of images, each as the bytes of its pixels.
type labelled struct {
	images [][]byte
	labels []int
}

// accuracyTests says how each model wants its images; drop is how many of a
// thousand right answers int8 may lose.
var accuracyTests = []struct {
	model  string
	cifar  bool
	pixel  func(v float64, channel int) float64
	planes bool // channels first
	drop   float64
}{
	{model: "mnist-cntk", pixel: func(v float64, _ int) float64 { return v / 255 }, drop: 3},
	{model: "cnn-mnist-pytorch", pixel: func(v float64, _ int) float64 { return (v/255 - .1307) / .3081 }, drop: 3},
	{model: "mnist-sigmoid-6x200", pixel: func(v float64, _ int) float64 { return v / 255 }, drop: 3},
	{model: "self-mnist-mobilenetv3-se", pixel: func(v float64, _ int) float64 { return v / 255 }, drop: 3},
	{model: "mlperf-tiny-ic-resnet8-float", cifar: true, pixel: func(v float64, _ int) float64 { return v }, drop: 20},
	{model: "cifar10-resnet20-bn", cifar: true, planes: true, drop: 20, pixel: func(v float64, c int) float64 {
		return (v/255 - []float64{.4914, .4822, .4465}[c]) / []float64{.2470, .2435, .2616}[c]
	}},
}

func cifar(t *testing.T) labelled {
	f, err := os.Open(filepath.Join(shared(t, "datasets", "cifar10-eran100"), "cifar10_test.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var set labelled
	for _, row := range rows {
		img := make([]byte, len(row)-1)
		for i := range img {
			v, err := strconv.Atoi(row[i+1])
			if err != nil {
				t.Fatal(err)
			}
			img[i] = byte(v)
		}
		label, _ := strconv.Atoi(row[0])
		set.images, set.labels = append(set.images, img), append(set.labels, label)
	}
	return set
}

// TestAccuracy classifies real images with float models, in floating point and
// with int8 and int4 weights. `go test ./passes -run Accuracy -v -images 10000`
// gives the figures of the documentation.
func TestAccuracy(t *testing.T) {
	shared(t, "onnx")
	train, test, err := mnist.Load()
	if err != nil {
		t.Fatal(err)
	}
	digits := labelled{images: test.Images[:*imagesArg]}
	for _, l := range test.Labels[:*imagesArg] {
		digits.labels = append(digits.labels, int(l))
	}
	for _, tc := range accuracyTests {
		if match, _ := filepath.Match(*modelArg, tc.model); !match && *modelArg != "" {
			continue
		}
		t.Run(tc.model, func(t *testing.T) {
			m, err := onnx.Load(filepath.Join(shared(t, "onnx", "models", tc.model), "model.onnx"))
			if err != nil {
				t.Fatal(err)
			}
			g, err := onnx.Import(m, onnx.ImportOptions{DefaultDim: 1})
			if err != nil {
				t.Fatal(err)
			}
			shape := g.Type(g.Inputs[0]).Shape
			tensor := func(img []byte) []*ir.Tensor {
				data := make([]float32, len(img))
				channels := 1
				if tc.cifar {
					channels = 3
				}
				for i, b := range img {
					at := i
					if tc.planes {
						at = i%channels*(len(img)/channels) + i/channels
					}
					data[at] = float32(tc.pixel(float64(b), i%channels))
				}
				return []*ir.Tensor{ir.NewTensor(ir.F32, shape, data)}
			}
			set, samples := digits, train.Images[:64]
			if tc.cifar {
				set = cifar(t)
				samples = set.images[:16]
			}
			q := Quantisation{}
			q.Method, err = ParseMethod(*methodArg)
			if err != nil {
				t.Fatal(err)
			}
			for _, img := range samples {
				q.Inputs = append(q.Inputs, tensor(img))
			}
			float := top1(t, g, set, tensor)
			n := float64(len(set.images))
			for _, bits := range []int{8, 4} {
				q.WeightBits = bits
				res, err := Run(g, Config{Quant: q})
				if err != nil {
					t.Fatal(err)
				}
				right := top1(t, res.Graph, set, tensor)
				t.Logf("%d images: float %.2f%%, int8 activations and int%d weights %.2f%%", len(set.images), 100*float64(float)/n, bits, 100*float64(right)/n)
				if lost := float64(float-right) / n * 1000; bits == 8 && lost > tc.drop && float-right > 1 {
					t.Errorf("%.1f of 1000 right answers are lost, at most %v may be", lost, tc.drop)
				}
			}
		})
	}
}

// top1 counts the images that a graph classifies rightly.
func top1(t *testing.T, g *ir.Graph, set labelled, tensor func([]byte) []*ir.Tensor) int {
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i, img := range set.images {
		out, err := e.Run(context.Background(), tensor(img), eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if argmax(out[0]) == set.labels[i] {
			right++
		}
	}
	return right
}
