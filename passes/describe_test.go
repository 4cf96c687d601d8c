package passes

import (
	"context"
	"math"
	"testing"

	"situ/ir"
	"situ/ir/eval"
)

// TestCodedIO checks that a graph with codes at its ends computes, on the codes of
// an input, the codes of the graph with float32 ends.
func TestCodedIO(t *testing.T) {
	in := row(-1, 0.5, 2)
	run := func(coded bool) *ir.Graph {
		g := dense(t, []float32{1, -2, 0.5, 1, -1, 0.25}, []float32{0.1, -0.2})
		res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}, CodedIO: coded}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Graph
	}
	output := func(g *ir.Graph, in *ir.Tensor) *ir.Tensor {
		e, err := eval.New(g)
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.Run(context.Background(), []*ir.Tensor{in}, eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	plain, coded := run(false), run(true)
	x, y := coded.Type(coded.Inputs[0]), coded.Type(coded.Outputs[0])
	if !isCode8(x) || !isCode8(y) {
		t.Fatalf("input %s, output %s: not codes", x, y)
	}
	codes := ir.Zeros(ir.I8, x.Shape...)
	for i, v := range ir.Data[float32](in[0]) {
		ir.Data[int8](codes)[i] = int8(codeOf(float64(v), x))
	}
	want := ir.Data[float32](output(plain, in[0]))
	for i, c := range ir.Data[int8](output(coded, codes)) {
		if got := float32(int32(c)-y.Quant.Zero[0]) * y.Quant.Scale[0]; got != want[i] {
			t.Errorf("output %d is %v, want %v", i, got, want[i])
		}
	}
}

// TestDescribed takes a graph with described weights through all passes: it must
// have the operators and types of one with weights, and every product codes whose
// scales hold the largest of that many normal values.
func TestDescribed(t *testing.T) {
	const k, n, std = 64, 4, 0.25
	build := func(described bool) *ir.Graph {
		g := &ir.Graph{Name: "described"}
		x := g.AddInput("x", ir.TypeOf(ir.F32, 2, k))
		w := ir.Describe(ir.F32, std, k, n)
		if !described {
			w = ir.Zeros(ir.F32, k, n)
			for i := range ir.Data[float32](w) {
				ir.Data[float32](w)[i] = std * float32(math.Sin(float64(i)))
			}
		}
		// Turned twice, and shown under another shape: movements of constants fold.
		wv := g.AddConst("w", w, nil)
		turn := &ir.PermAttr{Perm: []int{1, 0}}
		for range 2 {
			var err error
			if wv, err = g.Add(ir.Transpose, "turn", turn, wv); err != nil {
				t.Fatal(err)
			}
		}
		b := g.AddConst("b", ir.NewTensor(ir.F32, []int{n}, []float32{1, 2, 3, 4}), nil)
		y, err := g.Add(ir.MatMul, "product", nil, x, wv)
		if err == nil {
			y, err = g.Add(ir.Add, "bias", nil, y, b)
		}
		if err == nil {
			y, err = g.Add(ir.Relu, "relu", nil, y)
		}
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		return g
	}
	for _, f := range []struct {
		bits, blocks int     // blocks of a channel
		least        float64 // of what codes hold, over the deviation
	}{{8, 0, 2}, {4, 0, 2}, {8, 2, 1.3}, {4, 2, 1.3}} {
		bits := f.bits
		var kinds [2][]string
		for i := range kinds {
			q := Quantisation{WeightBits: bits, Blocks: f.blocks > 0}
			if i == 0 {
				q.Inputs = [][]*ir.Tensor{{ir.Zeros(ir.F32, 2, k)}}
			}
			res, err := Run(build(i == 1), Config{Quant: q})
			if err != nil {
				t.Fatal(err)
			}
			for j := range res.Graph.Ops {
				op := &res.Graph.Ops[j]
				kinds[i] = append(kinds[i], op.Kind.String())
				if i == 0 || op.Kind != ir.MatMul {
					continue
				}
				w := res.Graph.Type(op.In[1])
				if w.DType.Bits() != bits || !res.Graph.IsDescribed(op.In[1]) {
					t.Errorf("weights are %s", w)
				}
				_, most := w.DType.IntRange()
				if len(w.Quant.Shift) != n*f.blocks {
					t.Errorf("weights are %s, want %d blocks a channel", w, f.blocks)
				}
				if top := math.Ldexp(float64(w.Quant.Scale[0])*float64(most), int(w.Quant.ShiftOf(0, 0, k))); top < f.least*std || top > 4*std {
					t.Errorf("%d bits hold up to %g; %d normal values of deviation %g reach about %g", bits, top, k, std, std*math.Sqrt(2*math.Log(k)))
				}
			}
		}
		if len(kinds[0]) == 0 || len(kinds[0]) != len(kinds[1]) {
			t.Errorf("operators %v with weights, %v without", kinds[0], kinds[1])
		}
	}
}
