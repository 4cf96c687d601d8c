package passes

import (
	"cmp"
	"slices"

	"situ/ir"
)

// Some layers lose more than others by being rounded to 8 bits: where the
// channels of an operand differ much in range, where large terms of a sum cancel.
// Their loss is measured on the calibration inputs, each layer by itself: the
// ratio of signal to noise in its result when nothing but what it reads is rounded
// (noise.go). The worst get higher precision:
//
//   - their operand is not rounded to 8 bits where it is made. It and the element-wise
//     operators between the last products and this one stay in float32, from the exact
//     32-bit sums of those products on, and the product takes it as 16 bits in two parts (parts.go);
//   - their weights keep 8 bits where the model's have 4;
//   - an output of the graph stays in float32 like an operand.

// precision says which parts of a graph are given more bits than the rest, by
// value id.
type precision struct {
	any     bool
	wide    []bool // results of products that take their operand in two parts
	weights []bool // results of products whose weights keep 8 bits
	float   []bool // values that stay in float32
}

func newPrecision(g *ir.Graph) *precision {
	n := len(g.Values)
	return &precision{wide: make([]bool, n), weights: make([]bool, n), float: make([]bool, n)}
}

// Raised is a layer that was given higher precision.
type Raised struct {
	Node, Op string
	What     string  // RaisedOperand, RaisedWeights or RaisedOutput
	SQNRdB   float64 // what its rounding alone left of its result before
	MACs     int64   // multiply-accumulates added, for an operand
	Bytes    int64   // bytes of weights added, for weights
}

// What a layer may be given.
const (
	RaisedOperand = "16-bit operand"
	RaisedWeights = "8-bit weights"
	RaisedOutput  = "float32 output"
)

// candidate is a layer that may be given higher precision.
type candidate struct {
	Raised
	out ir.ValueID // its result
}

// chooser finds the precision of each layer of a graph.
type chooser struct {
	g      *ir.Graph
	state  *State
	bits   int          // of weights
	origin []ir.ValueID // see origins
}

func (c chooser) write(raised *precision, measure bool) (*quantiser, *ir.Graph, error) {
	return writePairs(c.g, c.state, c.bits, raised, measure)
}

// choose writes the graph with all layers in the lowest precision, and again with
// some in higher where Quantisation asks for it.
func (c chooser) choose() (*ir.Graph, error) {
	want := &c.state.quant
	if want.Mixed == 0 && (want.MinSQNR <= 0 || c.bits < 8) {
		_, g, err := c.write(newPrecision(c.g), false)
		return g, err
	}
	q, g, err := c.write(newPrecision(c.g), want.Mixed > 0)
	switch {
	case err != nil:
		return nil, err
	case q.correct == nil: // too large to measure
		return g, nil
	case want.Mixed > 0:
		return c.within(q, want.Mixed)
	}
	n, err := q.correct.outputs(c.state, g)
	if err != nil || n.db() >= want.MinSQNR {
		return g, err
	}
	if q, _, err = c.write(newPrecision(c.g), true); err != nil {
		return nil, err
	}
	return c.reach(c.candidates(q), g, n.db(), want.MinSQNR)
}

// candidates lists the layers of a measured graph, the worst first.
func (c chooser) candidates(q *quantiser) []candidate {
	var list []candidate
	for i := range c.g.Ops {
		op := &c.g.Ops[i]
		l, ok := q.correct.local[op.Out]
		if !ok || !c.g.IsConst(op.In[1]) {
			continue
		}
		r := Raised{Node: op.Name, Op: op.Kind.String(), What: RaisedOperand, SQNRdB: l.operand.db(), MACs: Work(c.g, op)}
		if l.operand.noise > 0 && c.raisable(op.In[0]) {
			list = append(list, candidate{r, op.Out})
		}
		if l.weights.noise > 0 {
			r.What, r.SQNRdB, r.MACs = RaisedWeights, l.weights.db(), 0
			r.Bytes = int64(c.g.Type(op.In[1]).Numel()) / 2
			list = append(list, candidate{r, op.Out})
		}
	}
	for _, id := range c.g.Outputs {
		op := c.g.DefOp(id)
		if n := q.correct.ends[id]; op != nil && n.noise > 0 && c.raisable(id) {
			list = append(list, candidate{Raised{Node: op.Name, Op: op.Kind.String(), What: RaisedOutput, SQNRdB: n.db()}, id})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.SQNRdB, b.SQNRdB) })
	return list
}

// InFloat lists the operators that every target computes in float32.
var InFloat = []ir.OpKind{
	ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Min, ir.Max,
	ir.Relu, ir.LeakyRelu, ir.Clip, ir.Sigmoid, ir.HardSigmoid, ir.HardSwish, ir.Tanh, ir.Exp, ir.Log, ir.Sqrt, ir.Reciprocal,
	ir.Neg, ir.Abs, ir.Softplus, ir.Elu,
	ir.ReduceSum, ir.ReduceMean, ir.ReduceMax, ir.ReduceMin, ir.Softmax, ir.LogSoftmax, ir.LRN, ir.MaxPool,
	ir.Reshape, ir.Transpose, ir.Concat, ir.Slice, ir.Pad, ir.Expand, ir.Gather,
}

// raisable reports whether a value can be had in float32 on every target, and what
// is then computed from it in float32 too. Products and means over windows take
// codes made for them.
func (c chooser) raisable(id ir.ValueID) bool {
	p := newPrecision(c.g)
	p.keep(c.g, id)
	for i := range c.g.Ops {
		op := &c.g.Ops[i]
		made, from := p.float[op.Out], c.origin[op.Out]
		reads := from != ir.NoValue && p.float[from] || slices.ContainsFunc(op.In, func(in ir.ValueID) bool { return in != ir.NoValue && p.float[in] })
		switch {
		case !made && !reads, op.Kind == ir.Conv2D, op.Kind == ir.MatMul, slices.Contains(InFloat, op.Kind):
		case op.Kind == ir.AvgPool && !made:
		default:
			return false
		}
		if a, ok := op.Attr.(*ir.PadAttr); ok && made && (a.Mode != ir.PadConstant || a.Value != 0) {
			return false // hardware pads float32 with zeros only
		}
	}
	return true
}

// raise gives the listed layers higher precision.
func (c chooser) raise(list []candidate) *precision {
	p := newPrecision(c.g)
	for _, l := range list {
		p.any = true
		switch l.What {
		case RaisedWeights:
			p.weights[l.out] = true
		case RaisedOutput:
			p.keep(c.g, l.out)
		case RaisedOperand:
			p.wide[l.out] = true
			p.keep(c.g, c.g.DefOp(l.out).In[0])
		}
	}
	return p
}

// keep leaves a value in float32, and what it is computed from since the last
// products, their results included.
func (p *precision) keep(g *ir.Graph, id ir.ValueID) {
	if id == ir.NoValue || p.float[id] || g.IsConst(id) || g.Type(id).DType != ir.F32 {
		return
	}
	op := g.DefOp(id)
	if op != nil && op.Kind == ir.Dequantize {
		return
	}
	p.float[id] = true
	if op == nil || op.Kind == ir.Conv2D || op.Kind == ir.MatMul {
		return
	}
	for _, in := range op.In {
		p.keep(g, in)
	}
}

// within raises the worst layers as far as each fits into the budget that is left:
// the share of all multiply-accumulates, and of all bytes of weights, that may be
// added.
func (c chooser) within(q *quantiser, share float64) (*ir.Graph, error) {
	var macs, bytes int64
	list := c.candidates(q)
	for i := range c.g.Ops {
		if op := &c.g.Ops[i]; q.isProduct(op) && c.g.IsConst(op.In[1]) {
			macs += Work(c.g, op)
			bytes += int64(c.g.Type(op.In[1]).Numel()*q.bitsOf(op)) / 8
		}
	}
	left, leftBytes := int64(share*float64(macs)), int64(share*float64(bytes))
	var chosen []candidate
	for _, l := range list {
		if l.MACs <= left && l.Bytes <= leftBytes {
			left, leftBytes = left-l.MACs, leftBytes-l.Bytes
			chosen = append(chosen, l)
		}
	}
	_, g, err := c.write(c.raise(chosen), false)
	c.state.keep(chosen)
	return g, err
}

// steps is the number of sizes that reach tries between the last that was too few
// layers and the first that was enough.
const steps = 3

// reach raises as many of the listed layers as it takes for the outputs to reach a
// signal-to-noise ratio of want, from db in graph g; when all are not enough, as
// many as got nearest.
func (c chooser) reach(list []candidate, g *ir.Graph, db, want float64) (*ir.Graph, error) {
	nearest, best, chosen := db, g, 0
	try := func(n int) (bool, error) {
		q, g, err := c.write(c.raise(list[:n]), false)
		if err != nil {
			return false, err
		}
		noise, err := q.correct.outputs(c.state, g)
		if err != nil {
			return false, err
		}
		db := noise.db()
		if db >= want || db > nearest {
			nearest, best, chosen = db, g, n
		}
		return db >= want, nil
	}
	few, enough := 0, 0
	for n := max(1, len(list)/16); enough == 0 && few < len(list); n *= 2 {
		n = min(n, len(list))
		ok, err := try(n)
		if err != nil {
			return nil, err
		}
		if ok {
			enough = n
		} else {
			few = n
		}
	}
	for range steps {
		n := (few + enough) / 2
		if n <= few || n >= enough {
			break
		}
		ok, err := try(n)
		if err != nil {
			return nil, err
		}
		if ok {
			enough = n
		} else {
			few = n
		}
	}
	c.state.keep(list[:chosen])
	return best, nil
}

// keep notes what was raised, for Result.
func (s *State) keep(list []candidate) {
	for _, l := range list {
		s.raised = append(s.raised, l.Raised)
	}
}
