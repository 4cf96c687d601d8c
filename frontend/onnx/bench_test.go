package onnx

import "testing"

// BenchmarkLoadImport reads and translates whole models.
func BenchmarkLoadImport(b *testing.B) {
	for _, path := range []string{
		"backend/light-tests/test_resnet50", "models/mobilenetv2-imagenet-int8-qdq", "models/mlperf-tiny-kws-dscnn-int8-qdq",
	} {
		file := shared(b, "onnx", path, "model.onnx")
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m, err := Load(file)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := Import(m, ImportOptions{DefaultDim: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
