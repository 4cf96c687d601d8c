package fixed

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// perElement reports the time of one of n elements.
func perElement(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
}

func BenchmarkElementwise(b *testing.B) {
	const n = 1 << 14
	r := rand.New(rand.NewPCG(1, 1))
	dst, x, y := make([]byte, n), randomBytes(r, n), randomBytes(r, n)
	acc, f := make([]int32, n), make([]float32, n)
	add, err := NewAdd(0.3, 0.2, 0.4, 1, 2, 3, 0, 255)
	if err != nil {
		b.Fatal(err)
	}
	mul, err := NewMul(0.3, 0.2, 0.4, 1, 2, 3, 0, 255)
	if err != nil {
		b.Fatal(err)
	}
	soft, err := NewSoftmax(0.1, 1.0/256, 0, 0, 255)
	if err != nil {
		b.Fatal(err)
	}
	table := new([256]byte)
	for _, k := range []struct {
		name string
		run  func()
	}{
		{"Add", func() { AddU8(dst, x, y, &add) }},
		{"Mul", func() { MulU8(dst, x, y, &mul) }},
		{"LUT", func() { LUT(dst, x, table) }},
		{"Max", func() { MaxU8(dst, x) }},
		{"Sum", func() { SumU8(acc, x) }},
		{"Quantise", func() { QuantiseU8(dst, f, 0.1, 3) }},
		{"Dequantise", func() { DequantiseU8(f, x, 0.1, 3) }},
		{"Softmax", func() { Softmax(dst, x, &soft) }},
	} {
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				k.run()
			}
			perElement(b, n)
		})
	}
}

func BenchmarkRequantise(b *testing.B) {
	for _, s := range [][2]int{{1, 64}, {14, 64}, {196, 256}} {
		rows, cols := s[0], s[1]
		acc := randomInt32(rand.New(rand.NewPCG(1, 1)), rows*cols, 20)
		dst, bias, shift := make([]byte, rows*cols), make([]int32, cols), bytes.Repeat([]byte{40}, cols)
		mult := make([]int32, cols)
		for i := range mult {
			mult[i] = 1<<30 + int32(i)
		}
		b.Run(fmt.Sprintf("%dx%d", rows, cols), func(b *testing.B) {
			for b.Loop() {
				RequantiseRows(dst, cols, acc, cols, rows, cols, bias, mult, shift, 3, 0, 255)
			}
			perElement(b, rows*cols)
		})
	}
}

// BenchmarkDepthwise is one output row of a 3×3 depthwise convolution.
func BenchmarkDepthwise(b *testing.B) {
	for _, s := range [][2]int{{112, 32}, {56, 144}, {14, 384}, {7, 960}, {1, 64}} {
		width, c := s[0], s[1]
		a, w := make([]byte, 3*(width+2)*c), make([]int8, 9*c)
		var rows, taps []int32
		for x := range width {
			rows = append(rows, int32(x*c))
		}
		for t := range 9 {
			taps = append(taps, int32((t/3*(width+2)+t%3)*c))
		}
		acc := make([]int32, width*c)
		b.Run(fmt.Sprintf("%dx%d", width, c), func(b *testing.B) {
			for b.Loop() {
				DepthwiseRows(acc, c, a, rows, taps, c, w)
			}
			perElement(b, width*c)
			b.ReportMetric(float64(b.N)*float64(9*width*c)/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}
