package passes

import (
	"math"
	"slices"

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

	local map[ir.ValueID]losses // by product, unless nil: what rounding costs its result alone
	ends  map[ir.ValueID]noise  // by graph output: the same, of its rounding since the last products
}

// sample holds tensors by old value id, in three graphs: the float one, the
// quantised one, and one in which every product gives what it gives in float, so
// that only roundings since the last products are seen (nil unless measured).
type sample struct {
	float, quantised, fresh track
}

// track is the values of one graph: as operators give them, and as others read
// them, after quantize and dequantize.
type track struct {
	raw, read []*ir.Tensor
}

func newTrack(n int) track { return track{make([]*ir.Tensor, n), make([]*ir.Tensor, n)} }

// newCorrector returns nil when the graph is too large or nothing is to be
// corrected.
func newCorrector(q *quantiser, inputs [][]*ir.Tensor, measure bool) *corrector {
	e, err := eval.New(q.old)
	if err != nil {
		return nil
	}
	const tensors = 6 // of each value: two in each of at most three tracks
	work, size := int64(1), tensors*e.Peak()+1
	for i := range q.old.Ops {
		work += Work(q.old, &q.old.Ops[i])
	}
	n := min(int64(len(inputs)), correctionSamples, int64(correctionWork)/(2*work), MemoryLimit/size)
	if n == 0 {
		return nil
	}
	c := &corrector{q: q, uses: q.old.Uses()}
	if measure {
		c.local, c.ends = map[ir.ValueID]losses{}, map[ir.ValueID]noise{}
	}
	values := len(q.old.Values)
	for _, in := range inputs[:n] {
		s := sample{float: newTrack(values), quantised: newTrack(values)}
		if measure {
			s.fresh = newTrack(values)
		}
		for id := range q.old.Values {
			s.set(q, ir.ValueID(id), q.old.Values[id].Const, q.old.Values[id].Const, q.old.Values[id].Const)
		}
		for i, id := range q.old.Inputs {
			s.set(q, id, in[i], in[i], in[i])
		}
		c.samples = append(c.samples, s)
	}
	return c
}

// set stores a value of all graphs.
func (s *sample) set(q *quantiser, id ir.ValueID, float, quantised, fresh *ir.Tensor) {
	s.float.raw[id], s.float.read[id] = float, float
	s.quantised.set(q, id, quantised)
	if s.fresh.raw != nil {
		s.fresh.set(q, id, fresh)
	}
}

func (t *track) set(q *quantiser, id ir.ValueID, raw *ir.Tensor) {
	t.raw[id], t.read[id] = raw, raw
	if q.coded[id] && raw != nil {
		t.read[id] = throughCodes(raw, q.typeOf(id))
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

// operand returns what op reads as operand k in the quantised graph.
func (t *track) operand(q *quantiser, op *ir.Op, k int) *ir.Tensor {
	id := op.In[k]
	switch {
	case q.insideFunction(op, id):
		return t.raw[id]
	case q.raised.any && k < 2 && q.isProduct(op) && !q.old.IsConst(id) && !q.hasCodes(id):
		return q.parts(op, k, t.read[id])
	case q.pools(op):
		return throughCodes(t.read[id], activationType(q.ranges[id], q.old.Type(id).Shape))
	}
	return t.read[id]
}

// operands returns all that op reads in the quantised graph.
func (t *track) operands(q *quantiser, op *ir.Op, rounded []*ir.Tensor) []*ir.Tensor {
	in := slices.Clone(rounded)
	for k, id := range op.In {
		if id != ir.NoValue && in[k] == nil {
			in[k] = t.operand(q, op, k)
		}
	}
	return in
}

// op evaluates an operator in all graphs for all samples. Operands that are
// constants and rounded in the quantised graph are given, others nil. For a
// product with rounded weights it returns the correction per channel.
func (c *corrector) op(op *ir.Op, rounded []*ir.Tensor) ([]float32, error) {
	var w *ir.Tensor
	if c.q.isProduct(op) {
		w = rounded[1]
	}
	plain := *op
	act := actOf(op.Attr)
	if act != nil {
		plain.Attr = withAct(op.Attr, nil)
	}
	float := make([]*ir.Tensor, len(c.samples))
	raw := make([]*ir.Tensor, len(c.samples))
	fresh := make([]*ir.Tensor, len(c.samples))
	for i := range c.samples {
		s := &c.samples[i]
		a := make([]*ir.Tensor, len(op.In))
		for k, id := range op.In {
			if id != ir.NoValue {
				a[k] = s.float.raw[id]
			}
		}
		b := s.quantised.operands(c.q, op, rounded)
		var err error
		if float[i], err = eval.EvalOp(c.q.old, &plain, a); err != nil {
			return nil, err
		}
		if raw[i], err = eval.EvalOp(c.q.old, &plain, b); err != nil {
			return nil, err
		}
		if c.local != nil {
			if fresh[i], err = c.losses(s, &plain, act, a, rounded, float[i]); err != nil {
				return nil, err
			}
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
		c.samples[i].set(c.q, op.Out, float[i], raw[i], fresh[i])
	}
	c.atOutput(op.Out)
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
				for _, t := range []track{s.float, s.quantised, s.fresh} {
					if t.raw != nil {
						t.raw[id], t.read[id] = nil, nil
					}
				}
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
