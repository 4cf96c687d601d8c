package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// resampling says how Resize maps positions of the result to the operand's and
// what it makes of the elements there.
type resampling struct {
	coordinates string  // coordinate_transformation_mode
	mode        string  // nearest, linear or cubic
	nearest     string  // nearest_mode
	cubic       float64 // cubic_coeff_a
	outside     float64 // extrapolation_value
	exclude     bool    // exclude_outside
	antialias   bool
}

// An axisScale is what happens to one dimension.
type axisScale struct {
	axis, in, out int
	scale         float64
	begin, end    float64 // region of interest, as shares of in−1
}

// source returns the operand's coordinate for position i.
func (r *resampling) source(i int, a axisScale) float64 {
	x, in, out := float64(i), float64(a.in), float64(a.out)
	switch r.coordinates {
	case "asymmetric":
		return x / a.scale
	case "tf_half_pixel_for_nn": // of opset 11 only
		return (x + 0.5) / a.scale
	case "align_corners":
		if a.out == 1 {
			return 0
		}
		return x * (in - 1) / (out - 1)
	case "pytorch_half_pixel":
		if a.out == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		// The centre stays where it is although out is rounded.
		return in/2*(1-out/(a.scale*in)) + (x+0.5)/a.scale - 0.5
	case "tf_crop_and_resize":
		if a.out == 1 {
			return 0.5 * (a.begin + a.end) * (in - 1)
		}
		return a.begin*(in-1) + x*(a.end-a.begin)*(in-1)/(out-1)
	}
	return (x+0.5)/a.scale - 0.5
}

// round picks an element next to coordinate x.
func (r *resampling) round(x float64) int {
	switch r.nearest {
	case "floor":
		x = math.Floor(x)
	case "ceil":
		x = math.Ceil(x)
	case "round_prefer_ceil":
		x = math.Floor(x + 0.5)
	default: // round_prefer_floor
		x = math.Ceil(x - 0.5)
	}
	return int(x)
}

// kernel is the weight of an element at distance d from the coordinate; reach is
// the distance from which on it is 0.
func (r *resampling) kernel(d float64) float64 {
	d = math.Abs(d)
	if r.mode == "linear" {
		return max(0, 1-d)
	}
	a := r.cubic
	switch {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}

func (r *resampling) reach() float64 {
	if r.mode == "cubic" {
		return 2
	}
	return 1
}

// taps returns which elements make position at of the operand, and their
// weights, which add up to 1. Antialiasing widens the kernel where the image
// shrinks. Elements outside are the next ones inside, or with exclude left out.
func (r *resampling) taps(at float64, a axisScale) (index []int, weight []float64) {
	if r.mode == "nearest" {
		return []int{min(max(r.round(at), 0), a.in-1)}, []float64{1}
	}
	stretch := 1.0
	if r.antialias {
		stretch = min(a.scale, 1)
	}
	base := math.Floor(at)
	first := int(math.Floor(-r.reach()/stretch)) + 1
	sum := 0.0
	for i := first; i <= 1-first; i++ {
		j, w := int(base)+i, r.kernel((float64(i)-(at-base))*stretch)
		if inside := min(max(j, 0), a.in-1); inside != j {
			if r.exclude {
				continue
			}
			j = inside
		}
		index, weight = append(index, j), append(weight, w)
		sum += w
	}
	for i := range weight {
		weight[i] /= sum
	}
	return index, weight
}

// maxBlended is how many gathered neighbours are blended; wider kernels are a
// matrix product.
const maxBlended = 4

// resample changes the length of one axis of a floating-point value, or of any
// value to the nearest elements.
func (c *call) resample(x ir.ValueID, a axisScale, r *resampling) ir.ValueID {
	t := c.typ(x)
	width := 2 * r.reach()
	if r.antialias {
		width /= min(a.scale, 1)
	}
	c.chargeProduct(width+2, float64(a.out))
	if c.err != nil {
		return x
	}
	// Positions outside the operand that get a value of their own: those before
	// from and from to on.
	from, to := 0, a.out
	if r.coordinates == "tf_crop_and_resize" {
		inside := func(i int) bool { at := r.source(i, a); return at >= 0 && at <= float64(a.in-1) }
		for from < to && !inside(from) {
			from++
		}
		for to > from && !inside(to-1) {
			to--
		}
	}
	shape := slices.Clone(t.Shape)
	shape[a.axis] = a.out
	if from == to {
		one := fromFloats(ir.F32, []int{1}, []float64{r.outside})
		return c.castTo(c.constant("", c.filledTensor(one, shape), nil), t.DType)
	}
	var index [][]int
	var weight [][]float64
	most := 0
	for i := from; i < to; i++ {
		j, w := r.taps(r.source(i, a), a)
		index, weight = append(index, j), append(weight, w)
		most = max(most, len(j))
	}
	y := c.blend(x, a, index, weight, most)
	if from > 0 || to < a.out {
		pad := &ir.PadAttr{Begin: make([]int, len(shape)), End: make([]int, len(shape)), Value: r.outside}
		pad.Begin[a.axis], pad.End[a.axis] = from, a.out-to
		y = c.add(ir.Pad, pad, y)
	}
	return y
}

// blend computes Σ weight·element for each position along an axis.
func (c *call) blend(x ir.ValueID, a axisScale, index [][]int, weight [][]float64, width int) ir.ValueID {
	if c.err != nil {
		return x
	}
	t, n := c.typ(x), len(index)
	if width > maxBlended {
		if float64(a.in)*float64(n) > maxFold {
			c.unsupportedf("an antialiased axis of %d elements", a.in)
			return x
		}
		m := make([]float64, a.in*n)
		for i := range index {
			for k, j := range index[i] {
				m[j*n+i] += weight[i][k]
			}
		}
		// The axis becomes the last one for the while.
		perm := make([]int, len(t.Shape))
		for d := range perm {
			perm[d] = d
		}
		perm[a.axis], perm[len(perm)-1] = len(perm)-1, a.axis
		x = c.transpose(x, perm...)
		s := slices.Clone(c.typ(x).Shape)
		x = c.reshape(x, c.typ(x).Numel()/a.in, a.in)
		x = c.add(ir.MatMul, nil, x, c.constant("", fromFloats(t.DType, []int{a.in, n}, m), nil))
		s[len(s)-1] = n
		return c.transpose(c.reshape(x, s...), perm...)
	}
	shape := append([]int{n}, slices.Repeat([]int{1}, len(t.Shape)-1-a.axis)...)
	sum := ir.NoValue
	for k := range width {
		at, w := make([]int64, n), make([]float64, n)
		for i := range index {
			if k < len(index[i]) {
				at[i], w[i] = int64(index[i][k]), weight[i][k]
			}
		}
		y := c.add(ir.Gather, &ir.AxisAttr{Axis: a.axis}, x, c.constant("", ir.NewTensor(ir.I64, []int{n}, at), nil))
		if width == 1 {
			return y
		}
		y = c.add(ir.Mul, nil, y, c.constant("", fromFloats(t.DType, shape, w), nil))
		if sum == ir.NoValue {
			sum = y
		} else {
			sum = c.add(ir.Add, nil, sum, y)
		}
	}
	return sum
}

// resize translates Resize and Upsample. Its operands are x, a region of
// interest, scales, sizes; before opset 11, x and scales; Upsample had the
// scales as an attribute before opset 9.
func resize(c *call) {
	r := &resampling{coordinates: "asymmetric", nearest: "floor", mode: c.str("mode", "nearest")}
	if r.mode == "bilinear" {
		r.mode = "linear"
	}
	scalesAt := 1
	if c.opset >= 11 {
		scalesAt = 2
		r.coordinates = c.str("coordinate_transformation_mode", "half_pixel")
		r.nearest = c.str("nearest_mode", "round_prefer_floor")
		r.cubic = float64(c.float("cubic_coeff_a", -0.75))
		r.outside = float64(c.float("extrapolation_value", 0))
		r.exclude = c.bool("exclude_outside", false)
		r.antialias = c.bool("antialias", false)
	}
	c.oneOf("mode", r.mode, "nearest", "linear", "cubic")
	c.oneOf("nearest_mode", r.nearest, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
	c.oneOf("coordinate_transformation_mode", r.coordinates, "asymmetric", "align_corners", "half_pixel",
		"pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize")
	x := c.id(0)
	t := c.typ(x)
	axes := c.resizedAxes(t.Shape, scalesAt)
	if c.err != nil {
		return
	}
	crop := r.coordinates == "tf_crop_and_resize"
	if crop {
		c.regionOfInterest(axes)
	}
	interpolated := r.mode != "nearest" && !holdsFloats(t.DType)
	if interpolated { // computed in float32; integers truncate
		x = c.castTo(x, ir.F32)
	}
	for _, a := range axes {
		if a.out != a.in || a.scale != 1 || crop {
			x = c.resample(x, a, r)
		}
	}
	if interpolated {
		x = c.castTo(x, t.DType)
	}
	if x == c.in[0].id {
		c.pass(c.in[0])
		return
	}
	c.set(x)
}

// oneOf refuses unknown values of an attribute.
func (c *call) oneOf(name, value string, known ...string) {
	if !slices.Contains(known, value) {
		c.unsupportedf("%s %s", name, value)
	}
}

// regionOfInterest reads the operand roi: all begins, then all ends.
func (c *call) regionOfInterest(axes []axisScale) {
	roi := c.floatsOperand(1, "the region of interest")
	if c.err == nil && len(roi) != 2*len(axes) {
		c.failf("a region of interest of %d numbers for %d dimensions", len(roi), len(axes))
	}
	if c.err != nil {
		return
	}
	for i := range axes {
		axes[i].begin, axes[i].end = roi[i], roi[len(axes)+i]
	}
}

// resizedAxes returns the dimensions that scales and sizes are about, with their
// new lengths and scales.
func (c *call) resizedAxes(s []int, scalesAt int) []axisScale {
	list, given := c.ints("axes")
	policy := c.str("keep_aspect_ratio_policy", "stretch")
	c.oneOf("keep_aspect_ratio_policy", policy, "stretch", "not_larger", "not_smaller")
	if !given {
		for d := range s {
			list = append(list, int64(d))
		}
	}
	c.axes(list, len(s))
	var axes []axisScale
	for _, a := range list {
		d := c.axis(a, len(s))
		if c.err == nil && s[d] < 1 {
			c.failf("operand of shape %v has no elements", s)
		}
		if c.err != nil {
			return nil
		}
		axes = append(axes, axisScale{axis: d, in: s[d]})
	}
	if scales := c.scales(scalesAt); scales != nil && c.err == nil {
		if len(scales) != len(axes) {
			c.failf("%d scales for %d dimensions", len(scales), len(axes))
			return nil
		}
		for i := range axes {
			a := &axes[i]
			n := math.Floor(float64(a.in) * scales[i])
			if !(n >= 1 && n <= maxFold) {
				c.failf("scale %v of dimension %d of %v", scales[i], a.axis, s)
				return nil
			}
			a.out, a.scale = int(n), scales[i]
		}
		return axes
	}
	sizes, given := c.intsOperand(scalesAt+1, "sizes")
	if c.err == nil && (!given || len(sizes) != len(axes)) {
		c.failf("neither scales nor sizes for the %d dimensions", len(axes))
	}
	if c.err != nil {
		return nil
	}
	for i := range axes {
		a := &axes[i]
		if sizes[i] < 1 || sizes[i] > maxFold {
			c.failf("size %d of dimension %d", sizes[i], a.axis)
			return nil
		}
		a.out, a.scale = int(sizes[i]), float64(sizes[i])/float64(a.in)
	}
	if policy == "stretch" || len(axes) == 0 {
		return axes
	}
	// One scale for all, with which no dimension is larger (smaller) than asked.
	scale := axes[0].scale
	for _, a := range axes {
		if policy == "not_larger" {
			scale = min(scale, a.scale)
		} else {
			scale = max(scale, a.scale)
		}
	}
	for i := range axes {
		a := &axes[i]
		a.scale, a.out = scale, max(1, int(math.Floor(scale*float64(a.in)+0.5)))
	}
	return axes
}

// scales reads the operand or, of old Upsample, the attribute; nil when sizes are
// given in their place.
func (c *call) scales(at int) []float64 {
	if c.opset < 9 {
		return convert[float64](c.floats("scales"))
	}
	v := c.operand(at)
	if v == nil || v.isConst() && v.tensor.Numel() == 0 {
		return nil
	}
	return c.floatsOperand(at, "scales")
}
