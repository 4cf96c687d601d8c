package pim

import (
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

// TestNormBits and TestMulAddBits compare normalisations and sums of products with
// the evaluator, bit for bit, on one cluster and on several, with room for the
// tensors and without.
func TestNormBits(t *testing.T)   { testBits(t, 8, irtest.NormGraph) }
func TestMulAddBits(t *testing.T) { testBits(t, 2, irtest.MulAddGraph) }

// testBits gives a cluster 64 kB of scratchpad, or as few as small.
func testBits(t *testing.T, small int, draw func(*rapid.T) (*ir.Graph, []*ir.Tensor)) {
	spilled, streamed, split, fused := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g, in := draw(t)
		for clusters := 1; clusters <= 2; clusters++ {
			c := manyChip()
			c.Scratchpad.Bytes = fig(float64(rapid.SampledFrom([]int{small, 64}).Draw(t, "kB") << 10))
			p, err := choose(g, c, Options{Clusters: clusters})
			if err != nil {
				t.Fatal(err)
			}
			count(p, &spilled, &streamed, &split, &fused)
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
			prog, err := p.program(Options{})
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, g, c, prog, in)
		}
	})
	t.Logf("%d programs spilled, %d were split over clusters", spilled, split)
	if spilled == 0 || split == 0 {
		t.Errorf("%d programs spilled, %d were split over clusters: want some of each", spilled, split)
	}
}
