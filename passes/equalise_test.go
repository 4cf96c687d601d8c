package passes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"situ/ir"
	"situ/ir/irtest"
)

// TestEqualise: a network whose channels differ much in range means the same to the
// last bit, and loses less in 8 bits.
func TestEqualise(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	g := &ir.Graph{Name: "unequal"}
	add := func(kind ir.OpKind, name string, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
		id, err := g.Add(kind, name, attr, in...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	const c = 8
	conv := func(name string, x ir.ValueID, out, groups, size int, gain func(o, i int) float64) ir.ValueID {
		w := irtest.Tensor(rng, 1, out, size, size, c/groups)
		b := irtest.Tensor(rng, 0.1, out)
		for i, data := 0, ir.Data[float32](w); i < len(data); i++ {
			data[i] *= float32(gain(i/(len(data)/out), i%(c/groups)))
		}
		p := size / 2
		return add(ir.Conv2D, name, &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Pads: [4]int{p, p, p, p}, Groups: groups},
			x, g.AddConst(name+"/w", w, nil), g.AddConst(name+"/b", b, nil))
	}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, 10, 10, c))
	one := func(int, int) float64 { return 1 }
	y := conv("spread", x, c, 1, 1, func(o, _ int) float64 { return math.Exp2(float64(o)) })
	y = add(ir.LeakyRelu, "leaky", &ir.AlphaBetaAttr{Alpha: 0.1}, y)
	y = add(ir.MaxPool, "pool", &ir.PoolAttr{Kernel: [2]int{2, 2}, Strides: [2]int{2, 2}, Dilations: [2]int{1, 1}}, y)
	// Two readers, each by channel and by all of them.
	a := conv("depthwise", y, c, c, 3, func(o, _ int) float64 { return math.Exp2(-float64(o)) })
	b := conv("pointwise", y, c, 1, 1, func(_, i int) float64 { return math.Exp2(-float64(i)) })
	mean := add(ir.ReduceMean, "mean", &ir.ReduceAttr{Axes: []int{1, 2}}, conv("last", a, c, 1, 1, one))
	g.Outputs = []ir.ValueID{b, add(ir.MatMul, "fc", nil, mean, g.AddConst("fc/w", irtest.Tensor(rng, 1, c, 3), nil))}
	var inputs [][]*ir.Tensor
	for range 3 {
		inputs = append(inputs, []*ir.Tensor{irtest.Tensor(rng, 1, 1, 10, 10, c)})
	}
	res, err := Run(g, Config{Quant: Quantisation{Inputs: inputs}, StopAfter: "equalise"})
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i := range res.Graph.Ops {
		op := &res.Graph.Ops[i]
		if op.Kind == ir.Conv2D && !slices.Equal(floats(res.Graph, op.In[1]), weightsOf(g, op.Name)) {
			changed++
		}
	}
	if changed != 4 {
		t.Errorf("the weights of %d convolutions have changed, want those of all 4", changed)
	}
	for _, in := range inputs {
		want, got := runGraph(t, g, in), runGraph(t, res.Graph, in)
		for o := range want {
			if !slices.Equal(ir.Data[float32](want[o]), ir.Data[float32](got[o])) {
				t.Errorf("output %d: %v, want %v", o, ir.Data[float32](got[o]), ir.Data[float32](want[o]))
			}
		}
	}
	lost := map[bool]float64{}
	for _, on := range []bool{false, true} {
		cfg := Config{Quant: Quantisation{Inputs: inputs}}
		if !on {
			cfg.Disable = []string{"equalise"}
		}
		res, err := Run(g, cfg)
		if err != nil {
			t.Fatal(err)
		}
		lost[on] = db(t, g, res.Graph, inputs)
	}
	t.Logf("%.1f dB without, %.1f dB with", lost[false], lost[true])
	if lost[true] < lost[false]+6 {
		t.Errorf("%.1f dB with channels alike, %.1f dB without, want 6 dB more", lost[true], lost[false])
	}
}

// weightsOf returns the weights of a graph's operator of a name.
func weightsOf(g *ir.Graph, name string) []float32 {
	for i := range g.Ops {
		if g.Ops[i].Name == name {
			return floats(g, g.Ops[i].In[1])
		}
	}
	return nil
}

// TestEqualiseLeaves: what is not homogeneous, leaves the graph, or has channels
// alike stays as it is.
func TestEqualiseLeaves(t *testing.T) {
	for _, tt := range []struct {
		name string
		gain float64
		mid  func(g *ir.Graph, y ir.ValueID) (ir.ValueID, error)
		out  bool // the value between is an output too
	}{
		{"sigmoid", 100, func(g *ir.Graph, y ir.ValueID) (ir.ValueID, error) { return g.Add(ir.Sigmoid, "s", nil, y) }, false},
		{"relu6", 100, func(g *ir.Graph, y ir.ValueID) (ir.ValueID, error) {
			return g.Add(ir.Clip, "six", &ir.ClipAttr{Lo: 0, Hi: 6}, y)
		}, false},
		{"output", 100, func(_ *ir.Graph, y ir.ValueID) (ir.ValueID, error) { return y, nil }, true},
		{"alike", 1, func(_ *ir.Graph, y ir.ValueID) (ir.ValueID, error) { return y, nil }, false},
	} {
		g := &ir.Graph{Name: tt.name}
		x := g.AddInput("x", ir.TypeOf(ir.F32, 4, 2))
		y, err := g.Add(ir.MatMul, "a", nil, x, g.AddConst("a/w", ir.NewTensor(ir.F32, []int{2, 2}, []float32{1, float32(tt.gain), 1, -float32(tt.gain)}), nil))
		if err != nil {
			t.Fatal(err)
		}
		if y, err = tt.mid(g, y); err != nil {
			t.Fatal(err)
		}
		z, err := g.Add(ir.MatMul, "b", nil, y, g.AddConst("b/w", ir.NewTensor(ir.F32, []int{2, 2}, []float32{1, 1, 1, -1}), nil))
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{z}
		if tt.out {
			g.Outputs = append(g.Outputs, y)
		}
		in := []*ir.Tensor{ir.NewTensor(ir.F32, []int{4, 2}, []float32{1, 2, 1, -2, -1, 2, 2, 1})}
		res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}}, StopAfter: "equalise"})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if !slices.Equal(weightsOf(res.Graph, name), weightsOf(g, name)) {
				t.Errorf("%s: weights of %q have changed", tt.name, name)
			}
		}
	}
}
