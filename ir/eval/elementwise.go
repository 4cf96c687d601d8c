package eval

import (
	"errors"
	"math"

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
		if n.in[0].DType == ir.F64 {
			return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
				x := ir.Data[float64](in[0])
				y := make([]float64, len(x))
				for i, v := range x {
					y[i] = vecf32.Eval64(f, p, v)
				}
				return ir.NewTensor(ir.F64, in[0].Shape, y), nil
			}, nil
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
			return intBinary(n)
		case d == ir.F64:
			return binary64(n, act)
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

// mapPairs sets y = f(a, b) with NumPy broadcasting of in[0] and in[1] to shape.
func mapPairs[T, R ir.Elem](y []R, shape []int, in []*ir.Tensor, f func(a, b T) R) {
	a, b := ir.Data[T](in[0]), ir.Data[T](in[1])
	vecf32.EachRow(shape, in[0].Shape, in[1].Shape, func(r vecf32.Row) {
		for i := range r.N {
			y[r.Dst+i] = f(a[r.A+i*r.StrideA], b[r.B+i*r.StrideB])
		}
	})
}

// binary64 computes in float64.
func binary64(n *node, act *ir.Act) (kernel, error) {
	f := map[ir.OpKind]func(a, b float64) float64{
		ir.Add: func(a, b float64) float64 { return a + b },
		ir.Sub: func(a, b float64) float64 { return a - b },
		ir.Mul: func(a, b float64) float64 { return a * b },
		ir.Div: func(a, b float64) float64 { return a / b },
		ir.Min: func(a, b float64) float64 { return min(a, b) },
		ir.Max: func(a, b float64) float64 { return max(a, b) },
		ir.Pow: math.Pow,
	}[n.op.Kind]
	if act != nil {
		plain := f
		f = func(a, b float64) float64 { return clamp64(act, plain(a, b)) }
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		y := make([]float64, n.out.Numel())
		mapPairs(y, n.out.Shape, in, f)
		return ir.NewTensor(ir.F64, n.out.Shape, y), nil
	}, nil
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

// clamp64 applies an activation, which may be nil; NaN stays NaN.
func clamp64(a *ir.Act, v float64) float64 {
	if a != nil && v < float64(a.Lo) {
		v = float64(a.Lo)
	}
	if a != nil && v > float64(a.Hi) {
		v = float64(a.Hi)
	}
	return v
}

func clampAct(a *ir.Act, y []float32) {
	if a != nil {
		vecf32.Clamp(y, y, a.Lo, a.Hi)
	}
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
