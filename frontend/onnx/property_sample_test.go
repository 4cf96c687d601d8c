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

// sampleAt is the value of a function of integers at a real coordinate, by the
// standard's kernels: nearest, linear, or cubic with coefficient a.
func sampleAt(mode string, a, at float64, f func(i int) float64) float64 {
	base := int(math.Floor(at))
	r := at - math.Floor(at)
	switch mode {
	case "nearest":
		return f(int(math.RoundToEven(at)))
	case "linear":
		return (1-r)*f(base) + r*f(base+1)
	}
	w := [4]float64{
		((a*(r+1)-5*a)*(r+1)+8*a)*(r+1) - 4*a,
		((a+2)*r-(a+3))*r*r + 1,
		((a+2)*(1-r)-(a+3))*(1-r)*(1-r) + 1,
		((a*(2-r)-5*a)*(2-r)+8*a)*(2-r) - 4*a,
	}
	sum := 0.0
	for i := range w {
		sum += w[i] * f(base-1+i)
	}
	return sum
}

// TestGridSampleProperty follows the standard: coordinates from −1 to 1, what is
// outside being zeros, the border or a reflection.
func TestGridSampleProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "spatial dimensions")
		mode := rapid.SampledFrom([]string{"nearest", "linear", "cubic"}).Draw(t, "mode")
		padding := rapid.SampledFrom([]string{"zeros", "border", "reflection"}).Draw(t, "padding")
		align := rapid.Bool().Draw(t, "align")
		size, out := drawInts(t, "in", n, 1, 4), drawInts(t, "out", n, 1, 3)
		x := drawTensor(t, "x", ir.F32, slices.Concat([]int{2, 2}, size))
		grid := make([]float64, 2*ir.Numel(out)*n)
		for i := range grid {
			// Not at halves, where rounding to float32 would decide.
			grid[i] = float64(rapid.IntRange(-24, 24).Draw(t, "coordinate"))/13 + 1.0/128
		}
		attrs := []*onnxpb.AttributeProto{strAttr("mode", mode), strAttr("padding_mode", padding)}
		if align {
			attrs = append(attrs, intAttr("align_corners", 1))
		}
		// inside returns the position that p stands for, false for a zero.
		inside := func(p, size int) (int, bool) {
			if p >= 0 && p < size {
				return p, true
			}
			switch padding {
			case "zeros":
				return 0, false
			case "border":
				return min(max(p, 0), size-1), true
			}
			for p < 0 || p >= size {
				switch {
				case align && size == 1:
					p = 0
				case align && p < 0:
					p = -p
				case align:
					p = 2*(size-1) - p
				case p < 0:
					p = -1 - p
				default:
					p = 2*size - 1 - p
				}
			}
			return p, true
		}
		shape := slices.Concat([]int{2, 2}, out)
		var want []float64
		each(shape, func(at []int) {
			coordinates := grid[offsetOfDense(slices.Concat([]int{2}, out), slices.Concat(at[:1], at[2:]))*n:][:n]
			var along func(d, base int) float64
			along = func(d, base int) float64 {
				if d == n {
					return float64s(x)[base]
				}
				g, s := float64(float32(coordinates[n-1-d])), float64(size[d])
				p := ((g+1)*s - 1) / 2
				lo, hi := -0.5, s-0.5
				if align {
					p, lo, hi = (g+1)/2*(s-1), 0, s-1
				}
				// Coordinates are brought inside first, elements around them then.
				for padding == "reflection" && (p < lo || p > hi) {
					if lo == hi {
						p = lo
					} else if p < lo {
						p = 2*lo - p
					} else {
						p = 2*hi - p
					}
				}
				if padding == "border" {
					p = min(max(p, 0), s-1)
				}
				return sampleAt(mode, -0.75, p, func(i int) float64 {
					if i, ok := inside(i, size[d]); ok {
						return along(d+1, base*size[d]+i)
					}
					return 0
				})
			}
			want = append(want, along(0, at[0]*2+at[1]))
		})
		in := []*ir.Tensor{x, fromFloats(ir.F32, slices.Concat([]int{2}, out, []int{n}), grid)}
		got := nodeTest{op: "GridSample", opset: 20, attrs: attrs, in: in}.must(t)
		same(t, fmt.Sprint(attrs), got[0], ir.F32, shape, want, 1e-4)
	})
}

// TestDeformConvProperty samples by the definition; with offsets of 0 it is a
// convolution.
func TestDeformConvProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2).Draw(t, "spatial dimensions")
		w := &windowCase{in: drawInts(t, "in", n, 2, 5), kernel: drawInts(t, "kernel", n, 1, 2), strides: drawInts(t, "strides", n, 1, 2),
			dilations: drawInts(t, "dilations", n, 1, 2), begin: drawInts(t, "begin", n, 0, 1), end: drawInts(t, "end", n, 0, 1)}
		for d := range n {
			if w.in[d]+w.begin[d]+w.end[d] < (w.kernel[d]-1)*w.dilations[d]+1 {
				t.Skip("does not fit")
			}
		}
		groups, parts := rapid.IntRange(1, 2).Draw(t, "groups"), rapid.IntRange(1, 2).Draw(t, "offset groups")
		c, o, taps, out := 2*rapid.IntRange(1, 2).Draw(t, "channels"), 2, ir.Numel(w.kernel), w.out(false)
		x := drawTensor(t, "x", ir.F32, slices.Concat([]int{2, c}, w.in))
		k := drawTensor(t, "w", ir.F32, slices.Concat([]int{o, c / groups}, w.kernel))
		offset := drawTensor(t, "offset", ir.F32, slices.Concat([]int{2, parts * taps * n}, out))
		in := []*ir.Tensor{x, k, offset}
		mask := slices.Repeat([]float64{1}, 2*parts*taps*ir.Numel(out))
		if rapid.Bool().Draw(t, "mask given") {
			m := drawTensor(t, "mask", ir.F32, slices.Concat([]int{2, parts * taps}, out))
			in, mask = append(in, nil, m), float64s(m)
		}
		shape := slices.Concat([]int{2, o}, out)
		var want []float64
		each(shape, func(at []int) {
			sum := 0.0
			for i := range c / groups {
				ch := at[1]/(o/groups)*(c/groups) + i
				part := ch / (c / parts)
				w.taps(at[2:], func(tap int, p []int, _, _ bool) {
					place := func(channel, of int) int {
						return offsetOfDense(slices.Concat([]int{2, of}, out), slices.Concat([]int{at[0], channel}, at[2:]))
					}
					var along func(d, base int) float64
					along = func(d, base int) float64 {
						if d == n {
							return float64s(x)[base]
						}
						shift := float64s(offset)[place((part*taps+tap)*n+d, parts*taps*n)]
						return sampleAt("linear", 0, float64(p[d])+shift, func(i int) float64 {
							if i < 0 || i >= w.in[d] {
								return 0
							}
							return along(d+1, base*w.in[d]+i)
						})
					}
					v := along(0, at[0]*c+ch) * mask[place(part*taps+tap, parts*taps)]
					sum += v * float64s(k)[(at[1]*(c/groups)+i)*taps+tap]
				})
			}
			want = append(want, sum)
		})
		attrs := []*onnxpb.AttributeProto{intsAttr("kernel_shape", int64List(w.kernel)...), intsAttr("strides", int64List(w.strides)...),
			intsAttr("dilations", int64List(w.dilations)...), intsAttr("pads", int64List(slices.Concat(w.begin, w.end))...),
			intAttr("group", int64(groups)), intAttr("offset_group", int64(parts))}
		got := nodeTest{op: "DeformConv", opset: 19, attrs: attrs, in: in, fixed: drawFixed(t, len(in))}.must(t)
		same(t, fmt.Sprint(attrs), got[0], ir.F32, shape, want, 1e-5)
	})
}

// TestResizeProperty follows the standard's formulas for every combination of
// mode, coordinates, rounding, exclusion, antialiasing, policy and axes.
func TestResizeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "dimensions")
		in := drawInts(t, "in", n, 1, 6)
		mode := rapid.SampledFrom([]string{"nearest", "linear", "cubic"}).Draw(t, "mode")
		coordinates := rapid.SampledFrom([]string{"asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize"}).Draw(t, "coordinates")
		rounding := rapid.SampledFrom([]string{"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}).Draw(t, "nearest_mode")
		antialias := mode != "nearest" && rapid.Bool().Draw(t, "antialias")
		exclude := mode == "cubic" && rapid.Bool().Draw(t, "exclude")
		attrs := []*onnxpb.AttributeProto{strAttr("mode", mode), strAttr("coordinate_transformation_mode", coordinates),
			strAttr("nearest_mode", rounding), floatAttr("extrapolation_value", 7), floatAttr("cubic_coeff_a", -0.5)}
		if antialias {
			attrs = append(attrs, intAttr("antialias", 1))
		}
		if exclude {
			attrs = append(attrs, intAttr("exclude_outside", 1))
		}
		axes := rapid.Permutation(rapid.Just([]int{0, 1, 2}[:n]).Draw(t, "all")).Draw(t, "axes")
		axes = axes[:rapid.IntRange(1, n).Draw(t, "axes given")]
		attrs = append(attrs, intsAttr("axes", int64List(axes)...))
		x := drawTensor(t, "x", ir.F32, in)
		ops := []*ir.Tensor{x, nil, nil, nil}
		out, scale := slices.Clone(in), slices.Repeat([]float64{1}, n)
		begin, end := make([]float64, n), slices.Repeat([]float64{1}, n)
		if rapid.Bool().Draw(t, "by scales") {
			var s []float64
			for _, d := range axes {
				scale[d] = float64(rapid.SampledFrom([]int{1, 2, 3, 4, 5, 8, 10, 12}).Draw(t, "scale")) / 4
				if out[d] = int(float64(in[d]) * scale[d]); out[d] < 1 {
					t.Skip("nothing is left")
				}
				s = append(s, scale[d])
			}
			ops[2] = fromFloats(ir.F32, []int{len(s)}, s)
		} else {
			policy := rapid.SampledFrom([]string{"stretch", "not_larger", "not_smaller"}).Draw(t, "policy")
			attrs = append(attrs, strAttr("keep_aspect_ratio_policy", policy))
			var s []int64
			common := 0.0
			for i, d := range axes {
				out[d] = rapid.IntRange(1, 8).Draw(t, "size")
				s = append(s, int64(out[d]))
				scale[d] = float64(out[d]) / float64(in[d])
				if i == 0 || policy == "not_larger" && scale[d] < common || policy == "not_smaller" && scale[d] > common {
					common = scale[d]
				}
			}
			if policy != "stretch" {
				for _, d := range axes {
					scale[d], out[d] = common, int(math.Floor(common*float64(in[d])+0.5))
					if out[d] < 1 {
						t.Skip("nothing is left")
					}
				}
			}
			ops[3] = i64([]int{len(s)}, s)
		}
		if coordinates == "tf_crop_and_resize" {
			roi := make([]float64, 2*len(axes))
			for i, d := range axes {
				begin[d] = float64(rapid.IntRange(-2, 4).Draw(t, "begin")) / 4
				end[d] = float64(rapid.IntRange(0, 6).Draw(t, "end")) / 4
				roi[i], roi[len(axes)+i] = begin[d], end[d]
			}
			ops[1] = fromFloats(ir.F32, []int{len(roi)}, roi)
		}
		source := func(i, d int) float64 {
			p, length, result := float64(i), float64(in[d]), float64(out[d])
			switch coordinates {
			case "asymmetric":
				return p / scale[d]
			case "align_corners":
				if out[d] == 1 {
					return 0
				}
				return p * (length - 1) / (result - 1)
			case "pytorch_half_pixel":
				if out[d] == 1 {
					return 0
				}
			case "half_pixel_symmetric":
				adjustment := result / (scale[d] * length)
				return length/2*(1-adjustment) + (p+0.5)/scale[d] - 0.5
			case "tf_crop_and_resize":
				if out[d] == 1 {
					return 0.5 * (begin[d] + end[d]) * (length - 1)
				}
				return begin[d]*(length-1) + p*(end[d]-begin[d])*(length-1)/(result-1)
			}
			return (p+0.5)/scale[d] - 0.5
		}
		kernel := func(d float64) float64 { // of unit width
			d = math.Abs(d)
			switch {
			case mode == "linear":
				return max(0, 1-d)
			case d < 1:
				return 1.5*d*d*d - 2.5*d*d + 1
			case d < 2:
				return -0.5*d*d*d + 2.5*d*d - 4*d + 2
			}
			return 0
		}
		var along func(at []int, d, base int) float64
		along = func(at []int, d, base int) float64 {
			if d == n {
				return float64s(x)[base]
			}
			element := func(i int) float64 { return along(at, d+1, base*in[d]+min(max(i, 0), in[d]-1)) }
			if !slices.Contains(axes, d) {
				return element(at[d])
			}
			p := source(at[d], d)
			if mode == "nearest" {
				switch f := p - math.Floor(p); {
				case rounding == "floor", rounding == "round_prefer_floor" && f <= 0.5, rounding == "round_prefer_ceil" && f < 0.5:
					return element(int(math.Floor(p)))
				}
				return element(int(math.Ceil(p)))
			}
			width := 1.0
			if antialias {
				width = max(1, 1/scale[d])
			}
			sum, total := 0.0, 0.0
			for i := int(math.Floor(p)) - 40; i <= int(math.Floor(p))+41; i++ {
				w := kernel((float64(i) - p) / width)
				if w == 0 || exclude && (i < 0 || i >= in[d]) {
					continue
				}
				sum += w * element(i)
				total += w
			}
			return sum / total
		}
		var want []float64
		each(out, func(at []int) {
			v := along(at, 0, 0)
			for _, d := range axes {
				if p := source(at[d], d); coordinates == "tf_crop_and_resize" && (p < 0 || p > float64(in[d]-1)) {
					v = 7
				}
			}
			want = append(want, v)
		})
		for i, w := range want {
			if math.IsNaN(w) {
				t.Skipf("element %d has no weights", i)
			}
		}
		got := nodeTest{op: "Resize", opset: 19, attrs: attrs, in: ops, fixed: []bool{false, true, true, true}}.must(t)
		same(t, fmt.Sprint(in, out, attrs), got[0], ir.F32, out, want, 1e-4)
	})
}
