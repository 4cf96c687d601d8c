package onnx

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

func strAttr(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

func floatAttr(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

func i64(shape []int, v []int64) *ir.Tensor { return ir.NewTensor(ir.I64, shape, v) }

// drawAxis draws a dimension of a shape, and how a model names it.
func drawAxis(t *rapid.T, rank int) (axis int, named int64) {
	axis = rapid.IntRange(0, rank-1).Draw(t, "axis")
	named = int64(axis)
	if rapid.Bool().Draw(t, "negative axis") {
		named -= int64(rank)
	}
	return axis, named
}

// drawIndices draws indices into n elements, some of them negative.
func drawIndices(t *rapid.T, shape []int, n int) []int64 {
	k := ir.Numel(shape)
	return rapid.SliceOfN(rapid.Int64Range(int64(-n), int64(n-1)), k, k).Draw(t, "indices")
}

func wrapped(i int64, n int) int {
	if i < 0 {
		i += int64(n)
	}
	return int(i)
}

var anyType = slices.Concat(allInts, allFloats, []ir.DType{ir.Bool})

func TestGatherProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(anyType).Draw(t, "type")
		s := drawShape(t, "shape", 1, 3, 1, 4)
		axis, named := drawAxis(t, len(s))
		x := drawTensor(t, "x", d, s)
		is := drawShape(t, "indices' shape", 0, 2, 0, 3)
		idx := drawIndices(t, is, s[axis])
		y := nodeTest{op: "Gather", opset: 13, attrs: []*onnxpb.AttributeProto{intAttr("axis", named)},
			in: []*ir.Tensor{x, i64(is, idx)}, fixed: drawFixed(t, 2)}.must(t)[0]
		out := slices.Concat(s[:axis], is, s[axis+1:])
		v := numbers(x)
		var want []float64
		each(out, func(at []int) {
			k := idx[offsetOf(is, at[:axis+len(is)])]
			from := slices.Concat(at[:axis], []int{wrapped(k, s[axis])}, at[axis+len(is):])
			want = append(want, v[offsetOfDense(s, from)])
		})
		same(t, "Gather", y, d, out, want, 0)
	})
}

// offsetOfDense is the row-major position of an index.
func offsetOfDense(shape, at []int) int {
	o := 0
	for d, n := range shape {
		o = o*n + at[d]
	}
	return o
}

func TestElementsProperty(t *testing.T) {
	join := map[string]func(a, b float64) float64{
		"none": func(_, b float64) float64 { return b },
		"add":  func(a, b float64) float64 { return a + b },
		"mul":  func(a, b float64) float64 { return a * b },
		"min":  math.Min,
		"max":  math.Max,
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64, ir.F16, ir.I32, ir.I64}).Draw(t, "type")
		s := drawShape(t, "shape", 1, 3, 1, 4)
		axis, named := drawAxis(t, len(s))
		is := slices.Clone(s)
		for i := range is {
			is[i] = rapid.IntRange(1, s[i]).Draw(t, "size")
		}
		is[axis] = rapid.IntRange(1, 5).Draw(t, "size along axis")
		x, idx := drawTensor(t, "x", d, s), drawIndices(t, is, s[axis])
		n := nodeTest{op: "GatherElements", opset: 18, attrs: []*onnxpb.AttributeProto{intAttr("axis", named)},
			in: []*ir.Tensor{x, i64(is, idx)}, fixed: drawFixed(t, 3)}
		v := numbers(x)
		place := func(at []int) int {
			to := slices.Clone(at)
			to[axis] = wrapped(idx[offsetOfDense(is, at)], s[axis])
			return offsetOfDense(s, to)
		}
		var want []float64
		each(is, func(at []int) { want = append(want, v[place(at)]) })
		same(t, n.op, n.must(t)[0], d, is, want, 0)

		mode := rapid.SampledFrom([]string{"none", "add", "mul", "min", "max"}).Draw(t, "reduction")
		if mode == "mul" && d == ir.F16 {
			return // rounds at every step
		}
		u := drawTensor(t, "updates", d, is)
		n.op, n.in = "ScatterElements", append(n.in, u)
		n.attrs = append(n.attrs, strAttr("reduction", mode))
		want = slices.Clone(v)
		w, i := numbers(u), 0
		each(is, func(at []int) {
			want[place(at)] = join[mode](want[place(at)], w[i])
			i++
		})
		same(t, n.op+" "+mode, n.must(t)[0], d, s, want, 1e-6)
	})
}

func TestNDProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, "shape", 1, 4, 1, 3)
		b := rapid.IntRange(0, len(s)-1).Draw(t, "batch dims")
		k := rapid.IntRange(1, len(s)-b).Draw(t, "positions")
		lead := slices.Concat(s[:b], drawShape(t, "places", 0, 2, 1, 3))
		is := append(slices.Clone(lead), k)
		idx := make([]int64, ir.Numel(is))
		for i := range idx {
			n := s[b+i%k]
			idx[i] = rapid.Int64Range(int64(-n), int64(n-1)).Draw(t, "index")
		}
		x := drawTensor(t, "x", ir.I32, s)
		n := nodeTest{op: "GatherND", opset: 13, attrs: []*onnxpb.AttributeProto{intAttr("batch_dims", int64(b))},
			in: []*ir.Tensor{x, i64(is, idx)}, fixed: drawFixed(t, 3)}
		out := slices.Concat(lead, s[b+k:])
		v := numbers(x)
		source := func(at []int) int {
			from := slices.Clone(at[:b])
			row := offsetOfDense(lead, at[:len(lead)]) * k
			for j := range k {
				from = append(from, wrapped(idx[row+j], s[b+j]))
			}
			return offsetOfDense(s, append(from, at[len(lead):]...))
		}
		var want []float64
		each(out, func(at []int) { want = append(want, v[source(at)]) })
		same(t, n.op, n.must(t)[0], ir.I32, out, want, 0)
		if b > 0 {
			return
		}
		u := drawTensor(t, "updates", ir.I32, out)
		n.op, n.attrs, n.in = "ScatterND", []*onnxpb.AttributeProto{strAttr("reduction", "add")}, append(n.in, u)
		n.opset = 16
		want = slices.Clone(v)
		w, i := numbers(u), 0
		each(out, func(at []int) {
			want[source(at)] += w[i]
			i++
		})
		same(t, n.op, n.must(t)[0], ir.I32, s, want, 0)
	})
}

// TestOrderProperty checks TopK, ArgMax, ArgMin and Hardmax against a sort.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(slices.Concat(allInts, allFloats)).Draw(t, "type")
		s := drawShape(t, "shape", 1, 3, 1, 4)
		axis, named := drawAxis(t, len(s))
		x := drawTensor(t, "x", d, s)
		v := numbers(x)
		k := rapid.IntRange(1, s[axis]).Draw(t, "k")
		largest := rapid.IntRange(0, 1).Draw(t, "largest")
		rows := slices.Clone(s)
		rows[axis] = 1
		// For each lane, the indices in order.
		order := map[int][]int{}
		lane := func(at []int, i int) float64 {
			to := slices.Clone(at)
			to[axis] = i
			return v[offsetOfDense(s, to)]
		}
		each(rows, func(at []int) {
			o := make([]int, s[axis])
			for i := range o {
				o[i] = i
			}
			slices.SortStableFunc(o, func(p, q int) int {
				if largest == 1 {
					return cmp.Compare(lane(at, q), lane(at, p))
				}
				return cmp.Compare(lane(at, p), lane(at, q))
			})
			order[offsetOfDense(rows, at)] = o
		})
		laneOf := func(at []int) []int {
			to := slices.Clone(at)
			to[axis] = 0
			return order[offsetOfDense(rows, to)]
		}
		n := nodeTest{op: "TopK", opset: 11, results: 2, in: []*ir.Tensor{x, i64([]int{1}, []int64{int64(k)})}, fixed: []bool{rapid.Bool().Draw(t, "constant"), true},
			attrs: []*onnxpb.AttributeProto{intAttr("axis", named), intAttr("largest", int64(largest))}}
		y := n.must(t)
		out := slices.Clone(s)
		out[axis] = k
		var values, places []float64
		each(out, func(at []int) {
			p := laneOf(at)[at[axis]]
			values, places = append(values, lane(at, p)), append(places, float64(p))
		})
		same(t, "TopK values", y[0], d, out, values, 0)
		same(t, "TopK indices", y[1], ir.I64, out, places, 0)

		last, keep := rapid.IntRange(0, 1).Draw(t, "last"), rapid.IntRange(0, 1).Draw(t, "keepdims")
		n = nodeTest{op: []string{"ArgMin", "ArgMax"}[largest], opset: 13, in: []*ir.Tensor{x}, fixed: n.fixed[:1],
			attrs: []*onnxpb.AttributeProto{intAttr("axis", named), intAttr("select_last_index", int64(last)), intAttr("keepdims", int64(keep))}}
		places = nil
		each(rows, func(at []int) {
			o := laneOf(at)
			p := o[0]
			for _, q := range o[1:] {
				if last == 1 && lane(at, q) == lane(at, p) {
					p = q
				}
			}
			places = append(places, float64(p))
		})
		out = slices.Clone(rows)
		if keep == 0 {
			out = slices.Delete(out, axis, axis+1)
		}
		same(t, n.op, n.must(t)[0], ir.I64, out, places, 0)

		if d.IsFloat() && largest == 1 {
			hot := make([]float64, len(v))
			each(rows, func(at []int) {
				to := slices.Clone(at)
				to[axis] = laneOf(at)[0]
				hot[offsetOfDense(s, to)] = 1
			})
			n = nodeTest{op: "Hardmax", opset: 13, in: []*ir.Tensor{x}, attrs: []*onnxpb.AttributeProto{intAttr("axis", named)}}
			same(t, n.op, n.must(t)[0], d, s, hot, 0)
		}
	})
}

func TestCumulativeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64, ir.I32, ir.I64}).Draw(t, "type")
		s := drawShape(t, "shape", 1, 3, 1, 4)
		axis, named := drawAxis(t, len(s))
		x := drawTensor(t, "x", d, s)
		product := rapid.Bool().Draw(t, "product")
		exclusive, reverse := rapid.IntRange(0, 1).Draw(t, "exclusive"), rapid.IntRange(0, 1).Draw(t, "reverse")
		n := nodeTest{op: "CumSum", opset: 26, in: []*ir.Tensor{x, i64(nil, []int64{named})}, fixed: []bool{rapid.Bool().Draw(t, "constant"), true},
			attrs: []*onnxpb.AttributeProto{intAttr("exclusive", int64(exclusive)), intAttr("reverse", int64(reverse))}}
		if product {
			n.op = "CumProd"
		}
		v := numbers(x)
		var want []float64
		each(s, func(at []int) {
			r := 0.0
			if product {
				r = 1
			}
			for i := range s[axis] {
				before := i < at[axis] || i == at[axis] && exclusive == 0
				if reverse == 1 {
					before = i > at[axis] || i == at[axis] && exclusive == 0
				}
				if before {
					to := slices.Clone(at)
					to[axis] = i
					if e := v[offsetOfDense(s, to)]; product {
						r *= e
					} else {
						r += e
					}
				}
			}
			want = append(want, r)
		})
		same(t, n.op, n.must(t)[0], d, s, want, 1e-6)
	})
}

// TestEinsumProperty compares with nested loops over all labels.
func TestEinsumProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64, ir.I32}).Draw(t, "type")
		size := map[rune]int{}
		letters := []rune("abCde")
		for _, l := range letters {
			size[l] = rapid.IntRange(1, 3).Draw(t, "size")
		}
		var in []*ir.Tensor
		var terms []string
		for range rapid.IntRange(1, 3).Draw(t, "operands") {
			term := rapid.SliceOfN(rapid.SampledFrom(letters), 0, 3).Draw(t, "term")
			var s []int
			for _, l := range term {
				s = append(s, size[l])
			}
			terms = append(terms, string(term))
			in = append(in, drawTensor(t, "x", d, s))
		}
		all := slices.Compact(slices.Sorted(slices.Values([]rune(strings.Join(terms, "")))))
		var result []rune
		equation := strings.Join(terms, ",")
		if rapid.Bool().Draw(t, "explicit") {
			for _, l := range rapid.Permutation(all).Draw(t, "order") {
				if rapid.Bool().Draw(t, "kept") {
					result = append(result, l)
				}
			}
			equation += "->" + string(result)
		} else {
			for _, l := range all {
				if strings.Count(equation, string(l)) == 1 {
					result = append(result, l)
				}
			}
		}
		var out, full []int
		for _, l := range result {
			out = append(out, size[l])
		}
		for _, l := range all {
			full = append(full, size[l])
		}
		want := make([]float64, ir.Numel(out))
		each(full, func(at []int) {
			pos := func(labels []rune) int {
				o := 0
				for _, l := range labels {
					o = o*size[l] + at[slices.Index(all, l)]
				}
				return o
			}
			p := 1.0
			for i, x := range in {
				p *= numbers(x)[pos([]rune(terms[i]))]
			}
			want[pos(result)] += p
		})
		n := nodeTest{op: "Einsum", opset: 12, in: in, fixed: drawFixed(t, len(in)), attrs: []*onnxpb.AttributeProto{strAttr("equation", equation)}}
		same(t, equation, n.must(t)[0], d, out, want, 1e-6)
	})
}

// TestEinsumEllipsis checks ellipses, which broadcast.
func TestEinsumEllipsis(t *testing.T) {
	x := func(s ...int) *ir.Tensor {
		v := make([]float64, ir.Numel(s))
		for i := range v {
			v[i] = float64(i + 1)
		}
		return fromFloats(ir.F32, s, v)
	}
	for _, c := range []struct {
		equation string
		in       []*ir.Tensor
		shape    []int
		want     []float64
	}{
		{"...i,...i->...", []*ir.Tensor{x(2, 2), x(1, 2)}, []int{2}, []float64{5, 11}},
		{"i...->...", []*ir.Tensor{x(2, 2)}, []int{2}, []float64{4, 6}},
		{"...ij,jk", []*ir.Tensor{x(2, 1, 2), x(2, 1)}, []int{2, 1, 1}, []float64{5, 11}},
		{"...->", []*ir.Tensor{x(2, 3)}, nil, []float64{21}},
	} {
		y, err := nodeTest{op: "Einsum", opset: 12, in: c.in, attrs: []*onnxpb.AttributeProto{strAttr("equation", c.equation)}}.run()
		if err != nil {
			t.Errorf("%s: %v", c.equation, err)
		} else if !slices.Equal(y[0].Shape, c.shape) || !slices.Equal(numbers(y[0]), c.want) {
			t.Errorf("%s: got %v %v, want %v %v", c.equation, y[0].Shape, numbers(y[0]), c.shape, c.want)
		}
	}
	for _, bad := range []string{"ij", "i->ii", "ij->k", "i1", "...i.", "ij,jk"} {
		if _, err := (nodeTest{op: "Einsum", opset: 12, in: []*ir.Tensor{x(2)}, attrs: []*onnxpb.AttributeProto{strAttr("equation", bad)}}).run(); err == nil {
			t.Errorf("equation %q of a vector is accepted", bad)
		}
	}
}
