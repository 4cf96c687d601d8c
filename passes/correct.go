package passes

import (
	"math"

	"situ/ir"
	"situ/ir/eval"
)

// Rounding weights shifts the mean of what a product gives, and so do the
// roundings of all layers before it. A corrector measures the shift per output
// channel on the calibration inputs, float graph against quantised graph, while
// the latter is being written, and the bias takes it back (empirical bias
// correction: Nagel et al., "Data-free quantization through weight equalization
// and bias correction", 2019, section 4.2).
//
// A mean over few samples is uncertain itself. It is shrunk by the share of its
// square that its own variance explains, so that channels without a clear shift
// stay as they are.

// correctionWork bounds the multiply-accumulates that measuring takes, and
// correctionSamples the number of inputs; the tensors stay within MemoryLimit.
// Larger models, whose layers are wide enough to average rounding out, are not
// corrected.
const (
	correctionWork    = 4e9
	correctionSamples = 32
)

// corrector holds values of both graphs for some calibration inputs.
type corrector struct {
	q       *quantiser
	uses    []int // of old values, by operators not yet seen
	samples []sample
}

// sample holds tensors by old value id: in the float graph, in the quantised
// graph, and there after quantize and dequantize.
type sample struct {
	float, raw, read []*ir.Tensor
}

// newCorrector returns nil when the graph is too large or nothing is to be
// corrected.
func newCorrector(q *quantiser, inputs [][]*ir.Tensor) *corrector {
	work, size := int64(1), int64(1) // size: bytes of all values of a sample
	for i := range q.old.Ops {
		work += Work(q.old, &q.old.Ops[i])
	}
	for i := range q.old.Values {
		if v := &q.old.Values[i]; v.Const == nil {
			size += 3 * 4 * int64(v.Type.Numel())
		}
	}
	n := min(int64(len(inputs)), correctionSamples, int64(correctionWork)/(2*work), MemoryLimit/size)
	if n == 0 {
		return nil
	}
	c := &corrector{q: q, uses: q.old.Uses()}
	values := len(q.old.Values)
	for _, in := range inputs[:n] {
		s := sample{make([]*ir.Tensor, values), make([]*ir.Tensor, values), make([]*ir.Tensor, values)}
		for id := range q.old.Values {
			s.set(q, ir.ValueID(id), q.old.Values[id].Const, q.old.Values[id].Const)
		}
		for i, id := range q.old.Inputs {
			s.set(q, id, in[i], in[i])
		}
		c.samples = append(c.samples, s)
	}
	return c
}

// set stores a value of both graphs.
func (s *sample) set(q *quantiser, id ir.ValueID, float, raw *ir.Tensor) {
	s.float[id], s.raw[id], s.read[id] = float, raw, raw
	if q.coded[id] && raw != nil {
		s.read[id] = throughCodes(raw, q.typeOf(id))
	}
}

// throughCodes quantises and dequantises.
func throughCodes(x *ir.Tensor, t ir.Type) *ir.Tensor {
	src := ir.Data[float32](x)
	dst := make([]float32, len(src))
	scale, zero := t.Quant.Scale[0], float64(t.Quant.Zero[0])
	lo, hi := t.DType.IntRange()
	for i, v := range src {
		code := min(max(math.RoundToEven(float64(v/scale))+zero, float64(lo)), float64(hi))
		dst[i] = float32(code-zero) * scale
	}
	return ir.NewTensor(ir.F32, x.Shape, dst)
}

// operand returns what op reads as operand id in the quantised graph.
func (s *sample) operand(q *quantiser, op *ir.Op, id ir.ValueID) *ir.Tensor {
	if q.insideFunction(op, id) {
		return s.raw[id]
	}
	return s.read[id]
}

// op evaluates an operator in both graphs for all samples. For a product whose
// weights are w in the quantised graph it returns the correction per channel;
// w is nil for others.
func (c *corrector) op(op *ir.Op, w *ir.Tensor) ([]float32, error) {
	plain := *op
	act := actOf(op.Attr)
	if act != nil {
		plain.Attr = withAct(op.Attr, nil)
	}
	float := make([]*ir.Tensor, len(c.samples))
	raw := make([]*ir.Tensor, len(c.samples))
	for i := range c.samples {
		s := &c.samples[i]
		a, b := make([]*ir.Tensor, len(op.In)), make([]*ir.Tensor, len(op.In))
		for k, id := range op.In {
			if id != ir.NoValue {
				a[k], b[k] = s.float[id], s.operand(c.q, op, id)
			}
		}
		if w != nil {
			b[1] = w
		}
		var err error
		if float[i], err = eval.EvalOp(c.q.old, &plain, a); err != nil {
			return nil, err
		}
		if raw[i], err = eval.EvalOp(c.q.old, &plain, b); err != nil {
			return nil, err
		}
	}
	var shift []float32
	if w != nil {
		shift = meanShift(float, raw)
		for _, t := range raw {
			data := ir.Data[float32](t)
			for i := range data {
				data[i] += shift[i%len(shift)]
			}
		}
	}
	for i := range c.samples {
		if act != nil {
			clampTensor(float[i], act)
			clampTensor(raw[i], act)
		}
		c.samples[i].set(c.q, op.Out, float[i], raw[i])
	}
	c.release(op)
	return shift, nil
}

func clampTensor(t *ir.Tensor, act *ir.Act) {
	data := ir.Data[float32](t)
	for i, v := range data {
		data[i] = min(max(v, act.Lo), act.Hi)
	}
}

// release drops tensors that no later operator reads.
func (c *corrector) release(op *ir.Op) {
	for _, id := range op.In {
		if id == ir.NoValue {
			continue
		}
		if c.uses[id]--; c.uses[id] == 0 {
			for _, s := range c.samples {
				s.float[id], s.raw[id], s.read[id] = nil, nil, nil
			}
		}
	}
}

// meanShift returns, per channel (last dimension), the mean of want − got over
// all samples, shrunk as explained above.
func meanShift(want, got []*ir.Tensor) []float32 {
	shape := want[0].Shape
	n := shape[len(shape)-1]
	sum, square := make([]float64, n), make([]float64, n)
	for i := range want {
		a, b := ir.Data[float32](want[i]), ir.Data[float32](got[i])
		mean := make([]float64, n)
		for j := range a {
			mean[j%n] += float64(a[j]) - float64(b[j])
		}
		for c, m := range mean {
			m /= float64(len(a) / n)
			sum[c] += m
			square[c] += m * m
		}
	}
	shift := make([]float32, n)
	samples := float64(len(want))
	for c := range shift {
		mean := sum[c] / samples
		keep := 1.0
		if samples > 1 && mean != 0 {
			variance := max(square[c]-samples*mean*mean, 0) / (samples - 1)
			keep = max(0, 1-variance/(samples*mean*mean))
		}
		shift[c] = float32(mean * keep)
	}
	return shift
}
