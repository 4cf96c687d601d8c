package gpu

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/ir"
	"situ/ir/irtest"
	"situ/passes"
)

func h100(t testing.TB) *arch.GPU {
	t.Helper()
	a, err := arch.Load("h100")
	if err != nil {
		t.Fatal(err)
	}
	return a.GPU
}

// needLLC returns an llc for the default target, or skips.
func needLLC(t testing.TB) *LLC {
	t.Helper()
	c, err := FindLLC(context.Background(), DefaultSM)
	if errors.Is(err, ErrNoLLC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fixedGraph draws a float graph and takes it through the passes.
func fixedGraph(t *rapid.T, o irtest.Options) (g *ir.Graph, in []*ir.Tensor) {
	f := irtest.Graph(t, o)
	in = irtest.Inputs(t, f)
	bits := rapid.SampledFrom([]int{8, 4}).Draw(t, "weight bits")
	res, err := passes.Run(f, passes.Config{Quant: passes.Quantisation{Inputs: [][]*ir.Tensor{in}, WeightBits: bits}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return res.Graph, in
}

func TestRandom(t *testing.T) {
	c, a := needLLC(t), h100(t)
	refused := map[string]int{}
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		g, _ := fixedGraph(t, irtest.Options{})
		p, err := Compile(g, a)
		if err != nil {
			refused[err.Error()]++
			return
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatalf("%v\n%v", err, p.LLVM)
		}
		ran++
	})
	for k, n := range refused {
		t.Logf("%d × %s", n, k)
	}
	t.Logf("%d ran", ran)
}
