package passes

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"situ/ir"
)

// dense returns x·w + b with a relu, w of shape [len(w)/2, 2].
func dense(t *testing.T, w, b []float32) *ir.Graph {
	t.Helper()
	g := &ir.Graph{Name: "dense"}
	k := len(w) / 2
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, k))
	wv := g.AddConst("weights", ir.NewTensor(ir.F32, []int{k, 2}, w), nil)
	bv := g.AddConst("offsets", ir.NewTensor(ir.F32, []int{2}, b), nil)
	y, err := g.Add(ir.MatMul, "layer", nil, x, wv, bv)
	if err != nil {
		t.Fatal(err)
	}
	if y, err = g.Add(ir.Relu, "relu", nil, y); err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	return g
}

func row(v ...float32) []*ir.Tensor {
	return []*ir.Tensor{ir.NewTensor(ir.F32, []int{1, len(v)}, v)}
}

func TestQuantisationErrors(t *testing.T) {
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	good := Quantisation{Inputs: [][]*ir.Tensor{row(1, 2)}}
	with := func(f func(q *Quantisation)) Quantisation { q := good; f(&q); return q }
	for _, tc := range []struct {
		name string
		w, b []float32
		q    Quantisation
		want []string
	}{
		{"nan weight", []float32{1, nan, 2, 3}, []float32{0, 0}, good, []string{"NaN or infinite"}},
		{"infinite bias", []float32{1, 1, 2, 3}, []float32{0, infinite}, good, []string{"NaN or infinite"}},
		{"nan input", []float32{1, 1, 2, 3}, []float32{0, 0}, with(func(q *Quantisation) { q.Inputs = [][]*ir.Tensor{row(1, 2), row(nan, 0)} }),
			[]string{"calibration input 1", `"x"`}},
		{"wrong shape", []float32{1, 1, 2, 3}, []float32{0, 0}, with(func(q *Quantisation) { q.Inputs = [][]*ir.Tensor{row(1, 2, 3)} }),
			[]string{"calibration input 0", `"x"`, "[1 3]"}},
		{"percentile", []float32{1, 1, 2, 3}, []float32{0, 0}, with(func(q *Quantisation) { q.Percentile = 30 }), []string{"percentile 30"}},
		{"bits", []float32{1, 1, 2, 3}, []float32{0, 0}, with(func(q *Quantisation) { q.WeightBits = 5 }), []string{"5 bits"}},
	} {
		_, err := Run(dense(t, tc.w, tc.b), Config{Quant: tc.q})
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q lacks %q", tc.name, err, w)
			}
		}
	}
}

// TestNaNWeightIsNamed: a weight that meets zeros only is found by quantise.
func TestNaNWeightIsNamed(t *testing.T) {
	s := &State{ctx: context.Background(), ranges: make([]Range, 5)}
	g := dense(t, []float32{1, float32(math.NaN()), 2, 3}, []float32{0, 0})
	_, err := quantise(g, s)
	if err == nil || !strings.Contains(err.Error(), `"weights" holds NaN at index 1`) || !strings.Contains(err.Error(), `"layer"`) {
		t.Errorf("error %v, want one that names layer, tensor and index", err)
	}
}

// TestCalibrationNamesConstant: a weight that makes a result NaN is named.
func TestCalibrationNamesConstant(t *testing.T) {
	g := dense(t, []float32{1, float32(math.NaN()), 2, 3}, []float32{0, 0})
	in := ir.Zeros(ir.F32, g.Type(g.Inputs[0]).Shape...)
	_, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{{in}}}})
	if err == nil || !strings.Contains(err.Error(), `constant "weights" holds NaN`) {
		t.Errorf("error %v, want one that names the constant", err)
	}
}

// TestDeadRanges: constant and all-zero values get usable scales.
func TestDeadRanges(t *testing.T) {
	for _, tc := range []struct {
		name    string
		w, b, x []float32
	}{
		{"all zero", []float32{0, 0, 0, 0}, []float32{0, 0}, []float32{0, 0}},
		{"zero weights", []float32{0, 0, 0, 0}, []float32{3, 100}, []float32{1, -1}},
		{"zero input", []float32{1, 2, 3, 4}, []float32{0.5, 7}, []float32{0, 0}},
		{"one dead channel", []float32{0, 2, 0, 4}, []float32{5, 0}, []float32{1, 1}},
		{"tiny weights, large bias", []float32{1e-20, 1, 1e-20, 1}, []float32{1000, 1}, []float32{1, 1}},
		{"huge", []float32{1e30, 1, 1e30, 1}, []float32{0, 1}, []float32{1e6, 1}},
	} {
		g := dense(t, tc.w, tc.b)
		for _, bits := range []int{8, 4} {
			res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{row(tc.x...)}, WeightBits: bits}})
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			want := runGraph(t, g, row(tc.x...))[0]
			if got := runGraph(t, res.Graph, row(tc.x...))[0]; !(relative(got, want) < 0.02) {
				t.Errorf("%s, int%d: got %v, want %v\n%v", tc.name, bits, got.Any(), want.Any(), res.Graph)
			}
		}
	}
}

func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := &histogram{bins: true}
	values := make([]float32, 100000)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	h.add([]float32{40}) // an outlier
	for range 20 {
		h.add(values)
	}
	for i := 0; i < len(values); i += 1000 {
		if !h.add(values[i : i+1000]) {
			t.Fatal("finite values refused")
		}
	}
	near := func(what string, got, want, tol float64) {
		if math.Abs(got-want) > tol {
			t.Errorf("%s is %v, want %v ± %v", what, got, want, tol)
		}
	}
	r := h.find(MinMax, 0)
	near("maximum", r.Hi, 40, 0)
	r = h.find(Percentile, 0.999)
	near("99.9th percentile", r.Hi, 3.09, 0.15)
	near("0.1th percentile", r.Lo, -3.09, 0.15)
	// Between the bulk, which would have the end near 4, and the outlier's pull.
	r = h.find(MSE, 0)
	near("end of least error", r.Hi, 8, 2)
	if h.add([]float32{1, float32(math.Inf(1))}) {
		t.Error("an infinity was accepted")
	}
}

// TestMeanShift: a clear shift is taken whole, one hidden in noise is not taken.
func TestMeanShift(t *testing.T) {
	tensor := func(v ...float32) *ir.Tensor { return ir.NewTensor(ir.F32, []int{len(v) / 2, 2}, v) }
	want := []*ir.Tensor{tensor(1, 0, 3, 0), tensor(5, 0, 7, 0)}
	got := []*ir.Tensor{tensor(0.5, 1, 2.5, 1), tensor(4.5, -1, 6.5, -0.9)}
	shift := meanShift(want, got)
	if shift[0] != 0.5 || shift[1] != 0 {
		t.Errorf("shift is %v, want [0.5 0]", shift)
	}
}
