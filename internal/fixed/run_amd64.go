package fixed

import "unsafe"

// Each function here runs one kernel at the active level. The AVX-512 kernels
// mask their tails; the AVX2 kernels take whole vectors, and the portable code
// does the rest. Without AVX-512 mul, LUT and quantise are portable.

func requantise(dst []byte, dstStride int, acc []int32, accStride, rows, cols int, bias, mult []int32, shift []uint8, zp int32, lo, hi byte) {
	p := reqArgs{
		dst: unsafe.Pointer(&dst[0]), acc: unsafe.Pointer(&acc[0]), dstStride: dstStride, accStride: 4 * accStride,
		rows: rows, mult: unsafe.Pointer(&mult[0]), shift: unsafe.Pointer(&shift[0]),
		zp: int64(zp), lo: int64(lo), hi: int64(hi),
	}
	whole, width := 0, 8 // what the kernel computes, of which it takes width at a time
	switch active {
	case isaAVX512:
		whole, width = cols, lanes
	case isaAVX2:
		whole = cols &^ 7
	}
	repeats := len(mult) == lanes && cols > lanes
	if !repeats {
		p.multStep, p.shiftStep = 4*width, width
	}
	var zero [lanes]int32
	p.bias = unsafe.Pointer(&zero)
	if bias != nil {
		p.bias, p.biasStep = unsafe.Pointer(&bias[0]), 4*width
	}
	if p.cols = whole; whole > 0 {
		if active == isaAVX512 {
			requantise512(&p)
		} else {
			requantise256(&p)
		}
	}
	if whole == cols {
		return
	}
	if bias != nil {
		bias = bias[whole:]
	}
	if !repeats {
		mult, shift = mult[whole:], shift[whole:]
	}
	requantisePortable(dst[whole:], dstStride, acc[whole:], accStride, rows, cols-whole, bias, mult, shift, zp, lo, hi)
}

func addU8(dst, a, b []byte, p *AddParams) {
	q := addArgs{
		ma: p.MA, mb: p.MB, offset: 1<<(p.Shift-1) - p.ZA*p.MA - p.ZB*p.MB,
		shift: int32(p.Shift), low: 1<<p.Shift - 1, zy: p.ZY, lo: int32(p.Lo), hi: int32(p.Hi),
	}
	whole := 0
	switch active {
	case isaAVX512:
		add512(&dst[0], &a[0], &b[0], len(dst), &q)
		return
	case isaAVX2:
		if whole = len(dst) &^ 7; whole > 0 {
			add256(&dst[0], &a[0], &b[0], whole, &q)
		}
	}
	addPortable(dst[whole:], a[whole:], b[whole:], p)
}

func mulU8(dst, a, b []byte, p *MulParams) {
	if active != isaAVX512 {
		mulPortable(dst, a, b, p)
		return
	}
	q := mulArgs{
		za: p.ZA, zb: p.ZB, m: int64(p.M.M), shift: int64(p.M.Shift), half: 1 << (p.M.Shift - 1), low: 1<<p.M.Shift - 1,
		zy: int64(p.ZY), lo: int64(p.Lo), hi: int64(p.Hi),
	}
	mul512(&dst[0], &a[0], &b[0], len(dst), &q)
}

func lut(dst, src []byte, t *[256]byte) {
	if active != isaAVX512 {
		lutPortable(dst, src, t)
		return
	}
	lut512(&dst[0], &src[0], len(dst), t)
}

func maxU8(dst, src []byte) {
	whole := 0
	switch active {
	case isaAVX512:
		max512(&dst[0], &src[0], len(dst))
		return
	case isaAVX2:
		if whole = len(dst) &^ 31; whole > 0 {
			max256(&dst[0], &src[0], whole)
		}
	}
	maxPortable(dst[whole:], src[whole:])
}

func sumU8(acc []int32, src []byte) {
	whole := 0
	switch active {
	case isaAVX512:
		sum512(&acc[0], &src[0], len(acc))
		return
	case isaAVX2:
		if whole = len(acc) &^ 7; whole > 0 {
			sum256(&acc[0], &src[0], whole)
		}
	}
	sumPortable(acc[whole:], src[whole:])
}

func quantiseU8(dst []byte, src []float32, scale float32, zp int32) {
	if active != isaAVX512 {
		quantisePortable(dst, src, scale, zp)
		return
	}
	quantise512(&dst[0], &src[0], len(dst), scale, zp)
}

func depthwise(acc []int32, accStride int, a []byte, rows, taps []int32, c int, w []int8) {
	p := dwArgs{
		acc: unsafe.Pointer(&acc[0]), accStride: 4 * accStride, a: unsafe.Pointer(unsafe.SliceData(a)),
		rows: &rows[0], nrows: len(rows), taps: &taps[0], live: len(taps), w: unsafe.Pointer(&w[0]), wStride: c,
	}
	switch active {
	case isaAVX512:
		runDepthwise512(p, taps, c)
	case isaAVX2:
		if p.channels = c &^ 7; p.channels > 0 {
			depthwise256(&p)
		}
		depthwisePortable(acc, accStride, a, rows, taps, p.channels, c, w)
	default:
		depthwisePortable(acc, accStride, a, rows, taps, 0, c, w)
	}
}

// runDepthwise512 cuts a depthwise convolution into calls of dwTaps taps and 64
// channels.
func runDepthwise512(all dwArgs, taps []int32, c int) {
	for t := 0; t < len(taps); t += dwTaps {
		// Offsets beyond the last tap repeat it; their weights are zero.
		var offsets [dwTaps]int32
		live := copy(offsets[:], taps[t:])
		for i := live; i < (live+3)&^3; i++ {
			offsets[i] = offsets[live-1]
		}
		for ch := 0; ch < c; ch += 64 {
			p := all
			p.acc, p.a, p.w = unsafe.Add(p.acc, 4*ch), unsafe.Add(p.a, ch), unsafe.Add(p.w, t*c+ch)
			p.taps, p.live = &offsets[0], live
			p.mask = ^uint64(0) >> (64 - min(c-ch, 64))
			p.accumulate = t
			depthwise512(&p)
		}
	}
}
