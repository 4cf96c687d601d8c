package gemm

import "time"

// peakRound is the number of instructions in one round of a peak kernel.
const peakRound = 16

// PeakInt8 measures, for about d, the rate of independent VPDPBUSD instructions
// on registers and returns it in multiply-adds a second on one core: the
// ceiling of the int8 kernels. It is 0 when AVX-512 is not in use.
func PeakInt8(d time.Duration) float64 { return peak(d, vnniPeak, 64) }

// PeakF32 is PeakInt8 for float32 and VFMADD231PS.
func PeakF32(d time.Duration) float64 { return peak(d, fmaPeak, 16) }

// peak returns the best rate of several timed runs within d.
func peak(d time.Duration, kernel func(int), macs int) float64 {
	if active != isaAVX512 {
		return 0
	}
	const rounds = 50_000
	best := 0.0
	for end := time.Now().Add(d); time.Now().Before(end); {
		start := time.Now()
		kernel(rounds)
		best = max(best, float64(rounds*peakRound*macs)/time.Since(start).Seconds())
	}
	return best
}
