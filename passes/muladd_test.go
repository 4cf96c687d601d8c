package passes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"situ/ir"
)

// rotaries turn pairs of x [1,2,6,8] by tables c and s [6,4], or of [6,8], as the
// importer writes RotaryEmbedding and as models spell it.
var rotaries = []struct {
	name  string
	width int // of the tables
	lines string
	sums  int // of two products
}{
	{"halves", 4, `%3 = slice %0 {starts=[0,0,0,0], steps=[1,1,1,1], sizes=[1,2,6,4]} : f32[1,2,6,4]
		%4 = slice %0 {starts=[0,0,0,4], steps=[1,1,1,1], sizes=[1,2,6,4]} : f32[1,2,6,4]
		%5 = mul %3, %1 : f32[1,2,6,4]
		%6 = mul %4, %2 : f32[1,2,6,4]
		%7 = sub %5, %6 : f32[1,2,6,4]
		%8 = mul %3, %2 : f32[1,2,6,4]
		%9 = mul %4, %1 : f32[1,2,6,4]
		%10 = add %8, %9 : f32[1,2,6,4]
		%11 = concat %7, %10 {axis=3} : f32[1,2,6,8]
		output %11`, 2},
	{"neighbours", 4, `%3 = slice %0 {starts=[0,0,0,0], steps=[1,1,1,2], sizes=[1,2,6,4]} : f32[1,2,6,4]
		%4 = slice %0 {starts=[0,0,0,1], steps=[1,1,1,2], sizes=[1,2,6,4]} : f32[1,2,6,4]
		%5 = mul %3, %1 : f32[1,2,6,4]
		%6 = mul %4, %2 : f32[1,2,6,4]
		%7 = sub %5, %6 : f32[1,2,6,4]
		%8 = mul %3, %2 : f32[1,2,6,4]
		%9 = mul %4, %1 : f32[1,2,6,4]
		%10 = add %8, %9 : f32[1,2,6,4]
		%11 = reshape %7 {shape=[1,2,6,4,1]} : f32[1,2,6,4,1]
		%12 = reshape %10 {shape=[1,2,6,4,1]} : f32[1,2,6,4,1]
		%13 = concat %11, %12 {axis=4} : f32[1,2,6,4,2]
		%14 = reshape %13 {shape=[1,2,6,8]} : f32[1,2,6,8]
		output %14`, 2},
	{"rotated half", 8, `%3 = slice %0 {starts=[0,0,0,4], steps=[1,1,1,1], sizes=[1,2,6,4]} : f32[1,2,6,4]
		%4 = neg %3 : f32[1,2,6,4]
		%5 = slice %0 {starts=[0,0,0,0], steps=[1,1,1,1], sizes=[1,2,6,4]} : f32[1,2,6,4]
		%6 = concat %4, %5 {axis=3} : f32[1,2,6,8]
		%7 = mul %0, %1 : f32[1,2,6,8]
		%8 = mul %6, %2 : f32[1,2,6,8]
		%9 = add %7, %8 : f32[1,2,6,8]
		output %9`, 1},
}

// TestRotary: a rotary embedding is sums of two products on codes, each rounded
// once, and nothing of it stays in float32.
func TestRotary(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	for _, r := range rotaries {
		g, err := ir.Parse(fmt.Sprintf("graph %q {\n%%0 = input \"x\" : f32[1,2,6,8]\n%%1 = input \"c\" : f32[6,%d]\n%%2 = input \"s\" : f32[6,%d]\n%s\n}",
			r.name, r.width, r.width, r.lines), nil)
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		x := make([]float32, 96)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		table := func(f func(float64) float64) *ir.Tensor {
			v := make([]float32, 6*r.width)
			for i := range v {
				v[i] = float32(f(float64(i/r.width) * math.Pow(100, -float64(i%4)/4)))
			}
			return ir.NewTensor(ir.F32, []int{6, r.width}, v)
		}
		in := []*ir.Tensor{ir.NewTensor(ir.F32, []int{1, 2, 6, 8}, x), table(math.Cos), table(math.Sin)}
		// The tables are constants in models.
		for i := 1; i <= 2; i++ {
			v := g.Value(ir.ValueID(i))
			v.Const, v.Def = in[i], -1
		}
		g.Inputs = g.Inputs[:1]
		w := make([]float32, 24)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
		}
		y, err := g.Add(ir.MatMul, "reader", nil, g.Outputs[0], g.AddConst("w", ir.NewTensor(ir.F32, []int{8, 3}, w), nil))
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs[0] = y
		if err := ir.Verify(g); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in[:1]}}})
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		sums := 0
		for i := range res.Graph.Ops {
			switch k := res.Graph.Ops[i].Kind; k {
			case ir.MulAdd:
				sums++
			case ir.Mul, ir.Add, ir.Sub, ir.Requantize:
				t.Errorf("%s: %s is left\n%v", r.name, k, res.Graph)
			}
		}
		if sums != r.sums || len(res.Fallback) > 0 {
			t.Errorf("%s: %d sums of products, want %d; in float32: %v\n%v", r.name, sums, r.sums, res.Fallback, res.Graph)
		}
		if db := sqnr(runGraph(t, res.Graph, in[:1])[0], runGraph(t, g, in[:1])[0]); db < 36 {
			t.Errorf("%s: %.1f dB\n%v", r.name, db, res.Graph)
		} else {
			t.Logf("%s: %.1f dB", r.name, db)
		}
	}
}
