package irtest

import (
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"situ/ir"
)

// NormGraph draws a layer normalisation on codes, of short and long rows, and an
// input for it.
func NormGraph(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
	n := rapid.SampledFrom([]int{1, 2, 3, 31, 32, 33, 96, 255, 256, 600}).Draw(t, "n")
	shape := []int{rapid.IntRange(1, 3).Draw(t, "outer"), rapid.IntRange(1, 9).Draw(t, "rows"), n}
	code := func(label string) ir.Type {
		d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(t, label)
		lo, hi := d.IntRange()
		scale := float32(math.Exp(rapid.Float64Range(-5, 1).Draw(t, label+" ln scale")))
		return ir.TypeOf(d, shape...).WithQuant(ir.PerTensor(scale, int32(rapid.Int64Range(lo, hi).Draw(t, label+" zero"))))
	}
	x, y := code("x"), code("y")
	g := &ir.Graph{Name: "norm"}
	in := []ir.ValueID{g.AddInput("x", x)}
	for _, name := range []string{"gamma", "beta"} {
		id := ir.NoValue
		if rapid.Bool().Draw(t, name) {
			id = g.AddConst(name, Tensor(rng, 2, n), nil)
		}
		in = append(in, id)
	}
	for in[len(in)-1] == ir.NoValue {
		in = in[:len(in)-1]
	}
	a := &ir.NormAttr{Epsilon: rapid.SampledFrom([]float32{0, 1e-12, 1e-5, 1}).Draw(t, "epsilon"), RMS: rapid.Bool().Draw(t, "rms")}
	out, err := g.AddTyped(ir.LayerNorm, "norm", a, y, in...)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{out}
	base, spread := rng.IntN(256), 0 // rows of equal codes are among them
	spread = rng.IntN(256 - base)
	u := make([]uint8, x.Numel())
	s := make([]int8, x.Numel())
	for i := range u {
		u[i] = uint8(base + rng.IntN(spread+1))
		s[i] = int8(int(u[i]) - 128)
	}
	if x.DType == ir.U8 {
		return g, []*ir.Tensor{ir.NewTensor(ir.U8, shape, u)}
	}
	return g, []*ir.Tensor{ir.NewTensor(ir.I8, shape, s)}
}
