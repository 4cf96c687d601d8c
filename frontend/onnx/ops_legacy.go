package onnx

import (
	"slices"

	"situ/ir"
)

// pairOperands returns the operands of an operator that broadcasts. Before opset
// 7 broadcasting is one-sided and asked for, and an attribute says at which
// dimension of the first operand the second starts.
func (c *call) pairOperands() (a, b *value) {
	a, b = c.in[0], c.in[1]
	if c.opset >= 7 {
		return a, b
	}
	c.ignore("consumed_inputs")
	as, bs := c.typeOf(a).Shape, c.typeOf(b).Shape
	broadcast, axis := c.bool("broadcast", false), int64(len(as)-len(bs))
	if given := c.int("axis", -1); slices.ContainsFunc(c.proto.Attribute, func(a attribute) bool { return a.Name == "axis" }) {
		axis = given
	}
	if !broadcast {
		if !slices.Equal(as, bs) {
			c.failf("shapes %v and %v differ and broadcast is not set", as, bs)
		}
		return a, b
	}
	if axis < 0 {
		axis += int64(len(as))
	}
	if axis < 0 || axis > int64(len(as)-len(bs)) {
		c.failf("shape %v does not lie at dimension %d of %v", bs, axis, as)
		return a, b
	}
	return a, c.under(b, slices.Concat(bs, slices.Repeat([]int{1}, len(as)-int(axis)-len(bs))))
}

// under returns a value under another shape of as many elements.
func (c *call) under(v *value, shape []int) *value {
	switch {
	case c.err != nil:
	case v.isConst():
		return &value{name: v.name, id: ir.NoValue, tensor: v.tensor.Reshaped(shape...), uniform: v.uniform}
	default:
		return &value{id: c.reshape(c.use(v), shape...)}
	}
	return v
}
