package onnx

import (
	"slices"

	"situ/ir"
)

// Images have their channels last in the IR and first in ONNX. The exporter
// keeps up to two names for an image, one for each order, and makes the second
// by a Transpose only when something asks for it. Between convolutions everything
// that can runs with the channels first, so that a chain of layers has no
// Transpose at all.

// Orders of dimensions between the IR's layout and ONNX's.
var (
	toChannelsFirst = []int{0, 3, 1, 2} // also OHWI to OIHW
	toChannelsLast  = []int{0, 2, 3, 1}
)

const imageRank = 4

// label is what a value without a name yet should be called.
func (e *exporter) label(id ir.ValueID) string {
	if v := e.g.Value(id); v.Name != "" {
		return v.Name
	}
	if op := e.g.DefOp(id); op != nil {
		return op.Name
	}
	return ""
}

// result returns the name under which an operator is to write its result.
func (e *exporter) result(id ir.ValueID, first bool) string {
	if first && len(e.g.Type(id).Shape) == imageRank {
		e.first[id] = e.unique(e.label(id))
		return e.first[id]
	}
	if e.names[id] == "" {
		e.names[id] = e.unique(e.label(id))
	}
	e.have[id] = true
	return e.names[id]
}

// name returns the name of a value in the IR's layout, writing what makes it when
// that was put off.
func (e *exporter) name(id ir.ValueID) string {
	if e.have[id] {
		return e.names[id]
	}
	out := e.result(id, false)
	switch op := e.g.DefOp(id); {
	case op == nil:
		e.out.Initializer = append(e.out.Initializer, EncodeTensor(out, e.g.Value(id).Const))
	case e.isConstant(op) && e.g.Type(op.In[0]).Quant.Block > 0:
		e.blocked(out, e.g.Value(op.In[0]))
	case e.isConstant(op):
		e.quantisation("DequantizeLinear", out, []string{e.name(op.In[0])}, e.g.Type(op.In[0]), func(d int) int { return d })
	default:
		e.node("Transpose", out, []string{e.first[id]}, attrInts("perm", toChannelsLast...))
	}
	return out
}

// channelsFirst returns the name of an image, or of weights, with the channels
// first.
func (e *exporter) channelsFirst(id ir.ValueID) string {
	if name := e.first[id]; name != "" {
		return name
	}
	op := e.g.DefOp(id)
	if c := e.g.Value(id).Const; c != nil {
		out := e.result(id, true)
		e.out.Initializer = append(e.out.Initializer, EncodeTensor(out, permute(c, toChannelsFirst, false)))
		return out
	}
	if op != nil && e.isConstant(op) && e.g.Type(op.In[0]).Quant.Block == 0 {
		codes := e.channelsFirst(op.In[0])
		out := e.result(id, true)
		e.quantisation("DequantizeLinear", out, []string{codes}, e.g.Type(op.In[0]), func(d int) int { return slices.Index(toChannelsFirst, d) })
		return out
	}
	last := e.name(id)
	return e.node("Transpose", e.result(id, true), []string{last}, attrInts("perm", toChannelsFirst...))
}

// isConstant reports whether an operator dequantizes a constant. It is written
// when it is known which layout is wanted.
func (e *exporter) isConstant(op *ir.Op) bool {
	return op.Kind == ir.Dequantize && e.g.IsConst(op.In[0])
}

// moved takes note of operators that bring an image into the other layout and
// change nothing else: both names exist, or can be made.
func (e *exporter) moved(op *ir.Op) bool {
	if len(op.In) == 0 || op.In[0] == ir.NoValue {
		return false
	}
	from, to := e.g.Type(op.In[0]).Shape, e.g.Type(op.Out).Shape
	if len(from) != imageRank || len(to) != imageRank {
		return false
	}
	isMove := func(perm []int) bool {
		switch a := op.Attr.(type) {
		case *ir.PermAttr:
			return slices.Equal(a.Perm, perm)
		case *ir.ShapeAttr:
			if op.Kind != ir.Reshape {
				return false
			}
			for i, d := range perm {
				if to[i] != from[d] {
					return false
				}
			}
			// The pixels, or the channels, are one: nothing changes place.
			first := from
			if slices.Equal(perm, toChannelsFirst) {
				first = to
			}
			return first[1] == 1 || first[2]*first[3] == 1
		}
		return false
	}
	switch {
	case isMove(toChannelsLast):
		e.first[op.Out] = e.name(op.In[0])
		return true
	case isMove(toChannelsFirst) && e.first[op.In[0]] != "" && !slices.Contains(e.g.Outputs, op.Out):
		e.names[op.Out], e.have[op.Out] = e.first[op.In[0]], true
		return true
	case isMove(toChannelsFirst) && e.first[op.In[0]] != "":
		e.node("Identity", e.result(op.Out, false), []string{e.first[op.In[0]]})
		return true
	}
	return false
}

// runsFirst reports whether an operator is to be written for operands with the
// channels first: those that ONNX defines so, and those that do not care when an
// operand has that form already.
func (e *exporter) runsFirst(op *ir.Op) bool {
	if op.Kind == ir.Conv2D || op.Kind == ir.MaxPool || op.Kind == ir.AvgPool {
		return true
	}
	if !slices.ContainsFunc(op.In, func(id ir.ValueID) bool { return id != ir.NoValue && e.first[id] != "" }) {
		return false
	}
	images := !slices.ContainsFunc(op.In, func(id ir.ValueID) bool {
		return id == ir.NoValue || len(e.g.Type(id).Shape) != imageRank && e.g.Type(id).Numel() != 1
	})
	switch a := op.Attr.(type) {
	case nil:
		return op.Kind == ir.Quantize || op.Kind == ir.Dequantize || op.Kind == ir.Cast ||
			op.Kind >= ir.Relu && op.Kind <= ir.Elu
	case *ir.AlphaBetaAttr, *ir.ClipAttr:
		return true
	case *ir.BinaryAttr, *ir.MulAddAttr:
		return images
	case *ir.AxisAttr:
		return images && op.Kind == ir.Concat
	case *ir.ReduceAttr:
		return images && (a.KeepDims || len(a.Axes) == 2 && a.Axes[0] == 1 && a.Axes[1] == 2)
	}
	return false
}
