package pim

import (
	"testing"

	"situ/ir"
	"situ/ir/irtest"
	"situ/passes"
)

// BenchmarkMappings finds the best mapping of every layer of ResNet-18 on a
// cluster, nothing remembered, and counts the mappings looked at.
func BenchmarkMappings(b *testing.B) {
	g, err := irtest.ResNet18(224)
	if err != nil {
		b.Fatal(err)
	}
	res, err := passes.Run(g, passes.Config{Quant: passes.Quantisation{Inputs: [][]*ir.Tensor{{ir.Zeros(ir.F32, 1, 224, 224, 3)}}}})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"corsair-card", "edge-dimc"} {
		l, err := lower(res.Graph, preset(b, name))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			looked, layers := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				for _, s := range l.steps {
					k, ok := s.kernel.(*product)
					if !ok {
						continue
					}
					layers++
					var best Mapping
					pr := k.problem(whole(s.out.dims))
					l.maps.each(pr, func(m *Mapping) {
						if looked++; best.NTiles == 0 || better(&pr, m, &best) {
							best = *m
						}
					})
				}
			}
			b.ReportMetric(float64(looked)/b.Elapsed().Seconds(), "mappings/s")
			b.ReportMetric(float64(layers)/b.Elapsed().Seconds(), "layers/s")
		})
	}
}
