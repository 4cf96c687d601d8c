package functional

import (
	"encoding/binary"
	"fmt"

	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/internal/fixed"
)

func (c *cluster) norm(a []int64) error {
	n := a[isa.NormN]
	if n > fixed.MaxNorm {
		return fmt.Errorf("a normalisation of %d codes, at most %d", n, fixed.MaxNorm)
	}
	p, err := c.normParams(a[isa.NormParams], n)
	if err != nil {
		return err
	}
	dst, src := a[isa.NormDst], a[isa.NormSrc]
	for range a[isa.NormRows] {
		fixed.Normalise(c.sp[dst:dst+n], c.sp[src:src+n], &p)
		dst, src = dst+n, src+n
	}
	return nil
}

// normParams reads a parameter block; see the table row of norm for its layout.
func (c *cluster) normParams(at, n int64) (fixed.NormParams, error) {
	le, b := binary.LittleEndian, c.sp[at:]
	p := fixed.NormParams{
		Eps: le.Uint64(b), ZX: int32(le.Uint32(b[8:])), ZY: int32(le.Uint32(b[12:])),
		Shift: b[16], Lo: b[17], Hi: b[18], RMS: b[19] != 0,
		G: words[int32](c.sp, at+effect.NormHead, n), B: words[int32](c.sp, at+effect.NormHead+4*n, n),
	}
	switch {
	case p.Eps > fixed.MaxNormEps:
		return p, fmt.Errorf("the epsilon %d is above 2^60", p.Eps)
	case p.ZX < 0 || p.ZX > 255:
		return p, fmt.Errorf("the zero point %d is no code", p.ZX)
	case p.Shift < fixed.MinShift || p.Shift > fixed.MaxShift:
		return p, fmt.Errorf("the shift %d is outside %d..%d", p.Shift, fixed.MinShift, fixed.MaxShift)
	}
	return p, nil
}
