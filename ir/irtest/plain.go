package irtest

import (
	"slices"

	"situ/ir"
)

// plainMakers make operators without a fixed-point form. They are drawn when
// Options.Plain is set or Options.Kinds names them.
var plainMakers = []maker{
	{ir.Sin, 1, 0, anyRank, plainUnary},
	{ir.Cos, 1, 0, anyRank, plainUnary},
	{ir.Atan, 1, 0, anyRank, plainUnary},
	{ir.Asinh, 1, 0, anyRank, plainUnary},
	{ir.CumSum, 1, 1, anyRank, cumulative},
	{ir.CumProd, 1, 1, anyRank, cumulative},
	{ir.ReduceProd, 1, 1, anyRank, reduce},
	{ir.GatherElements, 1, 1, anyRank, gatherElements},
	{ir.ScatterElements, 1, 1, anyRank, scatterElements},
	{ir.Where, 1, 0, anyRank, where},
}

func cumulative(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	return &ir.AxisAttr{Axis: b.index("axis", len(b.shape(x)))}, []ir.ValueID{x}
}

// elements draws an axis and constant indices along it for every element of x,
// fewer or more along the axis itself.
func (b *builder) elements(x ir.ValueID) (axis int, indices ir.ValueID) {
	s := slices.Clone(b.shape(x))
	axis = b.index("axis", len(s))
	n := s[axis]
	s[axis] = b.small("indices", min(3, 2*n))
	list := make([]int64, ir.Numel(s))
	for i := range list {
		list[i] = int64(b.index("index", 2*n) - n) // negative ones count from the end
	}
	return axis, b.g.AddConst("indices", ir.NewTensor(ir.I64, s, list), nil)
}

func gatherElements(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	axis, indices := b.elements(x)
	return &ir.AxisAttr{Axis: axis}, []ir.ValueID{x, indices}
}

func scatterElements(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	axis, indices := b.elements(x)
	mode := ir.ScatterMode(b.index("mode", int(ir.ScatterMax)+1))
	return &ir.ScatterAttr{Axis: axis, Mode: mode}, []ir.ValueID{x, indices, b.weights("updates", 1, b.shape(indices)...)}
}

// where chooses between x and a constant by a constant mask.
func where(b *builder, x ir.ValueID) (ir.Attr, []ir.ValueID) {
	mask := make([]uint8, ir.Numel(b.shape(x)))
	for i := range mask {
		mask[i] = uint8(b.index("bit", 2))
	}
	cond := b.g.AddConst("cond", ir.NewTensor(ir.Bool, b.shape(x), mask), nil)
	return nil, []ir.ValueID{cond, x, b.weights("other", 1, b.shape(x)...)}
}
