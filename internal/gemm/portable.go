package gemm

import "math"

// portableInt8 is IndirectCols in plain Go, the meaning of the int8 kernels.
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
// The product is exact in float64. The sum is rounded to odd there, that is, an
// inexact sum gets its last bit set, so that the second rounding to 24 bits
// cannot meet a false tie (Boldo and Melquiond, "Emulation of a FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008).
func fma32(x, y, z float32) float32 {
	p, w := float64(x)*float64(y), float64(z)
	s := p + w
	if t := s - p; !math.IsInf(s, 0) && s == s {
		err := (p - (s - t)) + (w - t) // exact: s+err = p+w
		if bits := math.Float64bits(s); err != 0 && bits&1 == 0 {
			if (err > 0) == (s > 0) {
				bits++ // the sum lies beyond s: away from zero to the odd neighbour
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}
