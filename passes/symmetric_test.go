package passes

import (
	"testing"

	"situ/ir"
)

// TestSymmetric: keys get no zero point, nor does what is joined to them; a range
// on one side of zero keeps its own.
func TestSymmetric(t *testing.T) {
	g := &ir.Graph{Name: "g"}
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	q := g.AddInput("q", ir.TypeOf(ir.F32, 2, 4))
	past := g.AddInput("past", ir.TypeOf(ir.F32, 2, 4))
	k := g.AddInput("k", ir.TypeOf(ir.F32, 1, 4))
	both := must(g.Add(ir.Concat, "both", &ir.AxisAttr{Axis: 0}, past, k))
	kt := must(g.Add(ir.Transpose, "kt", &ir.PermAttr{Perm: []int{1, 0}}, both))
	scores := must(g.Add(ir.MatMul, "scores", nil, q, kt))
	v := g.AddInput("v", ir.TypeOf(ir.F32, 3, 2))
	g.Outputs = []ir.ValueID{must(g.Add(ir.MatMul, "mixed", nil, must(g.Add(ir.Softmax, "shares", &ir.AxisAttr{Axis: 1}, scores)), v))}
	in := []*ir.Tensor{
		ir.NewTensor(ir.F32, []int{2, 4}, []float32{-1, 0, 1, 3, 2, 2, 0, 1}), ir.NewTensor(ir.F32, []int{2, 4}, []float32{-1, 0.5, 1, 0, 0, 1, -0.5, 0.25}),
		ir.NewTensor(ir.F32, []int{1, 4}, []float32{1.25, 0, 0, -1}), ir.NewTensor(ir.F32, []int{3, 2}, []float32{0, 1, 2, 3, 4, 5}),
	}
	res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}}})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i := range res.Graph.Ops {
		op := &res.Graph.Ops[i]
		if op.Kind != ir.Quantize {
			continue
		}
		ty := res.Graph.Type(op.Out)
		zero := ty.Quant.Zero[0]
		switch name := res.Graph.Value(op.In[0]).Name; name {
		case "past", "k":
			seen++
			if zero != 0 || ty.Quant.Scale[0] != float32(1.25/127) {
				t.Errorf("%s has zero point %d and scale %v, want 0 and 1.25/127", name, zero, ty.Quant.Scale[0])
			}
		case "q", "v":
			seen++
			if zero == 0 {
				t.Errorf("%s has no zero point", name)
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d inputs quantised, want 4\n%v", seen, res.Graph)
	}
}
