package eval

import (
	"math"

	"situ/ir"
)

// sampler is the geometry of one Sample operator.
type sampler struct {
	mode   ir.SampleMode
	edge   ir.SampleEdge
	size   []int // spatial dimensions of x
	c      int   // channels
	points int   // of an image
}

// prepareSample interpolates along each dimension in turn, so that the weight of
// an element is a product of one factor a dimension. Sums are in float64.
func prepareSample(n *node) (kernel, error) {
	a, x := n.op.Attr.(*ir.SampleAttr), n.in[0].Shape
	s := &sampler{mode: a.Mode, edge: a.Edge, size: x[1 : len(x)-1], c: x[len(x)-1],
		points: ir.Numel(n.in[1].Shape[1 : len(n.in[1].Shape)-1])}
	if n.in[0].DType == ir.F64 {
		return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			out := ir.Zeros(ir.F64, n.out.Shape...)
			sample(s, ir.Data[float64](out), ir.Data[float64](in[0]), ir.Data[float64](in[1]), x[0])
			return out, nil
		}, nil
	}
	return narrowFloat(n, func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(ir.F32, n.out.Shape...)
		sample(s, ir.Data[float32](out), ir.Data[float32](in[0]), ir.Data[float32](in[1]), x[0])
		return out, nil
	})
}

// tap is an element along one dimension and its weight.
type tap struct {
	i int
	w float64
}

func sample[T float32 | float64](s *sampler, y, x, at []T, images int) {
	n, image := len(s.size), ir.Numel(s.size)*s.c
	parallelRange(images*s.points, func(from, to int) {
		taps := make([][]tap, n)
		store := make([]tap, 4*n)
		sum := make([]float64, s.c)
		for p := from; p < to; p++ {
			for d := range n {
				taps[d] = s.taps(store[4*d:4*d:4*d+4], float64(at[p*n+d]), s.size[d])
			}
			clear(sum)
			weighted(s, sum, x[p/s.points*image:][:image], taps, 0, 1)
			for c, v := range sum {
				y[p*s.c+c] = T(v)
			}
		}
	})
}

// weighted adds the elements that taps select, times w, to sum.
func weighted[T float32 | float64](s *sampler, sum []float64, x []T, taps [][]tap, at int, w float64) {
	d := len(s.size) - len(taps)
	if len(taps) == 0 {
		for c, v := range x[at*s.c:][:s.c] {
			sum[c] += w * float64(v)
		}
		return
	}
	for _, t := range taps[0] {
		weighted(s, sum, x, taps[1:], at*s.size[d]+t.i, w*t.w)
	}
}

// taps appends the elements of a dimension of n that make coordinate v.
func (s *sampler) taps(list []tap, v float64, n int) []tap {
	const far = 1 << 40 // beyond every dimension, and no less exact than needed
	switch {
	case v != v:
		v = -far
	case s.mode == ir.SampleNearest:
		v = math.RoundToEven(v)
	}
	v = min(max(v, -far), far)
	switch s.edge {
	case ir.SampleBorder:
		v = min(max(v, 0), float64(n-1))
	case ir.SampleMirrorCentres:
		v = mirror(v, 0, float64(n-1))
	case ir.SampleMirrorEdges:
		v = mirror(v, -0.5, float64(n)-0.5)
	}
	base := int(math.Floor(v))
	f := v - math.Floor(v)
	add := func(i int, w float64) {
		if w == 0 {
			return // an infinite element without weight has no part in the sum
		}
		if i < 0 || i >= n {
			switch s.edge {
			case ir.SampleZeros:
				return
			case ir.SampleBorder:
				i = min(max(i, 0), n-1)
			case ir.SampleMirrorCentres:
				i = int(mirror(float64(i), 0, float64(n-1)))
			case ir.SampleMirrorEdges:
				i = int(mirror(float64(i), -0.5, float64(n)-0.5))
			}
		}
		list = append(list, tap{i, w})
	}
	switch s.mode {
	case ir.SampleNearest:
		add(int(math.RoundToEven(v)), 1)
	case ir.SampleLinear:
		add(base, 1-f)
		add(base+1, f)
	default:
		for i := -1; i <= 2; i++ {
			add(base+i, cubicWeight(math.Abs(f-float64(i))))
		}
	}
	return list
}

// cubicWeight is the kernel of cubic convolution with a = −0.75 (Keys 1981) at
// distance d ≤ 2.
func cubicWeight(d float64) float64 {
	const a = -0.75
	if d <= 1 {
		return ((a+2)*d-(a+3))*d*d + 1
	}
	return ((a*d-5*a)*d+8*a)*d - 4*a
}

// mirror reflects v at lo and hi until it lies between them.
func mirror(v, lo, hi float64) float64 {
	span := hi - lo
	if span <= 0 {
		return lo
	}
	if v >= lo && v <= hi {
		return v
	}
	r := math.Mod(math.Abs(v-lo), 2*span) // the image repeats every 2·span
	if r > span {
		r = 2*span - r
	}
	return lo + r
}
