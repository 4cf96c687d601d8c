package passes

import (
	"math"
	"math/rand/v2"
	"testing"

	"situ/ir"
	"situ/ir/irtest"
)

// uneven is a network whose first product makes channels of very different range,
// which the second, a depthwise convolution, brings back to one: 8 bits for all
// channels leave little of the small ones.
func uneven(t *testing.T) (*ir.Graph, [][]*ir.Tensor) {
	t.Helper()
	const c = 8
	rng := rand.New(rand.NewPCG(7, 8))
	g := &ir.Graph{Name: "uneven"}
	add := func(kind ir.OpKind, name string, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
		id, err := g.Add(kind, name, attr, in...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	conv := func(name string, x ir.ValueID, groups, size int, gain func(o int) float64) ir.ValueID {
		w := irtest.Tensor(rng, 1, c, size, size, c/groups)
		data := ir.Data[float32](w)
		for i := range data {
			data[i] *= float32(gain(i / (len(data) / c)))
		}
		p := size / 2
		return add(ir.Conv2D, name, &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Pads: [4]int{p, p, p, p}, Groups: groups},
			x, g.AddConst(name+"/w", w, nil))
	}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, 12, 12, c))
	y := add(ir.Sigmoid, "gate", nil, x)
	y = conv("spread", y, 1, 1, func(o int) float64 { return math.Exp2(float64(o)) })
	y = add(ir.Elu, "bend", &ir.AlphaBetaAttr{Alpha: 1}, y) // channels cannot be equalised
	y = add(ir.MaxPool, "pool", &ir.PoolAttr{Kernel: [2]int{3, 3}, Strides: [2]int{1, 1}, Pads: [4]int{1, 1, 1, 1}, Dilations: [2]int{1, 1}}, y)
	y = conv("level", y, c, 3, func(o int) float64 { return math.Exp2(-float64(o)) })
	g.Outputs = []ir.ValueID{conv("mix", y, 1, 1, func(int) float64 { return 1 })}
	var inputs [][]*ir.Tensor
	for range 2 {
		inputs = append(inputs, []*ir.Tensor{irtest.Tensor(rng, 2, 1, 12, 12, c)})
	}
	return g, inputs
}

// db runs a quantised graph and returns the ratio of its outputs to the float
// graph's, over all inputs.
func db(t *testing.T, g, fixed *ir.Graph, inputs [][]*ir.Tensor) float64 {
	t.Helper()
	var n noise
	for _, in := range inputs {
		n.add(runGraph(t, g, in)[0], runGraph(t, fixed, in)[0])
	}
	return n.db()
}

// TestReach: without higher precision the network loses much; asked for a ratio it
// reaches it, by the layer at fault, and asked for one that it has it stays as it is.
func TestReach(t *testing.T) {
	g, inputs := uneven(t)
	run := func(q Quantisation) (*Result, float64) {
		q.Inputs = inputs
		res, err := Run(g, Config{Quant: q})
		if err != nil {
			t.Fatal(err)
		}
		return res, db(t, g, res.Graph, inputs)
	}
	plain, low := run(Quantisation{})
	if len(plain.Raised) != 0 {
		t.Errorf("%v have higher precision, which nothing asks for", plain.Raised)
	}
	if easy, _ := run(Quantisation{MinSQNR: low - 1}); len(easy.Raised) != 0 {
		t.Errorf("%v have higher precision for %.1f dB, of %.1f there are without", easy.Raised, low-1, low)
	}
	want := low + 6
	res, high := run(Quantisation{MinSQNR: want})
	t.Logf("%.1f dB in int8, %.1f dB with %v", low, high, res.Raised)
	if high < want {
		t.Errorf("%.1f dB, want %.1f", high, want)
	}
	if len(res.Raised) == 0 || res.Raised[0].Node != "level" || res.Raised[0].What != RaisedOperand {
		t.Errorf("%v have higher precision, want conv2d \"level\" first", res.Raised)
	}
}

// TestWithin: what is added stays within the share, all of it brings the network
// close to float, and the layers named are those that differ.
func TestWithin(t *testing.T) {
	g, inputs := uneven(t)
	var macs, bytes int64
	for i := range g.Ops {
		if op := &g.Ops[i]; op.Kind == ir.Conv2D {
			macs += Work(g, op)
			bytes += int64(g.Type(op.In[1]).Numel()) // more than there are, with 4 bits
		}
	}
	for _, bits := range []int{8, 4} {
		last := math.Inf(-1)
		for _, share := range []float64{0, 0.2, 0.6, 1} {
			res, err := Run(g, Config{Quant: Quantisation{Inputs: inputs, WeightBits: bits, Mixed: share}})
			if err != nil {
				t.Fatal(err)
			}
			var addedMACs, addedBytes int64
			parts := 0
			for _, r := range res.Raised {
				addedMACs, addedBytes = addedMACs+r.MACs, addedBytes+r.Bytes
				if r.What == RaisedOperand {
					parts++
				}
			}
			if float64(addedMACs) > share*float64(macs) || float64(addedBytes) > share*float64(bytes) {
				t.Errorf("int%d, share %v: %d multiply-accumulates of %d and %d bytes of %d are added", bits, share, addedMACs, macs, addedBytes, bytes)
			}
			convs := 0
			for i := range res.Graph.Ops {
				if res.Graph.Ops[i].Kind == ir.Conv2D {
					convs++
				}
			}
			if convs != 3+parts {
				t.Errorf("int%d, share %v: %d convolutions, want 3 and one for each of %d operands", bits, share, convs, parts)
			}
			now := db(t, g, res.Graph, inputs)
			t.Logf("int%d, share %v: %.1f dB, %d raised", bits, share, now, len(res.Raised))
			if now < last-1 {
				t.Errorf("int%d, share %v: %.1f dB, less than the %.1f of a smaller share", bits, share, now, last)
			}
			last = max(last, now)
		}
		if bits == 8 && last < 40 {
			t.Errorf("%.1f dB with all operands in 16 bits", last)
		}
	}
}

// TestTwoParts: an operand in two parts is rounded to about 1/254 of the step of
// one part.
func TestTwoParts(t *testing.T) {
	g, inputs := uneven(t)
	q, _, err := writePairs(g, &State{ctx: t.Context(), quant: Quantisation{Inputs: inputs}, ranges: calibrated(t, g, inputs)}, 8,
		chooser{g: g}.raise([]candidate{{Raised{What: RaisedOperand}, g.Outputs[0]}}), false)
	if err != nil {
		t.Fatal(err)
	}
	op := g.DefOp(g.Outputs[0])
	r := q.ranges[op.In[0]]
	x := ir.Zeros(ir.F32, g.Type(op.In[0]).Shape...)
	data := ir.Data[float32](x)
	for i := range data {
		data[i] = float32(r.Lo + (r.Hi-r.Lo)*float64(i)/float64(len(data)-1))
	}
	step := (r.Hi - r.Lo) / 255
	for i, v := range ir.Data[float32](q.parts(op, 0, x)) {
		if d := math.Abs(float64(v - data[i])); d > 0.51*step/restSteps+1e-6*math.Abs(float64(v)) {
			t.Fatalf("%v becomes %v, %.3g steps of 8 bits off", data[i], v, d/step)
		}
	}
}

// calibrated returns the ranges of a graph's values.
func calibrated(t *testing.T, g *ir.Graph, inputs [][]*ir.Tensor) []Range {
	t.Helper()
	s := &State{ctx: t.Context(), quant: Quantisation{Inputs: inputs}}
	if _, err := calibrate(g, s); err != nil {
		t.Fatal(err)
	}
	return s.ranges
}
