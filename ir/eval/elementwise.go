package eval

import (
	"errors"

	"situ/internal/vecf32"
	"situ/ir"
)

// unary is the preparation of an element-wise float function.
func unary(f vecf32.Fn) prepare {
	return func(n *node) (kernel, error) {
		var p vecf32.Params
		switch a := n.op.Attr.(type) {
		case *ir.ClipAttr:
			p = vecf32.Params{A: a.Lo, B: a.Hi}
		case *ir.AlphaBetaAttr:
			p = vecf32.Params{A: a.Alpha, B: a.Beta}
		}
		return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			x := ir.Data[float32](in[0])
			out := ir.Zeros(ir.F32, in[0].Shape...)
			y := ir.Data[float32](out)
			parallelRange(len(x), func(from, to int) { vecf32.Apply(f, p, y[from:to], x[from:to]) })
			return out, nil
		})
	}
}

// binary is the preparation of an element-wise operator of two operands, on
// floats, plain integers or codes.
func binary(op vecf32.BinOp) prepare {
	return func(n *node) (kernel, error) {
		act := actOf(n.op.Attr)
		switch d := n.in[0].DType; {
		case n.quantised():
			return prepareFixedBinary(op, n)
		case d.IsInt():
			if act != nil {
				return nil, errors.New("an activation on plain integers has no meaning")
			}
			return intBinary(op, n)
		}
		shape := n.out.Shape
		return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			out := ir.Zeros(ir.F32, shape...)
			y := ir.Data[float32](out)
			vecf32.Binary(op, y, shape, ir.Data[float32](in[0]), in[0].Shape, ir.Data[float32](in[1]), in[1].Shape)
			clampAct(act, y)
			return out, nil
		})
	}
}

func actOf(a ir.Attr) *ir.Act {
	switch a := a.(type) {
	case *ir.ConvAttr:
		return a.Act
	case *ir.MatMulAttr:
		return a.Act
	case *ir.BinaryAttr:
		return a.Act
	}
	return nil
}

func clampAct(a *ir.Act, y []float32) {
	if a != nil {
		vecf32.Clamp(y, y, a.Lo, a.Hi)
	}
}

// integer is the set of Go types that hold plain integers.
type integer interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64
}

var errDivZero = errors.New("integer division by zero")

// intBinary computes on plain integers: results wrap, division truncates
// towards zero.
func intBinary(op vecf32.BinOp, n *node) (kernel, error) {
	if op == vecf32.Pow {
		return nil, unsupported(n)
	}
	shape := n.out.Shape
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(in[0].DType, shape...)
		var err error
		switch y := out.Any().(type) {
		case []int8:
			err = intRows(op, y, shape, in)
		case []uint8:
			err = intRows(op, y, shape, in)
		case []int16:
			err = intRows(op, y, shape, in)
		case []uint16:
			err = intRows(op, y, shape, in)
		case []int32:
			err = intRows(op, y, shape, in)
		case []uint32:
			err = intRows(op, y, shape, in)
		case []int64:
			err = intRows(op, y, shape, in)
		case []uint64:
			err = intRows(op, y, shape, in)
		}
		return out, err
	}, nil
}

func intRows[T interface {
	integer
	ir.Elem
}](op vecf32.BinOp, y []T, shape []int, in []*ir.Tensor) error {
	a, b := ir.Data[T](in[0]), ir.Data[T](in[1])
	var err error
	vecf32.EachRow(shape, in[0].Shape, in[1].Shape, func(r vecf32.Row) {
		for i := range r.N {
			v, w := a[r.A+i*r.StrideA], b[r.B+i*r.StrideB]
			if op == vecf32.Div && w == 0 {
				err = errDivZero
				return
			}
			y[r.Dst+i] = intOp(op, v, w)
		}
	})
	return err
}

func intOp[T integer](op vecf32.BinOp, a, b T) T {
	switch op {
	case vecf32.Add:
		return a + b
	case vecf32.Sub:
		return a - b
	case vecf32.Mul:
		return a * b
	case vecf32.Div:
		return a / b
	case vecf32.Min:
		return min(a, b)
	}
	return max(a, b)
}

func prepareLUT(n *node) (kernel, error) {
	lo, _ := n.in[0].DType.IntRange()
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x, t := codes(in[0]), codes(in[1])
		for i, c := range x {
			x[i] = t[int64(c)-lo]
		}
		return fromCodes(n.out.DType, in[0].Shape, x), nil
	}, nil
}
