package onnx

import (
	"cmp"
	"math"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

type attribute = *onnxpb.AttributeProto

// trilu keeps one triangle of each matrix.
func trilu(c *call) {
	x := c.plain(0)
	s := c.typ(x).Shape
	upper := c.bool("upper", true)
	k := int64(0)
	if list, given := c.intsOperand(1, "k"); given && len(list) == 1 {
		k = list[0]
	} else if given && c.err == nil {
		c.failf("k has %d elements, want 1", len(list))
	}
	if c.err == nil && len(s) < 2 {
		c.failf("operand of shape %v, want matrices", s)
	}
	if c.err != nil {
		return
	}
	rows, cols := s[len(s)-2], s[len(s)-1]
	if ir.Numel(s[len(s)-2:]) > maxFold {
		c.unsupportedf("matrices of more than %d elements", maxFold)
		return
	}
	keep := make([]int64, rows*cols)
	for i := range keep {
		row, col := int64(i/cols), int64(i%cols)
		// The comparison is arranged so that a huge k does not overflow.
		if upper && col-row >= k || !upper && col-row <= k {
			keep[i] = 1
		}
	}
	mask := c.constant("", fromInts(ir.Bool, []int{rows, cols}, keep), nil)
	c.set(c.where(mask, x, c.zero(c.typ(x).DType)))
}

// zero is a constant 0 or false of any type.
func (c *call) zero(d ir.DType) ir.ValueID { return c.constant("", ir.Zeros(d), nil) }

// eyeLike is known at import, as all shapes are.
func eyeLike(c *call) {
	t := c.typeOf(c.in[0])
	d := t.DType
	if n := c.int("dtype", 0); n != 0 {
		var err error
		if d, err = dtypeOf(int32(n)); err != nil {
			c.unsupportedf("%v", err)
		}
	}
	k := c.int("k", 0)
	if c.err == nil && (len(t.Shape) != 2 || ir.Numel(t.Shape) > maxFold) {
		c.failf("operand of shape %v, want a matrix of at most %d elements", t.Shape, maxFold)
	}
	if c.err != nil {
		return
	}
	v := make([]int64, ir.Numel(t.Shape))
	for i := range v {
		if int64(i%t.Shape[1]-i/t.Shape[1]) == k {
			v[i] = 1
		}
	}
	c.setConst(fromInts(d, t.Shape, v))
}

// cosineWindow translates windows a0 − a1·cos(2πi/n) + a2·cos(4πi/n), with n the
// size, or the size − 1 where they are symmetric.
func cosineWindow(a0, a1, a2 float64) func(*call) {
	return func(c *call) {
		t := c.tensor(0, "size")
		d, err := dtypeOf(int32(c.int("output_datatype", int64(onnxpb.TensorProto_FLOAT))))
		if err != nil {
			c.unsupportedf("%v", err)
		}
		periodic := c.bool("periodic", true)
		if c.err == nil && (t.Numel() != 1 || !holdsInts(t.DType)) {
			c.failf("size is %s %v, want an integer", t.DType, t.Shape)
		}
		if c.err != nil {
			return
		}
		n := int64s(t)[0]
		if n < 0 || n > maxFold {
			c.failf("size %d, want at most %d", n, maxFold)
			return
		}
		period := float64(n)
		if !periodic {
			period--
		}
		w := make([]float64, n)
		for i := range w {
			x := 2 * math.Pi * float64(i) / period
			w[i] = a0 - a1*math.Cos(x) + a2*math.Cos(2*x)
		}
		c.setConst(fromFloats(d, []int{int(n)}, w))
	}
}

// centerCropPad crops or pads the given axes around their middle.
func centerCropPad(c *call) {
	x := c.plain(0)
	s := c.typ(x).Shape
	want, _ := c.intsOperand(1, "shape")
	list, given := c.ints("axes")
	if !given {
		for d := range s {
			list = append(list, int64(d))
		}
	}
	c.axes(list, len(s))
	if c.err == nil && len(want) != len(list) {
		c.failf("%d sizes for %d axes", len(want), len(list))
	}
	if c.err != nil {
		return
	}
	a := &ir.PadAttr{Begin: make([]int, len(s)), End: make([]int, len(s))}
	for i, ax := range list {
		d := c.axis(ax, len(s))
		n := c.smallInt("size", want[i])
		if n < 0 {
			c.failf("size %d", n)
			return
		}
		// Of an odd difference the larger half is at the end.
		switch diff := n - s[d]; {
		case diff >= 0:
			a.Begin[d], a.End[d] = diff/2, diff-diff/2
		default:
			a.Begin[d] = -(-diff / 2)
			a.End[d] = diff - a.Begin[d]
		}
	}
	c.set(c.add(ir.Pad, a, x))
}

// cumulative translates CumSum and CumProd. An exclusive one is shifted by one
// element, the first of which is then empty; a reverse one runs backwards.
func cumulative(kind ir.OpKind, empty float64) func(*call) {
	return func(c *call) {
		x := c.plain(0)
		s := c.typ(x).Shape
		list, _ := c.intsOperand(1, "axis")
		if c.err == nil && len(list) != 1 {
			c.failf("axis has %d elements, want 1", len(list))
		}
		exclusive, reverse := c.bool("exclusive", false), c.bool("reverse", false)
		if c.err != nil {
			return
		}
		axis := c.axis(list[0], len(s))
		if reverse {
			x = c.reversed(x, axis)
		}
		switch {
		case !exclusive:
		case c.err == nil && s[axis] == 1:
			x = c.add(ir.Expand, &ir.ShapeAttr{Shape: s}, c.scalar(c.typ(x).DType, empty))
		case c.err == nil:
			a := &ir.PadAttr{Begin: make([]int, len(s)), End: make([]int, len(s)), Value: empty}
			a.Begin[axis], a.End[axis] = 1, -1
			x = c.add(ir.Pad, a, x)
		}
		x = c.add(kind, &ir.AxisAttr{Axis: axis}, x)
		if reverse {
			x = c.reversed(x, axis)
		}
		c.set(x)
	}
}

func det(c *call) { c.set(c.add(ir.Det, nil, c.id(0))) }

// ---- Operators whose result's shape depends on elements. They are understood
// where those are known.

// listable reports whether the elements of an operand are known, and so few at
// import that a list of them may be made.
func (c *call) listable(v *value) bool {
	if c.eager == nil {
		return c.foldable(v)
	}
	c.charge(v.tensor.Numel())
	return c.err == nil && v.isConst()
}

// nonZero lists where the elements of a constant are not 0, one column each.
func nonZero(c *call) {
	v := c.in[0]
	if !c.listable(v) {
		c.dataf("the operand must be a constant, for the result's shape depends on its elements")
		return
	}
	t := v.tensor
	var at []int
	if holdsFloats(t.DType) {
		for i, x := range float64s(t) {
			if x != 0 {
				at = append(at, i)
			}
		}
	} else {
		for i, x := range int64s(t) {
			if x != 0 {
				at = append(at, i)
			}
		}
	}
	rank := len(t.Shape)
	out := make([]int64, rank*len(at))
	for d, stride := range rowStrides(t.Shape) {
		for j, p := range at {
			out[d*len(at)+j] = int64(p / stride % t.Shape[d])
		}
	}
	c.setConst(ir.NewTensor(ir.I64, []int{rank, len(at)}, out))
}

// unique lists the different elements of a constant, or its different slices
// along an axis, with their first places, the place of each in the list, and
// how often each occurs.
func unique(c *call) {
	v := c.in[0]
	if !c.listable(v) {
		c.dataf("the operand must be a constant, for the result's shape depends on its elements")
		return
	}
	t := v.tensor
	sorted := c.bool("sorted", true)
	axis, shape := 0, []int{t.Numel()}
	if slices.ContainsFunc(c.proto.Attribute, func(a attribute) bool { return a.Name == "axis" }) {
		axis, shape = c.axis(c.int("axis", 0), len(t.Shape)), t.Shape
	}
	if c.err != nil {
		return
	}
	n, inner := shape[axis], ir.Numel(shape[axis+1:])
	outer := ir.Numel(shape[:axis])
	order := elementOrder(t)
	compare := func(a, b int) int {
		for o := range outer {
			for i := range inner {
				if r := order((o*n+a)*inner+i, (o*n+b)*inner+i); r != 0 {
					return r
				}
			}
		}
		return 0
	}
	byValue := make([]int, n)
	for i := range byValue {
		byValue[i] = i
	}
	slices.SortStableFunc(byValue, compare)
	var first []int // the first place of each different slice
	group := make([]int64, n)
	for i, p := range byValue {
		if i == 0 || compare(byValue[i-1], p) != 0 {
			first = append(first, p)
		}
		group[p] = int64(len(first) - 1)
	}
	if !sorted { // in order of appearance
		rank := make([]int, len(first))
		for i := range rank {
			rank[i] = i
		}
		slices.SortFunc(rank, func(a, b int) int { return cmp.Compare(first[a], first[b]) })
		place := make([]int64, len(first))
		for i, r := range rank {
			place[r] = int64(i)
		}
		for i, g := range group {
			group[i] = place[g]
		}
		slices.Sort(first)
	}
	count := make([]int64, len(first))
	for _, g := range group {
		count[g]++
	}
	var index []int
	for o := range outer {
		for _, p := range first {
			for i := range inner {
				index = append(index, (o*n+p)*inner+i)
			}
		}
	}
	out := slices.Clone(shape)
	out[axis] = len(first)
	places := make([]int64, len(first))
	for i, p := range first {
		places[i] = int64(p)
	}
	list := func(v []int64) *ir.Tensor { return ir.NewTensor(ir.I64, []int{len(v)}, v) }
	for i, t := range []*ir.Tensor{take(t, out, index), list(places), list(group), list(count)} {
		if i < len(c.out) {
			c.out[i] = c.made(t)
		}
	}
}

// elementOrder compares two elements of a constant by their index.
func elementOrder(t *ir.Tensor) func(a, b int) int {
	if holdsFloats(t.DType) {
		v := float64s(t)
		return func(a, b int) int { return cmp.Compare(v[a], v[b]) }
	}
	v := int64s(t)
	if t.DType == ir.U64 {
		return func(a, b int) int { return cmp.Compare(uint64(v[a]), uint64(v[b])) }
	}
	return func(a, b int) int { return cmp.Compare(v[a], v[b]) }
}
