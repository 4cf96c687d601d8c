package passes

import (
	"math"
	"slices"

	"situ/ir"
	"situ/ir/eval"
)

// equalise makes the channels of what a product gives alike in range, so that one
// scale suits all: channel c of the product's weights and bias is divided by a
// factor, and the weights that read the channel are multiplied by it. This changes
// nothing in floating point as long as all between the two is positively
// homogeneous, as relu, leakyrelu and pooling are (cross-layer equalisation: Nagel
// et al., "Data-free quantization through weight equalization and bias
// correction", 2019, section 4.1).
//
// There the factors follow from the weights. Here, where weights have a scale for
// each channel of results, dividing costs nothing and multiplying makes weights
// uneven, so the factors follow from the ranges seen in calibration, to a power
// between 0 (left as it is) and 1 (all alike): the one with the least noise that
// rounding of operand and weights is expected to make in the results of those that
// read it. Factors are powers of two, so that the graph means exactly the same.
func equalise(g *ir.Graph, s *State) (*ir.Graph, error) {
	if !isFloatModel(g) || len(s.quant.Inputs) == 0 {
		return g, nil
	}
	e := &equaliser{g: g, users: usersOf(g), steps: 127}
	if s.quant.WeightBits == 4 {
		e.steps = 7
	}
	e.find()
	if len(e.spans) == 0 {
		return g, nil
	}
	seen, err := e.observe(s)
	if err != nil || !seen {
		return g, err
	}
	for i := range e.spans {
		e.choose(&e.spans[i])
	}
	return e.rewrite()
}

// span is a product, by its result, and the products that read its channels.
type span struct {
	from   ir.ValueID
	to     []*ir.Op
	factor []float64 // of each channel, a power of two; nil for ones
}

type equaliser struct {
	g     *ir.Graph
	users [][]*ir.Op
	steps float64 // of a weight, from 0 to the greatest
	spans []span
	stats map[ir.ValueID]*channelStats
}

// channelStats is what was seen of the channels, the last dimension, of a value.
type channelStats struct {
	lo, hi, square []float64 // square: mean of squares, once all is seen
	n              float64   // elements of a channel
}

// isPlainProduct reports whether op is a float product with constant weights, of
// one matrix, and a constant bias if any.
func isPlainProduct(g *ir.Graph, op *ir.Op) bool {
	switch {
	case op.Kind != ir.Conv2D && op.Kind != ir.MatMul, floats(g, op.In[1]) == nil, g.IsConst(op.In[0]):
		return false
	case op.Kind == ir.MatMul && (len(g.Type(op.In[1]).Shape) != 2 || len(g.Type(op.In[0]).Shape) < 2):
		return false
	}
	return len(op.In) < 3 || op.In[2] == ir.NoValue || floats(g, op.In[2]) != nil
}

// homogeneous reports whether op, of one operand, gives each channel multiplied by
// a positive number when the operand's is.
func homogeneous(op *ir.Op, rank int) bool {
	switch op.Kind {
	case ir.Relu, ir.LeakyRelu, ir.MaxPool, ir.AvgPool:
		return true
	case ir.ReduceMean, ir.ReduceSum, ir.ReduceMax:
		return !slices.Contains(op.Attr.(*ir.ReduceAttr).Axes, rank-1)
	}
	return false
}

// find lists the spans of the graph.
func (e *equaliser) find() {
	for i := range e.g.Ops {
		op := &e.g.Ops[i]
		if act := actOf(op.Attr); !isPlainProduct(e.g, op) || act != nil && (act.Lo != 0 || act.Hi != inf) {
			continue
		}
		s := span{from: op.Out}
		if e.follow(op.Out, &s) && len(s.to) > 0 {
			e.spans = append(e.spans, s)
		}
	}
}

// follow collects the products that read a value, and reports whether all its uses
// lead to such.
func (e *equaliser) follow(id ir.ValueID, s *span) bool {
	if slices.Contains(e.g.Outputs, id) {
		return false
	}
	for _, op := range e.users[id] {
		switch {
		case isPlainProduct(e.g, op) && op.In[0] == id:
			s.to = append(s.to, op)
		case homogeneous(op, len(e.g.Type(id).Shape)):
			if !e.follow(op.Out, s) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// observe runs calibration inputs, as many as correctionWork allows, and reports
// whether there was one.
func (e *equaliser) observe(s *State) (bool, error) {
	work := int64(1)
	for i := range e.g.Ops {
		work += Work(e.g, &e.g.Ops[i])
	}
	inputs := s.quant.Inputs[:min(int64(len(s.quant.Inputs)), correctionSamples, correctionWork/(4*work))]
	if len(inputs) == 0 {
		return false, nil
	}
	e.stats = map[ir.ValueID]*channelStats{}
	for _, s := range e.spans {
		for _, op := range s.to {
			for _, id := range []ir.ValueID{op.In[0], op.Out} {
				shape := e.g.Type(id).Shape
				n := shape[len(shape)-1]
				e.stats[id] = &channelStats{lo: make([]float64, n), hi: make([]float64, n), square: make([]float64, n)}
			}
		}
	}
	ev, err := eval.New(e.g)
	if err != nil {
		return false, err
	}
	for _, in := range inputs {
		_, err := ev.Run(s.ctx, in, eval.Options{MemoryLimit: MemoryLimit, Observe: func(id ir.ValueID, t *ir.Tensor) {
			if c := e.stats[id]; c != nil {
				c.add(ir.Data[float32](t))
			}
		}})
		if err != nil {
			return false, err
		}
	}
	for _, c := range e.stats {
		for i := range c.square {
			c.square[i] /= max(c.n, 1)
		}
	}
	return true, nil
}

func (c *channelStats) add(x []float32) {
	n := len(c.lo)
	for i, v := range x {
		f := float64(v)
		k := i % n
		c.lo[k], c.hi[k] = min(c.lo[k], f), max(c.hi[k], f)
		c.square[k] += f * f
	}
	c.n += float64(len(x) / n)
}

// choose sets the factors of a span.
func (e *equaliser) choose(s *span) {
	n := len(e.stats[s.to[0].In[0]].lo)
	top := make([]float64, n) // greatest magnitude of each channel, at any reader
	highest := 0.0
	for _, op := range s.to {
		c := e.stats[op.In[0]]
		for i := range top {
			top[i] = max(top[i], -c.lo[i], c.hi[i])
			highest = max(highest, top[i])
		}
	}
	if !(highest > 0) || math.IsInf(highest, 0) {
		return
	}
	least := math.Inf(1)
	for power := 0.0; power <= 1; power += 0.25 {
		factor := make([]float64, n)
		for i, t := range top {
			factor[i] = 1
			if t > 0 {
				factor[i] = math.Exp2(math.Round(power * max(math.Log2(t/highest), -maxFactor)))
			}
		}
		cost := 0.0
		for _, op := range s.to {
			cost += e.cost(op, factor)
		}
		// What is gained by little is left alone: ranges seen are not all there are.
		if cost < least*enoughGain || power == 0 {
			least, s.factor = cost, factor
		}
	}
	if !slices.ContainsFunc(s.factor, func(f float64) bool { return f != 1 }) {
		s.factor = nil
	}
}

const (
	maxFactor  = 10  // factors are not below 2^-10
	enoughGain = 0.8 // of the noise, or less, must be left for the next power
)

// cost returns the noise, relative to the mean square of each channel of the result,
// that rounding makes in the result of op when the channels of its operand are
// divided by factor.
func (e *equaliser) cost(op *ir.Op, factor []float64) float64 {
	x, y := e.stats[op.In[0]], e.stats[op.Out]
	lo, hi := 0.0, 0.0
	for c, f := range factor {
		lo, hi = min(lo, x.lo[c]/f), max(hi, x.hi[c]/f)
	}
	step := (hi - lo) / 255
	w, per, at := channelWeights(e.g, op)
	total := 0.0
	for o := range y.square {
		if y.square[o] == 0 {
			continue
		}
		operand, signal, top := 0.0, 0.0, 0.0
		for i := range per {
			v, c := float64(w(o, i)), at(o, i)
			f := factor[c]
			operand += v * v * f * f
			signal += x.square[c] / (f * f)
			top = max(top, math.Abs(v)*f)
		}
		weightStep := top / e.steps
		total += (operand*step*step + signal*weightStep*weightStep) / 12 / y.square[o]
	}
	return total
}

// channelWeights returns the weights of a product: w(o, i) is weight i of per of
// channel o of the result, and reads channel at(o, i) of the operand.
func channelWeights(g *ir.Graph, op *ir.Op) (w func(o, i int) float32, per int, at func(o, i int) int) {
	data, shape := floats(g, op.In[1]), g.Type(op.In[1]).Shape
	if op.Kind == ir.MatMul {
		n := shape[1]
		return func(o, i int) float32 { return data[i*n+o] }, shape[0], func(_, i int) int { return i }
	}
	per = ir.Numel(shape[1:])
	group, in := shape[0]/op.Attr.(*ir.ConvAttr).Groups, shape[3]
	return func(o, i int) float32 { return data[o*per+i] }, per, func(o, i int) int { return o/group*in + i%in }
}

// rewrite applies the factors.
func (e *equaliser) rewrite() (*ir.Graph, error) {
	divide, multiply := map[ir.ValueID][]float64{}, map[ir.ValueID][]float64{} // by a product's result
	for _, s := range e.spans {
		if s.factor == nil {
			continue
		}
		divide[s.from] = s.factor
		for _, op := range s.to {
			multiply[op.Out] = s.factor
		}
	}
	if len(divide) == 0 {
		return e.g, nil
	}
	return rewrite(e.g, func(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
		div, mul := divide[op.Out], multiply[op.Out]
		if div == nil && mul == nil {
			return ir.NoValue, nil
		}
		w, per, at := channelWeights(e.g, op)
		shape := e.g.Type(op.In[1]).Shape
		data := make([]float32, ir.Numel(shape))
		channels := len(data) / max(per, 1)
		for o := range channels {
			for i := range per {
				v := float64(w(o, i))
				if div != nil {
					v /= div[o]
				}
				if mul != nil {
					v *= mul[at(o, i)]
				}
				if op.Kind == ir.MatMul {
					data[i*channels+o] = float32(v)
				} else {
					data[o*per+i] = float32(v)
				}
			}
		}
		operands := slices.Clone(in)
		operands[1] = r.g.AddConst(e.g.Value(op.In[1]).Name, ir.NewTensor(ir.F32, shape, data), nil)
		if div != nil && len(op.In) > 2 && op.In[2] != ir.NoValue {
			bias := slices.Clone(floats(e.g, op.In[2]))
			for o := range bias {
				bias[o] = float32(float64(bias[o]) / div[o])
			}
			operands[2] = vector(r.g, e.g.Value(op.In[2]).Name, bias)
		}
		return r.g.AddTyped(op.Kind, op.Name, op.Attr, e.g.Type(op.Out), operands...)
	})
}
