package gpu

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

// TestNormBits and TestMulAddBits compare normalisations and sums of products with
// the evaluator, bit for bit.
func TestNormBits(t *testing.T)   { testBits(t, irtest.NormGraph) }
func TestMulAddBits(t *testing.T) { testBits(t, irtest.MulAddGraph) }

func testBits(t *testing.T, draw func(*rapid.T) (*ir.Graph, []*ir.Tensor)) {
	c, a := needLLC(t), h100(t)
	rapid.Check(t, func(t *rapid.T) {
		g, in := draw(t)
		p, err := Compile(g, a)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatal(err)
		}
		sameBits(t, g, p, in)
	})
}
