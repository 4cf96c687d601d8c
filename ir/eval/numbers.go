package eval

import (
	"math"

	"github.com/x448/float16"

	"situ/ir"
)

// codes returns the elements of an integer tensor of at most 32 bits, widened
// into a new slice.
func codes(t *ir.Tensor) []int32 {
	switch d := t.Any().(type) {
	case []int8:
		return convert(make([]int32, len(d)), d)
	case []uint8:
		return convert(make([]int32, len(d)), d)
	case []int16:
		return convert(make([]int32, len(d)), d)
	case []uint16:
		return convert(make([]int32, len(d)), d)
	case []int32:
		return convert(make([]int32, len(d)), d)
	}
	panic("eval: codes of " + t.DType.String())
}

// fromCodes is the inverse of codes; the codes must fit d.
func fromCodes(d ir.DType, shape []int, c []int32) *ir.Tensor {
	out := ir.Zeros(d, shape...)
	switch y := out.Any().(type) {
	case []int8:
		convert(y, c)
	case []uint8:
		convert(y, c)
	case []int16:
		convert(y, c)
	case []uint16:
		convert(y, c)
	case []int32:
		copy(y, c)
	default:
		panic("eval: codes of " + d.String())
	}
	return out
}

// number is the set of Go types a cast converts between.
type number interface {
	integer | float32 | float64
}

func convert[D, S number](dst []D, src []S) []D {
	for i, v := range src {
		dst[i] = D(v)
	}
	return dst
}

// at indexes a list with one entry for all channels or one a channel.
func at[T any](s []T, c int) T {
	if len(s) == 1 {
		return s[0]
	}
	return s[c]
}

// channels describes the quantisation axis of a type: the channel of element i
// is i / inner % count.
func channels(t ir.Type) (count, inner int) {
	if t.Quant == nil || t.Quant.IsPerTensor() {
		return 1, 1
	}
	a := t.Quant.Axis
	return t.Shape[a], ir.Numel(t.Shape[a+1:])
}

// prepareQuantize is ONNX QuantizeLinear: x/scale in float32, rounded half to
// even, plus zero, saturated. NaN becomes the zero point.
func prepareQuantize(n *node) (kernel, error) {
	q, d := n.out.Quant, n.out.DType
	count, inner := channels(n.out)
	lo, hi := d.IntRange()
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x := ir.Data[float32](in[0])
		c := make([]int32, len(x))
		parallelRange(len(x), func(from, to int) {
			for i := from; i < to; i++ {
				ch := 0
				if count > 1 {
					ch = i / inner % count
				}
				c[i] = quantizeOne(x[i]/q.Scale[ch], q.Zero[ch], lo, hi)
			}
		})
		return fromCodes(d, in[0].Shape, c), nil
	}, nil
}

func quantizeOne(v float32, zero int32, lo, hi int64) int32 {
	r := math.RoundToEven(float64(v)) + float64(zero)
	switch {
	case r != r:
		return zero
	case r <= float64(lo):
		return int32(lo)
	case r >= float64(hi):
		return int32(hi)
	}
	return int32(r)
}

// prepareDequantize is (x − zero)·scale: the difference is exact, then rounded
// to float32, then multiplied in float32.
func prepareDequantize(n *node) (kernel, error) {
	q := n.in[0].Quant
	count, inner := channels(n.in[0])
	size := n.in[0].Numel() / max(count, 1) // of a channel
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		c := codes(in[0])
		out := ir.Zeros(ir.F32, in[0].Shape...)
		y := ir.Data[float32](out)
		parallelRange(len(c), func(from, to int) {
			for i := from; i < to; i++ {
				ch := 0
				if count > 1 {
					ch = i / inner % count
				}
				code := int64(c[i]) - int64(q.Zero[ch])
				if q.Block > 0 {
					code <<= q.ShiftOf(ch, i/(inner*count)*inner+i%inner, size)
				}
				y[i] = float32(code) * q.Scale[ch]
			}
		})
		return out, nil
	}, nil
}

func prepareReinterpret(*node) (kernel, error) {
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) { return in[0], nil }, nil
}

func prepareCast(n *node) (kernel, error) {
	d := n.out.DType
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) { return cast(in[0], d), nil }, nil
}

// cast converts element types. Floats become integers by truncation towards
// zero, saturated to the type (NaN becomes 0); integers narrow by dropping high
// bits, except that 4-bit types saturate; floats round half to even, f64 to 16
// bits through f32; bool is whether x differs from 0.
func cast(t *ir.Tensor, d ir.DType) *ir.Tensor {
	if t.DType == d {
		return t
	}
	switch x := t.Any().(type) {
	case []float32:
		return castFloat(x, d, t.Shape)
	case []float64:
		return castFloat(x, d, t.Shape)
	case []uint16:
		if t.DType.IsFloat() {
			return castFloat(widen16(t.DType, x), d, t.Shape)
		}
		return castInt(x, d, t.Shape)
	case []int8:
		return castInt(x, d, t.Shape)
	case []uint8:
		return castInt(x, d, t.Shape)
	case []int16:
		return castInt(x, d, t.Shape)
	case []int32:
		return castInt(x, d, t.Shape)
	case []uint32:
		return castInt(x, d, t.Shape)
	case []int64:
		return castInt(x, d, t.Shape)
	case []uint64:
		return castInt(x, d, t.Shape)
	}
	panic("eval: cast of " + t.DType.String())
}

// widen16 converts f16 or bf16 bit patterns to float32, exactly.
func widen16(d ir.DType, x []uint16) []float32 {
	y := make([]float32, len(x))
	for i, b := range x {
		if d == ir.BF16 {
			y[i] = math.Float32frombits(uint32(b) << 16)
		} else {
			y[i] = float16.Frombits(b).Float32()
		}
	}
	return y
}

// bf16 rounds a float32 to the nearest bf16, halves to even.
func bf16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40 // keep it a NaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func castFloat[S float32 | float64](x []S, d ir.DType, shape []int) *ir.Tensor {
	out := ir.Zeros(d, shape...)
	switch y := out.Any().(type) {
	case []float32:
		convert(y, x)
	case []float64:
		convert(y, x)
	case []uint16:
		switch d {
		case ir.F16:
			for i, v := range x {
				y[i] = float16.Fromfloat32(float32(v)).Bits()
			}
		case ir.BF16:
			for i, v := range x {
				y[i] = bf16(float32(v))
			}
		default:
			truncate(y, x, 0, math.MaxUint16)
		}
	case []int8:
		lo, hi := d.IntRange()
		truncate(y, x, float64(lo), float64(hi))
	case []uint8:
		if d == ir.Bool {
			toBool(y, x)
			break
		}
		_, hi := d.IntRange()
		truncate(y, x, 0, float64(hi))
	case []int16:
		truncate(y, x, math.MinInt16, math.MaxInt16)
	case []int32:
		truncate(y, x, math.MinInt32, math.MaxInt32)
	case []uint32:
		truncate(y, x, 0, math.MaxUint32)
	case []int64:
		truncate64(y, x, math.MinInt64, math.MaxInt64)
	case []uint64:
		truncate64(y, x, 0, math.MaxUint64)
	}
	return out
}

// truncate converts towards zero into [lo, hi], which float64 holds exactly.
func truncate[D integer, S float32 | float64](dst []D, src []S, lo, hi float64) {
	for i, v := range src {
		f := float64(v)
		if f != f {
			f = 0
		}
		dst[i] = D(int64(min(max(f, lo), hi)))
	}
}

// truncate64 is truncate for 64-bit integers, whose largest value float64 does
// not hold.
func truncate64[D int64 | uint64, S float32 | float64](dst []D, src []S, lo, hi D) {
	for i, v := range src {
		switch f := float64(v); {
		case f != f:
			dst[i] = 0
		case f <= float64(lo):
			dst[i] = lo
		case f >= float64(hi):
			dst[i] = hi
		default:
			dst[i] = D(f)
		}
	}
}

func toBool[S number](dst []uint8, src []S) {
	for i, v := range src {
		dst[i] = 0
		if v != 0 {
			dst[i] = 1
		}
	}
}

func castInt[S integer](x []S, d ir.DType, shape []int) *ir.Tensor {
	out := ir.Zeros(d, shape...)
	switch y := out.Any().(type) {
	case []float32:
		convert(y, x)
	case []float64:
		convert(y, x)
	case []uint16:
		if d.IsFloat() {
			return castFloat(convert(make([]float32, len(x)), x), d, shape)
		}
		convert(y, x)
	case []int8:
		if d == ir.I4 {
			saturate(y, x, -8, 7)
			break
		}
		convert(y, x)
	case []uint8:
		switch d {
		case ir.U4:
			saturate(y, x, 0, 15)
		case ir.Bool:
			toBool(y, x)
		default:
			convert(y, x)
		}
	case []int16:
		convert(y, x)
	case []int32:
		convert(y, x)
	case []uint32:
		convert(y, x)
	case []int64:
		convert(y, x)
	case []uint64:
		convert(y, x)
	}
	return out
}

// saturate narrows to [lo, hi], at most 4 bits.
func saturate[D int8 | uint8, S integer](dst []D, src []S, lo, hi int64) {
	for i, v := range src {
		switch {
		case v > 15: // beyond every 4-bit type, whatever S is
			dst[i] = D(hi)
		default:
			dst[i] = D(min(max(int64(v), lo), hi))
		}
	}
}
