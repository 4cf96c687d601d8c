package ir_test

import (
	"io"
	"testing"

	"situ/ir"
)

// chain returns a graph of n convolutions with constants of 64 KiB each.
func chain(b *testing.B, n int) *ir.Graph {
	g := &ir.Graph{Name: "chain"}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, 14, 14, 128))
	for range n {
		w := g.AddConst("w", ir.Zeros(ir.F32, 128, 1, 1, 128), nil)
		y, err := g.Add(ir.Conv2D, "conv", &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Groups: 1}, x, w)
		if err != nil {
			b.Fatal(err)
		}
		x = y
	}
	g.Outputs = []ir.ValueID{x}
	return g
}

func BenchmarkVerify(b *testing.B) {
	g := chain(b, 1000)
	for b.Loop() {
		if err := ir.Verify(g); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrint(b *testing.B) {
	g := chain(b, 1000)
	b.SetBytes(1000 * 128 * 128 * 4)
	for b.Loop() {
		if err := ir.Print(io.Discard, g); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	g := chain(b, 1000)
	text, side := g.String(), ir.SideOf(g)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ir.Parse(text, side); err != nil {
			b.Fatal(err)
		}
	}
}
