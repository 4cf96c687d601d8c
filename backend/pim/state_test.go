package pim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/functional"
	"situ/ir"
	"situ/ir/eval"
)

// sameSteps runs steps of a program that keeps states, on inputs of its own in each
// step, and the evaluator with the states passed from step to step, and compares all
// outputs that are no state. It does so twice on one machine: what is begun anew holds
// nothing of what was before.
func sameSteps(t fataler, g *ir.Graph, c *arch.Chip, p *isa.Program, states []ir.State, steps int, input func(step, i int) *ir.Tensor) {
	t.Helper()
	if err := isa.Validate(p); err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	m, err := functional.New(p, c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	e, err := eval.New(g)
	if err != nil {
		t.Fatalf("%v", err)
	}
	stateOf := map[int]ir.State{}
	isState := map[int]bool{}
	for _, s := range states {
		stateOf[s.In] = s
		isState[s.Out] = true
	}
	for range 2 {
		in := make([]*ir.Tensor, len(g.Inputs))
		for step := range steps {
			raw := make([][]byte, len(in))
			for i := range in {
				if _, kept := stateOf[i]; !kept || step == 0 {
					in[i] = input(step, i)
					raw[i] = tensorBytes(in[i])
				}
			}
			want, err := e.Run(context.Background(), in, eval.Options{})
			if err != nil {
				t.Fatalf("%v", err)
			}
			got, err := m.Run(context.Background(), raw)
			if err != nil {
				t.Fatalf("step %d on %s, %d clusters: %v\n%v", step, c.Name, len(p.Main), err, g)
			}
			k := 0
			for i, y := range want {
				if isState[i] {
					continue
				}
				if w := tensorBytes(y); firstDifference(got[k], w) >= 0 {
					at := firstDifference(got[k], w)
					t.Fatalf("step %d on %s, %d clusters: output %d differs at byte %d of %d\ngot  % x\nwant % x\n%v\n%s", step, c.Name, len(p.Main), i, at, len(w), clip(got[k], at), clip(w, at), g, listing(p))
				}
				k++
			}
			for i, s := range stateOf {
				in[i] = s.Next(in[i], want[s.Out], step)
			}
		}
	}
}

// decoder returns a decoding step with a cache of past tokens, to which seq new ones
// come: as exporters write it, present = concat(past, new), or with the parts apart.
func decoder(t testing.TB, heads, past, seq, dim int, apart bool) (*ir.Graph, []ir.State) {
	t.Helper()
	g := &ir.Graph{Name: "decoder"}
	code := func(scale float32, zero int32, shape ...int) ir.Type {
		return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(scale, zero))
	}
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	q := g.AddInput("q", code(0.02, 3, 1, heads, seq, dim))
	turn := func(name string, x ir.ValueID) ir.ValueID {
		return must(g.Add(ir.Transpose, name, &ir.PermAttr{Perm: []int{0, 1, 3, 2}}, x))
	}
	scores := func(name string, n int, k ir.ValueID) ir.ValueID {
		return must(g.AddTyped(ir.MatMul, name, nil, code(0.05, 3, 1, heads, seq, n), q, k))
	}
	mixed := func(name string, p, v ir.ValueID) ir.ValueID {
		return must(g.AddTyped(ir.MatMul, name, nil, code(0.01, -5, 1, heads, seq, dim), p, v))
	}
	shares := func(x ir.ValueID) ir.ValueID {
		return must(g.AddTyped(ir.Softmax, "shares", &ir.AxisAttr{Axis: 3}, code(1.0/256, -128, 1, heads, seq, past+seq), x))
	}
	var old, fresh, present [2]ir.ValueID
	for i, name := range []string{"key", "value"} {
		old[i] = g.AddInput("past_key_values.0."+name, code(0.02, int32(i), 1, heads, past, dim))
		fresh[i] = g.AddInput("new_"+name, code(0.02, int32(i), 1, heads, seq, dim))
		// What is new is computed, not given.
		fresh[i] = must(g.AddTyped(ir.Add, "computed_"+name, nil, code(0.02, int32(i), 1, heads, seq, dim), fresh[i], q))
		if !apart {
			present[i] = must(g.Add(ir.Concat, "present.0."+name, &ir.AxisAttr{Axis: 2}, old[i], fresh[i]))
		}
	}
	var y ir.ValueID
	if apart {
		s := must(g.Add(ir.Concat, "scores", &ir.AxisAttr{Axis: 3}, scores("old", past, turn("turn old", old[0])), scores("new", seq, turn("turn new", fresh[0]))))
		p := shares(s)
		part := func(name string, from, n int) ir.ValueID {
			return must(g.Add(ir.Slice, name, &ir.SliceAttr{Starts: []int{0, 0, 0, from}, Steps: []int{1, 1, 1, 1}, Sizes: []int{1, heads, seq, n}}, p))
		}
		y = must(g.AddTyped(ir.Add, "y", nil, code(0.01, -5, 1, heads, seq, dim), mixed("mixed old", part("shares old", 0, past), old[1]), mixed("mixed new", part("shares new", past, seq), fresh[1])))
		present = fresh
	} else {
		y = mixed("y", shares(scores("scores", past+seq, turn("turn", present[0]))), present[1])
	}
	g.Outputs = []ir.ValueID{present[0], y, present[1]}
	for i, name := range []string{"key", "value"} {
		g.Value(present[i]).Name = "present.0." + name
	}
	states := ir.StatesByName(g)
	if len(states) != 2 || states[0].Rows != past || states[0].New != seq || (states[0].From == past) == apart {
		t.Fatalf("states %+v of\n%v", states, g)
	}
	return g, states
}

// codesOf returns inputs for sameSteps.
func codesOf(g *ir.Graph) func(step, i int) *ir.Tensor {
	return func(step, i int) *ir.Tensor {
		return randomCodes(rand.New(rand.NewPCG(uint64(step), uint64(i))), g.Type(g.Inputs[i]))
	}
}

// TestDecodeSteps: steps with the cache kept in the chip, in its scratchpads or spilled
// to DRAM, give the bits that the evaluator gives with the cache passed from step to
// step, past the point where the oldest entries are replaced. In the scratchpads it
// costs no DRAM traffic; spilled it is read once, and what is new written.
func TestDecodeSteps(t *testing.T) {
	const heads, past, seq, dim = 4, 24, 2, 16
	for _, apart := range []bool{false, true} {
		g, states := decoder(t, heads, past, seq, dim, apart)
		for _, tt := range []struct {
			scratchpad int64
			clusters   int
			spilled    bool
		}{{256 << 10, 1, false}, {256 << 10, 3, false}, {256 << 10, 4, false}, {256 << 10, 6, false}, {3 << 10, 1, true}, {3 << 9, 4, true}, {3 << 9, 6, true}} {
			t.Run(fmt.Sprintf("apart=%v/%d clusters/%d", apart, tt.clusters, tt.scratchpad), func(t *testing.T) {
				c := manyChip()
				c.Scratchpad.Bytes = fig(float64(tt.scratchpad))
				opt := Options{Clusters: tt.clusters, States: states}
				p, err := Compile(g, c, opt)
				if err != nil {
					t.Fatal(err)
				}
				sameSteps(t, g, c, p, states, past/seq+3, codesOf(g))
				planner, err := NewPlanner(g, c, states...)
				if err != nil {
					t.Fatal(err)
				}
				if q, err := planner.Program(c, opt); err != nil || !reflect.DeepEqual(q.Main, p.Main) || !reflect.DeepEqual(q.Init, p.Init) || !reflect.DeepEqual(q.States, p.States) {
					t.Errorf("a Planner's program is another one (%v)", err)
				}
				kept, spilled := int64(0), int64(0)
				for _, s := range p.States {
					if s.Bytes != heads*past*dim || s.New != heads*seq*dim {
						t.Errorf("state %+v", s)
					}
					if kept += s.Bytes; s.Spilled {
						spilled += s.Bytes
					}
				}
				if (spilled > 0) != tt.spilled {
					t.Errorf("%d of %d bytes of state are spilled", spilled, kept)
				}
				moved, least := dramTraffic(c, p.Main), ioBytes(p)-kept
				if !tt.spilled && moved != least || tt.spilled && moved < least+spilled {
					t.Errorf("a step moves %d bytes of DRAM, inputs and outputs have %d, %d of state are spilled", moved, least, spilled)
				}
				t.Logf("a step moves %d bytes of DRAM; inputs and outputs have %d, %d of %d bytes of state are spilled", moved, least, spilled, kept)
			})
		}
	}
}

// recurrent returns a step of a recurrence in codes and float32: a hidden state that is
// added to, a delay line of two states that hand on what they hold, one of which is a
// result as well, and a sum in float32.
func recurrent(t testing.TB) (*ir.Graph, []ir.State) {
	t.Helper()
	g := &ir.Graph{Name: "recurrent"}
	code := ir.TypeOf(ir.I8, 1, 3, 40).WithQuant(ir.PerTensor(0.05, -4))
	float := ir.TypeOf(ir.F32, 1, 3, 40)
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	x, h := g.AddInput("x", code), g.AddInput("h", code)
	first, second, sum := g.AddInput("first", code), g.AddInput("second", code), g.AddInput("sum", float)
	coded := g.AddInput("coded", float) // kept as the codes that it is read by
	next := must(g.AddTyped(ir.Add, "h next", nil, code, h, x))
	delayed := must(g.AddTyped(ir.Mul, "delayed", nil, code, next, second))
	real := must(g.Add(ir.Dequantize, "real", nil, delayed))
	total := must(g.Add(ir.Add, "total", &ir.BinaryAttr{}, sum, real))
	codes := must(g.AddTyped(ir.Quantize, "codes", nil, code, coded))
	more := must(g.AddTyped(ir.Add, "more", nil, code, codes, x))
	plain := must(g.Add(ir.Dequantize, "plain", nil, more))
	g.Outputs = []ir.ValueID{next, x, first, total, plain, delayed, second}
	var states []ir.State
	for _, p := range [][2]int{{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}} {
		s, err := ir.StateOf(g, p[0], p[1])
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, s)
	}
	return g, states
}

// TestRecurrentSteps: states that are replaced as a whole, in codes and in float32, one
// of which becomes what another held before.
func TestRecurrentSteps(t *testing.T) {
	g, states := recurrent(t)
	input := func(step, i int) *ir.Tensor {
		r := rand.New(rand.NewPCG(uint64(step), uint64(i)))
		if ty := g.Type(g.Inputs[i]); ty.DType == ir.I8 {
			return randomCodes(r, ty)
		}
		x := ir.Zeros(ir.F32, 1, 3, 40)
		for k := range ir.Data[float32](x) {
			ir.Data[float32](x)[k] = float32(r.NormFloat64())
		}
		return x
	}
	for _, clusters := range []int{1, 2, 3, 6} {
		for _, scratchpad := range []float64{256 << 10, 2 << 10, 1 << 10} {
			c := manyChip()
			c.Scratchpad.Bytes = fig(scratchpad)
			p, err := Compile(g, c, Options{Clusters: clusters, States: states})
			if err != nil {
				t.Fatal(err)
			}
			sameSteps(t, g, c, p, states, 5, input)
			for _, s := range p.States {
				if want := map[bool]int64{true: 4 * 120, false: 120}[s.Output == "total"]; s.Bytes != want || s.New != want {
					t.Errorf("state %+v, want %d bytes", s, want)
				}
			}
		}
	}
}

// TestStateCorners: states whose outputs are other states' inputs, their own, a value that
// is returned as well or that is all there is, and one that nothing reads.
func TestStateCorners(t *testing.T) {
	code := ir.TypeOf(ir.I8, 1, 3, 40).WithQuant(ir.PerTensor(0.05, -4))
	for _, tt := range []struct {
		name    string
		outputs func(x, h, k, sum, more ir.ValueID) []ir.ValueID
		pairs   [][2]int // of inputs h, 1, and k, 2, and outputs
	}{
		{"itself", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{more, h} }, [][2]int{{1, 1}}},
		{"exchanged", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{more, k, h} }, [][2]int{{1, 1}, {2, 2}}},
		{"returned as well", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{sum, sum, more} }, [][2]int{{1, 1}}},
		{"both one value", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{more, sum, sum} }, [][2]int{{1, 1}, {2, 2}}},
		{"an input", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{more, x} }, [][2]int{{1, 1}}},
		{"alone", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{sum} }, [][2]int{{1, 0}}},
		{"not read", func(x, h, k, sum, more ir.ValueID) []ir.ValueID { return []ir.ValueID{sum, more} }, [][2]int{{3, 1}}},
	} {
		g := &ir.Graph{Name: tt.name}
		x, h, k := g.AddInput("x", code), g.AddInput("h", code), g.AddInput("k", code)
		g.AddInput("unread", code)
		sum, err := g.AddTyped(ir.Add, "sum", nil, code, x, h)
		if err != nil {
			t.Fatal(err)
		}
		more, err := g.AddTyped(ir.Mul, "more", nil, code, sum, k)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = tt.outputs(x, h, k, sum, more)
		var states []ir.State
		for _, p := range tt.pairs {
			s, err := ir.StateOf(g, p[0], p[1])
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, s)
		}
		for _, clusters := range []int{1, 2, 6} {
			for _, scratchpad := range []float64{256 << 10, 1 << 10} {
				c := manyChip()
				c.Scratchpad.Bytes = fig(scratchpad)
				p, err := Compile(g, c, Options{Clusters: clusters, States: states})
				if err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
				sameSteps(t, g, c, p, states, 4, codesOf(g))
			}
		}
	}
}

// TestStateErrors: a state that grows along a dimension of more than the last four is
// refused with what to do.
func TestStateErrors(t *testing.T) {
	g := &ir.Graph{Name: "deep"}
	past, x := g.AddInput("past", ir.TypeOf(ir.F32, 1, 6, 2, 2, 2)), g.AddInput("x", ir.TypeOf(ir.F32, 1, 2, 2, 2, 2))
	y, err := g.Add(ir.Concat, "present", &ir.AxisAttr{Axis: 1}, past, x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	s, err := ir.StateOf(g, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(g, manyChip(), Options{States: []ir.State{s}}); err == nil || !strings.Contains(err.Error(), "--state none") {
		t.Errorf("a state of five dimensions that grows along the second: %v", err)
	}
}

// TestStatePlacement: check finds a state that something else overwrites, or that does
// not live from the first step to the last.
func TestStatePlacement(t *testing.T) {
	g, states := decoder(t, 4, 24, 2, 16, true)
	for what, spoil := range map[string]func(p *plan, k int){
		"overlaps":           func(p *plan, k int) { *p.items[(k+1)%len(p.items)].addr = *p.items[k].addr },
		"is a state and":     func(p *plan, k int) { p.items[k].last-- },
		"is a state and liv": func(p *plan, k int) { p.items[k].first++ },
	} {
		p, err := choose(g, manyChip(), Options{Clusters: 1, States: states})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(p.items, func(it item) bool { return it.store != nil && it.store.kept })
		spoil(p, k)
		if err := p.check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("check says %v, want %q", err, what)
		}
	}
}

// TestStatesApart: where the caches of two layers do not fit the scratchpads of the same
// clusters, they lie on different ones.
func TestStatesApart(t *testing.T) {
	one, _ := decoder(t, 2, 256, 1, 16, true)
	g := &ir.Graph{Name: "layers"}
	var states []ir.State
	const layers = 3
	for range layers { // side by side
		at, ops := ir.ValueID(len(g.Values)), int32(len(g.Ops))
		for _, v := range one.Values {
			if v.Def >= 0 {
				v.Def += ops
			}
			g.Values = append(g.Values, v)
		}
		for _, op := range one.Ops {
			op.In = slices.Clone(op.In)
			for i := range op.In {
				op.In[i] += at
			}
			op.Out += at
			g.Ops = append(g.Ops, op)
		}
		for _, id := range one.Inputs {
			g.Inputs = append(g.Inputs, id+at)
		}
		for _, id := range one.Outputs {
			g.Outputs = append(g.Outputs, id+at)
		}
	}
	for k := range layers {
		for _, s := range ir.StatesByName(one) {
			s.In, s.Out = s.In+k*len(one.Inputs), s.Out+k*len(one.Outputs)
			states = append(states, s)
		}
	}
	c := manyChip()
	c.Scratchpad.Bytes = fig(14 << 10) // a head's keys and values take 8
	p, err := Compile(g, c, Options{Clusters: 6, States: states})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.States {
		if s.Spilled {
			t.Errorf("state %+v is spilled", s)
		}
	}
	sameSteps(t, g, c, p, states, 3, codesOf(g))
}

// TestSharedStates: where several clusters read all of each of two states, they meet
// before either is replaced for the others.
func TestSharedStates(t *testing.T) {
	const heads, past, dim = 4, 32, 16
	g := &ir.Graph{Name: "shared"}
	code := func(shape ...int) ir.Type { return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(0.02, 0)) }
	must := func(id ir.ValueID, err error) ir.ValueID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	q := g.AddInput("q", code(1, heads, 1, dim))
	for _, name := range []string{"key", "value"} {
		old, fresh := g.AddInput("past_key_values.0."+name, code(1, 1, past, dim)), g.AddInput("new_"+name, code(1, 1, 1, dim))
		present := must(g.Add(ir.Concat, "present.0."+name, &ir.AxisAttr{Axis: 2}, old, must(g.AddTyped(ir.Add, "computed", nil, code(1, 1, 1, dim), fresh, fresh))))
		g.Value(present).Name = "present.0." + name
		all := must(g.Add(ir.Expand, "all", &ir.ShapeAttr{Shape: []int{1, heads, past + 1, dim}}, present))
		y := must(g.AddTyped(ir.MatMul, "y", nil, code(1, heads, 1, past+1), q, must(g.Add(ir.Transpose, "turn", &ir.PermAttr{Perm: []int{0, 1, 3, 2}}, all))))
		g.Outputs = append(g.Outputs, present, y)
	}
	states := ir.StatesByName(g)
	c := manyChip()
	for _, clusters := range []int{1, 2, 4} {
		p, err := Compile(g, c, Options{Clusters: clusters, States: states})
		if err != nil {
			t.Fatal(err)
		}
		sameSteps(t, g, c, p, states, past+3, codesOf(g))
	}
}
