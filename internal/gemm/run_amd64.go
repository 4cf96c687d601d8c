package gemm

import "unsafe"

// runInt8 cuts rows × cols into the tiles of the active kernels. The tile comes
// with everything but groups, mask and accumulate filled in.
func runInt8(t tile, rows, cols int, accumulate bool) {
	if active == isaAVX512 {
		run512(t, rows, cols, accumulate, false)
		return
	}
	runAVX2(t, rows, cols, accumulate, false)
}

// runF32 is runInt8 for float32.
func runF32(t tile, rows, cols int, accumulate bool) {
	if active == isaAVX512 {
		run512(t, rows, cols, accumulate, true)
		return
	}
	runAVX2(t, rows, cols, accumulate, true)
}

// run512 runs the 1..6-row AVX-512 kernels.
func run512(t tile, rows, cols int, accumulate, float bool) {
	w := (cols + 15) / 16
	t.mask = 1<<(cols-16*(w-1)) - 1
	if accumulate {
		t.accumulate = 1<<16 - 1
	}
	n1, r1, n2 := splitRows(rows, maxTileRows)
	run512Groups(t, n1, r1, w, float)
	if n2 > 0 {
		run512Groups(t.skip(n1*r1), n2, r1-1, w, float)
	}
}

func run512Groups(t tile, groups, r, w int, float bool) {
	t.groups = groups
	if float {
		runFMA512(&t, r, w)
	} else {
		runVNNI(&t, r, w)
	}
}

// runAVX2 runs the AVX2 kernels, which compute one vector of 16 columns and
// know no masks: a narrower last vector goes through a buffer.
func runAVX2(t tile, rows, cols int, accumulate, float bool) {
	if accumulate {
		t.accumulate = 1
	}
	for j := 0; j < cols; j += 16 {
		t := t
		t.panel = unsafe.Add(t.panel, 4*j)
		t.c = unsafe.Add(t.c, 4*j)
		if live := cols - j; live < 16 {
			runAVX2Narrow(t, rows, live, float)
			continue
		}
		runAVX2Rows(t, rows, float)
	}
}

// runAVX2Rows runs full 16-column kernels over all rows, tallest first.
func runAVX2Rows(t tile, rows int, float bool) {
	heights := [...]int{2, 1}
	if float {
		heights = [...]int{6, 1}
	}
	for _, h := range heights {
		if t.groups = rows / h; t.groups == 0 {
			continue
		}
		done := t.groups * h
		switch {
		case !float && h == 2:
			madd2(&t)
		case !float:
			madd1(&t)
		case h == 6:
			fma256x6(&t)
		default:
			fma256x1(&t)
		}
		if rows -= done; rows == 0 {
			return
		}
		t = t.skip(done)
	}
}

// runAVX2Narrow computes live < 16 columns a few rows at a time in a buffer.
func runAVX2Narrow(t tile, rows, live int, float bool) {
	var buf [6 * 16]uint32
	c, ldc := t.c, t.ldc
	first := unsafe.Pointer(t.rows)
	for i := 0; i < rows; i += 6 {
		n := min(rows-i, 6)
		for r := range n {
			copy(buf[16*r:16*r+live], unsafe.Slice((*uint32)(unsafe.Add(c, (i+r)*ldc)), live))
		}
		t.rows = (*int32)(unsafe.Add(first, 4*i))
		t.c, t.ldc = unsafe.Pointer(&buf), 4*16
		runAVX2Rows(t, n, float)
		for r := range n {
			copy(unsafe.Slice((*uint32)(unsafe.Add(c, (i+r)*ldc)), live), buf[16*r:16*r+live])
		}
	}
}
