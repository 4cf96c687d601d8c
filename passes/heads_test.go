package passes

import (
	"context"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/eval"
)

// TestSharedHeads: products with keys and values that expand repeats for several heads
// become products of more rows without an expand, and give the same; what only looks
// like it is left alone.
func TestSharedHeads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := func(name string) int { return rapid.IntRange(1, 4).Draw(t, name) }
		b, kv, r, m, n, p := size("b"), size("kv"), size("r"), size("m"), size("n"), size("p")
		turned, other := rapid.Bool().Draw(t, "turned"), rapid.Bool().Draw(t, "other axis")
		g := &ir.Graph{}
		must := func(id ir.ValueID, err error) ir.ValueID {
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		rows, columns := n, p
		if turned {
			rows, columns = p, n
		}
		x, y := g.AddInput("x", ir.TypeOf(ir.F32, b, kv*r, m, n)), g.AddInput("y", ir.TypeOf(ir.F32, b, kv, rows, columns))
		one, many := []int{b, kv, 1, rows, columns}, []int{b, kv, r, rows, columns}
		if other { // heads of a group lie apart: another order
			one, many = []int{b, 1, kv, rows, columns}, []int{b, r, kv, rows, columns}
		}
		z := must(g.Add(ir.Reshape, "one", &ir.ShapeAttr{Shape: one}, y))
		z = must(g.Add(ir.Expand, "many", &ir.ShapeAttr{Shape: many}, z))
		z = must(g.Add(ir.Reshape, "merged", &ir.ShapeAttr{Shape: []int{b, kv * r, rows, columns}}, z))
		if turned {
			z = must(g.Add(ir.Transpose, "turned", &ir.PermAttr{Perm: []int{0, 1, 3, 2}}, z))
		}
		g.Outputs = []ir.ValueID{must(g.Add(ir.MatMul, "product", nil, x, z))}
		h, err := canonicalise(g, &State{ctx: context.Background()})
		if err != nil {
			t.Fatal(err)
		}
		expands := 0
		for i := range h.Ops {
			if h.Ops[i].Kind == ir.Expand {
				expands++
			}
		}
		if !other && expands > 0 {
			t.Fatalf("there is an expand in\n%v", h)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var in []*ir.Tensor
		for _, id := range g.Inputs {
			x := ir.Zeros(ir.F32, g.Type(id).Shape...)
			for i := range ir.Data[float32](x) {
				ir.Data[float32](x)[i] = float32(rng.IntN(9) - 4) // exact in any order
			}
			in = append(in, x)
		}
		var got [2][]float32
		for k, g := range []*ir.Graph{g, h} {
			e, err := eval.New(g)
			if err != nil {
				t.Fatal(err)
			}
			out, err := e.Run(context.Background(), in, eval.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got[k] = ir.Data[float32](out[0])
		}
		for i := range got[0] {
			if got[0][i] != got[1][i] {
				t.Fatalf("element %d is %v, was %v\n%v", i, got[1][i], got[0][i], h)
			}
		}
	})
}
