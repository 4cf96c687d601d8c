package fixed

import "fmt"

// Depthwise computes one pixel of a depthwise convolution,
//
//	acc[c] = Σ_t a[taps[t]+c] · w[t·C+c],  C = len(acc),
//
// wrapping at 32 bits. taps are byte offsets into a. It panics when an operand
// is too short or a tap leaves a.
func Depthwise(acc []int32, a []byte, taps []int32, w []int8) {
	row := [1]int32{}
	DepthwiseRows(acc, len(acc), a, row[:], taps, len(acc), w)
}

// DepthwiseRows is Depthwise for several pixels that share the weights: pixel i
// reads a[rows[i]+taps[t]+ch] and writes acc[i·accStride+ch] for ch < c. The
// weights are rearranged once a call, so it pays to give it a row of pixels.
func DepthwiseRows(acc []int32, accStride int, a []byte, rows, taps []int32, c int, w []int8) {
	if len(rows) == 0 || c <= 0 {
		return
	}
	if len(rows) > 1 && accStride < c || !fits(len(rows), accStride, c, len(acc)) || len(taps)*c > len(w) {
		panic(fmt.Sprintf("fixed: %d pixels of %d channels and %d taps do not fit acc (%d, %d apart) and w (%d)",
			len(rows), c, len(taps), len(acc), accStride, len(w)))
	}
	if len(taps) == 0 {
		for i := range rows {
			clear(acc[i*accStride : i*accStride+c])
		}
		return
	}
	rlo, rhi := span(rows)
	tlo, thi := span(taps)
	if rlo+tlo < 0 || rhi+thi+c > len(a) {
		panic(fmt.Sprintf("fixed: pixels at %d..%d with taps at %d..%d of %d channels leave the %d bytes of a", rlo, rhi, tlo, thi, c, len(a)))
	}
	depthwise(acc, accStride, a, rows, taps, c, w)
}

// span returns the least and the greatest element of a non-empty list.
func span(v []int32) (lo, hi int) {
	l, h := v[0], v[0]
	for _, x := range v[1:] {
		l, h = min(l, x), max(h, x)
	}
	return int(l), int(h)
}
