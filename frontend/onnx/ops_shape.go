package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

func identity(c *call) { c.pass(c.in[0]) }

// dropout does nothing at inference, nor in training with a ratio of 0; its mask
// is true everywhere.
func dropout(c *call) {
	c.ignore("seed", "ratio")
	if c.opset < 7 {
		c.ignore("consumed_inputs")
		if !c.bool("is_test", false) {
			c.unsupportedf("training: is_test is not set")
		}
	}
	if v := c.operand(2); v != nil && !isZero(v) && !isZero(c.operand(1)) {
		c.unsupportedf("training_mode")
	}
	if c.err != nil {
		return
	}
	c.pass(c.in[0])
	if len(c.out) > 1 && c.used[c.proto.Output[1]] {
		s := c.typeOf(c.in[0]).Shape
		d := ir.Bool
		if c.opset < 10 {
			d = c.typeOf(c.in[0]).DType
		}
		c.setN(1, c.add(ir.Expand, &ir.ShapeAttr{Shape: s}, c.constant("", fromInts(d, nil, []int64{1}), nil)))
	}
}

// isZero reports whether v is a constant with the single element 0 or false.
func isZero(v *value) bool {
	if v == nil || !v.isConst() || v.tensor.Numel() != 1 {
		return false
	}
	if holdsFloats(v.tensor.DType) {
		return float64s(v.tensor)[0] == 0
	}
	return int64s(v.tensor)[0] == 0
}

// reshaped gives a value another shape of as many elements.
func (c *call) reshaped(v *value, shape []int) { c.pass(c.shaped(v, shape)) }

// shaped returns a value under another shape of as many elements.
func (c *call) shaped(v *value, shape []int) *value {
	if c.err != nil {
		return v
	}
	from := c.typeOf(v).Shape
	if v.tensor != nil && (v.quant == nil || v.quant.IsPerTensor()) {
		if ir.Numel(from) != ir.Numel(shape) {
			c.failf("shape %v does not hold the elements of %v", shape, from)
			return v
		}
		out := *v
		out.id, out.tensor = ir.NoValue, v.tensor.Reshaped(shape...)
		return &out
	}
	if slices.Equal(from, shape) {
		return v
	}
	return &value{id: c.add(ir.Reshape, &ir.ShapeAttr{Shape: shape}, c.use(v))}
}

// reshape resolves 0 (the operand's dimension) and −1 (whatever is left).
func reshape(c *call) {
	want, _ := c.intsOperand(1, "shape")
	zero := c.bool("allowzero", false)
	if c.err != nil {
		return
	}
	from := c.typeOf(c.in[0]).Shape
	shape := make([]int, len(want))
	open, n := -1, 1
	for i, d := range want {
		switch {
		case d == -1 && open < 0:
			open = i
			continue
		case d == 0 && !zero:
			if i >= len(from) {
				c.failf("shape %v keeps dimension %d of %v", want, i, from)
				return
			}
			d = int64(from[i])
		case d < 0 || d > maxElements:
			c.failf("shape %v", want)
			return
		}
		shape[i] = int(d)
		if d > 0 && n > maxElements/int(d) {
			c.failf("shape %v has more than %d elements", want, int64(maxElements))
			return
		}
		n *= int(d)
	}
	if open >= 0 {
		if total := ir.Numel(from); n == 0 || total%n != 0 {
			c.failf("shape %v does not divide the elements of %v", want, from)
			return
		}
		shape[open] = ir.Numel(from) / n
	}
	c.reshaped(c.in[0], shape)
}

func flatten(c *call) {
	s := c.typeOf(c.in[0]).Shape
	axis := c.int("axis", 1)
	i := len(s)
	if axis != int64(len(s)) {
		i = c.axis(axis, len(s))
	}
	if c.err == nil {
		c.reshaped(c.in[0], []int{ir.Numel(s[:i]), ir.Numel(s[i:])})
	}
}

// listed reads a list that became an operand in opset 13.
func (c *call) listed(attr string, operand int) ([]int64, bool) {
	if c.opset < 13 {
		return c.ints(attr)
	}
	return c.intsOperand(operand, attr)
}

func squeeze(c *call) {
	s := c.typeOf(c.in[0]).Shape
	list, given := c.listed("axes", 1)
	axes := c.axes(list, len(s))
	var out []int
	for d, n := range s {
		switch {
		case given && !slices.Contains(axes, d), !given && n != 1:
			out = append(out, n)
		case n != 1:
			c.failf("dimension %d of %v is not 1", d, s)
		}
	}
	c.reshaped(c.in[0], out)
}

func unsqueeze(c *call) {
	s := c.typeOf(c.in[0]).Shape
	list, given := c.listed("axes", 1)
	if !given {
		c.failf("axes are missing")
	}
	axes := c.axes(list, len(s)+len(list))
	if c.err != nil {
		return
	}
	out := slices.Clone(s)
	for _, a := range axes {
		out = slices.Insert(out, a, 1)
	}
	c.reshaped(c.in[0], out)
}

func transpose(c *call) {
	rank := len(c.typeOf(c.in[0]).Shape)
	list, given := c.ints("perm")
	var perm []int
	for d := range rank {
		if !given {
			perm = append(perm, rank-1-d)
		} else if d < len(list) {
			perm = append(perm, c.axis(list[d], rank))
		}
	}
	sorted := slices.Clone(perm)
	slices.Sort(sorted)
	if c.err == nil && (given && len(list) != rank || len(slices.Compact(sorted)) != rank) {
		c.failf("perm %v does not permute %d dimensions", list, rank)
		return
	}
	if rank == 0 {
		c.pass(c.in[0])
		return
	}
	v := c.permuted(c.in[0], perm...)
	if c.in[0].tensor == nil {
		c.set(v.id)
		return
	}
	c.pass(v)
}

func concat(c *call) {
	if slices.Contains(c.in, nil) {
		c.failf("an operand is missing")
		return
	}
	first := c.typeOf(c.in[0])
	rank := len(first.Shape)
	axis := c.axis(c.int("axis", 1), rank)
	if c.err != nil {
		return
	}
	if c.foldable(c.in...) {
		shape := slices.Clone(first.Shape)
		shape[axis] = 0
		var ts []*ir.Tensor
		for _, v := range c.in {
			t := v.tensor
			fits := len(t.Shape) == rank && t.DType == first.DType
			for d := 0; fits && d < rank; d++ {
				fits = d == axis || t.Shape[d] == first.Shape[d]
			}
			if !fits {
				c.failf("%s %v does not join %s %v along axis %d", t.DType, t.Shape, first.DType, first.Shape, axis)
				return
			}
			shape[axis] += t.Shape[axis]
			ts = append(ts, t)
		}
		c.setConst(join(ts, axis, shape))
		return
	}
	// Empty operands add nothing.
	parts := slices.DeleteFunc(slices.Clone(c.in), func(v *value) bool { return v.isConst() && v.tensor.Numel() == 0 })
	ids := make([]ir.ValueID, len(parts))
	same := true
	for i, v := range parts {
		ids[i] = c.use(v)
		same = same && c.typ(ids[i]).Quant.Equal(c.typ(ids[0]).Quant)
	}
	if !same { // to ONNX these are plain integers
		for i := range ids {
			ids[i] = c.unquantised(ids[i])
		}
	}
	c.set(c.add(ir.Concat, &ir.AxisAttr{Axis: axis}, ids...))
}

// extract takes size elements from start on, every step, in each dimension.
func (c *call) extract(v *value, starts, steps, sizes []int) *value {
	if c.err != nil {
		return v
	}
	if slices.Equal(sizes, c.typeOf(v).Shape) && !slices.ContainsFunc(steps, func(s int) bool { return s < 0 }) {
		return v
	}
	if ir.Numel(sizes) == 0 {
		return &value{id: ir.NoValue, tensor: ir.Zeros(c.typeOf(v).DType, sizes...)}
	}
	if c.foldable(v) {
		offset := 0
		stride := rowStrides(v.tensor.Shape)
		for d := range stride {
			offset += starts[d] * stride[d]
			stride[d] *= steps[d]
		}
		return c.made(take(v.tensor, sizes, indices(sizes, stride, offset)))
	}
	return &value{id: c.add(ir.Slice, &ir.SliceAttr{Starts: starts, Steps: steps, Sizes: sizes}, c.use(v))}
}

func split(c *call) {
	s := c.typeOf(c.in[0]).Shape
	axis := c.axis(c.int("axis", 0), len(s))
	parts, given := c.listed("split", 1)
	n := int64(len(c.out))
	if c.opset >= 18 {
		if n = c.int("num_outputs", n); n != int64(len(c.out)) {
			c.failf("num_outputs is %d for %d results", n, len(c.out))
		}
	}
	if c.err != nil {
		return
	}
	total := s[axis]
	if !given {
		// Equal parts; from opset 18 on the last may be smaller.
		each := (total + int(n) - 1) / int(n)
		for rest := total; len(parts) < int(n); rest -= each {
			parts = append(parts, int64(max(0, min(each, rest))))
		}
		if c.opset < 18 && total%int(n) != 0 {
			c.failf("dimension %d of %v does not split into %d equal parts", axis, s, n)
			return
		}
	}
	sum := int64(0)
	for _, p := range parts {
		if p < 0 || p > int64(total) {
			c.failf("split %v of dimension %d of %v", parts, axis, s)
			return
		}
		sum += p
	}
	if len(parts) != len(c.out) || sum != int64(total) {
		c.failf("split %v of dimension %d of %v into %d results", parts, axis, s, len(c.out))
		return
	}
	at := 0
	for i, p := range parts {
		starts, steps, sizes := make([]int, len(s)), slices.Repeat([]int{1}, len(s)), slices.Clone(s)
		starts[axis], sizes[axis] = at, int(p)
		at += int(p)
		if v := c.extract(c.in[0], starts, steps, sizes); c.err == nil {
			c.out[i] = v
		}
	}
}

// slice reads its bounds from attributes before opset 10, from operands since.
func slice(c *call) {
	s := c.typeOf(c.in[0]).Shape
	var begin, end, axes, steps []int64
	var haveAxes, haveSteps bool
	if c.opset < 10 {
		begin, _ = c.ints("starts")
		end, _ = c.ints("ends")
		axes, haveAxes = c.ints("axes")
	} else {
		begin, _ = c.intsOperand(1, "starts")
		end, _ = c.intsOperand(2, "ends")
		axes, haveAxes = c.intsOperand(3, "axes")
		steps, haveSteps = c.intsOperand(4, "steps")
	}
	if c.err != nil {
		return
	}
	n := len(begin)
	if !haveAxes {
		for d := range n {
			axes = append(axes, int64(d))
		}
	}
	if !haveSteps {
		steps = slices.Repeat([]int64{1}, n)
	}
	if len(end) != n || len(axes) != n || len(steps) != n {
		c.failf("starts, ends, axes and steps have %d, %d, %d and %d entries", n, len(end), len(axes), len(steps))
		return
	}
	c.axes(axes, len(s))
	starts, step, sizes := make([]int, len(s)), slices.Repeat([]int{1}, len(s)), slices.Clone(s)
	for i := range n {
		d := c.axis(axes[i], len(s))
		if c.err != nil {
			return
		}
		starts[d], step[d], sizes[d] = resolveSlice(begin[i], end[i], steps[i], s[d])
		if steps[i] == 0 {
			c.failf("a step of 0")
			return
		}
	}
	c.pass(c.extract(c.in[0], starts, step, sizes))
}

// resolveSlice clamps Python-like bounds of a dimension of n elements and counts
// the elements taken.
func resolveSlice(begin, end, step int64, n int) (start, by, size int) {
	limit := int64(n)
	lo, hi := int64(0), limit // bounds of start and end
	if step < 0 {
		lo, hi = -1, limit-1
	}
	clamp := func(v int64) int64 {
		if v < 0 {
			v += limit // cannot overflow: v is negative
		}
		return min(max(v, lo), hi)
	}
	begin, end = clamp(begin), clamp(end)
	step = min(max(step, -limit-1), limit+1) // a longer step takes one element, too
	switch {
	case step > 0 && end > begin:
		size = int((end - begin + step - 1) / step)
	case step < 0 && begin > end:
		size = int((begin - end - step - 1) / -step)
	}
	return int(max(begin, 0)), int(step), size
}

// pad reads its widths from attributes before opset 11, from operands since.
func pad(c *call) {
	rank := len(c.typeOf(c.in[0]).Shape)
	mode := c.str("mode", "constant")
	attr := &ir.PadAttr{Begin: make([]int, rank), End: make([]int, rank)}
	var pads, axes []int64
	haveAxes := false
	if c.opset < 11 {
		pads, _ = c.ints("pads")
		attr.Value = float64(c.float("value", 0))
	} else {
		pads, _ = c.intsOperand(1, "pads")
		axes, haveAxes = c.intsOperand(3, "axes")
		if c.operand(2) != nil && c.err == nil {
			t := c.tensor(2, "the padding value")
			switch {
			case c.err != nil:
				return
			case t.Numel() != 1 || !holdsFloats(t.DType) && !holdsInts(t.DType):
				c.unsupportedf("a padding value of type %s %v", t.DType, t.Shape)
				return
			case holdsFloats(t.DType):
				attr.Value = float64s(t)[0]
			default:
				attr.Value = float64(int64s(t)[0])
			}
		}
	}
	if !haveAxes {
		for d := range rank {
			axes = append(axes, int64(d))
		}
	}
	c.axes(axes, rank)
	if c.err == nil && len(pads) != 2*len(axes) {
		c.failf("%d pads for %d dimensions", len(pads), len(axes))
	}
	if c.err != nil {
		return
	}
	for i, a := range axes {
		d := c.axis(a, rank)
		attr.Begin[d] = c.smallInt("pad", pads[i])
		attr.End[d] = c.smallInt("pad", pads[len(axes)+i])
	}
	switch mode {
	case "constant":
		attr.Mode = ir.PadConstant
	case "reflect":
		attr.Mode = ir.PadReflect
	case "edge":
		attr.Mode = ir.PadEdge
	case "wrap":
		attr.Mode = ir.PadWrap
	default:
		c.failf("mode %q", mode)
		return
	}
	if !c.typeOf(c.in[0]).DType.IsFloat() && math.IsInf(attr.Value, 0) || math.IsNaN(attr.Value) {
		c.unsupportedf("a padding value of %v", attr.Value)
		return
	}
	if mode != "constant" {
		attr.Value = 0
	}
	c.set(c.add(ir.Pad, attr, c.plain(0)))
}

// sizes converts a list of dimensions, refusing absurd ones.
func (c *call) sizes(list []int64) []int {
	shape, err := shapeOf(list)
	if err != nil {
		c.failf("%w", err)
	}
	return shape
}

// expanded broadcasts a value to a shape.
func (c *call) expanded(v *value, shape []int) {
	if c.err != nil {
		return
	}
	if slices.Equal(shape, c.typeOf(v).Shape) {
		c.pass(v)
		return
	}
	if c.foldable(v) && ir.Numel(shape) <= maxFold {
		c.setConst(take(v.tensor, shape, broadcastIndices(v.tensor.Shape, shape)))
		return
	}
	c.set(c.add(ir.Expand, &ir.ShapeAttr{Shape: shape}, c.use(v)))
}

func expand(c *call) {
	list, _ := c.intsOperand(1, "shape")
	want := c.sizes(list)
	if c.err != nil {
		return
	}
	from := c.typeOf(c.in[0]).Shape
	shape, ok := broadcastShapes(from, want)
	if !ok {
		c.failf("%v does not broadcast to %v", from, want)
		return
	}
	c.expanded(c.in[0], shape)
}

// tile repeats along each dimension: [a,b] → [1,a,1,b] → [r,a,s,b] → [r·a,s·b].
func tile(c *call) {
	list, _ := c.intsOperand(1, "repeats")
	repeats := c.sizes(list)
	s := c.typeOf(c.in[0]).Shape
	if c.err == nil && len(repeats) != len(s) {
		c.failf("%d repeats for %d dimensions", len(repeats), len(s))
	}
	if c.err != nil {
		return
	}
	var apart, wide, out []int
	for d, n := range s {
		apart = append(apart, 1, n)
		wide = append(wide, repeats[d], n)
		out = append(out, repeats[d]*n)
	}
	c.reshaped(c.in[0], apart)
	c.expanded(c.out[0], wide)
	c.reshaped(c.out[0], out)
}

func gather(c *call) {
	s := c.typeOf(c.in[0]).Shape
	axis := c.axis(c.int("axis", 0), len(s))
	if c.err != nil {
		return
	}
	index := c.in[1]
	if t := c.typeOf(index); !t.DType.IsInt() {
		c.failf("indices are of type %s, want integers", t.DType)
		return
	}
	if index.isConst() {
		// Negative indices count from the end.
		c.charge(index.tensor.Numel())
		list := slices.Clone(int64s(index.tensor))
		n := int64(s[axis])
		for i, v := range list {
			if v < -n || v >= n {
				c.failf("index %d is outside dimension %d of %v", v, axis, s)
				return
			}
			if v < 0 {
				list[i] += n
			}
		}
		index = &value{name: index.name, id: ir.NoValue, tensor: ir.NewTensor(ir.I64, index.tensor.Shape, list)}
	}
	if c.foldable(c.in[0], index) {
		inner := ir.Numel(s[axis+1:])
		shape := slices.Concat(s[:axis], index.tensor.Shape, s[axis+1:])
		list := ir.Data[int64](index.tensor)
		if float64(ir.Numel(s[:axis]))*float64(len(list))*float64(inner) <= maxFold {
			var at []int
			for o := range ir.Numel(s[:axis]) {
				for _, v := range list {
					for i := range inner {
						at = append(at, (o*s[axis]+int(v))*inner+i)
					}
				}
			}
			c.setConst(take(c.in[0].tensor, shape, at))
			return
		}
	}
	c.set(c.add(ir.Gather, &ir.AxisAttr{Axis: axis}, c.id(0), c.use(index)))
}

// depthToSpace moves blocks of channels into the image.
func depthToSpace(c *call) {
	x := c.id(0)
	b := c.smallInt("blocksize", c.int("blocksize", 0))
	mode := c.str("mode", "DCR")
	s := c.typ(x).Shape
	if c.err == nil && (len(s) != 4 || b < 1 || b > 1<<15 || s[1]%(b*b) != 0) {
		c.failf("blocksize %d of an operand of shape %v", b, s)
	}
	if c.err != nil {
		return
	}
	n, ch, h, w := s[0], s[1]/(b*b), s[2], s[3]
	switch mode {
	case "DCR":
		x = c.transpose(c.reshape(x, n, b, b, ch, h, w), 0, 3, 4, 1, 5, 2)
	case "CRD":
		x = c.transpose(c.reshape(x, n, ch, b, b, h, w), 0, 1, 4, 2, 5, 3)
	default:
		c.failf("mode %q", mode)
	}
	c.set(c.reshape(x, n, ch, h*b, w*b))
}

// spaceToDepth moves blocks of the image into channels.
func spaceToDepth(c *call) {
	x := c.id(0)
	b := c.smallInt("blocksize", c.int("blocksize", 0))
	s := c.typ(x).Shape
	if c.err == nil && (len(s) != 4 || b < 1 || s[2]%b != 0 || s[3]%b != 0) {
		c.failf("blocksize %d of an operand of shape %v", b, s)
	}
	if c.err != nil {
		return
	}
	n, ch, h, w := s[0], s[1], s[2]/b, s[3]/b
	x = c.transpose(c.reshape(x, n, ch, h, b, w, b), 0, 3, 5, 1, 2, 4)
	c.set(c.reshape(x, n, ch*b*b, h, w))
}

// casted converts the element type of an operand.
func (c *call) casted(v *value, d ir.DType) {
	if c.err != nil {
		return
	}
	if c.typeOf(v).DType == d && v.quant == nil {
		if v.tensor == nil {
			c.set(c.unquantised(v.id))
		} else {
			c.pass(v)
		}
		return
	}
	if v.isConst() && v.tensor.Numel() <= maxFold {
		if t, ok := castTensor(v.tensor, d); ok {
			c.pass(&value{id: ir.NoValue, tensor: t, uniform: v.uniform})
			return
		}
	}
	x := c.unquantised(c.use(v))
	c.set(c.addTyped(ir.Cast, nil, ir.TypeOf(d, c.typ(x).Shape...), x))
}

func cast(c *call) {
	c.ignore("saturate") // concerns 8-bit floats only
	d, err := dtypeOf(int32(c.int("to", 0)))
	if err != nil {
		c.unsupportedf("%v", err)
	}
	c.casted(c.in[0], d)
}

func castLike(c *call) {
	c.ignore("saturate")
	c.casted(c.in[0], c.typeOf(c.in[1]).DType)
}
