package gemm

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"situ/internal/par"
)

// F32Indirect is Indirect for float32 and one panel: offsets, segLen and ldc count
// elements, segLen is any length ≥ 0, and the panel is [K][64]float32 with
// K = len(segs)·segLen, as PackF32Into lays it out. Each element is summed in
// the order of k, starting from zero or, when accumulating, from c, with one
// rounding a step. It allocates nothing and panics as Indirect does.
func F32Indirect(c []float32, ldc, cols int, accumulate bool, a []float32, rows, segs []int32, segLen int, panel []float32) {
	if cols > PanelCols {
		panic(fmt.Sprintf("gemm: %d columns of one panel", cols))
	}
	if !check(len(c), ldc, cols, len(a), rows, segs, segLen, len(panel), PanelCols) {
		return
	}
	if len(segs)*segLen == 0 {
		clearRows(c, ldc, cols, len(rows), accumulate)
		return
	}
	indirectF32(c, ldc, cols, accumulate, a, rows, segs, segLen, panel, PanelCols)
}

// indirectF32 is F32Indirect on checked, non-empty operands with stride
// elements from one k of the panel to the next.
func indirectF32(c []float32, ldc, cols int, accumulate bool, a []float32, rows, segs []int32, segLen int, panel []float32, stride int) {
	if active == isaPortable {
		portableF32(c, ldc, cols, accumulate, a, rows, segs, segLen, panel, stride)
		return
	}
	t := tile{
		a: unsafe.Pointer(&a[0]), rows: &rows[0], segs: &segs[0], nsegs: len(segs), segBytes: 4 * segLen,
		panel: unsafe.Pointer(&panel[0]), stride: 4 * stride,
		c: unsafe.Pointer(&c[0]), ldc: 4 * ldc,
	}
	runF32(&t, len(rows), cols, accumulate)
}

// Blocks of F32: f32Rows rows of a by f32K of K stay in L2 while the panels
// pass, and a panel block of 64·f32K floats is read from L2 for each 6 rows.
const (
	f32Rows = 96
	f32K    = 256
)

// Products of fewer multiply-adds than these run on one goroutine, and with
// fewer rows read whole panels of b in place, since packing b costs about as
// much as multiplying it by that many rows.
const (
	f32SerialWork = 1 << 20
	f32PackedRows = 8
)

// scratch keeps the packed right operands of F32 for reuse.
var scratch = sync.Pool{New: func() any { return new([]float32) }}

// F32 computes the row-major product C = A·B, with A m×k (lda elements from row
// to row), B k×n (ldb) and C m×n (ldc). Large products are split over
// GOMAXPROCS goroutines. An element's sum is taken in the order of k with fused
// multiply-adds, so its bits depend on its row of A and its column of B alone.
// It panics when an operand is too short.
func F32(c []float32, ldc int, a []float32, lda, m, k, n int, b []float32, ldb int) {
	if m == 0 || n == 0 {
		return
	}
	if k < 0 || ldc < n && m > 1 || !fits(m, ldc, n, len(c)) ||
		k > 0 && (!fits(m, lda, k, len(a)) || !fits(k, ldb, n, len(b))) {
		panic(fmt.Sprintf("gemm: product of %d×%d×%d does not fit a (%d, %d apart), b (%d, %d apart) and c (%d, %d apart)",
			m, k, n, len(a), lda, len(b), ldb, len(c), ldc))
	}
	if k == 0 {
		clearRows(c, ldc, n, m, false)
		return
	}
	g := f32Product{c: c, a: a, b: b, ldc: ldc, lda: lda, ldb: ldb, m: m, k: k, n: n}
	g.panels = (n + PanelCols - 1) / PanelCols
	buf := scratch.Get().(*[]float32)
	defer scratch.Put(buf)
	g.firstPacked = 0
	if m < f32PackedRows {
		g.firstPacked = n / PanelCols
	}
	if need := (g.panels - g.firstPacked) * k * PanelCols; cap(*buf) < need {
		*buf = make([]float32, need)
	}
	g.packed = (*buf)[:cap(*buf)]

	g.block = min(m, f32Rows, max(1, math.MaxInt32/max(lda, 1))) // offsets fit int32
	chunks := (m + g.block - 1) / g.block
	workers := 1
	if m*n*k >= f32SerialWork {
		workers = runtime.GOMAXPROCS(0)
	}
	par.Do(workers, g.panels-g.firstPacked, func(p int) { g.pack(g.firstPacked + p) })
	if chunks >= 4*workers {
		par.Do(workers, chunks, func(i int) { g.run(i, 0, g.panels) })
		return
	}
	par.Do(workers, chunks*g.panels, func(i int) { g.run(i/g.panels, i%g.panels, i%g.panels+1) })
}

// f32Product is one call of F32.
type f32Product struct {
	c, a, b       []float32
	ldc, lda, ldb int
	m, k, n       int
	block         int // rows of a chunk
	panels        int
	firstPacked   int // panels from here on are read from packed
	packed        []float32
}

// pack packs panel p of b.
func (g *f32Product) pack(p int) {
	j := p * PanelCols
	PackF32Into(g.packed[(p-g.firstPacked)*g.k*PanelCols:], g.k, min(g.n-j, PanelCols), g.b[j:], g.ldb)
}

// run computes panels from..to-1 of the i-th chunk of rows.
func (g *f32Product) run(i, from, to int) {
	var offsets [f32Rows]int32
	for r := range g.block {
		offsets[r] = int32(r * g.lda)
	}
	i *= g.block
	rows := offsets[:min(g.m-i, g.block)]
	zero := [1]int32{}
	for x := 0; x < g.k; x += f32K {
		for p := from; p < to; p++ {
			j := p * PanelCols
			panel, stride := g.b[x*g.ldb+j:], g.ldb
			if p >= g.firstPacked {
				panel, stride = g.packed[((p-g.firstPacked)*g.k+x)*PanelCols:], PanelCols
			}
			indirectF32(g.c[i*g.ldc+j:], g.ldc, min(g.n-j, PanelCols), x > 0,
				g.a[i*g.lda+x:], rows, zero[:], min(g.k-x, f32K), panel, stride)
		}
	}
}
