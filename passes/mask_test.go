package passes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"situ/ir"
)

// maskGraphs have scores x [2,8,8] and, but for the constant mask, a mask z [1,8,8]
// that is 1 where a score counts. FAR stands for the mask's number.
var maskGraphs = map[string]string{
	"run time": `%2 = const "one" : f32[] {1}
		%3 = sub %2, %1 : f32[1,8,8]
		%4 = const "far" : f32[] {FAR}
		%5 = mul %3, %4 : f32[1,8,8]
		%6 = add %0, %5 : f32[2,8,8]
		%7 = softmax %6 {axis=2} : f32[2,8,8]`,
	"two sums": `%2 = const "one" : f32[] {1}
		%3 = sub %2, %1 : f32[1,8,8]
		%4 = const "far" : f32[] {FAR}
		%5 = mul %3, %4 : f32[1,8,8]
		%6 = const "positions" : f32[8] {0.5, 0, -0.5, 1, 0, 1, 0, 0}
		%7 = add %5, %6 : f32[1,8,8]
		%8 = reshape %7 {shape=[8,8]} : f32[8,8]
		%9 = add %0, %8 : f32[2,8,8]
		%10 = softmax %9 {axis=2} : f32[2,8,8]`,
	"selection": `%2 = cast %1 : bool[1,8,8]
		%3 = const "far" : f32[] {FAR}
		%4 = where %2, %0, %3 : f32[2,8,8]
		%5 = softmax %4 {axis=2} : f32[2,8,8]`,
	"selected mask": `%2 = cast %1 : bool[1,8,8]
		%3 = const "far" : f32[] {FAR}
		%4 = const "near" : f32[] {0}
		%5 = where %2, %4, %3 : f32[1,8,8]
		%6 = add %0, %5 : f32[2,8,8]
		%7 = softmax %6 {axis=2} : f32[2,8,8]`,
}

// maskInputs draws scores around an offset, and a mask that leaves each row some.
func maskInputs(rng *rand.Rand, offset float64) []*ir.Tensor {
	x, z := make([]float32, 128), make([]float32, 64)
	for i := range x {
		x[i] = float32(offset + 3*rng.NormFloat64())
	}
	for i := range z {
		if i%8 <= i/8 || rng.IntN(4) == 0 {
			z[i] = 1
		}
	}
	return []*ir.Tensor{ir.NewTensor(ir.F32, []int{2, 8, 8}, x), ir.NewTensor(ir.F32, []int{1, 8, 8}, z)}
}

// TestMasks: masked scores get exactly 0, whatever number masks them, and the
// others lose nothing by it.
func TestMasks(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for name, text := range maskGraphs {
		for _, far := range []string{"-10000", "-1e9", "-3.4028235e38", "-Inf"} {
			if far == "-Inf" && !strings.Contains(text, "where") {
				continue // 0 · −∞
			}
			for _, offset := range []float64{0, 20, -20} {
				lines := strings.Split(text, "\n")
				out, _, _ := strings.Cut(strings.TrimSpace(lines[len(lines)-1]), " ")
				g, err := ir.Parse(fmt.Sprintf("graph %q {\n%%0 = input \"x\" : f32[2,8,8]\n%%1 = input \"z\" : f32[1,8,8]\n%s\noutput %s\n}",
					name, strings.ReplaceAll(text, "FAR", far), out), nil)
				if err != nil {
					t.Fatal(err)
				}
				checkMask(t, fmt.Sprintf("%s, %s, scores around %g", name, far, offset), g, maskInputs(rng, offset))
			}
		}
	}
	for _, far := range []float32{-10000, -math.MaxFloat32, float32(math.Inf(-1))} {
		in := maskInputs(rng, 0)
		mask := make([]float32, 64)
		for i, z := range ir.Data[float32](in[1]) {
			if z == 0 {
				mask[i] = far
			}
		}
		g := &ir.Graph{Name: "constant"}
		x := g.AddInput("x", ir.TypeOf(ir.F32, 2, 8, 8))
		g.AddInput("z", ir.TypeOf(ir.F32, 1, 8, 8))
		sum, err := g.Add(ir.Add, "sum", nil, x, g.AddConst("mask", ir.NewTensor(ir.F32, []int{8, 8}, mask), nil))
		if err != nil {
			t.Fatal(err)
		}
		y, err := g.Add(ir.Softmax, "y", &ir.AxisAttr{Axis: 2}, sum)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		checkMask(t, fmt.Sprintf("constant, %g", far), g, in)
	}
}

func checkMask(t *testing.T, name string, g *ir.Graph, in []*ir.Tensor) {
	t.Helper()
	for _, method := range []Method{MinMax, Percentile, MSE} {
		res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}, Method: method}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		got := runGraph(t, res.Graph, in)[0]
		if db := sqnr(got, runGraph(t, g, in)[0]); db < 24 {
			t.Errorf("%s, %s: %.1f dB\n%v", name, method, db, res.Graph)
		}
		z := ir.Data[float32](in[1])
		for i, y := range ir.Data[float32](got) {
			if z[i%64] == 0 && y != 0 {
				t.Errorf("%s, %s: masked element %d is %g\n%v", name, method, i, y, res.Graph)
				return
			}
		}
	}
}

// TestMasksElsewhere: −∞ that more than a softmax can see is an error as ever.
func TestMasksElsewhere(t *testing.T) {
	g := &ir.Graph{Name: "seen"}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, 2))
	sum, err := g.Add(ir.Add, "sum", nil, x, vector(g, "mask", []float32{0, float32(math.Inf(-1))}))
	if err != nil {
		t.Fatal(err)
	}
	y, err := g.Add(ir.Softmax, "y", &ir.AxisAttr{Axis: 1}, sum)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y, sum}
	_, err = Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{row(1, 2)}}})
	if err == nil || !strings.Contains(err.Error(), `constant "mask" holds -Inf`) {
		t.Errorf("error %v, want one that names the constant", err)
	}
}

// TestMaskedRows: a row that is masked as a whole, as that of padding is, takes
// nothing from the others, and its elements have the same share. There may be no
// rows at all.
func TestMaskedRows(t *testing.T) {
	const whole = 3
	rng := rand.New(rand.NewPCG(43, 44))
	for _, far := range []string{"-10000", "-1e9", "-3.4028235e38"} {
		g, err := ir.Parse(fmt.Sprintf("graph \"rows\" {\n%%0 = input \"x\" : f32[2,8,8]\n%%1 = input \"z\" : f32[1,8,8]\n%s\noutput %%5\n}",
			strings.ReplaceAll(maskGraphs["selection"], "FAR", far)), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := maskInputs(rng, 0)
		clear(ir.Data[float32](in[1])[8*whole : 8*whole+8])
		for _, method := range []Method{MinMax, Percentile, MSE} {
			res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}, Method: method}})
			if err != nil {
				t.Fatal(err)
			}
			got := runGraph(t, res.Graph, in)[0]
			if db := sqnr(got, runGraph(t, g, in)[0]); db < 24 {
				t.Errorf("%s, %s: %.1f dB", far, method, db)
			}
			for i, y := range ir.Data[float32](got)[8*whole : 8*whole+8] {
				if y != 1.0/8 {
					t.Errorf("%s, %s: element %d of the masked row is %g", far, method, i, y)
				}
			}
		}
	}
	g, err := ir.Parse("graph \"none\" {\n%0 = input \"x\" : f32[0,8]\n%1 = softmax %0 {axis=1} : f32[0,8]\noutput %1\n}", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{{ir.NewTensor(ir.F32, []int{0, 8}, []float32{})}}}}); err != nil {
		t.Error(err)
	}
}
