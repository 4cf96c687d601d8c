package eval

import (
	"situ/internal/fixed"
	"situ/internal/vecf32"
	"situ/ir"
)

// prepareMulAdd is a·b ± c·d: in float32 with each product rounded before the sum.
func prepareMulAdd(n *node) (kernel, error) {
	subtract := n.op.Attr.(*ir.MulAddAttr).Subtract
	if n.quantised() {
		return prepareFixedMulAdd(n, subtract)
	}
	shape := n.out.Shape
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		product := func(a, b *ir.Tensor) []float32 {
			y := make([]float32, ir.Numel(shape))
			x, z := ir.Data[float32](a), ir.Data[float32](b)
			vecf32.EachRow(shape, a.Shape, b.Shape, func(r vecf32.Row) {
				for i := range r.N {
					y[r.Dst+i] = x[r.A+i*r.StrideA] * z[r.B+i*r.StrideB]
				}
			})
			return y
		}
		y, z := product(in[0], in[1]), product(in[2], in[3])
		for i, v := range z {
			if subtract {
				v = -v
			}
			y[i] += v
		}
		return ir.NewTensor(ir.F32, shape, y), nil
	})
}

// prepareFixedMulAdd is the same on codes, by the definition of internal/fixed for
// one element.
func prepareFixedMulAdd(n *node, subtract bool) (kernel, error) {
	var x [4]code8
	for i := range x {
		x[i] = newCode8(n.in[i], nil)
	}
	y := newCode8(n.out, nil)
	third := x[2].scale
	if subtract {
		third = -third
	}
	p, err := fixed.NewMulAdd(x[0].scale, x[1].scale, third, x[3].scale, y.scale, x[0].zero, x[1].zero, x[2].zero, x[3].zero, y.zero, y.lo, y.hi)
	if err != nil {
		return nil, err
	}
	shape := n.out.Shape
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		// Where in each operand the element for each of the result lies.
		var at [4][]int32
		var c [4][]int32
		for i := range at {
			at[i], c[i] = make([]int32, ir.Numel(shape)), codes(in[i])
			vecf32.EachRow(shape, in[i].Shape, nil, func(r vecf32.Row) {
				for j := range r.N {
					at[i][r.Dst+j] = int32(r.A + j*r.StrideA)
				}
			})
		}
		out := make([]int32, ir.Numel(shape))
		parallelRange(len(out), func(from, to int) {
			for j := from; j < to; j++ {
				code := func(i int) byte { return byte(c[i][at[i][j]] + x[i].offset) }
				out[j] = int32(p.MulAdd(code(0), code(1), code(2), code(3))) - y.offset
			}
		})
		return fromCodes(n.out.DType, shape, out), nil
	}, nil
}
