package pim

import (
	"math/rand/v2"
	"testing"

	"situ/ir"
	"situ/ir/irtest"
	"situ/passes"
)

// TestRounds compiles batches that do not fit the scratchpads: they are cut into rounds,
// whose bits are the evaluator's, also where entries are left over, and whose layers are
// as many for each.
func TestRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	f, err := irtest.ResNet18(32)
	if err != nil {
		t.Fatal(err)
	}
	res, err := passes.Run(f, passes.Config{Quant: passes.Quantisation{Inputs: [][]*ir.Tensor{{irtest.Tensor(r, 2, 1, 32, 32, 3)}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := preset(t, "corsair-chiplet")
	c.Scratchpad.Bytes = fig(40 << 10)
	e, err := NewPlanner(res.Graph, c)
	if err != nil {
		t.Fatal(err)
	}
	if n := e.batch(); n != 1 {
		t.Fatalf("one input is a batch of %d", n)
	}
	for _, n := range []int{16, 23} {
		g, err := passes.Batch(res.Graph, n)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := Compile(g, c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if prog.Rounds < 2 {
			t.Errorf("a batch of %d runs in %d rounds", n, prog.Rounds)
		}
		macs := int64(0)
		for _, l := range prog.Layers {
			macs += l.MACs
		}
		one, err := Compile(res.Graph, c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range one.Layers {
			macs -= int64(n) * l.MACs
		}
		if macs != 0 {
			t.Errorf("the layers of a batch of %d have %d multiply-accumulates more than those of as many inputs", n, macs)
		}
		sameBits(t, g, c, prog, []*ir.Tensor{irtest.Tensor(r, 2, n, 32, 32, 3)})
	}
}

// TestLoadParts shares inputs among clusters whose needs overlap: along one axis, two,
// and where they are no grid.
func TestLoadParts(t *testing.T) {
	full := whole(dims{2, 8, 8, 1})
	grid := []box{
		{hi: dims{1, 5, 8, 1}}, {lo: dims{0, 3, 0, 0}, hi: dims{1, 8, 8, 1}},
		{lo: dims{1, 0, 0, 0}, hi: dims{2, 5, 8, 1}}, {lo: dims{1, 3, 0, 0}, hi: dims{2, 8, 8, 1}}, {},
	}
	parts := inOrder(grid, full, allCuts)
	if !partition(parts, full) || taken(parts) != 4 {
		t.Errorf("a grid is shared as %v", parts)
	}
	diagonal := []box{{hi: dims{1, 5, 8, 1}}, {lo: dims{1, 3, 0, 0}, hi: dims{2, 8, 8, 1}}}
	if parts := inOrder(diagonal, full, allCuts); partition(parts, full) {
		t.Errorf("a diagonal is shared as %v", parts)
	}
	if parts := inOrder(diagonal, full, [4]bool{true}); !partition(parts, full) || taken(parts) != 2 {
		t.Errorf("a diagonal is shared along one axis as %v", parts)
	}
}
