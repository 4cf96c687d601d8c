package ir

import (
	"errors"
	"fmt"
	"reflect"
)

// Verify checks everything that a stage may rely on and reports all violations,
// joined, one line each, with the operator and the values concerned:
//
//   - each value is defined once, as an input, a constant or a result, and its
//     back reference agrees;
//   - operators stand in topological order;
//   - operand counts, attributes and result types follow the operator table,
//     fixed-point rules included;
//   - types are well formed (see ValidType) and constants match theirs;
//   - there are outputs, and they are defined.
func Verify(g *Graph) error {
	v := verifier{g: g, defined: make([]bool, len(g.Values))}
	v.inputs()
	v.constants()
	for i := range g.Ops {
		v.op(i)
	}
	v.outputs()
	for id := range g.Values {
		if !v.defined[id] {
			v.fail("%s %q: is not an input, a constant or the result of an operator", ValueID(id), g.Values[id].Name)
		}
	}
	return errors.Join(v.errs...)
}

type verifier struct {
	g       *Graph
	defined []bool // values defined so far
	errs    []error
}

func (v *verifier) fail(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *verifier) exists(id ValueID) bool { return id >= 0 && int(id) < len(v.defined) }

func (v *verifier) inputs() {
	for _, id := range v.g.Inputs {
		if !v.exists(id) {
			v.fail("input %s: is no value of the graph", id)
			continue
		}
		x := v.g.Value(id)
		switch {
		case v.defined[id]:
			v.fail("input %s %q: is listed twice", id, x.Name)
		case x.Const != nil:
			v.fail("input %s %q: is a constant, too", id, x.Name)
		case x.Def != -1:
			v.fail("input %s %q: says that operator %d defines it", id, x.Name, x.Def)
		}
		v.defined[id] = true
		if err := ValidType(x.Type); err != nil {
			v.fail("input %s %q: %w", id, x.Name, err)
		}
	}
}

func (v *verifier) constants() {
	for id := range v.g.Values {
		x := &v.g.Values[id]
		if x.Const == nil {
			continue
		}
		v.defined[id] = true
		if x.Def != -1 {
			v.fail("const %s %q: says that operator %d defines it", ValueID(id), x.Name, x.Def)
		}
		if err := checkConst(x); err != nil {
			v.fail("const %s %q: %w", ValueID(id), x.Name, err)
		}
	}
}

func checkConst(x *Value) error {
	if err := ValidType(x.Type); err != nil {
		return err
	}
	c := x.Const
	if t := x.Type.WithQuant(nil); !c.Type().Equal(t) {
		return fmt.Errorf("its tensor is %s, its type is %s", c.Type(), t)
	}
	if c.described {
		return nil
	}
	if want := reflect.TypeOf(zeroData(c.DType, 0)); reflect.TypeOf(c.data) != want {
		return fmt.Errorf("its tensor holds %T, %s is held as %v", c.data, c.DType, want)
	}
	if n := reflect.ValueOf(c.data).Len(); n != c.Numel() {
		return fmt.Errorf("its tensor holds %d elements, its shape has %d", n, c.Numel())
	}
	switch c.DType {
	case I4:
		return eachIn(Data[int8](c), -8, 7)
	case U4:
		return eachIn(Data[uint8](c), 0, 15)
	case Bool:
		return eachIn(Data[uint8](c), 0, 1)
	}
	return nil
}

func eachIn[T int8 | uint8 | int32 | int64](s []T, lo, hi int64) error {
	for i, v := range s {
		if int64(v) < lo || int64(v) > hi {
			return fmt.Errorf("element %d is %d, outside %d to %d", i, v, lo, hi)
		}
	}
	return nil
}

func (v *verifier) op(i int) {
	op := &v.g.Ops[i]
	fail := func(format string, args ...any) {
		v.fail("%s = %s %q (%s): %w", op.Out, op.Kind, op.Name, idList(op.In), fmt.Errorf(format, args...))
	}
	known := true
	for n, id := range op.In {
		switch {
		case id == NoValue:
		case !v.exists(id):
			known = false
			fail("operand %d, %s, is no value of the graph", n, id)
		case !v.defined[id]:
			fail("operand %d, %s, is not defined before it", n, id)
		}
	}
	if !v.exists(op.Out) {
		fail("result %s is no value of the graph", op.Out)
		return
	}
	out := v.g.Value(op.Out)
	if v.defined[op.Out] {
		fail("result %s is defined already", op.Out)
	}
	v.defined[op.Out] = true
	if out.Def != int32(i) {
		fail("is operator %d, but its result says that operator %d defines it", i, out.Def)
	}
	if !known {
		return
	}
	if err := checkOp(v.g, op, out.Type); err != nil {
		fail("%w", err)
		return
	}
	if err := v.operandValues(op); err != nil {
		fail("%w", err)
	}
}

// operandValues checks what rules say about the elements of constants.
func (v *verifier) operandValues(op *Op) error {
	switch op.Kind {
	case LUT:
		if !v.g.IsConst(op.In[1]) {
			return fmt.Errorf("table %s must be a constant", op.In[1])
		}
	case Gather:
		if c := v.g.Value(op.In[1]).Const; c != nil {
			n := int64(v.g.Type(op.In[0]).Shape[op.Attr.(*AxisAttr).Axis])
			var err error
			switch s := c.data.(type) {
			case []int32:
				err = eachIn(s, 0, n-1)
			case []int64:
				err = eachIn(s, 0, n-1)
			}
			if err != nil {
				return fmt.Errorf("indices %s: %w", op.In[1], err)
			}
		}
	}
	return nil
}

func (v *verifier) outputs() {
	if len(v.g.Outputs) == 0 {
		v.fail("graph %q: has no outputs", v.g.Name)
	}
	for _, id := range v.g.Outputs {
		if !v.exists(id) {
			v.fail("output %s: is no value of the graph", id)
		} else if !v.defined[id] {
			v.fail("output %s %q: is not defined", id, v.g.Value(id).Name)
		}
	}
}
