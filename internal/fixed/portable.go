package fixed

// The vector kernels in plain Go, on checked operands. They are what the
// assembly is compared with.

func requantisePortable(dst []byte, dstStride int, acc []int32, accStride, rows, cols int, bias, mult []int32, shift []uint8, zp int32, lo, hi byte) {
	repeats := len(mult) == lanes && cols > lanes
	for r := range rows {
		out := dst[r*dstStride : r*dstStride+cols]
		for c, v := range acc[r*accStride : r*accStride+cols] {
			if bias != nil {
				v += bias[c]
			}
			m := c
			if repeats {
				m %= lanes
			}
			q := RoundShift(int64(v)*int64(mult[m]), shift[m])
			out[c] = clampU8(q+int64(zp), lo, hi)
		}
	}
}

func addPortable(dst, a, b []byte, p *AddParams) {
	for i := range dst {
		dst[i] = p.Add(a[i], b[i])
	}
}

func mulPortable(dst, a, b []byte, p *MulParams) {
	for i := range dst {
		dst[i] = p.Mul(a[i], b[i])
	}
}

func lutPortable(dst, src []byte, t *[256]byte) {
	for i, q := range src {
		dst[i] = t[q]
	}
}

func maxPortable(dst, src []byte) {
	for i, q := range src {
		dst[i] = max(dst[i], q)
	}
}

func sumPortable(acc []int32, src []byte) {
	for i, q := range src {
		acc[i] += int32(q)
	}
}

func quantisePortable(dst []byte, src []float32, scale float32, zp int32) {
	for i, x := range src {
		dst[i] = quantise(x, scale, zp)
	}
}

// depthwisePortable computes channels first to c-1.
func depthwisePortable(acc []int32, accStride int, a []byte, rows, taps []int32, first, c int, w []int8) {
	for i, row := range rows {
		out := acc[i*accStride+first : i*accStride+c]
		clear(out)
		for t, tap := range taps {
			from := int(row) + int(tap)
			ws := w[t*c+first : (t+1)*c]
			for ch, q := range a[from+first : from+c] {
				out[ch] += int32(q) * int32(ws[ch])
			}
		}
	}
}
