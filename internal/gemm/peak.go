package gemm

import "time"

// peakRound is the number of instructions, or sequences of them, in one round of
// a peak kernel.
const peakRound = 16

// PeakInt8 measures, for about d, the rate of what an int8 kernel repeats, on
// registers and each independent of the last, and returns it in multiply-adds a
// second on one core: the ceiling of the int8 kernels. That is VPDPBUSD for
// AVX-512 and VPOR, VPOR, VPMADDWD, VPADDD for AVX2. It is 0 at the portable level.
func PeakInt8(d time.Duration) float64 {
	switch active {
	case isaAVX512:
		return peak(d, vnniPeak, 64)
	case isaAVX2:
		return peak(d, widePeak, 32)
	}
	return 0
}

// PeakF32 is PeakInt8 for float32 and VFMADD231PS.
func PeakF32(d time.Duration) float64 {
	switch active {
	case isaAVX512:
		return peak(d, fmaPeak, 16)
	case isaAVX2:
		return peak(d, fmaPeak256, 8)
	}
	return 0
}

// peak returns the best rate of several timed runs within d.
func peak(d time.Duration, kernel func(int), macs int) float64 {
	const rounds = 5_000
	best := 0.0
	for end := time.Now().Add(d); time.Now().Before(end); {
		start := time.Now()
		kernel(rounds)
		best = max(best, float64(rounds*peakRound*macs)/time.Since(start).Seconds())
	}
	return best
}
