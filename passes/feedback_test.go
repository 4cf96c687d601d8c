package passes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"situ/ir"
	"situ/ir/eval"
	"situ/ir/irtest"
)

// TestFeedbackRounding: on inputs that move together, spreading the errors gives
// sums with far less error than rounding to nearest.
func TestFeedbackRounding(t *testing.T) {
	const k, n, rows = 24, 8, 200
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, rows*k)
	for r := range rows {
		common := rng.NormFloat64()
		for i := range k {
			x[r*k+i] = float32(common + 0.3*rng.NormFloat64())
		}
	}
	g := &ir.Graph{Name: "fc"}
	in := g.AddInput("x", ir.TypeOf(ir.F32, rows, k))
	w := irtest.Tensor(rng, 1, k, n)
	y, err := g.Add(ir.MatMul, "fc", nil, in, g.AddConst("w", w, nil))
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	q := &quantiser{rewriter: newRewriter(g), raised: newPrecision(g), origin: origins(g), coded: make([]bool, len(g.Values))}
	c := newCorrector(q, [][]*ir.Tensor{{ir.NewTensor(ir.F32, []int{rows, k}, x)}}, false)
	codes := weightCodes(ir.Data[float32](w), w.Shape, 1, 4, func(int) float64 { return 0 })
	nearest := slices.Clone(ir.Data[int8](codes.tensor))
	if err := c.feedback(&g.Ops[0], ir.Data[float32](w), codes.steps(k), 7, ir.Data[int8](codes.tensor)); err != nil {
		t.Fatal(err)
	}
	a := sumError(x, ir.Data[float32](w), nearest, codes.quant.Scale, k, n)
	b := sumError(x, ir.Data[float32](w), ir.Data[int8](codes.tensor), codes.quant.Scale, k, n)
	if !(b < a/2) {
		t.Errorf("squared error of sums is %v, rounding to nearest gives %v", b, a)
	}
}

// sumError returns the squared error of all sums of x·w when w is rounded.
func sumError(x, w []float32, codes []int8, scale []float32, k, n int) float64 {
	total := 0.0
	for r := range len(x) / k {
		for o := range n {
			d := 0.0
			for i := range k {
				d += float64(x[r*k+i]) * (float64(w[i*n+o]) - float64(codes[i*n+o])*float64(scale[o]))
			}
			total += d * d
		}
	}
	return total
}

// TestRowsAreOperands: the rows collected from a convolution's operand, times its
// weights, are its results.
func TestRowsAreOperands(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	g := &ir.Graph{Name: "conv"}
	x := irtest.Tensor(rng, 1, 2, 5, 6, 4)
	w := irtest.Tensor(rng, 1, 6, 3, 2, 2)
	attr := &ir.ConvAttr{Strides: [2]int{2, 1}, Pads: [4]int{1, 0, 1, 2}, Dilations: [2]int{1, 2}, Groups: 2}
	in := g.AddInput("x", x.Type())
	y, err := g.Add(ir.Conv2D, "conv", attr, in, g.AddConst("w", w, nil))
	if err != nil {
		t.Fatal(err)
	}
	op := g.DefOp(y)
	out, err := eval.EvalOp(g, op, []*ir.Tensor{x, w})
	if err != nil {
		t.Fatal(err)
	}
	const k, per = 12, 3 // inputs and outputs of a group
	for group := range 2 {
		rows := appendRows(nil, g, op, x, group, 1<<20)
		if len(rows) != k*out.Numel()/6 {
			t.Fatalf("%d elements collected, want %d", len(rows), k*out.Numel()/6)
		}
		for p := range len(rows) / k {
			for o := group * per; o < (group+1)*per; o++ {
				sum := 0.0
				for i := range k {
					sum += float64(rows[p*k+i]) * float64(ir.Data[float32](w)[o*k+i])
				}
				if got := float64(ir.Data[float32](out)[p*6+o]); math.Abs(got-sum) > 1e-5 {
					t.Fatalf("position %d, channel %d: rows give %v, the convolution %v", p, o, sum, got)
				}
			}
		}
	}
}
