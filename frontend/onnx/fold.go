package onnx

import (
	"math"
	"slices"

	"github.com/x448/float16"

	"situ/ir"
)

// The evaluator for what has to be known at import: shapes and the arithmetic
// on them. It works on constants of at most maxFold elements; floating-point
// results are those of the operators (float32 arithmetic for F32).
const maxFold = 1 << 20

// holdsInts reports whether int64s reads d; holdsFloats whether float64s does.
func holdsInts(d ir.DType) bool   { return d.IsInt() || d == ir.Bool }
func holdsFloats(d ir.DType) bool { return d.IsFloat() }

// convert converts elements as Go does.
func convert[D, S int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](s []S) []D {
	d := make([]D, len(s))
	for i, v := range s {
		d[i] = D(v)
	}
	return d
}

// int64s returns the elements of an integer or boolean tensor.
func int64s(t *ir.Tensor) []int64 {
	switch d := t.Any().(type) {
	case []int8:
		return convert[int64](d)
	case []uint8:
		return convert[int64](d)
	case []int16:
		return convert[int64](d)
	case []uint16:
		return convert[int64](d)
	case []int32:
		return convert[int64](d)
	case []uint32:
		return convert[int64](d)
	case []uint64:
		return convert[int64](d)
	}
	return ir.Data[int64](t)
}

// float64s returns the elements of a floating-point tensor.
func float64s(t *ir.Tensor) []float64 {
	switch t.DType {
	case ir.F32:
		return convert[float64](ir.Data[float32](t))
	case ir.F64:
		return ir.Data[float64](t)
	}
	bits := ir.Data[uint16](t)
	v := make([]float64, len(bits))
	for i, b := range bits {
		if t.DType == ir.BF16 {
			v[i] = float64(math.Float32frombits(uint32(b) << 16))
		} else {
			v[i] = float64(float16.Frombits(b).Float32())
		}
	}
	return v
}

// narrow16 rounds to F16 or BF16, halves to even, through float32 as the
// operators do.
func narrow16(d ir.DType, v []float64) []uint16 {
	bits := make([]uint16, len(v))
	for i, f := range v {
		x := float32(f)
		b := math.Float32bits(x)
		switch {
		case d == ir.F16:
			bits[i] = float16.Fromfloat32(x).Bits()
		case x != x:
			bits[i] = uint16(b>>16) | 0x40
		default:
			bits[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
		}
	}
	return bits
}

// fromInts makes a tensor of any element type; integers wrap.
func fromInts(d ir.DType, shape []int, v []int64) *ir.Tensor {
	switch d {
	case ir.F32:
		return ir.NewTensor(d, shape, convert[float32](v))
	case ir.F64:
		return ir.NewTensor(d, shape, convert[float64](v))
	case ir.F16, ir.BF16:
		return ir.NewTensor(d, shape, narrow16(d, convert[float64](v)))
	case ir.I4:
		x := convert[int8](v)
		for i := range x {
			x[i] = x[i] << 4 >> 4
		}
		return ir.NewTensor(d, shape, x)
	case ir.U4:
		x := convert[uint8](v)
		for i := range x {
			x[i] &= 15
		}
		return ir.NewTensor(d, shape, x)
	case ir.I8:
		return ir.NewTensor(d, shape, convert[int8](v))
	case ir.U8:
		return ir.NewTensor(d, shape, convert[uint8](v))
	case ir.I16:
		return ir.NewTensor(d, shape, convert[int16](v))
	case ir.U16:
		return ir.NewTensor(d, shape, convert[uint16](v))
	case ir.I32:
		return ir.NewTensor(d, shape, convert[int32](v))
	case ir.U32:
		return ir.NewTensor(d, shape, convert[uint32](v))
	case ir.U64:
		return ir.NewTensor(d, shape, convert[uint64](v))
	case ir.Bool:
		x := make([]uint8, len(v))
		for i := range v {
			if v[i] != 0 {
				x[i] = 1
			}
		}
		return ir.NewTensor(d, shape, x)
	}
	return ir.NewTensor(ir.I64, shape, v)
}

// fromFloats makes a tensor of any element type; integers truncate towards zero
// and saturate, NaN becomes 0.
func fromFloats(d ir.DType, shape []int, v []float64) *ir.Tensor {
	switch d {
	case ir.F32:
		return ir.NewTensor(d, shape, convert[float32](v))
	case ir.F64:
		return ir.NewTensor(d, shape, v)
	case ir.F16, ir.BF16:
		return ir.NewTensor(d, shape, narrow16(d, v))
	case ir.U64:
		x := make([]uint64, len(v))
		for i, f := range v {
			switch {
			case f >= math.MaxUint64:
				x[i] = math.MaxUint64
			case f > 0:
				x[i] = uint64(f)
			}
		}
		return ir.NewTensor(d, shape, x)
	}
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	if d != ir.I64 && d != ir.Bool {
		lo, hi = integerRange(d)
	}
	x := make([]int64, len(v))
	for i, f := range v {
		switch {
		case d == ir.Bool:
			if f != 0 {
				x[i] = 1
			}
		case f >= float64(hi):
			x[i] = hi
		case f <= float64(lo):
			x[i] = lo
		case f == f:
			x[i] = int64(f)
		}
	}
	return fromInts(d, shape, x)
}

// integerRange is ir.DType.IntRange for u32, too.
func integerRange(d ir.DType) (lo, hi int64) {
	if d == ir.U32 {
		return 0, math.MaxUint32
	}
	return d.IntRange()
}

// castTensor converts a constant as the operator cast does; ok is false for
// types the evaluator does not hold.
func castTensor(t *ir.Tensor, d ir.DType) (_ *ir.Tensor, ok bool) {
	if !holdsInts(d) && !holdsFloats(d) {
		return nil, false
	}
	switch {
	case holdsFloats(t.DType):
		return fromFloats(d, t.Shape, float64s(t)), true
	case t.DType == ir.U64 && d.IsFloat():
		return fromFloats(d, t.Shape, convert[float64](ir.Data[uint64](t))), true
	case holdsInts(t.DType):
		v := int64s(t)
		if d == ir.I4 || d == ir.U4 { // these saturate, others wrap
			lo, hi := d.IntRange()
			v = slices.Clone(v)
			for i := range v {
				if t.DType == ir.U64 && v[i] < 0 {
					v[i] = hi
				}
				v[i] = min(max(v[i], lo), hi)
			}
		}
		return fromInts(d, t.Shape, v), true
	}
	return nil, false
}

// take builds a tensor whose element i is element index[i] of t.
func take(t *ir.Tensor, shape, index []int) *ir.Tensor {
	switch d := t.Any().(type) {
	case []float32:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []float64:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []int8:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []uint8:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []int16:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []uint16:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []int32:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []uint32:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	case []uint64:
		return ir.NewTensor(t.DType, shape, pick(d, index))
	}
	return ir.NewTensor(t.DType, shape, pick(ir.Data[int64](t), index))
}

func pick[T any](d []T, index []int) []T {
	out := make([]T, len(index))
	for i, j := range index {
		out[i] = d[j]
	}
	return out
}

// rowStrides returns the distance between neighbours in each dimension.
func rowStrides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// indices lists offset + Σ i·stride over all positions of a shape, row major.
func indices(shape, stride []int, offset int) []int {
	n := ir.Numel(shape)
	out := make([]int, 0, n)
	pos := make([]int, len(shape))
	for len(out) < n {
		out = append(out, offset)
		for d := len(shape) - 1; d >= 0; d-- {
			pos[d]++
			offset += stride[d]
			if pos[d] < shape[d] {
				break
			}
			offset -= stride[d] * shape[d]
			pos[d] = 0
		}
	}
	return out
}

// broadcastIndices lists, for each position of shape, the element of a tensor of
// shape from that broadcasts there.
func broadcastIndices(from, shape []int) []int {
	stride := make([]int, len(shape))
	own := rowStrides(from)
	for i, d := range from {
		if d > 1 {
			stride[len(shape)-len(from)+i] = own[i]
		}
	}
	return indices(shape, stride, 0)
}

// broadcastShapes returns the NumPy broadcast of shapes, ok false if there is none.
func broadcastShapes(shapes ...[]int) (out []int, ok bool) {
	for _, s := range shapes {
		if len(s) > len(out) {
			out = append(slices.Repeat([]int{1}, len(s)-len(out)), out...)
		}
		for i := range s {
			o := &out[len(out)-len(s)+i]
			switch {
			case *o == 1:
				*o = s[i]
			case s[i] != 1 && s[i] != *o:
				return nil, false
			}
		}
	}
	return out, true
}

// permute transposes a constant. Where only dimensions of size 1 move, or all
// elements are the same, the elements are shared.
func permute(t *ir.Tensor, perm []int, uniform bool) *ir.Tensor {
	shape := make([]int, len(perm))
	moves, last := false, -1
	for i, p := range perm {
		shape[i] = t.Shape[p]
		if t.Shape[p] > 1 {
			moves = moves || p < last
			last = p
		}
	}
	if uniform || !moves {
		return t.Reshaped(shape...)
	}
	if std, ok := t.Described(); ok {
		return ir.Describe(t.DType, std, shape...)
	}
	own := rowStrides(t.Shape)
	stride := make([]int, len(perm))
	for i, p := range perm {
		stride[i] = own[p]
	}
	switch d := t.Any().(type) {
	case []float32:
		return ir.NewTensor(t.DType, shape, strided(d, shape, stride))
	case []int8:
		return ir.NewTensor(t.DType, shape, strided(d, shape, stride))
	case []uint8:
		return ir.NewTensor(t.DType, shape, strided(d, shape, stride))
	}
	return take(t, shape, indices(shape, stride, 0))
}

// strided copies elements Σ i·stride in row-major order of shape. The last two
// dimensions are walked in blocks, which keeps a transposition in the cache.
func strided[T any](src []T, shape, stride []int) []T {
	out := make([]T, ir.Numel(shape))
	if len(out) == 0 {
		return out
	}
	lead := len(shape) - 2 // a permutation that moves something has two dimensions
	rows, cols := shape[lead], shape[lead+1]
	sr, sc := stride[lead], stride[lead+1]
	const block = 32
	for plane, base := range indices(shape[:lead], stride[:lead], 0) {
		dst := out[plane*rows*cols:]
		for r0 := 0; r0 < rows; r0 += block {
			for c0 := 0; c0 < cols; c0 += block {
				for r := r0; r < min(r0+block, rows); r++ {
					at := base + r*sr
					for c := c0; c < min(c0+block, cols); c++ {
						dst[r*cols+c] = src[at+c*sc]
					}
				}
			}
		}
	}
	return out
}

// join concatenates constants of one type along an axis.
func join(ts []*ir.Tensor, axis int, shape []int) *ir.Tensor {
	// The elements of all operands one after the other, then picked in order.
	var inner []int // elements of each operand per step of the outer dimensions
	var start []int
	n := 0
	for _, t := range ts {
		inner = append(inner, ir.Numel(t.Shape[axis:]))
		start = append(start, n)
		n += t.Numel()
	}
	index := make([]int, 0, n)
	for o := range ir.Numel(shape[:axis]) {
		for k := range ts {
			for i := range inner[k] {
				index = append(index, start[k]+o*inner[k]+i)
			}
		}
	}
	if holdsFloats(ts[0].DType) {
		var v []float64
		for _, t := range ts {
			v = append(v, float64s(t)...)
		}
		return take(fromFloats(ts[0].DType, []int{n}, v), shape, index)
	}
	var v []int64
	for _, t := range ts {
		v = append(v, int64s(t)...)
	}
	return take(fromInts(ts[0].DType, []int{n}, v), shape, index)
}

// maxWork bounds the elements that evaluation at import reads and makes in all,
// so that a small file cannot ask for much memory or time by repetition.
const maxWork = 1 << 26

// charge counts elements read or made against maxWork.
func (c *call) charge(n int) {
	if c.work += n; c.work > c.mostWork {
		c.failf("evaluating constants takes more than %d element operations", c.mostWork)
	}
}

// made is a constant computed at import.
func (c *call) made(t *ir.Tensor) *value {
	c.charge(t.Numel())
	return &value{id: ir.NoValue, tensor: t}
}

// foldable reports whether all operands are constants the evaluator works on.
func (c *call) foldable(vs ...*value) bool {
	n := 0
	for _, v := range vs {
		if v == nil {
			continue
		}
		if !v.isConst() || !holdsInts(v.tensor.DType) && !holdsFloats(v.tensor.DType) {
			return false
		}
		if _, ok := v.tensor.Described(); ok {
			return false
		}
		n += v.tensor.Numel()
	}
	if n > maxFold {
		return false
	}
	c.charge(n)
	return c.err == nil
}

// foldBinary applies an element-wise operator with broadcasting; ok is false
// when the shapes or types do not fit or the result is too large.
func foldBinary(a, b *ir.Tensor, ints func(a, b int64) int64, floats func(a, b float64) float64, result ir.DType) (_ *ir.Tensor, ok bool) {
	shape, ok := broadcastShapes(a.Shape, b.Shape)
	if !ok || a.DType != b.DType || ir.Numel(shape) > maxFold {
		return nil, false
	}
	if result == ir.Invalid {
		result = a.DType
	}
	ia, ib := broadcastIndices(a.Shape, shape), broadcastIndices(b.Shape, shape)
	if holdsFloats(a.DType) && floats != nil {
		x, y := float64s(a), float64s(b)
		out := make([]float64, len(ia))
		for i := range out {
			// One float64 operation on float32 values, rounded to float32, is
			// the float32 operation (for + − · /).
			out[i] = floats(x[ia[i]], y[ib[i]])
		}
		return fromFloats(result, shape, out), true
	}
	if !holdsInts(a.DType) || ints == nil {
		return nil, false
	}
	x, y := int64s(a), int64s(b)
	out := make([]int64, len(ia))
	for i := range out {
		out[i] = ints(x[ia[i]], y[ib[i]])
	}
	return fromInts(result, shape, out), true
}
