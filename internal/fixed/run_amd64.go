package fixed

import "unsafe"

func requantise(dst []byte, dstStride int, acc []int32, accStride, rows, cols int, bias, mult []int32, shift []uint8, zp int32, lo, hi byte) {
	if active != isaAVX512 {
		requantisePortable(dst, dstStride, acc, accStride, rows, cols, bias, mult, shift, zp, lo, hi)
		return
	}
	p := reqArgs{
		dst: unsafe.Pointer(&dst[0]), acc: unsafe.Pointer(&acc[0]), dstStride: dstStride, accStride: 4 * accStride,
		rows: rows, cols: cols,
		mult: unsafe.Pointer(&mult[0]), shift: unsafe.Pointer(&shift[0]),
		zp: int64(zp), lo: int64(lo), hi: int64(hi),
	}
	if len(mult) > lanes || cols <= lanes {
		p.multStep, p.shiftStep = 4*lanes, lanes
	}
	var zero [lanes]int32
	p.bias = unsafe.Pointer(&zero)
	if bias != nil {
		p.bias, p.biasStep = unsafe.Pointer(&bias[0]), 4*lanes
	}
	requantise512(&p)
}

func addU8(dst, a, b []byte, p *AddParams) {
	if active != isaAVX512 {
		addPortable(dst, a, b, p)
		return
	}
	q := addArgs{
		ma: p.MA, mb: p.MB, offset: 1<<(p.Shift-1) - p.ZA*p.MA - p.ZB*p.MB,
		shift: int32(p.Shift), low: 1<<p.Shift - 1, zy: p.ZY, lo: int32(p.Lo), hi: int32(p.Hi),
	}
	add512(&dst[0], &a[0], &b[0], len(dst), &q)
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
	if active != isaAVX512 {
		maxPortable(dst, src)
		return
	}
	max512(&dst[0], &src[0], len(dst))
}

func sumU8(acc []int32, src []byte) {
	if active != isaAVX512 {
		sumPortable(acc, src)
		return
	}
	sum512(&acc[0], &src[0], len(acc))
}

func quantiseU8(dst []byte, src []float32, scale float32, zp int32) {
	if active != isaAVX512 {
		quantisePortable(dst, src, scale, zp)
		return
	}
	quantise512(&dst[0], &src[0], len(dst), scale, zp)
}

func depthwise(acc []int32, accStride int, a []byte, rows, taps []int32, c int, w []int8) {
	if active != isaAVX512 {
		depthwisePortable(acc, accStride, a, rows, taps, c, w)
		return
	}
	for t := 0; t < len(taps); t += dwTaps {
		// Offsets beyond the last tap repeat it; their weights are zero.
		var offsets [dwTaps]int32
		live := copy(offsets[:], taps[t:])
		for i := live; i < (live+3)&^3; i++ {
			offsets[i] = offsets[live-1]
		}
		for ch := 0; ch < c; ch += 64 {
			p := dwArgs{
				acc: unsafe.Pointer(&acc[ch]), accStride: 4 * accStride,
				a: unsafe.Pointer(unsafe.SliceData(a)), rows: &rows[0], nrows: len(rows), taps: &offsets[0], live: live,
				w: unsafe.Pointer(&w[t*c+ch]), wStride: c,
				mask: ^uint64(0) >> (64 - min(c-ch, 64)), accumulate: t,
			}
			p.a = unsafe.Add(p.a, ch)
			depthwise512(&p)
		}
	}
}
