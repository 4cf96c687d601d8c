package onnx

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// TestSliceProperty compares with Python's meaning of start:end:step.
func TestSliceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(anyType).Draw(t, "type")
		s := drawShape(t, "shape", 1, 3, 0, 4)
		axis, named := drawAxis(t, len(s))
		x := drawTensor(t, "x", d, s)
		bound := rapid.OneOf(rapid.Int64Range(-6, 6), rapid.SampledFrom([]int64{math.MinInt64, math.MinInt32, math.MaxInt32, math.MaxInt64}))
		begin, end := bound.Draw(t, "begin"), bound.Draw(t, "end")
		step := rapid.OneOf(rapid.SampledFrom([]int64{1, 2, 3, -1, -2, -3, math.MinInt64, math.MaxInt64})).Draw(t, "step")
		n := int64(s[axis])
		clamp := func(v, lo, hi int64) int64 {
			if v < 0 {
				v += n
			}
			return min(max(v, lo), hi)
		}
		var picked []int
		if step > 0 {
			for i, e := clamp(begin, 0, n), clamp(end, 0, n); i < e; i += step {
				picked = append(picked, int(i))
				if i > math.MaxInt64-step {
					break
				}
			}
		} else {
			for i, e := clamp(begin, -1, n-1), clamp(end, -1, n-1); i > e; i += step {
				picked = append(picked, int(i))
				if i < math.MinInt64-step {
					break
				}
			}
		}
		one := func(v int64) *ir.Tensor { return i64([]int{1}, []int64{v}) }
		y := nodeTest{op: "Slice", opset: 13, in: []*ir.Tensor{x, one(begin), one(end), one(named), one(step)},
			fixed: []bool{rapid.Bool().Draw(t, "constant"), true, true, true, true}}.must(t)[0]
		out := slices.Clone(s)
		out[axis] = len(picked)
		v := numbers(x)
		var want []float64
		each(out, func(at []int) {
			from := slices.Clone(at)
			from[axis] = picked[at[axis]]
			want = append(want, v[offsetOfDense(s, from)])
		})
		same(t, "Slice", y, d, out, want, 0)
	})
}

// TestTriluProperty checks both triangles, from k far outside to far outside.
func TestTriluProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(anyType).Draw(t, "type")
		s := drawShape(t, "shape", 2, 4, 0, 4)
		x := drawTensor(t, "x", d, s)
		k, upper := rapid.Int64Range(-6, 6).Draw(t, "k"), rapid.IntRange(0, 1).Draw(t, "upper")
		y := nodeTest{op: "Trilu", opset: 14, in: []*ir.Tensor{x, i64(nil, []int64{k})}, fixed: []bool{false, true},
			attrs: []*onnxpb.AttributeProto{intAttr("upper", int64(upper))}}.must(t)[0]
		want := slices.Clone(numbers(x))
		i := 0
		each(s, func(at []int) {
			row, col := int64(at[len(s)-2]), int64(at[len(s)-1])
			if upper == 1 && col < row+k || upper == 0 && col > row+k {
				want[i] = 0
			}
			i++
		})
		same(t, "Trilu", y, d, s, want, 0)
	})
}

func TestCenterCropPadProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, "shape", 1, 3, 1, 5)
		axis, named := drawAxis(t, len(s))
		size := rapid.IntRange(0, 7).Draw(t, "size")
		x := drawTensor(t, "x", ir.F32, s)
		y := nodeTest{op: "CenterCropPad", opset: 18, in: []*ir.Tensor{x, i64([]int{1}, []int64{int64(size)})}, fixed: []bool{false, true},
			attrs: []*onnxpb.AttributeProto{intsAttr("axes", named)}}.must(t)[0]
		out := slices.Clone(s)
		out[axis] = size
		v := numbers(x)
		var want []float64
		each(out, func(at []int) {
			from := slices.Clone(at)
			if size > s[axis] {
				from[axis] -= (size - s[axis]) / 2
			} else {
				from[axis] += (s[axis] - size) / 2
			}
			if from[axis] < 0 || from[axis] >= s[axis] {
				want = append(want, 0)
				return
			}
			want = append(want, v[offsetOfDense(s, from)])
		})
		same(t, "CenterCropPad", y, ir.F32, out, want, 0)
	})
}

func TestReverseSequenceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, "shape", 2, 4, 1, 4)
		time := rapid.IntRange(0, 1).Draw(t, "time")
		batch := 1 - time
		lens := make([]int64, s[batch])
		for i := range lens {
			lens[i] = rapid.Int64Range(0, int64(s[time])).Draw(t, "length")
		}
		x := drawTensor(t, "x", ir.I32, s)
		y := nodeTest{op: "ReverseSequence", opset: 10, in: []*ir.Tensor{x, i64([]int{len(lens)}, lens)}, fixed: drawFixed(t, 2),
			attrs: []*onnxpb.AttributeProto{intAttr("time_axis", int64(time)), intAttr("batch_axis", int64(batch))}}.must(t)[0]
		v := numbers(x)
		var want []float64
		each(s, func(at []int) {
			from := slices.Clone(at)
			if n := int(lens[at[batch]]); at[time] < n {
				from[time] = n - 1 - at[time]
			}
			want = append(want, v[offsetOfDense(s, from)])
		})
		same(t, "ReverseSequence", y, ir.I32, s, want, 0)
	})
}

func TestOneHotProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, "shape", 0, 2, 1, 3)
		axis, named := drawAxis(t, len(s)+1)
		depth := rapid.IntRange(1, 5).Draw(t, "depth")
		x := drawTensor(t, "x", rapid.SampledFrom([]ir.DType{ir.I32, ir.I64, ir.U8, ir.F32}).Draw(t, "type"), s)
		if x.DType == ir.F32 {
			v := numbers(x)
			for i := range v {
				v[i] = math.Trunc(v[i])
			}
			x = fromFloats(ir.F32, s, v)
		}
		y := nodeTest{op: "OneHot", opset: 11, in: []*ir.Tensor{x, i64([]int{1}, []int64{int64(depth)}), i64([]int{2}, []int64{-3, 7})},
			fixed: []bool{rapid.Bool().Draw(t, "constant"), true, rapid.Bool().Draw(t, "constant")}, attrs: []*onnxpb.AttributeProto{intAttr("axis", named)}}.must(t)[0]
		out := slices.Insert(slices.Clone(s), axis, depth)
		v := numbers(x)
		var want []float64
		each(out, func(at []int) {
			k := v[offsetOfDense(s, slices.Delete(slices.Clone(at), axis, axis+1))]
			if k < 0 {
				k += float64(depth)
			}
			if k == float64(at[axis]) {
				want = append(want, 7)
			} else {
				want = append(want, -3)
			}
		})
		same(t, "OneHot", y, ir.I64, out, want, 0)
	})
}

// TestUnknownShapes checks the operators whose result's shape depends on
// elements: constants work, anything else is refused by name.
func TestUnknownShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, "shape", 1, 2, 1, 5)
		x := drawTensor(t, "x", rapid.SampledFrom(anyType).Draw(t, "type"), s)
		v := numbers(x)
		n := nodeTest{op: "NonZero", opset: 13, in: []*ir.Tensor{x}, fixed: []bool{true}}
		var at [][]int
		each(s, func(p []int) {
			if v[offsetOfDense(s, p)] != 0 {
				at = append(at, slices.Clone(p))
			}
		})
		var want []float64
		for d := range s {
			for _, p := range at {
				want = append(want, float64(p[d]))
			}
		}
		same(t, n.op, n.must(t)[0], ir.I64, []int{len(s), len(at)}, want, 0)

		n = nodeTest{op: "Unique", opset: 11, in: []*ir.Tensor{x}, fixed: []bool{true}, results: 4,
			attrs: []*onnxpb.AttributeProto{intAttr("sorted", int64(rapid.IntRange(0, 1).Draw(t, "sorted")))}}
		var values []float64
		for _, e := range v {
			if !slices.Contains(values, e) {
				values = append(values, e)
			}
		}
		if n.attrs[0].I == 1 {
			slices.Sort(values)
		}
		first, count := make([]float64, len(values)), make([]float64, len(values))
		var inverse []float64
		for i, e := range values {
			first[i] = float64(slices.Index(v, e))
		}
		for _, e := range v {
			i := slices.Index(values, e)
			inverse = append(inverse, float64(i))
			count[i]++
		}
		y := n.must(t)
		same(t, "unique values", y[0], x.DType, []int{len(values)}, values, 0)
		same(t, "first places", y[1], ir.I64, []int{len(values)}, first, 0)
		same(t, "places", y[2], ir.I64, []int{len(v)}, inverse, 0)
		same(t, "counts", y[3], ir.I64, []int{len(values)}, count, 0)
	})
	for _, op := range []string{"NonZero", "Unique"} {
		_, err := nodeTest{op: op, opset: 13, in: []*ir.Tensor{ir.Zeros(ir.F32, 3)}}.run()
		if err == nil {
			t.Errorf("%s of an input is accepted", op)
		}
	}
}

// TestLossProperty checks both losses with weights and targets to be ignored.
func TestLossProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, "shape", 2, 4, 1, 3)
		classes := s[1]
		ts := slices.Delete(slices.Clone(s), 1, 2)
		x := drawTensor(t, "x", ir.F32, s)
		target := make([]int64, ir.Numel(ts))
		ignore := rapid.SampledFrom([]int64{-1, 0, 100}).Draw(t, "ignore_index")
		for i := range target {
			if target[i] = rapid.Int64Range(0, int64(classes)-1).Draw(t, "target"); rapid.IntRange(0, 3).Draw(t, "ignored") == 0 {
				target[i] = ignore
			}
		}
		if rapid.Bool().Draw(t, "some count") && target[0] == ignore && ignore != 0 {
			target[0] = 0
		}
		reduction := rapid.SampledFrom([]string{"none", "sum", "mean"}).Draw(t, "reduction")
		n := nodeTest{op: "NegativeLogLikelihoodLoss", opset: 13, in: []*ir.Tensor{x, i64(ts, target)}, fixed: drawFixed(t, 3),
			attrs: []*onnxpb.AttributeProto{strAttr("reduction", reduction), intAttr("ignore_index", ignore)}}
		weight := slices.Repeat([]float64{1}, classes)
		if rapid.Bool().Draw(t, "weighted") {
			w := drawTensor(t, "weight", ir.F32, []int{classes})
			weight = numbers(w)
			n.in = append(n.in, w)
		}
		softmax := rapid.Bool().Draw(t, "softmax")
		if softmax {
			n.op = "SoftmaxCrossEntropyLoss"
		}
		v := numbers(x)
		var losses []float64
		total, weights := 0.0, 0.0
		each(ts, func(at []int) {
			k := target[offsetOfDense(ts, at)]
			if k == ignore {
				losses = append(losses, 0)
				return
			}
			score := func(c int) float64 { return v[offsetOfDense(s, slices.Insert(slices.Clone(at), 1, c))] }
			p := score(int(k))
			if softmax {
				sum := 0.0
				for c := range classes {
					sum += math.Exp(score(c))
				}
				p -= math.Log(sum)
			}
			losses = append(losses, -p*weight[k])
			total -= p * weight[k]
			weights += weight[k]
		})
		switch reduction {
		case "sum":
			ts, losses = nil, []float64{total}
		case "mean":
			ts, losses = nil, []float64{total / weights}
		}
		if math.Abs(weights) < 1e-9 && reduction == "mean" {
			return // nothing to divide by
		}
		y := n.must(t)[0]
		for i, g := range numbers(y) {
			if math.Abs(g-losses[i]) > 1e-4*max(1, math.Abs(losses[i])) {
				t.Fatalf("%s: element %d is %v, want %v", n.op, i, g, losses[i])
			}
		}
		if !slices.Equal(y.Shape, ts) {
			t.Fatalf("%s: shape %v, want %v", n.op, y.Shape, ts)
		}
	})
}

// TestAttentionProperty compares with loops over queries and keys: groups of
// heads, a cache, masks of both kinds, causality, a cap.
func TestAttentionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := func(what string) int { return rapid.IntRange(1, 3).Draw(t, what) }
		b, kvh, group, q, k, hs, vs := small("batch"), small("kv heads"), rapid.IntRange(1, 2).Draw(t, "group"), small("queries"), small("keys"), small("head size"), small("value size")
		h := kvh * group
		past := 0
		in := []*ir.Tensor{drawTensor(t, "q", ir.F32, []int{b, h, q, hs}), drawTensor(t, "k", ir.F32, []int{b, kvh, k, hs}), drawTensor(t, "v", ir.F32, []int{b, kvh, k, vs}), nil}
		keys, values := in[1], in[2]
		if rapid.Bool().Draw(t, "cache") {
			past = small("past")
			in = append(in, drawTensor(t, "past k", ir.F32, []int{b, kvh, past, hs}), drawTensor(t, "past v", ir.F32, []int{b, kvh, past, vs}))
			joined := func(a, b *ir.Tensor) *ir.Tensor {
				s := slices.Clone(a.Shape)
				s[2] += b.Shape[2]
				return join([]*ir.Tensor{a, b}, 2, s)
			}
			keys, values = joined(in[4], keys), joined(in[5], values)
		}
		total := past + k
		mask := rapid.SampledFrom([]string{"none", "bool", "float"}).Draw(t, "mask")
		ms := [][]int{{q, total}, {1, 1, q, total}, {b, h, q, total}}[rapid.IntRange(0, 2).Draw(t, "mask rank")]
		switch mask {
		case "bool":
			in[3] = drawTensor(t, "mask", ir.Bool, ms)
		case "float":
			in[3] = drawTensor(t, "mask", ir.F32, ms)
		}
		causal := rapid.IntRange(0, 1).Draw(t, "causal")
		softcap := rapid.SampledFrom([]float32{0, 2}).Draw(t, "softcap")
		n := nodeTest{op: "Attention", opset: 24, in: in, results: 1, fixed: drawFixed(t, len(in)),
			attrs: []*onnxpb.AttributeProto{intAttr("is_causal", int64(causal)), floatAttr("softcap", softcap)}}
		at := func(x *ir.Tensor, i ...int) float64 { return numbers(x)[offsetOf(x.Shape, i)] }
		var want []float64
		for bi := range b {
			for hi := range h {
				for qi := range q {
					w := make([]float64, total)
					sum := 0.0
					for ki := range total {
						s := 0.0
						for d := range hs {
							s += at(in[0], bi, hi, qi, d) * at(keys, bi, hi/group, ki, d)
						}
						s /= math.Sqrt(float64(hs))
						if softcap != 0 {
							s = float64(softcap) * math.Tanh(s/float64(softcap))
						}
						switch m := in[3]; {
						case mask == "float":
							s += at(m, bi, hi, qi, ki)
						case mask == "bool" && at(m, bi, hi, qi, ki) == 0:
							s = math.Inf(-1)
						}
						if causal == 1 && ki > qi+past {
							s = math.Inf(-1)
						}
						w[ki] = math.Exp(s)
						sum += w[ki]
					}
					for d := range vs {
						y := 0.0
						for ki := range total {
							y += w[ki] / sum * at(values, bi, hi/group, ki, d)
						}
						want = append(want, y)
					}
				}
			}
		}
		same(t, n.op, n.must(t)[0], ir.F32, []int{b, h, q, vs}, want, 1e-5)
	})
}

// TestMatMulProperty checks products of all element types with batches that
// broadcast, and vectors.
func TestMatMulProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64, ir.F16, ir.I32, ir.I64, ir.U32, ir.U64}).Draw(t, "type")
		m, k, n := rapid.IntRange(1, 3).Draw(t, "m"), rapid.IntRange(0, 3).Draw(t, "k"), rapid.IntRange(1, 3).Draw(t, "n")
		batch := drawShape(t, "batch", 0, 2, 1, 3)
		other := slices.Clone(batch[rapid.IntRange(0, len(batch)).Draw(t, "dropped"):])
		for i := range other {
			if rapid.Bool().Draw(t, "broadcast") {
				other[i] = 1
			}
		}
		sa, sb := slices.Concat(batch, []int{m, k}), slices.Concat(other, []int{k, n})
		if rapid.Bool().Draw(t, "swap") {
			sa, sb = slices.Concat(other, []int{m, k}), slices.Concat(batch, []int{k, n})
		}
		a, b := drawTensor(t, "a", d, sa), drawTensor(t, "b", d, sb)
		out := slices.Concat(batch, []int{m, n})
		x, z := numbers(a), numbers(b)
		var want []float64
		each(out, func(at []int) {
			lead := at[:len(batch)]
			sum := 0.0
			for i := range k {
				sum += x[offsetOf(sa, slices.Concat(lead, []int{at[len(batch)], i}))] * z[offsetOf(sb, slices.Concat(lead, []int{i, at[len(batch)+1]}))]
			}
			want = append(want, sum)
		})
		y := nodeTest{op: "MatMul", opset: 13, in: []*ir.Tensor{a, b}, fixed: drawFixed(t, 2)}.must(t)[0]
		same(t, "MatMul", y, d, out, want, 0)
	})
}

// TestDFTProperty compares with the sum that defines the transform, for any
// axis, cropped or padded, of real and complex numbers, forwards and back.
func TestDFTProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.IntRange(1, 2).Draw(t, "parts")
		s := append(drawShape(t, "shape", 1, 3, 1, 4), parts)
		axis := rapid.IntRange(0, len(s)-2).Draw(t, "axis")
		x := drawTensor(t, "x", ir.F32, s)
		inverse, half := rapid.IntRange(0, 1).Draw(t, "inverse"), 0
		if parts == 1 && inverse == 0 {
			half = rapid.IntRange(0, 1).Draw(t, "onesided")
		}
		n := rapid.IntRange(1, 5).Draw(t, "length")
		y := nodeTest{op: "DFT", opset: 20, in: []*ir.Tensor{x, i64(nil, []int64{int64(n)}), i64(nil, []int64{int64(axis)})},
			fixed: []bool{rapid.Bool().Draw(t, "constant"), true, true},
			attrs: []*onnxpb.AttributeProto{intAttr("inverse", int64(inverse)), intAttr("onesided", int64(half))}}.must(t)[0]
		out := slices.Clone(s)
		out[axis], out[len(s)-1] = n, 2
		if half == 1 {
			out[axis] = n/2 + 1
		}
		v := numbers(x)
		var want []float64
		each(out, func(at []int) {
			sum := complex(0, 0)
			for j := range min(n, s[axis]) {
				from := slices.Clone(at)
				from[axis], from[len(s)-1] = j, 0
				e := complex(v[offsetOfDense(s, from)], 0)
				if parts == 2 {
					from[len(s)-1] = 1
					e += complex(0, v[offsetOfDense(s, from)])
				}
				angle := -2 * math.Pi * float64(j) * float64(at[axis]) / float64(n)
				if inverse == 1 {
					angle = -angle
				}
				sum += e * complex(math.Cos(angle), math.Sin(angle))
			}
			if inverse == 1 {
				sum /= complex(float64(n), 0)
			}
			want = append(want, []float64{real(sum), imag(sum)}[at[len(s)-1]])
		})
		got := numbers(y)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-4 {
				t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
			}
		}
		if !slices.Equal(y.Shape, out) {
			t.Fatalf("shape %v, want %v", y.Shape, out)
		}
		if half == 0 || s[axis] != n {
			return
		}
		// Half a spectrum goes back to the numbers it came from.
		back := nodeTest{op: "DFT", opset: 20, in: []*ir.Tensor{y, i64(nil, []int64{int64(n)}), i64(nil, []int64{int64(axis)})},
			fixed: []bool{false, true, true}, attrs: []*onnxpb.AttributeProto{intAttr("inverse", 1), intAttr("onesided", 1)}}.must(t)[0]
		same(t, "back", back, ir.F32, s, v, 1e-5)
	})
}

// TestTfIdfProperty counts sequences by hand.
func TestTfIdfProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, width := rapid.IntRange(1, 3).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "width")
		few := rapid.Int64Range(0, 2)
		list := rapid.SliceOfN(few, rows*width, rows*width).Draw(t, "x")
		// Single elements 0 and 2, and the pairs 0 0, 0 1 and 2 1.
		pool := [][]int64{{0}, {2}, {0, 0}, {0, 1}, {2, 1}}
		skips := rapid.IntRange(0, 2).Draw(t, "skips")
		lo := rapid.IntRange(1, 2).Draw(t, "shortest")
		hi := rapid.IntRange(lo, 2).Draw(t, "longest")
		indexes := []int64{4, 0, 1, 6, 2}
		mode := rapid.SampledFrom([]string{"TF", "IDF", "TFIDF"}).Draw(t, "mode")
		weights := []float32{1, 2, 0.5, 3, 4}
		y := nodeTest{op: "TfIdfVectorizer", opset: 9, in: []*ir.Tensor{i64([]int{rows, width}, list)}, attrs: []*onnxpb.AttributeProto{
			intAttr("min_gram_length", int64(lo)), intAttr("max_gram_length", int64(hi)), intAttr("max_skip_count", int64(skips)),
			intsAttr("ngram_counts", 0, 2), intsAttr("ngram_indexes", indexes...), intsAttr("pool_int64s", 0, 2, 0, 0, 0, 1, 2, 1),
			strAttr("mode", mode), {Name: "weights", Type: onnxpb.AttributeProto_FLOATS, Floats: weights}}}.must(t)[0]
		want := make([]float64, rows*7)
		for r := range rows {
			row := list[r*width : (r+1)*width]
			for p, gram := range pool {
				count := 0.0
				for s := 0; s <= skips && len(gram) >= lo && len(gram) <= hi; s++ {
					for i := range row {
						if j := i + s + 1; len(gram) == 1 && s == 0 && row[i] == gram[0] ||
							len(gram) == 2 && j < width && row[i] == gram[0] && row[j] == gram[1] {
							count++
						}
					}
				}
				switch {
				case mode == "IDF" && count > 0:
					count = float64(weights[p])
				case mode == "TFIDF":
					count *= float64(weights[p])
				}
				want[r*7+int(indexes[p])] = count
			}
		}
		same(t, mode, y, ir.F32, []int{rows, 7}, want, 0)
	})
}

// TestCastProperty checks that a cast means the same at import and in a run, for
// every pair of element types, numbers out of range, infinities and NaN included.
func TestCastProperty(t *testing.T) {
	types := slices.Concat(anyType, []ir.DType{ir.I4, ir.U4})
	wild := []float64{0, -0.5, 0.5, 1.5, -1, 7.9, 8, -8.5, 15.5, 127.5, 128, -129, 255.9, 256, 32768, 65535.5, 65536,
		-2147483649, 2147483648, 4294967296, 9.3e18, -9.3e18, 1.9e19, 3e38, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, 65519, 65520, -3e-8}
	for _, from := range types {
		var x *ir.Tensor
		if from.IsFloat() {
			x = fromFloats(from, []int{len(wild)}, wild)
		} else {
			x = fromInts(from, []int{8}, []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 7, 200, 70000})
		}
		for _, to := range types {
			n := nodeTest{op: "Cast", opset: 21, in: []*ir.Tensor{x}, attrs: []*onnxpb.AttributeProto{intAttr("to", int64(protoDType(to)))}}
			run, err := n.run()
			if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
				continue
			}
			n.fixed = []bool{true}
			folded, err := n.run()
			if err != nil {
				t.Errorf("%s to %s at import: %v", from, to, err)
				continue
			}
			a, b, v := numbers(run[0]), numbers(folded[0]), numbers(x)
			for i := range a {
				if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
					t.Errorf("%s to %s: %v becomes %v in a run, %v at import", from, to, v[i], a[i], b[i])
				}
			}
		}
	}
}
