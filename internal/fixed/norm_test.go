package fixed

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// realNorm is the definition in float64, in codes from the zero point: the part
// that varies, and beta. Sums of codes are exact, so a row of equal codes varies
// by nothing.
func realNorm(src []byte, rms bool, eps, sx, sy float64, zx int32, gamma, beta []float32) (y, b []float64) {
	n, sum, square := int64(len(src)), int64(0), int64(0)
	for _, q := range src {
		d := int64(q) - int64(zx)
		sum, square = sum+d, square+d*d
	}
	if rms {
		sum = 0
	}
	variance := float64(n*square-sum*sum)/float64(n*n)*sx*sx + eps
	for j, q := range src {
		v, g, c := 0.0, 1.0, 0.0
		if variance > 0 {
			v = float64(n*(int64(q)-int64(zx))-sum) / float64(n) * sx / math.Sqrt(variance)
		}
		if gamma != nil {
			g = float64(gamma[j])
		}
		if beta != nil {
			c = float64(beta[j])
		}
		y, b = append(y, v*g/sy), append(b, c/sy)
	}
	return y, b
}

// checkNorm holds a row to the definition, and returns how many codes are not the
// real result rounded.
func checkNorm(t rapid.TB, src []byte, rms bool, eps, sx, sy float64, zx, zy int32, gamma, beta []float32) (off int) {
	p, err := NewNorm(len(src), rms, eps, sx, sy, zx, zy, gamma, beta, 0, 255)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, len(src))
	Normalise(dst, src, &p)
	y, b := realNorm(src, rms, eps, sx, sy, zx, gamma, beta)
	for j := range src {
		real := y[j] + b[j]
		if dst[j] == clampFloat(real, zy, 0, 255) {
			continue
		}
		off++
		// float64 itself is off by some of its last bits.
		bound := p.Error(j, y[j]) + 1e-12*(math.Abs(y[j])+math.Abs(b[j]))
		lo, hi := clampFloat(real-bound, zy, 0, 255), clampFloat(real+bound, zy, 0, 255)
		if dst[j] < lo || dst[j] > hi || int(hi)-int(lo) > 1 {
			t.Fatalf("n=%d rms=%v eps=%g sx=%g sy=%g zx=%d zy=%d: code %d (index %d) gives %d, real %g ± %g codes from the zero point",
				len(src), rms, eps, sx, sy, zx, zy, src[j], j, dst[j], real, bound)
		}
	}
	return off
}

// TestNormProperty draws rows, scales and factors over the whole range.
func TestNormProperty(t *testing.T) {
	total, off := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(250, 260), rapid.SampledFrom([]int{768, 4096, MaxNorm})).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		src := make([]byte, n)
		lowest, spread := rng.IntN(256), 1
		spread += rng.IntN(256 - lowest)
		for j := range src {
			src[j] = byte(lowest + rng.IntN(spread))
		}
		if rapid.Bool().Draw(t, "one stands out") {
			src[rng.IntN(n)] = byte(rng.IntN(256))
		}
		var gamma, beta []float32
		if rapid.Bool().Draw(t, "gamma") {
			for range n {
				gamma = append(gamma, float32(rng.NormFloat64()))
			}
		}
		if rapid.Bool().Draw(t, "beta") {
			for range n {
				beta = append(beta, float32(rng.NormFloat64()))
			}
		}
		sx := math.Exp(rapid.Float64Range(-5.5, 5).Draw(t, "ln sx"))
		sy := math.Exp(rapid.Float64Range(-5.5, 2).Draw(t, "ln sy")) // 1 is up to 245 codes
		eps := rapid.SampledFrom([]float64{0, 1e-12, 1e-6, 1e-5, 1e-3, 1}).Draw(t, "eps")
		off += checkNorm(t, src, rapid.Bool().Draw(t, "rms"), eps, sx, sy, drawZero(t, "zx"), drawZero(t, "zy"), gamma, beta)
		total += n
	})
	t.Logf("%d of %d codes are not the real result rounded", off, total)
	if off*500 > total {
		t.Errorf("%d of %d codes are not the real result rounded, want fewer than one in 500", off, total)
	}
}

// TestNormExhaustive takes every row of two codes, and every row of up to 300 that
// differ in one.
func TestNormExhaustive(t *testing.T) {
	for _, rms := range []bool{false, true} {
		for a := range 256 {
			for b := range 256 {
				checkNorm(t, []byte{byte(a), byte(b)}, rms, 1e-5, 0.05, 0.01, 100, 128, nil, nil)
			}
		}
		for n := 1; n <= 300; n++ {
			src := make([]byte, n)
			for _, q := range []byte{0, 1, 127, 255} {
				src[n-1] = q
				checkNorm(t, src, rms, 1e-5, 0.02, 0.05, 0, 7, nil, nil)
			}
		}
	}
}

// TestNormError holds the bounds that docs/numbers.md states.
func TestNormError(t *testing.T) {
	for _, c := range []struct {
		n     int
		bound float64
	}{{8, 0.003}, {64, 0.0005}, {768, 0.0005}, {MaxNorm, 0.0005}} {
		p, err := NewNorm(c.n, false, 1e-5, 0.1, 1.0/256, 0, 0, nil, nil, 0, 255)
		if err != nil {
			t.Fatal(err)
		}
		if e := p.Error(0, 255); e > c.bound {
			t.Errorf("rows of %d are off by up to %g, want %g", c.n, e, c.bound)
		}
	}
}

// TestRoot holds the square root to its definition at the ends, at squares and
// around them, and everywhere else by chance.
func TestRoot(t *testing.T) {
	check := func(t rapid.TB, d uint64) {
		x := new(big.Int).Sqrt(new(big.Int).SetUint64(d))
		if got := root(d); got != x.Uint64() {
			t.Fatalf("root(%d) = %d, want %d", d, got, x)
		}
	}
	check(t, 1<<60)
	check(t, 1<<62-1)
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.Uint64Range(1<<60, 1<<62-1).Draw(t, "d"))
		s := rapid.Uint64Range(1<<30+1, 1<<31-1).Draw(t, "s")
		for _, d := range []uint64{s*s - 1, s * s, s*s + 1, s*s + 2*s} {
			check(t, d)
		}
	})
}

func TestNormErrors(t *testing.T) {
	ones := []float32{1, 1}
	for _, c := range []struct {
		name        string
		n           int
		eps, sx, sy float64
		gamma       []float32
		zx          int32
	}{
		{"no codes", 0, 1e-5, 1, 1, nil, 0},
		{"too many codes", MaxNorm + 1, 1e-5, 1, 1, nil, 0},
		{"scale", 2, 1e-5, 0, 1, ones, 0},
		{"result scale", 2, 1e-5, 1, math.Inf(1), ones, 0},
		{"epsilon", 2, -1, 1, 1, ones, 0},
		{"epsilon beyond integers", 2, 1, 1e-9, 1, ones, 0},
		{"epsilon NaN", 2, math.NaN(), 1, 1, ones, 0},
		{"gamma", 2, 1e-5, 1, 1, []float32{1, float32(math.NaN())}, 0},
		{"large gamma", 2, 1e-5, 1, 1e-30, ones, 0},
		{"infinite gamma", 2, 1e-5, 1, 1, []float32{1, float32(math.Inf(1))}, 0},
		{"zero point", 2, 1e-5, 1, 1, ones, 256},
	} {
		if _, err := NewNorm(c.n, false, c.eps, c.sx, c.sy, c.zx, 0, c.gamma, nil, 0, 255); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}
