//go:build !amd64

package gemm

// Without assembly the level is always portable, so these are never reached.

func runVNNI512(*tile, int, int, bool) { panic("gemm: no kernels on this architecture") }
func runF32(*tile, int, int, bool)     { panic("gemm: no kernels on this architecture") }

func wideInt8([]int32, int, int, bool, []byte, []int32, []int32, int, []int8) {
	panic("gemm: no kernels on this architecture")
}

func finishPanel([]int8, int) {}

func vnniPeak(int)   {}
func fmaPeak(int)    {}
func widePeak(int)   {}
func fmaPeak256(int) {}
