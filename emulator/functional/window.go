package functional

import (
	"situ/backend/pim/isa"
	"situ/internal/fixed"
)

// window is the geometry of maxpool and avgpool, whose operands from out_h on
// are alike.
type window struct {
	outH, outW, c              int64
	dstSy, dstSx, srcSy, srcSx int64
	kh, kw, strideH, strideW   int64
	dilH, dilW, y0, x0         int64
	inH, inW                   int64
}

func windowOf(d []int64) window {
	return window{d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15], d[16]}
}

// span is the range of kernel places of one window along one axis whose
// positions lie in [lo, hi).
func span(first, dil, k, lo, hi int64) (from, to int64) {
	if first < lo {
		from = (lo - first + dil - 1) / dil
	}
	if first < hi {
		to = (hi - first + dil - 1) / dil
	}
	return min(from, k), min(to, k)
}

func (c *cluster) maxPool(a []int64) error {
	w := windowOf(a[isa.MaxPoolOutH:])
	for i := range w.outH {
		top := w.y0 + i*w.strideH
		ky0, ky1 := span(top, w.dilH, w.kh, 0, w.inH)
		for j := range w.outW {
			left := w.x0 + j*w.strideW
			kx0, kx1 := span(left, w.dilW, w.kw, 0, w.inW)
			dst := c.sp[a[isa.MaxPoolDst]+i*w.dstSy+j*w.dstSx:][:w.c]
			if len(dst) < fewChannels {
				at := a[isa.MaxPoolSrc] + (top+ky0*w.dilH)*w.srcSy + (left+kx0*w.dilW)*w.srcSx
				maxOfFew(dst, c.sp, at, ky1-ky0, w.dilH*w.srcSy, kx1-kx0, w.dilW*w.srcSx)
				continue
			}
			first := true
			for ky := ky0; ky < ky1; ky++ {
				at := a[isa.MaxPoolSrc] + (top+ky*w.dilH)*w.srcSy + (left+kx0*w.dilW)*w.srcSx
				for kx := kx0; kx < kx1; kx++ {
					src := c.sp[at : at+w.c]
					if first {
						copy(dst, src)
						first = false
					} else {
						fixed.MaxU8(dst, src)
					}
					at += w.dilW * w.srcSx
				}
			}
			if first {
				clear(dst)
			}
		}
	}
	return nil
}

// fewChannels is below how many channels a call for each place costs more than
// what it computes.
const fewChannels = 16

// maxOfFew sets dst to the greatest of ny × nx places from at, channel by
// channel.
func maxOfFew(dst, sp []byte, at, ny, sy, nx, sx int64) {
	for c := range dst {
		greatest := byte(0)
		for y := range ny {
			p := at + y*sy + int64(c)
			for range nx {
				greatest = max(greatest, sp[p])
				p += sx
			}
		}
		dst[c] = greatest
	}
}

func (c *cluster) avgPool(a []int64) error {
	w := windowOf(a[isa.AvgPoolOutH:])
	perCount := a[isa.AvgPoolPerCount] != 0
	entries := int64(1)
	if perCount {
		entries = w.kh * w.kw
	}
	mult, shift, err := c.multipliers(a[isa.AvgPoolParams], entries)
	if err != nil {
		return err
	}
	zx, zy := int32(a[isa.AvgPoolZx]), int32(a[isa.AvgPoolZy])
	lo, hi := byte(a[isa.AvgPoolLo]), byte(a[isa.AvgPoolHi])
	sums, bias := grow(&c.sums, w.c), grow(&c.bias, w.c)
	for i := range w.outH {
		top := w.y0 + i*w.strideH
		ky0, ky1 := span(top, w.dilH, w.kh, 0, w.inH)
		cy0, cy1 := span(top, w.dilH, w.kh, -a[isa.AvgPoolPadT], w.inH+a[isa.AvgPoolPadB])
		for j := range w.outW {
			left := w.x0 + j*w.strideW
			kx0, kx1 := span(left, w.dilW, w.kw, 0, w.inW)
			cx0, cx1 := span(left, w.dilW, w.kw, -a[isa.AvgPoolPadL], w.inW+a[isa.AvgPoolPadR])
			clear(sums)
			inside := int32(0)
			for ky := ky0; ky < ky1; ky++ {
				at := a[isa.AvgPoolSrc] + (top+ky*w.dilH)*w.srcSy + (left+kx0*w.dilW)*w.srcSx
				for kx := kx0; kx < kx1; kx++ {
					fixed.SumU8(sums, c.sp[at:at+w.c])
					at += w.dilW * w.srcSx
					inside++
				}
			}
			m := fixed.Multiplier{M: mult[0], Shift: shift[0]}
			if divisor := max(cy1-cy0, 0) * max(cx1-cx0, 0); perCount && divisor > 0 {
				m = fixed.Multiplier{M: mult[divisor-1], Shift: shift[divisor-1]}
			}
			for k := range bias {
				bias[k] = -inside * zx
			}
			dst := c.sp[a[isa.AvgPoolDst]+i*w.dstSy+j*w.dstSx:][:w.c]
			fixed.RequantiseTensor(dst, len(dst), sums, len(sums), 1, len(dst), bias, m, zy, lo, hi)
		}
	}
	return nil
}

// depthwiseSums is how many accumulators of a depthwise convolution are kept
// at a time, which fit the second-level cache.
const depthwiseSums = 1 << 16

func (c *cluster) depthwise(a []int64) error {
	ch, kh, kw := a[isa.DepthwiseC], a[isa.DepthwiseKh], a[isa.DepthwiseKw]
	params := a[isa.DepthwiseParams]
	bias := words[int32](c.sp, params, ch)
	mult, shift, err := c.multipliers(params+4*ch, ch)
	if err != nil {
		return err
	}
	sy, sx := a[isa.DepthwiseSrcSy], a[isa.DepthwiseSrcSx]
	taps := grow(&c.segs, kh*kw)
	for i := range taps {
		taps[i] = int32(int64(i)/kw*a[isa.DepthwiseDilH]*sy + int64(i)%kw*a[isa.DepthwiseDilW]*sx)
	}
	weights := signed(c.sp[a[isa.DepthwiseW]:][:kh*kw*ch])
	outH, outW := a[isa.DepthwiseOutH], a[isa.DepthwiseOutW]
	zero, lo, hi := int32(a[isa.DepthwiseZero]), byte(a[isa.DepthwiseLo]), byte(a[isa.DepthwiseHi])
	dstSx := a[isa.DepthwiseDstSx]
	some := max(1, min(outW, depthwiseSums/ch)) // pixels at a time
	lines := max(1, min(outH, depthwiseSums/(ch*some)))
	if some < outW {
		lines = 1
	}
	rows := grow(&c.rows, lines*some)
	sums := grow(&c.sums, lines*some*ch)
	for i := int64(0); i < outH; i += lines {
		lines := min(lines, outH-i)
		for j := int64(0); j < outW; j += some {
			some := min(some, outW-j)
			rows := rows[:0]
			for y := range lines {
				at := a[isa.DepthwiseSrc] + (i+y)*a[isa.DepthwiseStrideH]*sy + j*a[isa.DepthwiseStrideW]*sx
				for range some {
					rows = append(rows, int32(at))
					at += a[isa.DepthwiseStrideW] * sx
				}
			}
			fixed.DepthwiseRows(sums, int(ch), c.sp, rows, taps, int(ch), weights)
			for y := range lines {
				c.requantRow(a[isa.DepthwiseDst]+(i+y)*a[isa.DepthwiseDstSy]+j*dstSx, dstSx, sums[y*some*ch:], some, ch, bias, mult, shift, zero, lo, hi)
			}
		}
	}
	return nil
}

// requantRow requantises some pixels of ch sums to dst, step apart.
func (c *cluster) requantRow(dst, step int64, sums []int32, some, ch int64, bias, mult []int32, shift []uint8, zero int32, lo, hi byte) {
	if step >= ch || some == 1 {
		fixed.RequantiseRows(c.sp[dst:], int(max(step, ch)), sums, int(ch), int(some), int(ch), bias, mult, shift, zero, lo, hi)
		return
	}
	for x := range some {
		fixed.RequantiseU8(c.sp[dst+x*step:][:ch], sums[x*ch:][:ch], bias, mult, shift, zero, lo, hi)
	}
}
