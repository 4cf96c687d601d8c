package functional

import (
	"fmt"

	"situ/backend/pim/isa"
)

func (c *cluster) gather(a []int64) error {
	return c.gatherFrom(a, c.sp, a[isa.GatherSrc])
}

func (c *cluster) gatherD(a []int64) error {
	r := c.eff.Regions()[0]
	table, err := c.m.dramRange(r)
	if err != nil {
		return err
	}
	return c.gatherFrom(a, table, a[isa.GatherSrc]-r.Lo)
}

// gatherFrom copies entries of a table that begins at src of a memory.
func (c *cluster) gatherFrom(a []int64, mem []byte, src int64) error {
	t, axis, n := isa.DType(a[isa.GatherType]), a[isa.GatherAxis], a[isa.GatherLen]
	if t == isa.F32 || t == isa.Bool {
		return fmt.Errorf("type = %d: indices of %s", t, t)
	}
	for j := range a[isa.GatherN1] {
		index := loadInt(c.sp, a[isa.GatherIndex]+j*a[isa.GatherIndexS1], t)
		at := index
		if at < 0 {
			at += axis
		}
		if at < 0 || at >= axis {
			return fmt.Errorf("index %d is outside a dimension of %d elements", index, axis)
		}
		from, to := src+at*a[isa.GatherSrcS1], a[isa.GatherDst]+j*a[isa.GatherDstS1]
		for range a[isa.GatherN2] {
			copy(c.sp[to:to+n], mem[from:from+n])
			from, to = from+a[isa.GatherSrcS2], to+a[isa.GatherDstS2]
		}
	}
	return nil
}
