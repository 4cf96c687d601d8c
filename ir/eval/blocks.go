package eval

import (
	"slices"

	"situ/ir"
)

// Weights in blocks are codes · 2^shift. Their products are summed in 32 bits, as
// those of other weights, wrapping: what the blocks of a channel give is shifted
// before it is added up, which is the same as shifting the weights.

// withShifts returns codes of weights of type t with the shifts of their blocks.
func withShifts(codes []int32, t ir.Type) []int32 {
	q := t.Quant
	if q.Block == 0 {
		return codes
	}
	out := slices.Clone(codes)
	eachShift(t, func(i int, s uint8) { out[i] <<= s })
	return out
}

// eachShift calls f with the offset of every code of t, which has blocks, and the
// shift of its block.
func eachShift(t ir.Type, f func(i int, s uint8)) {
	q, n := t.Quant, t.Numel()
	count, inner := channels(t)
	size := n / count
	for i := range n {
		f(i, q.ShiftOf(i/inner%count, i/(inner*count)*inner+i%inner, size))
	}
}

// plane is the packed weights of all blocks with one shift, zero elsewhere.
type plane[T any] struct {
	shift uint8
	w     T
}

// planesOf splits weights of quantisation q by the shifts of their blocks and packs
// each part; without blocks there is one. It returns nil when pack does.
func planesOf[T interface{ *packedI8 | []*packedI8 }](w *ir.Tensor, q *ir.Quant, pack func(*ir.Tensor) T) []plane[T] {
	if q.Block == 0 {
		if p := pack(w); p != nil {
			return []plane[T]{{0, p}}
		}
		return nil
	}
	shifts := slices.Clone(q.Shift)
	slices.Sort(shifts)
	var planes []plane[T]
	for _, s := range slices.Compact(shifts) {
		part := slices.Clone(ir.Data[int8](w))
		eachShift(w.Type().WithQuant(q), func(i int, of uint8) {
			if of != s {
				part[i] = 0
			}
		})
		p := pack(ir.NewTensor(w.DType, w.Shape, part))
		if p == nil {
			return nil
		}
		planes = append(planes, plane[T]{s, p})
	}
	return planes
}

// sumPlanes adds up what mul gives for each plane, shifted, in n sums.
func sumPlanes[T any](planes []plane[T], n int, mul func(acc []int32, w T)) []int32 {
	acc := make([]int32, n)
	for i, p := range planes {
		part := acc
		if i > 0 {
			part = make([]int32, n)
		}
		mul(part, p.w)
		if i == 0 && p.shift == 0 {
			continue
		}
		parallelRange(n, func(from, to int) {
			for j, v := range part[from:to] {
				if i == 0 {
					acc[from+j] = v << p.shift
				} else {
					acc[from+j] += v << p.shift
				}
			}
		})
	}
	return acc
}
