package passes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"situ/ir"
)

// expressions are activations as models spell them, with what they mean. Each
// line is one operator on %0 (x) and earlier results.
var expressions = []struct {
	name  string
	lines string
	f     func(x float64) float64
}{
	{"gelu", `%1 = const "" : f32[] {0.70710677}
		%2 = mul %0, %1 : f32[1,256]
		%3 = erf %2 : f32[1,256]
		%4 = const "" : f32[] {1}
		%5 = add %3, %4 : f32[1,256]
		%6 = mul %0, %5 : f32[1,256]
		%7 = const "" : f32[] {0.5}
		%8 = mul %6, %7 : f32[1,256]`, gelu},
	{"gelu by halves", `%1 = const "" : f32[] {0.5}
		%2 = mul %1, %0 : f32[1,256]
		%3 = const "" : f32[1] {1.4142135}
		%4 = div %0, %3 : f32[1,256]
		%5 = erf %4 : f32[1,256]
		%6 = const "" : f32[1] {1}
		%7 = add %6, %5 : f32[1,256]
		%8 = mul %2, %7 : f32[1,256]`, gelu},
	{"gelu by tanh", `%1 = const "" : f32[] {3}
		%2 = pow %0, %1 : f32[1,256]
		%3 = const "" : f32[] {0.044715}
		%4 = mul %2, %3 : f32[1,256]
		%5 = add %0, %4 : f32[1,256]
		%6 = const "" : f32[] {0.7978846}
		%7 = mul %5, %6 : f32[1,256]
		%8 = tanh %7 : f32[1,256]
		%9 = const "" : f32[] {1}
		%10 = add %8, %9 : f32[1,256]
		%11 = mul %0, %10 : f32[1,256]
		%12 = const "" : f32[] {0.5}
		%13 = mul %11, %12 : f32[1,256]`, func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}},
	{"gelu by tanh and products", `%1 = mul %0, %0 : f32[1,256]
		%2 = mul %1, %0 : f32[1,256]
		%3 = const "" : f32[] {0.044715}
		%4 = mul %3, %2 : f32[1,256]
		%5 = add %4, %0 : f32[1,256]
		%6 = const "" : f32[] {0.7978846}
		%7 = mul %6, %5 : f32[1,256]
		%8 = tanh %7 : f32[1,256]
		%9 = const "" : f32[] {1}
		%10 = add %9, %8 : f32[1,256]
		%11 = const "" : f32[] {0.5}
		%12 = mul %0, %11 : f32[1,256]
		%13 = mul %12, %10 : f32[1,256]`, func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}},
	{"quick gelu", `%1 = const "" : f32[] {1.702}
		%2 = mul %0, %1 : f32[1,256]
		%3 = sigmoid %2 : f32[1,256]
		%4 = mul %0, %3 : f32[1,256]`, func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }},
	{"silu", `%1 = sigmoid %0 : f32[1,256]
		%2 = mul %0, %1 : f32[1,256]`, func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
	{"silu by exp", `%1 = neg %0 : f32[1,256]
		%2 = exp %1 : f32[1,256]
		%3 = const "" : f32[] {1}
		%4 = add %2, %3 : f32[1,256]
		%5 = div %0, %4 : f32[1,256]`, func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
	{"hardswish", `%1 = const "" : f32[] {3}
		%2 = add %0, %1 : f32[1,256]
		%3 = clip %2 {lo=0, hi=6} : f32[1,256]
		%4 = mul %0, %3 : f32[1,256]
		%5 = const "" : f32[] {6}
		%6 = div %4, %5 : f32[1,256]`, func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }},
	{"mish", `%1 = softplus %0 : f32[1,256]
		%2 = tanh %1 : f32[1,256]
		%3 = mul %0, %2 : f32[1,256]`, func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }},
	{"squared relu", `%1 = relu %0 : f32[1,256]
		%2 = mul %1, %1 : f32[1,256]`, func(x float64) float64 { return max(x, 0) * max(x, 0) }},
}

func gelu(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }

// tableError bounds how far a table may be from the real function, in steps of
// the result: one rounding, and what float32 loses on the way to it.
const tableError = 0.5 + 1e-3

// TestTables: an activation becomes one table, and every entry is the function of
// its code rounded.
func TestTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, e := range expressions {
		for trial := range 20 {
			width := math.Exp(3*rng.Float64() - 1) // from 0.4 to 7
			lo, hi := -width*rng.Float64(), width
			if trial%2 == 1 {
				lo, hi = -hi, -lo
			}
			x := make([]float32, 256)
			for i := range x {
				x[i] = float32(lo + (hi-lo)*float64(i)/255)
			}
			lines := strings.Split(e.lines, "\n")
			out, _, _ := strings.Cut(strings.TrimSpace(lines[len(lines)-1]), " ")
			g, err := ir.Parse(fmt.Sprintf("graph %q {\n%%0 = input \"x\" : f32[1,256]\n%s\noutput %s\n}", e.name, e.lines, out), nil)
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			in := []*ir.Tensor{ir.NewTensor(ir.F32, []int{1, 256}, x)}
			res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}}})
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			checkTable(t, e.name, res.Graph, e.f)
		}
	}
}

// checkTable finds the only table of a graph that is quantize, table, dequantize.
func checkTable(t *testing.T, name string, g *ir.Graph, f func(float64) float64) {
	t.Helper()
	if len(g.Ops) != 3 || g.Ops[1].Kind != ir.LUT {
		t.Fatalf("%s is not one table:\n%v", name, g)
	}
	op := &g.Ops[1]
	xt, yt := g.Type(op.In[0]), g.Type(op.Out)
	first, _ := xt.DType.IntRange()
	lo, hi := yt.DType.IntRange()
	for i, c := range integers(g.Value(op.In[1]).Const) {
		x := realOf(int64(i)+first, xt)
		want := f(x)/float64(yt.Quant.Scale[0]) + float64(yt.Quant.Zero[0])
		want = min(max(want, float64(lo)), float64(hi))
		if d := math.Abs(float64(c) - want); !(d <= tableError) {
			t.Errorf("%s(%g) is code %d, want %g: %g steps off", name, x, c, want, d)
		}
	}
}
