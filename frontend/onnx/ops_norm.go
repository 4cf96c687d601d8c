package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// batchNormalization is (x − mean) / sqrt(var + epsilon) · scale + bias, the
// parameters one a channel. Known ones become a factor and a summand; in training
// mode mean and variance are those of x, and running ones are results.
func batchNormalization(c *call) {
	x := c.id(0)
	epsilon, momentum := float64(c.float("epsilon", 1e-5)), float64(c.float("momentum", 0.9))
	training := c.bool("training_mode", false)
	spatial := c.opset >= 9 || c.bool("spatial", true)
	if c.opset < 7 && !c.bool("is_test", false) {
		c.unsupportedf("training: is_test is not set")
	}
	for _, name := range c.proto.Output[min(1, len(c.proto.Output)):] {
		if name != "" && !training {
			c.unsupportedf("the results of training")
		}
	}
	t := c.typ(x)
	rank := len(t.Shape)
	if c.err == nil && (rank < 2 || !t.DType.IsFloat()) {
		c.failf("operand is %s %v, want floats [N,C,spatial…]", t.DType, t.Shape)
	}
	if c.err != nil {
		return
	}
	constant := spatial && !training && holdsFloats(t.DType)
	for i, v := range c.in[1:5] {
		s, want := c.typeOf(v).Shape, t.Shape[1:2]
		if !spatial {
			want = t.Shape[1:]
		}
		if !slices.Equal(s, want) {
			c.failf("parameter %d has shape %v, want %v", i, s, want)
			return
		}
		constant = constant && v.isConst() && holdsFloats(v.tensor.DType)
	}
	if constant {
		c.foldedBatchNormalization(x, epsilon)
		return
	}
	// Computed in float32 at least; mean and variance may have another type.
	d := computed(t.DType)
	var p [4]ir.ValueID // scale, bias, mean, variance
	for i := range p {
		p[i] = c.castTo(c.id(1+i), d)
		if spatial {
			p[i] = c.reshape(p[i], append([]int{t.Shape[1]}, slices.Repeat([]int{1}, rank-2)...)...)
		}
	}
	x = c.castTo(x, d)
	if training {
		batch := &ir.ReduceAttr{Axes: []int{0}, KeepDims: true}
		for i := 2; i < rank; i++ {
			batch.Axes = append(batch.Axes, i)
		}
		mean := c.add(ir.ReduceMean, batch, x)
		centred := c.add(ir.Sub, nil, x, mean)
		variance := c.add(ir.ReduceMean, batch, c.add(ir.Mul, nil, centred, centred))
		for i, now := range []ir.ValueID{mean, variance} {
			old := c.add(ir.Mul, nil, p[2+i], c.scalar(d, momentum))
			running := c.add(ir.Add, nil, old, c.add(ir.Mul, nil, now, c.scalar(d, 1-momentum)))
			if c.err == nil {
				c.setN(1+i, c.castTo(c.reshape(running, t.Shape[1]), c.typeOf(c.in[3+i]).DType))
			}
			p[2+i] = now
		}
	}
	deviation := c.add(ir.Sqrt, nil, c.add(ir.Add, nil, p[3], c.scalar(d, epsilon)))
	y := c.add(ir.Div, nil, c.add(ir.Sub, nil, x, p[2]), deviation)
	y = c.add(ir.Add, nil, c.add(ir.Mul, nil, y, p[0]), p[1])
	c.set(c.castTo(y, t.DType))
}

// foldedBatchNormalization multiplies by one constant and adds another.
func (c *call) foldedBatchNormalization(x ir.ValueID, epsilon float64) {
	t := c.typ(x)
	n, rank := t.Shape[1], len(t.Shape)
	var p [4][]float64
	for i := range p {
		p[i] = float64s(c.in[1+i].tensor)
	}
	c.charge(2 * n)
	scale, shift := make([]float64, n), make([]float64, n)
	for i := range n {
		scale[i] = p[0][i] / math.Sqrt(p[3][i]+epsilon)
		shift[i] = p[1][i] - p[2][i]*scale[i]
	}
	shape := []int{n}
	image := rank == 3 || rank == 4
	if image {
		x = c.toNHWC(x)
	} else {
		shape = append(shape, slices.Repeat([]int{1}, rank-2)...)
	}
	y := c.add(ir.Mul, nil, x, c.vector(t.DType, shape, scale))
	y = c.add(ir.Add, nil, y, c.vector(t.DType, shape, shift))
	if image {
		y = c.fromNHWC(y, rank)
	}
	c.set(y)
}

// normalise returns (x − mean) / sqrt(variance + epsilon) over axes, and the
// mean and the divisor's reciprocal.
func (c *call) normalise(x ir.ValueID, axes []int, epsilon float64) (y, mean, inverse ir.ValueID) {
	if len(axes) == 0 {
		c.failf("operand of shape %v has nothing to normalise over", c.typ(x).Shape)
	}
	attr := &ir.ReduceAttr{Axes: axes, KeepDims: true}
	mean = c.add(ir.ReduceMean, attr, x)
	centred := c.add(ir.Sub, nil, x, mean)
	variance := c.add(ir.ReduceMean, attr, c.add(ir.Mul, nil, centred, centred))
	deviation := c.add(ir.Sqrt, nil, c.add(ir.Add, nil, variance, c.scalar(c.typ(x).DType, epsilon)))
	inverse = c.add(ir.Reciprocal, nil, deviation)
	return c.add(ir.Mul, nil, centred, inverse), mean, inverse
}

// stash reads the type that statistics are computed in; float64 stays.
func (c *call) stash(d ir.DType) ir.DType {
	to, err := dtypeOf(int32(c.int("stash_type", 1)))
	switch {
	case err != nil:
		c.unsupportedf("stash_type: %v", err)
	case !to.IsFloat():
		c.failf("stash_type %s", to)
	case d == ir.F64:
		return d
	}
	return to
}

// from lists the dimensions from axis to the last of rank.
func from(axis, rank int) []int {
	var axes []int
	for d := axis; d < rank; d++ {
		axes = append(axes, d)
	}
	return axes
}

func layerNormalization(c *call) {
	x := c.id(0)
	rank, d := len(c.typ(x).Shape), c.typ(x).DType
	axis := c.axis(c.int("axis", -1), rank)
	epsilon, stash := float64(c.float("epsilon", 1e-5)), c.stash(d)
	if c.err != nil {
		return
	}
	y, mean, inverse := c.layerNormalised(x, stash, axis, epsilon, 1, 2)
	c.set(y)
	c.setN(1, mean)
	c.setN(2, inverse)
}

// layerNormalised normalises x over the dimensions from axis on, in the type stash.
// The operands scale and bias (may be absent) apply to the result.
func (c *call) layerNormalised(x ir.ValueID, stash ir.DType, axis int, epsilon float64, scale, bias int) (y, mean, inverse ir.ValueID) {
	t := c.typ(x)
	y, mean, inverse = c.normalise(c.castTo(x, stash), from(axis, len(t.Shape)), epsilon)
	y = c.add(ir.Mul, nil, c.castTo(y, t.DType), c.id(scale))
	if c.operand(bias) != nil {
		y = c.add(ir.Add, nil, y, c.id(bias))
	}
	return y, mean, inverse
}

func instanceNormalization(c *call) {
	x := c.id(0)
	t := c.typ(x)
	epsilon := float64(c.float("epsilon", 1e-5))
	if c.err == nil && (len(t.Shape) < 3 || !t.DType.IsFloat()) {
		c.failf("operand is %s %v, want floats [N,C,spatial…]", t.DType, t.Shape)
	}
	if c.err != nil {
		return
	}
	d := computed(t.DType)
	y, _, _ := c.normalise(c.castTo(x, d), from(2, len(t.Shape)), epsilon)
	c.set(c.castTo(c.perChannel(y, t.Shape, d), t.DType))
}

// perChannel multiplies y by operand 1 and adds operand 2, one element a channel
// of [N,C,spatial…].
func (c *call) perChannel(y ir.ValueID, s []int, d ir.DType) ir.ValueID {
	shape := append([]int{s[1]}, slices.Repeat([]int{1}, len(s)-2)...)
	y = c.add(ir.Mul, nil, y, c.reshape(c.castTo(c.id(1), d), shape...))
	return c.add(ir.Add, nil, y, c.reshape(c.castTo(c.id(2), d), shape...))
}

// groupNormalization normalises over groups of channels. Scale and bias are one a
// group before opset 21, one a channel since.
func groupNormalization(c *call) {
	x := c.id(0)
	t := c.typ(x)
	epsilon, groups := float64(c.float("epsilon", 1e-5)), c.smallInt("num_groups", c.int("num_groups", 0))
	d := computed(t.DType)
	if c.opset >= 21 {
		d = c.stash(t.DType)
	}
	if c.err == nil && (len(t.Shape) < 2 || !t.DType.IsFloat() || groups < 1 || t.Shape[1]%groups != 0) {
		c.failf("operand is %s %v, want floats [N,C,spatial…] of channels that %d groups divide", t.DType, t.Shape, groups)
	}
	if c.err != nil {
		return
	}
	flat := []int{t.Shape[0], groups, ir.Numel(t.Shape[1:]) / groups}
	y, _, _ := c.normalise(c.reshape(c.castTo(x, d), flat...), []int{2}, epsilon)
	if c.opset < 21 {
		c.set(c.castTo(c.reshape(c.perChannel(y, flat, d), t.Shape...), t.DType))
		return
	}
	y = c.castTo(c.reshape(y, t.Shape...), t.DType)
	c.set(c.perChannel(y, t.Shape, t.DType))
}

// meanVarianceNormalization is (x − mean) / (sqrt(E[x²] − mean²) + 1e-9).
func meanVarianceNormalization(c *call) {
	x := c.id(0)
	t := c.typ(x)
	list, given := c.ints("axes")
	if !given {
		list = []int64{0, 2, 3}
	}
	axes := c.axes(list, len(t.Shape))
	if c.err == nil && (!t.DType.IsFloat() || len(axes) == 0) {
		c.failf("operand is %s %v, axes are %v", t.DType, t.Shape, list)
	}
	if c.err != nil {
		return
	}
	d := computed(t.DType)
	x = c.castTo(x, d)
	attr := &ir.ReduceAttr{Axes: axes, KeepDims: true}
	centred := c.add(ir.Sub, nil, x, c.add(ir.ReduceMean, attr, x))
	variance := c.add(ir.ReduceMean, attr, c.add(ir.Mul, nil, centred, centred))
	deviation := c.add(ir.Add, nil, c.add(ir.Sqrt, nil, variance), c.scalar(d, 1e-9))
	c.set(c.castTo(c.add(ir.Div, nil, centred, deviation), t.DType))
}
