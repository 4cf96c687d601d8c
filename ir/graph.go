package ir

import (
	"fmt"
	"slices"
)

// ValueID names a value of one graph; ids are dense, from 0.
type ValueID int32

// NoValue stands for an optional operand that is absent.
const NoValue ValueID = -1

// Value is defined once: by an operator, as a graph input, or as a constant.
type Value struct {
	Name  string  // name in the source model, may be empty
	Type  Type    //
	Const *Tensor // set for constants
	Def   int32   // index of the defining operator in Graph.Ops; −1 for inputs and constants
}

// Op is one operator application. Ops of a graph are in topological order.
type Op struct {
	Kind OpKind
	In   []ValueID // optional operands may be NoValue
	Out  ValueID
	Attr Attr   // the attribute struct of the kind (see the table), nil when it has none
	Name string // where it comes from in the source model
}

// Graph is a program in single-assignment form.
type Graph struct {
	Name    string
	Values  []Value
	Ops     []Op
	Inputs  []ValueID
	Outputs []ValueID
}

// Value returns the value with the given id.
func (g *Graph) Value(id ValueID) *Value { return &g.Values[id] }

// Type returns the type of a value.
func (g *Graph) Type(id ValueID) Type { return g.Values[id].Type }

// IsConst reports whether id is a constant.
func (g *Graph) IsConst(id ValueID) bool { return id >= 0 && g.Values[id].Const != nil }

// DefOp returns the operator that defines id, or nil for inputs and constants.
func (g *Graph) DefOp(id ValueID) *Op {
	if id < 0 || g.Values[id].Def < 0 {
		return nil
	}
	return &g.Ops[g.Values[id].Def]
}

// AddInput appends a graph input.
func (g *Graph) AddInput(name string, t Type) ValueID {
	id := g.newValue(Value{Name: name, Type: t, Def: -1})
	g.Inputs = append(g.Inputs, id)
	return id
}

// AddConst appends a constant. q may be nil.
func (g *Graph) AddConst(name string, t *Tensor, q *Quant) ValueID {
	return g.newValue(Value{Name: name, Type: t.Type().WithQuant(q), Const: t, Def: -1})
}

// Add appends an operator whose result type follows from its kind's type rule.
// It returns an error that names the operator when the operands do not fit.
func (g *Graph) Add(kind OpKind, name string, attr Attr, in ...ValueID) (ValueID, error) {
	op := newOp(kind, name, attr, in)
	t, err := InferType(g, &op)
	if err != nil {
		return NoValue, err
	}
	return g.append(op, t), nil
}

// AddTyped appends an operator with a stated result type, needed where the type
// carries information that the operands do not (quantisation, cast, quantise).
func (g *Graph) AddTyped(kind OpKind, name string, attr Attr, t Type, in ...ValueID) (ValueID, error) {
	op := newOp(kind, name, attr, in)
	if err := checkType(g, &op, t); err != nil {
		return NoValue, err
	}
	return g.append(op, t), nil
}

// newOp fills in the default attributes of operators that need none stated.
func newOp(kind OpKind, name string, attr Attr, in []ValueID) Op {
	if info := Info(kind); attr == nil && info.optAttr {
		attr = cloneAttr(info.Attr)
	}
	return Op{Kind: kind, In: slices.Clone(in), Attr: attr, Name: name}
}

func (g *Graph) append(op Op, t Type) ValueID {
	op.Out = g.newValue(Value{Name: op.Name, Type: t, Def: int32(len(g.Ops))})
	g.Ops = append(g.Ops, op)
	return op.Out
}

func (g *Graph) newValue(v Value) ValueID {
	g.Values = append(g.Values, v)
	return ValueID(len(g.Values) - 1)
}

// Uses counts, for every value, how many operands and graph outputs refer to it.
func (g *Graph) Uses() []int {
	n := make([]int, len(g.Values))
	for i := range g.Ops {
		for _, v := range g.Ops[i].In {
			if v >= 0 {
				n[v]++
			}
		}
	}
	for _, v := range g.Outputs {
		n[v]++
	}
	return n
}

// opError says which operator is at fault.
func opError(op *Op, format string, args ...any) error {
	return fmt.Errorf("%s %q: %w", op.Kind, op.Name, fmt.Errorf(format, args...))
}
