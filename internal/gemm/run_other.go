//go:build !amd64

package gemm

// Without assembly the level is always portable, so these are never reached.

func runInt8(*tile, int, int, bool) { panic("gemm: no kernels on this architecture") }
func runF32(*tile, int, int, bool)  { panic("gemm: no kernels on this architecture") }

func vnniPeak(int) {}
func fmaPeak(int)  {}
