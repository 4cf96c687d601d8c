package pim

import (
	"testing"

	"situ/ir"
)

// TestHomes: a second operand that stays in DRAM, and of which several clusters need
// the same part, lies on all dies.
func TestHomes(t *testing.T) {
	const m, k, n = 120, 64, 8192
	code := func(shape ...int) ir.Type { return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(0.02, 0)) }
	for _, heads := range []int{1, 2, 4} {
		g := &ir.Graph{Name: "cache"}
		q, keys := g.AddInput("queries", code(heads, m, k)), g.AddInput("keys", code(heads, k, n))
		y, err := g.AddTyped(ir.MatMul, "scores", nil, code(heads, m, n), q, keys)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		p, err := Compile(g, manyChip(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		lo := p.Inputs[1].Addr
		hi, far := lo+int64(heads*k*n), int64(0)
		for _, r := range p.Regions {
			if r.Die == 1 {
				far += max(min(r.End, hi)-max(r.Start, lo), 0)
			}
		}
		if far != (hi-lo)/2 {
			t.Errorf("%d heads: %d of %d bytes of the keys are in the DRAM of the second die", heads, far, hi-lo)
		}
	}
}
