package onnx

import (
	"cmp"
	"math"
	"slices"

	"situ/ir"
)

// computed returns the type that coordinates and elements of type d are computed
// in: float32, or float64 where the elements are.
func computed(d ir.DType) ir.DType {
	if d == ir.F64 {
		return ir.F64
	}
	return ir.F32
}

// vector is a constant of type d.
func (c *call) vector(d ir.DType, shape []int, v []float64) ir.ValueID {
	c.charge(len(v))
	if c.err != nil {
		return ir.NoValue
	}
	return c.constant("", fromFloats(d, shape, v), nil)
}

// gridSample samples x [N,C,spatial…] at grid [N,…,n], which holds coordinates
// from −1 to 1, the last spatial dimension's first.
func gridSample(c *call) {
	x, grid := c.id(0), c.id(1)
	attr := &ir.SampleAttr{}
	switch mode := c.str("mode", "linear"); mode {
	case "linear", "bilinear":
	case "nearest":
		attr.Mode = ir.SampleNearest
	case "cubic", "bicubic":
		attr.Mode = ir.SampleCubic
	default:
		c.failf("mode %q", mode)
	}
	align := c.bool("align_corners", false)
	switch mode := c.str("padding_mode", "zeros"); {
	case mode == "zeros":
	case mode == "border":
		attr.Edge = ir.SampleBorder
	case mode == "reflection" && align:
		attr.Edge = ir.SampleMirrorCentres
	case mode == "reflection":
		attr.Edge = ir.SampleMirrorEdges
	default:
		c.failf("padding_mode %q", mode)
	}
	t, sg := c.typ(x), c.typ(grid).Shape
	rank := len(t.Shape)
	if c.err == nil && (rank < 3 || len(sg) != rank || sg[rank-1] != rank-2) {
		c.failf("operands of shapes %v and %v, want [N,C,spatial…] and [N,spatial…,n]", t.Shape, sg)
	}
	if c.err == nil && !t.DType.IsFloat() {
		c.unsupportedf("operand of type %s", t.DType)
	}
	if c.err != nil {
		return
	}
	d := computed(t.DType)
	x, grid = c.castTo(x, d), c.castTo(grid, d)
	n := rank - 2
	if n > 1 {
		reversed := &ir.SliceAttr{Starts: make([]int, rank), Steps: slices.Repeat([]int{1}, rank), Sizes: slices.Clone(sg)}
		reversed.Starts[rank-1], reversed.Steps[rank-1] = n-1, -1
		grid = c.add(ir.Slice, reversed, grid)
	}
	// −1 and 1 are the outer elements' centres with align, else their outer edges.
	scale, shift := make([]float64, n), make([]float64, n)
	for i := range n {
		size := float64(t.Shape[2+i])
		scale[i], shift[i] = size/2, -0.5
		if align {
			scale[i], shift[i] = (size-1)/2, 0
		}
	}
	at := c.add(ir.Mul, nil, c.add(ir.Add, nil, grid, c.scalar(d, 1)), c.vector(d, []int{n}, scale))
	at = c.add(ir.Add, nil, at, c.vector(d, []int{n}, shift))
	y := c.add(ir.Sample, attr, c.transpose(x, channelsLast(rank)...), at)
	c.set(c.castTo(c.transpose(y, channelsFirst(rank)...), t.DType))
}

// affineGrid multiplies the coordinates of all pixels, from −1 to 1, by theta.
func affineGrid(c *call) {
	theta := c.id(0)
	list, _ := c.intsOperand(1, "size")
	size := c.sizes(list)
	align := c.bool("align_corners", false)
	t := c.typ(theta)
	n := len(size) - 2
	if c.err == nil && (n < 1 || !slices.Equal(t.Shape, []int{size[0], n, n + 1})) {
		c.failf("theta of shape %v for a size of %v", t.Shape, size)
	}
	if c.err == nil && !t.DType.IsFloat() {
		c.failf("theta is %s", t.DType)
	}
	if c.err != nil {
		return
	}
	c.chargeProduct(volume(size[2:]), float64(n+1))
	pixels := ir.Numel(size[2:])
	for _, s := range size[2:] {
		if align && s == 1 {
			c.unsupportedf("align_corners with a dimension of 1")
		}
	}
	if c.err != nil {
		return
	}
	base := make([]float64, 0, pixels*(n+1))
	pos := make([]int, n)
	for i := range pixels {
		unflatten(pos, i, size[2:])
		for d := n - 1; d >= 0; d-- { // the last dimension's coordinate first
			s, p := float64(size[2+d]), float64(pos[d])
			if align {
				base = append(base, 2*p/(s-1)-1)
			} else {
				base = append(base, (2*p+1)/s-1)
			}
		}
		base = append(base, 1)
	}
	d := computed(t.DType)
	theta = c.transpose(c.castTo(theta, d), 0, 2, 1)
	y := c.add(ir.MatMul, nil, c.vector(d, []int{pixels, n + 1}, base), theta)
	c.set(c.castTo(c.reshape(y, slices.Concat(size[:1], size[2:], []int{n})...), t.DType))
}

// deformConv samples what each tap of the kernel sees at its place plus an
// offset, weighs it by a mask, and multiplies by the weights. Its operands are x,
// w, offset [N, groups·taps·n, out…], bias and mask [N, groups·taps, out…].
func deformConv(c *call) {
	x, w, offset := c.id(0), c.in[1], c.id(2)
	t, sw := c.typ(x), c.typeOf(w).Shape
	a := c.rawWindow(t.Shape, c.kernelOf(sw))
	groups, parts := c.smallInt("group", c.int("group", 1)), c.smallInt("offset_group", c.int("offset_group", 1))
	if c.err == nil && (groups < 1 || parts < 1 || t.Shape[1]%groups != 0 || t.Shape[1]%parts != 0 ||
		sw[1] != t.Shape[1]/groups || sw[0]%groups != 0) {
		c.failf("operands of shapes %v and %v in %d groups and %d groups of offsets", t.Shape, sw, groups, parts)
	}
	if c.err == nil && !t.DType.IsFloat() {
		c.failf("operand of type %s", t.DType)
	}
	if c.err != nil {
		return
	}
	d := computed(t.DType)
	n, taps, images := len(t.Shape)-2, ir.Numel(a.kernel), t.Shape[0]*parts
	var out []int
	for i := range n {
		out = append(out, a.positions(c, i, t.Shape[2+i]))
	}
	places := ir.Numel(out)
	c.chargeProduct(volume(out), volume(a.kernel), float64(n))
	if want := slices.Concat([]int{t.Shape[0], parts * taps * n}, out); c.err == nil && !slices.Equal(c.typ(offset).Shape, want) {
		c.failf("offset has shape %v, want %v", c.typ(offset).Shape, want)
	}
	if c.err != nil {
		return
	}
	base := make([]float64, 0, places*taps*n)
	place, tap := make([]int, n), make([]int, n)
	for p := range places {
		unflatten(place, p, out)
		for k := range taps {
			unflatten(tap, k, a.kernel)
			for i := range n {
				base = append(base, float64(place[i]*a.strides[i]-a.begin[i]+tap[i]*a.dilations[i]))
			}
		}
	}
	at := c.transpose(c.reshape(c.castTo(offset, d), images, taps, n, places), 0, 3, 1, 2)
	at = c.add(ir.Add, nil, at, c.vector(d, []int{places, taps, n}, base))
	// Groups of offsets become images: x [N·groups, spatial…, C/groups].
	channels := t.Shape[1] / parts
	part := c.reshape(c.castTo(x, d), slices.Concat([]int{images, channels}, t.Shape[2:])...)
	y := c.add(ir.Sample, &ir.SampleAttr{}, c.transpose(part, channelsLast(n+2)...), at)
	if c.operand(4) != nil {
		mask := c.transpose(c.reshape(c.castTo(c.id(4), d), images, taps, places), 0, 2, 1)
		y = c.add(ir.Mul, nil, y, c.reshape(mask, images, places, taps, 1))
	}
	// [N, groups, places, taps, C/groups] → [N, places, 1, C·taps]
	y = c.transpose(c.reshape(y, t.Shape[0], parts, places, taps, channels), 0, 2, 1, 4, 3)
	y = c.reshape(y, t.Shape[0], places, 1, t.Shape[1]*taps)
	in := []ir.ValueID{y, c.castTo(c.use(c.shaped(w, []int{sw[0], 1, 1, sw[1] * taps})), d)}
	if c.operand(3) != nil {
		in = append(in, c.castTo(c.id(3), d))
	}
	one := &ir.ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Groups: groups}
	y = c.reshape(c.add(ir.Conv2D, one, in...), t.Shape[0], places, sw[0])
	c.set(c.castTo(c.reshape(c.transpose(y, 0, 2, 1), slices.Concat([]int{t.Shape[0], sw[0]}, out)...), t.DType))
}

// roiAlign averages samples in the cells of a grid over each region. Its operands are x [N,C,H,W], regions [R,4] of corners x, y, and
// the image [R] each is in.
func roiAlign(c *call) {
	x, rois, images := c.id(0), c.id(1), c.id(2)
	if mode := c.str("mode", "avg"); mode != "avg" {
		c.unsupportedf("mode %s: implementations disagree on whether samples are interpolated before their maximum is taken", mode)
	}
	coordinates := "output_half_pixel"
	if c.opset >= 16 {
		coordinates = c.str("coordinate_transformation_mode", "half_pixel")
	}
	c.oneOf("coordinate_transformation_mode", coordinates, "half_pixel", "output_half_pixel")
	h, w := c.smallInt("output_height", c.int("output_height", 1)), c.smallInt("output_width", c.int("output_width", 1))
	ratio, scale := c.smallInt("sampling_ratio", c.int("sampling_ratio", 0)), float64(c.float("spatial_scale", 1))
	t, sr := c.typ(x), c.typ(rois).Shape
	if c.err == nil && ratio <= 0 {
		c.unsupportedf("sampling_ratio 0: the number of samples would depend on the regions")
	}
	if c.err == nil && (len(t.Shape) != 4 || len(sr) != 2 || sr[1] != 4 || h < 1 || w < 1) {
		c.failf("operands of shapes %v and %v, cells %d × %d", t.Shape, sr, h, w)
	}
	if c.err == nil && !t.DType.IsFloat() {
		c.failf("operand of type %s", t.DType)
	}
	if c.err != nil {
		return
	}
	d, r := computed(t.DType), sr[0]
	mul := func(a, b ir.ValueID) ir.ValueID { return c.add(ir.Mul, nil, a, b) }
	add := func(a, b ir.ValueID) ir.ValueID { return c.add(ir.Add, nil, a, b) }
	corners := mul(c.castTo(rois, d), c.scalar(d, scale))
	half := coordinates == "half_pixel"
	if half {
		corners = c.add(ir.Sub, nil, corners, c.scalar(d, 0.5))
	}
	c.chargeProduct(float64(h)+float64(w), float64(ratio))
	if c.err != nil {
		return
	}
	column := func(i int) ir.ValueID {
		return c.add(ir.Slice, &ir.SliceAttr{Starts: []int{0, i}, Steps: []int{1, 1}, Sizes: []int{r, 1}}, corners)
	}
	// The coordinates of all samples along a dimension of n cells, [R, n·ratio], and
	// whether each counts: those at most 1 outside x do, with the border's elements.
	along := func(lo, hi ir.ValueID, cells, size int) (at, counts ir.ValueID) {
		extent := c.add(ir.Sub, nil, hi, lo)
		if !half {
			extent = c.add(ir.Max, nil, extent, c.scalar(d, 1))
		}
		share := make([]float64, cells*ratio)
		for i := range share {
			share[i] = (float64(i) + 0.5) / float64(len(share))
		}
		at = add(lo, mul(extent, c.vector(d, []int{1, len(share)}, share)))
		inside := c.add(ir.BitAnd, nil, c.add(ir.LessEqual, nil, c.scalar(d, -1), at), c.add(ir.LessEqual, nil, at, c.scalar(d, float64(size))))
		return at, c.castTo(inside, d)
	}
	ay, cy := along(column(1), column(3), h, t.Shape[2])
	ax, cx := along(column(0), column(2), w, t.Shape[3])
	if c.err != nil {
		return
	}
	grid := []int{r, h * ratio, w * ratio, 1}
	expand := func(v ir.ValueID, shape ...int) ir.ValueID {
		return c.add(ir.Expand, &ir.ShapeAttr{Shape: grid}, c.reshape(v, shape...))
	}
	at := c.join([]ir.ValueID{expand(ay, r, h*ratio, 1, 1), expand(ax, r, 1, w*ratio, 1)}, 3)
	each := c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, c.transpose(c.castTo(x, d), 0, 2, 3, 1), images)
	y := c.add(ir.Sample, &ir.SampleAttr{Edge: ir.SampleBorder}, each, at)
	y = mul(y, mul(c.reshape(cy, r, h*ratio, 1, 1), c.reshape(cx, r, 1, w*ratio, 1)))
	y = c.reshape(y, r, h, ratio, w, ratio, t.Shape[1])
	y = c.add(ir.ReduceMean, &ir.ReduceAttr{Axes: []int{2, 4}}, y)
	c.set(c.castTo(c.transpose(y, 0, 3, 1, 2), t.DType))
}

// nonMaxSuppression chooses boxes [N,boxes,4] by scores [N,classes,boxes]. How
// many it chooses depends on them, so they have to be constants.
func nonMaxSuppression(c *call) {
	centred := c.bool("center_point_box", false)
	if c.err == nil && (!c.in[0].isConst() || !c.in[1].isConst()) {
		c.dataf("how many boxes it chooses depends on data")
		return
	}
	boxes, scores := c.floatsOperand(0, "boxes"), c.floatsOperand(1, "scores")
	most, _ := c.intsOperand(2, "max_output_boxes_per_class")
	threshold := func(i int, what string, def float64) float64 {
		if c.operand(i) == nil {
			return def
		}
		if v := c.floatsOperand(i, what); len(v) == 1 {
			return v[0]
		}
		c.failf("%s is not one number", what)
		return def
	}
	overlap := threshold(3, "iou_threshold", 0)
	lowest := threshold(4, "score_threshold", math.Inf(-1))
	sb, ss := c.typeOf(c.in[0]).Shape, c.typeOf(c.in[1]).Shape
	if c.err == nil && (len(sb) != 3 || len(ss) != 3 || sb[2] != 4 || sb[0] != ss[0] || sb[1] != ss[2] || len(most) > 1) {
		c.failf("boxes of shape %v and scores of %v", sb, ss)
	}
	if c.err != nil {
		return
	}
	limit := 0
	if len(most) == 1 {
		limit = int(min(max(most[0], 0), int64(sb[1])))
	}
	var chosen []int64
	for n := range ss[0] {
		list := boxes[n*sb[1]*4:][:sb[1]*4]
		for class := range ss[1] {
			s := scores[(n*ss[1]+class)*ss[2]:][:ss[2]]
			var order, kept []int
			for i, v := range s {
				if v > lowest {
					order = append(order, i)
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s[b], s[a]) })
			for _, i := range order {
				c.charge(len(kept) + 1)
				if len(kept) == limit || c.err != nil {
					break
				}
				if !slices.ContainsFunc(kept, func(j int) bool { return overlapOf(list[4*i:], list[4*j:], centred) > overlap }) {
					kept = append(kept, i)
					chosen = append(chosen, int64(n), int64(class), int64(i))
				}
			}
		}
	}
	if c.err == nil {
		c.setConst(ir.NewTensor(ir.I64, []int{len(chosen) / 3, 3}, chosen))
	}
}

// overlapOf is the intersection of two boxes as a share of their union, 0 when one
// is empty. Boxes are two opposite corners, or centre and size.
func overlapOf(a, b []float64, centred bool) float64 {
	sides := func(v []float64, i int) (lo, hi float64) {
		if centred {
			return v[i] - v[2+i]/2, v[i] + v[2+i]/2
		}
		return min(v[i], v[2+i]), max(v[i], v[2+i])
	}
	both, areaA, areaB := 1.0, 1.0, 1.0
	for i := range 2 {
		al, ah := sides(a, i)
		bl, bh := sides(b, i)
		both *= max(0, min(ah, bh)-max(al, bl))
		areaA *= ah - al
		areaB *= bh - bl
	}
	if areaA <= 0 || areaB <= 0 {
		return 0
	}
	return both / (areaA + areaB - both)
}
