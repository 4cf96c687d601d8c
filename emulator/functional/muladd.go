package functional

import (
	"fmt"

	"situ/backend/pim/isa"
	"situ/internal/fixed"
)

func (c *cluster) mulAdd(a []int64) error {
	p := fixed.MulAddParams{
		ZA: int32(a[isa.MulAddZa]), ZB: int32(a[isa.MulAddZb]), ZC: int32(a[isa.MulAddZc]), ZD: int32(a[isa.MulAddZd]), ZY: int32(a[isa.MulAddZy]),
		MAB: int32(a[isa.MulAddMab]), MCD: int32(a[isa.MulAddMcd]), Shift: uint8(a[isa.MulAddShift]),
		Lo: byte(a[isa.MulAddLo]), Hi: byte(a[isa.MulAddHi]),
	}
	if s := a[isa.MulAddShift]; s < fixed.MinShift || s > fixed.MaxShift {
		return fmt.Errorf("shift = %d is outside %d..%d", s, fixed.MinShift, fixed.MaxShift)
	}
	const per = isa.MulAddN2 - isa.MulAddN3
	n := a[isa.MulAddN0]
	inner := a[isa.MulAddDstS0:][:5]
	dense := inner[0] == 1
	for _, s := range inner[1:] {
		dense = dense && (s == 0 || s == 1)
	}
	run := func(at [5]int64) { // a run of n elements of dst, a, b, c, d
		if !dense {
			for range n {
				c.sp[at[0]] = p.MulAdd(c.sp[at[1]], c.sp[at[2]], c.sp[at[3]], c.sp[at[4]])
				for i, s := range inner {
					at[i] += s
				}
			}
			return
		}
		var x [5][]byte
		for i, s := range inner {
			size := n
			if s == 0 {
				size = 1
			}
			x[i] = c.sp[at[i]:][:size]
		}
		fixed.MulAddU8(x[0], x[1], x[2], x[3], x[4], &p)
	}
	step := func(at [5]int64, level int) [5]int64 {
		for i := range at {
			at[i] += a[isa.MulAddDstS3+level*per+i]
		}
		return at
	}
	at := [5]int64(a[isa.MulAddDst:][:5])
	for range a[isa.MulAddN3] {
		at2 := at
		for range a[isa.MulAddN2] {
			at1 := at2
			for range a[isa.MulAddN1] {
				run(at1)
				at1 = step(at1, 2)
			}
			at2 = step(at2, 1)
		}
		at = step(at, 0)
	}
	return nil
}
