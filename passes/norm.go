package passes

import (
	"slices"

	"situ/internal/fixed"
	"situ/ir"
)

// normalise makes one operator of a layer normalisation, which models and the
// importer spell out. With mean and m the means of x and of squares along the last
// axis, and i = 1/√(m + ε) or (m + ε)^−½,
//
//	(x − mean)·i  or  (x − mean)/√(m + ε)       m of (x − mean)²
//	x·i'  + (β − mean·i')                       the same with i' = i·γ or i
//	x·i   or  x/√(m + ε)                        m of x²: RMS
//
// and what multiplies the result by a constant along these dimensions, or adds one,
// is γ and β. Squares are products or powers.
func normalise(g *ir.Graph, _ *State) (*ir.Graph, error) {
	n := &normaliser{uses: g.Uses()}
	return rewrite(g, n.op)
}

type normaliser struct {
	uses []int // of the old graph's values
}

func (n *normaliser) op(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	t := r.old.Type(op.Out)
	if t.DType != ir.F32 || len(t.Shape) == 0 || actOf(op.Attr) != nil {
		return ir.NoValue, nil
	}
	m := &normMatch{g: r.g}
	switch op.Kind {
	case ir.Mul:
		for i := range 2 {
			if m.inverse(in[1-i]) {
				if out, err := m.write(r, op, in[i]); err != nil || out != ir.NoValue {
					return out, err
				}
			}
		}
		return n.affine(r, op, in)
	case ir.Div:
		if m.deviation(in[1]) {
			return m.write(r, op, in[0])
		}
	case ir.Add:
		if out, err := spread(r, op, in); err != nil || out != ir.NoValue {
			return out, err
		}
		return n.affine(r, op, in)
	}
	return ir.NoValue, nil
}

// affine takes a constant factor or summand of a normalisation into it.
func (n *normaliser) affine(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	if n.uses[op.In[0]] != 1 || !slices.Equal(r.g.Type(in[0]).Shape, r.old.Type(op.Out).Shape) {
		return ir.NoValue, nil
	}
	flat := in[0]
	if p := r.producer(flat, ir.Reshape); p != nil {
		flat = p.In[0]
	}
	p := r.producer(flat, ir.LayerNorm)
	if p == nil {
		return ir.NoValue, nil
	}
	c := tailConst(r.g, in[1], r.g.Type(in[0]).Shape, len(r.g.Type(flat).Shape)-1)
	if c == nil || len(c) != r.g.Type(flat).Shape[len(r.g.Type(flat).Shape)-1] {
		return ir.NoValue, nil
	}
	operands := append(slices.Clone(p.In), ir.NoValue, ir.NoValue)[:3]
	name := r.g.Value(in[1]).Name
	switch {
	case op.Kind == ir.Mul && operands[2] == ir.NoValue:
		if operands[1] != ir.NoValue {
			for i, g := range floats(r.g, operands[1]) {
				c[i] *= g
			}
		}
		operands[1] = vector(r.g, name, c)
	case op.Kind == ir.Add:
		if operands[2] != ir.NoValue {
			for i, b := range floats(r.g, operands[2]) {
				c[i] += b
			}
		}
		operands[2] = vector(r.g, name, c)
	default:
		return ir.NoValue, nil
	}
	return layerNorm(r, op, p.Attr.(*ir.NormAttr), r.old.Type(op.Out).Shape, operands...)
}

// layerNorm writes a normalisation of rows, given as the last dimension, whose
// result has another shape.
func layerNorm(r *rewriter, op *ir.Op, a *ir.NormAttr, shape []int, in ...ir.ValueID) (ir.ValueID, error) {
	y, err := r.g.Add(ir.LayerNorm, op.Name, a, trimmed(in)...)
	if err != nil {
		return y, err
	}
	return reshape(r, op.Name, y, shape)
}

// rows returns x with its dimensions from the given one on as one.
func rows(r *rewriter, op *ir.Op, x ir.ValueID, from int) (ir.ValueID, error) {
	s := r.g.Type(x).Shape
	return reshape(r, op.Name, x, append(slices.Clone(s[:from]), ir.Numel(s[from:])))
}

// tailConst returns the elements of a float32 constant that, broadcast against a
// tensor of the given shape, varies along the dimensions from the given one on
// alone: one for each element of these. Otherwise it returns nil.
func tailConst(g *ir.Graph, id ir.ValueID, shape []int, from int) []float32 {
	data, missing := floats(g, id), len(shape)-len(g.Type(id).Shape)
	if data == nil || missing < 0 || from > len(shape) {
		return nil
	}
	c := append(slices.Repeat([]int{1}, missing), g.Type(id).Shape...)
	if ir.Numel(c[:from]) != 1 {
		return nil
	}
	tail := shape[from:]
	out := make([]float32, ir.Numel(tail))
	for i := range out {
		at, stride, rest := 0, 1, i
		for d := len(tail) - 1; d >= 0; d-- {
			if c[from+d] != 1 {
				at += rest % tail[d] * stride
				stride *= tail[d]
			}
			rest /= tail[d]
		}
		out[i] = data[at]
	}
	return out
}

// trimmed drops absent operands at the end.
func trimmed(in []ir.ValueID) []ir.ValueID {
	for len(in) > 0 && in[len(in)-1] == ir.NoValue {
		in = in[:len(in)-1]
	}
	return in
}

// spread recognises x·i' + (β − mean·i').
func spread(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	for i := range 2 {
		scaled, rest := r.producer(in[i], ir.Mul), r.producer(in[1-i], ir.Sub)
		if scaled == nil || rest == nil || actOf(scaled.Attr) != nil || actOf(rest.Attr) != nil {
			continue
		}
		offset := r.producer(rest.In[1], ir.Mul)
		if offset == nil || actOf(offset.Attr) != nil {
			continue
		}
		for k := range 2 {
			x, factor := scaled.In[k], scaled.In[1-k]
			mean := offset.In[0]
			if mean == factor {
				mean = offset.In[1]
			} else if offset.In[1] != factor {
				continue
			}
			s := r.g.Type(x).Shape
			if !slices.Equal(s, r.old.Type(op.Out).Shape) {
				continue
			}
			m := &normMatch{g: r.g}
			gamma := ir.NoValue
			if p := r.producer(factor, ir.Mul); p != nil && actOf(p.Attr) == nil && m.inverse(p.In[0]) {
				gamma = p.In[1]
			} else if !m.inverse(factor) {
				continue
			}
			if m.x != x || m.rms || meanFrom(r.g, mean, x) != m.from {
				continue
			}
			beta := tailConst(r.g, rest.In[0], s, m.from)
			if beta == nil {
				continue
			}
			operands := []ir.ValueID{ir.NoValue, ir.NoValue, vector(r.g, r.g.Value(rest.In[0]).Name, beta)}
			if gamma != ir.NoValue {
				c := tailConst(r.g, gamma, s, m.from)
				if c == nil {
					continue
				}
				operands[1] = vector(r.g, r.g.Value(gamma).Name, c)
			}
			var err error
			if operands[0], err = rows(r, op, x, m.from); err != nil {
				return ir.NoValue, err
			}
			return layerNorm(r, op, &ir.NormAttr{Epsilon: m.epsilon}, s, operands...)
		}
	}
	return ir.NoValue, nil
}

// normMatch is the part of a normalisation that was found.
type normMatch struct {
	g       *ir.Graph
	x       ir.ValueID // what is normalised
	from    int        // the first of the dimensions along which, all to the last
	rms     bool
	epsilon float32
}

// write adds the normalisation, if numerator is what belongs above the root.
func (m *normMatch) write(r *rewriter, op *ir.Op, numerator ir.ValueID) (ir.ValueID, error) {
	x, s := numerator, m.g.Type(numerator).Shape
	if !m.rms {
		d := producer(m.g, numerator, ir.Sub)
		if d == nil || actOf(d.Attr) != nil || meanFrom(m.g, d.In[1], d.In[0]) != m.from {
			return ir.NoValue, nil
		}
		x = d.In[0]
	}
	if x != m.x || !slices.Equal(s, r.old.Type(op.Out).Shape) {
		return ir.NoValue, nil
	}
	flat, err := rows(r, op, x, m.from)
	if err != nil {
		return flat, err
	}
	return layerNorm(r, op, &ir.NormAttr{Epsilon: m.epsilon, RMS: m.rms}, s, flat)
}

// inverse matches 1/√(m + ε).
func (m *normMatch) inverse(id ir.ValueID) bool {
	op := m.g.DefOp(id)
	if op == nil {
		return false
	}
	switch op.Kind {
	case ir.Reciprocal:
		return m.deviation(op.In[0])
	case ir.Pow:
		e, ok := scalarOf(m.g, op.In[1])
		return ok && e == -0.5 && m.variance(op.In[0])
	case ir.Div:
		one, ok := scalarOf(m.g, op.In[0])
		return ok && one == 1 && m.deviation(op.In[1])
	}
	return false
}

// deviation matches √(m + ε).
func (m *normMatch) deviation(id ir.ValueID) bool {
	op := m.g.DefOp(id)
	if op == nil {
		return false
	}
	switch op.Kind {
	case ir.Sqrt:
		return m.variance(op.In[0])
	case ir.Pow:
		e, ok := scalarOf(m.g, op.In[1])
		return ok && e == 0.5 && m.variance(op.In[0])
	}
	return false
}

// variance matches m + ε and sets what was found.
func (m *normMatch) variance(id ir.ValueID) bool {
	op := m.g.DefOp(id)
	m.epsilon = 0
	if op != nil && op.Kind == ir.Add {
		e, ok := scalarOf(m.g, op.In[1])
		if !ok || !(e >= 0) || e-e != 0 || actOf(op.Attr) != nil {
			return false
		}
		m.epsilon, op = e, m.g.DefOp(op.In[0])
	}
	if op == nil || op.Kind != ir.ReduceMean {
		return false
	}
	if m.from = tailOf(m.g, op); m.from < 0 {
		return false
	}
	square := m.g.DefOp(op.In[0])
	switch {
	case square == nil:
		return false
	case square.Kind == ir.Pow:
		if e, ok := scalarOf(m.g, square.In[1]); !ok || e != 2 || !slices.Equal(m.g.Type(square.In[0]).Shape, m.g.Type(square.Out).Shape) {
			return false
		}
	case square.Kind != ir.Mul || square.In[0] != square.In[1] || actOf(square.Attr) != nil:
		return false
	}
	m.x, m.rms = square.In[0], true
	if d := producer(m.g, m.x, ir.Sub); d != nil && actOf(d.Attr) == nil {
		for i := range 2 { // mean − x has the same square
			if meanFrom(m.g, d.In[1-i], d.In[i]) == m.from {
				m.x, m.rms = d.In[i], false
			}
		}
	}
	return true
}

// meanFrom returns the first dimension of those along which id is the mean of x, −1
// when it is no such mean.
func meanFrom(g *ir.Graph, id, x ir.ValueID) int {
	op := producer(g, id, ir.ReduceMean)
	if op == nil || op.In[0] != x {
		return -1
	}
	return tailOf(g, op)
}

// tailOf returns the first dimension along which a reduction runs, if it runs along
// all from there on, but for those of length 1, and keeps them; else −1.
func tailOf(g *ir.Graph, op *ir.Op) int {
	a, s := op.Attr.(*ir.ReduceAttr), g.Type(op.In[0]).Shape
	if !a.KeepDims || len(a.Axes) == 0 {
		return -1
	}
	from := a.Axes[0]
	for d := from; d < len(s); d++ {
		if s[d] != 1 && !slices.Contains(a.Axes, d) {
			return -1
		}
	}
	if ir.Numel(s[from:]) > fixed.MaxNorm {
		return -1
	}
	return from
}

// spellOut writes a float32 normalisation as the operators that it is made of,
// which every back end takes.
func spellOut(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
	a := op.Attr.(*ir.NormAttr)
	var failed error
	add := func(kind ir.OpKind, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
		if failed != nil {
			return ir.NoValue
		}
		var id ir.ValueID
		id, failed = r.g.Add(kind, op.Name, attr, in...)
		return id
	}
	x := in[0]
	mean := &ir.ReduceAttr{Axes: []int{len(r.g.Type(x).Shape) - 1}, KeepDims: true}
	if !a.RMS {
		x = add(ir.Sub, nil, x, add(ir.ReduceMean, mean, x))
	}
	square := add(ir.ReduceMean, mean, add(ir.Mul, nil, x, x))
	deviation := add(ir.Sqrt, nil, add(ir.Add, nil, square, vector(r.g, op.Name+"/epsilon", []float32{a.Epsilon})))
	y := add(ir.Mul, nil, x, add(ir.Reciprocal, nil, deviation))
	for i, kind := range []ir.OpKind{ir.Mul, ir.Add} {
		if len(in) > 1+i && in[1+i] != ir.NoValue {
			y = add(kind, nil, y, in[1+i])
		}
	}
	return y, failed
}
