package onnx

import (
	"fmt"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// bitNames are the operators on bits: their names on bools and on integers.
var bitNames = map[ir.OpKind][2]string{
	ir.BitAnd: {"And", "BitwiseAnd"}, ir.BitOr: {"Or", "BitwiseOr"}, ir.BitXor: {"Xor", "BitwiseXor"},
}

// bits writes operators on bits; ok is false for other kinds.
func (e *exporter) bits(op *ir.Op, out string, in []string) (ok bool) {
	switch op.Kind {
	case ir.BitAnd, ir.BitOr, ir.BitXor:
		names := bitNames[op.Kind]
		if e.g.Type(op.Out).DType == ir.Bool {
			e.node(names[0], out, in)
		} else {
			e.node(names[1], out, in)
		}
	case ir.ShiftLeft:
		e.node("BitShift", out, in, attrString("direction", "LEFT"))
	case ir.ShiftRight:
		e.node("BitShift", out, in, attrString("direction", "RIGHT"))
	default:
		return false
	}
	return true
}

func (e *exporter) mod(op *ir.Op, a *ir.ModAttr, out string, in []string) error {
	fmod := 0
	if a.Truncated {
		fmod = 1
	} else if e.g.Type(op.Out).DType.IsFloat() {
		return fmt.Errorf("of floats with the divisor's sign has no ONNX form")
	}
	e.node("Mod", out, in, attrInt("fmod", fmod))
	return nil
}

// topK wants the second result of the ONNX form.
func (e *exporter) topK(a *ir.TopKAttr, out string, in []string) {
	largest := 1
	if a.Smallest {
		largest = 0
	}
	e.out.Node = append(e.out.Node, &onnxpb.NodeProto{
		OpType: "TopK", Input: append(in, e.ints([]int{a.K})), Output: []string{e.unique("values"), out},
		Attribute: []*onnxpb.AttributeProto{attrInt("axis", a.Axis), attrInt("largest", largest)}})
}

func (e *exporter) scatter(a *ir.ScatterAttr, out string, in []string) {
	reduction := "none"
	if a.Mode != ir.ScatterSet {
		reduction = a.Mode.String()
	}
	e.node("ScatterElements", out, in, attrInt("axis", a.Axis), attrString("reduction", reduction))
}

// norm writes a layer normalisation; one by the mean of squares has no operator
// of its own in the opsets that are written.
func (e *exporter) norm(op *ir.Op, a *ir.NormAttr, in []string, out string) {
	s := e.g.Type(op.In[0]).Shape
	n := s[len(s)-1]
	in = append(in, "", "")[:3]
	if !a.RMS {
		if in[1] == "" {
			in[1] = e.tensor(ir.NewTensor(ir.F32, []int{n}, slices.Repeat([]float32{1}, n)))
		}
		if in[2] == "" {
			in = in[:2]
		}
		e.node("LayerNormalization", out, in, attrInt("axis", -1), attrFloat("epsilon", a.Epsilon))
		return
	}
	square := e.node("ReduceMean", "", []string{e.node("Mul", "", []string{in[0], in[0]}), e.ints([]int{len(s) - 1})}, attrInt("keepdims", 1))
	sum := e.node("Add", "", []string{square, e.tensor(ir.NewTensor(ir.F32, nil, []float32{a.Epsilon}))})
	last, names := "Div", []string{in[0], e.node("Sqrt", "", []string{sum})}
	for i, kind := range []string{"Mul", "Add"} {
		if in[1+i] != "" {
			names = []string{e.node(last, "", names), in[1+i]}
			last = kind
		}
	}
	e.node(last, out, names)
}
