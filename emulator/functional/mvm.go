package functional

import (
	"sync"

	"situ/backend/pim/isa"
	"situ/internal/gemm"
)

// maxRows input vectors stay in the second-level cache.
const maxRows = 192

// splitWork is the least work, in multiply-accumulates, that is worth a
// goroutine of its own.
const splitWork = 1 << 21

func (c *cluster) mvm(a []int64) error {
	p, nz, sz, ny, sy, nx, sx := productOf(a)
	key, stored, err := c.m.weights.key(&c.resident, a[isa.MVMWs], &p)
	if err != nil {
		return err
	}
	w := stored.panelsOf(&c.m.weights, &key)
	if stored == nil {
		w = c.m.weights.get(key)
	}
	rowsY, rowsX := a[isa.MVMRowsY], a[isa.MVMRowsX]
	m := rowsY * rowsX
	rows := grow(&c.rows, m)
	i := 0
	for y := range rowsY {
		at := a[isa.MVMSrc] + y*a[isa.MVMRowSy]
		for range rowsX {
			rows[i] = int32(at)
			at += a[isa.MVMRowSx]
			i++
		}
	}
	segs := grow(&c.segs, p.nseg)
	i = 0
	for z := range nz {
		for y := range ny {
			for x := range nx {
				segs[i] = int32(z*sz + y*sy + x*sx)
				i++
			}
		}
	}
	j := &c.job
	*j = job{
		c: c, w: w, rows: rows, segs: segs, segLen: int(p.segLen+3) &^ 3, n: p.n, cols: p.n, groups: 1, accumulate: a[isa.MVMAccumulate] != 0,
		acc: c.acc[a[isa.MVMAcc]/4:][:m*p.n],
	}
	if p.grouped {
		j.groups, j.cols, j.srcStep = p.ntiles, p.n/p.ntiles, a[isa.MVMNSstep]
	}
	if w.high == nil {
		j.data = w.data
		j.all(&p, m)
		return nil
	}
	// Σ (low + 2^highBits·high)·code, the second sum by itself.
	high, acc, accumulate := grow(&c.high, m*p.n), j.acc, j.accumulate
	j.data, j.acc, j.accumulate = w.high, high, false
	j.all(&p, m)
	for i := range rows {
		rows[i] -= int32((j.groups - 1) * j.srcStep)
	}
	j.data, j.acc, j.accumulate = w.data, acc, accumulate
	j.all(&p, m)
	for i, v := range high {
		acc[i] += v << highBits
	}
	return nil
}

// all computes all m rows, in parts when workers are idle.
func (j *job) all(p *product, m int64) {
	if idle := j.c.m.sched.idle.Load(); idle > 0 {
		work := m * p.n * p.nseg * p.segLen
		if parts := min(int64(idle)+1, work/splitWork, m); parts > 1 {
			j.split(parts)
			return
		}
	}
	j.run(0, m)
}

// job is one matrix product on checked operands.
type job struct {
	c          *cluster
	w          *panels
	data       []int8 // of the panels: all of the weights or a part
	rows, segs []int32
	segLen     int
	acc        []int32
	n          int64 // columns, the pitch of acc
	groups     int64
	cols       int64 // columns of a group
	srcStep    int64 // from a group to the next
	accumulate bool
}

// run computes rows lo..hi-1.
func (j *job) run(lo, hi int64) {
	sp := j.c.sp[:cap(j.c.sp)]
	for i := lo; i < hi; i += maxRows {
		rows := j.rows[i:min(i+maxRows, hi)]
		for g := range j.groups {
			if g > 0 && j.srcStep != 0 {
				for r := range rows {
					rows[r] += int32(j.srcStep)
				}
			}
			size := j.w.perGroup * j.w.size
			gemm.Indirect(j.acc[i*j.n+g*j.cols:], int(j.n), int(j.cols), j.accumulate, sp, rows, j.segs, j.segLen, j.data[g*size:][:size])
		}
	}
}

// split computes the rows in parts at a time.
func (j *job) split(parts int64) {
	m := int64(len(j.rows))
	var wg sync.WaitGroup
	for i := range parts - 1 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			j.run(m*i/parts, m*(i+1)/parts)
		}()
	}
	j.run(m*(parts-1)/parts, m)
	wg.Wait()
}
