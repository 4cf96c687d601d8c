//go:build !amd64

package fixed

func requantise(dst []byte, dstStride int, acc []int32, accStride, rows, cols int, bias, mult []int32, shift []uint8, zp int32, lo, hi byte) {
	requantisePortable(dst, dstStride, acc, accStride, rows, cols, bias, mult, shift, zp, lo, hi)
}

func addU8(dst, a, b []byte, p *AddParams) { addPortable(dst, a, b, p) }
func mulU8(dst, a, b []byte, p *MulParams) { mulPortable(dst, a, b, p) }
func lut(dst, src []byte, t *[256]byte)    { lutPortable(dst, src, t) }
func maxU8(dst, src []byte)                { maxPortable(dst, src) }
func sumU8(acc []int32, src []byte)        { sumPortable(acc, src) }

func quantiseU8(dst []byte, src []float32, scale float32, zp int32) {
	quantisePortable(dst, src, scale, zp)
}

func depthwise(acc []int32, accStride int, a []byte, rows, taps []int32, c int, w []int8) {
	depthwisePortable(acc, accStride, a, rows, taps, 0, c, w)
}
