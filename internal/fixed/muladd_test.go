package fixed

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestMulAdd holds sums of products to the real ones, and to their definition in
// integers of any size.
func TestMulAdd(t *testing.T) {
	total, off := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		scale := func(label string) float64 { return math.Exp(rapid.Float64Range(-8, 2).Draw(t, label)) }
		sa, sb, sc, sd, sy := scale("sa"), scale("sb"), scale("sc"), scale("sd"), scale("sy")
		if rapid.Bool().Draw(t, "subtract") {
			sc = -sc
		}
		za, zb, zc, zd, zy := drawZero(t, "za"), drawZero(t, "zb"), drawZero(t, "zc"), drawZero(t, "zd"), drawZero(t, "zy")
		p, err := NewMulAdd(sa, sb, sc, sd, sy, za, zb, zc, zd, zy, 0, 255)
		if err != nil {
			t.Fatal(err)
		}
		code := rapid.Byte()
		for range 50 {
			a, b, c, d := code.Draw(t, "a"), code.Draw(t, "b"), code.Draw(t, "c"), code.Draw(t, "d")
			got := p.MulAdd(a, b, c, d)
			sum := new(big.Int).Mul(big.NewInt(int64(int32(a)-za)*int64(int32(b)-zb)), big.NewInt(int64(p.MAB)))
			sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(int32(c)-zc)*int64(int32(d)-zd)), big.NewInt(int64(p.MCD))))
			q := roundRat(new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(p.Shift))))
			if want := clampU8(q.Int64()+int64(zy), 0, 255); got != want {
				t.Fatalf("%d·%d + %d·%d with %+v is %d, want %d", a, b, c, d, p, got, want)
			}
			real := (sa*float64(int32(a)-za)*sb*float64(int32(b)-zb) + sc*float64(int32(c)-zc)*sd*float64(int32(d)-zd)) / sy
			total++
			if got == clampFloat(real, zy, 0, 255) {
				continue
			}
			off++
			bound := p.Error() + 1e-12*math.Abs(real)
			lo, hi := clampFloat(real-bound, zy, 0, 255), clampFloat(real+bound, zy, 0, 255)
			if got < lo || got > hi || int(hi)-int(lo) > 1 && bound < 0.5 {
				t.Fatalf("%d·%d + %d·%d with %+v is %d, real %g ± %g", a, b, c, d, p, got, real, bound)
			}
		}
	})
	t.Logf("%d of %d codes are not the real result rounded", off, total)
}

func TestMulAddErrors(t *testing.T) {
	for _, s := range [][5]float64{{0, 1, 1, 1, 1}, {1, -1, 1, 1, 1}, {1, 1, 0, 1, 1}, {1, 1, 1, 1, 0}, {1, 1, 1, math.NaN(), 1}, {1, 1, 1, math.Inf(1), 1}, {1, 1, 1, 1 << 29, 1}} {
		if _, err := NewMulAdd(s[0], s[1], s[2], s[3], s[4], 0, 0, 0, 0, 0, 0, 255); err == nil {
			t.Errorf("%v: no error", s)
		}
	}
	if _, err := NewMulAdd(1, 1, 1, 1, 1, 0, 0, 256, 0, 0, 0, 255); err == nil {
		t.Error("a zero point of 256: no error")
	}
	defer func() {
		if recover() == nil {
			t.Error("an operand of two elements for three: no panic")
		}
	}()
	MulAddU8(make([]byte, 3), make([]byte, 3), make([]byte, 2), make([]byte, 1), make([]byte, 3), new(MulAddParams))
}
