package gemm

import "math"

// portableInt8 is Indirect for one panel in plain Go, the meaning of the int8 kernels.
func portableInt8(c []int32, ldc, cols int, accumulate bool, a []byte, rows, segs []int32, segLen int, panel []int8) {
	for i, r := range rows {
		out := c[i*ldc : i*ldc+cols]
		if !accumulate {
			clear(out)
		}
		b := panel
		for _, s := range segs {
			from := int(r) + int(s)
			for seg := a[from : from+segLen]; len(seg) >= 4; seg = seg[4:] {
				a0, a1, a2, a3 := int32(seg[0]), int32(seg[1]), int32(seg[2]), int32(seg[3])
				for j := range out {
					w := b[4*j : 4*j+4]
					out[j] += a0*int32(w[0]) + a1*int32(w[1]) + a2*int32(w[2]) + a3*int32(w[3])
				}
				b = b[stepBytes:]
			}
		}
	}
}

// portableF32 is F32Indirect in plain Go with stride elements from one k of the
// panel to the next.
func portableF32(c []float32, ldc, cols int, accumulate bool, a []float32, rows, segs []int32, segLen int, panel []float32, stride int) {
	for i, r := range rows {
		out := c[i*ldc : i*ldc+cols]
		if !accumulate {
			clear(out)
		}
		k := 0
		for _, s := range segs {
			from := int(r) + int(s)
			for _, x := range a[from : from+segLen] {
				for j, w := range panel[k*stride : k*stride+cols] {
					out[j] = fma32(x, w, out[j])
				}
				k++
			}
		}
	}
}

// fma32 returns x·y+z with one rounding to float32, as the FMA instructions do.
// The product is exact in float64, so only the sum is rounded twice, which can
// matter only if the first rounding lands on a midpoint of two float32: its 29
// surplus bits are then 1000…, or it is below the normal range of float32, where
// midpoints lie elsewhere.
func fma32(x, y, z float32) float32 {
	p, w := float64(x)*float64(y), float64(z)
	s := p + w
	bits := math.Float64bits(s)
	if bits&(1<<29-1) == 1<<28 || bits<<1 < minNormal32<<1 {
		s = roundOdd(p, w, s)
	}
	return float32(s)
}

// minNormal32 is the float64 bits of 2^−126, the least normal float32.
const minNormal32 = (1023 - 126) << 52

// roundOdd returns p+w, whose rounded value s is finite, rounded to odd: an
// inexact sum gets its last bit set. A second rounding, to at least two bits
// fewer, then equals a single one (Boldo and Melquiond, "Emulation of a FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008).
func roundOdd(p, w, s float64) float64 {
	t := s - p
	err := (p - (s - t)) + (w - t) // exact: s+err = p+w
	bits := math.Float64bits(s)
	switch {
	case err == 0 || bits&1 == 1:
		return s
	case (err > 0) == (s > 0): // the sum lies beyond s: away from zero to the odd neighbour
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}
