package gpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
)

// TestRowBits compares softmax and normalisation of rows of many lengths, which one
// warp or several compute, with the evaluator, bit for bit. Codes are few and close, or
// all, so that shares are everything from 0 to 1 and ties come up.
func TestRowBits(t *testing.T) {
	testBits(t, func(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.SampledFrom([]int{1, 3, 4, 31, 64, 250, 256, 384, 1000, 2048, 2049}).Draw(t, "n")
		rows := rapid.IntRange(1, 3).Draw(t, "rows")
		g := &ir.Graph{Name: "rows"}
		typ := drawCode(t, "x", rows, n)
		x := g.AddInput("x", typ)
		in := randomCodes(r, typ)
		if spread := rapid.SampledFrom([]int{1, 2, 3, 20, 256}).Draw(t, "spread"); spread < 256 {
			switch d := in.Any().(type) {
			case []int8:
				for i := range d {
					d[i] = int8(r.IntN(spread))
				}
			case []uint8:
				for i := range d {
					d[i] = uint8(r.IntN(spread))
				}
			}
		}
		yt := drawCode(t, "y", rows, n)
		var y ir.ValueID
		var err error
		if rapid.Bool().Draw(t, "softmax") {
			yt.Quant = ir.PerTensor(float32(math.Exp2(-rapid.Float64Range(1, 17.9).Draw(t, "scale"))), yt.Quant.Zero[0])
			y, err = g.AddTyped(ir.Softmax, "softmax", &ir.AxisAttr{Axis: 1}, yt, x)
		} else {
			ops := []ir.ValueID{x, ir.NoValue, ir.NoValue}
			for i, name := range []string{"gamma", "beta"} {
				if rapid.Bool().Draw(t, name) {
					ops[1+i] = g.AddConst(name, randomCodes(r, ir.TypeOf(ir.F32, n)), nil)
				}
			}
			y, err = g.AddTyped(ir.LayerNorm, "norm", &ir.NormAttr{Epsilon: 1e-5, RMS: rapid.Bool().Draw(t, "rms")}, yt, ops...)
		}
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		return g, []*ir.Tensor{in}
	})
}
