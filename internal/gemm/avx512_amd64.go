package gemm

// The micro-kernels of avx512_amd64.s: rows x vectors of 16 columns.

//go:noescape
func vnni1x1(t *tile)

//go:noescape
func vnni2x1(t *tile)

//go:noescape
func vnni3x1(t *tile)

//go:noescape
func vnni4x1(t *tile)

//go:noescape
func vnni5x1(t *tile)

//go:noescape
func vnni6x1(t *tile)

//go:noescape
func vnni1x2(t *tile)

//go:noescape
func vnni2x2(t *tile)

//go:noescape
func vnni3x2(t *tile)

//go:noescape
func vnni4x2(t *tile)

//go:noescape
func vnni5x2(t *tile)

//go:noescape
func vnni6x2(t *tile)

//go:noescape
func vnni1x3(t *tile)

//go:noescape
func vnni2x3(t *tile)

//go:noescape
func vnni3x3(t *tile)

//go:noescape
func vnni4x3(t *tile)

//go:noescape
func vnni5x3(t *tile)

//go:noescape
func vnni6x3(t *tile)

//go:noescape
func vnni1x4(t *tile)

//go:noescape
func vnni2x4(t *tile)

//go:noescape
func vnni3x4(t *tile)

//go:noescape
func vnni4x4(t *tile)

//go:noescape
func vnni5x4(t *tile)

//go:noescape
func vnni6x4(t *tile)

//go:noescape
func fma1x1(t *tile)

//go:noescape
func fma2x1(t *tile)

//go:noescape
func fma3x1(t *tile)

//go:noescape
func fma4x1(t *tile)

//go:noescape
func fma5x1(t *tile)

//go:noescape
func fma6x1(t *tile)

//go:noescape
func fma1x2(t *tile)

//go:noescape
func fma2x2(t *tile)

//go:noescape
func fma3x2(t *tile)

//go:noescape
func fma4x2(t *tile)

//go:noescape
func fma5x2(t *tile)

//go:noescape
func fma6x2(t *tile)

//go:noescape
func fma1x3(t *tile)

//go:noescape
func fma2x3(t *tile)

//go:noescape
func fma3x3(t *tile)

//go:noescape
func fma4x3(t *tile)

//go:noescape
func fma5x3(t *tile)

//go:noescape
func fma6x3(t *tile)

//go:noescape
func fma1x4(t *tile)

//go:noescape
func fma2x4(t *tile)

//go:noescape
func fma3x4(t *tile)

//go:noescape
func fma4x4(t *tile)

//go:noescape
func fma5x4(t *tile)

//go:noescape
func fma6x4(t *tile)

//go:noescape
func vnniPeak(n int)

//go:noescape
func fmaPeak(n int)

// runVNNI calls the vnni kernel of r rows (1..6) by w vectors (1..4).
func runVNNI(t *tile, r, w int) {
	switch r + 8*w {
	case 1 + 8*1:
		vnni1x1(t)
	case 2 + 8*1:
		vnni2x1(t)
	case 3 + 8*1:
		vnni3x1(t)
	case 4 + 8*1:
		vnni4x1(t)
	case 5 + 8*1:
		vnni5x1(t)
	case 6 + 8*1:
		vnni6x1(t)
	case 1 + 8*2:
		vnni1x2(t)
	case 2 + 8*2:
		vnni2x2(t)
	case 3 + 8*2:
		vnni3x2(t)
	case 4 + 8*2:
		vnni4x2(t)
	case 5 + 8*2:
		vnni5x2(t)
	case 6 + 8*2:
		vnni6x2(t)
	case 1 + 8*3:
		vnni1x3(t)
	case 2 + 8*3:
		vnni2x3(t)
	case 3 + 8*3:
		vnni3x3(t)
	case 4 + 8*3:
		vnni4x3(t)
	case 5 + 8*3:
		vnni5x3(t)
	case 6 + 8*3:
		vnni6x3(t)
	case 1 + 8*4:
		vnni1x4(t)
	case 2 + 8*4:
		vnni2x4(t)
	case 3 + 8*4:
		vnni3x4(t)
	case 4 + 8*4:
		vnni4x4(t)
	case 5 + 8*4:
		vnni5x4(t)
	case 6 + 8*4:
		vnni6x4(t)
	}
}

// runFMA512 calls the fma kernel of r rows (1..6) by w vectors (1..4).
func runFMA512(t *tile, r, w int) {
	switch r + 8*w {
	case 1 + 8*1:
		fma1x1(t)
	case 2 + 8*1:
		fma2x1(t)
	case 3 + 8*1:
		fma3x1(t)
	case 4 + 8*1:
		fma4x1(t)
	case 5 + 8*1:
		fma5x1(t)
	case 6 + 8*1:
		fma6x1(t)
	case 1 + 8*2:
		fma1x2(t)
	case 2 + 8*2:
		fma2x2(t)
	case 3 + 8*2:
		fma3x2(t)
	case 4 + 8*2:
		fma4x2(t)
	case 5 + 8*2:
		fma5x2(t)
	case 6 + 8*2:
		fma6x2(t)
	case 1 + 8*3:
		fma1x3(t)
	case 2 + 8*3:
		fma2x3(t)
	case 3 + 8*3:
		fma3x3(t)
	case 4 + 8*3:
		fma4x3(t)
	case 5 + 8*3:
		fma5x3(t)
	case 6 + 8*3:
		fma6x3(t)
	case 1 + 8*4:
		fma1x4(t)
	case 2 + 8*4:
		fma2x4(t)
	case 3 + 8*4:
		fma3x4(t)
	case 4 + 8*4:
		fma4x4(t)
	case 5 + 8*4:
		fma5x4(t)
	case 6 + 8*4:
		fma6x4(t)
	}
}
