package functional

import (
	"situ/backend/pim/isa"
	"situ/internal/gemm"
)

// matMulF packs w in panels of 64 columns and multiplies row by row of rows_y.
// A kernel of gemm is the chain of fused multiply-adds that the table row says.
func (c *cluster) matMulF(a []int64) error {
	src := c.eff.Regions()[0]
	x := words[float32](c.sp, src.Lo, (src.Hi-src.Lo)/4)
	nx, n := a[isa.MatMulFRowsX], a[isa.MatMulFN]
	segLen := a[isa.MatMulFSegLen]
	first := a[isa.MatMulFSrc] - src.Lo
	segs := grow(&c.segs, a[isa.MatMulFSegNy]*a[isa.MatMulFSegNx])
	for i := range a[isa.MatMulFSegNy] {
		for j := range a[isa.MatMulFSegNx] {
			segs[i*a[isa.MatMulFSegNx]+j] = int32((i*a[isa.MatMulFSegSy] + j*a[isa.MatMulFSegSx]) / 4)
		}
	}
	low := int32(0) // offsets of segments count from the lowest
	for _, s := range segs {
		low = min(low, s)
	}
	for i := range segs {
		segs[i] -= low
	}
	k := int64(len(segs)) * segLen
	ws, ldc := a[isa.MatMulFWS]/4, a[isa.MatMulFDstSx]/4
	if nx == 1 {
		ldc = n
	}
	w := words[float32](c.sp, a[isa.MatMulFW], (k-1)*ws+n)
	panel := grow(&c.panel, k*gemm.PanelCols)
	rows := grow(&c.rows, nx)
	for col := int64(0); col < n; col += gemm.PanelCols {
		cols := min(n-col, gemm.PanelCols)
		gemm.PackF32Into(panel, int(k), int(cols), w[col:], int(ws))
		for y := range a[isa.MatMulFRowsY] {
			for i := range nx {
				rows[i] = int32((first+y*a[isa.MatMulFSrcSy]+i*a[isa.MatMulFSrcSx])/4) + low
			}
			dst := words[float32](c.sp, a[isa.MatMulFDst]+y*a[isa.MatMulFDstSy]+4*col, (nx-1)*ldc+cols)
			gemm.F32Indirect(dst, int(ldc), int(cols), false, x, rows, segs, int(segLen), panel)
		}
	}
	return nil
}
