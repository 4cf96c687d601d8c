package passes

import (
	"math"
	"slices"

	"situ/ir"
	"situ/ir/eval"
)

// noise sums the squares of a signal and of what differs from it.
type noise struct{ signal, noise float64 }

// db returns the signal-to-noise ratio in dB; without noise it is infinite.
func (n noise) db() float64 {
	if n.noise == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(n.signal/n.noise)
}

// add counts got against want. Elements where either is NaN or infinite say
// nothing of rounding and are left out.
func (n *noise) add(want, got *ir.Tensor) {
	a, b := ir.Data[float32](want), ir.Data[float32](got)
	for i, x := range a {
		x, y := float64(x), float64(b[i])
		if d := x - y; d-d == 0 {
			n.signal += x * x
			n.noise += d * d
		}
	}
}

// losses is what rounding costs the result of one product: of its operand since
// the last products, and of its weights, each alone.
type losses struct{ operand, weights noise }

// losses evaluates op on the fresh track, counts what a product loses, and
// returns its value there. a holds its operands in float, rounded those that are rounded constants, float its result
// before the activation.
func (c *corrector) losses(s *sample, op *ir.Op, act *ir.Act, a, rounded []*ir.Tensor, float *ir.Tensor) (*ir.Tensor, error) {
	in := s.fresh.operands(c.q, op, rounded)
	if !c.q.isProduct(op) {
		out, err := eval.EvalOp(c.q.old, op, in)
		if err == nil && act != nil {
			clampTensor(out, act)
		}
		return out, err
	}
	want := clamped(float, act)
	w := rounded[1]
	if w != nil {
		in[1] = a[1]
	}
	got, err := eval.EvalOp(c.q.old, op, in)
	if err != nil {
		return nil, err
	}
	l := c.local[op.Out]
	l.operand.add(want, clamped(got, act))
	if w != nil && c.q.bitsOf(op) < 8 {
		in[0], in[1] = a[0], w
		if got, err = eval.EvalOp(c.q.old, op, in); err != nil {
			return nil, err
		}
		l.weights.add(want, clamped(got, act))
	}
	c.local[op.Out] = l
	return want, nil
}

// clamped returns t under an activation, if there is one.
func clamped(t *ir.Tensor, act *ir.Act) *ir.Tensor {
	if act == nil {
		return t
	}
	t = ir.NewTensor(ir.F32, t.Shape, append([]float32(nil), ir.Data[float32](t)...))
	clampTensor(t, act)
	return t
}

// atOutput counts what rounding since the last products costs a value that is an
// output of the graph.
func (c *corrector) atOutput(id ir.ValueID) {
	if c.ends == nil || c.q.old.Type(id).DType != ir.F32 || !slices.Contains(c.q.old.Outputs, id) {
		return
	}
	var n noise
	for i := range c.samples {
		s := &c.samples[i]
		n.add(s.float.raw[id], s.fresh.read[id])
	}
	c.ends[id] = n
}

// outputs measures all float32 outputs of the graph as it was written against the
// float graph, on the samples: in fixed point, as it will run. A bias that fits the
// calibration inputs to the last bit is no better in truth than one that nearly does.
func (c *corrector) outputs(s *State, g *ir.Graph) (noise, error) {
	var n noise
	fixed, err := fix(g, s)
	if err != nil {
		return n, err
	}
	e, err := eval.New(fixed)
	if err != nil {
		return n, err
	}
	for i := range c.samples {
		out, err := e.Run(s.ctx, s.quant.Inputs[i], eval.Options{MemoryLimit: MemoryLimit})
		if err != nil {
			return n, err
		}
		for k, id := range c.q.old.Outputs {
			if out[k].DType == ir.F32 {
				n.add(c.samples[i].float.raw[id], out[k])
			}
		}
	}
	return n, nil
}
