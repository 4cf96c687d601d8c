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

// drawCodes draws elements of an 8-bit type over all of its range.
func drawCodes(t *rapid.T, what string, d ir.DType, shape []int) *ir.Tensor {
	lo, hi := d.IntRange()
	n := ir.Numel(shape)
	return fromInts(d, shape, rapid.SliceOfN(rapid.Int64Range(lo, hi), n, n).Draw(t, what))
}

var types8 = []ir.DType{ir.I8, ir.U8}

// zeroAt is the zero point of an element, 0 when there are none.
func zeroAt(z *ir.Tensor, at []int) int64 {
	switch {
	case z == nil:
		return 0
	case z.Numel() == 1:
		return int64s(z)[0]
	}
	return int64s(z)[offsetOf(z.Shape, at)]
}

// drawZero draws zero points for a factor of shape s: none, one, one a row
// (axis −2) or column (axis −1), or one a row or column of each matrix. place is
// the form that broadcasts.
func drawZero(t *rapid.T, what string, d ir.DType, s []int, axis int) (given, place *ir.Tensor) {
	kinds := []string{"none", "scalar", "one"}
	if len(s) >= 2 {
		kinds = append(kinds, "each", "each of all")
	}
	n := len(s)
	switch rapid.SampledFrom(kinds).Draw(t, what+" zero points") {
	case "scalar":
		given = drawCodes(t, what+" zero", d, nil)
	case "one":
		given = drawCodes(t, what+" zero", d, []int{1})
	case "each":
		given = drawCodes(t, what+" zero", d, []int{s[n+axis]})
		if axis == -2 {
			return given, given.Reshaped(s[n-2], 1)
		}
	case "each of all":
		shape := slices.Clone(s)
		shape[n-3-axis] = 1
		given = drawCodes(t, what+" zero", d, shape)
	}
	return given, given
}

// TestMatMulIntegerProperty sums products of differences in int32, whatever form
// the zero points have and whether they are known.
func TestMatMulIntegerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		da, db := rapid.SampledFrom(types8).Draw(t, "a"), rapid.SampledFrom(types8).Draw(t, "b")
		m, k, n := rapid.IntRange(1, 3).Draw(t, "m"), rapid.IntRange(1, 4).Draw(t, "k"), rapid.IntRange(1, 3).Draw(t, "n")
		lead := rapid.SampledFrom([][]int{nil, {2}, {2, 3}}).Draw(t, "lead")
		sa, sb := slices.Concat(lead, []int{m, k}), []int{k, n}
		if rapid.Bool().Draw(t, "batched b") {
			sb = slices.Concat(lead, sb)
		}
		a, b := drawCodes(t, "a", da, sa), drawCodes(t, "b", db, sb)
		za, pa := drawZero(t, "a", da, sa, -2)
		zb, pb := drawZero(t, "b", db, sb, -1)
		var want []float64
		shape := slices.Concat(lead, []int{m, n})
		each(shape, func(at []int) {
			sum := int32(0)
			for i := range k {
				ia := append(slices.Clone(at[:len(at)-1]), i)
				ib := append(slices.Clone(at[:len(at)-2]), i, at[len(at)-1])
				x := int64s(a)[offsetOf(sa, ia)] - zeroAt(pa, ia)
				y := int64s(b)[offsetOf(sb, ib)] - zeroAt(pb, ib)
				sum += int32(x * y)
			}
			want = append(want, float64(sum))
		})
		in := []*ir.Tensor{a, b, za, zb}
		for in[len(in)-1] == nil {
			in = in[:len(in)-1]
		}
		got := nodeTest{op: "MatMulInteger", opset: 10, in: in, fixed: drawFixed(t, len(in))}.must(t)
		same(t, fmt.Sprint(shapesOf(in)), got[0], ir.I32, shape, want, 0)
	})
}

func TestConvIntegerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWindow(t, true)
		if len(w.in) > 2 {
			t.Skip("one or two dimensions")
		}
		dx, dw := rapid.SampledFrom(types8).Draw(t, "x"), rapid.SampledFrom(types8).Draw(t, "w")
		c, o := rapid.IntRange(1, 2).Draw(t, "channels"), rapid.IntRange(1, 3).Draw(t, "out")
		x, k := drawCodes(t, "x", dx, slices.Concat([]int{2, c}, w.in)), drawCodes(t, "w", dw, slices.Concat([]int{o, c}, w.kernel))
		zx := drawCodes(t, "zero of x", dx, nil)
		zw := drawCodes(t, "zero of w", dw, []int{rapid.SampledFrom([]int{1, o}).Draw(t, "zeros of w")})
		shape := slices.Concat([]int{2, o}, w.out(false))
		var want []float64
		each(shape, func(at []int) {
			sum := int64(0)
			for ch := range c {
				w.taps(at[2:], func(tap int, p []int, inside, _ bool) {
					if inside {
						sum += (int64s(x)[offsetOfDense(x.Shape, slices.Concat([]int{at[0], ch}, p))] - int64s(zx)[0]) *
							(int64s(k)[(at[1]*c+ch)*ir.Numel(w.kernel)+tap] - int64s(zw)[at[1]%zw.Numel()])
					}
				})
			}
			want = append(want, float64(int32(sum)))
		})
		fixed := append(drawFixed(t, 3), true)
		got := nodeTest{op: "ConvInteger", opset: 10, attrs: w.attrs, in: []*ir.Tensor{x, k, zx, zw}, fixed: fixed}.must(t)
		same(t, fmt.Sprint(w.attrs), got[0], ir.I32, shape, want, 0)
	})
}

// drawScales draws powers of two and zero points for x: one, one for each index
// of an axis, or one a block; of returns the index of an element's.
func drawScales(t *rapid.T, d ir.DType, x []int) (scale, zero *ir.Tensor, attrs []*onnxpb.AttributeProto, of func(at []int) int) {
	axis, named := drawAxis(t, len(x))
	attrs = []*onnxpb.AttributeProto{intAttr("axis", named)}
	var shape []int
	switch rapid.SampledFrom([]string{"one", "axis", "blocks"}).Draw(t, "scales") {
	case "one":
		of = func([]int) int { return 0 }
	case "axis":
		shape = []int{x[axis]}
		of = func(at []int) int { return at[axis] }
	default:
		block := rapid.IntRange(1, x[axis]).Draw(t, "block")
		attrs = append(attrs, intAttr("block_size", int64(block)))
		shape = slices.Clone(x)
		shape[axis] = (x[axis] + block - 1) / block
		of = func(at []int) int {
			at = slices.Clone(at)
			at[axis] /= block
			return offsetOfDense(shape, at)
		}
	}
	s := make([]float64, ir.Numel(shape))
	for i := range s {
		s[i] = math.Ldexp(1, rapid.IntRange(-3, 1).Draw(t, "scale"))
	}
	zero = drawCodes(t, "zero", d, shape)
	if rapid.Bool().Draw(t, "symmetric") {
		zero = ir.Zeros(d, shape...)
	}
	return fromFloats(ir.F32, shape, s), zero, attrs, of
}

// TestQuantizeProperty covers QuantizeLinear and DequantizeLinear with scales for
// all, along an axis and in blocks, known or not.
func TestQuantizeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8, ir.I16, ir.U16, ir.I4, ir.U4}).Draw(t, "type")
		shape := drawShape(t, "shape", 1, 3, 1, 5)
		scale, zero, attrs, of := drawScales(t, d, shape)
		s, z := float64s(scale), int64s(zero)
		lo, hi := d.IntRange()
		fixed := append([]bool{false}, drawFixed(t, 2)...)
		if rapid.Bool().Draw(t, "quantize") {
			n := ir.Numel(shape)
			v := make([]float64, n)
			for i := range v {
				v[i] = float64(rapid.IntRange(-1200, 1200).Draw(t, "x")) / 16
			}
			var want []float64
			i := 0
			each(shape, func(at []int) {
				j := of(at)
				q := math.RoundToEven(v[i]/s[j]) + float64(z[j])
				want = append(want, max(float64(lo), min(float64(hi), q)))
				i++
			})
			got := nodeTest{op: "QuantizeLinear", opset: 21, attrs: attrs, in: []*ir.Tensor{fromFloats(ir.F32, shape, v), scale, zero}, fixed: fixed}.must(t)
			same(t, fmt.Sprint(attrs), got[0], d, shape, want, 0)
			return
		}
		x := drawCodes(t, "codes", d, shape)
		var want []float64
		i := 0
		each(shape, func(at []int) {
			j := of(at)
			want = append(want, float64(int64s(x)[i]-z[j])*s[j])
			i++
		})
		fixed[0] = rapid.Bool().Draw(t, "constant codes")
		got := nodeTest{op: "DequantizeLinear", opset: 21, attrs: attrs, in: []*ir.Tensor{x, scale, zero}, fixed: fixed}.must(t)
		same(t, fmt.Sprint(attrs), got[0], ir.F32, shape, want, 0)
	})
}

// TestDynamicQuantizeProperty: the result dequantizes to within half a step of
// the operand, the range includes 0, and all zeros have scale 1.
func TestDynamicQuantizeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t, "shape", 0, 3, 1, 4)
		x := drawTensor(t, "x", ir.F32, shape)
		v := float64s(x)
		lo, hi := 0.0, 0.0
		for _, e := range v {
			lo, hi = min(lo, e), max(hi, e)
		}
		got := nodeTest{op: "DynamicQuantizeLinear", opset: 11, in: []*ir.Tensor{x}, results: 3}.must(t)
		step := float32(hi-lo) / 255
		if hi == lo {
			step = 1
		}
		zero := math.RoundToEven(float64(float32(0-lo) / step))
		same(t, "scale", got[1], ir.F32, nil, []float64{float64(step)}, 0)
		same(t, "zero point", got[2], ir.U8, nil, []float64{zero}, 0)
		var want []float64
		for _, e := range v {
			want = append(want, max(0, min(255, math.RoundToEven(float64(float32(e)/step))+zero)))
		}
		same(t, "codes", got[0], ir.U8, shape, want, 0)
	})
}

// TestQLinearMatMulProperty: exact sums times sa·sb/sy in float32, with scales and
// zero points one for all or one a row and column, known or not, in float16 too.
func TestQLinearMatMulProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(types8).Draw(t, "type")
		m, k, n := rapid.IntRange(1, 3).Draw(t, "m"), rapid.IntRange(1, 4).Draw(t, "k"), rapid.IntRange(1, 3).Draw(t, "n")
		a, b := drawCodes(t, "a", d, []int{m, k}), drawCodes(t, "b", d, []int{k, n})
		power := func(what string, n int) *ir.Tensor {
			v := make([]float64, n)
			for i := range v {
				v[i] = math.Ldexp(1, rapid.IntRange(-4, 2).Draw(t, what))
			}
			return fromFloats(ir.F32, []int{n}, v)
		}
		rows, columns := 1, 1
		if rapid.Bool().Draw(t, "a row") {
			rows = m
		}
		if rapid.Bool().Draw(t, "a column") {
			columns = n
		}
		sa, sb, sy := power("sa", rows), power("sb", columns), power("sy", 1)
		za, zb, zy := drawCodes(t, "za", d, []int{rows}), drawCodes(t, "zb", d, []int{columns}), drawCodes(t, "zy", d, []int{1})
		lo, hi := d.IntRange()
		var want []float64
		each([]int{m, n}, func(at []int) {
			i, j := at[0]%rows, at[1]%columns
			sum := int64(0)
			for l := range k {
				sum += (int64s(a)[at[0]*k+l] - int64s(za)[i]) * (int64s(b)[l*n+at[1]] - int64s(zb)[j])
			}
			q := math.RoundToEven(float64(sum)*float64s(sa)[i]*float64s(sb)[j]/float64s(sy)[0]) + float64(int64s(zy)[0])
			want = append(want, max(float64(lo), min(float64(hi), q)))
		})
		in := []*ir.Tensor{a, sa, za, b, sb, zb, sy, zy}
		got := nodeTest{op: "QLinearMatMul", opset: 21, in: in, fixed: drawFixed(t, len(in))}.must(t)
		same(t, fmt.Sprint(shapesOf(in)), got[0], d, []int{m, n}, want, 0)
	})
}
