package pim

import (
	"situ/arch"
	"situ/backend/pim/isa"
)

// window is the geometry of a sliding window over rows and columns.
type window struct {
	kernel, stride, dilation [2]int
	pad                      [2]int // above, left
	in                       dims   // of the operand
}

// span returns the rows (axis 0) or columns (axis 1) of the operand that the
// result's [lo, hi) need, border included.
func (w *window) span(axis, lo, hi int) (int, int) {
	first := lo*w.stride[axis] - w.pad[axis]
	last := (hi-1)*w.stride[axis] - w.pad[axis] + w.dilation[axis]*(w.kernel[axis]-1)
	return first, last + 1
}

// over returns the operand's box for a result's box, channels as they are.
func (w *window) over(out box) box {
	if out.empty() {
		return box{}
	}
	for axis := range 2 {
		lo, hi := w.span(axis, out.lo[1+axis], out.hi[1+axis])
		out = out.along(1+axis, lo, hi)
	}
	return out
}

// pool is a maximum or mean over windows. Windows are clipped to the operand.
type pool struct {
	window
	mean     bool
	mults    []byte // multipliers and shifts of the mean
	perCount int64  // 1: an entry of mults for each divisor
	counted  [4]int // border above, left, below, right that counts in the divisor
	zx, zy   int64
}

// need is clipped to the operand; of windows that lie wholly beside it, it holds
// the nearest row or column.
func (k *pool) need(_ int, out box) box {
	b := k.over(out)
	for axis := 1; axis < 3 && !b.empty(); axis++ {
		lo := min(max(b.lo[axis], 0), k.in[axis]-1)
		b = b.along(axis, lo, max(min(b.hi[axis], k.in[axis]), lo+1))
	}
	return b
}

func (k *pool) cuts() [4]bool     { return allCuts }
func (k *pool) params(box) []byte { return k.mults }

func (k *pool) cycles(c *arch.Chip, out box) int64 {
	taps := int64(k.kernel[0] * k.kernel[1])
	ops := taps
	if k.mean {
		ops += opsMean
	}
	n, ch := places(out)
	run := ceilDiv(ch, c.Scratchpad.ReadBytes.Int())
	return vectorCycles(c, n*ch*ops, n*taps*run, n*run)
}

func (k *pool) emit(e *emitter, out box, dst view, src []view) {
	s := src[0]
	for n := out.lo[0]; n < out.hi[0]; n++ {
		need := k.need(0, out.along(0, n, n+1))
		from := need.lo
		args := []int64{dst.at(dims{n, out.lo[1], out.lo[2], out.lo[3]}), s.at(from)}
		if k.mean {
			args = append(args, e.params)
		}
		args = append(args, int64(out.ext(1)), int64(out.ext(2)), int64(out.ext(3)), dst.st[1], dst.st[2], s.st[1], s.st[2],
			int64(k.kernel[0]), int64(k.kernel[1]), int64(k.stride[0]), int64(k.stride[1]), int64(k.dilation[0]), int64(k.dilation[1]),
			int64(out.lo[1]*k.stride[0]-k.pad[0]-from[1]), int64(out.lo[2]*k.stride[1]-k.pad[1]-from[2]),
			int64(need.hi[1]-from[1]), int64(need.hi[2]-from[2]))
		if !k.mean {
			e.emit(isa.OpMaxPool, args...)
			continue
		}
		// Only a part that touches the operand's edge can reach the border
		// behind it.
		below, right := k.counted[2], k.counted[3]
		if need.hi[1] < k.in[1] {
			below = 0
		}
		if need.hi[2] < k.in[2] {
			right = 0
		}
		e.emit(isa.OpAvgPool, append(args, int64(k.counted[0]), int64(k.counted[1]), int64(below), int64(right),
			k.perCount, k.zx, k.zy, 0, 255)...)
	}
}

// depthwise is a convolution of each channel by itself, requantised.
type depthwise struct {
	window
	w            []byte // int8 [kh·kw][c]
	rq           requants
	zero, lo, hi int64
}

func (k *depthwise) need(_ int, out box) box { return k.over(out) }
func (k *depthwise) cuts() [4]bool           { return [4]bool{true, true, true, false} }
func (k *depthwise) grain() int              { return 4 }

func (k *depthwise) cycles(c *arch.Chip, out box) int64 {
	taps := int64(k.kernel[0] * k.kernel[1])
	n, ch := places(out)
	run := ceilDiv(ch, c.Scratchpad.ReadBytes.Int())
	return vectorCycles(c, n*ch*opsRequant+n*ch*taps/c.Vector.MACsPerLane.Int(), n*taps*run, n*run)
}

// params is the weights of the part's channels, then their requantisation.
func (k *depthwise) params(out box) []byte {
	c := k.in[3]
	var b []byte
	for t := 0; t < k.kernel[0]*k.kernel[1]; t++ {
		b = append(b, k.w[t*c+out.lo[3]:t*c+out.hi[3]]...)
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return append(b, k.rq.bytes(out.lo[3], out.hi[3])...)
}

func (k *depthwise) emit(e *emitter, out box, dst view, src []view) {
	s := src[0]
	c := int64(out.ext(3))
	params := e.params + roundUp(int64(k.kernel[0]*k.kernel[1])*c, 4)
	for n := out.lo[0]; n < out.hi[0]; n++ {
		from := k.over(out).lo
		from[0] = n
		e.emit(isa.OpDepthwise, dst.at(dims{n, out.lo[1], out.lo[2], out.lo[3]}), s.at(from), e.params, params,
			int64(out.ext(1)), int64(out.ext(2)), c, dst.st[1], dst.st[2], s.st[1], s.st[2],
			int64(k.kernel[0]), int64(k.kernel[1]), int64(k.stride[0]), int64(k.stride[1]), int64(k.dilation[0]), int64(k.dilation[1]),
			k.zero, k.lo, k.hi)
	}
}

// requants are the per-channel constants of a requantisation.
type requants struct {
	bias, mult []int32
	shift      []uint8
	known      map[[2]int][]byte // see bytes
}

// mostRequants bounds of how many ranges of channels the bytes are kept.
const mostRequants = 64

// bytes returns channels [lo, hi) as the machine reads them: biases, multipliers
// and shifts. They must not be changed.
func (r *requants) bytes(lo, hi int) []byte {
	if b := r.known[[2]int{lo, hi}]; b != nil {
		return b
	}
	b := make([]byte, 0, 12*(hi-lo))
	b = int32s(b, r.bias[lo:hi]...)
	b = int32s(b, r.mult[lo:hi]...)
	for _, s := range r.shift[lo:hi] {
		b = int32s(b, int32(s))
	}
	if r.known == nil || len(r.known) >= mostRequants {
		r.known = map[[2]int][]byte{}
	}
	r.known[[2]int{lo, hi}] = b
	return b
}
