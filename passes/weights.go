package passes

import (
	"fmt"
	"math"
	"slices"

	"situ/internal/par"
	"situ/ir"
	"situ/ir/eval"
)

// fewWeights: channels with fewer weights than this (depthwise convolutions,
// scales, first layers of grey images) keep 8 bits when 4 are asked for. They hold
// next to none of a model's weights, and rounding errors do not average out in
// sums this short.
const fewWeights = 32

// bitsOf returns the number of bits of a product's constant weights.
func (q *quantiser) bitsOf(op *ir.Op) int {
	shape := q.old.Type(op.Out).Shape
	if q.old.Type(op.In[1]).Numel()/shape[len(shape)-1] < fewWeights || q.raised.weights[op.Out] {
		return 8
	}
	return q.weightBits
}

// inBlocks reports whether the weights of a product, of some shape and bits, come in
// blocks.
func (q *quantiser) inBlocks(op *ir.Op, shape []int, bits int) bool {
	return q.blocks && bits == q.weightBits && (op.Kind == ir.Conv2D || len(shape) == 2)
}

// product quantises the constant weights of a product and checks its bias. It
// returns the weights as they are after rounding, for the corrector, if any.
func (q *quantiser) product(op *ir.Op, in []ir.ValueID) (*ir.Tensor, error) {
	if q.g.IsDescribed(in[1]) {
		in[1] = q.describedWeights(op, in[1])
		return nil, nil
	}
	w := floats(q.g, in[1])
	if w == nil {
		return nil, nil // two activations
	}
	v := q.g.Value(in[1])
	if i := notFinite(w); i >= 0 {
		return nil, fmt.Errorf("%s %q: weight %q holds %v at index %d", op.Kind, op.Name, v.Name, w[i], i)
	}
	shape := q.old.Type(op.Out).Shape
	bias := make([]float32, shape[len(shape)-1])
	if len(in) > 2 && in[2] != ir.NoValue {
		copy(bias, floats(q.g, in[2]))
		if i := notFinite(bias); i >= 0 {
			return nil, fmt.Errorf("%s %q: bias %q holds %v at index %d", op.Kind, op.Name, q.g.Value(in[2]).Name, bias[i], i)
		}
	}
	xs := q.scaleOf(in[0])
	axis := 0
	if op.Kind == ir.MatMul {
		axis = len(v.Type.Shape) - 1
	}
	bits := q.bitsOf(op)
	code := weightCodes
	if q.inBlocks(op, v.Type.Shape, bits) {
		code = blockCodes
	}
	c := code(w, v.Type.Shape, axis, bits, func(ch int) float64 { return math.Abs(float64(bias[ch])) / xs })
	if bits == 4 && q.correct != nil {
		if err := q.correct.feedback(op, w, c.steps(len(w)/len(bias)), 7, ir.Data[int8](c.tensor)); err != nil {
			return nil, err
		}
	}
	name := v.Name
	id := q.g.AddConst(name, c.tensor, c.quant)
	var err error
	if in[1], err = q.g.Add(ir.Dequantize, name, nil, id); err != nil {
		return nil, err
	}
	if q.correct == nil {
		return nil, nil
	}
	return evalDequantize(q.g, in[1])
}

// evalDequantize returns the value of a dequantize of a constant.
func evalDequantize(g *ir.Graph, id ir.ValueID) (*ir.Tensor, error) {
	dq := g.DefOp(id)
	return eval.EvalOp(g, dq, []*ir.Tensor{g.Value(dq.In[0]).Const})
}

// scaleOf returns the scale of the codes that a value of the new graph was
// dequantized and then moved from.
func (q *quantiser) scaleOf(id ir.ValueID) float64 {
	op := q.g.DefOp(id)
	for op != nil && op.Kind.Is(ir.MovesCodes) {
		op = q.g.DefOp(op.In[0])
	}
	if op == nil || op.Kind != ir.Dequantize {
		return 1 // the product will stay in float32
	}
	return float64(q.g.Type(op.In[0]).Quant.Scale[0])
}

type quantised struct {
	tensor *ir.Tensor
	quant  *ir.Quant
}

// weightCodes quantises weights symmetrically per channel, several channels at
// once. A channel's scale is never so small that its bias, given in units of the
// operand's scale, leaves ±2^30: sums of products and bias then fit int32.
func weightCodes(w []float32, shape []int, axis, bits int, bias func(ch int) float64) quantised {
	n := shape[axis]
	inner := ir.Numel(shape[axis+1:])
	most := float32(int(1)<<(bits-1) - 1)
	quant := &ir.Quant{Axis: axis, Scale: make([]float32, n), Zero: make([]int32, n)}
	top := make([]float32, n)
	outer := len(w) / max(1, n*inner)
	par.Ranges(n, outer*inner, func(from, to int) {
		for o := range outer {
			for c := from; c < to; c++ {
				at := (o*n + c) * inner
				top[c] = max(top[c], greatest(w[at:at+inner]))
			}
		}
	})
	par.Ranges(n, outer*inner, func(from, to int) {
		var channel []float32
		for c := from; c < to; c++ {
			t := top[c]
			scale := float64(t / most)
			if bits == 4 && t > 0 {
				channel = channel[:0]
				for at := c * inner; at < len(w); at += n * inner {
					channel = append(channel, w[at:at+inner]...)
				}
				scale = leastErrorScale(channel, scale, float64(most))
			}
			if scale == 0 && bias(c) == 0 {
				scale = 1 // nothing to represent
			}
			quant.Scale[c] = float32(max(scale, bias(c)/(1<<30), minScale))
		}
	})
	codes := make([]int8, len(w))
	par.Ranges(outer*n, inner, func(from, to int) {
		for i := from; i < to; i++ {
			roundCodes(codes[i*inner:(i+1)*inner], w[i*inner:], quant.Scale[i%n], int32(most))
		}
	})
	d := ir.I8
	if bits == 4 {
		d = ir.I4
	}
	return quantised{ir.NewTensor(d, shape, codes), quant}
}

// roundCodes rounds w/scale, magnitudes up to 2^21, to the nearest integers, halves to
// even, within ±most. Such a number plus 3·2^22 has its integer in its last bits.
func roundCodes(codes []int8, w []float32, scale float32, most int32) {
	const shift = 3 << 22
	for i, x := range w[:len(codes)] {
		q := int32(math.Float32bits(x/scale+shift)) - (1<<22 | 150<<23)
		codes[i] = int8(min(max(q, -most), most))
	}
}

// greatest returns the greatest magnitude of finite numbers.
func greatest(w []float32) float32 {
	top := uint32(0)
	for _, x := range w { // numbers without their sign are ordered as their bits are
		top = max(top, math.Float32bits(x)&^(1<<31))
	}
	return math.Float32frombits(top)
}

// notFinite returns the index of the first number that is not finite, or −1.
func notFinite(w []float32) int {
	if finite := greatest(w); finite-finite == 0 {
		return -1
	}
	return slices.IndexFunc(w, func(x float32) bool { return x-x != 0 })
}

// leastErrorScale returns the scale, of 51 from half the full one upwards, that
// represents the weights of a channel with the least squared error.
func leastErrorScale(w []float32, full, most float64) float64 {
	best, least := full, math.Inf(1)
	for i := 50; i <= 100; i++ {
		s := full * float64(i) / 100
		sum := 0.0
		for _, x := range w {
			d := float64(x) - s*min(max(math.RoundToEven(float64(x)/s), -most), most)
			sum += d * d
		}
		if sum < least {
			best, least = s, sum
		}
	}
	return best
}
