package pim

import (
	"encoding/binary"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/internal/fixed"
)

// noParams is embedded by kernels without constants.
type noParams struct{}

func (noParams) params(box) []byte { return nil }

// pointwise is embedded by kernels whose result element depends on the operand
// elements at the same place alone.
type pointwise struct{ noParams }

func (pointwise) need(_ int, out box) box { return out }
func (pointwise) cuts() [4]bool           { return allCuts }

// broadcast returns the part of an operand of dims d that a part of the result
// needs: dimensions of 1 are repeated.
func broadcast(d dims, out box) box {
	for i, n := range d {
		if n == 1 {
			out = out.along(i, 0, min(1, out.ext(i)))
		}
	}
	return out
}

// stepsOf returns the byte steps of an operand over the result's dimensions.
func stepsOf(v view, d dims) [4]int64 {
	for i, n := range d {
		if n == 1 {
			v.st[i] = 0
		}
	}
	return v.st
}

// addMul is the addition or product of two tensors of codes.
type addMul struct {
	noParams
	a, b dims
	op   isa.Op   // OpAdd or OpMul
	ab   [7]int64 // operands from the zero points to shift, as a comes first
	ba   [7]int64 // the same as b comes first
	n    int      // how many of them
	clip [2]int64 // lo, hi
}

func newAdd(a, b dims, p fixed.AddParams) *addMul {
	k := &addMul{a: a, b: b, op: isa.OpAdd, n: 6, clip: [2]int64{int64(p.Lo), int64(p.Hi)}}
	k.ab = [7]int64{int64(p.ZA), int64(p.ZB), int64(p.ZY), int64(p.MA), int64(p.MB), int64(p.Shift)}
	k.ba = [7]int64{int64(p.ZB), int64(p.ZA), int64(p.ZY), int64(p.MB), int64(p.MA), int64(p.Shift)}
	return k
}

func newMul(a, b dims, p fixed.MulParams) *addMul {
	k := &addMul{a: a, b: b, op: isa.OpMul, n: 5, clip: [2]int64{int64(p.Lo), int64(p.Hi)}}
	k.ab = [7]int64{int64(p.ZA), int64(p.ZB), int64(p.ZY), int64(p.M.M), int64(p.M.Shift)}
	k.ba = [7]int64{int64(p.ZB), int64(p.ZA), int64(p.ZY), int64(p.M.M), int64(p.M.Shift)}
	return k
}

func (k *addMul) need(i int, out box) box {
	if i == 0 {
		return broadcast(k.a, out)
	}
	return broadcast(k.b, out)
}

func (k *addMul) cuts() [4]bool { return allCuts }

func (k *addMul) cycles(c *arch.Chip, out box) int64 {
	ops := int64(opsAdd)
	if k.op == isa.OpMul {
		ops = opsMul
	}
	n, ch := places(out)
	run := ceilDiv(ch, c.Scratchpad.ReadBytes.Int())
	return vectorCycles(c, n*ch*ops, 2*n*run, n*run)
}

func (k *addMul) emit(e *emitter, out box, dst view, src []view) {
	a, b := src[0], src[1]
	sa, sb := stepsOf(a, k.a), stepsOf(b, k.b)
	to, fa, fb := dst.at(out.lo), a.at(k.need(0, out).lo), b.at(k.need(1, out).lo)
	nums := k.ab
	// The instruction repeats only its second operand along a run.
	if innermost(out, sa) == 0 && innermost(out, sb) != 0 {
		sa, sb, fa, fb, nums = sb, sa, fb, fa, k.ba
	}
	runs(out.dims(), [3][4]int64{dst.st, sa, sb}, [3]int64{1, 1, 1}, 3, 2, [3]bool{2: true}, func(off [3]int64, l [mostLoops]level, n int64, still [3]bool) {
		args := append(make([]int64, 0, 24), to+off[0], fa+off[1], fb+off[2],
			l[0].n, l[0].st[0], l[0].st[1], l[0].st[2], l[1].n, l[1].st[0], l[1].st[1], l[1].st[2], n)
		args = append(args, nums[:k.n]...)
		bStep := int64(1)
		if still[2] {
			bStep = 0
		}
		e.emit(k.op, append(args, k.clip[0], k.clip[1], bStep)...)
	})
}

// innermost returns the step along the last dimension that has more than one
// element.
func innermost(b box, st [4]int64) int64 {
	for i := 3; i >= 0; i-- {
		if b.ext(i) > 1 {
			return st[i]
		}
	}
	return 1
}

// lookup replaces codes by a table of 256.
type lookup struct {
	pointwise
	table [256]byte
}

func (k *lookup) params(box) []byte { return k.table[:] }

func (k *lookup) cycles(c *arch.Chip, out box) int64 {
	n, ch := places(out)
	run := ceilDiv(ch, c.Scratchpad.ReadBytes.Int())
	return vectorCycles(c, n*ch*opsLUT, n*run, n*run)
}

func (k *lookup) emit(e *emitter, out box, dst view, src []view) {
	to, from := dst.at(out.lo), src[0].at(out.lo)
	runs(out.dims(), [3][4]int64{dst.st, src[0].st}, [3]int64{1, 1}, 2, 2, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
		e.emit(isa.OpLUT, to+off[0], from+off[1], e.params,
			l[0].n, l[0].st[0], l[0].st[1], l[1].n, l[1].st[0], l[1].st[1], n)
	})
}

// softmax is the integer softmax along channels.
type softmax struct {
	p fixed.SoftmaxParams
	n int // channels
}

func (k *softmax) need(_ int, out box) box { return out }
func (k *softmax) cuts() [4]bool           { return [4]bool{true, true, true, false} }

func (k *softmax) cycles(c *arch.Chip, out box) int64 {
	return vectorCycles(c, out.numel()*opsSoftmax, 0, 0)
}

// params is the block that the table row of softmax describes.
func (k *softmax) params(box) []byte {
	var b []byte
	for _, t := range k.p.Table {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	b = binary.LittleEndian.AppendUint64(b, k.p.C)
	return append(int32s(b, k.p.ZY), k.p.Lo, k.p.Hi, 0, 0)
}

func (k *softmax) emit(e *emitter, out box, dst view, src []view) {
	eachRows(out, [2]view{dst, src[0]}, 1, func(to, from, rows int64) {
		e.emit(isa.OpSoftmax, to, from, rows, int64(k.n), e.params)
	})
}

// eachRows calls f for stretches of rows of all channels that lie one after the
// other in both views.
func eachRows(out box, v [2]view, elem int, f func(to, from, rows int64)) {
	pitch := int64(out.ext(3)) * int64(elem)
	var ls []level
	for d := range 3 {
		if out.ext(d) > 1 {
			ls = append(ls, level{n: int64(out.ext(d)), st: [3]int64{v[0].st[d], v[1].st[d]}})
		}
	}
	rows := int64(1)
	for k := len(ls) - 1; k >= 0 && ls[k].st[0] == pitch*rows && ls[k].st[1] == pitch*rows; k-- {
		rows *= ls[k].n
		ls = ls[:k]
	}
	var walk func(k int, to, from int64)
	walk = func(k int, to, from int64) {
		if k == len(ls) {
			f(to, from, rows)
			return
		}
		for i := range ls[k].n {
			walk(k+1, to+i*ls[k].st[0], from+i*ls[k].st[1])
		}
	}
	walk(0, v[0].at(out.lo), v[1].at(out.lo))
}

// convert turns float32 into codes, or back.
type convert struct {
	pointwise
	op    isa.Op // OpQuant or OpDequant
	scale float32
	zero  int64
}

func (k *convert) cycles(c *arch.Chip, out box) int64 { return f32Cycles(c, out.numel(), 2) }

func (k *convert) emit(e *emitter, out box, dst view, src []view) {
	el := [3]int64{1, 4}
	if k.op == isa.OpDequant {
		el = [3]int64{4, 1}
	}
	to, from := dst.at(out.lo), src[0].at(out.lo)
	runs(out.dims(), [3][4]int64{dst.st, src[0].st}, el, 2, 2, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
		e.emit(k.op, to+off[0], from+off[1], l[0].n, l[0].st[0], l[0].st[1], l[1].n, l[1].st[0], l[1].st[1], n,
			f32bits(k.scale), k.zero)
	})
}
