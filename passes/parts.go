package passes

import "situ/ir"

// A product whose operand was left in float32 takes it as codes made for it
// alone. Where 8 bits are too coarse it takes them in two parts, both of 8 bits:
// the operand's codes, and codes of what their rounding left over, whose step is
// 1/254 of the first one's. The product is linear, so it is computed once for
// each part, exactly, in 32-bit sums, and the two results are added in float32:
// 16 bits at twice the multiply-accumulates, on arrays that know only 8.

// restSteps is the number of steps of the second part in one of the first: what
// rounding leaves lies within half a step of 0, which is 127 of the second.
const restSteps = 254

// partTypes returns the types of the two parts of operand k of a product.
func (q *quantiser) partTypes(k int, id ir.ValueID) (first, rest ir.Type) {
	first = activationType(q.ranges[id], q.old.Type(id).Shape)
	if k > 0 && evenly(q.ranges[id]) {
		first = symmetricType(q.ranges[id], first.Shape)
	}
	scale := max(first.Quant.Scale[0]/restSteps, minScale)
	return first, ir.Type{DType: ir.I8, Shape: first.Shape, Quant: ir.PerTensor(scale, 0)}
}

// isWide reports whether a product takes its operand in two parts.
func (q *quantiser) isWide(op *ir.Op) bool {
	return q.raised.wide[op.Out] && !q.hasCodes(op.In[0])
}

// pools reports whether op is a mean over windows of a value that was left in
// float32: it takes codes made for it alone, as hardware has no other.
func (q *quantiser) pools(op *ir.Op) bool {
	return op.Kind == ir.AvgPool && q.raised.any && q.coded[op.Out] && !q.old.IsConst(op.In[0]) && !q.hasCodes(op.In[0])
}

// operands gives codes to the operands of a product that have none, in place, and
// returns the rest of a wide one's, else NoValue.
func (q *quantiser) operands(op *ir.Op, in []ir.ValueID) (rest ir.ValueID, err error) {
	rest = ir.NoValue
	for k, id := range op.In[:2] {
		if q.old.IsConst(id) || q.hasCodes(id) || !q.raised.any {
			continue
		}
		name, x := q.old.Value(id).Name, in[k]
		first, restType := q.partTypes(k, id)
		if in[k], err = q.throughCodes(name, x, first); err != nil {
			return rest, err
		}
		if k > 0 || !q.isWide(op) {
			continue
		}
		if rest, err = q.g.Add(ir.Sub, op.Name, nil, x, in[k]); err != nil {
			return rest, err
		}
		if rest, err = q.throughCodes(name, rest, restType); err != nil {
			return rest, err
		}
	}
	return rest, nil
}

// throughCodes adds a quantize/dequantize pair.
func (q *quantiser) throughCodes(name string, x ir.ValueID, t ir.Type) (ir.ValueID, error) {
	c, err := q.g.AddTyped(ir.Quantize, name, nil, t, x)
	if err != nil {
		return c, err
	}
	return q.g.Add(ir.Dequantize, name, nil, c)
}

// inTwoParts writes a product as the sum of two.
func (q *quantiser) inTwoParts(op *ir.Op, in []ir.ValueID, rest ir.ValueID) (ir.ValueID, error) {
	t, act, attr := q.old.Type(op.Out), actOf(op.Attr), op.Attr
	if act != nil {
		attr = withAct(attr, nil)
	}
	a, err := q.g.AddTyped(op.Kind, op.Name, attr, t, in...)
	if err != nil {
		return a, err
	}
	b, err := q.g.AddTyped(op.Kind, op.Name, attr, t, rest, in[1])
	if err != nil {
		return b, err
	}
	return q.g.AddTyped(ir.Add, op.Name, &ir.BinaryAttr{Act: act}, t, a, b)
}

// parts returns an operand that has no codes of its own as a product sees it.
func (q *quantiser) parts(op *ir.Op, k int, x *ir.Tensor) *ir.Tensor {
	first, restType := q.partTypes(k, op.In[k])
	near := throughCodes(x, first)
	if k > 0 || !q.isWide(op) {
		return near
	}
	sum, exact := ir.Data[float32](near), ir.Data[float32](x)
	rest := make([]float32, len(sum))
	for i := range rest {
		rest[i] = exact[i] - sum[i]
	}
	for i, r := range ir.Data[float32](throughCodes(ir.NewTensor(ir.F32, x.Shape, rest), restType)) {
		sum[i] += r
	}
	return near
}

// exactValues finds the values of a graph with quantize/dequantize pairs that a
// product takes in two parts, and those they are computed from since the last
// products: they are in float32 for the sake of the second part, so the first is
// made from that too and nothing is computed twice.
func exactValues(g *ir.Graph) []bool {
	p := newPrecision(g)
	for i := range g.Ops {
		op := &g.Ops[i]
		if op.Kind != ir.Sub {
			continue
		}
		if dq := producer(g, op.In[1], ir.Dequantize); dq != nil {
			if q := producer(g, dq.In[0], ir.Quantize); q != nil && q.In[0] == op.In[0] {
				p.keep(g, op.In[0])
			}
		}
	}
	return p.float
}
