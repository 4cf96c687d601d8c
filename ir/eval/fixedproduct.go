package eval

import (
	"math"
	"slices"
	"sync"

	"situ/internal/fixed"
	"situ/internal/gemm"
	"situ/ir"
)

// epilogue turns the sums of a product into its result: plus bias, and unless
// the result is int32, rescaled for the channel.
type epilogue struct {
	channels int
	out      ir.Type
	rs       []rescale // one a channel; nil for an int32 result
}

// newEpilogue prepares the result of a product of types x and w. A unit of
// channel c's sum is worth sx·sw[c].
func newEpilogue(n *node, channels int) (*epilogue, error) {
	e := &epilogue{channels: channels, out: n.out}
	if n.out.DType == ir.I32 {
		return e, nil
	}
	sx, sy := float64(n.in[0].Quant.Scale[0]), float64(n.out.Quant.Scale[0])
	e.rs = make([]rescale, channels)
	for c := range e.rs {
		sw := float64(at(n.in[1].Quant.Scale, c))
		var err error
		if e.rs[c], err = newRescale(sx*sw/sy, n.out, actOf(n.op.Attr)); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// finish consumes acc.
func (e *epilogue) finish(acc []int32, bias *ir.Tensor) *ir.Tensor {
	var b []int32
	if bias != nil {
		b = ir.Data[int32](bias)
	}
	parallelRows(len(acc)/e.channels, e.channels, func(i int) {
		row := acc[i*e.channels : (i+1)*e.channels]
		if b != nil {
			for c := range row {
				row[c] += b[c]
			}
		}
		if e.rs != nil {
			for c, v := range row {
				row[c] = e.rs[c].code(v)
			}
		}
	})
	if e.out.DType == ir.I32 {
		return ir.NewTensor(ir.I32, e.out.Shape, acc)
	}
	return fromCodes(e.out.DType, e.out.Shape, acc)
}

// unsigned returns an operand's codes of at most 8 bits as bytes, and their zero
// point: signed codes and the zero point have 128 added, which leaves their
// difference as it is. Slack bytes follow.
func unsigned(t *ir.Tensor, zero int32, slack int) ([]byte, int32) {
	switch d := t.Any().(type) {
	case []int8:
		u := make([]byte, len(d)+slack)
		parallelRange(len(d), func(from, to int) {
			for i := from; i < to; i++ {
				u[i] = byte(d[i]) ^ 0x80
			}
		})
		return u, zero + 128
	case []uint8:
		return append(make([]byte, 0, len(d)+slack), d...)[:len(d)+slack], zero
	}
	panic("eval: unsigned codes of " + t.DType.String())
}

// centred returns the weights' codes less their zero points as int8, and false
// when they do not all fit. The channel of element i is i / inner % len(zeros).
func centred(t *ir.Tensor, zeros []int32, inner int) ([]int8, bool) {
	if w, ok := t.Any().([]int8); ok && !slices.ContainsFunc(zeros, func(z int32) bool { return z != 0 }) {
		return w, true
	}
	w := make([]int8, t.Numel())
	for i, c := range codes(t) {
		v := c - zeros[i/inner%len(zeros)]
		if v < math.MinInt8 || v > math.MaxInt8 {
			return nil, false
		}
		w[i] = int8(v)
	}
	return w, true
}

// packedI8 is the right operand of a fast integer product: a packed matrix for
// each group, or weights [taps][channels] of a depthwise convolution, and the
// sum of each column. It is nil when the weights do not fit.
type packedI8 struct {
	b         []*gemm.B
	depthwise []int8
	sums      []int32
	rest      []int32 // zero points that the numbers still have, one a column; nil for none
}

// correct subtracts zero·Σw from every row of acc, which turns sums of u·w into
// sums of (u−zero)·w. All wraps at 32 bits.
func (p *packedI8) correct(acc []int32, zero int32) {
	n := len(p.sums)
	parallelRows(len(acc)/n, n, func(i int) {
		row := acc[i*n : (i+1)*n]
		for c, s := range p.sums {
			row[c] -= zero * s
		}
	})
}

func prepareFixedConv(n *node, p *convPlan) (kernel, error) {
	ep, err := newEpilogue(n, p.o)
	if err != nil {
		return nil, err
	}
	zx, zw := n.in[0].Quant.Zero[0], n.in[1].Quant.Zero
	index := sync.OnceFunc(func() { p.index(math.MaxInt, 4) })
	wq := n.in[1].Quant
	pack := func(w *ir.Tensor) []plane[*packedI8] {
		return planesOf(w, wq, func(t *ir.Tensor) *packedI8 { return p.packI8(t, zw) })
	}
	if n.consts[1] != nil {
		pack = onceFor(pack, n.consts[1])
	}
	return func(e *env, in []*ir.Tensor) (*ir.Tensor, error) {
		var planes []plane[*packedI8]
		if !e.plain {
			index()
			planes = pack(in[1])
		}
		if planes == nil {
			acc := make([]int32, n.out.Numel())
			plainConvI32(p, acc, codes(in[0]), withShifts(codes(in[1]), n.in[1]), zx, zw)
			return ep.finish(acc, operand(in, 2)), nil
		}
		x, zero := unsigned(in[0], zx, 3)
		size := p.oh * p.ow * p.o
		acc := sumPlanes(planes, n.out.Numel(), func(acc []int32, w *packedI8) {
			for i := range p.n {
				convI8(p, acc[i*size:(i+1)*size], padImage(p, x, i, byte(zero), 3), w)
			}
			w.correct(acc, zero)
		})
		return ep.finish(acc, operand(in, 2)), nil
	}, nil
}

// plainConvI32 is the definition of a convolution of codes: the sum of
// (x−zx)·(w−zw) over the taps inside the image, wrapping at 32 bits.
func plainConvI32(p *convPlan, y, x, w []int32, zx int32, zw []int32) {
	p.plain(func(out, _, o int, eachTap func(f func(xi, wi int))) {
		z, sum := at(zw, o), int32(0)
		eachTap(func(xi, wi int) { sum += (x[xi] - zx) * (w[wi] - z) })
		y[out] = sum
	})
}

// packI8 packs convolution weights [O,kh,kw,I], a matrix for each group.
func (p *convPlan) packI8(t *ir.Tensor, zw []int32) *packedI8 {
	k := p.kh * p.kw * p.ig
	w, ok := centred(t, zw, k)
	if !ok || p.depthwise() && (p.ig > 1 || p.og > 1) {
		return nil
	}
	out := &packedI8{sums: make([]int32, p.o)}
	for o := range p.o {
		for _, v := range w[o*k : (o+1)*k] {
			out.sums[o] += int32(v)
		}
	}
	if p.depthwise() {
		out.depthwise = make([]int8, len(w))
		transposeTile(out.depthwise, 0, w, 0, axis{k, p.o, 1}, axis{p.o, 1, k})
		return out
	}
	out.b = make([]*gemm.B, p.groups)
	parallel(p.groups, func(g int) {
		m := make([]int8, k*p.og) // [k][og]
		transposeTile(m, 0, w, g*p.og*k, axis{k, p.og, 1}, axis{p.og, 1, k})
		out.b[g] = gemm.PackSegments(p.nseg, p.segLen, p.og, m, p.og)
	})
	return out
}

// convI8 sums the products of one padded image's bytes and packed weights.
func convI8(p *convPlan, acc []int32, img []byte, w *packedI8) {
	if w.depthwise != nil {
		parallelRows(p.oh, p.ow*p.o, func(y int) {
			from, to := y*p.ow, (y+1)*p.ow
			fixed.DepthwiseRows(acc[from*p.o:to*p.o], p.o, img, p.rows[from:to], p.segs, p.o, w.depthwise)
		})
		return
	}
	p.each(func(row, rows, panel int, b kBlock, accumulate bool) {
		pn := p.panels[panel]
		gemm.Indirect(acc[row*p.o+pn.group*p.og+pn.col:], p.o, pn.cols, accumulate,
			img[pn.group*p.ig:], p.rows[row:row+rows], b.segs, b.n,
			w.b[pn.group].Panel(pn.col/gemm.PanelCols))
	})
}

func prepareFixedMatMul(n *node, p *matPlan) (kernel, error) {
	ep, err := newEpilogue(n, p.n)
	if err != nil {
		return nil, err
	}
	zx, zw := n.in[0].Quant.Zero[0], n.in[1].Quant.Zero
	wq := n.in[1].Quant
	pack := func(w *ir.Tensor) []plane[[]*packedI8] {
		return planesOf(w, wq, func(t *ir.Tensor) []*packedI8 { return p.packI8(t, zw) })
	}
	if n.consts[1] != nil {
		pack = onceFor(pack, n.consts[1])
	}
	return func(e *env, in []*ir.Tensor) (*ir.Tensor, error) {
		var planes []plane[[]*packedI8]
		if !e.plain {
			planes = pack(in[1])
		}
		if planes == nil {
			acc := make([]int32, n.out.Numel())
			plainMatMulI32(p, acc, codes(in[0]), withShifts(codes(in[1]), n.in[1]), zx, zw)
			return ep.finish(acc, operand(in, 2)), nil
		}
		a, zero := unsigned(in[0], zx, 3)
		acc := sumPlanes(planes, n.out.Numel(), func(acc []int32, b []*packedI8) { p.mulI8(acc, a, b, zero) })
		return ep.finish(acc, operand(in, 2)), nil
	}, nil
}

// plainMatMulI32 is the definition of a matrix product of codes.
func plainMatMulI32(p *matPlan, y, a, b []int32, za int32, zb []int32) {
	p.plain(func(out, ai, bi, col int) {
		z, sum := at(zb, col), int32(0)
		for k := range p.k {
			sum += (a[ai+k] - za) * (b[bi+k*p.n] - z)
		}
		y[out] = sum
	})
}

// shifted returns codes as int8, and zero points as far away. Unlike centred it
// takes any zero points.
func shifted(t *ir.Tensor, zeros []int32, n int) (w []int8, rest []int32) {
	rest = make([]int32, n)
	for c := range rest {
		rest[c] = at(zeros, c)
	}
	switch d := t.Any().(type) {
	case []int8:
		return d, rest
	case []uint8:
		w = make([]int8, len(d))
		for i, c := range d {
			w[i] = int8(c ^ 0x80)
		}
		for c := range rest {
			rest[c] -= 128
		}
		return w, rest
	}
	panic("eval: codes of " + t.DType.String())
}

// packI8 packs the right matrices of a product, in the order in which they lie.
func (p *matPlan) packI8(t *ir.Tensor, zw []int32) []*packedI8 {
	w, ok := centred(t, zw, 1)
	var rest []int32
	if !ok {
		w, rest = shifted(t, zw, p.n)
	}
	size := p.k * p.n
	out := make([]*packedI8, len(w)/size)
	for i := range out {
		m := w[i*size : (i+1)*size]
		q := &packedI8{b: []*gemm.B{gemm.Pack(p.k, p.n, m, p.n)}, sums: make([]int32, p.n), rest: rest}
		for k := range p.k {
			for j, v := range m[k*p.n : (k+1)*p.n] {
				q.sums[j] += int32(v)
			}
		}
		out[i] = q
	}
	return out
}

// mulI8 computes all products of the plan, a chunk of rows at a time.
func (p *matPlan) mulI8(acc []int32, a []byte, b []*packedI8, zero int32) {
	pairs := p.pairs()
	chunks := (p.m + chunkRows - 1) / chunkRows
	parallel(len(pairs)*chunks, func(i int) {
		pair, row := i/chunks, i%chunks*chunkRows
		rows := min(chunkRows, p.m-row)
		w := b[pairs[pair].b/(p.k*p.n)]
		y := acc[(pair*p.m+row)*p.n:][:rows*p.n]
		left := a[pairs[pair].a+row*p.k:]
		gemm.Mul(y, p.n, left, p.k, rows, w.b[0])
		w.correct(y, zero)
		w.correctRest(y, left, p.k, zero)
	})
}

// correctRest takes the zero points of the right matrix out of sums that correct
// has been through: Σ(a−z)(w−r) = Σ(a−z)·w − r·Σ(a−z).
func (p *packedI8) correctRest(acc []int32, a []byte, k int, zero int32) {
	if p.rest == nil {
		return
	}
	n := len(p.rest)
	for i := range len(acc) / n {
		sum := -int32(k) * zero
		for _, v := range a[i*k : (i+1)*k] {
			sum += int32(v)
		}
		row := acc[i*n : (i+1)*n]
		for c, r := range p.rest {
			row[c] -= r * sum
		}
	}
}
