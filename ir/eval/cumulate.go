package eval

import (
	"math"

	"situ/ir"
)

// prepareCumulate is the preparation of cumsum and cumprod. Integers wrap;
// 16-bit floats and f32 accumulate in float64 and are rounded once.
func prepareCumulate(n *node) (kernel, error) {
	ax, x := n.op.Attr.(*ir.AxisAttr).Axis, n.in[0].Shape
	l := &lanes{outer: ir.Numel(x[:ax]), n: x[ax], inner: ir.Numel(x[ax+1:])}
	product := n.op.Kind == ir.CumProd
	d := n.out.DType
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		wide := ir.I64 // whose low bits are those of every integer type
		if d.IsFloat() {
			wide = ir.F64
		}
		// The widened operand is copied, for its own type is not converted.
		out := ir.Zeros(wide, x...)
		switch y := out.Any().(type) {
		case []float64:
			copy(y, ir.Data[float64](cast(in[0], wide)))
			cumulate(y, l, product)
		case []int64:
			copy(y, ir.Data[int64](cast(in[0], wide)))
			cumulate(y, l, product)
		}
		return cast(out, d), nil
	}, nil
}

func cumulate[T float64 | int64](y []T, l *lanes, product bool) {
	for o := range l.outer {
		for j := 1; j < l.n; j++ {
			row := y[(o*l.n+j)*l.inner:][:l.inner]
			before := y[(o*l.n+j-1)*l.inner:][:l.inner]
			for i := range row {
				if product {
					row[i] *= before[i]
				} else {
					row[i] += before[i]
				}
			}
		}
	}
}

// prepareDet computes determinants in float64, by elimination with partial
// pivoting.
func prepareDet(n *node) (kernel, error) {
	s := n.in[0].Shape
	size := s[len(s)-1]
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x := ir.Data[float64](cast(in[0], ir.F64))
		y := make([]float64, n.out.Numel())
		m := make([]float64, size*size)
		for i := range y {
			copy(m, x[i*len(m):])
			y[i] = det(m, size)
		}
		return cast(ir.NewTensor(ir.F64, n.out.Shape, y), n.out.DType), nil
	}, nil
}

// det destroys m, a matrix of n rows.
func det(m []float64, n int) float64 {
	d := 1.0
	for c := range n {
		p := c
		for r := c + 1; r < n; r++ {
			if math.Abs(m[r*n+c]) > math.Abs(m[p*n+c]) {
				p = r
			}
		}
		pivot := m[p*n+c]
		if pivot == 0 {
			return 0
		}
		if p != c {
			d = -d
			for k := c; k < n; k++ {
				m[p*n+k], m[c*n+k] = m[c*n+k], m[p*n+k]
			}
		}
		d *= pivot
		for r := c + 1; r < n; r++ {
			f := m[r*n+c] / pivot
			for k := c + 1; k < n; k++ {
				// The conversion keeps the product from being fused into the difference.
				m[r*n+k] -= float64(f * m[c*n+k])
			}
		}
	}
	return d
}
