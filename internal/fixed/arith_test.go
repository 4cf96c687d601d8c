package fixed

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// roundRat rounds a rational half to even: the definition all else is held to.
func roundRat(r *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(r.Num(), 1)
	sum := new(big.Int).Add(twice, r.Denom()) // 2n + d
	q, rem := new(big.Int), new(big.Int)
	q.DivMod(sum, new(big.Int).Lsh(r.Denom(), 1), rem) // floor of n/d + ½
	if rem.Sign() == 0 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

func TestRoundRat(t *testing.T) {
	for _, c := range [][3]int64{{1, 2, 0}, {3, 2, 2}, {5, 2, 2}, {-1, 2, 0}, {-3, 2, -2}, {-5, 2, -2}, {7, 4, 2}, {-7, 4, -2}, {5, 4, 1}} {
		if got := roundRat(big.NewRat(c[0], c[1])).Int64(); got != c[2] {
			t.Errorf("round(%d/%d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// wantRequantise is the definition of Requantise in exact arithmetic.
func wantRequantise(acc int32, m Multiplier) int64 {
	num := new(big.Int).Mul(big.NewInt(int64(acc)), big.NewInt(int64(m.M)))
	q := roundRat(new(big.Rat).SetFrac(num, new(big.Int).Lsh(big.NewInt(1), uint(m.Shift))))
	if !q.IsInt64() || q.Int64() > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(q.Int64(), math.MinInt32)
}

func drawMultiplier(t *rapid.T) Multiplier {
	m := rapid.OneOf(rapid.Int32Range(1<<30, math.MaxInt32), rapid.Just(int32(1<<30)), rapid.Just(int32(3<<29)), rapid.Just(int32(math.MaxInt32)), rapid.Just(int32(0))).Draw(t, "M")
	return Multiplier{M: m, Shift: uint8(rapid.IntRange(MinShift, MaxShift).Draw(t, "shift"))}
}

func drawAcc(t *rapid.T) int32 {
	return rapid.OneOf(rapid.Int32(), rapid.Int32Range(-1000, 1000), rapid.SampledFrom([]int32{math.MinInt32, math.MaxInt32})).Draw(t, "acc")
}

func TestRequantise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		acc, m := drawAcc(t), drawMultiplier(t)
		if got, want := int64(Requantise(acc, m)), wantRequantise(acc, m); got != want {
			t.Fatalf("Requantise(%d, %+v) = %d, want %d", acc, m, got, want)
		}
	})
}

// TestRequantiseTies: a multiplier of one half meets a tie at each odd value.
func TestRequantiseTies(t *testing.T) {
	half, err := NewMultiplier(0.5)
	if err != nil {
		t.Fatal(err)
	}
	for acc := int32(-9); acc <= 9; acc++ {
		if got, want := Requantise(acc, half), int32(math.RoundToEven(float64(acc)/2)); got != want {
			t.Errorf("%d/2 = %d, want %d", acc, got, want)
		}
	}
}

func TestNewMultiplier(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e-9, 1 << 30, math.Nextafter(1<<30, 0), 1e300} {
		if m, err := NewMultiplier(bad); err == nil {
			t.Errorf("NewMultiplier(%g) = %+v, want an error", bad, m)
		}
	}
	for _, c := range []struct {
		real float64
		want Multiplier
	}{
		{0, Multiplier{0, 1}},
		{1, Multiplier{1 << 30, 30}},
		{0.5, Multiplier{1 << 30, 31}},
		{0.75, Multiplier{3 << 29, 31}},
		{1 << 29, Multiplier{1 << 30, 1}},
		{math.Ldexp(1, -32), Multiplier{1 << 30, 62}},
		{math.Nextafter(math.Ldexp(1, -32), 1), Multiplier{1 << 30, 62}},
		{math.Ldexp(0.9, -32), Multiplier{0, 1}},
		{math.SmallestNonzeroFloat64, Multiplier{0, 1}},
		{math.Nextafter(1, 0), Multiplier{1 << 30, 30}}, // carries into the next power
	} {
		if m, err := NewMultiplier(c.real); err != nil || m != c.want {
			t.Errorf("NewMultiplier(%g) = %+v, %v, want %+v", c.real, m, err, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		real := math.Ldexp(rapid.Float64Range(0.5, 1).Draw(t, "mantissa"), rapid.IntRange(-31, 29).Draw(t, "exponent"))
		m, err := NewMultiplier(real)
		if err != nil {
			t.Fatal(err)
		}
		if e := math.Abs(m.Float()-real) / real; e > math.Ldexp(1, -31) {
			t.Fatalf("%g became %+v, off by a relative %g", real, m, e)
		}
	})
}

// TestAddExhaustive compares all pairs of codes with the exact real sum, for
// random scales. The quotient is taken in float64, whose error of 2^−44 codes
// is far below the bound checked; pairs within it of a tie are not counted.
func TestAddExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pairs, off := 0, 0
	for trial := range 60 {
		sa, sb, sy := math.Exp(3*r.NormFloat64()), math.Exp(3*r.NormFloat64()), math.Exp(3*r.NormFloat64())
		if trial%3 == 0 { // the usual case: an output range that fits
			sy = (sa + sb) * (0.3 + r.Float64())
		}
		if trial%2 == 0 {
			sb = -sb
		}
		za, zb, zy := int32(r.IntN(256)), int32(r.IntN(256)), int32(r.IntN(256))
		p, err := NewAdd(sa, sb, sy, za, zb, zy, 0, 255)
		if err != nil {
			t.Fatal(err)
		}
		bound := 255 * math.Ldexp(1, -int(p.Shift))
		if limit := 1.3e-4 * (sa + math.Abs(sb)) / sy; bound > limit && p.Shift < 30 {
			t.Errorf("bound %g above the documented %g", bound, limit)
		}
		for a := range 256 {
			for b := range 256 {
				real := (float64(int32(a)-za)*sa + float64(int32(b)-zb)*sb) / sy
				got := int(p.Add(byte(a), byte(b)))
				want := int(clampFloat(real, zy, 0, 255))
				pairs++
				if got == want {
					continue
				}
				off++
				tie := math.Abs(real - math.Floor(real) - 0.5)
				if d := got - want; d > 1 || d < -1 || tie > bound+1e-9 {
					t.Fatalf("%+v: Add(%d, %d) = %d, want %d (real %g, bound %g)", p, a, b, got, want, real, bound)
				}
			}
		}
	}
	t.Logf("%d of %d pairs one code off", off, pairs)
	if off*10000 > pairs*2 {
		t.Errorf("%d of %d pairs off, more than 0.02 %%", off, pairs)
	}
}

// TestAddDefinition holds Add to its formula in big arithmetic.
func TestAddDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawAdd(t)
		a, b := rapid.Byte().Draw(t, "a"), rapid.Byte().Draw(t, "b")
		num := int64(int32(a)-p.ZA)*int64(p.MA) + int64(int32(b)-p.ZB)*int64(p.MB)
		q := roundRat(big.NewRat(num, 1<<p.Shift)).Int64()
		if got, want := p.Add(a, b), clampU8(q+int64(p.ZY), p.Lo, p.Hi); got != want {
			t.Fatalf("%+v: Add(%d, %d) = %d, want %d", p, a, b, got, want)
		}
	})
}

func drawRange(t *rapid.T) (lo, hi byte) {
	lo = rapid.OneOf(rapid.Just(byte(0)), rapid.Byte()).Draw(t, "lo")
	return lo, byte(rapid.OneOf(rapid.Just(255), rapid.IntRange(int(lo), 255)).Draw(t, "hi"))
}

func drawZero(t *rapid.T, name string) int32 { return rapid.Int32Range(0, 255).Draw(t, name) }

func drawAdd(t *rapid.T) *AddParams {
	lo, hi := drawRange(t)
	scale := rapid.OneOf(rapid.Float64Range(0.001, 10), rapid.SampledFrom([]float64{1, 0.5, 0.25, 1e-6, 1e4}))
	sb := scale.Draw(t, "sb")
	if rapid.Bool().Draw(t, "subtract") {
		sb = -sb
	}
	p, err := NewAdd(scale.Draw(t, "sa"), sb, scale.Draw(t, "sy"), drawZero(t, "za"), drawZero(t, "zb"), drawZero(t, "zy"), lo, hi)
	if err != nil {
		t.Skip(err)
	}
	return &p
}

func drawMul(t *rapid.T) *MulParams {
	lo, hi := drawRange(t)
	return &MulParams{ZA: drawZero(t, "za"), ZB: drawZero(t, "zb"), ZY: drawZero(t, "zy"), M: drawMultiplier(t), Lo: lo, Hi: hi}
}

func TestParameterErrors(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		sa, sb, sy float64
		z          int32
		lo         byte
	}{
		{0, 1, 1, 0, 0}, {nan, 1, 1, 0, 0}, {1, 0, 1, 0, 0}, {1, inf, 1, 0, 0}, {1, 1, 0, 0, 0}, {1, 1, nan, 0, 0},
		{1, 1, 1, -1, 0}, {1, 1, 1, 256, 0}, {1, 1, 1, 0, 11}, {1 << 20, 1 << 20, 0.25, 0, 0},
		{math.MaxFloat64, 1, math.SmallestNonzeroFloat64, 0, 0},
	} {
		if _, err := NewAdd(c.sa, c.sb, c.sy, c.z, 0, 0, c.lo, 10); err == nil {
			t.Errorf("NewAdd(%+v): no error", c)
		}
		if _, err := NewMul(c.sa, c.sb, c.sy, c.z, 0, 0, c.lo, 10); err == nil {
			t.Errorf("NewMul(%+v): no error", c)
		}
	}
	for _, s := range [][2]float64{{0, 1}, {1, 0}, {nan, 1}, {1, inf}, {1, 1e-9}} {
		if _, err := NewSoftmax(s[0], s[1], 0, 0, 255); err == nil {
			t.Errorf("NewSoftmax(%v): no error", s)
		}
	}
	if _, err := NewSoftmax(1, 1, 256, 0, 255); err == nil {
		t.Error("NewSoftmax with zero point 256: no error")
	}
}

func TestMul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawMul(t)
		a, b := rapid.Byte().Draw(t, "a"), rapid.Byte().Draw(t, "b")
		want := clampU8(wantRequantise((int32(a)-p.ZA)*(int32(b)-p.ZB), p.M)+int64(p.ZY), p.Lo, p.Hi)
		if got := p.Mul(a, b); got != want {
			t.Fatalf("%+v: Mul(%d, %d) = %d, want %d", p, a, b, got, want)
		}
	})
	p, err := NewMul(0.5, 0.25, 0.125, 3, 4, 5, 0, 255)
	if err != nil || p.Mul(13, 6) != 25 {
		t.Errorf("10·2·(0.5·0.25/0.125)+5 = %d, %v, want 25", p.Mul(13, 6), err)
	}
}

func TestNewLUT(t *testing.T) {
	// 1/x has a pole at the zero point, where it also is +Inf·0 for 0/0 shapes.
	inv := NewLUT(func(x float64) float64 { return 1 / x }, 1, 128, 0.5, 10, 0, 200)
	for q, want := range map[int]byte{128: 200, 129: 12, 132: 10, 126: 9, 127: 8} {
		if inv[q] != want {
			t.Errorf("1/x at %d = %d, want %d", q, inv[q], want)
		}
	}
	log := NewLUT(math.Log, 1, 128, 1, 7, 0, 255)
	if log[0] != 7 || log[128] != 0 || log[129] != 7 {
		t.Errorf("log: NaN %d, −∞ %d, 0 %d", log[0], log[128], log[129])
	}
	ident := NewLUT(func(x float64) float64 { return x }, 0.5, 0, 1, 0, 0, 255)
	for q, y := range ident {
		if want := byte(math.RoundToEven(float64(q) / 2)); y != want {
			t.Errorf("%d/2 = %d, want %d", q, y, want)
		}
	}
}

// TestSoftmax compares random rows with the real softmax in float64.
func TestSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	total, off := 0, 0
	for trial := range 400 {
		n := 1 + r.IntN(40)
		switch trial % 4 {
		case 0:
			n = 200 + r.IntN(200)
		case 1:
			n = 4096 - r.IntN(9)
			if trial == 1 {
				n = MaxSoftmax
			}
		}
		sx := math.Exp(2*r.NormFloat64() - 2)
		sy, zy := 1.0/256, int32(0)
		if trial%3 == 1 {
			sy, zy = (0.2+r.Float64())/float64(n), int32(r.IntN(256))
			sy = max(sy, 1.0/4096)
		}
		p, err := NewSoftmax(sx, sy, zy, 0, 255)
		if err != nil {
			t.Fatal(err)
		}
		src, dst := make([]byte, n), make([]byte, n)
		spread := 1 + r.IntN(256)
		for i := range src {
			src[i] = byte(r.IntN(spread))
		}
		Softmax(dst, src, &p)
		sum, top := 0.0, byte(0)
		for _, q := range src {
			top = max(top, q)
		}
		for _, q := range src {
			sum += math.Exp(-float64(top-q) * sx)
		}
		bound := p.Error(n)
		for i, q := range src {
			real := math.Exp(-float64(top-q)*sx) / sum / sy
			want := clampFloat(real, zy, 0, 255)
			total++
			if dst[i] == want {
				continue
			}
			off++
			tie := math.Abs(real - math.Floor(real) - 0.5)
			if d := int(dst[i]) - int(want); d > 1 || d < -1 || tie > bound {
				t.Fatalf("n=%d sx=%g sy=%g: code %d gives %d, want %d (real %g, bound %g)", n, sx, sy, q, dst[i], want, real, bound)
			}
		}
	}
	t.Logf("%d of %d codes one off", off, total)
}

// TestSoftmaxMasked: elements that lie ln(512·n) below the greatest of a row of n get
// exactly 0, and take nothing from the others but a code's rounding.
func TestSoftmaxMasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, masked := rapid.IntRange(1, 20).Draw(t, "seen"), rapid.IntRange(0, 1000).Draw(t, "masked")
		reach := math.Log(512 * float64(seen+masked))
		sx := rapid.Float64Range(reach/254, 1).Draw(t, "sx")
		far := int(math.Ceil(reach / sx))
		p, err := NewSoftmax(sx, 1.0/256, 0, 0, 255)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]byte, seen+masked)
		for i := range seen {
			row[i] = byte(rapid.IntRange(1, 255).Draw(t, "code"))
		}
		row[0] = byte(rapid.IntRange(far, 255).Draw(t, "greatest"))
		alone := make([]byte, seen)
		Softmax(alone, row[:seen], &p)
		Softmax(row, row, &p)
		for i, y := range row {
			if i >= seen && y != 0 || i < seen && (y > alone[i] || int(y)+1 < int(alone[i])) {
				t.Fatalf("element %d of %d seen and %d masked is %d", i, seen, masked, y)
			}
		}
	})
}

// TestSoftmaxExact holds the division to exact arithmetic, and short rows to
// long ones.
func TestSoftmaxExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := SoftmaxParams{C: rapid.Uint64Range(0, 1<<32).Draw(t, "C"), ZY: drawZero(t, "zy"), Hi: 255}
		table := rapid.Uint32Range(0, 1<<30).Draw(t, "t")
		den := rapid.Uint64Range(1<<30, MaxSoftmax<<30).Draw(t, "sum") << softmaxFrac
		num := new(big.Int).Mul(big.NewInt(int64(table)), new(big.Int).SetUint64(p.C))
		q := roundRat(new(big.Rat).SetFrac(num, new(big.Int).SetUint64(den)))
		if got, want := p.share(table, den), clampU8(q.Int64()+int64(p.ZY), 0, 255); got != want {
			t.Fatalf("share(%d, %d) = %d, want %d", table, den, got, want)
		}
	})
}

func TestQuantise(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x, scale float32
		zp       int32
		want     byte
	}{
		{0.5, 1, 10, 10}, {1.5, 1, 10, 12}, {2.5, 1, 10, 12}, {-0.5, 1, 10, 10}, {-1.5, 1, 10, 8},
		{inf, 1, 10, 255}, {-inf, 1, 10, 0}, {float32(math.NaN()), 1, 10, 10},
		{3e38, 1e-30, 0, 255}, {-3e38, 1e-30, 255, 0}, {127, 1, 128, 255}, {-129, 1, 128, 0}, {0.1, 0.3, 0, 0},
	} {
		var dst [1]byte
		eachISA(t, func(t *testing.T) {
			QuantiseU8(dst[:], []float32{c.x}, c.scale, c.zp)
			if dst[0] != c.want {
				t.Errorf("%g/%g+%d = %d, want %d", c.x, c.scale, c.zp, dst[0], c.want)
			}
		})
	}
	for q := range 256 {
		var x [1]float32
		var back [1]byte
		DequantiseU8(x[:], []byte{byte(q)}, 0.037, 77)
		if want := float32(q-77) * 0.037; x[0] != want {
			t.Errorf("code %d is %g, want %g", q, x[0], want)
		}
		QuantiseU8(back[:], x[:], 0.037, 77)
		if int(back[0]) != q {
			t.Errorf("code %d came back as %d", q, back[0])
		}
	}
}

func ExampleRequantise() {
	m, err := NewMultiplier(0.25)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(Requantise(9, m), Requantise(10, m), Requantise(14, m), Requantise(-10, m))
	// Output: 2 2 4 -2
}
