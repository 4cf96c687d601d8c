package pim

import (
	"math/rand/v2"
	"testing"

	"situ/ir"
)

// adder appends an operator to a graph.
type adder func(k ir.OpKind, a ir.Attr, in ...ir.ValueID) ir.ValueID

// TestMovedSums: sums of products that are moved before something other than dequantize
// takes them, alone or joined with others, are the evaluator's integers.
func TestMovedSums(t *testing.T) {
	code := ir.TypeOf(ir.I8, 1, 6, 8).WithQuant(ir.PerTensor(0.05, -4))
	sums := ir.PerTensor(0.05*0.02, 0)
	turn := &ir.PermAttr{Perm: []int{0, 2, 1}}
	for name, end := range map[string]func(add adder, a, b, given ir.ValueID) []ir.ValueID{
		"output": func(add adder, a, b, _ ir.ValueID) []ir.ValueID {
			return []ir.ValueID{add(ir.Transpose, turn, a), add(ir.Dequantize, nil, b)}
		},
		"output and dequantized": func(add adder, a, b, _ ir.ValueID) []ir.ValueID {
			x := add(ir.Transpose, turn, a)
			return []ir.ValueID{x, add(ir.Dequantize, nil, x), add(ir.Dequantize, nil, a), add(ir.Dequantize, nil, add(ir.Transpose, turn, b))}
		},
		"joined": func(add adder, a, b, _ ir.ValueID) []ir.ValueID {
			x := add(ir.Concat, &ir.AxisAttr{Axis: 1}, a, b)
			return []ir.ValueID{a, add(ir.Dequantize, nil, x)}
		},
		"joined the other way": func(add adder, a, b, _ ir.ValueID) []ir.ValueID {
			x := add(ir.Concat, &ir.AxisAttr{Axis: 1}, b, a)
			return []ir.ValueID{a, add(ir.Dequantize, nil, x), add(ir.Dequantize, nil, b)}
		},
		"joined with what is given": func(add adder, a, b, given ir.ValueID) []ir.ValueID {
			x := add(ir.Concat, &ir.AxisAttr{Axis: 1}, a, given)
			return []ir.ValueID{add(ir.Dequantize, nil, x), add(ir.Dequantize, nil, b)}
		},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		g := &ir.Graph{Name: name}
		x := g.AddInput("x", code)
		given := g.AddInput("given", ir.TypeOf(ir.I32, 1, 2, 10).WithQuant(sums))
		must := func(id ir.ValueID, err error) ir.ValueID {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return id
		}
		product := func(name string) ir.ValueID {
			w := randomCodes(rng, ir.TypeOf(ir.I8, 8, 10))
			return must(g.AddTyped(ir.MatMul, name, nil, ir.TypeOf(ir.I32, 1, 6, 10).WithQuant(sums), x, g.AddConst(name+" w", w, ir.PerTensor(0.02, 0))))
		}
		a, b := product("a"), product("b")
		g.Outputs = end(func(k ir.OpKind, a ir.Attr, in ...ir.ValueID) ir.ValueID { return must(g.Add(k, k.String(), a, in...)) }, a, b, given)
		in := []*ir.Tensor{randomCodes(rng, code), ir.Zeros(ir.I32, 1, 2, 10)}
		for i := range ir.Data[int32](in[1]) {
			ir.Data[int32](in[1])[i] = int32(rng.IntN(1000) - 500)
		}
		for _, clusters := range []int{1, 3} {
			p, err := Compile(g, manyChip(), Options{Clusters: clusters})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			sameBits(sayer{t, name}, g, manyChip(), p, in)
		}
	}
}

// sayer is a test whose failures begin with a name and do not end it.
type sayer struct {
	*testing.T
	name string
}

func (s sayer) Fatalf(format string, args ...any) {
	s.Helper()
	s.Errorf(s.name+": "+format, args...)
}
