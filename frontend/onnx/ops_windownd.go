package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// Windows over more than two spatial dimensions, and poolings that the IR has no
// operator for.

// positions returns how often the window fits along dimension d of n elements.
func (w *window) positions(c *call, d, n int) int {
	free := n + w.begin[d] + w.end[d] - w.span(d)
	if c.err == nil && free < 0 {
		c.failf("a window of %d does not fit %d elements and pads %d, %d", w.span(d), n, w.begin[d], w.end[d])
	}
	return max(0, free/w.strides[d]+1)
}

// channelsLast returns the permutation [N,C,spatial…] → [N,spatial…,C], and
// channelsFirst its inverse.
func channelsLast(rank int) []int {
	p := []int{0}
	for d := 2; d < rank; d++ {
		p = append(p, d)
	}
	return append(p, 1)
}

func channelsFirst(rank int) []int {
	p := []int{0, rank - 1}
	for d := 1; d < rank-1; d++ {
		p = append(p, d)
	}
	return p
}

// convolveND gathers what the windows see along all but the last two spatial
// dimensions into channels; positions along those dimensions become images of a
// batch.
func (c *call) convolveND(x ir.ValueID, w *value, bias ir.ValueID, a *window, groups int) ir.ValueID {
	s, sw := c.typ(x).Shape, c.typeOf(w).Shape
	if c.err == nil && (len(sw) != len(s) || groups < 1 || s[1]%groups != 0 || sw[1] != s[1]/groups) {
		c.failf("operands of shapes %v and %v in %d groups", s, sw, groups)
	}
	if c.err != nil {
		return ir.NoValue
	}
	n, lead := len(s)-2, len(s)-4 // spatial dimensions; those that become channels
	x = c.transpose(x, channelsLast(len(s))...)
	pad := &ir.PadAttr{Begin: make([]int, len(s)), End: make([]int, len(s))}
	copy(pad.Begin[1:], a.begin[:lead])
	copy(pad.End[1:], a.end[:lead])
	if slices.Max(pad.Begin) > 0 || slices.Max(pad.End) > 0 {
		x = c.add(ir.Pad, pad, x)
	}
	out, taps, shape := make([]int, lead), 1, []int{s[0]}
	for d := lead - 1; d >= 0; d-- {
		out[d] = a.positions(c, d, s[2+d])
		taps *= a.kernel[d]
		c.charge(out[d] * a.kernel[d])
		if c.err != nil {
			return ir.NoValue
		}
		index := make([]int64, 0, out[d]*a.kernel[d])
		for i := range out[d] {
			for k := range a.kernel[d] {
				index = append(index, int64(i*a.strides[d]+k*a.dilations[d]))
			}
		}
		x = c.add(ir.Gather, &ir.AxisAttr{Axis: 1 + d}, x, c.constant("", ir.NewTensor(ir.I64, []int{out[d], a.kernel[d]}, index), nil))
	}
	// [N, out₀, k₀, out₁, k₁, …, H, W, C] → [N·out₀·…, H, W, group·k₀·…·C/group]
	perm, kernels := []int{0}, []int{}
	for d := range lead {
		shape = append(shape, out[d], a.kernel[d])
		perm, kernels = append(perm, 1+2*d), append(kernels, 2+2*d)
	}
	h := 1 + 2*lead
	shape = append(shape, s[len(s)-2], s[len(s)-1], groups, s[1]/groups)
	perm = slices.Concat(perm, []int{h, h + 1, h + 2}, kernels, []int{h + 3})
	images := s[0] * ir.Numel(out)
	x = c.transpose(c.reshape(x, shape...), perm...)
	x = c.reshape(x, images, s[len(s)-2], s[len(s)-1], s[1]*taps)
	// [O, C/group, k₀, …, kh, kw] → [O, kh, kw, k₀·…·C/group]
	wperm := []int{0, n, n + 1}
	for d := range lead {
		wperm = append(wperm, 2+d)
	}
	w = c.permuted(w, append(wperm, 1)...)
	w = c.shaped(w, []int{sw[0], sw[n], sw[n+1], taps * sw[1]})
	in := []ir.ValueID{x, c.use(w)}
	if bias != ir.NoValue {
		in = append(in, bias)
	}
	y := c.add(ir.Conv2D, a.convAttr(groups), in...)
	if c.err != nil {
		return y
	}
	t := c.typ(y).Shape
	y = c.reshape(y, slices.Concat(s[:1], out, t[1:])...)
	return c.transpose(y, channelsFirst(len(s))...)
}

// poolND pools the last two spatial dimensions together and the others one after
// the other: maxima of maxima, and means of means, for the weight of an element
// is a product of one factor a dimension.
func (c *call) poolND(kind ir.OpKind, x ir.ValueID, w *window, countPad bool) ir.ValueID {
	rank := len(c.typ(x).Shape)
	x = c.transpose(x, channelsLast(rank)...)
	for d := rank - 4; d >= 0; d-- {
		s := slices.Clone(c.typ(x).Shape) // [N, spatial…, C]
		if c.err != nil {
			return x
		}
		attr := &ir.PoolAttr{CountPad: countPad}
		attr.Kernel, attr.Strides, attr.Dilations, attr.Pads, attr.CeilPads = w.plane(d)
		width := s[2+d]
		if d < rank-4 { // the dimensions after it have been pooled
			attr.Kernel[1], attr.Strides[1], attr.Dilations[1] = 1, 1, 1
			attr.Pads[1], attr.Pads[3], attr.CeilPads[1] = 0, 0, 0
			width = ir.Numel(s[2+d : rank-1])
		}
		y := c.add(kind, attr, c.reshape(x, ir.Numel(s[:1+d]), s[1+d], width, s[rank-1]))
		if c.err != nil {
			return y
		}
		t := c.typ(y).Shape
		s[1+d] = t[1]
		if d == rank-4 {
			s[2+d] = t[2]
		}
		x = c.reshape(y, s...)
	}
	return c.transpose(x, channelsFirst(rank)...)
}

// lpPool is (Σ |x|^p)^(1/p) over windows; padding adds nothing.
func lpPool(c *call) {
	x := c.id(0)
	w := c.window(c.typ(x).Shape, nil, c.bool("ceil_mode", false))
	p := float64(c.int("p", 2))
	if c.err != nil {
		return
	}
	d, count := c.typ(x).DType, 1
	pad := &ir.PadAttr{Begin: []int{0, 0}, End: []int{0, 0}}
	for i, k := range w.kernel {
		count *= k
		pad.Begin, pad.End = append(pad.Begin, w.begin[i]), append(pad.End, w.end[i])
		w.begin[i], w.end[i], w.ceil[i] = 0, 0, 0
	}
	x = c.power(c.add(ir.Abs, nil, x), p)
	x = c.pool(ir.AvgPool, c.add(ir.Pad, pad, x), &w, false)
	c.set(c.power(c.add(ir.Mul, nil, x, c.scalar(d, float64(count))), 1/p))
}

// power raises x ≥ 0 to a constant.
func (c *call) power(x ir.ValueID, p float64) ir.ValueID {
	switch p {
	case 1:
		return x
	case 2:
		return c.add(ir.Mul, nil, x, x)
	case 0.5:
		return c.add(ir.Sqrt, nil, x)
	}
	return c.add(ir.Pow, nil, x, c.scalar(c.typ(x).DType, p))
}

func globalLpPool(c *call) {
	x := c.id(0)
	p := float64(c.int("p", 2))
	var axes []int
	for d := 2; d < len(c.typ(x).Shape); d++ {
		axes = append(axes, d)
	}
	x = c.power(c.add(ir.Abs, nil, x), p)
	c.set(c.power(c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: axes, KeepDims: true}, x), 1/p))
}

// lowest is a constant of type d that no element is below.
func (c *call) lowest(d ir.DType, shape ...int) ir.ValueID {
	n := ir.Numel(shape)
	v := math.Inf(-1)
	switch {
	case d.IsInt() && d.Bits() <= 16:
		lo, _ := d.IntRange()
		return c.constant("", fromInts(d, shape, slices.Repeat([]int64{lo}, n)), nil)
	case d == ir.F16 || d == ir.BF16:
		f := c.constant("", fromFloats(ir.F32, shape, slices.Repeat([]float64{v}, n)), nil)
		return c.castTo(f, d)
	case !holdsFloats(d):
		c.unsupportedf("indices of maxima of %s", d)
		return ir.NoValue
	}
	return c.constant("", fromFloats(d, shape, slices.Repeat([]float64{v}, n)), nil)
}

// maxPoolIndices is MaxPool with its second result: where in x each maximum is
// (the first of several), counted through all of x; columns counts the spatial
// dimensions in column-major order. The elements of all windows are gathered.
func (c *call) maxPoolIndices(x ir.ValueID, w *window, columns bool) {
	x = c.unquantised(x)
	if c.err != nil {
		return
	}
	s := c.typ(x).Shape
	n := len(s) - 2
	var out []int
	for d := range n {
		out = append(out, w.positions(c, d, s[2+d]))
	}
	taps, places, size := ir.Numel(w.kernel), ir.Numel(out), ir.Numel(s[2:])
	c.chargeProduct(4, volume(w.kernel), volume(out))
	c.chargeProduct(volume(s[:2]))
	if c.err != nil {
		return
	}
	// For each place and tap the element it sees, the padding being one more, and
	// what is reported for it.
	see, report := make([]int64, 0, taps*places), make([]int64, 0, taps*places)
	place, tap := make([]int, n), make([]int, n)
	for i := range places {
		unflatten(place, i, out)
		for j := range taps {
			unflatten(tap, j, w.kernel)
			at, number, weight, inside := 0, 0, 1, true
			for d := range n {
				p := place[d]*w.strides[d] - w.begin[d] + tap[d]*w.dilations[d]
				inside = inside && p >= 0 && p < s[2+d]
				at = at*s[2+d] + p
				number += p * weight
				weight *= s[2+d]
			}
			switch {
			case !inside:
				at, number = size, 0
			case !columns:
				number = at
			}
			see, report = append(see, int64(at)), append(report, int64(number))
		}
	}
	planes := s[0] * s[1]
	flat := c.reshape(x, planes, size)
	flat = c.add(ir.Concat, &ir.AxisAttr{Axis: 1}, flat, c.lowest(c.typ(x).DType, planes, 1))
	ints := func(shape []int, v []int64) ir.ValueID { return c.constant("", ir.NewTensor(ir.I64, shape, v), nil) }
	seen := c.add(ir.Gather, &ir.AxisAttr{Axis: 1}, flat, ints([]int{places, taps}, see))
	last := &ir.ReduceAttr{Axes: []int{2}, KeepDims: true}
	top := c.add(ir.ReduceMax, last, seen)
	// The number of the first tap that sees the maximum, then what it reports.
	order := make([]int64, taps)
	for j := range order {
		order[j] = int64(j)
	}
	numbers := ints([]int{taps}, order)
	is := c.add(ir.Equals, nil, seen, top)
	first := c.add(ir.ReduceMin, last, c.add(ir.Where, nil, is, numbers, ints(nil, []int64{int64(taps - 1)})))
	here := c.add(ir.Equals, nil, numbers, first)
	index := c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: []int{2}},
		c.add(ir.Where, nil, here, ints([]int{places, taps}, report), ints(nil, []int64{0})))
	base := make([]int64, planes)
	for i := range base {
		base[i] = int64(i * size)
	}
	index = c.add(ir.Add, nil, index, ints([]int{planes, 1}, base))
	shape := slices.Concat(s[:2], out)
	c.set(c.reshape(top, shape...))
	c.setN(1, c.reshape(index, shape...))
}

// volume is the number of elements of a shape, however large.
func volume(shape []int) float64 {
	n := 1.0
	for _, d := range shape {
		n *= float64(d)
	}
	return n
}

// chargeProduct counts a product of elements that might not be an int.
func (c *call) chargeProduct(factors ...float64) {
	n := 1.0
	for _, f := range factors {
		n *= f
	}
	c.charge(int(min(n, 2*float64(c.mostWork))))
}

// unflatten writes the position of element i of a row-major shape to pos.
func unflatten(pos []int, i int, shape []int) {
	for d := len(shape) - 1; d >= 0; d-- {
		pos[d] = i % shape[d]
		i /= shape[d]
	}
}

// maxUnpool puts elements where MaxPool found them, zeros elsewhere.
func maxUnpool(c *call) {
	x, index := c.id(0), c.id(1)
	s := c.typ(x).Shape
	w := c.window(s, nil, false)
	if c.err != nil {
		return
	}
	out := slices.Clone(s[:2])
	for d, n := range s[2:] {
		out = append(out, (n-1)*w.strides[d]-w.begin[d]-w.end[d]+w.kernel[d])
	}
	// Indices count in the inferred shape; a stated one is larger at its ends.
	full := out
	if list, given := c.intsOperand(2, "output_shape"); given {
		full = c.sizes(list)
		if c.err == nil && len(full) != len(s) {
			c.failf("output_shape %v for %d dimensions", full, len(s))
		}
	}
	if c.err == nil && (slices.Min(full) < 1 || volume(full) > maxElements) {
		c.failf("a result of shape %v", full)
	}
	if c.err != nil {
		return
	}
	n := c.typ(x).Numel()
	zero := c.constant("", c.filledTensor(fromFloats(c.typ(x).DType, []int{1}, []float64{0}), []int{ir.Numel(full)}), nil)
	y := c.add(ir.ScatterElements, &ir.ScatterAttr{}, zero, c.reshape(index, n), c.reshape(x, n))
	c.set(c.reshape(y, full...))
}
