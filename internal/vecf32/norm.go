package vecf32

import "math"

// LayerNorm sets each row of n elements of dst to
//
//	(x − mean) / √(variance + eps) · gamma + beta
//
// or, with rms, to x / √(mean of squares + eps) · gamma + beta. A nil gamma is ones,
// a nil beta zeros. Sums are in float64. dst may be x.
func LayerNorm(dst, x []float32, n int, rms bool, eps float32, gamma, beta []float32) {
	for at := 0; at < len(x); at += n {
		row, out := x[at:at+n], dst[at:at+n]
		mean, square := 0.0, 0.0
		if !rms {
			for _, v := range row {
				mean += float64(v)
			}
			mean /= float64(n)
		}
		for _, v := range row {
			d := float64(v) - mean
			square += float64(d * d)
		}
		inverse := 1 / math.Sqrt(square/float64(n)+float64(eps))
		for i, v := range row {
			y := (float64(v) - mean) * inverse
			if gamma != nil {
				y *= float64(gamma[i])
			}
			if beta != nil {
				y = float64(y) + float64(beta[i]) // not fused
			}
			out[i] = float32(y)
		}
	}
}
