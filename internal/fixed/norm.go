package fixed

import (
	"fmt"
	"math"
	"math/bits"
)

// NormParams are the constants of one integer normalisation of rows of N codes,
//
//	y_j = ((x_j − mean)/√(variance + ε)·γ_j + β_j, or x_j/√(mean of squares + ε)·γ_j + β_j (RMS).
//
// With d_j = x_j − ZX, S = Σ d and Q = Σ d² over the row,
//
//	a_j = N·d_j − S                     RMS: N·d_j
//	V   = N·Q − S²                      RMS: N·Q
//	D   = V·2^12 + Eps                  Eps = round(N²·ε/sx²·2^12)
//	r   = ⌊2^61 / ⌊√(D·2^s)⌋⌋            s even, 2^60 ≤ D·2^s < 2^62
//	h_j = round(a_j·r / 2^(35−s/2))     (x_j − mean)/√(variance + ε) in units of 2^−20
//	y_j = clamp(ZY + round((h_j·G_j + B_j·2^20) / 2^Shift), Lo, Hi)
//
// all in exact 64-bit integers, roundings half to even; D = 0 gives h = 0. G_j
// and B_j are γ_j/sy and β_j/sy in units of 2^(20−Shift).
//
// Before the last rounding y is off by less than Error: it is within one code of
// the real result rounded, and differs from it only where that lies this close to a
// tie.
type NormParams struct {
	RMS    bool
	Eps    uint64 // at most 2^60
	ZX, ZY int32
	G      []int32 // N, each at most 2^30 in magnitude
	B      []int32 // N, the same
	Shift  uint8   // 1..62
	Lo, Hi byte
}

const (
	normFrac = 12 // fraction bits of D
	normUnit = 20 // fraction bits of h
	normRoot = 61 // log2 of the dividend of r
)

// MaxNormEps is the largest Eps.
const MaxNormEps = 1 << 60

// MaxNorm is the longest row Normalise takes: D then fits 62 bits.
const MaxNorm = 1 << 16

// NewNorm returns the parameters for input scale sx, output scale sy and the zero
// points. gamma and beta hold an element for each of a row; nil stands for ones
// and zeros. n is the length of a row. It is an error when n is not in 1..MaxNorm, a
// scale is not a finite number above zero, eps is negative or N²·eps/sx² above 2^48,
// gamma/sy or beta/sy is 2^49 and more, or a zero point is no code.
func NewNorm(n int, rms bool, eps, sx, sy float64, zx, zy int32, gamma, beta []float32, lo, hi byte) (NormParams, error) {
	p := NormParams{RMS: rms, ZX: zx, ZY: zy, Lo: lo, Hi: hi}
	if n < 1 || n > MaxNorm {
		return p, fmt.Errorf("fixed: normalisation of rows of %d codes, want 1 to %d", n, MaxNorm)
	}
	for _, s := range []float64{sx, sy} {
		if err := checkScale(s); err != nil {
			return p, err
		}
	}
	if err := checkCodes(lo, hi, zx, zy); err != nil {
		return p, err
	}
	e := math.Ldexp(float64(n)*float64(n)*(eps/sx/sx), normFrac)
	if !(e >= 0 && e <= MaxNormEps) {
		return p, fmt.Errorf("fixed: normalisation of %d codes of scale %g with epsilon %g: outside the range of integers", n, sx, eps)
	}
	p.Eps = uint64(math.RoundToEven(e))
	g, b := make([]float64, n), make([]float64, n)
	gTop, bTop := 0.0, 0.0
	for j := range n {
		g[j] = 1 / sy
		if gamma != nil {
			g[j] = float64(gamma[j]) / sy
		}
		if beta != nil {
			b[j] = float64(beta[j]) / sy
		}
		gTop, bTop = max(gTop, math.Abs(g[j])), max(bTop, math.Abs(b[j]))
	}
	if math.IsNaN(gTop + bTop) {
		return p, fmt.Errorf("fixed: normalisation by NaN")
	}
	_, exp := math.Frexp(max(gTop, bTop)) // both are below 2^exp
	shift := min(62, 30+normUnit-exp)
	if shift < 1 || math.IsInf(gTop+bTop, 0) {
		return p, fmt.Errorf("fixed: normalisation: factors up to %g and summands up to %g of the result's step are too large", gTop, bTop)
	}
	p.Shift = uint8(shift)
	p.G, p.B = make([]int32, n), make([]int32, n)
	for j := range n {
		p.G[j] = int32(math.RoundToEven(math.Ldexp(g[j], shift-normUnit)))
		p.B[j] = int32(math.RoundToEven(math.Ldexp(b[j], shift-normUnit)))
	}
	return p, nil
}

// Error bounds how far y_j is off before its last rounding, in codes, where the
// real result is y codes from ZY + β_j/sy.
func (p *NormParams) Error(j int, y float64) float64 {
	n := float64(len(p.G))
	g := math.Ldexp(math.Abs(float64(p.G[j])), normUnit-int(p.Shift)) // codes of 1
	root := math.Ldexp(1, -14) / max(n-1, 1)                          // of Eps
	return math.Ldexp(g, -normUnit-1) + math.Abs(y)*(math.Ldexp(1, 2-normRoot/2)+root) +
		math.Ldexp(math.Sqrt(n)+1, normUnit-1-int(p.Shift))
}

// Normalise writes the normalisation of the row src to dst, which may be src
// itself. It panics when a length is not that of the parameters, or exceeds
// MaxNorm.
func Normalise(dst, src []byte, p *NormParams) {
	n := len(src)
	if len(dst) != n || len(p.G) != n || len(p.B) != n || n > MaxNorm {
		panic(fmt.Sprintf("fixed: normalisation of %d codes into %d by %d factors and %d summands, at most %d", n, len(dst), len(p.G), len(p.B), MaxNorm))
	}
	sum, square := int64(0), int64(0)
	for _, q := range src {
		d := int64(q) - int64(p.ZX)
		sum += d
		square += d * d
	}
	if p.RMS {
		sum = 0
	}
	r, down := p.inverse(uint64(int64(n)*square - sum*sum))
	var t [256]int64 // h by code
	if n >= len(t) {
		for q := range t {
			t[q] = RoundShift((int64(n)*(int64(q)-int64(p.ZX))-sum)*r, down)
		}
		for j, q := range src {
			dst[j] = p.code(j, t[q])
		}
		return
	}
	for j, q := range src {
		dst[j] = p.code(j, RoundShift((int64(n)*(int64(q)-int64(p.ZX))-sum)*r, down))
	}
}

// inverse returns r and 35−s/2 for V; r is 0 when D is.
func (p *NormParams) inverse(v uint64) (r int64, down uint8) {
	d := v<<normFrac + p.Eps
	if d == 0 {
		return 0, 1
	}
	s := (62 - bits.Len64(d)) &^ 1
	return 1 << normRoot / int64(root(d<<s)), uint8(35 - s/2)
}

// root returns ⌊√d⌋ for 2^60 ≤ d < 2^62: Newton's iteration from above, which
// halves the relative error of 1 to 1/4, 1/40, 3·10^−4, 5·10^−8 and less than one
// unit.
func root(d uint64) uint64 {
	x := uint64(1) << 31
	for range 5 {
		x = (x + d/x) / 2
	}
	if x*x > d {
		x--
	}
	return x
}

func (p *NormParams) code(j int, h int64) byte {
	return clampU8(RoundShift(h*int64(p.G[j])+int64(p.B[j])<<normUnit, p.Shift)+int64(p.ZY), p.Lo, p.Hi)
}
