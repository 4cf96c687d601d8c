package irtest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
)

// TestCoverage checks that every maker's operator is drawn in practice, that
// bounds are kept and that graphs have branches.
func TestCoverage(t *testing.T) {
	seen := map[ir.OpKind]int{}
	grouped, branches, ops, graphs := 0, 0, 0, 0
	check := func(t *rapid.T) {
		g := Graph(t, Options{MaxOps: 20, MaxElems: 1000, Plain: true})
		for i := range g.Ops {
			seen[g.Ops[i].Kind]++
			if a, ok := g.Ops[i].Attr.(*ir.ConvAttr); ok && a.Groups > 1 {
				grouped++
			}
		}
		for id, v := range g.Values {
			if v.Def >= 0 && v.Type.Numel() > 1000 {
				t.Fatalf("%%%d exceeds MaxElems in\n%v", id, g)
			}
		}
		if len(g.Ops) > 40 { // some draw two
			t.Fatalf("%d operators", len(g.Ops))
		}
		if len(g.Outputs) > 1 {
			branches++
		}
		graphs++
		ops += len(g.Ops)
		if in := Inputs(t, g); !in[0].Type().Equal(g.Type(g.Inputs[0])) {
			t.Fatalf("input is %v", in[0].Type())
		}
	}
	for range 20 { // rare operators are drawn about once in 100 graphs
		rapid.Check(t, check)
	}
	for _, m := range slices.Concat(makers, plainMakers) {
		if seen[m.kind] == 0 {
			t.Errorf("%d graphs with %d operators, none of them %v", graphs, ops, m.kind)
		}
	}
	if grouped == 0 || branches == 0 || ops < 3*graphs {
		t.Errorf("%d graphs: %d grouped convolutions, %d graphs with branches, %d operators", graphs, grouped, branches, ops)
	}
}

// TestKinds checks the restriction to some operators.
func TestKinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Graph(t, Options{Kinds: []ir.OpKind{ir.Conv2D, ir.MaxPool}})
		if len(g.Type(g.Inputs[0]).Shape) != 4 {
			t.Fatalf("input does not suit the operators:\n%v", g)
		}
		for i := range g.Ops {
			if k := g.Ops[i].Kind; k != ir.Conv2D && k != ir.MaxPool {
				t.Fatalf("drew %v", k)
			}
		}
	})
}
