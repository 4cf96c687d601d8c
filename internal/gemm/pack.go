package gemm

import "fmt"

// PanelCols is the number of columns of a panel.
const PanelCols = 64

// stepBytes is the size of one K step of a panel: 4 int8 or 1 float32 in each
// of 64 columns.
const stepBytes = 4 * PanelCols

// B is a weight matrix of K rows by N columns of int8, packed for VPDPBUSD as
// ⌈N/64⌉ panels of [⌈K/4⌉][64][4]int8: panels of 64 columns in which the four bytes of
// one column and four consecutive k lie together. Missing rows and columns are
// zero. Behind them lie 256 bytes for each 256 k, in which the AVX2 kernels keep
// sums over the weights.
type B struct {
	K, N int // with several segments, K counts their padding
	data []int8
}

// PanelBytes is the size of one packed panel of k rows: 256 bytes for each 4 and
// for each 256 rows, rounded up.
func PanelBytes(k int) int { return ((k+3)/4 + (k+255)/256) * stepBytes }

// Panel returns panel p, columns 64p to 64p+63.
func (b *B) Panel(p int) []int8 {
	size := PanelBytes(b.K)
	return b.data[p*size : (p+1)*size : (p+1)*size]
}

// Panels is the number of panels, ⌈N/64⌉.
func (b *B) Panels() int { return panelsOf(b.N) }

func panelsOf(cols int) int { return (cols + PanelCols - 1) / PanelCols }

// Cols is the number of live columns of panel p, 1 to 64.
func (b *B) Cols(p int) int { return min(b.N-p*PanelCols, PanelCols) }

// Pack packs the k×n row-major matrix b with ldb ≥ n elements from row to row.
// It panics when b is too short.
func Pack(k, n int, b []int8, ldb int) *B {
	return PackSegments(1, k, n, b, ldb)
}

// PackSegments packs a matrix of nseg·segLen rows, giving each segment of
// segLen rows its own zero rows up to a multiple of 4. Indirect can then run
// with segments of that rounded length: the up to three activations it reads
// past a segment meet zero weights.
func PackSegments(nseg, segLen, n int, b []int8, ldb int) *B {
	padded := (segLen + 3) &^ 3
	m := &B{K: nseg * padded, N: n}
	if nseg == 1 {
		m.K = segLen
	}
	m.data = make([]int8, m.Panels()*PanelBytes(m.K))
	if segLen == 0 {
		return m
	}
	for p := range m.Panels() {
		panel := m.Panel(p)
		for s := range nseg {
			interleave(panel[s*padded*PanelCols:], segLen, m.Cols(p), b[s*segLen*ldb+p*PanelCols:], ldb)
		}
		FinishPanel(panel, nseg*padded)
	}
	return m
}

// FinishPanel computes what a panel has behind its weights. Whoever writes the
// weights of a panel of k rows, a multiple of 4, in the layout of B calls it
// afterwards; the functions of this package that pack do so.
func FinishPanel(panel []int8, k int) {
	finishPanel(panel[:PanelBytes(k)], k)
}

// interleave writes the k×cols row-major block b (cols ≤ 64, ldb elements from row
// to row) to a panel; padding is written as zero.
func interleave(dst []int8, k, cols int, b []int8, ldb int) {
	dst = dst[:(k+3)/4*stepBytes]
	clear(dst)
	for r := range k {
		row := b[r*ldb : r*ldb+cols]
		out := dst[r/4*stepBytes+r%4:]
		for j, v := range row {
			out[4*j] = v
		}
	}
}

// PackF32Into packs the k×cols row-major block b (cols ≤ 64, ldb elements from
// row to row) as one float panel [k][64]float32 into dst, which needs 64·k
// elements; missing columns are written as zero.
func PackF32Into(dst []float32, k, cols int, b []float32, ldb int) {
	dst = dst[:k*PanelCols]
	for r := range k {
		out := dst[r*PanelCols : (r+1)*PanelCols]
		clear(out[copy(out, b[r*ldb:r*ldb+cols]):])
	}
}

// PackRows gathers the segments of every row into dense rows of dst, lda bytes
// apart, and fills each row with zeros to a multiple of 4. It is for segments
// whose length is no multiple of 4: the result is a dense left operand for Mul
// or Indirect with one segment. It returns the filled length of a row,
// len(segs)·segLen rounded up to 4, and panics when that exceeds lda or a
// segment lies outside a.
func PackRows(dst []byte, lda int, a []byte, rows, segs []int32, segLen int) int {
	k := len(segs) * segLen
	padded := (k + 3) &^ 3
	if padded > lda {
		panic(fmt.Sprintf("gemm: PackRows of %d bytes a row into rows %d apart", padded, lda))
	}
	for i, r := range rows {
		row := dst[i*lda : i*lda+padded]
		at := 0
		for _, s := range segs {
			from := int(r) + int(s)
			at += copy(row[at:], a[from:from+segLen])
		}
		clear(row[at:])
	}
	return padded
}
