package eval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"situ/ir"
)

// indexer resolves the indices of gatherelements and scatterelements.
type indexer struct {
	n       int   // elements of x along the axis
	axis    int   //
	stride  int   // of x along the axis
	shape   []int // of the indices
	strides []int // of x, 0 along the axis
}

func newIndexer(axis int, x, indices []int) *indexer {
	s := rowMajor(x)
	ix := &indexer{n: x[axis], axis: axis, stride: s[axis], shape: indices, strides: s}
	s[axis] = 0
	return ix
}

// each calls f with the position of every index and the offset of its element
// of x; it stops at an index out of range.
func (ix *indexer) each(indices *ir.Tensor, f func(i, at int)) error {
	idx := ir.Data[int64](cast(indices, ir.I64))
	pos := make([]int, len(ix.shape))
	base := 0
	for i, k := range idx {
		at := k
		if at < 0 {
			at += int64(ix.n)
		}
		if at < 0 || at >= int64(ix.n) {
			return fmt.Errorf("index %d is outside dimension %d, which has %d elements", k, ix.axis, ix.n)
		}
		f(i, base+int(at)*ix.stride)
		for d := len(pos) - 1; d >= 0; d-- {
			pos[d]++
			base += ix.strides[d]
			if pos[d] < ix.shape[d] {
				break
			}
			base -= ix.strides[d] * ix.shape[d]
			pos[d] = 0
		}
	}
	return nil
}

func prepareGatherElements(n *node) (kernel, error) {
	ix := newIndexer(n.op.Attr.(*ir.AxisAttr).Axis, n.in[0].Shape, n.in[1].Shape)
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, n.out.Shape...)
		var err error
		switch y := out.Any().(type) {
		case []float32:
			err = gatherElements(ix, y, in)
		case []float64:
			err = gatherElements(ix, y, in)
		case []int8:
			err = gatherElements(ix, y, in)
		case []uint8:
			err = gatherElements(ix, y, in)
		case []int16:
			err = gatherElements(ix, y, in)
		case []uint16:
			err = gatherElements(ix, y, in)
		case []int32:
			err = gatherElements(ix, y, in)
		case []uint32:
			err = gatherElements(ix, y, in)
		case []int64:
			err = gatherElements(ix, y, in)
		case []uint64:
			err = gatherElements(ix, y, in)
		}
		return out, err
	}, nil
}

func gatherElements[T ir.Elem](ix *indexer, y []T, in []*ir.Tensor) error {
	x := ir.Data[T](in[0])
	return ix.each(in[1], func(i, at int) { y[i] = x[at] })
}

// prepareScatterElements computes 16-bit floats in float32, rounding after each
// update.
func prepareScatterElements(n *node) (kernel, error) {
	a := n.op.Attr.(*ir.ScatterAttr)
	d := n.out.DType
	if d == ir.Bool && a.Mode != ir.ScatterSet {
		return nil, errors.New("computes with numbers, got bool")
	}
	if (d == ir.I4 || d == ir.U4) && a.Mode != ir.ScatterSet {
		return nil, unsupported(n)
	}
	ix := newIndexer(a.Axis, n.in[0].Shape, n.in[1].Shape)
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(d, n.out.Shape...)
		dense := layout{0, rowMajor(n.out.Shape)}
		copyStrided(out, dense, in[0], dense, n.out.Shape)
		var err error
		switch y := out.Any().(type) {
		case []float32:
			err = scatter(ix, y, in, scatterFunc[float32](a.Mode))
		case []float64:
			err = scatter(ix, y, in, scatterFunc[float64](a.Mode))
		case []int8:
			err = scatter(ix, y, in, scatterFunc[int8](a.Mode))
		case []uint8:
			err = scatter(ix, y, in, scatterFunc[uint8](a.Mode))
		case []int16:
			err = scatter(ix, y, in, scatterFunc[int16](a.Mode))
		case []uint16:
			f := scatterFunc[uint16](a.Mode)
			if d.IsFloat() && a.Mode != ir.ScatterSet {
				f32 := scatterFunc[float32](a.Mode)
				f = func(old, v uint16) uint16 {
					w := widen16(d, []uint16{old, v})
					r := ir.NewTensor(ir.F32, nil, []float32{f32(w[0], w[1])})
					return ir.Data[uint16](cast(r, d))[0]
				}
			}
			err = scatter(ix, y, in, f)
		case []int32:
			err = scatter(ix, y, in, scatterFunc[int32](a.Mode))
		case []uint32:
			err = scatter(ix, y, in, scatterFunc[uint32](a.Mode))
		case []int64:
			err = scatter(ix, y, in, scatterFunc[int64](a.Mode))
		case []uint64:
			err = scatter(ix, y, in, scatterFunc[uint64](a.Mode))
		}
		return out, err
	}, nil
}

func scatter[T ir.Elem](ix *indexer, y []T, in []*ir.Tensor, f func(old, v T) T) error {
	u := ir.Data[T](in[2])
	return ix.each(in[1], func(i, at int) { y[at] = f(y[at], u[i]) })
}

func scatterFunc[T number](m ir.ScatterMode) func(old, v T) T {
	switch m {
	case ir.ScatterAdd:
		return func(old, v T) T { return old + v }
	case ir.ScatterMul:
		return func(old, v T) T { return old * v }
	case ir.ScatterMin:
		return func(old, v T) T { return min(old, v) }
	case ir.ScatterMax:
		return func(old, v T) T { return max(old, v) }
	}
	return func(_, v T) T { return v }
}

// prepareTopK sorts each lane, or finds its extreme where only one is wanted.
func prepareTopK(n *node) (kernel, error) {
	a := n.op.Attr.(*ir.TopKAttr)
	x := n.in[0].Shape
	lanes := &lanes{outer: ir.Numel(x[:a.Axis]), n: x[a.Axis], inner: ir.Numel(x[a.Axis+1:])}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.I64, n.out.Shape...)
		y := ir.Data[int64](out)
		switch x := widened(in[0]).Any().(type) {
		case []float32:
			topK(y, x, lanes, a)
		case []float64:
			topK(y, x, lanes, a)
		case []int8:
			topK(y, x, lanes, a)
		case []uint8:
			topK(y, x, lanes, a)
		case []int16:
			topK(y, x, lanes, a)
		case []uint16:
			topK(y, x, lanes, a)
		case []int32:
			topK(y, x, lanes, a)
		case []uint32:
			topK(y, x, lanes, a)
		case []int64:
			topK(y, x, lanes, a)
		case []uint64:
			topK(y, x, lanes, a)
		}
		return out, nil
	}, nil
}

// lanes are the runs of a tensor along one axis.
type lanes struct{ outer, n, inner int }

// compareNumbers orders numbers, NaN above all others.
func compareNumbers[T cmp.Ordered](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	// One of them at least is NaN.
	switch aNaN, bNaN := a != a, b != b; {
	case aNaN && bNaN:
		return 0
	case aNaN:
		return 1
	}
	return -1
}

func topK[T cmp.Ordered](y []int64, x []T, l *lanes, a *ir.TopKAttr) {
	sign := -1 // largest first
	if a.Smallest {
		sign = 1
	}
	idx := make([]int64, l.n)
	for o := range l.outer {
		for i := range l.inner {
			base := o*l.n*l.inner + i
			less := func(p, q int64) int {
				return sign * compareNumbers(x[base+int(p)*l.inner], x[base+int(q)*l.inner])
			}
			best := idx[:a.K]
			if a.K == 1 {
				best[0] = 0
				for j := int64(1); j < int64(l.n); j++ {
					if less(j, best[0]) < 0 {
						best[0] = j
					}
				}
			} else {
				for j := range idx {
					idx[j] = int64(j)
				}
				slices.SortStableFunc(idx, less)
			}
			for j, v := range best {
				y[(o*a.K+j)*l.inner+i] = v
			}
		}
	}
}
