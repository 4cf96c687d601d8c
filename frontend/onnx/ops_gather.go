package onnx

import (
	"slices"

	"situ/ir"
)

// ids is a constant list of int64 under a shape.
func (c *call) ids(shape []int, list []int64) ir.ValueID {
	return c.constant("", ir.NewTensor(ir.I64, shape, list), nil)
}

// counting is the constant from … from+n−1 under a shape of n elements.
func (c *call) counting(n, from int, shape ...int) ir.ValueID {
	c.charge(n)
	if c.err != nil {
		return ir.NoValue
	}
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(from + i)
	}
	return c.ids(shape, v)
}

// indexOperand returns operand i, which holds indices, as int32 or int64.
func (c *call) indexOperand(i int) ir.ValueID {
	x := c.plain(i)
	if d := c.typ(x).DType; c.err == nil && d != ir.I32 && d != ir.I64 {
		c.failf("indices are %s, want int32 or int64", d)
	}
	return x
}

func gatherElements(c *call) {
	x := c.plain(0)
	axis := c.axis(c.int("axis", 0), len(c.typ(x).Shape))
	c.set(c.add(ir.GatherElements, &ir.AxisAttr{Axis: axis}, x, c.indexOperand(1)))
}

// scatterMode reads the attribute reduction, which came with opset 16.
func (c *call) scatterMode() ir.ScatterMode {
	switch r := c.str("reduction", "none"); r {
	case "none":
	case "add":
		return ir.ScatterAdd
	case "mul":
		return ir.ScatterMul
	case "min":
		return ir.ScatterMin
	case "max":
		return ir.ScatterMax
	default:
		c.failf("reduction %q", r)
	}
	return ir.ScatterSet
}

func scatterElements(c *call) {
	x := c.plain(0)
	a := &ir.ScatterAttr{Axis: c.axis(c.int("axis", 0), len(c.typ(x).Shape)), Mode: c.scatterMode()}
	c.set(c.add(ir.ScatterElements, a, x, c.indexOperand(1), c.plain(2)))
}

// linear turns the tuples along the last dimension of operand i into row-major
// positions in a space of the given dimensions. Negative entries count from the
// end.
func (c *call) linear(i int, dims []int) *value {
	if c.err != nil {
		return nil
	}
	v := c.in[i]
	t := c.typeOf(v)
	k := len(dims)
	shape := t.Shape[:len(t.Shape)-1]
	strides := rowStrides(dims)
	if c.foldable(v) && holdsInts(t.DType) {
		list := int64s(v.tensor)
		at := make([]int64, ir.Numel(shape))
		for p := range at {
			for d, n := range dims {
				x := list[p*k+d]
				if x < -int64(n) || x >= int64(n) {
					c.failf("index %d is outside dimension %d, which has %d elements", x, d, n)
					return nil
				}
				if x < 0 {
					x += int64(n)
				}
				at[p] += x * int64(strides[d])
			}
		}
		return c.made(ir.NewTensor(ir.I64, shape, at))
	}
	x := c.castID(c.indexOperand(i), ir.I64)
	var sizes, steps []int64
	for d := range dims {
		sizes, steps = append(sizes, int64(dims[d])), append(steps, int64(strides[d]))
	}
	x = c.where(c.add(ir.Less, nil, x, c.ids(nil, []int64{0})), c.add(ir.Add, nil, x, c.ids([]int{k}, sizes)), x)
	if k == 1 {
		return &value{id: c.reshape(x, shape...)}
	}
	x = c.add(ir.Mul, nil, x, c.ids([]int{k}, steps))
	return &value{id: c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: []int{len(shape)}}, x)}
}

// gatherND gathers slices of x from the positions its operand lists, within each
// batch.
func gatherND(c *call) {
	x := c.plain(0)
	s, is := c.typ(x).Shape, c.typeOf(c.in[1]).Shape
	b := c.smallInt("batch_dims", c.int("batch_dims", 0))
	if c.err != nil {
		return
	}
	if len(is) == 0 || b < 0 || b >= len(is) || b+is[len(is)-1] > len(s) || !slices.Equal(s[:min(b, len(s))], is[:b]) {
		c.failf("batch_dims %d and indices of shape %v do not fit an operand of shape %v", b, is, s)
		return
	}
	k := is[len(is)-1]
	if k == 0 {
		c.unsupportedf("empty positions")
		return
	}
	space := s[b : b+k]
	at := c.linear(1, space)
	if b > 0 && c.err == nil {
		// Each batch has its own part of the flattened operand.
		c.charge(ir.Numel(s[:b]))
		if c.err != nil {
			return
		}
		part := make([]int64, ir.Numel(s[:b]))
		for i := range part {
			part[i] = int64(i * ir.Numel(space))
		}
		shape := slices.Concat(s[:b], slices.Repeat([]int{1}, len(is)-1-b))
		at = c.pair(ir.Add, at, c.made(ir.NewTensor(ir.I64, shape, part)))
	}
	if c.err != nil {
		return
	}
	flat := c.reshape(x, append([]int{ir.Numel(s[:b+k])}, s[b+k:]...)...)
	c.set(c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, flat, c.use(at)))
}

// scatterND writes slices to the positions its operand lists: rows of the
// flattened operand.
func scatterND(c *call) {
	x, updates := c.plain(0), c.plain(2)
	mode := c.scatterMode()
	s, is := c.typ(x).Shape, c.typeOf(c.in[1]).Shape
	if c.err != nil {
		return
	}
	if len(is) == 0 || is[len(is)-1] > len(s) {
		c.failf("indices of shape %v do not fit an operand of shape %v", is, s)
		return
	}
	k := is[len(is)-1]
	if k == 0 {
		c.unsupportedf("empty positions")
		return
	}
	at := c.linear(1, s[:k])
	m, inner := ir.Numel(is[:len(is)-1]), ir.Numel(s[k:])
	if c.err != nil {
		return
	}
	if u := c.typ(updates).Shape; !slices.Equal(u, slices.Concat(is[:len(is)-1], s[k:])) {
		c.failf("updates have shape %v, indices %v and operand %v", u, is, s)
		return
	}
	rows := c.add(ir.Expand, &ir.ShapeAttr{Shape: []int{m, inner}}, c.reshape(c.use(at), m, 1))
	y := c.add(ir.ScatterElements, &ir.ScatterAttr{Mode: mode},
		c.reshape(x, ir.Numel(s[:k]), inner), rows, c.reshape(updates, m, inner))
	c.set(c.reshape(y, s...))
}

// topK returns the k largest or smallest elements and where they are. They are
// sorted, wanted or not.
func topK(c *call) {
	x := c.plain(0)
	s := c.typ(x).Shape
	a := &ir.TopKAttr{Axis: c.axis(c.int("axis", -1), len(s)), Smallest: !c.bool("largest", true)}
	c.ignore("sorted")
	if c.opset < 10 {
		a.K = c.smallInt("k", c.int("k", 0))
	} else if list, _ := c.intsOperand(1, "k"); len(list) == 1 {
		a.K = c.smallInt("k", list[0])
	} else if c.err == nil {
		c.failf("k has %d elements, want 1", len(list))
	}
	at := c.add(ir.TopK, a, x)
	c.setN(0, c.add(ir.GatherElements, &ir.AxisAttr{Axis: a.Axis}, x, at))
	c.setN(1, at)
}

// extremeAt is the index of the largest or smallest element along an axis: the
// first one, or the last one by looking from the other end.
func (c *call) extremeAt(x ir.ValueID, axis int, smallest, last bool) ir.ValueID {
	if c.err != nil {
		return x
	}
	s := c.typ(x).Shape
	if last {
		x = c.reversed(x, axis)
	}
	at := c.add(ir.TopK, &ir.TopKAttr{Axis: axis, K: 1, Smallest: smallest}, x)
	if last {
		at = c.add(ir.Sub, nil, c.scalar(ir.I64, float64(s[axis]-1)), at)
	}
	return at
}

// reversed runs an axis backwards.
func (c *call) reversed(x ir.ValueID, axis int) ir.ValueID {
	if c.err != nil {
		return x
	}
	s := c.typ(x).Shape
	a := &ir.SliceAttr{Starts: make([]int, len(s)), Steps: slices.Repeat([]int{1}, len(s)), Sizes: slices.Clone(s)}
	a.Starts[axis], a.Steps[axis] = s[axis]-1, -1
	return c.add(ir.Slice, a, x)
}

func argExtreme(smallest bool) func(*call) {
	return func(c *call) {
		x := c.plain(0)
		s := slices.Clone(c.typ(x).Shape)
		axis := c.axis(c.int("axis", 0), len(s))
		last, keep := c.bool("select_last_index", false), c.bool("keepdims", true)
		at := c.extremeAt(x, axis, smallest, last)
		if !keep && c.err == nil {
			at = c.reshape(at, slices.Delete(s, axis, axis+1)...)
		}
		c.set(at)
	}
}

// hardmax is 1 at the first maximum along an axis and 0 elsewhere. Before opset
// 13 the axes from the given one on are taken together.
func hardmax(c *call) {
	x := c.id(0)
	s := c.typ(x).Shape
	def := int64(-1)
	if c.opset < 13 {
		def = 1
	}
	axis := c.axis(c.int("axis", def), len(s))
	if c.err != nil {
		return
	}
	flat, along := x, axis
	if c.opset < 13 {
		flat, along = c.reshape(x, ir.Numel(s[:axis]), ir.Numel(s[axis:])), 1
	}
	fs := c.typ(flat).Shape
	positions := c.alongAxis(fs, along)
	hit := c.add(ir.Equals, nil, positions, c.extremeAt(flat, along, false, false))
	c.set(c.reshape(c.castID(hit, c.typ(x).DType), s...))
}

// alongAxis is the constant 0 … n−1 along one axis of a shape, 1 elsewhere.
func (c *call) alongAxis(s []int, axis int) ir.ValueID {
	if c.err != nil {
		return ir.NoValue
	}
	shape := slices.Repeat([]int{1}, len(s))
	shape[axis] = s[axis]
	return c.counting(s[axis], 0, shape...)
}

// oneHot compares indices with positions along a new axis. Indices out of range
// are nowhere.
func oneHot(c *call) {
	x := c.plain(0)
	list := c.tensor(1, "depth")
	if c.err == nil && (list.Numel() != 1 || !holdsInts(list.DType) && !holdsFloats(list.DType)) {
		c.failf("depth is %s %v, want a number", list.DType, list.Shape)
	}
	if c.err != nil {
		return
	}
	t, _ := castTensor(list, ir.I64)
	depth := c.smallInt("depth", int64s(t)[0])
	s := slices.Clone(c.typ(x).Shape)
	axis := c.axis(c.int("axis", -1), len(s)+1)
	values := c.plain(2)
	if c.err == nil && (depth < 1 || !slices.Equal(c.typ(values).Shape, []int{2})) {
		c.failf("depth is %d and values have shape %v", depth, c.typ(values).Shape)
	}
	if c.err != nil {
		return
	}
	x = c.castID(x, ir.I64)
	n := c.scalar(ir.I64, float64(depth))
	x = c.where(c.add(ir.Less, nil, x, c.scalar(ir.I64, 0)), c.add(ir.Add, nil, x, n), x)
	x = c.reshape(x, slices.Insert(slices.Clone(s), axis, 1)...)
	s = slices.Insert(s, axis, depth)
	hit := c.add(ir.Equals, nil, x, c.alongAxis(s, axis))
	pick := func(i int) ir.ValueID {
		a := &ir.SliceAttr{Starts: []int{i}, Steps: []int{1}, Sizes: []int{1}}
		return c.reshape(c.add(ir.Slice, a, values))
	}
	c.set(c.where(hit, pick(1), pick(0)))
}

// compress keeps the positions whose condition holds, which has to be known.
func compress(c *call) {
	cond := c.tensor(1, "condition")
	s := c.typeOf(c.in[0]).Shape
	flat := !slices.ContainsFunc(c.proto.Attribute, func(a attribute) bool { return a.Name == "axis" })
	axis := 0
	if flat {
		s = []int{ir.Numel(s)}
	} else {
		axis = c.axis(c.int("axis", 0), len(s))
	}
	if c.err == nil && (cond.DType != ir.Bool || len(cond.Shape) != 1 || cond.Shape[0] > s[axis]) {
		c.failf("condition is %s %v for dimension %d of %v", cond.DType, cond.Shape, axis, s)
	}
	if c.err != nil {
		return
	}
	var keep []int64
	for i, b := range int64s(cond) {
		if b != 0 {
			keep = append(keep, int64(i))
		}
	}
	if len(keep) == 0 {
		out := slices.Clone(s)
		out[axis] = 0
		c.setConst(ir.Zeros(c.typeOf(c.in[0]).DType, out...))
		return
	}
	x := c.reshape(c.plain(0), s...)
	c.set(c.add(ir.Gather, &ir.AxisAttr{Axis: axis}, x, c.ids([]int{len(keep)}, keep)))
}

// reverseSequence reverses the first sequence_lens elements along the time axis
// of each batch.
func reverseSequence(c *call) {
	x := c.plain(0)
	s := c.typ(x).Shape
	time, batch := c.axis(c.int("time_axis", 0), len(s)), c.axis(c.int("batch_axis", 1), len(s))
	if c.err == nil && time == batch {
		c.failf("time_axis and batch_axis are both %d", time)
	}
	if c.err != nil {
		return
	}
	ls := slices.Repeat([]int{1}, len(s))
	ls[batch] = s[batch]
	lens := c.castID(c.reshape(c.indexOperand(1), ls...), ir.I64)
	t := c.alongAxis(s, time)
	mirrored := c.add(ir.Sub, nil, c.add(ir.Sub, nil, lens, c.scalar(ir.I64, 1)), t)
	at := c.where(c.add(ir.Less, nil, t, lens), mirrored, t)
	at = c.add(ir.Expand, &ir.ShapeAttr{Shape: s}, at)
	c.set(c.add(ir.GatherElements, &ir.AxisAttr{Axis: time}, x, at))
}

// tensorScatter writes a step of a cache: positions along axis from
// write_indices of each batch on, modulo the cache's length if it is circular.
func tensorScatter(c *call) {
	x, update := c.plain(0), c.plain(1)
	s, u := c.typ(x).Shape, c.typ(update).Shape
	axis := c.axis(c.int("axis", -2), len(s))
	circular := false
	switch m := c.str("mode", "linear"); m {
	case "linear":
	case "circular":
		circular = true
	default:
		c.failf("mode %q", m)
	}
	if c.err == nil && (axis == 0 || len(u) != len(s)) {
		c.failf("axis %d of a cache of shape %v and an update of shape %v", axis, s, u)
	}
	if c.err != nil {
		return
	}
	at := c.alongAxis(u, axis)
	if c.operand(2) != nil {
		ws := slices.Repeat([]int{1}, len(s))
		ws[0] = s[0]
		at = c.add(ir.Add, nil, at, c.reshape(c.castID(c.indexOperand(2), ir.I64), ws...))
	}
	if circular {
		at = c.add(ir.Mod, nil, at, c.scalar(ir.I64, float64(s[axis])))
	}
	at = c.add(ir.Expand, &ir.ShapeAttr{Shape: u}, at)
	c.set(c.add(ir.ScatterElements, &ir.ScatterAttr{Axis: axis}, x, at, update))
}
