package gpu

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"situ/ir"
)

// TestTopK compares the largest and smallest of all types with the evaluator's: equal
// elements, zeros of both signs, infinities and NaN.
func TestTopK(t *testing.T) {
	c, a := needLLC(t), h100(t)
	r := rand.New(rand.NewPCG(5, 6))
	g := &ir.Graph{Name: "topk"}
	var in []*ir.Tensor
	for _, d := range []ir.DType{ir.I8, ir.U8, ir.I16, ir.U16, ir.I32, ir.U32, ir.I64, ir.U64, ir.F32} {
		xt := ir.TypeOf(d, 2, 37, 3)
		x := g.AddInput("x"+d.String(), xt)
		v := noise(r, xt)
		if f, ok := v.Any().([]float32); ok {
			for i := range 20 {
				f[9*i] = float32(math.Copysign(0, float64(i%2)-0.5))
				f[9*i+4] = float32(math.NaN())
			}
		}
		in = append(in, v)
		for axis, k := range []int{1, 9, 3} {
			for _, smallest := range []bool{false, true} {
				y, err := g.Add(ir.TopK, "top", &ir.TopKAttr{Axis: axis, K: k, Smallest: smallest}, x)
				if err != nil {
					t.Fatal(err)
				}
				g.Outputs = append(g.Outputs, y)
			}
		}
	}
	p, err := Compile(g, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
		t.Fatal(err)
	}
	sameBits(t, g, p, in)
}
