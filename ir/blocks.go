package ir

import (
	"fmt"
	"math"
	"slices"
)

// Unblocked returns a constant of codes in blocks as codes · 2^shift of 8 bits, which
// is the same numbers, for a target that cannot hold blocks of that length. It is an
// error when they do not fit.
func Unblocked(v *Value) (*Value, error) {
	q := v.Type.Quant
	src, ok := v.Const.data.([]int8)
	if !ok {
		return nil, fmt.Errorf("weights %q are %s in blocks, want i8 or i4", v.Name, v.Type.DType)
	}
	channels, inner := v.Type.Shape[q.Axis], Numel(v.Type.Shape[q.Axis+1:])
	codes := make([]int8, len(src))
	for i, c := range src {
		s := int32(c) << q.ShiftOf(i/inner%channels, i/(inner*channels)*inner+i%inner, len(src)/channels)
		if s < math.MinInt8 || s > math.MaxInt8 {
			return nil, fmt.Errorf("weights %q come in blocks of %d, which the target does not have, and with their shifts do not fit 8 bits", v.Name, q.Block)
		}
		codes[i] = int8(s)
	}
	out := *v
	out.Const = NewTensor(I8, v.Type.Shape, codes)
	out.Type = out.Const.Type().WithQuant(&Quant{Scale: q.Scale, Zero: q.Zero, Axis: q.Axis})
	return &out, nil
}

// HasBlocks reports whether some constant of a graph is codes in blocks.
func HasBlocks(g *Graph) bool {
	return slices.ContainsFunc(g.Values, func(v Value) bool { return v.Type.Quant != nil && v.Type.Quant.Block > 0 })
}
