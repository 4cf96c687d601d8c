package pim

import (
	"path/filepath"
	"testing"

	"situ/ir"
	"situ/passes"
)

// BenchmarkCompile compiles ResNet-50 at 224² for both kinds of chip: one where
// all weights stay and layers are split over clusters, and one where weights are
// streamed and layers run depth-first.
func BenchmarkCompile(b *testing.B) {
	f, in := loadModel(b, filepath.Join(shared(b), "backend/light-tests/test_resnet50"))
	res, err := passes.Run(f, passes.Config{Quant: passes.Quantisation{Inputs: [][]*ir.Tensor{in}}})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"corsair-card", "edge-dimc"} {
		c := preset(b, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile(res.Graph, c, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
