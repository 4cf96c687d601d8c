package onnx

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// standardised is (x − mean) / sqrt(variance + epsilon) of the elements that
// group names alike; it returns mean and variance of each group, too.
func standardised(x []float64, group func(i int) int, epsilon float64) (y []float64, mean, variance map[int]float64) {
	mean, variance = map[int]float64{}, map[int]float64{}
	count := map[int]float64{}
	for i, v := range x {
		mean[group(i)] += v
		count[group(i)]++
	}
	for g := range mean {
		mean[g] /= count[g]
	}
	for i, v := range x {
		g := group(i)
		variance[g] += (v - mean[g]) * (v - mean[g]) / count[g]
	}
	for i, v := range x {
		y = append(y, (v-mean[group(i)])/math.Sqrt(variance[group(i)]+epsilon))
	}
	return y, mean, variance
}

// TestNormalisationProperty compares the normalisations with their definition.
func TestNormalisationProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op := rapid.SampledFrom([]string{"BatchNormalization", "training", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "MeanVarianceNormalization"}).Draw(t, "op")
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64}).Draw(t, "type")
		n := rapid.IntRange(1, 3).Draw(t, "spatial dimensions")
		groups := rapid.IntRange(1, 2).Draw(t, "groups")
		c := groups * rapid.IntRange(1, 3).Draw(t, "channels")
		shape := slices.Concat([]int{2, c}, drawInts(t, "in", n, 1, 4))
		x := drawTensor(t, "x", d, shape)
		xs, inner := float64s(x), ir.Numel(shape[2:])
		channel := func(i int) int { return i / inner % c }
		image := func(i int) int { return i / inner / c }
		const epsilon = 0.25
		test := nodeTest{op: op, opset: 17, attrs: []*onnxpb.AttributeProto{floatAttr("epsilon", epsilon)}}
		param := func(what string, shape ...int) []float64 {
			p := drawTensor(t, what, d, shape)
			test.in = append(test.in, p)
			return float64s(p)
		}
		test.in = []*ir.Tensor{x}
		var want []float64
		affine := func(scale, bias []float64, of func(i int) int) {
			for i := range want {
				want[i] = want[i]*scale[of(i)] + bias[of(i)]
			}
		}
		results := map[int][]float64{}
		switch op {
		case "BatchNormalization", "training":
			test.op = "BatchNormalization"
			scale, bias := param("scale", c), param("bias", c)
			mean, variance := param("mean", c), param("variance", c)
			for i, v := range variance {
				variance[i] = math.Abs(v)
			}
			test.in[4] = fromFloats(d, []int{c}, variance)
			if op == "training" {
				test.attrs, test.results = append(test.attrs, intAttr("training_mode", 1), floatAttr("momentum", 0.75)), 3
				y, m, v := standardised(xs, channel, epsilon)
				want = y
				for i := range c {
					results[1] = append(results[1], mean[i]*0.75+m[i]*0.25)
					results[2] = append(results[2], variance[i]*0.75+v[i]*0.25)
				}
			} else {
				for i, v := range xs {
					want = append(want, (v-mean[channel(i)])/math.Sqrt(variance[channel(i)]+epsilon))
				}
			}
			affine(scale, bias, channel)
		case "InstanceNormalization":
			scale, bias := param("scale", c), param("bias", c)
			want, _, _ = standardised(xs, func(i int) int { return i / inner }, epsilon)
			affine(scale, bias, channel)
		case "GroupNormalization":
			test.opset, test.attrs = 21, append(test.attrs, intAttr("num_groups", int64(groups)))
			group := func(i int) int { return channel(i) / (c / groups) }
			of, count := channel, c
			if rapid.Bool().Draw(t, "of opset 18") {
				test.opset, of, count = 18, group, groups
			}
			scale, bias := param("scale", count), param("bias", count)
			want, _, _ = standardised(xs, func(i int) int { return image(i)*groups + group(i) }, epsilon)
			affine(scale, bias, of)
		case "LayerNormalization":
			axis, named := drawAxis(t, len(shape))
			test.attrs = append(test.attrs, intAttr("axis", named))
			part := ir.Numel(shape[axis:])
			scale, bias := param("scale", shape[axis:]...), param("bias", shape[axis:]...)
			want, _, _ = standardised(xs, func(i int) int { return i / part }, epsilon)
			affine(scale, bias, func(i int) int { return i % part })
		default:
			axis, named := drawAxis(t, len(shape))
			test.attrs = []*onnxpb.AttributeProto{intsAttr("axes", named)}
			inner := ir.Numel(shape[axis+1:])
			group := func(i int) int { return i/inner/shape[axis]*inner + i%inner }
			_, mean, variance := standardised(xs, group, 0)
			for i, v := range xs {
				want = append(want, (v-mean[group(i)])/(math.Sqrt(variance[group(i)])+1e-9))
			}
		}
		test.fixed = append([]bool{false}, drawFixed(t, len(test.in)-1)...)
		got := test.must(t)
		same(t, fmt.Sprint(op, test.attrs), got[0], d, shape, want, 1e-4)
		for i, r := range results {
			same(t, fmt.Sprint(op, " result ", i), got[i], d, []int{c}, r, 1e-4)
		}
	})
}

// TestSuppressionProperty: every box that is not chosen has too low a score or
// overlaps a better chosen one, unless there are enough; chosen ones do not
// overlap each other.
func TestSuppressionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		boxes, classes := rapid.IntRange(1, 6).Draw(t, "boxes"), rapid.IntRange(1, 2).Draw(t, "classes")
		limit := rapid.IntRange(0, 4).Draw(t, "limit")
		centred := rapid.Bool().Draw(t, "centred")
		var b, s []float64
		var corners [][4]float64 // of each box: lowest and highest y, then x
		for range boxes {
			v := drawInts(t, "box", 4, 0, 6)
			if centred {
				b = append(b, float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3]))
				x, y, w, h := float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3])
				corners = append(corners, [4]float64{y - h/2, y + h/2, x - w/2, x + w/2})
			} else {
				b = append(b, float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3]))
				corners = append(corners, [4]float64{float64(min(v[0], v[2])), float64(max(v[0], v[2])), float64(min(v[1], v[3])), float64(max(v[1], v[3]))})
			}
		}
		for range classes * boxes {
			s = append(s, float64(rapid.IntRange(0, 8).Draw(t, "score"))/8)
		}
		overlaps := func(i, j int) bool {
			a, b := corners[i], corners[j]
			area := func(c [4]float64) float64 { return (c[1] - c[0]) * (c[3] - c[2]) }
			both := max(0, min(a[1], b[1])-max(a[0], b[0])) * max(0, min(a[3], b[3])-max(a[2], b[2]))
			return area(a) > 0 && area(b) > 0 && both > 0.5*(area(a)+area(b)-both)
		}
		number := func(v float64) *ir.Tensor { return fromFloats(ir.F32, nil, []float64{v}) }
		attrs := []*onnxpb.AttributeProto{}
		if centred {
			attrs = append(attrs, intAttr("center_point_box", 1))
		}
		out := nodeTest{op: "NonMaxSuppression", opset: 11, attrs: attrs, fixed: slices.Repeat([]bool{true}, 5), in: []*ir.Tensor{
			fromFloats(ir.F32, []int{1, boxes, 4}, b), fromFloats(ir.F32, []int{1, classes, boxes}, s),
			i64(nil, []int64{int64(limit)}), number(0.5), number(0.25)}}.must(t)
		chosen := make([][]int, classes)
		list := int64s(out[0])
		for i := 0; i < len(list); i += 3 {
			chosen[list[i+1]] = append(chosen[list[i+1]], int(list[i+2]))
		}
		for class, kept := range chosen {
			score := s[class*boxes:][:boxes]
			if len(kept) > limit {
				t.Fatalf("%d boxes, at most %d are wanted", len(kept), limit)
			}
			for n, i := range kept {
				for _, j := range kept[:n] {
					if overlaps(i, j) || score[j] < score[i] {
						t.Fatalf("box %d is chosen after %d: scores %v", i, j, score)
					}
				}
				if score[i] <= 0.25 {
					t.Fatalf("box %d is chosen with score %v", i, score[i])
				}
			}
			for i := range boxes {
				better := slices.ContainsFunc(kept, func(j int) bool { return overlaps(i, j) && score[j] >= score[i] })
				if !slices.Contains(kept, i) && score[i] > 0.25 && len(kept) < limit && !better {
					t.Fatalf("box %d with score %v is not chosen: %v", i, score[i], kept)
				}
			}
		}
	})
}
