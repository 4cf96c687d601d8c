package eval

import (
	"cmp"

	"situ/internal/vecf32"
	"situ/ir"
)

// widened returns f16 and bf16 tensors as f32, exactly, and others as they are.
func widened(t *ir.Tensor) *ir.Tensor {
	if t.DType == ir.F16 || t.DType == ir.BF16 {
		return cast(t, ir.F32)
	}
	return t
}

// prepareCompare is the preparation of equal, less and lessequal. Comparisons
// with NaN do not hold.
func prepareCompare(n *node) (kernel, error) {
	shape, kind := n.out.Shape, n.op.Kind
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.Bool, shape...)
		y := ir.Data[uint8](out)
		in = []*ir.Tensor{widened(in[0]), widened(in[1])}
		switch in[0].Any().(type) {
		case []float32:
			comparePairs[float32](kind, y, shape, in)
		case []float64:
			comparePairs[float64](kind, y, shape, in)
		case []int8:
			comparePairs[int8](kind, y, shape, in)
		case []uint8:
			comparePairs[uint8](kind, y, shape, in)
		case []int16:
			comparePairs[int16](kind, y, shape, in)
		case []uint16:
			comparePairs[uint16](kind, y, shape, in)
		case []int32:
			comparePairs[int32](kind, y, shape, in)
		case []uint32:
			comparePairs[uint32](kind, y, shape, in)
		case []int64:
			comparePairs[int64](kind, y, shape, in)
		case []uint64:
			comparePairs[uint64](kind, y, shape, in)
		}
		return out, nil
	}, nil
}

func comparePairs[T interface {
	cmp.Ordered
	ir.Elem
}](kind ir.OpKind, y []uint8, shape []int, in []*ir.Tensor) {
	holds := func(a, b T) bool { return a <= b }
	switch kind {
	case ir.Equals:
		holds = func(a, b T) bool { return a == b }
	case ir.Less:
		holds = func(a, b T) bool { return a < b }
	}
	mapPairs(y, shape, in, func(a, b T) uint8 {
		if holds(a, b) {
			return 1
		}
		return 0
	})
}

// prepareWhere selects elements of any type.
func prepareWhere(n *node) (kernel, error) {
	shape := n.out.Shape
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, shape...)
		switch y := out.Any().(type) {
		case []float32:
			choose(y, shape, in)
		case []float64:
			choose(y, shape, in)
		case []int8:
			choose(y, shape, in)
		case []uint8:
			choose(y, shape, in)
		case []int16:
			choose(y, shape, in)
		case []uint16:
			choose(y, shape, in)
		case []int32:
			choose(y, shape, in)
		case []uint32:
			choose(y, shape, in)
		case []int64:
			choose(y, shape, in)
		case []uint64:
			choose(y, shape, in)
		}
		return out, nil
	}, nil
}

// choose writes b everywhere, then a where the condition holds.
func choose[T ir.Elem](y []T, shape []int, in []*ir.Tensor) {
	cond := ir.Data[uint8](in[0])
	write := func(x *ir.Tensor, when uint8) {
		d := ir.Data[T](x)
		vecf32.EachRow(shape, in[0].Shape, x.Shape, func(r vecf32.Row) {
			for i := range r.N {
				if cond[r.A+i*r.StrideA] == when {
					y[r.Dst+i] = d[r.B+i*r.StrideB]
				}
			}
		})
	}
	write(in[1], 1)
	write(in[2], 0)
}
