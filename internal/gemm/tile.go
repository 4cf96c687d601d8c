package gemm

import "unsafe"

// tile is the argument block of one micro-kernel call. A kernel named RxW
// computes groups × R rows by W×16 columns:
//
//	c[i][j] (+)= Σ_s Σ_x a[rows[i]+segs[s]+x] · panel[s·segLen+x][j]
//
// and the assembly finds the fields through go_asm.h. Kernels count groups down
// and done up and leave the rest, so the next kernel continues behind the last.
// The cursor is an index, since the garbage collector must not meet a pointer
// past its object.
type tile struct {
	a          unsafe.Pointer
	rows       *int32 // element offsets into a, one a row
	segs       *int32 // element offsets from a row's start, one a segment
	nsegs      int
	segBytes   int // bytes of a segment, a multiple of 4
	panel      unsafe.Pointer
	stride     int // bytes from one K step (4 int8 or 1 float32) to the next
	c          unsafe.Pointer
	ldc        int    // bytes from one row of c to the next
	groups     int    // how many times R rows
	mask       uint64 // lanes of the last 16-column vector that exist in c
	accumulate uint64 // all ones to add to c, 0 to overwrite it
	done       int    // rows computed so far: the kernel's cursor in rows and c
}

// maxTileRows is the largest R of the AVX-512 kernels: 6 rows × 64 columns are
// 24 accumulators, which leaves 4 registers for the weights and one for the
// broadcast activation.
const maxTileRows = 6

// splitRows cuts m rows into tiles of at most most rows that differ by at most
// one: n1 tiles of r1 rows, then n2 of r1-1. Seven rows are 4+3, not 6+1,
// because a kernel's rate falls with fewer independent accumulators.
func splitRows(m, most int) (n1, r1, n2 int) {
	q := (m + most - 1) / most
	r := m / q
	if m%q == 0 {
		return q, r, 0
	}
	n1 = m % q
	return n1, r + 1, q - n1
}
