package pim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/frontend/onnx"
	"situ/ir"
	"situ/passes"
)

// models are the folders below shared/onnx that the back end runs bit for bit.
var models = []string{
	"models/mlperf-tiny-*", "models/cifar10-resnet20-bn", "models/mnist-cntk", "models/cnn-mnist-pytorch",
	"models/mnist-sigmoid-6x200", "models/mobilenetv2-imagenet-int8-qdq", "models/mobilenetedgetpu-block-qdq",
	"models/stm-mobilenetv2-*", "models/stm-yamnet-256", "models/self-mnist-mobilenetv3-se", "models/acasxu-1-1",
	"models/ort-conv-qdq-*", "backend/light-tests/test_*",
}

// large models take many seconds on the evaluator; TestSameBits in runtime has them.
var large = []string{"test_vgg19", "test_densenet121", "test_bvlc_alexnet", "test_zfnet512", "test_inception_v1",
	"test_inception_v2", "test_resnet50", "test_shufflenet", "test_squeezenet"}

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

// loadModel imports the model of a folder and reads the inputs of its first test
// set.
func loadModel(t testing.TB, dir string) (*ir.Graph, []*ir.Tensor) {
	t.Helper()
	m, err := onnx.Load(filepath.Join(dir, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]bool{}
	for _, w := range m.Proto.Graph.Initializer {
		weights[w.Name] = true
	}
	opt := onnx.ImportOptions{InputShapes: map[string][]int{}, DefaultDim: 1}
	var in []*ir.Tensor
	for _, v := range m.Proto.Graph.Input {
		if weights[v.Name] {
			continue
		}
		_, x, err := onnx.ReadTensorFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", len(in))))
		if err != nil {
			t.Fatal(err)
		}
		opt.InputShapes[v.Name] = x.Shape
		in = append(in, x)
	}
	g, err := onnx.Import(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	return g, in
}

func preset(t testing.TB, name string) *arch.Chip {
	a, err := arch.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return a.Chip
}

// TestModels compiles real models for two architectures and both widths of
// weights and compares every bit of every output with the evaluator.
func TestModels(t *testing.T) {
	root := shared(t)
	chips := []*arch.Chip{preset(t, "corsair-card"), preset(t, "edge-dimc")}
	for _, pattern := range models {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(dirs) == 0 {
			t.Errorf("no model matches %s (%v)", pattern, err)
		}
		for _, dir := range dirs {
			t.Run(filepath.Base(dir), func(t *testing.T) {
				if slices.Contains(large, filepath.Base(dir)) {
					t.Skip("takes seconds; TestSameBits in runtime compares the same")
				}
				f, in := loadModel(t, dir)
				for _, bits := range []int{8, 4} {
					res, err := passes.Run(f, passes.Config{Quant: passes.Quantisation{Inputs: [][]*ir.Tensor{in}, WeightBits: bits}})
					if err != nil {
						t.Fatal(err)
					}
					for _, c := range chips {
						compileAndRun(t, res.Graph, c, in)
					}
				}
			})
		}
	}
}

func compileAndRun(t *testing.T, g *ir.Graph, c *arch.Chip, in []*ir.Tensor) {
	start := time.Now()
	p, err := Compile(g, c, Options{})
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
		return
	}
	took := time.Since(start)
	n := 0
	for _, s := range p.Main {
		n += len(s.Insts)
	}
	dram, least := dramTraffic(c, p.Main), p.WeightBytes+ioBytes(p)
	t.Logf("%s: %d clusters, %d instructions, constants %d kB, weights %d kB, scratchpad %d kB, weight SRAM %d kB a core, DRAM %d kB = %.2f × compulsory, compiled in %v",
		c.Name, len(p.Main), n, len(p.Consts)>>10, p.WeightBytes>>10, p.ScratchpadBytes>>10, p.WeightSRAMBytes>>10,
		dram>>10, float64(dram)/float64(least), took.Round(time.Millisecond))
	if err := isa.Validate(p); err != nil {
		t.Error(err)
		return
	}
	if !slices.ContainsFunc(p.Main, loadsWeights) && float64(dram) > 1.05*float64(least) {
		t.Errorf("%s: weights fit, yet DRAM traffic is %.2f × compulsory", c.Name, float64(dram)/float64(least))
	}
	sameBits(t, g, c, p, in)
}

func loadsWeights(s isa.Stream) bool {
	return slices.ContainsFunc(s.Insts, func(in isa.Inst) bool { return in.Op == isa.OpLoadW })
}
