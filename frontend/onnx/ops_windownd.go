package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// Windows over more than two spatial dimensions, transposed convolutions, and
// poolings that the IR has no operator for.

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
	s := c.typ(x).Shape
	n := len(s) - 2
	var out []int
	for d := 0; d < n && c.err == nil; d++ {
		out = append(out, w.positions(c, d, s[2+d]))
	}
	taps, places, size := ir.Numel(w.kernel), ir.Numel(out), ir.Numel(s[2:])
	c.chargeProduct(4, volume(w.kernel), volume(out))
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
	c.charge(int(min(n, 2*maxWork)))
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

// convTranspose is the gradient of a convolution. With stride s the results at
// positions q·s + r of each r are an ordinary convolution with every s-th tap:
// one convolution gives the channels of all r, which then move between pixels.
func convTranspose(c *call) {
	x, w := c.plain(0), c.in[1]
	s, sw := c.typ(x).Shape, c.typeOf(w).Shape
	groups := c.smallInt("group", c.int("group", 1))
	a, out := c.transposedWindow(s, sw)
	if c.err == nil && (groups < 1 || sw[0] != s[1] || s[1]%groups != 0) {
		c.failf("operands of shapes %v and %v in %d groups", s, sw, groups)
	}
	if c.err != nil {
		return
	}
	n, og := len(s)-2, sw[1]
	sub := window{}            // of the convolution
	first := make([]int, n)    // the q that its result begins with
	phases, taps := 1, []int{} // channels a result channel becomes, taps of each
	for d := range n {
		k := a.dilations[d]*(a.kernel[d]-1)/a.strides[d] + 1
		first[d] = min(a.begin[d]/a.strides[d], k-1)
		last := (a.begin[d]+out[d]-1)/a.strides[d] + 1
		phases *= a.strides[d]
		taps = append(taps, k)
		sub.kernel, sub.strides, sub.dilations = append(sub.kernel, k), append(sub.strides, 1), append(sub.dilations, 1)
		sub.begin, sub.end, sub.ceil = append(sub.begin, k-1-first[d]), append(sub.end, max(0, last-s[2+d])), append(sub.ceil, 0)
	}
	c.chargeProduct(volume(a.strides), volume(taps), float64(og), float64(s[1]))
	if c.err != nil {
		return
	}
	shape := slices.Concat([]int{groups * phases * og, s[1] / groups}, taps)
	weights := c.gathered(w, shape, transposedTaps(&a, groups, og, sw, taps))
	bias := ir.NoValue
	if c.operand(2) != nil {
		index := make([]int, 0, shape[0])
		for g := range groups {
			for range phases {
				for o := range og {
					index = append(index, g*og+o)
				}
			}
		}
		bias = c.use(c.gathered(c.in[2], shape[:1], index))
	}
	y := c.convolve(x, weights, bias, &sub, groups)
	if c.err != nil {
		return
	}
	// [N, group·phase₀·…·O, q…] → [N, group·O, q₀·phase₀, …]
	t := c.typ(y).Shape
	apart := slices.Concat([]int{s[0], groups}, a.strides, []int{og}, t[2:])
	perm, joined := []int{0, 1, 2 + n}, []int{s[0], groups * og}
	slice := &ir.SliceAttr{Starts: []int{0, 0}, Steps: slices.Repeat([]int{1}, len(s)), Sizes: []int{s[0], groups * og}}
	for d := range n {
		perm = append(perm, 3+n+d, 2+d)
		joined = append(joined, t[2+d]*a.strides[d])
		slice.Starts = append(slice.Starts, a.begin[d]-first[d]*a.strides[d])
		slice.Sizes = append(slice.Sizes, out[d])
	}
	y = c.reshape(y, apart...)
	if phases > 1 {
		y = c.transpose(y, perm...)
	}
	y = c.reshape(y, joined...)
	if !slices.Equal(slice.Sizes, joined) {
		y = c.add(ir.Slice, slice, y)
	}
	c.set(y)
}

// transposedTaps lists, for weights [group·phase…·O, C/group, taps…] of the
// convolution that a transposed one becomes, the elements of the weights
// [C, O, kernel…] they are; their number stands for 0. Tap t of phase r sees the
// input at q − (taps−1−t), so it is kernel element k with
// dilation·k = r + stride·(taps−1−t), if there is one.
func transposedTaps(a *window, groups, og int, sw, taps []int) []int {
	n, zero, in := len(taps), ir.Numel(sw), sw[0]/groups
	size := ir.Numel(a.kernel)
	// The kernel element of each phase and tap.
	var element []int
	phase, tap := make([]int, n), make([]int, n)
	for r := range ir.Numel(a.strides) {
		unflatten(phase, r, a.strides)
		for t := range ir.Numel(taps) {
			unflatten(tap, t, taps)
			at := 0
			for d := range n {
				num := phase[d] + a.strides[d]*(taps[d]-1-tap[d])
				if k := num / a.dilations[d]; at >= 0 && num%a.dilations[d] == 0 && k < a.kernel[d] {
					at = at*a.kernel[d] + k
				} else {
					at = -1
				}
			}
			element = append(element, at)
		}
	}
	each := ir.Numel(taps)
	var index []int
	for g := range groups {
		for r := range ir.Numel(a.strides) {
			for o := range og {
				for ch := range in {
					for t := range each {
						if e := element[r*each+t]; e < 0 {
							index = append(index, zero)
						} else {
							index = append(index, ((g*in+ch)*og+o)*size+e)
						}
					}
				}
			}
		}
	}
	return index
}

// gathered returns elements of v, in row-major order, as a value of a shape; the
// index after the last element stands for 0.
func (c *call) gathered(v *value, shape, index []int) *value {
	if c.err != nil {
		return v
	}
	t := c.typeOf(v)
	n := t.Numel()
	if v.isConst() && holdsFloats(t.DType) {
		zero := fromFloats(t.DType, []int{1}, []float64{0})
		c.charge(n)
		return c.made(take(join([]*ir.Tensor{v.tensor.Reshaped(n), zero}, 0, []int{n + 1}), shape, index))
	}
	x := c.reshape(c.use(v), n)
	if slices.Contains(index, n) {
		zero := c.castTo(c.scalar(ir.F32, 0), t.DType)
		x = c.add(ir.Concat, &ir.AxisAttr{Axis: 0}, x, c.reshape(zero, 1))
	}
	at := make([]int64, len(index))
	for i, j := range index {
		at[i] = int64(j)
	}
	list := c.constant("", ir.NewTensor(ir.I64, shape, at), nil)
	return &value{id: c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, x, list)}
}

// transposedWindow reads the attributes of a transposed convolution and returns
// its window, whose begin says how much of the result is cut off, and the
// result's spatial dimensions.
func (c *call) transposedWindow(s, sw []int) (a window, out []int) {
	autoPad := c.str("auto_pad", "NOTSET")
	extra, _ := c.ints("output_padding")
	want, stated := c.ints("output_shape")
	a = c.rawWindow(s, c.kernelOf(sw))
	n := len(a.kernel)
	if c.err != nil {
		return a, nil
	}
	if extra == nil {
		extra = make([]int64, n)
	}
	if stated && len(want) == len(s) {
		want = want[2:]
	}
	if len(extra) != n || stated && len(want) != n {
		c.failf("output_padding %v and output_shape %v for %d dimensions", extra, want, n)
		return a, nil
	}
	for d := range n {
		if extra[d] < 0 || extra[d] > 1<<20 {
			c.failf("output_padding %v", extra)
			return a, nil
		}
		full := a.strides[d]*(s[2+d]-1) + int(extra[d]) + a.span(d)
		size := full - a.begin[d] - a.end[d]
		switch {
		case stated:
			size = c.smallInt("output_shape", want[d])
		case autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER":
			size = s[2+d] * a.strides[d]
		case autoPad == "VALID":
			a.begin[d], size = 0, full
		case autoPad != "NOTSET":
			c.failf("auto_pad %q", autoPad)
		}
		if total := max(0, full-size); stated || autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER" {
			a.begin[d] = total - total/2
			if autoPad == "SAME_UPPER" {
				a.begin[d] = total / 2
			}
		}
		if c.err == nil && (size < 1 || size > maxElements) {
			c.failf("the result has %d elements in spatial dimension %d", size, d)
		}
		out = append(out, size)
	}
	return a, out
}

// col2Im adds columns [N, C·block…, L] up to images: each entry of a block is
// spread out by the strides, moved to its place and added.
func col2Im(c *call) {
	x := c.id(0)
	image, _ := c.intsOperand(1, "image_shape")
	block, _ := c.intsOperand(2, "block_shape")
	n := len(image)
	read := func(name string, size int, def int64) []int {
		list, given := c.ints(name)
		if !given {
			list = slices.Repeat([]int64{def}, size)
		}
		if c.err == nil && len(list) != size {
			c.failf("%s has %d entries, want %d", name, len(list), size)
		}
		var out []int
		for _, v := range list {
			out = append(out, c.smallInt(name, v))
		}
		return out
	}
	strides, dilations, pads := read("strides", n, 1), read("dilations", n, 1), read("pads", 2*n, 0)
	s := c.typ(x).Shape
	if c.err != nil {
		return
	}
	taps := 1
	for d := range n {
		const limit = 1 << 20
		if len(block) != n || block[d] < 1 || image[d] < 1 || block[d] > limit || image[d] > limit || strides[d] < 1 || dilations[d] < 1 || pads[d] < 0 || pads[n+d] < 0 {
			c.failf("image_shape %v, block_shape %v, strides %v, dilations %v and pads %v", image, block, strides, dilations, pads)
			return
		}
		if taps *= int(block[d]); taps > 1<<10 {
			c.unsupportedf("blocks of %v", block)
			return
		}
	}
	places, wide := make([]int, n), make([]int, n)
	for d := range n {
		places[d] = (int(image[d])+pads[d]+pads[n+d]-dilations[d]*(int(block[d])-1)-1)/strides[d] + 1
		wide[d] = max(0, places[d]-1)*strides[d] + 1
	}
	if len(s) != 3 || s[1]%taps != 0 || s[2] != ir.Numel(places) || n == 0 {
		c.failf("columns of shape %v for images %v and blocks %v", s, image, block)
		return
	}
	batch, channels := s[0], s[1]/taps
	x = c.reshape(x, batch, channels, taps, s[2])
	sum := ir.NoValue
	kernel, tap := make([]int, n), make([]int, n)
	for d := range n {
		kernel[d] = int(block[d])
	}
	for k := range taps {
		unflatten(tap, k, kernel)
		y := c.add(ir.Slice, &ir.SliceAttr{Starts: []int{0, 0, k, 0}, Steps: []int{1, 1, 1, 1}, Sizes: []int{batch, channels, 1, s[2]}}, x)
		y = c.spread(c.reshape(y, append([]int{batch, channels}, places...)...), strides)
		pad := &ir.PadAttr{Begin: []int{0, 0}, End: []int{0, 0}}
		for d := range n {
			begin := tap[d]*dilations[d] - pads[d]
			pad.Begin, pad.End = append(pad.Begin, begin), append(pad.End, int(image[d])-begin-wide[d])
		}
		if cropsAll(pad, append([]int{batch, channels}, wide...)) {
			continue // all of it lies in the padding
		}
		y = c.add(ir.Pad, pad, y)
		if sum == ir.NoValue {
			sum = y
		} else {
			sum = c.add(ir.Add, nil, sum, y)
		}
	}
	if sum == ir.NoValue && c.err == nil {
		c.failf("all of the image lies outside the columns")
	}
	c.set(sum)
}

// cropsAll reports whether a padding with negative counts leaves nothing.
func cropsAll(p *ir.PadAttr, shape []int) bool {
	for d, n := range shape {
		if min(p.Begin[d], 0)+min(p.End[d], 0) <= -n || -p.Begin[d] >= n || -p.End[d] >= n {
			return true
		}
	}
	return false
}

// spread puts stride−1 zeros between neighbours along the spatial dimensions of
// [N,C,spatial…].
func (c *call) spread(x ir.ValueID, strides []int) ir.ValueID {
	if c.err != nil || slices.Max(strides) == 1 {
		return x
	}
	s := c.typ(x).Shape
	apart, pad, joined := slices.Clone(s[:2]), &ir.PadAttr{Begin: make([]int, 2), End: make([]int, 2)}, slices.Clone(s[:2])
	slice := &ir.SliceAttr{Starts: make([]int, len(s)), Steps: slices.Repeat([]int{1}, len(s)), Sizes: slices.Clone(s[:2])}
	for d, n := range s[2:] {
		apart = append(apart, n, 1)
		pad.Begin, pad.End = append(pad.Begin, 0, 0), append(pad.End, 0, strides[d]-1)
		joined = append(joined, n*strides[d])
		slice.Sizes = append(slice.Sizes, (n-1)*strides[d]+1)
	}
	y := c.add(ir.Pad, pad, c.reshape(x, apart...))
	return c.add(ir.Slice, slice, c.reshape(y, joined...))
}
