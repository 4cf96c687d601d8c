package eval

import (
	"errors"
	"math"
	"runtime"

	"situ/internal/gemm"
	"situ/ir"
)

// convPlan is the geometry of a convolution and how it becomes indirect products
// of internal/gemm: an output position is a row, found in the padded image by an
// offset; the taps it reads are segments at fixed offsets from there.
type convPlan struct {
	n, h, w, c     int // operand
	oh, ow, o      int // result
	kh, kw         int
	sh, sw, dh, dw int
	top, left      int
	groups, ig, og int // groups, and input and output channels of one
	ph, pw         int // padded image, as far as it is read
	nseg, segLen   int // segments of a row, and their length in elements
	rows, segs     []int32
	k              []kBlock
	panels         []convPanel
	chunk          int // rows multiplied at a time
	padded         bool
}

// convPanel is up to 64 output channels of one group.
type convPanel struct{ group, col, cols int }

// chunkRows is the number of output positions multiplied at a time: with a block
// of K they stay in the level-2 cache while the panels of weights pass.
const chunkRows = 96

func newConvPlan(a *ir.ConvAttr, x, w, out []int) (*convPlan, error) {
	p := &convPlan{
		n: x[0], h: x[1], w: x[2], c: x[3],
		oh: out[1], ow: out[2], o: out[3],
		kh: w[1], kw: w[2],
		sh: a.Strides[0], sw: a.Strides[1], dh: a.Dilations[0], dw: a.Dilations[1],
		top: a.Pads[0], left: a.Pads[1],
		groups: a.Groups, ig: w[3], og: w[0] / a.Groups,
		chunk: chunkRows,
	}
	p.ph = (p.oh-1)*p.sh + (p.kh-1)*p.dh + 1
	p.pw = (p.ow-1)*p.sw + (p.kw-1)*p.dw + 1
	p.padded = p.top > 0 || p.left > 0 || p.ph > p.h || p.pw > p.w
	if !p.padded {
		p.ph, p.pw = p.h, p.w
	}
	if p.ph > math.MaxInt32/p.pw/p.c {
		return nil, errors.New("one padded image has more than 2^31 elements")
	}
	return p, nil
}

// depthwise reports whether groups are too narrow for a matrix product to pay.
func (p *convPlan) depthwise() bool { return p.groups > 1 && p.og < 8 }

// index fills in rows, segments, panels and the blocks of K: of about block
// elements, with segments rounded up to multiples of align in the panels. It is
// left to the first run, since it takes memory in proportion to the result.
func (p *convPlan) index(block, align int) {
	p.rows = make([]int32, 0, p.oh*p.ow)
	for y := range p.oh {
		for x := range p.ow {
			p.rows = append(p.rows, int32((y*p.sh*p.pw+x*p.sw)*p.c))
		}
	}
	// A row of taps is one run of memory when nothing lies between them.
	kw := p.kw
	p.segLen = p.ig
	if p.groups == 1 && p.dw == 1 {
		p.segLen, kw = p.ig*p.kw, 1
	}
	for ky := range p.kh {
		for kx := range kw {
			p.segs = append(p.segs, int32((ky*p.dh*p.pw+kx*p.dw)*p.c))
		}
	}
	p.nseg = len(p.segs)
	for g := range p.groups {
		for col := 0; col < p.og; col += gemm.PanelCols {
			p.panels = append(p.panels, convPanel{g, col, min(p.og-col, gemm.PanelCols)})
		}
	}
	p.k = p.blocks(block, (p.segLen+align-1)/align*align)
}

// kBlock is a part of the summed dimension: segments of length n at segs, whose
// weights start at row k of a panel.
type kBlock struct {
	segs []int32
	n, k int
}

// blocks cuts K into blocks of about size elements. A segment takes stride rows
// of a panel (its length, or more when packing rounds it up).
func (p *convPlan) blocks(size, stride int) []kBlock {
	var bs []kBlock
	if stride > size {
		for i, s := range p.segs {
			for x := 0; x < stride; x += size {
				bs = append(bs, kBlock{[]int32{s + int32(x)}, min(stride-x, size), i*stride + x})
			}
		}
		return bs
	}
	per := size / stride
	for i := 0; i < p.nseg; i += per {
		bs = append(bs, kBlock{p.segs[i:min(i+per, p.nseg)], stride, i * stride})
	}
	return bs
}

// each calls mul for every part of the product of one image, concurrently for
// different parts of the result, and in order of k for the same part.
func (p *convPlan) each(mul func(row, rows int, panel int, b kBlock, accumulate bool)) {
	chunks := (len(p.rows) + p.chunk - 1) / p.chunk
	run := func(chunk, from, to int) {
		row := chunk * p.chunk
		rows := min(p.chunk, len(p.rows)-row)
		for i, b := range p.k {
			for panel := from; panel < to; panel++ {
				mul(row, rows, panel, b, i > 0)
			}
		}
	}
	n := len(p.panels)
	if chunks >= 2*runtime.GOMAXPROCS(0) {
		parallel(chunks, func(i int) { run(i, 0, n) })
		return
	}
	parallel(chunks*n, func(i int) { run(i/n, i%n, i%n+1) })
}

// padImage returns image i of x with its padding, followed by slack elements
// that products may read and multiply by 0.
func padImage[T any](p *convPlan, x []T, i int, pad T, slack int) []T {
	size := p.h * p.w * p.c
	img := x[i*size : (i+1)*size]
	if !p.padded && (slack == 0 || (i+1)*size+slack <= len(x)) {
		return x[i*size:]
	}
	buf := make([]T, p.ph*p.pw*p.c+slack)
	line := p.pw * p.c
	parallelRows(p.ph, line, func(y int) {
		row := buf[y*line : (y+1)*line]
		sy := y - p.top
		if sy < 0 || sy >= p.h {
			fillSlice(row, pad)
			return
		}
		fillSlice(row[:min(p.left, p.pw)*p.c], pad)
		end := min(p.left+p.w, p.pw)
		if end > p.left {
			copy(row[p.left*p.c:end*p.c], img[sy*p.w*p.c:])
			fillSlice(row[end*p.c:], pad)
		}
	})
	return buf
}

func fillSlice[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}
