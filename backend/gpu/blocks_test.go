package gpu

import (
	"context"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

// TestBlocks compiles products of weights in blocks, of 4 and 8 bits, for the tensor
// cores with any tile and for ordinary threads, and compares bits with the
// evaluator.
func TestBlocks(t *testing.T) {
	c, a := needLLC(t), h100(t)
	families := map[string]int{}
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		g, in := irtest.Blocked(t)
		choose := never
		if i := rapid.IntRange(-1, len(tileShapes)-1).Draw(t, "tile"); i >= 0 {
			choose = always(tileShapes[i])
		}
		p, err := compile(g, a, choose, 0)
		if err != nil {
			if !strings.Contains(err.Error(), "come in blocks of 5") {
				t.Fatal(err)
			}
			refused++
			return
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatalf("%v", err)
		}
		sameBits(t, g, p, in)
		for _, l := range p.Launches {
			family, _, _ := strings.Cut(l.Kernel, "_0")
			families[family]++
		}
	})
	t.Logf("%v, %d refused", families, refused)
	for _, f := range []string{"conv_mma", "conv_dp4a"} {
		if families[f] == 0 {
			t.Errorf("no kernel %s", f)
		}
	}
}

// TestBlocksMoveTheirBytes: kernels hold weights of 4 bits in 4 and a byte for each
// block.
func TestBlocksMoveTheirBytes(t *testing.T) {
	const k, n = 256, 128
	constants := func(d ir.DType, blocks bool) int {
		q := &ir.Quant{Axis: 1, Scale: slices.Repeat([]float32{1}, n), Zero: make([]int32, n)}
		if blocks {
			q.Block, q.Shift = 32, slices.Repeat([]uint8{1, 4}, n*k/32/2)
		}
		codes := make([]int8, k*n)
		for i := range codes {
			codes[i] = int8(i%15 - 7)
		}
		g := &ir.Graph{Name: "bytes"}
		x := g.AddInput("x", ir.TypeOf(ir.I8, 256, k).WithQuant(ir.PerTensor(1, 0)))
		w := g.AddConst("w", ir.NewTensor(d, []int{k, n}, codes), q)
		y, err := g.AddTyped(ir.MatMul, "m", &ir.MatMulAttr{}, ir.TypeOf(ir.I32, 256, n), x, w)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		p, err := compile(g, h100(t), always(tileShapes[3]), 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Constants)
	}
	whole := constants(ir.I8, false)
	for _, f := range []struct {
		d      ir.DType
		blocks bool
		less   int
	}{{ir.I8, true, -k / 32 * n}, {ir.I4, false, k * n / 2}, {ir.I4, true, k*n/2 - k/32*n}} {
		if got := whole - constants(f.d, f.blocks); got != f.less {
			t.Errorf("%s, blocks %t: constants take %d bytes less than those of int8, want %d", f.d, f.blocks, got, f.less)
		}
	}
}
