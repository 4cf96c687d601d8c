package eval

import (
	"errors"

	"situ/internal/fixed"
	"situ/internal/vecf32"
	"situ/ir"
)

func prepareLayerNorm(n *node) (kernel, error) {
	a := n.op.Attr.(*ir.NormAttr)
	size := n.out.Shape[len(n.out.Shape)-1]
	if n.quantised() {
		return prepareFixedLayerNorm(n, a, size)
	}
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.F32, in[0].Shape...)
		vecf32.LayerNorm(ir.Data[float32](out), ir.Data[float32](in[0]), size, a.RMS, a.Epsilon, elements(in, 1), elements(in, 2))
		return out, nil
	})
}

// elements returns the elements of float32 operand i, nil where it is absent.
func elements(in []*ir.Tensor, i int) []float32 {
	if i >= len(in) || in[i] == nil {
		return nil
	}
	return ir.Data[float32](in[i])
}

// prepareFixedLayerNorm is the normalisation of rows of codes.
func prepareFixedLayerNorm(n *node, a *ir.NormAttr, size int) (kernel, error) {
	for i, t := range n.consts[1:] {
		if t == nil && n.in[1+i].DType != ir.Invalid {
			return nil, errors.New("has a fixed-point form with constant gamma and beta only")
		}
	}
	x, y := newCode8(n.in[0], nil), newCode8(n.out, nil)
	p, err := fixed.NewNorm(size, a.RMS, float64(a.Epsilon), x.scale, y.scale, x.zero, y.zero, elements(n.consts, 1), elements(n.consts, 2), y.lo, y.hi)
	if err != nil {
		return nil, err
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		c := codes(in[0])
		parallelRange(len(c)/size, func(from, to int) {
			row := make([]byte, size)
			for i := from * size; i < to*size; i += size {
				for j := range row {
					row[j] = byte(c[i+j] + x.offset)
				}
				fixed.Normalise(row, row, &p)
				for j, v := range row {
					c[i+j] = int32(v) - y.offset
				}
			}
		})
		return fromCodes(n.out.DType, n.out.Shape, c), nil
	}, nil
}
