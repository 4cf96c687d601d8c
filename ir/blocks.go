package ir

import (
	"errors"
	"math"
	"slices"
)

// errWideBlocks says why Unblocked fails.
var errWideBlocks = errors.New("its weights are codes of 8 bits in blocks, which the target, having no exponents for blocks, cannot hold in 8 bits: choose int8, int4 or mxint4 weights")

// Unblocked returns the graph for hardware without exponents for blocks: constants
// in blocks are codes · 2^shift, of 8 bits, which is the same numbers. It returns g
// itself when it has none, and an error that names the operator when codes do not
// fit.
func Unblocked(g *Graph) (*Graph, error) {
	out := g
	for i := range g.Ops {
		op := &g.Ops[i]
		for _, id := range op.In {
			if id == NoValue || !g.IsConst(id) {
				continue
			}
			v := g.Value(id)
			if v.Type.Quant == nil || v.Type.Quant.Block == 0 || out != g && out.Value(id).Type.Quant.Block == 0 {
				continue
			}
			t, ok := unblocked(v)
			if !ok {
				return nil, opError(op, "%w", errWideBlocks)
			}
			if out == g {
				copied := *g
				copied.Values = slices.Clone(g.Values)
				out = &copied
			}
			q := v.Type.Quant
			w := out.Value(id)
			w.Const, w.Type = t, t.Type().WithQuant(&Quant{Scale: q.Scale, Zero: q.Zero, Axis: q.Axis})
		}
	}
	return out, nil
}

// unblocked returns a constant's codes with the shifts of their blocks, and whether
// they fit int8.
func unblocked(v *Value) (*Tensor, bool) {
	src, ok := v.Const.data.([]int8)
	if !ok {
		return nil, false
	}
	q := v.Type.Quant
	channels, inner := v.Type.Shape[q.Axis], Numel(v.Type.Shape[q.Axis+1:])
	codes := make([]int8, len(src))
	for i, c := range src {
		s := int32(c) << q.ShiftOf(i/inner%channels, i/(inner*channels)*inner+i%inner, len(src)/channels)
		if s < math.MinInt8 || s > math.MaxInt8 {
			return nil, false
		}
		codes[i] = int8(s)
	}
	return NewTensor(I8, v.Type.Shape, codes), true
}

// HasBlocks reports whether some constant of a graph is codes in blocks.
func HasBlocks(g *Graph) bool {
	return slices.ContainsFunc(g.Values, func(v Value) bool { return v.Type.Quant != nil && v.Type.Quant.Block > 0 })
}
