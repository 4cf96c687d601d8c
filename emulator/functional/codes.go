package functional

import (
	"encoding/binary"
	"fmt"

	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/internal/fixed"
)

// multipliers returns n multipliers and shifts that lie at off in the
// scratchpad as two int32 arrays.
func (c *cluster) multipliers(off, n int64) (mult []int32, shift []uint8, err error) {
	mult = words[int32](c.sp, off, n)
	shift = grow(&c.shifts, n)
	bad := int32(0) // its sign is set by any shift out of range
	for i, s := range words[int32](c.sp, off+4*n, n) {
		bad |= (s - fixed.MinShift) | (fixed.MaxShift - s)
		shift[i] = uint8(s)
	}
	if bad < 0 {
		return nil, nil, fmt.Errorf("the parameters at %d hold a shift outside %d..%d", off, fixed.MinShift, fixed.MaxShift)
	}
	return mult, shift, nil
}

func (c *cluster) requant(a []int64) error {
	n, params := a[isa.RequantN], a[isa.RequantParams]
	bias := words[int32](c.sp, params, n)
	mult, shift, err := c.multipliers(params+4*n, n)
	if err != nil {
		return err
	}
	zero, lo, hi := int32(a[isa.RequantZero]), byte(a[isa.RequantLo]), byte(a[isa.RequantHi])
	ny, nx := a[isa.RequantRowsY], a[isa.RequantRowsX]
	sy, sx := a[isa.RequantDstSy], a[isa.RequantDstSx]
	if ny > 1 && sy == nx*sx || nx == 1 {
		if nx == 1 {
			sx = sy
		}
		nx, ny = nx*ny, 1
	}
	pitch, dst := a[isa.RequantAccPitch]/4, a[isa.RequantDst]
	acc := c.acc[a[isa.RequantAcc]/4:]
	for y := range ny {
		row := acc[y*nx*pitch:]
		if sx >= n {
			fixed.RequantiseRows(c.sp[dst+y*sy:], int(sx), row, int(pitch), int(nx), int(n), bias, mult, shift, zero, lo, hi)
			continue
		}
		for x := range nx { // rows that overlap or run backwards
			fixed.RequantiseU8(c.sp[dst+y*sy+x*sx:][:n], row[x*pitch:][:n], bias, mult, shift, zero, lo, hi)
		}
	}
	return nil
}

// threeRuns returns the access of add and mul.
func threeRuns(a []int64, bStep int64) runs {
	r := runs{
		n3: 1, n2: a[isa.AddN2], n1: a[isa.AddN1], size: a[isa.AddLen],
		s2: [3]int64{a[isa.AddDstS2], a[isa.AddAS2], a[isa.AddBS2]},
		s1: [3]int64{a[isa.AddDstS1], a[isa.AddAS1], a[isa.AddBS1]},
	}
	if bStep != 0 {
		r.collapse(3)
	}
	return r
}

func (c *cluster) add(a []int64) error {
	p := fixed.AddParams{
		ZA: int32(a[isa.AddZa]), ZB: int32(a[isa.AddZb]), ZY: int32(a[isa.AddZy]),
		MA: int32(a[isa.AddMa]), MB: int32(a[isa.AddMb]), Shift: uint8(a[isa.AddShift]),
		Lo: byte(a[isa.AddLo]), Hi: byte(a[isa.AddHi]),
	}
	if p.Shift > 30 {
		return fmt.Errorf("shift = %d, an addition shifts by at most 30", p.Shift)
	}
	scalar := a[isa.AddBStep] == 0
	c.elementwise(a, a[isa.AddBStep], func(dst, x, y []byte) {
		if scalar {
			fixed.AddScalarU8(dst, x, y[0], &p)
		} else {
			fixed.AddU8(dst, x, y, &p)
		}
	})
	return nil
}

func (c *cluster) mul(a []int64) error {
	p := fixed.MulParams{
		ZA: int32(a[isa.MulZa]), ZB: int32(a[isa.MulZb]), ZY: int32(a[isa.MulZy]),
		M:  fixed.Multiplier{M: int32(a[isa.MulM]), Shift: uint8(a[isa.MulShift])},
		Lo: byte(a[isa.MulLo]), Hi: byte(a[isa.MulHi]),
	}
	scalar := a[isa.MulBStep] == 0
	c.elementwise(a, a[isa.MulBStep], func(dst, x, y []byte) {
		if scalar {
			fixed.MulScalarU8(dst, x, y[0], &p)
		} else {
			fixed.MulU8(dst, x, y, &p)
		}
	})
	return nil
}

// elementwise calls f for each run of add or mul; y has one element when bStep
// is 0.
func (c *cluster) elementwise(a []int64, bStep int64, f func(dst, x, y []byte)) {
	r := threeRuns(a, bStep)
	ySize := r.size
	if bStep == 0 {
		ySize = 1
	}
	for i := range r.n2 {
		d, x, y := a[isa.AddDst]+i*r.s2[0], a[isa.AddA]+i*r.s2[1], a[isa.AddB]+i*r.s2[2]
		for range r.n1 {
			f(c.sp[d:d+r.size], c.sp[x:x+r.size], c.sp[y:y+ySize])
			d, x, y = d+r.s1[0], x+r.s1[1], y+r.s1[2]
		}
	}
}

func (c *cluster) lut(a []int64) error {
	table := (*[256]byte)(c.sp[a[isa.LUTTable]:])
	r := runs{
		n3: 1, n2: a[isa.LUTN2], n1: a[isa.LUTN1], size: a[isa.LUTLen],
		s2: [3]int64{a[isa.LUTDstS2], a[isa.LUTSrcS2]}, s1: [3]int64{a[isa.LUTDstS1], a[isa.LUTSrcS1]},
	}
	r.collapse(2)
	for i := range r.n2 {
		d, s := a[isa.LUTDst]+i*r.s2[0], a[isa.LUTSrc]+i*r.s2[1]
		for range r.n1 {
			fixed.LUT(c.sp[d:d+r.size], c.sp[s:s+r.size], table)
			d, s = d+r.s1[0], s+r.s1[1]
		}
	}
	return nil
}

func (c *cluster) softmax(a []int64) error {
	n := a[isa.SoftmaxN]
	p, err := softmaxParams(c.sp[a[isa.SoftmaxParams]:][:effect.SoftmaxBlock])
	if err != nil {
		return err
	}
	if n > fixed.MaxSoftmax {
		return fmt.Errorf("a softmax of %d codes, at most %d", n, fixed.MaxSoftmax)
	}
	dst, src := a[isa.SoftmaxDst], a[isa.SoftmaxSrc]
	for range a[isa.SoftmaxRows] {
		fixed.Softmax(c.sp[dst:dst+n], c.sp[src:src+n], p)
		dst, src = dst+n, src+n
	}
	return nil
}

// softmaxParams reads a parameter block; see the table row of softmax for its
// layout.
func softmaxParams(b []byte) (*fixed.SoftmaxParams, error) {
	le := binary.LittleEndian
	p := &fixed.SoftmaxParams{}
	for i := range p.Table {
		p.Table[i] = le.Uint32(b[4*i:])
		if p.Table[i] > 1<<30 {
			return nil, fmt.Errorf("the softmax table has %d, above 2^30", p.Table[i])
		}
	}
	if p.Table[0] == 0 {
		return nil, fmt.Errorf("the softmax table starts with 0")
	}
	p.C, p.ZY, p.Lo, p.Hi = le.Uint64(b[1024:]), int32(le.Uint32(b[1032:])), b[1036], b[1037]
	if p.C > 1<<32 {
		return nil, fmt.Errorf("the softmax factor %d is above 2^32", p.C)
	}
	return p, nil
}
