package ir

import (
	"math"
	"slices"
)

// Equal reports whether two graphs are the same: names, ids, types, attributes,
// and constants to the last bit.
func Equal(g, h *Graph) bool {
	return g.Name == h.Name &&
		slices.Equal(g.Inputs, h.Inputs) && slices.Equal(g.Outputs, h.Outputs) &&
		slices.EqualFunc(g.Values, h.Values, equalValues) &&
		slices.EqualFunc(g.Ops, h.Ops, equalOps)
}

func equalValues(a, b Value) bool {
	return a.Name == b.Name && a.Def == b.Def &&
		a.Type.DType == b.Type.DType && slices.Equal(a.Type.Shape, b.Type.Shape) &&
		equalQuant(a.Type.Quant, b.Type.Quant) && equalTensor(a.Const, b.Const)
}

// equalQuant compares scales by their bits, unlike Quant.Equal.
func equalQuant(q, r *Quant) bool {
	if q == nil || r == nil {
		return q == r
	}
	return q.Axis == r.Axis && slices.EqualFunc(q.Scale, r.Scale, equalF32) && slices.Equal(q.Zero, r.Zero) &&
		q.Block == r.Block && slices.Equal(q.Shift, r.Shift)
}

func equalOps(a, b Op) bool {
	return a.Kind == b.Kind && a.Out == b.Out && a.Name == b.Name &&
		slices.Equal(a.In, b.In) && equalAttr(a.Attr, b.Attr)
}

func equalF32(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
func equalF64(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// equalTensor compares tensors, which may be nil, to the last bit.
func equalTensor(a, b *Tensor) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	if a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) {
		return false
	}
	if a.described || b.described {
		return a.described && b.described && equalF32(a.std, b.std)
	}
	switch s := a.data.(type) {
	case []float32:
		return slices.EqualFunc(s, Data[float32](b), equalF32)
	case []float64:
		return slices.EqualFunc(s, Data[float64](b), equalF64)
	case []uint16:
		return slices.Equal(s, Data[uint16](b))
	case []int8:
		return slices.Equal(s, Data[int8](b))
	case []uint8:
		return slices.Equal(s, Data[uint8](b))
	case []int16:
		return slices.Equal(s, Data[int16](b))
	case []int32:
		return slices.Equal(s, Data[int32](b))
	case []uint32:
		return slices.Equal(s, Data[uint32](b))
	case []int64:
		return slices.Equal(s, Data[int64](b))
	case []uint64:
		return slices.Equal(s, Data[uint64](b))
	}
	return false
}
