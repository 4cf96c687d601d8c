package gemm

import (
	"fmt"
	"math"
	"unsafe"
)

// Indirect computes an indirect product,
//
//	c[i*ldc+j] (+)= Σ_s Σ_x a[rows[i]+segs[s]+x] · panels[s*segLen+x][j],  0 ≤ j < cols,
//
// adding to c when accumulate is set. Sums wrap at 32 bits. rows holds the
// byte offset of each input vector in a, segs the byte offset of each K segment
// from there; segLen is a multiple of 4. The ⌈cols/64⌉ panels lie one behind the
// other, each packed with K = len(segs)·segLen, all of it. Columns from cols on are
// not touched, and cost what there is of them up to a multiple of 16. It allocates
// nothing.
//
// It panics, before touching anything, when an offset leads outside a, when c is
// too short or the panels are not of this K, or segLen is no multiple of 4.
func Indirect(c []int32, ldc, cols int, accumulate bool, a []byte, rows, segs []int32, segLen int, panels []int8) {
	if !check(len(c), ldc, cols, len(a), rows, segs, segLen, len(panels), PanelCols) {
		return
	}
	if k := len(segs) * segLen; segLen%4 != 0 || len(panels)%panelsOf(cols) != 0 || len(panels)/panelsOf(cols) != PanelBytes(k) {
		panic(fmt.Sprintf("gemm: %d bytes of panels for %d columns and K = %d·%d, which need %d and segments of a multiple of 4",
			len(panels), cols, len(segs), segLen, panelsOf(cols)*PanelBytes(k)))
	}
	if len(segs)*segLen == 0 {
		clearRows(c, ldc, cols, len(rows), accumulate)
		return
	}
	indirectInt8(c, ldc, cols, accumulate, a, rows, segs, segLen, panels)
}

// maxK keeps a block of a panel, 64·maxK bytes, within the first-level cache.
const maxK = 512

// indirectInt8 is Indirect on checked, non-empty operands, a panel and a block of K
// at a time: some segments, or a part of one.
func indirectInt8(c []int32, ldc, cols int, accumulate bool, a []byte, rows, segs []int32, segLen int, panels []int8) {
	if active == isaAVX2 {
		wideInt8(c, ldc, cols, accumulate, a, rows, segs, segLen, panels)
		return
	}
	per := max(1, maxK/segLen)
	size := PanelBytes(len(segs) * segLen)
	for j := 0; j < cols; j += PanelCols {
		panel := panels[j/PanelCols*size:]
		for s := 0; s < len(segs); s += per {
			some := segs[s:min(s+per, len(segs))]
			for x := 0; x < segLen; x += maxK {
				blockInt8(c[j:], ldc, min(cols-j, PanelCols), accumulate || s > 0 || x > 0, a[x:], rows, some, min(segLen-x, maxK), panel[(s*segLen+x)*PanelCols:])
			}
		}
	}
}

// blockInt8 computes one block of K of one panel.
func blockInt8(c []int32, ldc, cols int, accumulate bool, a []byte, rows, segs []int32, segLen int, panel []int8) {
	if active == isaPortable {
		portableInt8(c, ldc, cols, accumulate, a, rows, segs, segLen, panel)
		return
	}
	t := tile{
		a: unsafe.Pointer(&a[0]), rows: &rows[0], segs: &segs[0], nsegs: len(segs), segBytes: segLen,
		panel: unsafe.Pointer(&panel[0]), stride: stepBytes,
		c: unsafe.Pointer(&c[0]), ldc: 4 * ldc,
	}
	runVNNI512(&t, len(rows), cols, accumulate)
}

// check validates the operands of an indirect product in elements and reports
// whether there is anything to compute. unit is the number of panel elements
// of one k.
func check(lenC, ldc, cols, lenA int, rows, segs []int32, segLen, lenPanel, unit int) bool {
	if cols < 0 || segLen < 0 {
		panic(fmt.Sprintf("gemm: %d columns, segments of %d", cols, segLen))
	}
	if len(rows) == 0 || cols == 0 {
		return false
	}
	if ldc < cols && len(rows) > 1 || !fits(len(rows), ldc, cols, lenC) {
		panic(fmt.Sprintf("gemm: %d rows of %d columns, %d apart, do not fit %d elements of c", len(rows), cols, ldc, lenC))
	}
	if segLen > lenPanel || len(segs)*segLen*unit > lenPanel {
		panic(fmt.Sprintf("gemm: panel of %d elements is short of K = %d·%d", lenPanel, len(segs), segLen))
	}
	if len(segs)*segLen == 0 {
		return true
	}
	rlo, rhi := span(rows)
	slo, shi := span(segs)
	if rlo+slo < 0 || rhi+shi+segLen > lenA {
		panic(fmt.Sprintf("gemm: rows at %d..%d with segments of %d at %d..%d leave the %d elements of a", rlo, rhi, segLen, slo, shi, lenA))
	}
	return true
}

// fits reports whether rows ≥ 1 rows of cols elements, stride apart, lie within
// n elements; no value overflows it.
func fits(rows, stride, cols, n int) bool {
	return rows >= 1 && 0 <= cols && cols <= n && (rows == 1 || 0 <= stride && stride <= (n-cols)/(rows-1))
}

// span returns the least and the greatest element of a non-empty list.
func span(v []int32) (lo, hi int) {
	l, h := v[0], v[0]
	for _, x := range v[1:] {
		l, h = min(l, x), max(h, x)
	}
	return int(l), int(h)
}

// clearRows is the product over an empty K.
func clearRows[T int32 | float32](c []T, ldc, cols, rows int, accumulate bool) {
	if accumulate {
		return
	}
	for i := range rows {
		clear(c[i*ldc : i*ldc+cols])
	}
}

// mulRows is the number of rows of a that Mul takes at a time: they stay in the
// second-level cache over all panels.
const mulRows = 192

// Mul computes the dense product c = a·b of m rows, c[i*ldc+j] for j < b.N,
// from a[i*lda+k] for k < b.K. Sums wrap at 32 bits. Rows of a are read up to
// b.K rounded up to 4, so a must hold that much behind its last row start; the
// excess meets zero weights. It allocates nothing and panics when an operand is
// too short.
func Mul(c []int32, ldc int, a []byte, lda, m int, b *B) {
	if m == 0 || b.N == 0 {
		return
	}
	k := (b.K + 3) &^ 3
	if ldc < b.N && m > 1 || !fits(m, ldc, b.N, len(c)) || !fits(m, lda, k, len(a)) {
		panic(fmt.Sprintf("gemm: product of %d×%d×%d does not fit a (%d, %d apart) and c (%d, %d apart)", m, b.K, b.N, len(a), lda, len(c), ldc))
	}
	if k == 0 {
		clearRows(c, ldc, b.N, m, false)
		return
	}
	var offsets [mulRows]int32
	zero := [1]int32{}
	block := min(m, mulRows, max(1, math.MaxInt32/max(lda, 1))) // offsets fit int32
	for i := range block {
		offsets[i] = int32(i * lda)
	}
	for i := 0; i < m; i += block {
		rows := min(m-i, block)
		indirectInt8(c[i*ldc:], ldc, b.N, false, a[i*lda:], offsets[:rows], zero[:], k, b.data)
	}
}
