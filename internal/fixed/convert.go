package fixed

// QuantiseU8 computes dst[i] = clamp(round(src[i]/scale) + zp, 0, 255) by the
// rule of ONNX QuantizeLinear: a float32 division, rounded half to even. NaN,
// on which ONNX is silent, gives zp; infinities saturate. scale is a finite
// number above 0 and zp in 0..255. For an int8 tensor pass its zero point plus
// 128. It panics when src is shorter than dst.
func QuantiseU8(dst []byte, src []float32, scale float32, zp int32) {
	checkLen(len(dst), len(src))
	if n := len(dst); n > 0 {
		quantiseU8(dst, src[:n], scale, zp)
	}
}

// quantise is QuantiseU8 of one element.
func quantise(x, scale float32, zp int32) byte { return clampFloat(float64(x/scale), zp, 0, 255) }

// DequantiseU8 computes dst[i] = (src[i]−zp)·scale in float32. It panics when
// src is shorter than dst.
func DequantiseU8(dst []float32, src []byte, scale float32, zp int32) {
	checkLen(len(dst), len(src))
	var t [256]float32
	for q := range t {
		t[q] = float32(int32(q)-zp) * scale
	}
	for i, q := range src[:len(dst)] {
		dst[i] = t[q]
	}
}
