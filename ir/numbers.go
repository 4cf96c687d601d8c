package ir

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// IsQuantised reports whether t is a type of integer codes that stand for real
// numbers.
func (t Type) IsQuantised() bool { return t.Quant != nil && t.DType.IsInt() }

// quantisable reports whether codes of element type d may carry a Quant.
func quantisable(d DType) bool { return d.IsInt() && d != U32 && d.Bits() <= 32 }

// isCode8 reports whether t holds quantised codes of 8 bits.
func isCode8(t Type) bool { return t.IsQuantised() && t.DType.Bits() == 8 }

// ValidType checks a type by itself: a known element type, a shape within
// MaxRank and MaxElems, dimensions of at least 0, and a well-formed Quant.
func ValidType(t Type) error {
	if t.DType == Invalid || t.DType >= numDTypes {
		return fmt.Errorf("%s is no element type", t.DType)
	}
	if err := validShape(t.Shape); err != nil {
		return err
	}
	q := t.Quant
	if q == nil {
		return nil
	}
	if !quantisable(t.DType) {
		return fmt.Errorf("%s cannot be quantised", t.DType)
	}
	n := 1
	if q.Axis < -1 || q.Axis >= len(t.Shape) {
		return fmt.Errorf("quantisation axis %d is outside shape %v", q.Axis, t.Shape)
	} else if q.Axis >= 0 {
		n = t.Shape[q.Axis]
	}
	if len(q.Scale) != n || len(q.Zero) != n {
		return fmt.Errorf("quantisation has %d scales and %d zero points, want %d of each", len(q.Scale), len(q.Zero), n)
	}
	lo, hi := t.DType.IntRange()
	for i, s := range q.Scale {
		if !(s > 0) || math.IsInf(float64(s), 0) {
			return fmt.Errorf("scale %v (index %d) is not a positive finite number", s, i)
		}
		if z := int64(q.Zero[i]); z < lo || z > hi {
			return fmt.Errorf("zero point %d (index %d) is outside %s", z, i, t.DType)
		}
	}
	return validBlocks(t)
}

// validBlocks checks the blocks of a quantisation.
func validBlocks(t Type) error {
	q := t.Quant
	switch {
	case q.Block == 0 && q.Shift == nil:
		return nil
	case q.Block < 1 || q.Axis < 0 || t.DType.Bits() > 8:
		return fmt.Errorf("blocks of %d codes of %s: blocks hold at least one code, of at most 8 bits, of a channel", q.Block, t.DType)
	}
	codes := 0
	if n := t.Shape[q.Axis]; n > 0 {
		codes = t.Numel() / n
	}
	if want := t.Shape[q.Axis] * q.BlocksOf(codes); len(q.Shift) != want {
		return fmt.Errorf("%d shifts for blocks of %d, want %d", len(q.Shift), q.Block, want)
	}
	for i, s := range q.Shift {
		if s > MaxShift {
			return fmt.Errorf("shift %d (block %d) is larger than %d", s, i, MaxShift)
		}
	}
	for i, z := range q.Zero {
		if z != 0 {
			return fmt.Errorf("zero point %d (index %d) of codes in blocks, want 0", z, i)
		}
	}
	return nil
}

// inferNumbers gives the element type and Quant of the result when they follow
// from the operands.
func inferNumbers(op *Op, in []Type, shape []int) (Type, error) {
	t := TypeOf(in[0].DType, shape...)
	switch {
	case op.Kind == Dequantize:
		t.DType = F32
	case plainRules[op.Kind] != nil:
		t.DType = resultDType(op.Kind, in)
		if op.Kind == Where {
			t.Quant = in[1].Quant
		}
	case op.Kind.Is(MovesCodes):
		q, err := movedQuant(op, in, shape)
		if err != nil {
			return Type{}, err
		}
		t.Quant = q
	case slices.ContainsFunc(in, Type.IsQuantised) && op.Kind.Is(FixedPoint):
		return Type{}, errors.New("its operands are quantised: state the result type (Graph.AddTyped)")
	}
	return t, checkNumbers(op, in, t)
}

// checkNumbers checks element types and quantisation of operands and result,
// whose shapes are already known to fit.
func checkNumbers(op *Op, in []Type, t Type) error {
	if rule := plainRules[op.Kind]; rule != nil {
		return checkPlain(op, in, t, rule)
	}
	switch op.Kind {
	case Cast:
		if in[0].Quant != nil || t.Quant != nil {
			return errors.New("converts plain numbers only: use quantize, dequantize or requantize for quantised ones")
		}
		return nil
	case Quantize:
		if in[0].DType != F32 || !t.IsQuantised() {
			return fmt.Errorf("turns f32 into a quantised type, not %s into %s", in[0].DType, describe(t))
		}
		return nil
	case Dequantize:
		if !in[0].IsQuantised() || t.DType != F32 {
			return fmt.Errorf("turns a quantised type into f32, not %s into %s", describe(in[0]), describe(t))
		}
		return nil
	case Requantize:
		if !in[0].IsQuantised() || !t.IsQuantised() || t.DType.Bits() > 16 || !t.Quant.IsPerTensor() {
			return fmt.Errorf("turns a quantised type into one of at most 16 bits with a single scale, not %s into %s",
				describe(in[0]), describe(t))
		}
		return nil
	case Reinterpret:
		if in[0].DType != t.DType {
			return fmt.Errorf("keeps the codes: result %s, operand %s", t.DType, in[0].DType)
		}
		return nil
	case LUT:
		switch {
		case in[0].DType != I8 && in[0].DType != U8:
			return fmt.Errorf("x is %s, want i8 or u8", in[0].DType)
		case in[1].DType != t.DType:
			return fmt.Errorf("table holds %s, result is %s", in[1].DType, t.DType)
		case !isCode8(t):
			return fmt.Errorf("result is %s, want quantised i8 or u8", describe(t))
		}
		return nil
	}
	switch {
	case op.Kind.Is(MovesCodes):
		return checkMoved(op, in, t)
	case slices.ContainsFunc(in, Type.IsQuantised):
		return checkQuantised(op, in, t)
	}
	for i, u := range in[1:] {
		if u.DType != Invalid && u.DType != in[0].DType {
			return fmt.Errorf("operand %d is %s, operand 0 is %s", i+1, u.DType, in[0].DType)
		}
	}
	switch d := in[0].DType; {
	case d.IsFloat():
	case op.Kind.Is(FloatOnly), op.Kind == Softmax, op.Kind == LayerNorm:
		return fmt.Errorf("takes floating-point operands, got %s", d)
	case op.Kind.Is(Product):
		return fmt.Errorf("takes floating-point or quantised operands, got %s without quantisation (reinterpret gives it one)", d)
	case d == Bool:
		return errors.New("takes numbers, got bool")
	}
	if t.DType != in[0].DType || t.Quant != nil {
		return fmt.Errorf("result is %s, want plain %s", describe(t), in[0].DType)
	}
	return nil
}

// describe names element type and quantisation of t.
func describe(t Type) string {
	switch {
	case t.Quant == nil:
		return "plain " + t.DType.String()
	case t.Quant.IsPerTensor():
		return "quantised " + t.DType.String()
	}
	return "per-axis quantised " + t.DType.String()
}

// checkQuantised checks operators that compute on codes.
func checkQuantised(op *Op, in []Type, t Type) error {
	if !op.Kind.Is(FixedPoint) {
		return errors.New("has no fixed-point form: dequantize its operands, or use lut")
	}
	if op.Kind.Is(Product) {
		return checkProduct(op, in, t)
	}
	coded := in
	if op.Kind == LayerNorm {
		coded = in[:1]
		for i, u := range in[1:] {
			if u.DType != Invalid && u.DType != F32 {
				return fmt.Errorf("operand %d is %s, want f32", i+1, describe(u))
			}
		}
	}
	for i, u := range append(slices.Clone(coded), t) {
		what := fmt.Sprintf("operand %d", i)
		if i == len(coded) {
			what = "result"
		}
		if !isCode8(u) || !u.Quant.IsPerTensor() {
			return fmt.Errorf("%s is %s, want quantised i8 or u8 with a single scale", what, describe(u))
		}
	}
	if op.Kind == Softmax && op.Attr.(*AxisAttr).Axis != len(t.Shape)-1 {
		return errors.New("in fixed point runs along the last axis only: transpose around it")
	}
	return nil
}

// scaleTolerance is the relative difference allowed between a stated scale of
// accumulators and the product of its factors, both rounded to float32.
const scaleTolerance = 1e-4

// checkProduct checks conv2d and matmul on codes: result and bias are int32 of
// scale sx·sw[c], or the result is requantised to 8 bits with a single scale.
func checkProduct(op *Op, in []Type, t Type) error {
	x, w, bias := in[0], in[1], in[2]
	channel, what := 0, "axis 0"
	if op.Kind == MatMul {
		channel, what = len(w.Shape)-1, "its last axis"
	}
	switch {
	case !x.IsQuantised() || x.DType.Bits() > 8 || !x.Quant.IsPerTensor():
		return fmt.Errorf("operand 0 is %s, want quantised with at most 8 bits and a single scale", describe(x))
	case !w.IsQuantised() || w.DType.Bits() > 8:
		return fmt.Errorf("operand 1 is %s, want quantised with at most 8 bits", describe(w))
	case !w.Quant.IsPerTensor() && w.Quant.Axis != channel:
		return fmt.Errorf("operand 1 is quantised along axis %d, want a single scale or %s", w.Quant.Axis, what)
	}
	if bias.DType != Invalid {
		if bias.DType != I32 {
			return fmt.Errorf("bias is %s, want i32", bias.DType)
		}
		if err := accumulatorQuant("bias", bias, 0, x, w); err != nil {
			return err
		}
	}
	switch {
	case t.DType == I32:
		if a := productAct(op.Attr); a != nil {
			return errors.New("an i32 result takes no activation")
		}
		return accumulatorQuant("result", t, len(t.Shape)-1, x, w)
	case isCode8(t) && t.Quant.IsPerTensor():
		return nil
	}
	return fmt.Errorf("result is %s, want i32, or quantised i8 or u8 with a single scale", describe(t))
}

func productAct(a Attr) *Act {
	switch a := a.(type) {
	case *ConvAttr:
		return a.Act
	case *MatMulAttr:
		return a.Act
	}
	return nil
}

// accumulatorQuant checks that t, when it says how its int32 sums are scaled,
// says what the factors imply. axis is t's channel axis.
func accumulatorQuant(what string, t Type, axis int, x, w Type) error {
	q := t.Quant
	if q == nil {
		return nil
	}
	if !q.IsPerTensor() && q.Axis != axis {
		return fmt.Errorf("%s is quantised along axis %d, want %d", what, q.Axis, axis)
	}
	for c := range max(len(q.Scale), len(w.Quant.Scale)) {
		want := float64(x.Quant.Scale[0]) * float64(at(w.Quant.Scale, c))
		if got := float64(at(q.Scale, c)); math.Abs(got-want) > scaleTolerance*want {
			return fmt.Errorf("%s has scale %g for channel %d, its factors give %g", what, got, c, want)
		}
		if at(q.Zero, c) != 0 {
			return fmt.Errorf("%s has a zero point that is not 0", what)
		}
	}
	return nil
}

// at indexes a list that is either per channel or a single entry for all.
func at[T any](s []T, c int) T {
	if len(s) == 1 {
		return s[0]
	}
	return s[c]
}

// checkMoved checks operators that move codes: the result has the operand's
// element type and quantisation.
func checkMoved(op *Op, in []Type, t Type) error {
	if op.Kind == Gather {
		if d := in[1]; d.DType != I32 && d.DType != I64 || d.Quant != nil {
			return fmt.Errorf("indices are %s, want plain i32 or i64", describe(d))
		}
	}
	if k := op.Kind; in[0].DType == Bool && (k == MaxPool || k == ReduceMax || k == ReduceMin) {
		return errors.New("compares numbers, got bool")
	}
	q, err := movedQuant(op, in, t.Shape)
	if err != nil {
		return err
	}
	if t.DType != in[0].DType {
		return fmt.Errorf("moves %s, result is %s", in[0].DType, t.DType)
	}
	if !t.Quant.Equal(q) {
		return fmt.Errorf("moves codes unchanged, so the quantisation of operand and result must be the same (%s and %s)",
			briefQuant(q), briefQuant(t.Quant))
	}
	return nil
}

// briefQuant is a Quant for messages: lists of scales are not spelt out.
func briefQuant(q *Quant) string {
	switch {
	case q == nil:
		return "none"
	case len(q.Scale) > 4:
		return fmt.Sprintf("%d scales along axis %d", len(q.Scale), q.Axis)
	}
	return q.String()
}

// movedQuant returns what the quantisation of operand 0 becomes when its codes
// are moved.
func movedQuant(op *Op, in []Type, shape []int) (*Quant, error) {
	x := in[0]
	q := x.Quant
	if op.Kind == Concat {
		for i, u := range in[1:] {
			if u.DType != x.DType || !u.Quant.Equal(q) {
				return nil, fmt.Errorf("operand %d and operand 0 differ in element type or quantisation", i+1)
			}
		}
	}
	if q == nil || q.IsPerTensor() {
		return q, nil
	}
	if q.Block > 0 {
		return movedBlocks(op, x, shape)
	}
	axis := q.Axis
	lost := fmt.Errorf("the operand's quantisation along axis %d does not survive", axis)
	along := func(a int) *Quant {
		if a == q.Axis {
			return q
		}
		return &Quant{Scale: q.Scale, Zero: q.Zero, Axis: a}
	}
	switch op.Kind {
	case Transpose:
		return along(slices.Index(op.Attr.(*PermAttr).Perm, axis)), nil
	case Reshape:
		if a := survives(x.Shape, axis, shape); a >= 0 {
			return along(a), nil
		}
		return nil, lost
	case Expand:
		a := axis + len(shape) - len(x.Shape)
		if shape[a] != x.Shape[axis] {
			return nil, lost
		}
		return along(a), nil
	case Slice:
		a := op.Attr.(*SliceAttr)
		if a.Starts[axis] == 0 && a.Steps[axis] == 1 && a.Sizes[axis] == x.Shape[axis] {
			return q, nil
		}
		s := &Quant{Axis: axis}
		for i := range a.Sizes[axis] {
			j := a.Starts[axis] + i*a.Steps[axis]
			s.Scale, s.Zero = append(s.Scale, q.Scale[j]), append(s.Zero, q.Zero[j])
		}
		return s, nil
	case Gather:
		switch a := op.Attr.(*AxisAttr).Axis; {
		case axis == a:
			return nil, lost
		case axis > a:
			return along(axis + len(in[1].Shape) - 1), nil
		}
		return q, nil
	case ReduceMax, ReduceMin:
		a, shift := op.Attr.(*ReduceAttr), 0
		for _, r := range a.Axes {
			if r == axis {
				return nil, lost
			}
			if r < axis && !a.KeepDims {
				shift++
			}
		}
		return along(axis - shift), nil
	case Concat:
		if op.Attr.(*AxisAttr).Axis == axis {
			return nil, lost
		}
	case Pad:
		if a := op.Attr.(*PadAttr); a.Begin[axis] != 0 || a.End[axis] != 0 {
			return nil, lost
		}
	case MaxPool:
		if axis == 1 || axis == 2 {
			return nil, lost
		}
	}
	return q, nil
}

// survives returns the dimension that an axis becomes in a reshape: one of the same
// length with as many elements before it; -1 when there is none.
func survives(from []int, axis int, shape []int) int {
	before := Numel(from[:axis])
	for i, n := 0, 1; i < len(shape); i++ {
		if n == before && shape[i] == from[axis] {
			return i
		}
		n *= shape[i]
	}
	return -1
}

// movedBlocks is movedQuant for codes in blocks: the codes of a channel must keep
// their order.
func movedBlocks(op *Op, x Type, shape []int) (*Quant, error) {
	q := *x.Quant
	switch op.Kind {
	case Transpose:
		perm := op.Attr.(*PermAttr).Perm
		if rest := slices.DeleteFunc(slices.Clone(perm), func(d int) bool { return d == q.Axis || x.Shape[d] == 1 }); !slices.IsSorted(rest) {
			return nil, errors.New("the operand's blocks do not survive: the codes of a channel change their order")
		}
		q.Axis = slices.Index(perm, q.Axis)
		return &q, nil
	case Reshape:
		if q.Axis = survives(x.Shape, q.Axis, shape); q.Axis >= 0 {
			return &q, nil
		}
	}
	return nil, errors.New("codes in blocks cannot be moved: the blocks do not survive")
}
