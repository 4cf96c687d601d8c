package onnx

import (
	"slices"

	"situ/ir"
)

// Transposed convolutions and the sum of overlapping columns.

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
