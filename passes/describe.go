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
	d := ir.I8
	if q.bitsOf(op) == 4 {
		d = ir.I4
	}
	if q.inBlocks(op, v.Type.Shape, d.Bits()) {
		// The greatest of a block lies below the channel's greatest; half of the blocks
		// or so have the higher of two exponents, which all are given here.
		e := math.Ilogb(float64(describedScale(std, BlockSize, d)))
		scale := float32(math.Ldexp(1, e-1))
		return q.describedCodes(v.Name, ir.Describe(d, std/(2*scale), shape...), q.sharedQuant(axis, channels, scale, ceilDiv(per, BlockSize)))
	}
	scale := describedScale(std, per, d)
	return q.describedCodes(v.Name, ir.Describe(d, std/scale, shape...), q.sharedQuant(axis, channels, scale, 0))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// describedTable gives a described embedding table codes with one scale.
func (q *quantiser) describedTable(id ir.ValueID) ir.ValueID {
	v := q.g.Value(id)
	std, _ := v.Const.Described()
	scale := describedScale(std, v.Type.Numel(), ir.I8)
	return q.describedCodes(v.Name, ir.Describe(ir.I8, std/scale, v.Type.Shape...), ir.PerTensor(scale, 0))
}

// describedScale returns the scale of symmetric codes of type d for n values.
func describedScale(std float32, n int, d ir.DType) float32 {
	_, most := d.IntRange()
	scale := float32(float64(std) * math.Sqrt(2*math.Log(float64(max(n, 2)))) / float64(most))
	if scale < minScale {
		return 1 // nothing is known of them
	}
	return scale
}

// describedCodes writes a constant of codes and its dequantize.
func (q *quantiser) describedCodes(name string, codes *ir.Tensor, quant *ir.Quant) ir.ValueID {
	dq, err := q.g.Add(ir.Dequantize, name, nil, q.g.AddConst(name, codes, quant))
	if err != nil {
		panic(err) // the types have just been made to fit
	}
	return dq
}

// sharedQuant returns a quantisation with one scale for all channels, made once:
// large models have hundreds of weights of a few shapes. With blocks, so many a
// channel, each has a shift of 1.
func (q *quantiser) sharedQuant(axis, n int, scale float32, blocks int) *ir.Quant {
	for _, s := range q.shared {
		if s.Axis == axis && len(s.Scale) == n && s.Scale[0] == scale && len(s.Shift) == n*blocks {
			return s
		}
	}
	s := &ir.Quant{Axis: axis, Scale: slices.Repeat([]float32{scale}, n), Zero: make([]int32, n)}
	if blocks > 0 {
		s.Block, s.Shift = BlockSize, slices.Repeat([]uint8{1}, n*blocks)
	}
	q.shared = append(q.shared, s)
	return s
}
