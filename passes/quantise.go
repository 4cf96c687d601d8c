package passes

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"situ/ir"
)

// quantise chooses the quantisation of a float graph's activations and weights
// and writes it as quantize/dequantize pairs, which the pass fix then turns into
// operators on codes. Activations become int8 with one scale and zero point,
// weights int8 or int4 with a scale per output channel and no zero point.
//
// Not every value is given codes. Operators that only move or compare elements
// share the codes of their operand. Of a chain of element-wise functions only
// the beginning and the end have codes; the chain is a table. A product that
// feeds nothing but outputs or operators without a fixed-point form keeps its
// 32-bit sums. Operands of concat take the quantisation of the result. While the
// graph is written a corrector follows the calibration inputs through it and
// adjusts biases and the rounding of int4 weights.
//
// Where 8 bits lose too much, layers get higher precision: precision.go.
func quantise(g *ir.Graph, s *State) (*ir.Graph, error) {
	if !isFloatModel(g) {
		return g, nil
	}
	if s.ranges == nil {
		return nil, errors.New("the ranges of values are not known: the pass calibrate is disabled")
	}
	bits := s.quant.WeightBits
	switch bits {
	case 0:
		bits = 8
	case 4, 8:
	default:
		return nil, fmt.Errorf("weights of %d bits: there are 8 and 4", bits)
	}
	return chooser{g: g, state: s, bits: bits, origin: origins(g)}.choose()
}

// writePairs writes a graph with quantize/dequantize pairs. When asked to it
// measures, where there is a corrector, what each rounding costs.
func writePairs(g *ir.Graph, s *State, bits int, raised *precision, measure bool) (*quantiser, *ir.Graph, error) {
	q := &quantiser{rewriter: newRewriter(g), ranges: slices.Clone(s.ranges), floors: s.floors, weightBits: bits, blocks: s.quant.Blocks, raised: raised, origin: origins(g),
		coded: make([]bool, len(g.Values)), group: make([]ir.ValueID, len(g.Values)), dq: make([]ir.ValueID, len(g.Values))}
	q.users = usersOf(g)
	for i := range g.Values {
		q.group[i], q.dq[i] = ir.ValueID(i), ir.NoValue
	}
	q.choose()
	q.unify(s.states)
	q.even()
	if g.Described() == ir.NoValue {
		q.correct = newCorrector(q, s.quant.Inputs, measure)
	}
	for _, id := range g.Inputs {
		if err := q.input(id, s.quant.CodedIO); err != nil {
			return nil, nil, err
		}
	}
	for i := range g.Ops {
		if err := s.ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := q.op(&g.Ops[i]); err != nil {
			return nil, nil, err
		}
	}
	for _, out := range g.Outputs {
		if dq := q.dq[out]; dq != ir.NoValue && s.quant.CodedIO {
			q.Set(out, q.g.DefOp(dq).In[0])
			continue
		}
		q.Set(out, q.read(out))
	}
	return q, q.finish(), nil
}

type quantiser struct {
	*rewriter
	ranges     []Range
	floors     []float64 // see masks; nil for none
	weightBits int
	blocks     bool // weights in blocks
	raised     *precision
	origin     []ir.ValueID
	users      [][]*ir.Op
	coded      []bool       // by old id: gets a quantize/dequantize pair
	group      []ir.ValueID // by old id: union-find parent; a group has one quantisation
	dq         []ir.ValueID // by old id: the dequantized form in the new graph
	symmetric  []bool       // by root of a group: no zero point
	correct    *corrector   // nil: biases stay as they are
	shared     []*ir.Quant  // of described weights: one for all with the same channels and scale
}

// isProduct reports whether op is a product with constant bias, which can be
// computed on codes.
func (q *quantiser) isProduct(op *ir.Op) bool {
	if op.Kind != ir.Conv2D && op.Kind != ir.MatMul || q.old.Type(op.Out).DType != ir.F32 || q.old.IsConst(op.In[0]) {
		return false
	}
	if op.Kind == ir.Conv2D && !q.old.IsConst(op.In[1]) {
		return false
	}
	return len(op.In) < 3 || op.In[2] == ir.NoValue || q.old.IsConst(op.In[2])
}

// isArithmetic reports whether op computes new numbers and has a form on codes,
// products aside.
func (q *quantiser) isArithmetic(op *ir.Op) bool {
	t := q.old.Type(op.Out)
	if t.DType != ir.F32 || q.isFunction(op.Out) {
		return false
	}
	switch op.Kind {
	case ir.Add, ir.Sub, ir.Mul, ir.MulAdd, ir.AvgPool, ir.ReduceMean, ir.ReduceSum:
		return true
	case ir.LayerNorm:
		return true
	case ir.Softmax:
		return op.Attr.(*ir.AxisAttr).Axis == len(t.Shape)-1 && q.ranges[op.Out].Hi >= leastShare
	}
	return false
}

// isEmbedding reports whether op looks rows of a constant table up for operators
// on codes. The table then holds codes of its own range, whichever rows
// calibration has seen.
func (q *quantiser) isEmbedding(op *ir.Op) bool {
	if op.Kind != ir.Gather || q.old.IsConst(op.In[1]) {
		return false
	}
	if q.old.IsDescribed(op.In[0]) {
		return q.wanted(op.Out)
	}
	table := floats(q.old, op.In[0])
	return table != nil && !q.raised.float[op.Out] && !slices.ContainsFunc(table, func(x float32) bool { return x-x != 0 }) && q.wanted(op.Out)
}

// leastShare is the largest share that a softmax must have been seen to give for
// its result to have codes: in steps of 1/256 smaller ones are all but lost, and
// such a softmax stays in float32.
const leastShare = 1.0 / 16

// isFunction reports whether a value is an element-wise function of another.
func (q *quantiser) isFunction(id ir.ValueID) bool {
	o := q.origin[id]
	return o != id && o != ir.NoValue
}

// choose decides which values have codes.
func (q *quantiser) choose() {
	for i := range q.old.Values {
		id := ir.ValueID(i)
		v := q.old.Value(id)
		if v.Const != nil || v.Type.DType != ir.F32 {
			continue
		}
		op := q.old.DefOp(id)
		switch {
		case op == nil:
			q.coded[id] = q.wanted(id)
		case q.isFunction(id):
			q.coded[id] = q.endsFunction(id)
		case op.Kind.Is(ir.MovesCodes) && op.Kind != ir.Concat:
			// The codes are those of its operand, unless that stays in float32.
			q.coded[id] = q.raised.float[op.In[0]] && q.wanted(id)
		case q.isArithmetic(op), q.isProduct(op) && actOf(op.Attr) != nil: // sums cannot be clamped
			q.coded[id] = true
		default:
			q.coded[id] = q.wanted(id)
		}
		q.coded[id] = q.coded[id] && !q.raised.float[id]
	}
}

// hasCodes reports whether a value is dequantized codes, perhaps moved.
func (q *quantiser) hasCodes(id ir.ValueID) bool {
	op := q.old.DefOp(id)
	for !q.coded[id] && op != nil && op.Kind.Is(ir.MovesCodes) && op.Kind != ir.Concat {
		if q.isEmbedding(op) {
			return true
		}
		id = op.In[0]
		op = q.old.DefOp(id)
	}
	return q.coded[id]
}

// onCodes reports whether an operator that is arithmetic computes on codes: none
// of its operands nor its result stay in float32 for precision's sake.
func (q *quantiser) onCodes(op *ir.Op) bool {
	return q.coded[op.Out] && !slices.ContainsFunc(op.In, func(id ir.ValueID) bool { return !q.old.IsConst(id) && !q.hasCodes(id) })
}

// endsFunction reports whether a function's value is used by anything but a
// longer function of the same variable.
func (q *quantiser) endsFunction(id ir.ValueID) bool {
	return slices.Contains(q.old.Outputs, id) ||
		slices.ContainsFunc(q.users[id], func(u *ir.Op) bool { return q.origin[u.Out] != q.origin[id] })
}

// wanted reports whether some user of a value computes on codes.
func (q *quantiser) wanted(id ir.ValueID) bool {
	return slices.ContainsFunc(q.users[id], func(u *ir.Op) bool {
		switch {
		case q.isProduct(u), q.isArithmetic(u), q.origin[u.Out] == id:
			return true
		case u.Kind == ir.MaxPool || u.Kind == ir.ReduceMax || u.Kind == ir.ReduceMin || u.Kind == ir.Concat:
			return true
		case u.Kind.Is(ir.MovesCodes):
			return q.wanted(u.Out)
		}
		return false
	})
}

// root returns the representative of a group.
func (q *quantiser) root(id ir.ValueID) ir.ValueID {
	for q.group[id] != id {
		q.group[id] = q.group[q.group[id]]
		id = q.group[id]
	}
	return id
}

// unify gives concat and those of its operands one quantisation that lose little
// by it: those that nothing else uses, and those of similar range. The two ends of
// a state have one quantisation in any case.
func (q *quantiser) unify(states []ir.State) {
	for i := range q.old.Ops {
		op := &q.old.Ops[i]
		if op.Kind != ir.Concat || !q.coded[op.Out] {
			continue
		}
		whole := q.ranges[op.Out]
		for _, in := range op.In {
			src, alone := q.source(in)
			if src == ir.NoValue || !q.coded[src] {
				continue
			}
			r := q.ranges[src]
			if alone || whole.Hi-whole.Lo <= 2*(r.Hi-r.Lo) {
				q.join(src, op.Out)
			}
		}
	}
	for _, s := range states {
		in, _ := q.source(q.old.Outputs[s.Out])
		if id := q.old.Inputs[s.In]; q.coded[id] && q.coded[in] {
			q.join(in, id)
		}
	}
}

// join gives two values one quantisation, that of the ranges of both.
func (q *quantiser) join(x, y ir.ValueID) {
	a, b := q.root(x), q.root(y)
	q.group[a] = b
	q.ranges[b] = Range{min(q.ranges[a].Lo, q.ranges[b].Lo), max(q.ranges[a].Hi, q.ranges[b].Hi)}
}

// source follows movements back to the value whose codes are moved, and reports
// whether it has no other use.
func (q *quantiser) source(id ir.ValueID) (src ir.ValueID, alone bool) {
	alone = true
	for {
		alone = alone && len(q.users[id]) == 1 && !slices.Contains(q.old.Outputs, id)
		op := q.old.DefOp(id)
		if op == nil || q.coded[id] || !op.Kind.Is(ir.MovesCodes) {
			return id, alone
		}
		id = op.In[0]
	}
}

// minScale bounds scales from below, so that products and quotients of a few of
// them stay far from the ends of float32.
const minScale = 1e-9

// activationType returns the int8 type for a range, which holds 0.
func activationType(r Range, shape []int) ir.Type {
	scale := float32((r.Hi - r.Lo) / 255)
	if r.Hi == r.Lo {
		scale = 1 // always 0: any scale will do
	}
	scale = max(scale, minScale)
	zero := math.RoundToEven(-128 - r.Lo/float64(scale))
	return ir.Type{DType: ir.I8, Shape: shape, Quant: ir.PerTensor(scale, int32(min(max(zero, -128), 127)))}
}

// typeOf returns the quantised type of a value.
func (q *quantiser) typeOf(id ir.ValueID) ir.Type {
	r := q.ranges[q.root(id)]
	if op := q.old.DefOp(id); op != nil && op.Kind == ir.Softmax && q.root(id) == id {
		// Shares of 1: the bound is known, whatever calibration has seen.
		return ir.Type{DType: ir.I8, Shape: q.old.Type(id).Shape, Quant: ir.PerTensor(1.0/256, -128)}
	}
	if q.symmetric[q.root(id)] {
		return symmetricType(r, q.old.Type(id).Shape)
	}
	return activationType(r, q.old.Type(id).Shape)
}

// input writes the quantize/dequantize pair of an input; one that is given as
// codes has the latter half of it.
func (q *quantiser) input(id ir.ValueID, coded bool) error {
	if !coded || !q.coded[id] {
		return q.pair(id)
	}
	v := q.g.Value(q.Map(id))
	v.Type = q.typeOf(id)
	var err error
	q.dq[id], err = q.g.Add(ir.Dequantize, v.Name, nil, q.Map(id))
	return err
}

// pair writes the quantize/dequantize pair of a value, if it has codes.
func (q *quantiser) pair(id ir.ValueID) error {
	if !q.coded[id] {
		return nil
	}
	name := q.old.Value(id).Name
	c, err := q.g.AddTyped(ir.Quantize, name, nil, q.typeOf(id), q.Map(id))
	if err == nil {
		q.dq[id], err = q.g.Add(ir.Dequantize, name, nil, c)
	}
	return err
}

// read returns a value as users other than longer functions see it.
func (q *quantiser) read(id ir.ValueID) ir.ValueID {
	if id != ir.NoValue && q.dq[id] != ir.NoValue {
		return q.dq[id]
	}
	return q.Map(id)
}

// op copies an operator, its operands read from their codes.
func (q *quantiser) op(op *ir.Op) error {
	in := make([]ir.ValueID, len(op.In))
	for i, id := range op.In {
		in[i] = q.read(id)
		if q.insideFunction(op, id) {
			in[i] = q.Map(id)
		}
	}
	var err error
	rounded := make([]*ir.Tensor, len(in)) // operands that are constant, after rounding
	rest := ir.NoValue                     // the lesser part of a product's operand
	switch {
	case q.pools(op):
		if in[0], err = q.throughCodes(q.old.Value(op.In[0]).Name, in[0], activationType(q.ranges[op.In[0]], q.old.Type(op.In[0]).Shape)); err != nil {
			return err
		}
	case q.isProduct(op):
		if rest, err = q.operands(op, in); err != nil {
			return err
		}
		if rounded[1], err = q.product(op, in); err != nil {
			return err
		}
	case q.isEmbedding(op) && q.g.IsDescribed(in[0]):
		in[0] = q.describedTable(in[0])
	case q.isEmbedding(op):
		if in[0], err = q.constant(op.In[0], in[0], floats(q.g, in[0])); err != nil {
			return err
		}
		if rounded[0], err = evalDequantize(q.g, in[0]); err != nil {
			return err
		}
	case q.isArithmetic(op) && op.Kind != ir.LayerNorm && q.onCodes(op):
		for i, id := range in {
			if data := floats(q.g, id); data != nil {
				if in[i], err = q.constant(op.In[i], id, data); err != nil {
					return err
				}
				if rounded[i], err = evalDequantize(q.g, in[i]); err != nil {
					return err
				}
			}
		}
	}
	if q.correct != nil {
		shift, err := q.correct.op(op, rounded)
		if err != nil {
			return err
		}
		if shift != nil {
			in = q.shiftBias(op, in, shift)
		}
	}
	var id ir.ValueID
	if rest != ir.NoValue {
		id, err = q.inTwoParts(op, in, rest)
	} else {
		id, err = q.g.AddTyped(op.Kind, op.Name, op.Attr, q.old.Type(op.Out), in...)
	}
	if err != nil {
		return err
	}
	q.Set(op.Out, id)
	return q.pair(op.Out)
}

// insideFunction reports whether op continues the function that id is a value
// of: there are no codes on the way.
func (q *quantiser) insideFunction(op *ir.Op, id ir.ValueID) bool {
	return id != ir.NoValue && q.isFunction(id) && q.origin[op.Out] == q.origin[id]
}

// shiftBias adds a correction to the bias of a product.
func (q *quantiser) shiftBias(op *ir.Op, in []ir.ValueID, shift []float32) []ir.ValueID {
	name := op.Name + "/bias"
	if len(in) > 2 && in[2] != ir.NoValue {
		name = q.g.Value(in[2]).Name
		for c, b := range floats(q.g, in[2]) {
			shift[c] += b
		}
	}
	return []ir.ValueID{in[0], in[1], vector(q.g, name, shift)}
}

// constant quantises a constant operand of an element-wise operator, old in the
// old graph and id in the new one. What is below its floor becomes the smallest code.
func (q *quantiser) constant(old, id ir.ValueID, data []float32) (ir.ValueID, error) {
	v := q.g.Value(id)
	floor := math.Inf(-1)
	if q.floors != nil {
		floor = q.floors[old]
	}
	r := Range{}
	for _, x := range data {
		y := max(float64(x), floor)
		if y-y != 0 {
			return ir.NoValue, fmt.Errorf("constant %q holds %v", v.Name, x)
		}
		r = Range{min(r.Lo, y), max(r.Hi, y)}
	}
	t := activationType(r, v.Type.Shape)
	codes := make([]int8, len(data))
	for i, x := range data {
		codes[i] = int8(codeOf(float64(x), t))
	}
	c := q.g.AddConst(v.Name, ir.NewTensor(ir.I8, t.Shape, codes), t.Quant)
	return q.g.Add(ir.Dequantize, v.Name, nil, c)
}
