package passes

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"situ/ir"
	"situ/ir/eval"
	"situ/ir/irtest"
)

// TestFactor: the factor of scores ends in the weights and bias of the queries'
// projection, and stays where the queries have another use.
func TestFactor(t *testing.T) {
	for _, tt := range []struct {
		name, outputs string
		muls          int
	}{{"queries alone", "%10", 0}, {"queries used", "%10, %6", 1}} {
		g, err := ir.Parse(`graph "g" {
			%0 = input "x" : f32[3,4]
			%1 = input "k" : f32[2,2,5]
			%2 = const "w" : f32[4,4] {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}
			%3 = const "b" : f32[4] {1, 2, 3, 4}
			%4 = const "c" : f32[1] {0.5}
			%5 = matmul %0, %2 : f32[3,4] @ "project"
			%6 = add %5, %3 : f32[3,4] @ "bias"
			%7 = reshape %6 {shape=[3,2,2]} : f32[3,2,2] @ "split"
			%8 = transpose %7 {perm=[1,0,2]} : f32[2,3,2] @ "heads"
			%9 = matmul %8, %1 : f32[2,3,5] @ "scores"
			%10 = mul %9, %4 : f32[2,3,5] @ "scaled"
			output `+tt.outputs+`
		}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := Run(g, Config{StopAfter: "fuse", Disable: []string{"calibrate", "quantise"}})
		if err != nil {
			t.Fatal(err)
		}
		muls := 0
		for i := range res.Graph.Ops {
			if res.Graph.Ops[i].Kind == ir.Mul {
				muls++
			}
		}
		if muls != tt.muls {
			t.Errorf("%s: %d multiplications are left, want %d\n%v", tt.name, muls, tt.muls, res.Graph)
		}
		r := rand.New(rand.NewPCG(1, 2))
		in := []*ir.Tensor{irtest.Tensor(r, 1, 3, 4), irtest.Tensor(r, 1, 2, 2, 5)}
		run := func(g *ir.Graph) []float32 {
			e, err := eval.New(g)
			if err != nil {
				t.Fatal(err)
			}
			out, err := e.Run(context.Background(), in, eval.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return ir.Data[float32](out[0])
		}
		want := run(g)
		for i, y := range run(res.Graph) {
			if math.Abs(float64(y-want[i])) > 1e-4 {
				t.Errorf("%s: element %d is %v, was %v", tt.name, i, y, want[i])
			}
		}
	}
}
