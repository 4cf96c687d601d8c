package irtest

import (
	"math"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"situ/ir"
)

// MulAddGraph draws a sum of two products of codes, with broadcasting, and inputs
// for it.
func MulAddGraph(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
	// Small integers are the likelier ones; some shapes should be large nevertheless.
	shape := rapid.OneOf(rapid.SliceOfN(rapid.IntRange(1, 12), 1, 4), rapid.SliceOfN(rapid.IntRange(8, 12), 3, 4)).Draw(t, "shape")
	g := &ir.Graph{Name: "muladd"}
	code := func(label string, s []int) ir.Type {
		d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(t, label)
		lo, hi := d.IntRange()
		scale := float32(math.Exp(rapid.Float64Range(-5, 0).Draw(t, label+" ln scale")))
		return ir.TypeOf(d, s...).WithQuant(ir.PerTensor(scale, int32(rapid.Int64Range(lo, hi).Draw(t, label+" zero"))))
	}
	tensor := func(ty ir.Type) *ir.Tensor {
		if ty.DType == ir.U8 {
			v := make([]uint8, ty.Numel())
			for i := range v {
				v[i] = uint8(rng.IntN(256))
			}
			return ir.NewTensor(ty.DType, ty.Shape, v)
		}
		v := make([]int8, ty.Numel())
		for i := range v {
			v[i] = int8(rng.IntN(256) - 128)
		}
		return ir.NewTensor(ty.DType, ty.Shape, v)
	}
	var ids []ir.ValueID
	var in []*ir.Tensor
	place := rapid.IntRange(0, 3).Draw(t, "operand of the result's shape")
	for i, name := range []string{"a", "b", "c", "d"} {
		s := slices.Clone(shape)
		if i != place {
			s = s[rapid.IntRange(0, len(s)).Draw(t, name+" dropped"):]
			for d := range s {
				if rapid.Bool().Draw(t, name+" repeats") {
					s[d] = 1
				}
			}
		}
		ty := code(name, s)
		if i != place && rapid.Bool().Draw(t, name+" constant") {
			ids = append(ids, g.AddConst(name, tensor(ty), ty.Quant))
			continue
		}
		ids = append(ids, g.AddInput(name, ty))
		in = append(in, tensor(ty))
	}
	out, err := g.AddTyped(ir.MulAdd, "muladd", &ir.MulAddAttr{Subtract: rapid.Bool().Draw(t, "subtract")}, code("y", shape), ids...)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{out}
	return g, in
}
