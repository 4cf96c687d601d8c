package eval

import (
	"math"

	"situ/internal/par"
	"situ/ir"
)

// layout addresses elements of a tensor: a first offset and the distance between
// neighbours in each dimension.
type layout struct {
	off     int
	strides []int
}

// rowMajor returns the strides of a dense tensor.
func rowMajor(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// copyStrided copies shape elements from src to dst, each addressed by its
// layout. Both hold elements of the same type.
func copyStrided(dst *ir.Tensor, d layout, src *ir.Tensor, s layout, shape []int) {
	switch y := dst.Any().(type) {
	case []float32:
		strided(y, d, ir.Data[float32](src), s, shape)
	case []float64:
		strided(y, d, ir.Data[float64](src), s, shape)
	case []int8:
		strided(y, d, ir.Data[int8](src), s, shape)
	case []uint8:
		strided(y, d, ir.Data[uint8](src), s, shape)
	case []int16:
		strided(y, d, ir.Data[int16](src), s, shape)
	case []uint16:
		strided(y, d, ir.Data[uint16](src), s, shape)
	case []int32:
		strided(y, d, ir.Data[int32](src), s, shape)
	case []uint32:
		strided(y, d, ir.Data[uint32](src), s, shape)
	case []int64:
		strided(y, d, ir.Data[int64](src), s, shape)
	case []uint64:
		strided(y, d, ir.Data[uint64](src), s, shape)
	}
}

// axis is one dimension of a strided copy.
type axis struct{ n, d, s int }

func strided[T any](dst []T, d layout, src []T, s layout, shape []int) {
	var axes []axis // outermost first, merged where both layouts are dense
	for i, n := range shape {
		if n == 1 {
			continue
		}
		a := axis{n, d.strides[i], s.strides[i]}
		if k := len(axes) - 1; k >= 0 && axes[k].d == n*a.d && axes[k].s == n*a.s {
			axes[k] = axis{axes[k].n * n, a.d, a.s}
			continue
		}
		axes = append(axes, a)
	}
	if len(axes) == 0 {
		axes = []axis{{1, 1, 1}}
	}
	total := ir.Numel(shape)
	if total <= par.SerialWork {
		copyAxes(dst, d.off, src, s.off, axes)
		return
	}
	first := axes[0]
	parallelRange(first.n*max(1, total/first.n), func(from, to int) {
		// Ranges are counted in elements; cut them at multiples of the first axis.
		per := total / first.n
		from, to = (from+per-1)/per, (to+per-1)/per
		if from == to {
			return
		}
		part := append([]axis{{to - from, first.d, first.s}}, axes[1:]...)
		copyAxes(dst, d.off+from*first.d, src, s.off+from*first.s, part)
	})
}

func copyAxes[T any](dst []T, do int, src []T, so int, axes []axis) {
	k := len(axes) - 1
	inner := axes[k]
	switch {
	case inner.d == 1 && inner.s == 1:
		eachPair(axes[:k], do, so, func(do, so int) {
			copy(dst[do:do+inner.n], src[so:so+inner.n])
		})
		return
	case inner.d == 1 && k > 0:
		// A transposition: walk tiles that are narrow in both layouts.
		for j := range k {
			if axes[j].s == 1 {
				outer := append(append([]axis(nil), axes[:j]...), axes[j+1:k]...)
				eachPair(outer, do, so, func(do, so int) { transposeTile(dst, do, src, so, axes[j], inner) })
				return
			}
		}
	}
	eachPair(axes[:k], do, so, func(do, so int) {
		for range inner.n {
			dst[do] = src[so]
			do += inner.d
			so += inner.s
		}
	})
}

// tileSize is the edge of a transposition tile: 16 rows of 16 float32 are one
// cache line each.
const tileSize = 16

// transposeTile copies a plane in which a is dense in src and b dense in dst.
func transposeTile[T any](dst []T, do int, src []T, so int, a, b axis) {
	for i := 0; i < a.n; i += tileSize {
		for j := 0; j < b.n; j += tileSize {
			nj := min(tileSize, b.n-j)
			for ii := i; ii < min(i+tileSize, a.n); ii++ {
				row := dst[do+ii*a.d+j:][:nj]
				p := so + ii + j*b.s
				for x := range row {
					row[x] = src[p]
					p += b.s
				}
			}
		}
	}
}

// eachPair calls f with the offsets of every index of axes, row-major.
func eachPair(axes []axis, do, so int, f func(do, so int)) {
	if len(axes) == 0 {
		f(do, so)
		return
	}
	for range axes[0].n {
		eachPair(axes[1:], do, so, f)
		do += axes[0].d
		so += axes[0].s
	}
}

// fill sets every element of t to v; integers saturate.
func fill(t *ir.Tensor, v float64) {
	one := cast(ir.NewTensor(ir.F64, []int{1}, []float64{v}), t.DType)
	zero := make([]int, len(t.Shape))
	copyStrided(t, layout{0, rowMajor(t.Shape)}, one, layout{0, zero}, t.Shape)
}

// code returns the code of a real number under a quantisation with one scale,
// computed in float64 and saturated; NaN gives the zero point.
func code(v float64, t ir.Type) int64 {
	q := t.Quant
	lo, hi := t.DType.IntRange()
	r := math.RoundToEven(v/float64(q.Scale[0])) + float64(q.Zero[0])
	switch {
	case r != r:
		return int64(q.Zero[0])
	case r <= float64(lo):
		return lo
	case r >= float64(hi):
		return hi
	}
	return int64(r)
}
