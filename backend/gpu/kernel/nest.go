package kernel

import "slices"

// Nest is a loop nest over the elements of a tensor together with where each
// operand's elements lie: element (i0, i1, …) of operand p is at
// Base[p] + Σ i·Stride[p]. Operand 0 is the result.
type Nest struct {
	Dims   []int
	Base   []int
	Stride [][]int // by operand, then dimension
}

// NewNest merges neighbouring dimensions that every operand walks as one and
// drops those of length 1.
func NewNest(dims []int, base []int, stride ...[]int) Nest {
	n := Nest{Base: slices.Clone(base), Stride: make([][]int, len(stride))}
	for d, size := range dims {
		if size == 1 {
			continue
		}
		last := len(n.Dims) - 1
		merge := last >= 0
		for p := range stride {
			merge = merge && n.Stride[p][last] == size*stride[p][d]
		}
		if merge {
			n.Dims[last] *= size
		} else {
			n.Dims = append(n.Dims, size)
		}
		for p := range stride {
			if merge {
				n.Stride[p][last] = stride[p][d]
			} else {
				n.Stride[p] = append(n.Stride[p], stride[p][d])
			}
		}
	}
	if len(n.Dims) == 0 {
		n.Dims = []int{1}
		for p := range stride {
			n.Stride[p] = []int{0}
		}
	}
	return n
}

// RowMajor returns the strides of a dense tensor.
func RowMajor(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// Broadcast returns the strides with which an operand of a shape is walked by the
// dimensions of a result of another, NumPy's way.
func Broadcast(shape, result []int) []int {
	s := make([]int, len(result))
	for i, st := range RowMajor(shape) {
		if shape[i] != 1 {
			s[len(s)-len(shape)+i] = st
		}
	}
	return s
}

// Size is the number of elements.
func (n Nest) Size() int {
	size := 1
	for _, d := range n.Dims {
		size *= d
	}
	return size
}

// multiples reports whether the element at every index of operand p is at a multiple
// of some number.
func (n Nest) multiples(p, of int) bool {
	return n.Base[p]%of == 0 && !slices.ContainsFunc(n.Stride[p], func(s int) bool { return s%of != 0 })
}

// grouped returns the nest over groups of g neighbours of the last dimension, and
// whether it exists: all operands walk that dimension by 1, or stand still, and
// groups start at multiples of g. Strides stay in elements.
func (n Nest) grouped(g int) (Nest, bool) {
	last := len(n.Dims) - 1
	if n.Dims[last]%g != 0 {
		return n, false
	}
	out := Nest{Dims: slices.Clone(n.Dims), Base: n.Base, Stride: make([][]int, len(n.Stride))}
	out.Dims[last] /= g
	for p, stride := range n.Stride {
		s := slices.Clone(stride)
		out.Stride[p] = s
		if s[last] == 0 && p > 0 {
			continue
		}
		if s[last] != 1 || n.Base[p]%g != 0 || slices.ContainsFunc(s[:last], func(v int) bool { return v%g != 0 }) {
			return n, false
		}
		s[last] = g
	}
	return out, true
}

// offsets returns where element i of the nest, counted row-major, lies for each
// operand, in elements.
func (k *fn) offsets(n Nest, i val) []val {
	c := k.split(i, n.Dims...)
	out := make([]val, len(n.Stride))
	for p, stride := range n.Stride {
		o := k.i32(n.Base[p])
		for d, s := range stride {
			o = k.add(k.mul(c[d], s), o)
		}
		out[p] = o
	}
	return out
}
