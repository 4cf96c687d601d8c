package onnx

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
	"situ/ir/eval"
)

// A nodeTest is one node with its operands, absent where nil.
type nodeTest struct {
	op      string
	domain  string
	opset   int64
	attrs   []*onnxpb.AttributeProto
	in      []*ir.Tensor
	fixed   []bool // operands that are constants of the model
	results int
}

// run imports the node and evaluates it.
func (n nodeTest) run() ([]*ir.Tensor, error) {
	p := &onnxpb.NodeProto{OpType: n.op, Domain: n.domain, Attribute: n.attrs}
	g := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{p}}
	opt := ImportOptions{InputShapes: map[string][]int{}}
	var inputs []*ir.Tensor
	for i, t := range n.in {
		if t == nil {
			p.Input = append(p.Input, "")
			continue
		}
		name := fmt.Sprint("x", i)
		p.Input = append(p.Input, name)
		if i < len(n.fixed) && n.fixed[i] {
			g.Initializer = append(g.Initializer, EncodeTensor(name, t))
			continue
		}
		v := valueInfo(name)
		v.Type.GetTensorType().ElemType = int32(protoDType(t.DType))
		v.Type.GetTensorType().Shape = nil
		g.Input = append(g.Input, v)
		opt.InputShapes[name] = t.Shape
		inputs = append(inputs, t)
	}
	for i := range max(n.results, 1) {
		if !n.wanted(i) {
			p.Output = append(p.Output, "")
			continue
		}
		name := fmt.Sprint("y", i)
		p.Output = append(p.Output, name)
		g.Output = append(g.Output, valueInfo(name))
	}
	graph, err := Import(&Model{Proto: modelOf(n.opset, g), Opsets: map[string]int64{n.domain: n.opset}}, opt)
	if err != nil {
		return nil, err
	}
	e, err := eval.New(graph)
	if err != nil {
		return nil, err
	}
	return e.Run(context.Background(), inputs, eval.Options{})
}

// must is run for nodes that have to work.
func (n nodeTest) must(t *rapid.T) []*ir.Tensor {
	t.Helper()
	out, err := n.run()
	if err != nil {
		t.Fatalf("%s of %v: %v", n.op, shapesOf(n.in), err)
	}
	return out
}

func shapesOf(ts []*ir.Tensor) []string {
	var s []string
	for _, t := range ts {
		if t == nil {
			s = append(s, "-")
		} else {
			s = append(s, t.Type().String())
		}
	}
	return s
}

// same compares a result with the expected elements, exactly or to a relative
// tolerance of the largest.
func same(t *rapid.T, what string, got *ir.Tensor, d ir.DType, shape []int, want []float64, tolerance float64) {
	t.Helper()
	if got.DType != d || !slices.Equal(got.Shape, shape) {
		t.Fatalf("%s: got %v, want %v %v", what, got.Type(), d, shape)
	}
	largest := 0.0
	for _, w := range want {
		if !math.IsInf(w, 0) && w == w {
			largest = max(largest, math.Abs(w))
		}
	}
	for i, g := range numbers(got) {
		w := want[i]
		if g == w || g != g && w != w || math.Abs(g-w) <= tolerance*largest {
			continue
		}
		t.Fatalf("%s: element %d is %v, want %v\ngot  %v\nwant %v", what, i, g, w, numbers(got), want)
	}
}

func drawShape(t *rapid.T, what string, minRank, maxRank, minDim, maxDim int) []int {
	return rapid.SliceOfN(rapid.IntRange(minDim, maxDim), minRank, maxRank).Draw(t, what)
}

// drawTensor draws small integers of any element type, halves too for floats.
func drawTensor(t *rapid.T, what string, d ir.DType, shape []int) *ir.Tensor {
	lo, hi := -6, 6
	switch d {
	case ir.U8, ir.U16, ir.U32, ir.U64:
		lo = 0
	case ir.Bool:
		lo, hi = 0, 1
	}
	n := ir.Numel(shape)
	v := rapid.SliceOfN(rapid.IntRange(lo, hi), n, n).Draw(t, what)
	if d.IsFloat() {
		f := make([]float64, n)
		for i := range f {
			f[i] = float64(v[i]) / 2
		}
		return fromFloats(d, shape, f)
	}
	return fromInts(d, shape, int64List(v))
}

func drawFixed(t *rapid.T, n int) []bool {
	return rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "constants")
}

// each calls f with every index of a shape, in row-major order.
func each(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range ir.Numel(shape) {
		f(at)
		for d := len(shape) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
}

// offsetOf is the row-major position of an index; dimensions of 1 broadcast, and
// leading dimensions may be missing.
func offsetOf(shape, at []int) int {
	at = at[len(at)-len(shape):]
	o := 0
	for d, n := range shape {
		o *= n
		if n != 1 {
			o += at[d]
		}
	}
	return o
}

var allInts = []ir.DType{ir.I8, ir.I16, ir.I32, ir.I64, ir.U8, ir.U16, ir.U32, ir.U64}
var allFloats = []ir.DType{ir.F32, ir.F64, ir.F16, ir.BF16}

// TestPairs checks every operator of two operands that broadcasts, on every
// element type, with scalars and empty operands, constant or not.
func TestPairs(t *testing.T) {
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	numeric := slices.Concat(allInts, allFloats)
	bools := []ir.DType{ir.Bool}
	type pairOp struct {
		name  string
		types []ir.DType
		bools bool // the result's type
		f     func(a, b float64) float64
	}
	bitwise := func(f func(a, b int64) int64) func(a, b float64) float64 {
		return func(a, b float64) float64 { return float64(f(int64(a), int64(b))) }
	}
	ops := []pairOp{
		{"Add", numeric, false, func(a, b float64) float64 { return a + b }},
		{"Sub", numeric, false, func(a, b float64) float64 { return a - b }},
		{"Mul", numeric, false, func(a, b float64) float64 { return a * b }},
		{"Min", numeric, false, math.Min},
		{"Max", numeric, false, math.Max},
		{"Equal", slices.Concat(numeric, bools), true, func(a, b float64) float64 { return truth(a == b) }},
		{"Less", numeric, true, func(a, b float64) float64 { return truth(a < b) }},
		{"LessOrEqual", numeric, true, func(a, b float64) float64 { return truth(a <= b) }},
		{"Greater", numeric, true, func(a, b float64) float64 { return truth(a > b) }},
		{"GreaterOrEqual", numeric, true, func(a, b float64) float64 { return truth(a >= b) }},
		{"And", bools, true, func(a, b float64) float64 { return a * b }},
		{"Or", bools, true, math.Max},
		{"Xor", bools, true, func(a, b float64) float64 { return truth(a != b) }},
		{"BitwiseAnd", allInts, false, bitwise(func(a, b int64) int64 { return a & b })},
		{"BitwiseOr", allInts, false, bitwise(func(a, b int64) int64 { return a | b })},
		{"BitwiseXor", allInts, false, bitwise(func(a, b int64) int64 { return a ^ b })},
		{"Div", allInts, false, func(a, b float64) float64 { return math.Trunc(a / b) }},
		{"Mod", allInts, false, func(a, b float64) float64 { return a - b*math.Floor(a/b) }},
	}
	check := func(t *rapid.T, op pairOp) {
		d := rapid.SampledFrom(op.types).Draw(t, "type")
		shape := drawShape(t, "shape", 0, 3, 0, 3)
		part := func(what string) []int {
			s := slices.Clone(shape[rapid.IntRange(0, len(shape)).Draw(t, what+" dropped"):])
			for i := range s {
				if rapid.Bool().Draw(t, what+" broadcast") {
					s[i] = 1
				}
			}
			return s
		}
		sa, sb := shape, part("b")
		if rapid.Bool().Draw(t, "both") {
			sa = part("a")
		}
		shape, _ = broadcastShapes(sa, sb)
		a, b := drawTensor(t, "a", d, sa), drawTensor(t, "b", d, sb)
		if op.name == "Div" || op.name == "Mod" {
			v := slices.Clone(int64s(b))
			for i := range v {
				if v[i] == 0 {
					v[i] = 1
				}
			}
			b = fromInts(d, sb, v)
		}
		y := nodeTest{op: op.name, opset: 18, in: []*ir.Tensor{a, b}, fixed: drawFixed(t, 2)}.must(t)[0]
		x, z := numbers(a), numbers(b)
		var want []float64
		each(shape, func(at []int) { want = append(want, op.f(x[offsetOf(sa, at)], z[offsetOf(sb, at)])) })
		result := d
		if op.bools {
			result = ir.Bool
		} else if d.IsInt() { // differences of unsigned numbers wrap
			w := make([]int64, len(want))
			for i, v := range want {
				w[i] = int64(v)
			}
			want = numbers(fromInts(d, shape, w))
		}
		same(t, op.name, y, result, shape, want, 0)
	}
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { check(t, op) })
		})
	}
}

// TestWhereProperty checks selection with three shapes.
func TestWhereProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(slices.Concat(allInts, allFloats, []ir.DType{ir.Bool})).Draw(t, "type")
		shape := drawShape(t, "shape", 0, 3, 1, 3)
		var ts [3]*ir.Tensor
		for i := range ts {
			s := slices.Clone(shape[rapid.IntRange(0, len(shape)).Draw(t, "dropped"):])
			for j := range s {
				if rapid.Bool().Draw(t, "broadcast") {
					s[j] = 1
				}
			}
			e := d
			if i == 0 {
				e = ir.Bool
			}
			ts[i] = drawTensor(t, "operand", e, s)
		}
		out, _ := broadcastShapes(ts[0].Shape, ts[1].Shape, ts[2].Shape)
		y := nodeTest{op: "Where", opset: 16, in: ts[:], fixed: drawFixed(t, 3)}.must(t)[0]
		var want []float64
		each(out, func(at []int) {
			v := ts[2]
			if numbers(ts[0])[offsetOf(ts[0].Shape, at)] != 0 {
				v = ts[1]
			}
			want = append(want, numbers(v)[offsetOf(v.Shape, at)])
		})
		same(t, "Where", y, d, out, want, 0)
	})
}

// TestReductionsProperty checks every reduction: negative axes, axes as
// attribute and operand, none at all, empty operands.
func TestReductionsProperty(t *testing.T) {
	inf := math.Inf(1)
	sum := func(f func(v float64) float64) func(v []float64) float64 {
		return func(v []float64) float64 {
			s := 0.0
			for _, x := range v {
				s += f(x)
			}
			return s
		}
	}
	id := func(v float64) float64 { return v }
	square := func(v float64) float64 { return v * v }
	ops := map[string]func(v []float64) float64{
		"ReduceSum":       sum(id),
		"ReduceL1":        sum(math.Abs),
		"ReduceSumSquare": sum(square),
		"ReduceL2":        func(v []float64) float64 { return math.Sqrt(sum(square)(v)) },
		"ReduceLogSum":    func(v []float64) float64 { return math.Log(sum(id)(v)) },
		"ReduceLogSumExp": func(v []float64) float64 { return math.Log(sum(math.Exp)(v)) },
		"ReduceMean":      func(v []float64) float64 { return sum(id)(v) / float64(len(v)) },
		"ReduceProd": func(v []float64) float64 {
			p := 1.0
			for _, x := range v {
				p *= x
			}
			return p
		},
		"ReduceMax": func(v []float64) float64 {
			m := -inf
			for _, x := range v {
				m = max(m, x)
			}
			return m
		},
		"ReduceMin": func(v []float64) float64 {
			m := inf
			for _, x := range v {
				m = min(m, x)
			}
			return m
		},
	}
	check := func(t *rapid.T, name string) {
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64, ir.F16, ir.I32, ir.I64}).Draw(t, "type")
		low := 1
		if d.IsFloat() {
			low = 0
		}
		shape := drawShape(t, "shape", 0, 4, low, 3)
		x := drawTensor(t, "x", d, shape)
		var axes []int64
		isAxis := make([]bool, len(shape))
		for i := range shape {
			if isAxis[i] = rapid.Bool().Draw(t, "axis"); isAxis[i] {
				axes = append(axes, int64(i))
				if rapid.Bool().Draw(t, "negative") {
					axes[len(axes)-1] -= int64(len(shape))
				}
			}
		}
		keep, noop := rapid.Bool().Draw(t, "keepdims"), rapid.Bool().Draw(t, "noop")
		n := nodeTest{op: name, opset: rapid.SampledFrom([]int64{11, 18}).Draw(t, "opset"), in: []*ir.Tensor{x}}
		if !keep {
			n.attrs = append(n.attrs, intAttr("keepdims", 0))
		}
		if n.opset == 11 {
			noop = false
			if axes != nil {
				n.attrs = append(n.attrs, intsAttr("axes", axes...))
			}
		} else {
			if axes != nil {
				n.in = append(n.in, fromInts(ir.I64, []int{len(axes)}, axes))
			}
			if noop {
				n.attrs = append(n.attrs, intAttr("noop_with_empty_axes", 1))
			}
		}
		n.fixed = []bool{rapid.Bool().Draw(t, "constant"), true}
		if axes == nil && !noop {
			for i := range isAxis {
				isAxis[i] = true
			}
		}
		kept, out := slices.Clone(shape), []int{}
		for i := range shape {
			if isAxis[i] {
				kept[i] = 1
			}
			if !isAxis[i] || keep {
				out = append(out, kept[i])
			}
		}
		groups := make([][]float64, ir.Numel(kept))
		v := numbers(x)
		i := 0
		each(shape, func(at []int) {
			o := offsetOf(kept, at)
			groups[o] = append(groups[o], v[i])
			i++
		})
		want := make([]float64, len(groups))
		for i, g := range groups {
			want[i] = ops[name](g)
			switch {
			case d.IsInt() && name == "ReduceProd": // integers wrap
				p := int64(1)
				for _, x := range g {
					p *= int64(x)
				}
				if d == ir.I32 {
					p = int64(int32(p))
				}
				want[i] = float64(p)
			case d.IsInt() && want[i] == want[i]:
				want[i] = math.Trunc(want[i])
			}
		}
		if d.IsInt() && (name == "ReduceLogSum" || name == "ReduceLogSumExp") {
			return // logarithms of sums below 1 have no integer form
		}
		tolerance := 1e-6
		if d == ir.F16 {
			tolerance = 1e-3
		}
		if d == ir.F16 && name == "ReduceProd" {
			tolerance = 2e-3
		}
		same(t, name, n.must(t)[0], d, out, want, tolerance)
	}
	for name := range ops {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { check(t, name) })
		})
	}
}
