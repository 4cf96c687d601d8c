package eval

import (
	"errors"
	"math"
	"slices"

	"situ/internal/vecf32"
	"situ/ir"
)

// poolWindow is the geometry of a pooling operator.
func poolWindow(n *node) *vecf32.Window {
	a, x, y := n.op.Attr.(*ir.PoolAttr), n.in[0].Shape, n.out.Shape
	return &vecf32.Window{
		N: x[0], H: x[1], W: x[2], C: x[3], OutH: y[1], OutW: y[2],
		Kernel: a.Kernel, Strides: a.Strides, Dilations: a.Dilations,
		PadTop: a.Pads[0], PadLeft: a.Pads[1], CountPad: a.CountPad,
		PadEndH: x[1] + a.Pads[2] - a.CeilPads[0],
		PadEndW: x[2] + a.Pads[3] - a.CeilPads[1],
	}
}

// eachImage runs a pooling of one image for all images of x, concurrently.
func eachImage(w *vecf32.Window, f func(one *vecf32.Window, x, y int)) {
	one := *w
	one.N = 1
	parallel(w.N, func(i int) { f(&one, i*w.H*w.W*w.C, i*w.OutH*w.OutW*w.C) })
}

func prepareMaxPool(n *node) (kernel, error) {
	w := poolWindow(n)
	if n.in[0].DType.IsInt() {
		return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			out := ir.Zeros(in[0].DType, n.out.Shape...)
			switch y := out.Any().(type) {
			case []int8:
				maxPool(w, y, in[0])
			case []uint8:
				maxPool(w, y, in[0])
			case []int16:
				maxPool(w, y, in[0])
			case []uint16:
				maxPool(w, y, in[0])
			case []int32:
				maxPool(w, y, in[0])
			case []uint32:
				maxPool(w, y, in[0])
			case []int64:
				maxPool(w, y, in[0])
			case []uint64:
				maxPool(w, y, in[0])
			}
			return out, nil
		}, nil
	}
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.F32, n.out.Shape...)
		x, y := ir.Data[float32](in[0]), ir.Data[float32](out)
		eachImage(w, func(one *vecf32.Window, xo, yo int) { vecf32.MaxPool(y[yo:], x[xo:], one) })
		return out, nil
	})
}

// maxPool is the maximum of integers: the first tap of a window, then the
// greater of each further one.
func maxPool[T interface {
	integer
	ir.Elem
}](w *vecf32.Window, y []T, t *ir.Tensor) {
	x := ir.Data[T](t)
	w.Each(func(out, y0, x0, base int) {
		d := y[out : out+w.C]
		first := true
		w.EachTap(y0, x0, base, func(p int) {
			s := x[p : p+w.C]
			if first {
				copy(d, s)
				first = false
				return
			}
			for c, v := range s {
				d[c] = max(d[c], v)
			}
		})
	})
}

func prepareAvgPool(n *node) (kernel, error) {
	w := poolWindow(n)
	if n.quantised() {
		return prepareFixedAvgPool(n, w)
	}
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.F32, n.out.Shape...)
		x, y := ir.Data[float32](in[0]), ir.Data[float32](out)
		eachImage(w, func(one *vecf32.Window, xo, yo int) { vecf32.AvgPool(y[yo:], x[xo:], one) })
		return out, nil
	})
}

// reduction is the preparation of a reduction over axes.
func reduction(op vecf32.RedOp) prepare {
	return func(n *node) (kernel, error) {
		axes, shape := n.op.Attr.(*ir.ReduceAttr).Axes, n.in[0].Shape
		switch d := n.in[0].DType; {
		case n.quantised() && (op == vecf32.ReduceSum || op == vecf32.ReduceMean):
			return prepareFixedReduce(op, n)
		case d == ir.U64:
			return intReduction[uint64](op, n, d)
		case d.IsInt():
			return intReduction[int64](op, n, ir.I64)
		case d == ir.F64:
			return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
				y := make([]float64, n.out.Numel())
				vecf32.Reduce(op, y, ir.Data[float64](in[0]), shape, axes)
				return ir.NewTensor(d, n.out.Shape, y), nil
			}, nil
		}
		return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			out := ir.Zeros(ir.F32, n.out.Shape...)
			vecf32.Reduce(op, ir.Data[float32](out), ir.Data[float32](in[0]), shape, axes)
			return out, nil
		})
	}
}

// reduceIndex returns, for every element of a tensor in order, the index of the
// reduction's result it belongs to.
func reduceIndex(shape, axes []int) func(f func(i, out int)) {
	kept := slices.Clone(shape)
	for _, a := range axes {
		kept[a] = 1
	}
	return func(f func(i, out int)) {
		vecf32.EachRow(shape, shape, kept, func(r vecf32.Row) {
			for i := range r.N {
				f(r.Dst+i, r.B+i*r.StrideB)
			}
		})
	}
}

// intReduction reduces plain integers, and the maximum and minimum of codes, in
// the 64-bit type wide. Sums and products wrap, means truncate towards zero.
func intReduction[T int64 | uint64](op vecf32.RedOp, n *node, wide ir.DType) (kernel, error) {
	d := n.in[0].DType
	each := reduceIndex(n.in[0].Shape, n.op.Attr.(*ir.ReduceAttr).Axes)
	count := T(n.in[0].Numel() / n.out.Numel())
	if count == 0 {
		return emptyReduction(op, n)
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x := ir.Data[T](cast(in[0], wide))
		acc := make([]T, n.out.Numel())
		seen := make([]bool, len(acc))
		each(func(i, o int) {
			switch {
			case !seen[o]:
				acc[o], seen[o] = x[i], true
			case op == vecf32.ReduceMax:
				acc[o] = max(acc[o], x[i])
			case op == vecf32.ReduceMin:
				acc[o] = min(acc[o], x[i])
			case op == vecf32.ReduceProd:
				acc[o] *= x[i]
			default:
				acc[o] += x[i]
			}
		})
		if op == vecf32.ReduceMean {
			for i := range acc {
				acc[i] /= count
			}
		}
		return cast(ir.NewTensor(wide, n.out.Shape, acc), d), nil
	}, nil
}

// emptyReduction is the reduction of no integers: 0, 1, or the smallest or
// largest integer, where a maximum or minimum starts. They have no mean.
func emptyReduction(op vecf32.RedOp, n *node) (kernel, error) {
	v := 0.0
	switch op {
	case vecf32.ReduceMean:
		return nil, errors.New("the mean of no integers does not exist")
	case vecf32.ReduceProd:
		v = 1
	case vecf32.ReduceMax:
		v = math.Inf(-1)
	case vecf32.ReduceMin:
		v = math.Inf(1)
	}
	return func(*env, []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, n.out.Shape...)
		fill(out, v)
		return out, nil
	}, nil
}

func prepareSoftmax(n *node) (kernel, error) {
	if n.quantised() {
		return prepareFixedSoftmax(n)
	}
	return overAxis(n, vecf32.Softmax[float32], vecf32.Softmax[float64])
}

func prepareLogSoftmax(n *node) (kernel, error) {
	return overAxis(n, vecf32.LogSoftmax[float32], vecf32.LogSoftmax[float64])
}

func overAxis(n *node, f func(dst, x []float32, shape []int, axis int), f64 func(dst, x []float64, shape []int, axis int)) (kernel, error) {
	axis := n.op.Attr.(*ir.AxisAttr).Axis
	if n.in[0].DType == ir.F64 {
		return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			y := make([]float64, in[0].Numel())
			f64(y, ir.Data[float64](in[0]), in[0].Shape, axis)
			return ir.NewTensor(ir.F64, in[0].Shape, y), nil
		}, nil
	}
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.F32, in[0].Shape...)
		f(ir.Data[float32](out), ir.Data[float32](in[0]), in[0].Shape, axis)
		return out, nil
	})
}

func prepareLRN(n *node) (kernel, error) {
	a := n.op.Attr.(*ir.LRNAttr)
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.F32, in[0].Shape...)
		vecf32.LRN(ir.Data[float32](out), ir.Data[float32](in[0]), in[0].Shape, a.Axis, a.Size, a.Alpha, a.Beta, a.Bias)
		return out, nil
	})
}
