package vecf32

import (
	"fmt"
	"math"
)

// RedOp is a reduction.
type RedOp uint8

// Reductions.
const (
	ReduceSum RedOp = iota
	ReduceMean
	ReduceMax
	ReduceMin
	ReduceProd
	NumRedOps
)

var redNames = [NumRedOps]string{"reducesum", "reducemean", "reducemax", "reducemin", "reduceprod"}

// String returns the reduction's name, such as "reducesum".
func (op RedOp) String() string {
	if op < NumRedOps {
		return redNames[op]
	}
	return fmt.Sprintf("redop(%d)", uint8(op))
}

// Float is the set of element types that reductions and softmax take.
type Float interface{ float32 | float64 }

// chunk is how many results a reduction holds in registers or level-1 cache.
const chunk = 64

// Reduce reduces x, of the given shape, over axes (ascending). dst holds the
// remaining dimensions in row-major order, one element when none remain. Sums
// and means accumulate in float64, in row-major order. The sum of nothing is 0,
// its mean NaN, its maximum −Inf, its minimum +Inf and its product 1.
func Reduce[T Float](op RedOp, dst, x []T, shape, axes []int) {
	kept, red := splitAxes(shape, axes)
	n := 1
	for _, d := range red {
		n *= d.n
	}
	// Results along the innermost kept dimension are computed a chunk at a time.
	last := dim{n: 1, stride: 1}
	if len(kept) > 0 {
		last, kept = kept[len(kept)-1], kept[:len(kept)-1]
	}
	var acc [chunk]float64
	out := 0
	eachOffset(kept, func(base int) {
		for j := 0; j < last.n; j += chunk {
			a := acc[:min(chunk, last.n-j)]
			reduceChunk(op, a, x, base+j*last.stride, last.stride, red)
			for i, v := range a {
				if op == ReduceMean {
					v /= float64(n)
				}
				dst[out+i] = T(v)
			}
			out += len(a)
		}
	})
}

// reduceChunk reduces len(acc) results whose operands start at base, stride apart.
func reduceChunk[T Float](op RedOp, acc []float64, x []T, base, stride int, red []dim) {
	init := 0.0
	switch op {
	case ReduceMax:
		init = math.Inf(-1)
	case ReduceMin:
		init = math.Inf(1)
	case ReduceProd:
		init = 1
	}
	for i := range acc {
		acc[i] = init
	}
	eachOffset(red, func(off int) {
		p := base + off
		for i := range acc {
			v := float64(x[p])
			p += stride
			switch op {
			case ReduceMax:
				acc[i] = max(acc[i], v)
			case ReduceMin:
				acc[i] = min(acc[i], v)
			case ReduceProd:
				acc[i] *= v
			default:
				acc[i] += v
			}
		}
	})
}

type dim struct{ n, stride int }

// splitAxes divides the dimensions of a row-major shape into those kept and
// those reduced, outermost first, adjacent ones merged.
func splitAxes(shape, axes []int) (kept, red []dim) {
	isRed := make([]bool, len(shape))
	for _, a := range axes {
		isRed[a] = true
	}
	stride := 1
	strides := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = stride
		stride *= shape[i]
	}
	add := func(ds []dim, n, stride int) []dim {
		if k := len(ds) - 1; k >= 0 && ds[k].stride == n*stride {
			ds[k] = dim{ds[k].n * n, stride}
			return ds
		}
		return append(ds, dim{n, stride})
	}
	for i, n := range shape {
		if isRed[i] {
			red = add(red, n, strides[i])
		} else {
			kept = add(kept, n, strides[i])
		}
	}
	return kept, red
}

// eachOffset calls f with the offset of every index of dims, row-major; once
// with 0 when there are none.
func eachOffset(dims []dim, f func(off int)) {
	switch len(dims) {
	case 0:
		f(0)
	case 1:
		for i, off := 0, 0; i < dims[0].n; i++ {
			f(off)
			off += dims[0].stride
		}
	default:
		for i, off := 0, 0; i < dims[0].n; i++ {
			eachOffset(dims[1:], func(o int) { f(off + o) })
			off += dims[0].stride
		}
	}
}

// Softmax sets dst = e^(x−m) / Σ e^(x−m) along axis, with m the maximum.
func Softmax[T Float](dst, x []T, shape []int, axis int) {
	eachLane(shape, axis, func(base, n, stride int) {
		m, sum := lane(x, base, n, stride)
		for i, p := 0, base; i < n; i, p = i+1, p+stride {
			dst[p] = T(math.Exp(float64(x[p])-m) / sum)
		}
	})
}

// LogSoftmax sets dst = x − m − ln Σ e^(x−m) along axis, with m the maximum.
func LogSoftmax[T Float](dst, x []T, shape []int, axis int) {
	eachLane(shape, axis, func(base, n, stride int) {
		m, sum := lane(x, base, n, stride)
		l := math.Log(sum)
		for i, p := 0, base; i < n; i, p = i+1, p+stride {
			dst[p] = T(float64(x[p]) - m - l)
		}
	})
}

// lane returns the maximum of a lane and Σ e^(x−m).
func lane[T Float](x []T, base, n, stride int) (m, sum float64) {
	m = math.Inf(-1)
	for i, p := 0, base; i < n; i, p = i+1, p+stride {
		m = max(m, float64(x[p]))
	}
	for i, p := 0, base; i < n; i, p = i+1, p+stride {
		sum += math.Exp(float64(x[p]) - m)
	}
	return m, sum
}

// eachLane calls f for every lane along axis: its first offset, its length and
// the distance between its elements.
func eachLane(shape []int, axis int, f func(base, n, stride int)) {
	outer, n, stride := split3(shape, axis)
	for o := range outer {
		for i := range stride {
			f(o*n*stride+i, n, stride)
		}
	}
}

// split3 views shape as [outer, n, inner] around axis.
func split3(shape []int, axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for _, d := range shape[:axis] {
		outer *= d
	}
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	return outer, shape[axis], inner
}

// LRN is local response normalisation along axis, as ONNX LRN defines it:
//
//	dst[c] = x[c] / (bias + alpha/size · Σ x²)^beta
//
// summed over c−⌊(size−1)/2⌋ … c+⌈(size−1)/2⌉ within the axis. dst and x must
// not overlap.
func LRN(dst, x []float32, shape []int, axis, size int, alpha, beta, bias float32) {
	before, after := (size-1)/2, size/2
	a := float64(alpha) / float64(size)
	outer, n, inner := split3(shape, axis)
	for o := range outer {
		for i := range inner {
			base := o*n*inner + i
			for c := range n {
				sum := 0.0
				for k := max(0, c-before); k <= min(n-1, c+after); k++ {
					v := float64(x[base+k*inner])
					sum += v * v
				}
				p := base + c*inner
				// The conversion keeps the product from being fused into the sum.
				d := math.Pow(float64(bias)+float64(a*sum), float64(beta))
				dst[p] = float32(float64(x[p]) / d)
			}
		}
	}
}
