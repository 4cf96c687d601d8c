package ir

import (
	"errors"
	"fmt"
	"slices"
)

// A plainRule checks the element types of an operator that has no fixed-point
// form and whose element types are not all the same. Operands and result are
// known to be without quantisation.
type plainRule func(in []Type, t Type) error

// plainRules holds the operators whose element types do not follow the common
// rule, which is that all are the same kind of number.
var plainRules = map[OpKind]plainRule{
	BitAnd:          bitRule,
	BitOr:           bitRule,
	BitXor:          bitRule,
	ShiftLeft:       shiftRule,
	ShiftRight:      shiftRule,
	Equals:          compareRule,
	Less:            orderRule,
	LessEqual:       orderRule,
	Where:           whereRule,
	TopK:            topKRule,
	GatherElements:  indexRule,
	ScatterElements: scatterRule,
	BitCast:         bitCastRule,
}

// resultDType is the element type that a plain rule wants of the result.
func resultDType(k OpKind, in []Type) DType {
	switch k {
	case Equals, Less, LessEqual:
		return Bool
	case Where:
		return in[1].DType
	case TopK:
		return I64
	}
	return in[0].DType
}

func checkPlain(op *Op, in []Type, t Type, rule plainRule) error {
	if op.Kind == Where && in[1].Quant != nil {
		return checkChoice(in, t)
	}
	for _, u := range in {
		if u.Quant != nil {
			return errors.New("has no fixed-point form: dequantize its operands, or reinterpret them as plain integers")
		}
	}
	if t.Quant != nil {
		return fmt.Errorf("result is %s, want a plain type", describe(t))
	}
	if want := resultDType(op.Kind, in); op.Kind != BitCast && t.DType != want {
		return fmt.Errorf("result is %s, want %s", t.DType, want)
	}
	return rule(in, t)
}

// checkChoice checks a where that chooses among codes.
func checkChoice(in []Type, t Type) error {
	for i, u := range []Type{in[2], t} {
		if u.DType != in[1].DType || !u.Quant.Equal(in[1].Quant) {
			return fmt.Errorf("%s is %s of other scales than operand 1, %s", []string{"operand 2", "result"}[i], describe(u), describe(in[1]))
		}
	}
	if !in[1].Quant.IsPerTensor() {
		return errors.New("chooses among codes with a single scale only")
	}
	return whereRule(in, t)
}

// sameTypes requires operands of one element type.
func sameTypes(in []Type) error {
	for i, u := range in[1:] {
		if u.DType != in[0].DType {
			return fmt.Errorf("operand %d is %s, operand 0 is %s", i+1, u.DType, in[0].DType)
		}
	}
	return nil
}

func bitRule(in []Type, _ Type) error {
	if d := in[0].DType; !d.IsInt() && d != Bool {
		return fmt.Errorf("takes integers or bools, got %s", d)
	}
	return sameTypes(in)
}

func shiftRule(in []Type, _ Type) error {
	if d := in[0].DType; d != U8 && d != U16 && d != U32 && d != U64 {
		return fmt.Errorf("takes unsigned integers, got %s", d)
	}
	return sameTypes(in)
}

func compareRule(in []Type, _ Type) error { return sameTypes(in) }

func orderRule(in []Type, _ Type) error {
	if in[0].DType == Bool {
		return errors.New("compares numbers, got bool")
	}
	return sameTypes(in)
}

func whereRule(in []Type, _ Type) error {
	if in[0].DType != Bool {
		return fmt.Errorf("cond is %s, want bool", in[0].DType)
	}
	if in[2].DType != in[1].DType {
		return fmt.Errorf("operand 2 is %s, operand 1 is %s", in[2].DType, in[1].DType)
	}
	return nil
}

func topKRule(in []Type, _ Type) error {
	if in[0].DType == Bool {
		return errors.New("compares numbers, got bool")
	}
	return nil
}

func indexRule(in []Type, _ Type) error {
	if d := in[1].DType; d != I32 && d != I64 {
		return fmt.Errorf("indices are %s, want i32 or i64", d)
	}
	return nil
}

func scatterRule(in []Type, t Type) error {
	if in[2].DType != in[0].DType {
		return fmt.Errorf("updates are %s, x is %s", in[2].DType, in[0].DType)
	}
	return indexRule(in, t)
}

func bitCastRule(in []Type, t Type) error {
	x := in[0].DType
	if x == Bool || t.DType == Bool || x.Bits() < 8 || x.Bits() != t.DType.Bits() {
		return fmt.Errorf("takes and gives numbers of the same number of bits, at least 8, not %s and %s", x, t.DType)
	}
	return nil
}

// ---- Shapes.

func topKShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*TopKAttr)
	if err := axisIn(a.Axis, in[0]); err != nil {
		return nil, err
	}
	n := in[0].Shape[a.Axis]
	if a.K < 0 || a.K > n {
		return nil, fmt.Errorf("k is %d, dimension %d has %d elements", a.K, a.Axis, n)
	}
	out := slices.Clone(in[0].Shape)
	out[a.Axis] = a.K
	return out, nil
}

func detShape(_ *Op, in []Type) ([]int, error) {
	s := in[0].Shape
	n := len(s)
	if n < 2 || s[n-1] != s[n-2] {
		return nil, fmt.Errorf("x has shape %v, want square matrices", s)
	}
	return s[: n-2 : n-2], nil
}

func whereShape(_ *Op, in []Type) ([]int, error) {
	s, err := broadcast(in[1].Shape, in[2].Shape)
	if err != nil {
		return nil, err
	}
	return broadcast(in[0].Shape, s)
}

// elementsShape checks indices against x: the same rank, and no longer than x in
// any dimension but axis.
func elementsShape(axis int, x, indices Type) error {
	if err := axisIn(axis, x); err != nil {
		return err
	}
	fits := len(indices.Shape) == len(x.Shape)
	for d := 0; fits && d < len(x.Shape); d++ {
		fits = d == axis || indices.Shape[d] <= x.Shape[d]
	}
	if !fits {
		return fmt.Errorf("indices of shape %v do not fit x of shape %v along axis %d", indices.Shape, x.Shape, axis)
	}
	return nil
}

func gatherElementsShape(op *Op, in []Type) ([]int, error) {
	return in[1].Shape, elementsShape(op.Attr.(*AxisAttr).Axis, in[0], in[1])
}

func scatterElementsShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*ScatterAttr)
	if a.Mode > ScatterMax {
		return nil, fmt.Errorf("mode %d does not exist", a.Mode)
	}
	if !slices.Equal(in[1].Shape, in[2].Shape) {
		return nil, fmt.Errorf("indices have shape %v, updates %v", in[1].Shape, in[2].Shape)
	}
	return in[0].Shape, elementsShape(a.Axis, in[0], in[1])
}

func sampleShape(op *Op, in []Type) ([]int, error) {
	a, x, at := op.Attr.(*SampleAttr), in[0].Shape, in[1].Shape
	if int(a.Mode) >= len(sampleModeNames) || int(a.Edge) >= len(sampleEdgeNames) {
		return nil, fmt.Errorf("mode %s and edge %s do not both exist", a.Mode, a.Edge)
	}
	n := len(x) - 2
	if n < 1 || n > maxSampled || len(at) < 2 || at[0] != x[0] || at[len(at)-1] != n {
		return nil, fmt.Errorf("operands have shapes %v and %v, want [N,spatial…,C] of 1 to %d spatial dimensions, and [N,…,n] for n of them", x, at, maxSampled)
	}
	if slices.Contains(x[1:len(x)-1], 0) {
		return nil, fmt.Errorf("x of shape %v has nothing to sample", x)
	}
	return append(slices.Clone(at[:len(at)-1]), x[len(x)-1]), nil
}

// maxSampled bounds the spatial dimensions of Sample, as an element takes up to 4
// along each.
const maxSampled = 4
