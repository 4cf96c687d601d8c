package onnx

import (
	"errors"
	"math"

	"situ/ir"
)

// canBlock reports why codes in blocks, if t is such, cannot be written: ONNX has
// blocks along one axis, so that the channels must be the first or last of all.
func (e *exporter) canBlock(t ir.Type) error {
	if q := t.Quant; q == nil || q.Block == 0 || q.Axis == 0 || q.Axis == 1 && len(t.Shape) == 2 {
		return nil
	}
	return errors.New("has codes in blocks with the channels in the middle, which has no ONNX form")
}

// blocked writes the dequantisation of constant codes in blocks as a
// DequantizeLinear of opset 21 over a matrix, of the channels by all their codes
// or, of a matrix with the channels last, as it is. Scales are those of the blocks.
func (e *exporter) blocked(out string, v *ir.Value) {
	t, q := v.Type, v.Type.Quant
	channels := t.Shape[q.Axis]
	codes := t.Numel() / channels
	n := q.BlocksOf(codes)
	matrix, axis := []int{channels, codes}, 1
	shape, at := []int{channels, n}, func(c, b int) int { return c*n + b }
	if q.Axis == 1 {
		matrix, axis = t.Shape, 0
		shape, at = []int{n, channels}, func(c, b int) int { return b*channels + c }
	}
	scales := make([]float32, channels*n)
	for c := range channels {
		for b := range n {
			scales[at(c, b)] = float32(math.Ldexp(float64(q.Scale[c]), int(q.Shift[c*n+b])))
		}
	}
	in := []string{e.tensor(v.Const.Reshaped(matrix...)), e.tensor(ir.NewTensor(ir.F32, shape, scales))}
	reshape := len(t.Shape) != 2
	r := e.node("DequantizeLinear", e.before(out, reshape), in, attrInt("axis", axis), attrInt("block_size", q.Block))
	if reshape {
		e.node("Reshape", out, []string{r, e.ints(t.Shape)})
	}
}
