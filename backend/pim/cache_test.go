package pim

import (
	"math/rand/v2"
	"testing"

	"situ/ir"
)

// cached returns a decoding step in codes: a query of each head meets keys and
// values so far, which come as inputs and leave with the new ones behind them.
func cached(t testing.TB, heads, past, dim int) (*ir.Graph, []*ir.Tensor) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	g := &ir.Graph{Name: "cache"}
	var in []*ir.Tensor
	input := func(name string, n int) ir.ValueID {
		ty := ir.TypeOf(ir.I8, 1, heads, n, dim).WithQuant(ir.PerTensor(0.02, 0))
		in = append(in, randomCodes(r, ty))
		return g.AddInput(name, ty)
	}
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	q := input("q", 1)
	present := func(name string) ir.ValueID {
		p := must(g.Add(ir.Concat, "present_"+name, &ir.AxisAttr{Axis: 2}, input("past_"+name, past), input("new_"+name, 1)))
		g.Outputs = append(g.Outputs, p)
		return p
	}
	k, v := present("k"), present("v")
	kt := must(g.Add(ir.Transpose, "transpose", &ir.PermAttr{Perm: []int{0, 1, 3, 2}}, k))
	scores := must(g.AddTyped(ir.MatMul, "scores", nil, ir.TypeOf(ir.I8, 1, heads, 1, past+1).WithQuant(ir.PerTensor(0.05, 3)), q, kt))
	shares := must(g.AddTyped(ir.Softmax, "shares", &ir.AxisAttr{Axis: 3}, ir.TypeOf(ir.I8, 1, heads, 1, past+1).WithQuant(ir.PerTensor(1.0/256, -128)), scores))
	y := must(g.AddTyped(ir.MatMul, "mixed", nil, ir.TypeOf(ir.I8, 1, heads, 1, dim).WithQuant(ir.PerTensor(0.01, -5)), shares, v))
	g.Outputs = append([]ir.ValueID{y}, g.Outputs...)
	return g, in
}

// TestCache: a cache that fits the scratchpad passes DRAM once each way; one that
// does not is spilled, and the bytes show it. The bits are the same.
func TestCache(t *testing.T) {
	g, in := cached(t, 4, 95, 16)
	for _, tt := range []struct {
		name       string
		scratchpad int64
		clusters   int
		spilled    bool
	}{{"ample", 256 << 10, 1, false}, {"split", 256 << 10, 4, false}, {"scarce", 12 << 10, 1, true}} {
		t.Run(tt.name, func(t *testing.T) {
			c := manyChip()
			c.Scratchpad.Bytes = fig(float64(tt.scratchpad))
			p, err := choose(g, c, Options{Clusters: tt.clusters})
			if err != nil {
				t.Fatal(err)
			}
			prog, err := p.program(Options{})
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, g, c, prog, in)
			moved, least := dramTraffic(c, prog.Main), ioBytes(prog)
			if tt.spilled && moved <= least || !tt.spilled && moved != least {
				t.Errorf("%d bytes of DRAM, inputs and outputs have %d", moved, least)
			}
			t.Logf("%d bytes of DRAM, inputs and outputs have %d", moved, least)
		})
	}
}
