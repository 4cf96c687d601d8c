package pim

import (
	"situ/arch"
	"situ/backend/pim/isa"
	"situ/internal/vecf32"
)

// maxPoolF is a maximum of float32 over windows: for each tap of the kernel one
// maximum of two operands, over the places where the tap lies within the operand.
type maxPoolF struct {
	window
	noParams
}

// strip is places [lo, hi) along an axis whose first tap within the operand is tap.
type strip struct{ lo, hi, tap int }

// strips divides places [lo, hi) of an axis; it is nil when a window lies wholly
// beside the operand.
func (k *maxPoolF) strips(axis, lo, hi int) []strip {
	var list []strip
	d := k.dilation[axis]
	for p := lo; p < hi; p++ {
		at := p*k.stride[axis] - k.pad[axis]
		tap := (max(-at, 0) + d - 1) / d
		if tap >= k.kernel[axis] || at+tap*d >= k.in[1+axis] {
			return nil
		}
		if n := len(list); n > 0 && list[n-1].tap == tap {
			list[n-1].hi = p + 1
		} else {
			list = append(list, strip{p, p + 1, tap})
		}
	}
	return list
}

// fits reports whether every window of a result of the given shape has a tap within
// the operand.
func (k *maxPoolF) fits(out []int) bool {
	return k.strips(0, 0, out[1]) != nil && k.strips(1, 0, out[2]) != nil
}

func (k *maxPoolF) need(_ int, out box) box { return k.over(out).and(whole(k.in)) }

func (k *maxPoolF) cuts() [4]bool { return allCuts }

func (k *maxPoolF) cycles(c *arch.Chip, out box) int64 {
	return int64(k.kernel[0]*k.kernel[1]) * f32Cycles(c, out.numel(), 2)
}

func (k *maxPoolF) emit(e *emitter, out box, dst view, src []view) {
	for _, y := range k.strips(0, out.lo[1], out.hi[1]) {
		for _, x := range k.strips(1, out.lo[2], out.hi[2]) {
			k.tap(e, [2]int{y.tap, x.tap}, out.along(1, y.lo, y.hi).along(2, x.lo, x.hi), dst, src[0], true)
		}
	}
	for y := range k.kernel[0] {
		for x := range k.kernel[1] {
			k.tap(e, [2]int{y, x}, out, dst, src[0], false)
		}
	}
}

// tap takes one tap into the result, where it lies within the operand; the first one
// alone is the result.
func (k *maxPoolF) tap(e *emitter, tap [2]int, out box, dst, src view, first bool) {
	steps, from := src.st, out.lo
	for axis := range 2 {
		d, stride := 1+axis, k.stride[axis]
		off := tap[axis]*k.dilation[axis] - k.pad[axis]
		// Places p with 0 ≤ p·stride + off < in.
		lo, hi := (max(-off, 0)+stride-1)/stride, (max(k.in[d]-off, 0)+stride-1)/stride
		out = out.along(d, max(out.lo[d], lo), min(out.hi[d], hi))
		from[d] = out.lo[d]*stride + off
		steps[d] *= int64(stride)
	}
	if out.empty() {
		return
	}
	to, at := dst.at(out.lo), src.at(from)
	args := []int64{int64(vecf32.Max), to, at, to}
	old := dst.st
	if first {
		args[3], old = at, steps
	}
	for d := range 4 {
		args = append(args, int64(out.ext(d)), dst.st[d], steps[d], old[d])
	}
	e.emit(isa.OpBinaryF, args...)
}
