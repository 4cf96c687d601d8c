package pim

import (
	"math/rand/v2"
	"testing"

	"situ/arch"
	"situ/ir"
)

// TestFewTiles compiles constant weights beside a product of two activations, which
// may be written into the arrays, for chips whose weight SRAM holds one tile, two
// and three: whatever is left for either, programs are written and their bits are
// the evaluator's.
func TestFewTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	code := func(shape ...int) ir.Type {
		return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(0.1, 3))
	}
	g := &ir.Graph{Name: "tiles"}
	x, b := g.AddInput("x", code(40, 96)), g.AddInput("b", code(80, 24))
	w := ir.TypeOf(ir.I8, 96, 80)
	weights := g.AddConst("w", randomCodes(r, w), ir.PerTensor(0.01, 0))
	h, err := g.AddTyped(ir.MatMul, "constant", &ir.MatMulAttr{}, code(40, 80), x, weights)
	if err != nil {
		t.Fatal(err)
	}
	y, err := g.AddTyped(ir.MatMul, "pair", &ir.MatMulAttr{}, code(40, 24), h, b)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	in := []*ir.Tensor{randomCodes(r, g.Type(x)), randomCodes(r, g.Type(b))}
	inArrays := 0
	for tiles := int64(1); tiles <= 3; tiles++ {
		for _, c := range []*arch.Chip{tinyChip(), manyChip()} {
			c.WeightSRAM.Bytes = fig(float64(tiles * c.TileBytes(arch.Weights{Bits: 8})))
			c.Vector.Lanes, c.Vector.MACsPerLane = fig(1), fig(1) // arrays where they can
			for clusters := 1; clusters <= c.NumClusters(); clusters++ {
				p, err := choose(g, c, Options{Clusters: clusters})
				if err != nil {
					t.Fatalf("%s, tiles %d, clusters %d: %v", c.Name, tiles, clusters, err)
				}
				if err := p.check(); err != nil {
					t.Fatalf("%s, tiles %d, clusters %d: %v", c.Name, tiles, clusters, err)
				}
				for _, s := range p.steps {
					if k, ok := s.kernel.(*pair); ok && !k.m.vector {
						inArrays++
					}
				}
				prog, err := p.program(Options{})
				if err != nil {
					t.Fatal(err)
				}
				sameBits(t, g, c, prog, in)
			}
		}
	}
	if inArrays == 0 {
		t.Error("the product of two activations never ran in the arrays")
	}
}
