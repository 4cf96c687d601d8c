package runtime

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"situ/internal/mnist"
	"situ/ir"
	"situ/ir/eval"
)

// sharedDir returns a folder of the data beside the project, or skips.
func sharedDir(t testing.TB, elem ...string) string {
	dir := filepath.Join(append([]string{"..", "..", "shared"}, elem...)...)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("needs the data beside the project: %v", err)
	}
	return dir
}

// labelled is data for a model: inputs ready for it, and the right classes.
type labelled struct {
	x     [][]float32
	label []int
}

// first returns the first n of d.
func (d labelled) first(n int) labelled { return labelled{x: d.x[:n], label: d.label[:n]} }

func mnistData(set *mnist.Set, f func(float32) float32) labelled {
	var d labelled
	for i, img := range set.Images {
		x := make([]float32, len(img))
		for j, v := range img {
			x[j] = f(float32(v))
		}
		d.x = append(d.x, x)
		d.label = append(d.label, int(set.Labels[i]))
	}
	return d
}

// cifarData reads rows of a label and 3,072 bytes in HWC order.
func cifarData(t *testing.T, f func(hwc []float32) []float32) labelled {
	file, err := os.Open(filepath.Join(sharedDir(t, "datasets", "cifar10-eran100"), "cifar10_test.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var d labelled
	for _, r := range rows {
		x := make([]float32, 0, 3072)
		for _, s := range r[1:] {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			v, err := strconv.ParseFloat(s, 32)
			if err != nil {
				t.Fatal(err)
			}
			x = append(x, float32(v))
		}
		n, err := strconv.Atoi(r[0])
		if err != nil {
			t.Fatal(err)
		}
		d.x = append(d.x, f(x))
		d.label = append(d.label, n)
	}
	return d
}

// chw normalises a CIFAR image and puts its channels first.
func chw(hwc []float32) []float32 {
	mean, dev := [3]float32{.4914, .4822, .4465}, [3]float32{.2470, .2435, .2616}
	out := make([]float32, len(hwc))
	for p := range 1024 {
		for c := range 3 {
			out[c*1024+p] = (hwc[p*3+c]/255 - mean[c]) / dev[c]
		}
	}
	return out
}

// right counts the inputs whose greatest output is the right class.
func right(t *testing.T, g *ir.Graph, d labelled) int {
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	shape := g.Type(g.Inputs[0]).Shape
	var n, next atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(d.x) {
					return
				}
				out, err := e.Run(context.Background(), []*ir.Tensor{ir.NewTensor(ir.F32, shape, d.x[i])}, eval.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if argmax(reals(out[0])) == d.label[i] {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

var blocksArg = flag.Bool("blocks", false, "measure accuracy with weights in blocks too, and that of recurrent models on all images")

// TestAccuracy measures top-1 of float, int8 and int4-weight models on real
// data. Fixed-point graphs run on the evaluator, whose bits are the emulator's
// (TestSameBits).
func TestAccuracy(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 10,000 images through seven models; left out with -short")
	}
	train, test, err := mnist.Load()
	if err != nil {
		t.Fatal(err)
	}
	unit := func(v float32) float32 { return v / 255 }
	norm := func(v float32) float32 { return (v/255 - .1307) / .3081 }
	few := &mnist.Set{Images: train.Images[:32], Labels: train.Labels[:32]}
	batch := map[string]int64{"N": 1}
	tests := []struct {
		model     string
		data      func(t *testing.T) labelled
		calibrate func(t *testing.T) labelled
		lose      float64 // points of top-1 that int8 may lose
		published int     // right answers of ONNX Runtime, 0 when not known
		dims      map[string]int64
	}{
		{"digits", func(*testing.T) labelled { return mnistData(test, unit) }, func(*testing.T) labelled { return mnistData(few, unit) }, 0.3, 0, nil},
		{"mnist-cntk", func(*testing.T) labelled { return mnistData(test, unit) }, func(*testing.T) labelled { return mnistData(few, unit) }, 0.3, 9890, nil},
		{"cnn-mnist-pytorch", func(*testing.T) labelled { return mnistData(test, norm) }, func(*testing.T) labelled { return mnistData(few, norm) }, 0.3, 9907, nil},
		{"mnist-sigmoid-6x200", func(*testing.T) labelled { return mnistData(test, unit) }, func(*testing.T) labelled { return mnistData(few, unit) }, 0.3, 9766, nil},
		{"self-mnist-gru-rows", func(*testing.T) labelled { return mnistData(test, unit) }, func(*testing.T) labelled { return mnistData(few, unit) }, 1, 9566, batch},
		{"self-mnist-bilstm2-rows", func(*testing.T) labelled { return mnistData(test, unit) }, func(*testing.T) labelled { return mnistData(few, unit) }, 1, 9321, nil},
		{"self-mnist-mobilenetv3-se", func(*testing.T) labelled { return mnistData(test, unit) }, func(*testing.T) labelled { return mnistData(few, unit) }, 1, 9514, batch},
		// The 100 images are all there are; they calibrate and test.
		{"cifar10-resnet20-bn", func(t *testing.T) labelled { return cifarData(t, chw) }, func(t *testing.T) labelled { return cifarData(t, chw) }, 2, 94, batch},
		{"mlperf-tiny-ic-resnet8-float", func(t *testing.T) labelled { return cifarData(t, func(x []float32) []float32 { return x }) }, func(t *testing.T) labelled { return cifarData(t, func(x []float32) []float32 { return x }) }, 2, 88, nil},
		{"mlperf-tiny-ic-resnet8-int8-qdq", func(t *testing.T) labelled { return cifarData(t, func(x []float32) []float32 { return x }) }, nil, 2, 86, nil},
	}
	for _, tt := range tests {
		t.Run(tt.model, func(t *testing.T) {
			path := tt.model
			if tt.model != "digits" {
				path = filepath.Join(sharedDir(t, "onnx", "models"), tt.model, "model.onnx")
			}
			m, err := OpenModel(path, ModelOptions{Dims: tt.dims})
			if err != nil {
				t.Fatal(err)
			}
			data := tt.data(t)
			if recurrent := strings.HasSuffix(tt.model, "-rows"); recurrent && !*blocksArg {
				data = data.first(1000) // one takes minutes for all
				tt.published = 0
			}
			shape := m.Graph.Type(m.Graph.Inputs[0]).Shape
			var calibration [][]*ir.Tensor
			if tt.calibrate != nil {
				for _, x := range tt.calibrate(t).x {
					if len(calibration) == 32 {
						break
					}
					calibration = append(calibration, []*ir.Tensor{ir.NewTensor(ir.F32, shape, x)})
				}
			}
			float := right(t, m.Graph, data)
			score := map[string]int{}
			for _, f := range formats {
				w := f.name
				if f.blocks && !*blocksArg {
					continue
				}
				p, err := prepare(context.Background(), m, QuantOptions{Weights: w}, calibration)
				if err != nil {
					t.Fatal(err)
				}
				score[w] = right(t, p.Fixed, data)
				if p.CameQuantised {
					break
				}
			}
			n := float64(len(data.x))
			points := func(k int) float64 { return 100 * float64(k) / n }
			line := fmt.Sprintf("%-32s %5.0f images  float %6.2f  int8 %6.2f", tt.model, n, points(float), points(score["int8"]))
			for _, f := range formats[1:] {
				if k, ok := score[f.name]; ok {
					line += fmt.Sprintf("  %s weights %6.2f", f.name, points(k))
				}
			}
			t.Log(line)
			if tt.published > 0 && math.Abs(float64(float-tt.published)) > 0.0005*n {
				t.Errorf("float model: %d right, ONNX Runtime has %d", float, tt.published)
			}
			if lost := points(float) - points(score["int8"]); lost > tt.lose {
				t.Errorf("int8 loses %.2f points, more than %.1f", lost, tt.lose)
			}
		})
	}
}
