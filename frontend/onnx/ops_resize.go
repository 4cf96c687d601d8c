package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// resampling says how Resize maps positions of the result to the operand's.
type resampling struct {
	coordinates string // coordinate_transformation_mode
	nearest     string // nearest_mode
	linear      bool
}

// source returns the operand's coordinate for position i of a result of out
// positions along an axis of in.
func (r *resampling) source(i, in, out int, scale float64) float64 {
	x := float64(i)
	switch r.coordinates {
	case "asymmetric":
		return x / scale
	case "align_corners":
		if out == 1 {
			return 0
		}
		return x * float64(in-1) / float64(out-1)
	case "pytorch_half_pixel":
		if out == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		// The centre stays where it is although out is rounded.
		return float64(in)/2*(1-float64(out)/(scale*float64(in))) + (x+0.5)/scale - 0.5
	}
	return (x+0.5)/scale - 0.5
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

// resample changes the length of one axis to out: nearest elements are
// gathered, linear ones are blended from two gathered neighbours.
func (c *call) resample(x ir.ValueID, axis, out int, scale float64, r *resampling) ir.ValueID {
	t := c.typ(x)
	if c.err != nil {
		return x
	}
	in := t.Shape[axis]
	c.charge(4 * out)
	clamp := func(i int) int64 { return int64(min(max(i, 0), in-1)) }
	lower, upper := make([]int64, out), make([]int64, out)
	share := make([]float64, out) // of the upper neighbour
	for i := range out {
		at := r.source(i, in, out, scale)
		if !r.linear {
			lower[i] = clamp(r.round(at))
			continue
		}
		at = min(max(at, 0), float64(in-1))
		lower[i], upper[i] = clamp(int(at)), clamp(int(at)+1)
		share[i] = at - math.Floor(at)
	}
	if c.err != nil {
		return x
	}
	pick := func(index []int64) ir.ValueID {
		id := c.constant("", ir.NewTensor(ir.I64, []int{out}, index), nil)
		return c.add(ir.Gather, &ir.AxisAttr{Axis: axis}, x, id)
	}
	if !r.linear {
		return pick(lower)
	}
	shape := append([]int{out}, slices.Repeat([]int{1}, len(t.Shape)-1-axis)...)
	rest := make([]float64, out)
	for i, s := range share {
		rest[i] = 1 - s
	}
	blend := func(index []int64, weight []float64) ir.ValueID {
		return c.add(ir.Mul, nil, pick(index), c.constant("", fromFloats(t.DType, shape, weight), nil))
	}
	return c.add(ir.Add, nil, blend(lower, rest), blend(upper, share))
}

// resize translates Resize and Upsample. Its operands are x, a region of
// interest, scales, sizes; before opset 11, x and scales.
func resize(c *call) {
	r := &resampling{coordinates: "asymmetric", nearest: "floor"}
	switch mode := c.str("mode", "nearest"); mode {
	case "nearest":
	case "linear", "bilinear":
		r.linear = true
	default:
		c.unsupportedf("mode %s", mode)
	}
	scalesAt := 1
	if c.opset >= 11 {
		scalesAt = 2
		r.coordinates = c.str("coordinate_transformation_mode", "half_pixel")
		r.nearest = c.str("nearest_mode", "round_prefer_floor")
		c.ignore("cubic_coeff_a", "extrapolation_value", "exclude_outside") // of other modes
		known := []string{"asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"}
		if !slices.Contains(known, r.coordinates) {
			c.unsupportedf("coordinate_transformation_mode %s", r.coordinates)
		}
		if c.bool("antialias", false) {
			c.unsupportedf("antialias")
		}
	}
	x := c.id(0)
	s := c.typ(x).Shape
	axes := c.resizedAxes(len(s))
	sizes, scales := c.resized(s, axes, scalesAt)
	if c.err != nil {
		return
	}
	if r.linear && !c.typ(x).DType.IsFloat() {
		c.unsupportedf("linear interpolation of %s", c.typ(x).DType)
		return
	}
	for i, d := range axes {
		if sizes[i] != s[d] || scales[i] != 1 {
			x = c.resample(x, d, sizes[i], scales[i], r)
		}
	}
	if x == c.in[0].id {
		c.pass(c.in[0])
		return
	}
	c.set(x)
}

// resizedAxes are the dimensions that scales and sizes are about.
func (c *call) resizedAxes(rank int) []int {
	list, given := c.ints("axes")
	var axes []int
	if !given {
		for d := range rank {
			axes = append(axes, d)
		}
		return axes
	}
	c.axes(list, rank)
	for _, a := range list {
		axes = append(axes, c.axis(a, rank))
	}
	return axes
}

// resized returns the new lengths and scales of the axes.
func (c *call) resized(s, axes []int, scalesAt int) (sizes []int, scales []float64) {
	policy := c.str("keep_aspect_ratio_policy", "stretch")
	if given := c.operand(scalesAt); given != nil && !(given.isConst() && given.tensor.Numel() == 0) {
		scales = c.floatsOperand(scalesAt, "scales")
		if c.err == nil && len(scales) != len(axes) {
			c.failf("%d scales for %d dimensions", len(scales), len(axes))
		}
		if c.err != nil {
			return nil, nil
		}
		for i, d := range axes {
			n := math.Floor(float64(s[d]) * scales[i])
			if !(n >= 1 && n <= maxFold) {
				c.failf("scale %v of dimension %d of %v", scales[i], d, s)
				return nil, nil
			}
			sizes = append(sizes, int(n))
		}
		return sizes, scales
	}
	list, given := c.intsOperand(scalesAt+1, "sizes")
	if policy != "stretch" {
		c.unsupportedf("keep_aspect_ratio_policy %s", policy)
	}
	if c.err == nil && (!given || len(list) != len(axes)) {
		c.failf("neither scales nor sizes for the %d dimensions", len(axes))
	}
	if c.err != nil {
		return nil, nil
	}
	for i, d := range axes {
		if list[i] < 1 || list[i] > maxFold {
			c.failf("size %d of dimension %d", list[i], d)
			return nil, nil
		}
		sizes = append(sizes, int(list[i]))
		scales = append(scales, float64(list[i])/float64(s[d]))
	}
	return sizes, scales
}
