package functional

import "situ/backend/pim/isa"

// runs is a strided copy-like access: n3 × n2 × n1 runs of size bytes, with the
// steps of up to three operands.
type runs struct {
	n3, n2, n1, size int64
	s3, s2, s1       [3]int64
}

// collapse merges dimensions that lie one behind the other in all operands, so
// that runs become as long as they can.
func (r *runs) collapse(operands int) {
	merge := func(n *int64, s *[3]int64) bool {
		for i := range operands {
			if s[i] != r.size {
				return false
			}
		}
		r.size *= *n
		*n = 1
		return true
	}
	if r.n1 > 1 && !merge(&r.n1, &r.s1) {
		return
	}
	if r.n2 > 1 && !merge(&r.n2, &r.s2) {
		r.n1, r.s1 = r.n2, r.s2 // the innermost dimension is free
		r.n2, r.s2 = r.n3, r.s3
		r.n3 = 1
		return
	}
	if r.n3 > 1 && !merge(&r.n3, &r.s3) {
		r.n1, r.s1 = r.n3, r.s3
		r.n3 = 1
	}
}

// copyRuns copies from src to dst, operand 0 being dst.
func copyRuns(dst, src []byte, dst0, src0 int64, r runs) {
	r.collapse(2)
	for range r.n3 {
		d2, s2 := dst0, src0
		for range r.n2 {
			copyRow(dst, src, d2, s2, &r)
			d2, s2 = d2+r.s2[0], s2+r.s2[1]
		}
		dst0, src0 = dst0+r.s3[0], src0+r.s3[1]
	}
}

// copyRow copies n1 runs. Short ones, as a transpose has, avoid a call each.
func copyRow(dst, src []byte, d, s int64, r *runs) {
	ds, ss, size := r.s1[0], r.s1[1], r.size
	switch size {
	case 1:
		for range r.n1 {
			dst[d] = src[s]
			d, s = d+ds, s+ss
		}
	case 2:
		for range r.n1 {
			*(*[2]byte)(dst[d:]) = *(*[2]byte)(src[s:])
			d, s = d+ds, s+ss
		}
	case 4:
		for range r.n1 {
			*(*[4]byte)(dst[d:]) = *(*[4]byte)(src[s:])
			d, s = d+ds, s+ss
		}
	case 8:
		for range r.n1 {
			*(*[8]byte)(dst[d:]) = *(*[8]byte)(src[s:])
			d, s = d+ds, s+ss
		}
	default:
		for range r.n1 {
			copy(dst[d:d+size], src[s:s+size])
			d, s = d+ds, s+ss
		}
	}
}

// moveRuns returns the access of load, store and send.
func moveRuns(a []int64) runs {
	return runs{
		n3: 1, n2: a[isa.LoadN2], n1: a[isa.LoadN1], size: a[isa.LoadLen],
		s2: [3]int64{a[isa.LoadDstS2], a[isa.LoadSrcS2]}, s1: [3]int64{a[isa.LoadDstS1], a[isa.LoadSrcS1]},
	}
}

func (c *cluster) load(a []int64) error {
	r := c.eff.Regions()[0]
	from, err := c.m.dramRange(r)
	if err != nil {
		return err
	}
	copyRuns(c.sp, from, a[isa.LoadDst], a[isa.LoadSrc]-r.Lo, moveRuns(a))
	return nil
}

func (c *cluster) store(a []int64) error {
	r := c.eff.Regions()[1]
	to, err := c.m.dramRange(r)
	if err != nil {
		return err
	}
	copyRuns(to, c.sp, a[isa.StoreDst]-r.Lo, a[isa.StoreSrc], moveRuns(a))
	return nil
}

func (c *cluster) send(a []int64) error {
	first := a[isa.SendFirst]
	for i := first; i < first+a[isa.SendCount]; i++ {
		if int(i) != c.id {
			copyRuns(c.m.clusters[i].sp, c.sp, a[isa.SendDst], a[isa.SendSrc], moveRuns(a))
		}
	}
	return nil
}

func (c *cluster) copy(a []int64) error {
	copyRuns(c.sp, c.sp, a[isa.CopyDst], a[isa.CopySrc], runs{
		n3: a[isa.CopyN3], n2: a[isa.CopyN2], n1: a[isa.CopyN1], size: a[isa.CopyLen],
		s3: [3]int64{a[isa.CopyDstS3], a[isa.CopySrcS3]},
		s2: [3]int64{a[isa.CopyDstS2], a[isa.CopySrcS2]},
		s1: [3]int64{a[isa.CopyDstS1], a[isa.CopySrcS1]},
	})
	return nil
}

func (c *cluster) fill(a []int64) error {
	r := runs{n3: 1, n2: a[isa.FillN2], n1: a[isa.FillN1], size: a[isa.FillLen],
		s2: [3]int64{a[isa.FillDstS2]}, s1: [3]int64{a[isa.FillDstS1]}}
	r.collapse(1)
	value := byte(a[isa.FillValue])
	row := a[isa.FillDst]
	for range r.n2 {
		for i := range r.n1 {
			b := c.sp[row+i*r.s1[0]:][:r.size]
			for j := range b {
				b[j] = value
			}
		}
		row += r.s2[0]
	}
	return nil
}
