package pim

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/functional"
	"situ/emulator/timing"
	"situ/ir"
)

// headed returns attention in codes over queries, keys and values whose heads lie
// side by side in the channels.
func headed(t testing.TB, positions, heads, dim int) (*ir.Graph, []*ir.Tensor) {
	t.Helper()
	r := rand.New(rand.NewPCG(9, 10))
	g := &ir.Graph{Name: "heads"}
	var in []*ir.Tensor
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	split := func(name string, zero int32, perm ...int) ir.ValueID {
		ty := ir.TypeOf(ir.I8, 1, positions, heads*dim).WithQuant(ir.PerTensor(0.02, zero))
		in = append(in, randomCodes(r, ty))
		s := must(g.Add(ir.Reshape, name+"/split", &ir.ShapeAttr{Shape: []int{1, positions, heads, dim}}, g.AddInput(name, ty)))
		return must(g.Add(ir.Transpose, name+"/heads", &ir.PermAttr{Perm: perm}, s))
	}
	q, kt, v := split("q", 7, 0, 2, 1, 3), split("k", 0, 0, 2, 3, 1), split("v", 0, 0, 2, 1, 3)
	codes := func(scale float32, zero int32, shape ...int) ir.Type {
		return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(scale, zero))
	}
	scores := must(g.AddTyped(ir.MatMul, "scores", nil, codes(0.05, 3, 1, heads, positions, positions), q, kt))
	shares := must(g.AddTyped(ir.Softmax, "shares", &ir.AxisAttr{Axis: 3}, codes(1.0/256, -128, 1, heads, positions, positions), scores))
	y := must(g.AddTyped(ir.MatMul, "mixed", nil, codes(0.01, -5, 1, heads, positions, dim), shares, v))
	y = must(g.Add(ir.Transpose, "merge", &ir.PermAttr{Perm: []int{0, 2, 1, 3}}, y))
	y = must(g.Add(ir.Reshape, "flat", &ir.ShapeAttr{Shape: []int{1, positions, heads * dim}}, y))
	g.Outputs = []ir.ValueID{must(g.AddTyped(ir.Requantize, "out", nil, codes(0.02, 0, 1, positions, heads*dim), y))}
	return g, in
}

// TestHeads: no transposes are left of attention, heads go to clusters without
// anything being sent, writing the second operands has a row of its own, and the
// estimate of what products do is what they do.
func TestHeads(t *testing.T) {
	for _, name := range []string{"corsair-card", "edge-dimc"} {
		d, err := arch.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		c := d.Chip
		g, in := headed(t, 64, 8, 32)
		p, err := choose(g, c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		prog, err := p.program(Options{})
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, g, c, prog, in)
		for _, s := range prog.Main {
			for _, i := range s.Insts {
				if i.Op == isa.OpCopy || i.Op == isa.OpSend {
					t.Errorf("%s: %s", name, isa.AppendInst(nil, &i))
				}
			}
		}
		limits := functional.LimitsOf(prog)
		res, err := timing.Run(context.Background(), prog, c, &limits, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]int64{}
		for i, l := range prog.Layers {
			if l.Op == "storew" {
				written[l.Name] = res.Main.Layers[i].Counters.WeightStored
			}
		}
		if len(written) != 2 || written["scores"] == 0 || written["mixed"] == 0 {
			t.Errorf("%s: bytes written into the arrays' memory are %v", name, written)
		}
		e, err := NewPlanner(g, c)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := e.Program(c, Options{Clusters: p.clusters})
		if err != nil {
			t.Fatal(err)
		}
		est, err := timing.Run(context.Background(), plain, c, &limits, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(res, est); d != "" {
			t.Errorf("%s: the program (-) and the planned one (+) take different times:\n%s", name, d)
		}
		if b := e.Bound(c); b.Cycles > float64(res.Main.PS)/c.PeriodPS() {
			t.Errorf("%s: takes %g cycles, less than the bound of %g", name, float64(res.Main.PS)/c.PeriodPS(), b.Cycles)
		}
	}
}
