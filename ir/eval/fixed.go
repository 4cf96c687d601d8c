package eval

import (
	"errors"
	"math"

	"situ/internal/fixed"
	"situ/internal/vecf32"
	"situ/ir"
)

// code8 is how a quantised 8-bit type appears to internal/fixed, which works on
// unsigned codes: an int8 code and its zero point have 128 added.
type code8 struct {
	scale  float64
	zero   int32 // unsigned
	offset int32 // 128 for int8, 0 for uint8
	lo, hi byte  // the unsigned codes an activation allows
}

// newCode8 describes t, narrowed to the codes of act, which may be nil. The type
// rules of the IR have seen to it that t has 8 bits and a single scale.
func newCode8(t ir.Type, act *ir.Act) code8 {
	min, max := t.DType.IntRange()
	c := code8{scale: float64(t.Quant.Scale[0]), offset: int32(-min)}
	c.zero = t.Quant.Zero[0] + c.offset
	lo, hi := min, max
	if act != nil {
		lo, hi = code(float64(act.Lo), t), code(float64(act.Hi), t)
	}
	c.lo, c.hi = byte(lo-min), byte(hi-min)
	return c
}

// prepareFixedBinary is add, sub and mul on codes, by the definitions of
// internal/fixed for one pair of elements.
func prepareFixedBinary(op vecf32.BinOp, n *node) (kernel, error) {
	a, b, y := newCode8(n.in[0], nil), newCode8(n.in[1], nil), newCode8(n.out, actOf(n.op.Attr))
	var f func(a, b byte) byte
	switch op {
	case vecf32.Add, vecf32.Sub:
		sb := b.scale
		if op == vecf32.Sub {
			sb = -sb
		}
		p, err := fixed.NewAdd(a.scale, sb, y.scale, a.zero, b.zero, y.zero, y.lo, y.hi)
		if err != nil {
			return nil, err
		}
		f = p.Add
	case vecf32.Mul:
		p, err := fixed.NewMul(a.scale, b.scale, y.scale, a.zero, b.zero, y.zero, y.lo, y.hi)
		if err != nil {
			return nil, err
		}
		f = p.Mul
	default:
		return nil, errors.New("has no fixed-point form")
	}
	shape := n.out.Shape
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		ca, cb := codes(in[0]), codes(in[1])
		c := make([]int32, ir.Numel(shape))
		vecf32.EachRow(shape, in[0].Shape, in[1].Shape, func(r vecf32.Row) {
			parallelRange(r.N, func(from, to int) {
				for i := from; i < to; i++ {
					v := f(byte(ca[r.A+i*r.StrideA]+a.offset), byte(cb[r.B+i*r.StrideB]+b.offset))
					c[r.Dst+i] = int32(v) - y.offset
				}
			})
		})
		return fromCodes(n.out.DType, shape, c), nil
	}, nil
}

// prepareFixedSoftmax is softmax along the last axis on codes.
func prepareFixedSoftmax(n *node) (kernel, error) {
	x, y := newCode8(n.in[0], nil), newCode8(n.out, nil)
	p, err := fixed.NewSoftmax(x.scale, y.scale, y.zero, y.lo, y.hi)
	if err != nil {
		return nil, err
	}
	shape := n.out.Shape
	size := shape[len(shape)-1]
	if size > fixed.MaxSoftmax {
		return nil, errors.New("the axis is too long for fixed point")
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		c := codes(in[0])
		row := make([]byte, size)
		for i := 0; i < len(c); i += size {
			for j := range row {
				row[j] = byte(c[i+j] + x.offset)
			}
			fixed.Softmax(row, row, &p)
			for j, v := range row {
				c[i+j] = int32(v) - y.offset
			}
		}
		return fromCodes(n.out.DType, shape, c), nil
	}, nil
}

// rescale is how a sum of codes less their zero points becomes a code: zero +
// round(sum·m), limited to lo..hi.
type rescale struct {
	m      fixed.Multiplier
	zero   int32
	lo, hi int64
}

// newRescale returns the rescaling of sums worth real each to t.
func newRescale(real float64, t ir.Type, act *ir.Act) (rescale, error) {
	r := rescale{zero: t.Quant.Zero[0]}
	r.lo, r.hi = t.DType.IntRange()
	if act != nil {
		r.lo, r.hi = code(float64(act.Lo), t), code(float64(act.Hi), t)
	}
	var err error
	r.m, err = fixed.NewMultiplier(real)
	return r, err
}

func (r *rescale) code(sum int32) int32 {
	v := int64(fixed.Requantise(sum, r.m)) + int64(r.zero)
	return int32(min(max(v, r.lo), r.hi))
}

// prepareRequantize rescales each code less its zero point.
func prepareRequantize(n *node) (kernel, error) {
	q, sy := n.in[0].Quant, float64(n.out.Quant.Scale[0])
	rs := make([]rescale, len(q.Scale))
	for i, s := range q.Scale {
		r, err := newRescale(float64(s)/sy, n.out, nil)
		if err != nil {
			return nil, err
		}
		rs[i] = r
	}
	count, inner := channels(n.in[0])
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		c := codes(in[0])
		parallelRange(len(c), func(from, to int) {
			for i := from; i < to; i++ {
				ch := 0
				if count > 1 {
					ch = i / inner % count
				}
				c[i] = rs[ch].code(c[i] - q.Zero[ch])
			}
		})
		return fromCodes(n.out.DType, in[0].Shape, c), nil
	}, nil
}

// prepareFixedReduce is the sum or mean of codes: the sum less the zero points,
// rescaled by sx/(sy·n) with n the number of elements for a mean, 1 for a sum.
func prepareFixedReduce(op vecf32.RedOp, n *node) (kernel, error) {
	count := n.in[0].Numel() / n.out.Numel()
	div := 1
	if op == vecf32.ReduceMean {
		div = count
	}
	if count > math.MaxInt32/255 {
		return nil, errors.New("reduces more elements than a 32-bit sum of codes can hold")
	}
	sx, zx := n.in[0].Quant.Scale[0], n.in[0].Quant.Zero[0]
	r, err := newRescale(meanScale(sx, n.out.Quant.Scale[0], div), n.out, nil)
	if err != nil {
		return nil, err
	}
	each := reduceIndex(n.in[0].Shape, n.op.Attr.(*ir.ReduceAttr).Axes)
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x := codes(in[0])
		acc := make([]int32, n.out.Numel())
		each(func(i, o int) { acc[o] += x[i] - zx })
		for i, v := range acc {
			acc[i] = r.code(v)
		}
		return fromCodes(n.out.DType, n.out.Shape, acc), nil
	}, nil
}

// meanScale is what one unit of a sum of codes of scale sx is worth in codes of
// scale sy after division by n.
func meanScale(sx, sy float32, n int) float64 {
	return float64(sx) / (float64(sy) * float64(n))
}

// prepareFixedAvgPool is the mean of each window of codes. Padding that counts
// is real zero, so it enlarges the divisor only.
func prepareFixedAvgPool(n *node, w *vecf32.Window) (kernel, error) {
	if w.Kernel[0]*w.Kernel[1] > math.MaxInt32/255 {
		return nil, errors.New("pools more elements than a 32-bit sum of codes can hold")
	}
	zx := n.in[0].Quant.Zero[0]
	rs := make(map[int]*rescale)
	for _, d := range w.Divisors() {
		r, err := newRescale(meanScale(n.in[0].Quant.Scale[0], n.out.Quant.Scale[0], d), n.out, nil)
		if err != nil {
			return nil, err
		}
		rs[d] = &r
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x := codes(in[0])
		c := make([]int32, n.out.Numel())
		w.Each(func(out, y0, x0, base int) {
			acc := c[out : out+w.C]
			w.EachTap(y0, x0, base, func(p int) {
				for i := range acc {
					acc[i] += x[p+i] - zx
				}
			})
			r := rs[w.Divisor(y0, x0)]
			for i, v := range acc {
				acc[i] = r.code(v)
			}
		})
		return fromCodes(n.out.DType, n.out.Shape, c), nil
	}, nil
}
