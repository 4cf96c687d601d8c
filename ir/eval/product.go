package eval

import (
	"sync"

	"situ/internal/gemm"
	"situ/internal/vecf32"
	"situ/ir"
)

// f32Block is the part of K, in elements, that a float product takes at a time:
// 64 columns of it are 64 KB.
const f32Block = 256

func prepareConv(n *node) (kernel, error) {
	p, err := newConvPlan(n.op.Attr.(*ir.ConvAttr), n.in[0].Shape, n.in[1].Shape, n.out.Shape)
	if err != nil {
		return nil, err
	}
	if n.quantised() {
		return prepareFixedConv(n, p)
	}
	return narrowFloat(n, prepareFloatConv(n, p))
}

func prepareFloatConv(n *node, p *convPlan) kernel {
	act := actOf(n.op.Attr)
	pack, mul := p.packF32, convF32
	if p.depthwise() {
		pack, mul = func(w []float32) []float32 { return w }, depthwiseF32
	}
	index := sync.OnceFunc(func() { p.index(f32Block, 1) })
	packed := func(w *ir.Tensor) []float32 { return pack(ir.Data[float32](w)) }
	if w := n.consts[1]; w != nil && w.DType == ir.F32 {
		packed = onceFor(packed, w)
	}
	return func(e *env, in []*ir.Tensor) (*ir.Tensor, error) {
		x := ir.Data[float32](in[0])
		out := ir.Zeros(ir.F32, n.out.Shape...)
		y := ir.Data[float32](out)
		if e.plain {
			plainConvF32(p, y, x, ir.Data[float32](in[1]))
		} else {
			index()
			w := packed(in[1])
			size := p.oh * p.ow * p.o
			for i := range p.n {
				mul(p, y[i*size:(i+1)*size], padImage(p, x, i, 0, 0), w)
			}
		}
		finishF32(y, p.o, operand(in, 2), act)
		return out, nil
	}
}

// operand returns operand i, nil when absent.
func operand(in []*ir.Tensor, i int) *ir.Tensor {
	if i < len(in) {
		return in[i]
	}
	return nil
}

// finishF32 adds a bias to rows of n channels and applies an activation.
func finishF32(y []float32, n int, bias *ir.Tensor, act *ir.Act) {
	if bias == nil && act == nil {
		return
	}
	parallelRows(len(y)/n, n, func(r int) {
		row := y[r*n : (r+1)*n]
		if bias != nil {
			b := ir.Data[float32](bias)[:len(row)]
			for i := range row {
				row[i] += b[i]
			}
		}
		clampAct(act, row)
	})
}

// plainConvF32 is the definition of a convolution, summed in float64.
func plainConvF32(p *convPlan, y, x, w []float32) {
	p.plain(func(out, image, o int, eachTap func(f func(xi, wi int))) {
		sum := 0.0
		eachTap(func(xi, wi int) { sum += float64(x[xi]) * float64(w[wi]) })
		y[out] = float32(sum)
	})
}

// plain calls f for every element of a convolution's result: its offset, image
// and channel, and an iterator over the offsets of the operand and weight
// elements whose products it sums. Taps in the padding do not occur.
func (p *convPlan) plain(f func(out, image, o int, eachTap func(func(xi, wi int)))) {
	parallel(p.n*p.oh, func(i int) {
		image, y := i/p.oh, i%p.oh
		for x := range p.ow {
			for o := range p.o {
				f((i*p.ow+x)*p.o+o, image, o, func(tap func(xi, wi int)) {
					for ky := range p.kh {
						iy := y*p.sh - p.top + ky*p.dh
						if iy < 0 || iy >= p.h {
							continue
						}
						for kx := range p.kw {
							ix := x*p.sw - p.left + kx*p.dw
							if ix < 0 || ix >= p.w {
								continue
							}
							xi := ((image*p.h+iy)*p.w+ix)*p.c + o/p.og*p.ig
							wi := ((o*p.kh+ky)*p.kw + kx) * p.ig
							for c := range p.ig {
								tap(xi+c, wi+c)
							}
						}
					}
				})
			}
		}
	})
}

// depthwiseF32 convolves one padded image whose groups are narrow, channel by
// channel within each tap.
func depthwiseF32(p *convPlan, y, img, w []float32) {
	// Weights as [ky][kx][ci][o]: the inner loop runs over output channels.
	taps := p.kh * p.kw
	wt := make([]float32, len(w))
	for o := range p.o {
		for k := range taps * p.ig {
			wt[k*p.o+o] = w[o*taps*p.ig+k]
		}
	}
	parallelRows(p.oh, p.ow*p.o*taps*p.ig, func(oy int) {
		for ox := range p.ow {
			acc := y[(oy*p.ow+ox)*p.o:][:p.o]
			for ky := range p.kh {
				for kx := range p.kw {
					src := img[((oy*p.sh+ky*p.dh)*p.pw+ox*p.sw+kx*p.dw)*p.c:][:p.c]
					wk := wt[(ky*p.kw+kx)*p.ig*p.o:][:p.ig*p.o]
					if p.ig == 1 && p.og == 1 {
						wk = wk[:len(acc)]
						src = src[:len(acc)]
						for c := range acc {
							acc[c] += float32(src[c] * wk[c])
						}
						continue
					}
					for c := range p.ig {
						for o := range acc {
							acc[o] += float32(src[o/p.og*p.ig+c] * wk[c*p.o+o])
						}
					}
				}
			}
		}
	})
}

// packF32 lays weights out in panels of 64 output channels.
func (p *convPlan) packF32(w []float32) []float32 {
	k := p.kh * p.kw * p.ig
	packed := make([]float32, len(p.panels)*k*gemm.PanelCols)
	parallel(len(p.panels), func(i int) {
		pn := p.panels[i]
		o := pn.group*p.og + pn.col
		transposeTile(packed, i*k*gemm.PanelCols, w, o*k, axis{k, gemm.PanelCols, 1}, axis{pn.cols, 1, k})
	})
	return packed
}

// convF32 convolves one padded image with packed weights.
func convF32(p *convPlan, y, img, packed []float32) {
	k := p.kh * p.kw * p.ig
	p.each(func(row, rows, panel int, b kBlock, accumulate bool) {
		pn := p.panels[panel]
		gemm.F32Indirect(y[row*p.o+pn.group*p.og+pn.col:], p.o, pn.cols, accumulate,
			img[pn.group*p.ig:], p.rows[row:row+rows], b.segs, b.n,
			packed[(panel*k+b.k)*gemm.PanelCols:(panel+1)*k*gemm.PanelCols])
	})
}

// matPlan is the geometry of a matrix product with broadcast leading dimensions.
type matPlan struct {
	m, k, n int
	pairs   func() []matPair // one a matrix of the result
}

// matPair says where the two factors of a matrix of the result begin.
type matPair struct{ a, b int }

func newMatPlan(a, b, out []int) *matPlan {
	ra, rb := len(a)-2, len(b)-2
	p := &matPlan{m: a[ra], k: a[ra+1], n: b[rb+1]}
	if ir.Numel(b[:rb]) == 1 {
		// One right matrix for all: the left ones are one tall matrix.
		p.m *= ir.Numel(a[:ra])
		p.pairs = func() []matPair { return []matPair{{0, 0}} }
		return p
	}
	m := a[ra]
	p.pairs = sync.OnceValue(func() []matPair {
		var pairs []matPair
		vecf32.EachRow(out[:len(out)-2], a[:ra], b[:rb], func(r vecf32.Row) {
			for i := range r.N {
				pairs = append(pairs, matPair{(r.A + i*r.StrideA) * m * p.k, (r.B + i*r.StrideB) * p.k * p.n})
			}
		})
		return pairs
	})
	return p
}

func prepareMatMul(n *node) (kernel, error) {
	p := newMatPlan(n.in[0].Shape, n.in[1].Shape, n.out.Shape)
	if n.quantised() {
		return prepareFixedMatMul(n, p)
	}
	act := actOf(n.op.Attr)
	if n.in[0].DType == ir.F64 {
		return prepareMatMul64(n, p, act)
	}
	return narrowFloat(n, func(e *env, in []*ir.Tensor) (*ir.Tensor, error) {
		a, b := ir.Data[float32](in[0]), ir.Data[float32](in[1])
		out := ir.Zeros(ir.F32, n.out.Shape...)
		y := ir.Data[float32](out)
		pairs := p.pairs()
		mul := func(i int) {
			gemm.F32(y[i*p.m*p.n:], p.n, a[pairs[i].a:], p.k, p.m, p.k, p.n, b[pairs[i].b:], p.n)
		}
		switch {
		case e.plain || p.k == 0:
			plainMatMulF32(p, y, a, b)
		case len(pairs) == 1:
			mul(0) // gemm.F32 is concurrent by itself
		default:
			parallel(len(pairs), mul)
		}
		finishF32(y, p.n, operand(in, 2), act)
		return out, nil
	})
}

// prepareMatMul64 is the definition of a matrix product in float64.
func prepareMatMul64(n *node, p *matPlan, act *ir.Act) (kernel, error) {
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		a, b := ir.Data[float64](in[0]), ir.Data[float64](in[1])
		y := make([]float64, n.out.Numel())
		bias := make([]float64, p.n)
		if t := operand(in, 2); t != nil {
			bias = ir.Data[float64](t)
		}
		p.plain(func(out, ai, bi, col int) {
			sum := bias[col]
			for k := range p.k {
				sum += float64(a[ai+k] * b[bi+k*p.n])
			}
			y[out] = clamp64(act, sum)
		})
		return ir.NewTensor(ir.F64, n.out.Shape, y), nil
	}, nil
}

// plainMatMulF32 is the definition of a matrix product, summed in float64.
func plainMatMulF32(p *matPlan, y, a, b []float32) {
	p.plain(func(out, ai, bi, _ int) {
		sum := 0.0
		for k := range p.k {
			sum += float64(a[ai+k]) * float64(b[bi+k*p.n])
		}
		y[out] = float32(sum)
	})
}

// plain calls f for every element of a matrix product's result: its offset, the
// offsets of the row of a and the column of b whose products it sums, and its
// column.
func (p *matPlan) plain(f func(out, ai, bi, col int)) {
	for i, pair := range p.pairs() {
		parallelRows(p.m, p.n*p.k, func(r int) {
			for c := range p.n {
				f((i*p.m+r)*p.n+c, pair.a+r*p.k, pair.b+c, c)
			}
		})
	}
}
