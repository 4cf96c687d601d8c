package onnx

import (
	"slices"

	"situ/ir"
)

func negativeLogLikelihoodLoss(c *call) { c.set(c.logLikelihood(c.id(0))) }

// softmaxCrossEntropyLoss is the negative log likelihood of softmax.
func softmaxCrossEntropyLoss(c *call) {
	p := c.add(ir.LogSoftmax, &ir.AxisAttr{Axis: 1}, c.id(0))
	c.set(c.logLikelihood(p))
	c.setN(1, p)
}

// logLikelihood is −p[n, target[n, …], …] · weight[target[n, …]], reduced. p is
// [N, C, …], operand 1 the targets [N, …], operand 2 the weights [C], if any.
// Targets that are the attribute ignore_index count nothing; the mean is over
// the weights.
func (c *call) logLikelihood(p ir.ValueID) ir.ValueID {
	reduction := c.str("reduction", "mean")
	s := c.typ(p).Shape
	target := c.castID(c.indexOperand(1), ir.I64)
	ts := c.typ(target).Shape
	if c.err == nil && (len(s) < 2 || !slices.Equal(ts, slices.Delete(slices.Clone(s), 1, 2))) {
		c.failf("targets of shape %v for scores of shape %v", ts, s)
	}
	if c.err != nil {
		return p
	}
	d := c.typ(p).DType
	ignored := ir.NoValue
	if a := slices.IndexFunc(c.proto.Attribute, func(a attribute) bool { return a.Name == "ignore_index" }); a >= 0 {
		ignore := c.ids(nil, []int64{c.int("ignore_index", 0)})
		ignored = c.add(ir.Equals, nil, target, ignore)
		target = c.where(ignored, c.ids(nil, []int64{0}), target)
	}
	at := c.reshape(target, slices.Insert(slices.Clone(ts), 1, 1)...)
	loss := c.reshape(c.add(ir.GatherElements, &ir.AxisAttr{Axis: 1}, p, at), ts...)
	loss = c.add(ir.Neg, nil, loss)
	weight := ir.NoValue
	if c.operand(2) != nil {
		weight = c.add(ir.Gather, &ir.AxisAttr{Axis: 0}, c.id(2), target)
	}
	if ignored != ir.NoValue {
		w := weight
		if w == ir.NoValue {
			w = c.scalar(d, 1)
		}
		weight = c.where(ignored, c.scalar(d, 0), w)
		// What is ignored may be infinite, which no weight of 0 would undo.
		loss = c.where(ignored, c.scalar(d, 0), loss)
	}
	if weight != ir.NoValue {
		loss = c.add(ir.Mul, nil, loss, weight)
	}
	all := &ir.ReduceAttr{}
	for i := range ts {
		all.Axes = append(all.Axes, i)
	}
	switch reduction {
	case "none":
		return loss
	case "sum":
		return c.add(ir.ReduceSum, all, loss)
	case "mean":
		if weight == ir.NoValue {
			return c.add(ir.ReduceMean, all, loss)
		}
		return c.add(ir.Div, nil, c.add(ir.ReduceSum, all, loss), c.add(ir.ReduceSum, all, weight))
	}
	c.failf("reduction %q", reduction)
	return loss
}
