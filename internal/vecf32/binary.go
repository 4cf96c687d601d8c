package vecf32

import (
	"fmt"
	"math"
)

// BinOp is an element-wise operator of two operands.
type BinOp uint8

// Binary operators. Min and Max give NaN when either operand is NaN.
const (
	Add BinOp = iota
	Sub
	Mul
	Div
	Min
	Max
	Pow
	NumBinOps
)

var binNames = [NumBinOps]string{"add", "sub", "mul", "div", "min", "max", "pow"}

// String returns the operator's name, such as "add".
func (op BinOp) String() string {
	if op < NumBinOps {
		return binNames[op]
	}
	return fmt.Sprintf("binop(%d)", uint8(op))
}

// Binary sets dst = a op b with NumPy broadcasting of a and b to shape, the
// shape of dst.
func Binary(op BinOp, dst []float32, shape []int, a []float32, aShape []int, b []float32, bShape []int) {
	EachRow(shape, aShape, bShape, func(r Row) {
		row(op, dst[r.Dst:r.Dst+r.N], a[r.A:], r.StrideA, b[r.B:], r.StrideB)
	})
}

// BroadcastShapes returns the NumPy broadcast of two shapes, and false when they
// do not fit.
func BroadcastShapes(a, b []int) ([]int, bool) {
	n := max(len(a), len(b))
	out := make([]int, n)
	for i := range out {
		da, db := 1, 1
		if j := i - (n - len(a)); j >= 0 {
			da = a[j]
		}
		if j := i - (n - len(b)); j >= 0 {
			db = b[j]
		}
		switch {
		case da == db || db == 1:
			out[i] = da
		case da == 1:
			out[i] = db
		default:
			return nil, false
		}
	}
	return out, true
}

// Row is a run of N consecutive result elements from offset Dst, and where the
// operands' elements for it lie: offsets A and B, strides 0 or 1.
type Row struct {
	Dst, A, B, N     int
	StrideA, StrideB int
}

// EachRow calls f for the rows of a broadcasting operation, in row-major order.
// Rows are as long as the shapes allow.
func EachRow(shape, aShape, bShape []int, f func(Row)) {
	// Collapse dimensions that both operands treat alike.
	type dim struct{ n, sa, sb int }
	dims := make([]dim, 0, len(shape))
	sa, sb := 1, 1
	for i := len(shape) - 1; i >= 0; i-- {
		n := shape[i]
		if n == 0 {
			return
		}
		if n == 1 {
			continue
		}
		d := dim{n: n}
		if j := i - (len(shape) - len(aShape)); j >= 0 && aShape[j] != 1 {
			d.sa, sa = sa, sa*n
		}
		if j := i - (len(shape) - len(bShape)); j >= 0 && bShape[j] != 1 {
			d.sb, sb = sb, sb*n
		}
		if k := len(dims) - 1; k >= 0 {
			p := &dims[k] // the next inner dimension
			if (d.sa == p.sa*p.n) && (d.sb == p.sb*p.n) {
				p.n *= n
				continue
			}
		}
		dims = append(dims, d)
	}
	if len(dims) == 0 {
		f(Row{N: 1, StrideA: 1, StrideB: 1})
		return
	}
	inner, outer := dims[0], dims[1:]
	idx := make([]int, len(outer))
	r := Row{N: inner.n, StrideA: inner.sa, StrideB: inner.sb}
	for {
		f(r)
		r.Dst += inner.n
		k := 0
		for ; k < len(outer); k++ {
			r.A += outer[k].sa
			r.B += outer[k].sb
			if idx[k]++; idx[k] < outer[k].n {
				break
			}
			idx[k] = 0
			r.A -= outer[k].sa * outer[k].n
			r.B -= outer[k].sb * outer[k].n
		}
		if k == len(outer) {
			return
		}
	}
}

// row computes one row; strides are 0 or 1.
func row(op BinOp, dst, a []float32, sa int, b []float32, sb int) {
	switch {
	case sa == 1 && sb == 1:
		rowVV(op, dst, a[:len(dst)], b[:len(dst)])
	case sa == 1:
		rowVS(op, dst, a[:len(dst)], b[0])
	case sb == 1:
		rowSV(op, dst, a[0], b[:len(dst)])
	default:
		v := EvalBin(op, a[0], b[0])
		for i := range dst {
			dst[i] = v
		}
	}
}

func rowVV(op BinOp, dst, a, b []float32) {
	switch op {
	case Add:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case Sub:
		for i := range dst {
			dst[i] = a[i] - b[i]
		}
	case Mul:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	default:
		for i := range dst {
			dst[i] = EvalBin(op, a[i], b[i])
		}
	}
}

func rowVS(op BinOp, dst, a []float32, b float32) {
	switch op {
	case Add:
		for i := range dst {
			dst[i] = a[i] + b
		}
	case Sub:
		for i := range dst {
			dst[i] = a[i] - b
		}
	case Mul:
		for i := range dst {
			dst[i] = a[i] * b
		}
	default:
		for i := range dst {
			dst[i] = EvalBin(op, a[i], b)
		}
	}
}

func rowSV(op BinOp, dst []float32, a float32, b []float32) {
	switch op {
	case Add, Mul:
		rowVS(op, dst, b, a)
	default:
		for i := range dst {
			dst[i] = EvalBin(op, a, b[i])
		}
	}
}

// EvalBin returns a op b for one pair of elements.
func EvalBin(op BinOp, a, b float32) float32 {
	switch op {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		return a / b
	case Min:
		return min(a, b)
	case Max:
		return max(a, b)
	case Pow:
		return float32(math.Pow(float64(a), float64(b)))
	}
	panic("vecf32: " + op.String())
}
