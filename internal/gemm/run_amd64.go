package gemm

import "unsafe"

// runVNNI512 cuts rows × cols into the tiles of the AVX-512 kernels. The tile
// comes with everything but groups, mask and accumulate filled in.
func runVNNI512(t *tile, rows, cols int, accumulate bool) {
	w := begin512(t, cols, accumulate)
	n1, r1, n2 := splitRows(rows, maxTileRows)
	t.groups = n1
	runVNNI(t, r1, w)
	if t.groups = n2; n2 > 0 {
		runVNNI(t, r1-1, w)
	}
}

// runF32 is runVNNI512 for float32 at every level that has kernels.
func runF32(t *tile, rows, cols int, accumulate bool) {
	if active == isaAVX512 {
		w := begin512(t, cols, accumulate)
		n1, r1, n2 := splitRows(rows, maxTileRows)
		t.groups = n1
		runFMA512(t, r1, w)
		if t.groups = n2; n2 > 0 {
			runFMA512(t, r1-1, w)
		}
		return
	}
	runAVX2(*t, rows, cols, accumulate)
}

// begin512 sets the masks and returns the number of 16-column vectors.
func begin512(t *tile, cols int, accumulate bool) (w int) {
	w = (cols + 15) / 16
	t.mask = 1<<(cols-16*(w-1)) - 1
	if accumulate {
		t.accumulate = 1<<16 - 1
	}
	return w
}

// runAVX2 runs the AVX2 kernels for float32, which compute one vector of 16 columns and
// know no masks: a narrower last vector goes through a buffer.
func runAVX2(t tile, rows, cols int, accumulate bool) {
	if accumulate {
		t.accumulate = 1
	}
	for j := 0; j < cols; j += 16 {
		t := t
		t.panel = unsafe.Add(t.panel, 4*j)
		t.c = unsafe.Add(t.c, 4*j)
		if live := cols - j; live < 16 {
			runAVX2Narrow(t, rows, live)
		} else {
			runAVX2Rows(&t, rows)
		}
	}
}

// runAVX2Rows runs full 16-column kernels over rows rows, the taller first.
func runAVX2Rows(t *tile, rows int) {
	if t.groups = rows / 6; t.groups > 0 {
		fma256x6(t)
	}
	if t.groups = rows % 6; t.groups > 0 {
		fma256x1(t)
	}
}

// runAVX2Narrow computes live < 16 columns a few rows at a time in a buffer.
func runAVX2Narrow(t tile, rows, live int) {
	var buf [6 * 16]uint32
	c, ldc, first := t.c, t.ldc, unsafe.Pointer(t.rows)
	for i := 0; i < rows; i += 6 {
		n := min(rows-i, 6)
		for r := range n {
			copy(buf[16*r:16*r+live], unsafe.Slice((*uint32)(unsafe.Add(c, (i+r)*ldc)), live))
		}
		t.rows = (*int32)(unsafe.Add(first, 4*i))
		t.c, t.ldc, t.done = unsafe.Pointer(&buf), 4*16, 0
		runAVX2Rows(&t, n)
		for r := range n {
			copy(unsafe.Slice((*uint32)(unsafe.Add(c, (i+r)*ldc)), live), buf[16*r:16*r+live])
		}
	}
}
