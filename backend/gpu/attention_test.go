package gpu

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// drawHeads draws a product of two activations whose operands are transposed, cut out
// of wider tensors, or shared by a group of rows, and whose result is transposed, joined
// with another, or neither, as in attention.
func drawHeads(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	size := func(name string, n int) int { return rapid.IntRange(1, n).Draw(t, name) }
	batch, heads := size("batch", 2), size("heads", 3)
	m, k, n := size("m", 90), size("k", 150), size("n", 150)
	if rapid.Bool().Draw(t, "few") {
		m = size("m", 5)
	}
	switch rapid.IntRange(0, 2).Draw(t, "even") {
	case 1:
		k, n = (k+15)/16*16, (n+15)/16*16
	case 2:
		k, n = (k+3)/4*4, (n+3)/4*4
	}
	g := &ir.Graph{Name: "heads"}
	var inputs []*ir.Tensor
	must := func(v ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	input := func(name string, shape ...int) ir.ValueID {
		typ := drawCode(t, name, shape...)
		inputs = append(inputs, randomCodes(r, typ))
		return g.AddInput(name, typ)
	}
	// wide is an input of which the last dimension is cut to n.
	wide := func(name string, shape ...int) ir.ValueID {
		last := len(shape) - 1
		before := rapid.SampledFrom([]int{0, 0, 1, 4, 16}).Draw(t, name+" before")
		after := rapid.SampledFrom([]int{0, 0, 3, 4, 16}).Draw(t, name+" after")
		if before+after == 0 {
			return input(name, shape...)
		}
		all := append([]int{}, shape...)
		all[last] += before + after
		x := input(name, all...)
		a := &ir.SliceAttr{Starts: make([]int, last+1), Sizes: shape, Steps: make([]int, last+1)}
		for i := range a.Steps {
			a.Steps[i] = 1
		}
		a.Starts[last] = before
		return must(g.Add(ir.Slice, name+" cut", a, x))
	}
	turn := func(name string, x ir.ValueID, perm ...int) ir.ValueID {
		return must(g.Add(ir.Transpose, name+" turned", &ir.PermAttr{Perm: perm}, x))
	}
	var a, b ir.ValueID
	if rapid.Bool().Draw(t, "split a") {
		a = turn("a", wide("a", batch, m, heads, k), 0, 2, 1, 3)
	} else {
		a = wide("a", batch, heads, m, k)
	}
	switch rapid.IntRange(0, 4).Draw(t, "b lies") {
	case 0:
		b = turn("b", wide("b", batch, n, heads, k), 0, 2, 3, 1)
	case 1:
		b = turn("b", wide("b", batch, heads, n, k), 0, 1, 3, 2)
	case 2:
		b = turn("b", wide("b", batch, k, heads, n), 0, 2, 1, 3)
	case 3:
		b = wide("b", 1, 1, k, n) // for all
	default:
		b = wide("b", batch, heads, k, n)
	}
	y := must(g.AddTyped(ir.MatMul, "p", nil, drawCode(t, "y", batch, heads, m, n), a, b))
	switch rapid.IntRange(0, 3).Draw(t, "y lies") {
	case 0:
		y = turn("y", y, 0, 2, 1, 3)
	case 1:
		// Heads side by side, and another behind them.
		y = must(g.Add(ir.Reshape, "merged", &ir.ShapeAttr{Shape: []int{batch, m, heads * n}}, turn("y", y, 0, 2, 1, 3)))
		fallthrough
	case 2:
		shape := append([]int{}, g.Type(y).Shape...)
		axis := len(shape) - 1
		shape[axis] = size("more", 5)
		other := g.AddInput("other", withShape(g.Type(y), shape))
		inputs = append(inputs, randomCodes(r, g.Type(other)))
		parts := []ir.ValueID{y, other}
		if rapid.Bool().Draw(t, "behind") {
			parts = []ir.ValueID{other, y}
		}
		y = must(g.Add(ir.Concat, "joined", &ir.AxisAttr{Axis: axis}, parts...))
	}
	g.Outputs = []ir.ValueID{y}
	return g, inputs
}

// TestHeads: transposes, cuts and concatenations around a product are no kernels, but
// for what the product is joined with, and bits are the evaluator's.
func TestHeads(t *testing.T) {
	c, a := needLLC(t), h100(t)
	families := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		g, in := drawHeads(t)
		choose := chooser(never)
		if i := rapid.IntRange(0, len(tileShapes)).Draw(t, "tile"); i < len(tileShapes) {
			choose = always(tileShapes[i])
		}
		p, err := compile(g, a, choose, rapid.SampledFrom([]int{0, gen.MaxFewRows}).Draw(t, "few rows"))
		if err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatalf("%v", err)
		}
		copies := 0
		for _, l := range p.Launches {
			families[l.Kernel[:strings.LastIndexByte(l.Kernel, '_')]]++
			if strings.HasPrefix(l.Kernel, "copy") {
				copies++
				if l.Node != "joined" {
					t.Errorf("%s %q is a kernel\n%v", l.Op, l.Node, g)
				}
			}
		}
		if copies > 1 || len(p.Launches)-copies != 1 {
			t.Errorf("%d launches, %d of them copies", len(p.Launches), copies)
		}
		sameBits(t, g, p, in)
	})
	t.Log(families)
}

func withShape(t ir.Type, shape []int) ir.Type {
	t.Shape = shape
	return t
}

// TestKeysAreReadOnce: in a decode step of grouped queries each byte of the cached keys
// and values comes from memory once, for all heads that share it, in whole sectors.
func TestKeysAreReadOnce(t *testing.T) {
	c, a := needLLC(t), h100(t)
	const batch, kv, group, tokens, dim = 2, 2, 4, 523, 128
	code := func(shape ...int) ir.Type {
		return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(0.01, 3))
	}
	for _, turned := range []bool{true, false} {
		g := &ir.Graph{Name: "decode"}
		cache := g.AddInput("cache", code(batch, kv, tokens, dim))
		b, k, n := cache, tokens, dim
		if turned {
			var err error
			if b, err = g.Add(ir.Transpose, "turned", &ir.PermAttr{Perm: []int{0, 1, 3, 2}}, cache); err != nil {
				t.Fatal(err)
			}
			k, n = dim, tokens
		}
		x := g.AddInput("x", code(batch, kv, group, k))
		y, err := g.AddTyped(ir.MatMul, "p", nil, code(batch, kv, group, n), x, b)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		p, err := Compile(g, a)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		in := []*ir.Tensor{randomCodes(r, g.Type(cache)), randomCodes(r, g.Type(x))}
		sameBits(t, g, p, in)
		_, counts := emulate(t, p, in)
		if len(counts) != 1 || !strings.HasPrefix(p.Launches[0].Kernel, "matmul_few") {
			t.Fatalf("launches %+v", p.Launches)
		}
		f := counts[0].Traffic
		least := int64(g.Type(cache).Bytes() + g.Type(x).Bytes())
		if got := f.DRAMReadBytes; got < least || float64(got) > 1.01*float64(least) {
			t.Errorf("turned %v: %d bytes from memory, want %d", turned, got, least)
		}
		// Rows of the other operand are read by each block, mostly from L1.
		if got := 32 * f.L2ReadSectors; float64(got) > 1.15*float64(least) {
			t.Errorf("turned %v: %d bytes from L2, want %d and little more", turned, got, least)
		}
	}
}
