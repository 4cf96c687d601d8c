package pim

import (
	"situ/arch"
	"situ/backend/pim/isa"
	"situ/internal/vecf32"
)

// unaryF is an element-wise float32 function.
type unaryF struct {
	pointwise
	fn vecf32.Fn
	p  vecf32.Params
}

func (k *unaryF) cycles(c *arch.Chip, out box) int64 {
	return f32Cycles(c, out.numel(), c.Vector.F32OpsPerSpecial.Int())
}

func (k *unaryF) emit(e *emitter, out box, dst view, src []view) {
	to, from := dst.at(out.lo), src[0].at(out.lo)
	runs(out.dims(), [3][4]int64{dst.st, src[0].st}, [3]int64{4, 4}, 2, 0, [3]bool{}, func(off [3]int64, _ [mostLoops]level, n int64, _ [3]bool) {
		e.emit(isa.OpUnaryF, int64(k.fn), to+off[0], from+off[1], n, f32bits(k.p.A), f32bits(k.p.B))
	})
}

// binaryF is an element-wise float32 function of two operands that broadcast,
// then clamped when clip is set.
type binaryF struct {
	noParams
	fn   vecf32.BinOp
	a, b dims
	clip *vecf32.Params
}

func (k *binaryF) need(i int, out box) box {
	if i == 0 {
		return broadcast(k.a, out)
	}
	return broadcast(k.b, out)
}

func (k *binaryF) cuts() [4]bool { return allCuts }

func (k *binaryF) cycles(c *arch.Chip, out box) int64 { return f32Cycles(c, out.numel(), 2) }

func (k *binaryF) emit(e *emitter, out box, dst view, src []view) {
	sa, sb := stepsOf(src[0], k.a), stepsOf(src[1], k.b)
	args := []int64{int64(k.fn), dst.at(out.lo), src[0].at(k.need(0, out).lo), src[1].at(k.need(1, out).lo)}
	for d := range 4 {
		args = append(args, int64(out.ext(d)), dst.st[d], sa[d], sb[d])
	}
	e.emit(isa.OpBinaryF, args...)
	if k.clip != nil {
		clamp := unaryF{fn: vecf32.Clip, p: *k.clip}
		clamp.emit(e, out, dst, []view{dst})
	}
}

// alongF is a float32 softmax or local response normalisation along one axis.
// Operand and result are dense from that axis on.
type alongF struct {
	noParams
	axis              int
	in                dims
	lrn               bool
	log               bool // log-softmax
	size              int
	alpha, beta, bias float32
}

func (k *alongF) need(_ int, out box) box { return out }

func (k *alongF) cuts() [4]bool {
	var cut [4]bool
	for i := range k.axis {
		cut[i] = true
	}
	return cut
}

func (k *alongF) cycles(c *arch.Chip, out box) int64 {
	return f32Cycles(c, out.numel(), 2*c.Vector.F32OpsPerSpecial.Int())
}

func (k *alongF) emit(e *emitter, out box, dst view, src []view) {
	n, inner := int64(out.ext(k.axis)), int64(1)
	for i := k.axis + 1; i < 4; i++ {
		inner *= int64(out.ext(i))
	}
	one := func(to, from, outer int64) {
		if k.lrn {
			e.emit(isa.OpLRNF, to, from, outer, n, inner, int64(k.size), f32bits(k.alpha), f32bits(k.beta), f32bits(k.bias))
			return
		}
		log := int64(0)
		if k.log {
			log = 1
		}
		e.emit(isa.OpSoftmaxF, log, to, from, outer, n, inner)
	}
	if k.axis == 3 {
		eachRows(out, [2]view{dst, src[0]}, 4, one)
		return
	}
	// One instruction for each place before the axis: what follows is dense.
	for p := range positions(out, k.axis) {
		one(dst.at(p), src[0].at(p), 1)
	}
}

// positions yields the first element of every slice of b along the axes before
// axis.
func positions(b box, axis int) func(yield func(dims) bool) {
	return func(yield func(dims) bool) {
		p := b.lo
		for {
			if !yield(p) {
				return
			}
			i := axis - 1
			for ; i >= 0; i-- {
				if p[i]++; p[i] < b.hi[i] {
					break
				}
				p[i] = b.lo[i]
			}
			if i < 0 {
				return
			}
		}
	}
}

// reduceF is a float32 reduction of the middle dimension of [outer, n, inner],
// all dense, on one cluster.
type reduceF struct {
	noParams
	fn              vecf32.RedOp
	in              dims
	outer, n, inner int
}

func (k *reduceF) need(int, box) box { return whole(k.in) }
func (k *reduceF) cuts() [4]bool     { return [4]bool{} }

func (k *reduceF) cycles(c *arch.Chip, _ box) int64 { return f32Cycles(c, k.in.numel(), 1) }

func (k *reduceF) emit(e *emitter, out box, dst view, src []view) {
	e.emit(isa.OpReduceF, int64(k.fn), dst.at(out.lo), src[0].at(dims{}), int64(k.outer), int64(k.n), int64(k.inner))
}
