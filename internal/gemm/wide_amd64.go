package gemm

import "unsafe"

// The int8 kernels for AVX2, which has no exact product of bytes: VPMADDUBSW
// saturates, and VPMADDWD multiplies only 16 words. A word here holds a number of
// both operands, so that one VPMADDWD does the work of two:
//
//	(256·w1 + a0)·(256·w0 + a1) = 65536·w0·w1 + 256·(a0·w0 + a1·w1) + a0·a1
//
// Four k's of a column make two such words. The outer terms depend on the
// weights alone, or on the row alone: their sums are taken once a panel (its
// dots) and once a row (its sums), and what is left, 256·Σa·w modulo 2^32, is
// exact after a shift as long as Σa·w fits 24 bits: 256·255·128 < 2^23, which
// makes blocks of 256 k. The idea, a product of sums in place of a sum of two
// products, is of Winograd, "A New Algorithm for Inner Product", 1968.

// wideK is the number of k in a block.
const wideK = 256

// wideRowBytes is the distance of widened rows: for each K step the words (a0, a2)
// and (a1, a3). The assembly knows it as ROW_BYTES.
const wideRowBytes = 2 * wideK

// wideHigh is the most rows of a kernel: 8 accumulators, 4 vectors of weights and
// 4 of scratch fill the registers.
const wideHigh = 4

// wideTile is the argument block of one kernel call: R rows by groups × 16
// columns over one block of K.
type wideTile struct {
	rows       *byte          // R widened rows
	panel      unsafe.Pointer // the block's first K step
	dots       unsafe.Pointer // the block's, one int32 a column
	sums       *int32         // Σ(a0·a1 + a2·a3), one a row
	steps      int            // K steps of the block, of 4 k
	groups     int
	c          unsafe.Pointer
	ldc        int    // bytes from one row of c to the next
	accumulate uint32 // all ones to add to c, 0 to overwrite it
}

//go:noescape
func wide1(t *wideTile)

//go:noescape
func wide2(t *wideTile)

//go:noescape
func wide3(t *wideTile)

//go:noescape
func wide4(t *wideTile)

// wideRows is the argument block of widenRows.
type wideRows struct {
	to       *byte  // n rows, wideRowBytes apart
	sums     *int32 // n of them
	a        unsafe.Pointer
	rows     *int32 // n offsets into a
	n        int
	segs     *int32 // the first segment of the block
	segBytes int
	skip     int // bytes of the first segment that lie before the block
	bytes    int // K of the block
}

//go:noescape
func widenRows(t *wideRows)

//go:noescape
func panelDots(dots *int32, panel *int8, steps int)

//go:noescape
func widePeak(n int)

// finishPanel computes the dots of a packed panel of k rows, a multiple of 4.
func finishPanel(panel []int8, k int) {
	if active != isaAVX2 || k == 0 {
		return
	}
	dots := panel[k*PanelCols:]
	for x := 0; x < k; x += wideK {
		panelDots((*int32)(unsafe.Pointer(&dots[x/wideK*stepBytes])), &panel[x*PanelCols], min(k-x, wideK)/4)
	}
}

// wideInt8 is Indirect on checked, non-empty operands.
func wideInt8(c []int32, ldc, cols int, accumulate bool, a []byte, rows, segs []int32, segLen int, panels []int8) {
	var widened [wideHigh * wideRowBytes]byte
	var sums [wideHigh]int32
	w := wideRows{to: &widened[0], sums: &sums[0], a: unsafe.Pointer(&a[0]), segBytes: segLen}
	t := wideTile{rows: &widened[0], sums: &sums[0]}
	k := len(segs) * segLen
	size := PanelBytes(k)
	full, high, _ := splitRows(len(rows), wideHigh)
	for x := 0; x < k; x += wideK {
		w.segs, w.skip, w.bytes = &segs[x/segLen], x%segLen, min(k-x, wideK)
		t.steps = w.bytes / 4
		if accumulate || x > 0 {
			t.accumulate = 1<<32 - 1
		}
		n := high
		for i, tiles := 0, 0; i < len(rows); i += n {
			if tiles++; tiles > full {
				n = high - 1
			}
			w.rows, w.n = &rows[i], n
			widenRows(&w)
			for j := 0; j < cols; j += PanelCols {
				panel := panels[j/PanelCols*size:][:size]
				t.run(c[i*ldc+j:], ldc, min(cols-j, PanelCols), n, panel[x*PanelCols:], panel[k*PanelCols+x/wideK*stepBytes:])
			}
		}
	}
}

// run computes n rows of one panel from what has been widened.
func (t *wideTile) run(c []int32, ldc, cols, n int, block, dots []int8) {
	t.panel, t.dots = unsafe.Pointer(&block[0]), unsafe.Pointer(&dots[0])
	if t.groups = cols / 16; t.groups > 0 {
		t.c, t.ldc = unsafe.Pointer(&c[0]), 4*ldc
		t.kernel(n)
	}
	live := cols % 16
	if live == 0 {
		return
	}
	// Kernels compute 16 columns, so fewer go through a buffer.
	var buf [wideHigh * 16]int32
	c = c[cols-live:]
	for r := range n {
		copy(buf[16*r:16*r+live], c[r*ldc:])
	}
	skip := 64 * (cols / 16)
	t.panel, t.dots = unsafe.Pointer(&block[skip]), unsafe.Pointer(&dots[skip])
	t.c, t.ldc, t.groups = unsafe.Pointer(&buf[0]), 4*16, 1
	t.kernel(n)
	for r := range n {
		copy(c[r*ldc:][:live], buf[16*r:])
	}
}

// kernel calls the kernel of n rows.
func (t *wideTile) kernel(n int) {
	switch n {
	case 1:
		wide1(t)
	case 2:
		wide2(t)
	case 3:
		wide3(t)
	case 4:
		wide4(t)
	}
}
