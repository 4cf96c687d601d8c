package effect

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"situ/backend/pim/isa"
)

var testShape = Shape{Rows: 16, Cols: [2]int64{8, 16}, Cores: 4}

// hull grows by intervals.
type hull struct{ lo, hi int64 }

func (h *hull) touch(at, size int64) { h.lo, h.hi = min(h.lo, at), max(h.hi, at+size) }

// TestHulls compares regions with an enumeration of every access.
func TestHulls(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	n := func(lo, hi int64) int64 { return lo + rng.Int64N(hi-lo+1) }
	for range 2000 {
		src := hull{math.MaxInt64, math.MinInt64}
		dst := src
		var op isa.Op
		var a []int64
		switch rng.IntN(3) {
		case 0:
			op = isa.OpCopy
			a = []int64{n(0, 999), n(0, 999), n(1, 3), n(-50, 50), n(-50, 50), n(1, 3), n(-50, 50), n(-50, 50), n(1, 3), n(-50, 50), n(-50, 50), n(1, 9)}
			for i := range a[isa.CopyN3] {
				for j := range a[isa.CopyN2] {
					for k := range a[isa.CopyN1] {
						dst.touch(a[isa.CopyDst]+i*a[isa.CopyDstS3]+j*a[isa.CopyDstS2]+k*a[isa.CopyDstS1], a[isa.CopyLen])
						src.touch(a[isa.CopySrc]+i*a[isa.CopySrcS3]+j*a[isa.CopySrcS2]+k*a[isa.CopySrcS1], a[isa.CopyLen])
					}
				}
			}
		case 1:
			op = isa.OpMVM
			a = []int64{4 * n(0, 99), 128 * n(0, 3), n(0, 999), n(1, 3), n(-50, 50), n(1, 3), n(-50, 50), n(1, 2), n(-50, 50), n(1, 2), n(-50, 50),
				n(1, 2), n(-50, 50), n(1, 20), 2, 2, 1, n(-9, 9), 2 * n(1, 8), 8, 0, n(0, 15), n(0, 1)}
			groups := int64(2)
			if a[isa.MVMNSstep] == 0 {
				groups = 1
			}
			for y := range a[isa.MVMRowsY] {
				for x := range a[isa.MVMRowsX] {
					for sz := range a[isa.MVMSegNz] {
						for sy := range a[isa.MVMSegNy] {
							for sx := range a[isa.MVMSegNx] {
								for g := range groups {
									src.touch(a[isa.MVMSrc]+y*a[isa.MVMRowSy]+x*a[isa.MVMRowSx]+sz*a[isa.MVMSegSz]+sy*a[isa.MVMSegSy]+sx*a[isa.MVMSegSx]+g*a[isa.MVMNSstep], a[isa.MVMSegLen])
								}
							}
						}
					}
				}
			}
			dst.touch(a[isa.MVMAcc], 4*a[isa.MVMRowsY]*a[isa.MVMRowsX]*a[isa.MVMN])
		case 2:
			op = isa.OpDepthwise
			a = []int64{n(0, 999), n(0, 999), 0, 0, n(1, 4), n(1, 4), n(1, 9), n(-50, 50), n(-50, 50), n(0, 50), n(0, 50), n(1, 3), n(1, 3), n(1, 3), n(1, 3), n(1, 3), n(1, 3), 0, 0, 255}
			for y := range a[isa.DepthwiseOutH] {
				for x := range a[isa.DepthwiseOutW] {
					dst.touch(a[isa.DepthwiseDst]+y*a[isa.DepthwiseDstSy]+x*a[isa.DepthwiseDstSx], a[isa.DepthwiseC])
					for ky := range a[isa.DepthwiseKh] {
						for kx := range a[isa.DepthwiseKw] {
							src.touch(a[isa.DepthwiseSrc]+(y*a[isa.DepthwiseStrideH]+ky*a[isa.DepthwiseDilH])*a[isa.DepthwiseSrcSy]+
								(x*a[isa.DepthwiseStrideW]+kx*a[isa.DepthwiseDilW])*a[isa.DepthwiseSrcSx], a[isa.DepthwiseC])
						}
					}
				}
			}
		}
		var e Effect
		e.Of(op, a, &testShape)
		first, last := e.Regions()[0], e.Regions()[len(e.Regions())-1]
		if first.Write || !last.Write || first.Lo != src.lo || first.Hi != src.hi || last.Lo != dst.lo || last.Hi != dst.hi {
			t.Fatalf("%s: reads %+v and writes %+v, want %+v and %+v", isa.AppendInst(nil, &isa.Inst{Op: op, Args: a}), first, last, src, dst)
		}
	}
}

// TestSaturation: products beyond 64 bits are outside every memory, not inside.
func TestSaturation(t *testing.T) {
	limits := Limits{}
	for i := range limits {
		limits[i] = 1 << 47
	}
	for _, step := range []int64{1 << 47, -1 << 47} {
		var e Effect
		e.Of(isa.OpLoad, []int64{1 << 46, 1 << 46, 1 << 24, step, step, 1 << 24, step, step, 1}, &testShape)
		e.work = 0
		if err := e.Check(&limits); err == nil || !strings.Contains(err.Error(), "touches bytes") {
			t.Errorf("steps of %d: %v", step, err)
		}
	}
}
