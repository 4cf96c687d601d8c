package onnx

import (
	"path/filepath"
	"testing"
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
