package irtest

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"situ/ir"
)

// A maker draws attributes and operands of one operator whose first operand, x,
// has a rank from minRank to maxRank. It is drawn weight times as often as one of
// weight 1.
type maker struct {
	kind             ir.OpKind
	weight           int
	minRank, maxRank int
	make             func(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID)
}

// anyRank leaves room below ir.MaxRank.
const anyRank = 6

// makers stand from plain to intricate: shrinking prefers those in front.
var makers = []maker{
	{ir.Relu, 1, 0, anyRank, plainUnary},
	{ir.Clip, 1, 0, anyRank, unary(func() ir.Attr { return &ir.ClipAttr{Lo: -1, Hi: 1} })},
	{ir.Add, 3, 0, anyRank, binary},
	{ir.MatMul, 4, 2, anyRank, matmul},
	{ir.Conv2D, 12, 4, 4, conv},
	{ir.MaxPool, 4, 4, 4, pool},
	{ir.AvgPool, 4, 4, 4, pool},
	{ir.Mul, 2, 0, anyRank, binary},
	{ir.Sub, 1, 0, anyRank, binary},
	{ir.ReduceMean, 2, 1, anyRank, reduce},
	{ir.Reshape, 1, 0, anyRank, reshape},
	{ir.Transpose, 1, 0, anyRank, transpose},
	{ir.Concat, 2, 1, anyRank, concat},
	{ir.Slice, 1, 1, anyRank, slice},
	{ir.Pad, 1, 1, anyRank, pad},
	{ir.Softmax, 1, 1, anyRank, softmax},
	{ir.LayerNorm, 1, 1, anyRank, layerNorm},
	{ir.MulAdd, 1, 0, anyRank, mulAdd},
	{ir.Sigmoid, 1, 0, anyRank, plainUnary},
	{ir.Tanh, 1, 0, anyRank, plainUnary},
	{ir.HardSwish, 1, 0, anyRank, plainUnary},
	{ir.HardSigmoid, 1, 0, anyRank, unary(func() ir.Attr { return &ir.AlphaBetaAttr{Alpha: 0.2, Beta: 0.5} })},
	{ir.LeakyRelu, 1, 0, anyRank, unary(func() ir.Attr { return &ir.AlphaBetaAttr{Alpha: 0.125} })},
	{ir.Elu, 1, 0, anyRank, unary(func() ir.Attr { return &ir.AlphaBetaAttr{Alpha: 1} })},
	{ir.Neg, 1, 0, anyRank, plainUnary},
	{ir.Abs, 1, 0, anyRank, plainUnary},
	{ir.Erf, 1, 0, anyRank, plainUnary},
	{ir.Softplus, 1, 0, anyRank, plainUnary},
	{ir.Min, 1, 0, anyRank, plainBinary},
	{ir.Max, 1, 0, anyRank, plainBinary},
	{ir.ReduceSum, 1, 1, anyRank, reduce},
	{ir.ReduceMax, 1, 1, anyRank, reduce},
	{ir.ReduceMin, 1, 1, anyRank, reduce},
	{ir.Expand, 1, 1, anyRank - 1, expand},
	{ir.Gather, 1, 1, anyRank - 1, gather},
	{ir.MatMul, 3, 2, anyRank, product},
}

func plainUnary(_ *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) { return nil, []ir.ValueID{x} }

func unary(attr func() ir.Attr) func(*builder, ir.ValueID) (ir.Attr, []ir.ValueID) {
	return func(_ *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) { return attr(), []ir.ValueID{x} }
}

func (b *builder) act() *ir.Act {
	inf := float32(math.Inf(1))
	return rapid.SampledFrom([]*ir.Act{nil, {Lo: 0, Hi: inf}, {Lo: 0, Hi: 6}, {Lo: -0.5, Hi: 0.75}}).Draw(b.t, "act")
}

// conv draws groups (up to depthwise), strides, dilations, uneven pads, and a
// bias or none.
func conv(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	groups := rapid.SampledFrom(divisors(s[3])).Draw(b.t, "groups")
	out := groups * b.small("channels per group", max(1, b.opts.MaxDim/groups))
	a := &ir.ConvAttr{Groups: groups, Act: b.act()}
	var k [2]int
	for d := range 2 {
		k[d], a.Strides[d], a.Dilations[d], a.Pads[d], a.Pads[2+d] = b.window(s[1+d], true)
	}
	fan := float64(k[0] * k[1] * s[3] / groups)
	in := []ir.ValueID{x, b.weights("w", math.Sqrt(3/fan), out, k[0], k[1], s[3]/groups)}
	if b.flag("bias") {
		in = append(in, b.weights("bias", 0.5, out))
	}
	return a, in
}

// window draws kernel, stride, dilation and pads along a dimension of n
// elements so that there is at least one position. Unless any pad will do,
// pads are smaller than the kernel and there is no dilation, so that no window
// lies wholly in the padding.
func (b *builder) window(n int, anyPad bool) (kernel, stride, dilation, begin, end int) {
	kernel, stride, dilation = b.small("kernel", min(n, 4)), b.small("stride", 3), 1
	if anyPad && kernel > 1 {
		dilation = b.small("dilation", min(2, (n-1)/(kernel-1)))
	}
	begin, end = b.index("pad", kernel), b.index("pad", kernel)
	return
}

func pool(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	a := &ir.PoolAttr{CountPad: b.flag("count pad")}
	for d := range 2 {
		a.Kernel[d], a.Strides[d], a.Dilations[d], a.Pads[d], a.Pads[2+d] = b.window(s[1+d], false)
	}
	return a, []ir.ValueID{x}
}

// matmul multiplies by a constant matrix with or without a bias.
func matmul(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	k := s[len(s)-1]
	n := b.small("columns", 2*b.opts.MaxDim)
	in := []ir.ValueID{x, b.weights("w", math.Sqrt(3/float64(k)), k, n)}
	if b.flag("bias") {
		in = append(in, b.weights("bias", 0.5, n))
	}
	return &ir.MatMulAttr{Act: b.act()}, in
}

// product multiplies by another value: one whose rows fit, or one whose columns do,
// transposed, as scores are made of queries and keys. Leading dimensions of 1 are
// repeated.
func product(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	n := len(s)
	fits := func(dim int) []ir.ValueID {
		return b.others(func(o []int) bool {
			return len(o) >= 2 && o[len(o)-dim] == s[n-1] && broadcasts(o[:len(o)-2], s[:n-2])
		})
	}
	in := []ir.ValueID{x, ir.NoValue}
	if fit := fits(2); b.flag("as it is") && len(fit) > 0 {
		in[1] = fit[b.index("other", len(fit))]
	} else if !b.allowed(ir.Transpose) {
		return matmul(b, x)
	} else {
		fit := fits(1)
		y := fit[b.index("other", len(fit))]
		perm := make([]int, len(b.shape(y)))
		for i := range perm {
			perm[i] = i
		}
		last := len(perm) - 1
		perm[last-1], perm[last] = last, last-1
		in[1] = b.add(ir.Transpose, &ir.PermAttr{Perm: perm}, y)
	}
	if b.flag("bias") {
		in = append(in, b.weights("bias", 0.5, b.shape(in[1])[len(b.shape(in[1]))-1]))
	}
	return &ir.MatMulAttr{Act: b.act()}, in
}

func binary(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	return &ir.BinaryAttr{Act: b.act()}, b.pair(x)
}

func plainBinary(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) { return nil, b.pair(x) }

// pair finds a second operand: an earlier value that broadcasts with x, or a
// constant of x's shape with some dimensions 1 and some leading ones left out.
// The operands come in either order.
func (b *builder) pair(x ir.ValueID) []ir.ValueID {
	var y ir.ValueID
	if fit := b.others(func(s []int) bool { return broadcasts(s, b.shape(x)) }); b.flag("two activations") && len(fit) > 0 {
		y = fit[b.index("other", len(fit))]
	} else {
		y = b.smaller("c", x)
	}
	if b.flag("swapped") {
		return []ir.ValueID{y, x}
	}
	return []ir.ValueID{x, y}
}

// smaller returns a constant of x's shape with some dimensions 1 and some leading
// ones left out.
func (b *builder) smaller(name string, x ir.ValueID) ir.ValueID {
	s := slices.Clone(b.shape(x)[b.index("dropped", len(b.shape(x))+1):])
	for i := range s {
		if b.flag("broadcast") {
			s[i] = 1
		}
	}
	return b.weights(name, 1, s...)
}

// others lists the values whose shape fits, the latest first.
func (b *builder) others(fits func([]int) bool) []ir.ValueID {
	var ids []ir.ValueID
	for _, id := range slices.Backward(b.values) {
		if fits(b.shape(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

func broadcasts(a, c []int) bool {
	for i := 1; i <= min(len(a), len(c)); i++ {
		if p, q := a[len(a)-i], c[len(c)-i]; p != q && p != 1 && q != 1 {
			return false
		}
	}
	return true
}

// reduce draws the spatial axes of an image (global pooling) or any others.
func reduce(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	a := &ir.ReduceAttr{KeepDims: b.flag("keepdims")}
	n := len(b.shape(x))
	if n == 4 && !b.flag("any axes") {
		a.Axes = []int{1, 2}
		return a, []ir.ValueID{x}
	}
	for i := range n {
		if b.flag("axis") {
			a.Axes = append(a.Axes, i)
		}
	}
	if len(a.Axes) == 0 {
		a.Axes = []int{n - 1}
	}
	return a, []ir.ValueID{x}
}

func softmax(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	n := len(b.shape(x))
	return &ir.AxisAttr{Axis: n - 1 - b.index("axis from the last", n)}, []ir.ValueID{x}
}

// layerNorm has gamma and beta or not, and an epsilon that keeps rows of equal
// elements from growing without bound.
func layerNorm(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	in := []ir.ValueID{x, ir.NoValue, ir.NoValue}
	for i, name := range []string{"gamma", "beta"} {
		if b.flag(name) {
			in[1+i] = b.weights(name, 1, s[len(s)-1])
		}
	}
	for len(in) > 1 && in[len(in)-1] == ir.NoValue {
		in = in[:len(in)-1]
	}
	return &ir.NormAttr{Epsilon: 0.01, RMS: b.flag("rms")}, in
}

// mulAdd takes x and three values of its shape, or constants that broadcast to it,
// in any order.
func mulAdd(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	in := []ir.ValueID{x}
	same := b.others(func(s []int) bool { return slices.Equal(s, b.shape(x)) })
	for len(in) < 4 {
		if b.flag("activation") {
			in = append(in, same[b.index("other", len(same))])
		} else {
			in = append(in, b.smaller("c", x))
		}
	}
	k := b.index("place of x", 4)
	in[0], in[k] = in[k], in[0]
	return &ir.MulAddAttr{Subtract: b.flag("subtract")}, in
}

// reshape flattens all but the first dimension, or splits a dimension, or adds
// one of length 1.
func reshape(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	in := []ir.ValueID{x}
	how := b.index("reshape", 3)
	if len(s) == 0 || len(s) < anyRank && how == 1 {
		return &ir.ShapeAttr{Shape: slices.Insert(slices.Clone(s), b.index("place", len(s)+1), 1)}, in
	}
	if len(s) < anyRank && how == 2 {
		i := b.index("place", len(s))
		f := rapid.SampledFrom(divisors(s[i])).Draw(b.t, "factor")
		return &ir.ShapeAttr{Shape: slices.Concat(s[:i], []int{s[i] / f, f}, s[i+1:])}, in
	}
	return &ir.ShapeAttr{Shape: []int{s[0], ir.Numel(s[1:])}}, in
}

func transpose(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	perm := make([]int, len(b.shape(x)))
	for i := range perm {
		perm[i] = i
	}
	return &ir.PermAttr{Perm: rapid.Permutation(perm).Draw(b.t, "perm")}, []ir.ValueID{x}
}

// concat joins x with itself or with other values that fit.
func concat(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := b.shape(x)
	axis := len(s) - 1 - b.index("axis from the last", len(s))
	fit := b.others(func(o []int) bool {
		return len(o) == len(s) && slices.Equal(o[:axis], s[:axis]) && slices.Equal(o[axis+1:], s[axis+1:])
	})
	in := []ir.ValueID{x}
	for range b.small("operands", 3) {
		in = append(in, fit[b.index("other", len(fit))])
	}
	return &ir.AxisAttr{Axis: axis}, in
}

func slice(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	a := &ir.SliceAttr{}
	for _, n := range b.shape(x) {
		start, step, size := 0, 1, n
		if b.flag("cut") {
			start = b.index("start", n)
			step = b.small("step", 2)
			size = b.small("size", (n-1-start)/step+1)
			if b.flag("backwards") {
				start, step = start+step*(size-1), -step
			}
		}
		a.Starts, a.Steps, a.Sizes = append(a.Starts, start), append(a.Steps, step), append(a.Sizes, size)
	}
	return a, []ir.ValueID{x}
}

func pad(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	a := &ir.PadAttr{Mode: ir.PadMode(b.index("mode", 4))}
	if a.Mode == ir.PadConstant && b.flag("value") {
		a.Value = 0.5
	}
	for _, n := range b.shape(x) {
		lo, hi := 0, 2
		switch a.Mode {
		case ir.PadConstant:
			lo = -min(1, (n-1)/2)
		case ir.PadReflect:
			hi = min(hi, n-1)
		case ir.PadWrap:
			hi = min(hi, n)
		}
		begin, end := 0, 0
		if b.flag("padded") {
			begin = rapid.IntRange(lo, hi).Draw(b.t, "begin")
			end = rapid.IntRange(lo, hi).Draw(b.t, "end")
		}
		a.Begin, a.End = append(a.Begin, begin), append(a.End, end)
	}
	return a, []ir.ValueID{x}
}

// expand repeats dimensions of length 1 and may add one in front.
func expand(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	s := slices.Clone(b.shape(x))
	for i, n := range s {
		if n == 1 {
			s[i] = b.small("times", 3)
		}
	}
	if b.flag("front") {
		s = append([]int{b.small("times", 2)}, s...)
	}
	return &ir.ShapeAttr{Shape: s}, []ir.ValueID{x}
}

func gather(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	axis := b.index("axis", len(b.shape(x)))
	idx := make([]int64, b.small("indices", 3))
	for i := range idx {
		idx[i] = int64(b.index("index", b.shape(x)[axis]))
	}
	c := b.g.AddConst("indices", ir.NewTensor(ir.I64, []int{len(idx)}, idx), nil)
	return &ir.AxisAttr{Axis: axis}, []ir.ValueID{x, c}
}

// divisors lists the divisors of n in ascending order.
func divisors(n int) []int {
	var d []int
	for i := 1; i <= n; i++ {
		if n%i == 0 {
			d = append(d, i)
		}
	}
	return d
}
