package vecf32

import (
	"math"
	"slices"
)

// Window is the geometry of a 2-D pooling over an NHWC image.
type Window struct {
	N, H, W, C int    // operand
	OutH, OutW int    // result
	Kernel     [2]int // along H, W
	Strides    [2]int
	PadTop     int
	PadLeft    int
	Dilations  [2]int
	CountPad   bool // an average divides by the padded window
	PadEndH    int  // with CountPad: first row and column beyond the padding
	PadEndW    int  // that counts (operand coordinates)
}

// MaxPool sets dst to the maximum of each window of x; positions outside the
// image do not take part, a window without any position gives −Inf.
func MaxPool(dst, x []float32, w *Window) {
	ninf := float32(math.Inf(-1))
	w.Each(func(out int, y0, x0, base int) {
		d := dst[out : out+w.C]
		for c := range d {
			d[c] = ninf
		}
		w.EachTap(y0, x0, base, func(p int) {
			s := x[p : p+w.C]
			for c, v := range s {
				d[c] = max(d[c], v)
			}
		})
	})
}

// AvgPool sets dst to the average of each window of x, summed in float64 and
// divided by Window.Divisor.
func AvgPool(dst, x []float32, w *Window) {
	acc := make([]float64, w.C)
	w.Each(func(out int, y0, x0, base int) {
		clear(acc)
		w.EachTap(y0, x0, base, func(p int) {
			s := x[p : p+w.C]
			for c, v := range s {
				acc[c] += float64(v)
			}
		})
		n := float64(w.Divisor(y0, x0))
		for c, v := range acc {
			dst[out+c] = float32(v / n)
		}
	})
}

// Divisor returns what the average of the window with first tap (y0, x0), in
// operand coordinates, divides by: the taps inside the image, or with CountPad
// those inside the padded image.
func (w *Window) Divisor(y0, x0 int) int { return w.count(0, y0) * w.count(1, x0) }

// Divisors returns the values that Divisor takes for windows of the result,
// ascending.
func (w *Window) Divisors() []int {
	var all []int
	cols := w.counts(1, w.OutW)
	for _, r := range w.counts(0, w.OutH) {
		for _, c := range cols {
			all = append(all, r*c)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// counts returns the different values of count for n windows along an axis.
func (w *Window) counts(axis, n int) []int {
	_, size := w.bounds(axis, false)
	pad, span := w.PadTop, w.Dilations[axis]*(w.Kernel[axis]-1)
	if axis == 1 {
		pad = w.PadLeft
	}
	var c []int
	for i := 0; i < n; i++ {
		first := i*w.Strides[axis] - pad
		c = append(c, w.count(axis, first))
		if first >= 0 && first+span < size {
			i = (size - 1 - span + pad) / w.Strides[axis] // the last window inside
		}
	}
	slices.Sort(c)
	return slices.Compact(c)
}

// count returns how many taps of a window along one axis, from first on, count.
func (w *Window) count(axis, first int) int {
	lo, hi := w.bounds(axis, w.CountPad)
	n := 0
	for k := range w.Kernel[axis] {
		if p := first + k*w.Dilations[axis]; p >= lo && p < hi {
			n++
		}
	}
	return n
}

// bounds returns the first position along an axis and the one after the last, of
// the image or the padded image.
func (w *Window) bounds(axis int, padded bool) (lo, hi int) {
	switch {
	case axis == 0 && padded:
		return -w.PadTop, w.PadEndH
	case axis == 0:
		return 0, w.H
	case padded:
		return -w.PadLeft, w.PadEndW
	}
	return 0, w.W
}

// Each calls f for every window: offset of its result, first tap, and offset of
// the image it lies in.
func (w *Window) Each(f func(out, y0, x0, base int)) {
	out := 0
	for n := range w.N {
		for y := range w.OutH {
			for x := range w.OutW {
				f(out, y*w.Strides[0]-w.PadTop, x*w.Strides[1]-w.PadLeft, n*w.H*w.W*w.C)
				out += w.C
			}
		}
	}
}

// EachTap calls f with the offset of channel 0 of every tap inside the image.
func (w *Window) EachTap(y0, x0, base int, f func(p int)) {
	for ky := range w.Kernel[0] {
		y := y0 + ky*w.Dilations[0]
		if y < 0 || y >= w.H {
			continue
		}
		for kx := range w.Kernel[1] {
			x := x0 + kx*w.Dilations[1]
			if x < 0 || x >= w.W {
				continue
			}
			f(base + (y*w.W+x)*w.C)
		}
	}
}
