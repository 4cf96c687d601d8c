package gpu

import (
	"errors"
	"math"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// narrowGroup is the number of output channels of a group below which the
// evaluator sums a convolution in float32 without fused multiply-adds.
const narrowGroup = 8

// floatProduct launches a product that stays in float32.
func (l *lowering) floatProduct() error {
	g, op := l.g, l.op
	x, w, y := g.Type(op.In[0]).Shape, g.Type(op.In[1]).Shape, g.Type(op.Out).Shape
	bias, hasBias := l.unused(), len(op.In) > 2 && op.In[2] != ir.NoValue
	if hasBias {
		bias = l.value(op.In[2])
	}
	lo, hi := float32(math.Inf(-1)), float32(math.Inf(1))
	if act := actOf(op.Attr); act != nil {
		lo, hi = act.Lo, act.Hi
	}
	args := []arg{l.value(op.In[0]), l.value(op.In[1]), bias, l.result()}
	if a, ok := op.Attr.(*ir.ConvAttr); ok {
		s := gen.FloatConv{
			Window: gen.Window{N: x[0], H: x[1], W: x[2], C: x[3], OH: y[1], OW: y[2],
				Kernel: [2]int{w[1], w[2]}, Stride: a.Strides, Dilation: a.Dilations, Pad: [2]int{a.Pads[0], a.Pads[1]}},
			O: y[3], Groups: a.Groups, Narrow: a.Groups > 1 && y[3]/a.Groups < narrowGroup, Bias: hasBias, Lo: lo, Hi: hi,
		}
		return l.launch(s, args...)
	}
	if len(x) < 2 || len(w) < 2 {
		return errors.New("multiplies a vector, which has no kernel: reshape it to a matrix")
	}
	n := len(y) - 2
	m, k, cols := x[len(x)-2], x[len(x)-1], w[len(w)-1]
	s := gen.FloatMatMul{Batch: batches(y[:n], m*cols, x[:len(x)-2], m*k, w[:len(w)-2], k*cols), M: m, K: k, N: cols, Bias: hasBias, Lo: lo, Hi: hi}
	return l.launch(s, args...)
}

// batches walks the matrices of a product: the leading dimensions of the result
// and of the operands, which broadcast, with the elements of a matrix of each.
func batches(y []int, yn int, a []int, an int, b []int, bn int) gen.Nest {
	scaled := func(s []int, n int) []int {
		for i := range s {
			s[i] *= n
		}
		return s
	}
	return gen.NewNest(y, []int{0, 0, 0}, scaled(gen.RowMajor(y), yn), scaled(gen.Broadcast(a, y), an), scaled(gen.Broadcast(b, y), bn))
}
