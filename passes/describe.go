package passes

import (
	"math"
	"slices"

	"situ/ir"
)

// describedWeights gives described weights of a product a described form in codes,
// as product does with those that have values. Their largest value is taken to be
// that expected of n normal ones, σ·√(2·ln n).
func (q *quantiser) describedWeights(op *ir.Op, id ir.ValueID) ir.ValueID {
	v := q.g.Value(id)
	std, _ := v.Const.Described()
	shape := v.Type.Shape
	axis := 0
	if op.Kind == ir.MatMul {
		axis = len(shape) - 1
	}
	channels := shape[axis]
	per := ir.Numel(shape) / channels
	d, most := ir.I8, 127.0
	if q.weightBits == 4 && per >= fewWeights {
		d, most = ir.I4, 7
	}
	scale := float32(float64(std) * math.Sqrt(2*math.Log(float64(max(per, 2)))) / most)
	if scale < minScale {
		scale = 1 // nothing is known of them
	}
	codes := q.g.AddConst(v.Name, ir.Describe(d, std/scale, shape...), q.sharedQuant(axis, channels, scale))
	dq, err := q.g.Add(ir.Dequantize, v.Name, nil, codes)
	if err != nil {
		panic(err) // the types have just been made to fit
	}
	return dq
}

// sharedQuant returns a quantisation with one scale for all channels, made once:
// large models have hundreds of weights of a few shapes.
func (q *quantiser) sharedQuant(axis, n int, scale float32) *ir.Quant {
	for _, s := range q.shared {
		if s.Axis == axis && len(s.Scale) == n && s.Scale[0] == scale {
			return s
		}
	}
	s := &ir.Quant{Axis: axis, Scale: slices.Repeat([]float32{scale}, n), Zero: make([]int32, n)}
	q.shared = append(q.shared, s)
	return s
}
