package ir

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Limits on types. They keep products of dimensions far from overflow and turn
// absurd models into errors before anything is allocated.
const (
	MaxElems = 1 << 40 // elements of one value
	MaxRank  = 16      // dimensions of one value
	maxStep  = 1 << 20 // strides, dilations, kernels and pads of windows
)

// A shapeRule computes a result shape. Attributes have been checked to be of
// the table's type, required operands to be there; in has an entry for each
// operand the table names, of element type Invalid when absent. The result may
// share operands' shapes, which are immutable, but not lists of attributes.
type shapeRule func(op *Op, in []Type) ([]int, error)

// InferType returns the result type of op, whose operands are values of g. It
// returns an error that names op when operands or attributes do not fit, or when
// the result type does not follow from them and has to be stated.
func InferType(g *Graph, op *Op) (Type, error) {
	in, shape, err := inferShape(g, op)
	if err != nil {
		return Type{}, opError(op, "%w", err)
	}
	if op.Kind.Is(Stated) {
		return Type{}, opError(op, "its result type does not follow from the operands: state it (Graph.AddTyped)")
	}
	t, err := inferNumbers(op, in, shape)
	if err != nil {
		return Type{}, opError(op, "%w", err)
	}
	return t, nil
}

// checkType reports whether t is an allowed result type for op.
func checkType(g *Graph, op *Op, t Type) error {
	if err := checkOp(g, op, t); err != nil {
		return opError(op, "%w", err)
	}
	return nil
}

// checkOp is checkType without the operator's name in its error.
func checkOp(g *Graph, op *Op, t Type) error {
	in, shape, err := inferShape(g, op)
	if err == nil {
		err = ValidType(t)
	}
	if err == nil && !slices.Equal(shape, t.Shape) {
		err = fmt.Errorf("result has shape %v, its operands give %v", t.Shape, shape)
	}
	if err == nil {
		err = checkNumbers(op, in, t)
	}
	return err
}

func inferShape(g *Graph, op *Op) ([]Type, []int, error) {
	if op.Kind == OpInvalid || op.Kind >= numOpKinds {
		return nil, nil, errors.New("no such operator")
	}
	if err := checkAttr(op); err != nil {
		return nil, nil, err
	}
	in, err := operandTypes(g, op)
	if err != nil {
		return nil, nil, err
	}
	shape, err := Info(op.Kind).shape(op, in)
	if err != nil {
		return nil, nil, err
	}
	if err := validShape(shape); err != nil {
		return nil, nil, fmt.Errorf("result %w", err)
	}
	return in, shape, nil
}

// checkAttr compares the Go type of op's attributes with the table.
func checkAttr(op *Op) error {
	want, got := reflect.TypeOf(Info(op.Kind).Attr), reflect.TypeOf(op.Attr)
	switch {
	case want == got && (got == nil || !reflect.ValueOf(op.Attr).IsNil()):
		return nil
	case want == nil:
		return fmt.Errorf("takes no attributes, got %v", got)
	case got == nil || want == got:
		return fmt.Errorf("needs attributes of type %v", want)
	}
	return fmt.Errorf("attributes are of type %v, want %v", got, want)
}

// operandTypes checks arity and the operands' types.
func operandTypes(g *Graph, op *Op) ([]Type, error) {
	info := Info(op.Kind)
	lo, hi := info.MinIn(), info.MaxIn()
	if n := len(op.In); n < lo || hi >= 0 && n > hi {
		return nil, fmt.Errorf("takes %s, got %d", arity(lo, hi), n)
	}
	in := make([]Type, max(len(op.In), hi))
	for i, id := range op.In {
		if id == NoValue && i >= lo && hi >= 0 {
			continue
		}
		if id == NoValue {
			return nil, fmt.Errorf("operand %d is missing", i)
		}
		if id < 0 || int(id) >= len(g.Values) {
			return nil, fmt.Errorf("operand %d is no value of the graph (%s)", i, id)
		}
		in[i] = g.Values[id].Type
		if err := ValidType(in[i]); err != nil {
			return nil, fmt.Errorf("operand %d: %w", i, err)
		}
		if windowed(op.Kind) && in[i].Numel() == 0 {
			return nil, fmt.Errorf("operand %d of shape %v is empty", i, in[i].Shape)
		}
	}
	return in, nil
}

// windowed reports whether k slides windows over its operand, which then must
// not be empty.
func windowed(k OpKind) bool { return k == Conv2D || k == MaxPool || k == AvgPool || k == LRN }

func arity(lo, hi int) string {
	switch {
	case hi < 0:
		return fmt.Sprintf("%d or more operands", lo)
	case lo == hi && lo == 1:
		return "1 operand"
	case lo == hi:
		return fmt.Sprintf("%d operands", lo)
	}
	return fmt.Sprintf("%d to %d operands", lo, hi)
}

// validShape checks rank, dimensions (at least 0) and number of elements.
func validShape(shape []int) error {
	if len(shape) > MaxRank {
		return fmt.Errorf("shape has %d dimensions, at most %d are supported", len(shape), MaxRank)
	}
	n := 1
	for _, d := range shape {
		if d < 0 {
			return fmt.Errorf("shape %v has a negative dimension", shape)
		}
		// Dimensions of 0 count as 1, so that no product of others overflows.
		if d > MaxElems/n {
			return fmt.Errorf("shape %v has more than 2^40 elements", shape)
		}
		n *= max(d, 1)
	}
	return nil
}

// broadcast returns the NumPy broadcast of two shapes.
func broadcast(a, b []int) ([]int, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	tail := out[len(a)-len(b):]
	for i, d := range b {
		switch {
		case tail[i] == d || d == 1:
		case tail[i] == 1:
			tail[i] = d
		default:
			return nil, fmt.Errorf("shapes %v and %v do not broadcast", a, b)
		}
	}
	return out, nil
}

func needRank(what string, t Type, rank int) error {
	if len(t.Shape) != rank {
		return fmt.Errorf("%s has shape %v, want %d dimensions", what, t.Shape, rank)
	}
	return nil
}

func axisIn(axis int, t Type) error {
	if axis < 0 || axis >= len(t.Shape) {
		return fmt.Errorf("axis %d is outside shape %v", axis, t.Shape)
	}
	return nil
}

func sameShape(_ *Op, in []Type) ([]int, error) { return in[0].Shape, nil }
