package gemm

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// ratePeak runs op, of macs multiply-adds, and reports its rate and the share of
// the peak measured in the same run. Both are taken from the fastest batch, so
// that other work on the machine does not count.
func ratePeak(b *testing.B, macs int, peak float64, op func()) {
	batch := max(1, 4_000_000/macs)
	best := time.Duration(1 << 62)
	ops, start := 0, time.Now()
	for b.Loop() {
		op()
		if ops++; ops == batch {
			now := time.Now()
			best = min(best, now.Sub(start))
			ops, start = 0, now
		}
	}
	rate := float64(macs*batch) / best.Seconds()
	b.ReportMetric(rate/1e9, "GMAC/s")
	if peak > 0 {
		b.ReportMetric(100*rate/peak, "%peak")
	}
}

func benchInt8(b *testing.B, m, k, n int) {
	a, w := make([]byte, m*k), make([]int8, k*n)
	for i := range a {
		a[i] = byte(rand.Uint32())
	}
	for i := range w {
		w[i] = int8(rand.Uint32())
	}
	c, packed := make([]int32, m*n), Pack(k, n, w, n)
	peak := PeakInt8(20 * time.Millisecond)
	ratePeak(b, m*k*n, peak, func() { Mul(c, n, a, k, m, packed) })
}

func BenchmarkInt8(b *testing.B) {
	for _, s := range [][3]int{{1024, 1024, 1024}, {196, 1152, 256}, {3136, 64, 256}, {14, 512, 512}, {6, 64, 64}, {1, 2048, 1024}, {3136, 576, 16}, {3136, 576, 32}, {3136, 576, 48}} {
		b.Run(fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), func(b *testing.B) { benchInt8(b, s[0], s[1], s[2]) })
	}
}

// BenchmarkIndirect is a 3×3 convolution of 56×56×64 with 64 outputs.
func BenchmarkIndirect(b *testing.B) {
	const side, ch = 58, 64
	a := make([]byte, side*side*ch)
	var rows, segs []int32
	for y := range 56 {
		for x := range 56 {
			rows = append(rows, int32((y*side+x)*ch))
		}
	}
	for y := range 3 {
		segs = append(segs, int32(y*side*ch))
	}
	w := make([]int8, 9*ch*64)
	panel := Pack(9*ch, 64, w, 64).Panel(0)
	c := make([]int32, len(rows)*64)
	peak := PeakInt8(20 * time.Millisecond)
	ratePeak(b, len(rows)*9*ch*64, peak, func() { Indirect(c, 64, 64, false, a, rows, segs, 3*ch, panel) })
}

// BenchmarkIndirectSmall is what one PIM tile costs: few rows of K = 64 or 576.
func BenchmarkIndirectSmall(b *testing.B) {
	for _, s := range [][3]int{{1, 64, 64}, {6, 64, 64}, {14, 64, 64}, {14, 576, 64}, {7, 576, 64}, {1, 576, 64}, {14, 64, 16}, {14, 576, 32}} {
		m, k, cols := s[0], s[1], s[2]
		b.Run(fmt.Sprintf("%dx%dx%d", m, k, cols), func(b *testing.B) {
			a, panel, c := make([]byte, m*k), make([]int8, PanelBytes(k)), make([]int32, m*cols)
			rows := make([]int32, m)
			for i := range rows {
				rows[i] = int32(i * k)
			}
			segs := []int32{0}
			peak := PeakInt8(20 * time.Millisecond)
			ratePeak(b, m*k*cols, peak, func() { Indirect(c, cols, cols, false, a, rows, segs, k, panel) })
		})
	}
}

func benchF32(b *testing.B, m, k, n, workers int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	r := rand.New(rand.NewPCG(1, 1))
	a, w, c := randomF32(r, m*k), randomF32(r, k*n), make([]float32, m*n)
	peak := PeakF32(20*time.Millisecond) * float64(workers)
	ratePeak(b, m*k*n, peak, func() { F32(c, n, a, k, m, k, n, w, n) })
}

func BenchmarkF32(b *testing.B) {
	for _, s := range [][3]int{{1024, 1024, 1024}, {196, 1152, 256}, {3136, 64, 256}, {14, 512, 512}, {1, 2048, 1024}} {
		for workers := 1; workers <= 2; workers++ {
			b.Run(fmt.Sprintf("%dx%dx%d/workers=%d", s[0], s[1], s[2], workers), func(b *testing.B) { benchF32(b, s[0], s[1], s[2], workers) })
		}
	}
}
