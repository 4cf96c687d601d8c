package passes

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
)

// TestBlockCodes holds the codes of weights in blocks against the definition of the
// format: elements of a block are multiples of its power of two, which is that of
// its greatest weight, and the nearest such multiple to the weight.
func TestBlockCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SampledFrom([]int{8, 4}).Draw(t, "bits")
		n, k := rapid.IntRange(1, 3).Draw(t, "channels"), rapid.IntRange(1, 100).Draw(t, "k")
		axis := rapid.IntRange(0, 1).Draw(t, "axis")
		shape := []int{n, k}
		if axis == 1 {
			shape = []int{k, n}
		}
		w := make([]float32, n*k)
		for i := range w {
			mantissa, exponent := rapid.Float64Range(-1, 1).Draw(t, "w"), rapid.IntRange(-12, 3).Draw(t, "e")
			w[i] = float32(math.Ldexp(mantissa, exponent))
		}
		at := func(c, i int) int {
			if axis == 1 {
				return i*n + c
			}
			return c*k + i
		}
		got := blockCodes(w, shape, axis, bits, func(int) float64 { return 1 })
		if err := ir.ValidType(got.tensor.Type().WithQuant(got.quant)); err != nil {
			t.Fatal(err)
		}
		codes, most := ir.Data[int8](got.tensor), math.Ldexp(1, bits-1)-1
		for c := range n {
			if f, _ := math.Frexp(float64(got.quant.Scale[c])); f != 0.5 {
				t.Fatalf("scale %v is no power of two", got.quant.Scale[c])
			}
			steps := make([]float64, k)
			highest := 0.0
			for from := 0; from < k; from += 32 {
				top := 0.0
				for i := from; i < min(from+32, k); i++ {
					top = max(top, math.Abs(float64(w[at(c, i)])))
				}
				step := 0.0
				if top > 0 {
					step = math.Exp2(math.Floor(math.Log2(top)) - float64(bits-2))
				}
				highest = max(highest, step)
				for i := from; i < min(from+32, k); i++ {
					steps[i] = step
				}
			}
			sum := 0.0
			for i, step := range steps {
				x := float64(w[at(c, i)])
				step = max(step, highest/(1<<blockSpread), minScale/2)
				code := float64(codes[at(c, i)])
				value := math.Ldexp(code*float64(got.quant.Scale[c]), int(got.quant.ShiftOf(c, i, k)))
				want := step * min(max(math.RoundToEven(x/step), -most), most)
				// Bias and least scale may ask for a coarser step than the format's.
				if own := math.Ldexp(float64(got.quant.Scale[c]), int(got.quant.ShiftOf(c, i, k))); own <= step && value != want && highest > 0 {
					t.Fatalf("channel %d, weight %d: %v is %v, want %v in steps of %v", c, i, x, value, want, step)
				}
				sum += 255 * math.Abs(value) / float64(got.quant.Scale[c])
			}
			if sum >= 1<<31 {
				t.Fatalf("channel %d: a sum of %v does not fit int32", c, sum)
			}
		}
	})
}

// TestBlockCodesExample is a channel of two blocks by hand: the first has greatest
// weight 1.5, in steps of 2^-6, the second 0.2, in steps of 2^-9.
func TestBlockCodesExample(t *testing.T) {
	w := make([]float32, 40)
	w[0], w[1], w[31], w[32], w[39] = 1.5, -0.5, 0.01, 0.2, -0.001
	got := blockCodes(w, []int{1, 40}, 0, 8, func(int) float64 { return 0 })
	if s := got.quant.Scale[0]; s != 1.0/512 {
		t.Errorf("scale %v, want 2^-9", s)
	}
	if s := got.quant.Shift; len(s) != 2 || s[0] != 3 || s[1] != 0 {
		t.Errorf("shifts %v, want [3 0]", s)
	}
	codes := ir.Data[int8](got.tensor)
	for i, want := range map[int]int8{0: 96, 1: -32, 31: 1, 32: 102, 39: -1, 5: 0} {
		if codes[i] != want {
			t.Errorf("weight %d, %v, has code %d, want %d", i, w[i], codes[i], want)
		}
	}
}
