package fixed

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// eachISA runs f at every level the machine has.
func eachISA(t *testing.T, f func(t *testing.T)) {
	saved := active
	defer func() { active = saved }()
	for level := isaPortable; level <= bestISA(); level++ {
		active = level
		t.Run(ISA(), f)
	}
}

func TestChooseISA(t *testing.T) {
	if got := chooseISA("portable", isaAVX512); got != isaPortable {
		t.Errorf("portable gives %v", got)
	}
	if got := chooseISA("avx512", isaAVX2); got != isaAVX2 {
		t.Errorf("avx512 on an AVX2 machine gives %v", got)
	}
}

func source(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

func randomBytes(r *rand.Rand, n int) []byte {
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(r.Uint32())
	}
	return v
}

func randomInt32(r *rand.Rand, n, bits int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(r.Uint32()) >> (32 - bits)
	}
	return v
}

func TestRequantiseRows(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows, cols := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 70).Draw(t, "cols")
			dstStride, accStride := cols+rapid.IntRange(0, 3).Draw(t, "dst slack"), cols+rapid.IntRange(0, 3).Draw(t, "acc slack")
			bits := rapid.IntRange(8, 32).Draw(t, "bits")
			lo, hi := drawRange(t)
			zp := drawZero(t, "zp")
			r := source(t)
			acc := randomInt32(r, rows*accStride, bits)
			var bias []int32
			if rapid.Bool().Draw(t, "bias") {
				bias = randomInt32(r, cols, bits)
			}
			tensor := rapid.Bool().Draw(t, "one multiplier")
			one := drawMultiplier(t)
			mult, shift := make([]int32, cols), make([]uint8, cols)
			least := MinShift
			if rapid.Bool().Draw(t, "results of 32 bits") {
				least = 32
			}
			for c := range mult {
				mult[c], shift[c] = 1<<30|int32(r.Uint32()>>2), uint8(max(least, bits+r.IntN(12)))
				if r.IntN(4) == 0 {
					mult[c] = 1 << 30 // exact ties
				}
				if r.IntN(4) == 0 {
					shift[c] = uint8(least + r.IntN(MaxShift-least+1))
				}
				if tensor {
					mult[c], shift[c] = one.M, one.Shift
				}
			}
			got := randomBytes(r, rows*dstStride)
			want := slices.Clone(got)
			for i := range rows {
				for c := range cols {
					v := acc[i*accStride+c]
					if bias != nil {
						v += bias[c]
					}
					want[i*dstStride+c] = clampU8(int64(Requantise(v, Multiplier{mult[c], shift[c]}))+int64(zp), lo, hi)
				}
			}
			if tensor {
				RequantiseTensor(got, dstStride, acc, accStride, rows, cols, bias, one, zp, lo, hi)
			} else {
				RequantiseRows(got, dstStride, acc, accStride, rows, cols, bias, mult, shift, zp, lo, hi)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("got  %v\nwant %v", got, want)
			}
		})
	})
}

// TestElementwise compares each kernel with its element function over odd
// lengths, and checks that the byte behind the end stays.
func TestElementwise(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(0, 200).Draw(t, "n")
			r := source(t)
			a, b, table := randomBytes(r, n+1), randomBytes(r, n+1), [256]byte(randomBytes(r, 256))
			add, mul := drawAdd(t), drawMul(t)
			scalar := rapid.Byte().Draw(t, "scalar")
			check := func(name string, run func(dst []byte), element func(i int) byte) {
				got := slices.Clone(b)
				run(got[:n])
				for i := range n {
					if want := element(i); got[i] != want {
						t.Fatalf("%s: element %d of %d is %d, want %d", name, i, n, got[i], want)
					}
				}
				if got[n] != b[n] {
					t.Fatalf("%s wrote behind the end", name)
				}
			}
			check("AddU8", func(dst []byte) { AddU8(dst, a, b, add) }, func(i int) byte { return add.Add(a[i], b[i]) })
			check("AddU8 in place", func(dst []byte) { AddU8(dst, a, dst, add) }, func(i int) byte { return add.Add(a[i], b[i]) })
			check("AddScalarU8", func(dst []byte) { AddScalarU8(dst, a, scalar, add) }, func(i int) byte { return add.Add(a[i], scalar) })
			check("MulU8", func(dst []byte) { MulU8(dst, a, b, mul) }, func(i int) byte { return mul.Mul(a[i], b[i]) })
			check("MulScalarU8", func(dst []byte) { MulScalarU8(dst, a, scalar, mul) }, func(i int) byte { return mul.Mul(a[i], scalar) })
			check("LUT", func(dst []byte) { LUT(dst, a, &table) }, func(i int) byte { return table[a[i]] })
			check("LUT in place", func(dst []byte) { LUT(dst, dst, &table) }, func(i int) byte { return table[b[i]] })
			check("MaxU8", func(dst []byte) { MaxU8(dst, a) }, func(i int) byte { return max(a[i], b[i]) })

			acc := randomInt32(r, n+1, 32)
			want := slices.Clone(acc)
			for i := range n {
				want[i] += int32(a[i])
			}
			SumU8(acc[:n], a)
			if !slices.Equal(acc, want) {
				t.Fatalf("SumU8: got %v, want %v", acc, want)
			}
		})
	})
}

func TestQuantiseU8(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(0, 70).Draw(t, "n")
			scale := rapid.OneOf(rapid.Float32Range(0.001, 10), rapid.SampledFrom([]float32{1, 0.5, 1e-38, 1e38})).Draw(t, "scale")
			zp := drawZero(t, "zp")
			r := source(t)
			src, got := make([]float32, n), make([]byte, n)
			for i := range src {
				switch r.IntN(3) {
				case 0:
					src[i] = math.Float32frombits(r.Uint32())
				case 1:
					src[i] = float32(r.IntN(600)-300) / 2 * scale
				default:
					src[i] = float32(r.NormFloat64()) * 100 * scale
				}
			}
			QuantiseU8(got, src, scale, zp)
			for i, x := range src {
				if want := quantise(x, scale, zp); got[i] != want {
					t.Fatalf("%g/%g+%d = %d, want %d", x, scale, zp, got[i], want)
				}
			}
		})
	})
}

func TestDepthwise(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			c := rapid.IntRange(1, 150).Draw(t, "c")
			taps := make([]int32, rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(dwTestTaps-2, dwTestTaps+3)).Draw(t, "taps"))
			rows := make([]int32, rapid.IntRange(1, 6).Draw(t, "rows"))
			r := source(t)
			a := randomBytes(r, c+rapid.IntRange(0, 40).Draw(t, "a"))
			w := make([]int8, len(taps)*c)
			for i := range w {
				w[i] = int8(r.Uint32())
			}
			slack := len(a) - c
			for i := range taps {
				taps[i] = int32(r.IntN(slack/2+1) - 7)
			}
			for i := range rows {
				rows[i] = int32(r.IntN(slack-slack/2+1) + 7)
			}
			stride := c + rapid.IntRange(0, 3).Draw(t, "slack")
			got := randomInt32(r, (len(rows)-1)*stride+c, 32)
			want := slices.Clone(got)
			for i, row := range rows {
				for ch := range c {
					sum := int32(0)
					for k, tap := range taps {
						sum += int32(a[int(row+tap)+ch]) * int32(w[k*c+ch])
					}
					want[i*stride+ch] = sum
				}
			}
			DepthwiseRows(got, stride, a, rows, taps, c, w)
			if !slices.Equal(got, want) {
				t.Fatalf("got  %v\nwant %v", got, want)
			}
			one := make([]int32, c)
			Depthwise(one, a[rows[0]-7:], addAll(taps, 7), w)
			if !slices.Equal(one, want[:c]) {
				t.Fatalf("one pixel: got %v, want %v", one, want[:c])
			}
		})
	})
}

// dwTestTaps is around the number of taps after which a kernel starts anew.
const dwTestTaps = 64

func addAll(v []int32, d int32) []int32 {
	v = slices.Clone(v)
	for i := range v {
		v[i] += d
	}
	return v
}

func TestChecks(t *testing.T) {
	b, acc, w := make([]byte, 64), make([]int32, 64), make([]int8, 64)
	shift := bytes.Repeat([]byte{31}, 64)
	for name, f := range map[string]func(){
		"requantise short acc":   func() { RequantiseU8(b, acc[:63], nil, acc, shift, 0, 0, 255) },
		"requantise short mult":  func() { RequantiseU8(b, acc, nil, acc[:63], shift, 0, 0, 255) },
		"requantise short bias":  func() { RequantiseU8(b, acc, acc[:1], acc, shift, 0, 0, 255) },
		"requantise short shift": func() { RequantiseU8(b, acc, nil, acc, shift[:63], 0, 0, 255) },
		"requantise overlap":     func() { RequantiseRows(b, 7, acc, 8, 2, 8, nil, acc, shift, 0, 0, 255) },
		"requantise rows":        func() { RequantiseTensor(b, 8, acc, 8, 9, 8, nil, Multiplier{1 << 30, 31}, 0, 0, 255) },
		"add short b":            func() { AddU8(b, b, b[:63], &AddParams{Shift: 1}) },
		"mul short a":            func() { MulU8(b, b[:63], b, &MulParams{M: Multiplier{1 << 30, 31}}) },
		"lut short src":          func() { LUT(b, b[:3], new([256]byte)) },
		"max short src":          func() { MaxU8(b, b[:3]) },
		"sum short src":          func() { SumU8(acc, b[:3]) },
		"quantise short src":     func() { QuantiseU8(b, make([]float32, 63), 1, 0) },
		"dequantise short src":   func() { DequantiseU8(make([]float32, 65), b, 1, 0) },
		"softmax lengths":        func() { Softmax(b, b[:3], new(SoftmaxParams)) },
		"depthwise tap":          func() { Depthwise(acc[:8], b, []int32{57}, w) },
		"depthwise negative tap": func() { Depthwise(acc[:8], b, []int32{-1}, w) },
		"depthwise weights":      func() { Depthwise(acc[:8], b, make([]int32, 9), w) },
		"overflowing stride":     func() { RequantiseRows(b, 1<<62, acc, 1, 5, 8, nil, acc, shift, 0, 0, 255) },
		"depthwise overlap":      func() { DepthwiseRows(acc, 7, b, []int32{0, 8}, []int32{0}, 8, w) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	Depthwise(acc[:0], nil, nil, nil)
	RequantiseU8(nil, nil, nil, nil, nil, 0, 0, 255)
	Softmax(nil, nil, new(SoftmaxParams))
}

func TestAllocations(t *testing.T) {
	const n = 300
	b, acc, w, f := make([]byte, n), make([]int32, n), make([]int8, 2*n), make([]float32, n)
	shift := bytes.Repeat([]byte{31}, n)
	add, mul := AddParams{Shift: 1}, MulParams{M: Multiplier{1 << 30, 31}}
	soft, err := NewSoftmax(0.1, 1.0/256, 0, 0, 255)
	if err != nil {
		t.Fatal(err)
	}
	eachISA(t, func(t *testing.T) {
		if got := testing.AllocsPerRun(3, func() {
			RequantiseU8(b, acc, acc, acc, shift, 0, 0, 255)
			RequantiseTensor(b, n, acc, n, 1, n, nil, mul.M, 0, 0, 255)
			AddU8(b, b, b, &add)
			AddScalarU8(b, b, 1, &add)
			MulU8(b, b, b, &mul)
			SumU8(acc, b)
			QuantiseU8(b, f, 1, 0)
			DequantiseU8(f, b, 1, 0)
			Softmax(b, b, &soft)
			DepthwiseRows(acc, 0, b, []int32{0}, []int32{0, 1}, n-1, w)
		}); got != 0 {
			t.Errorf("%v allocations", got)
		}
	})
}
