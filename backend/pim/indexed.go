package pim

import (
	"fmt"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// lanes describes arrays [outer, n, inner] by the axis that holds n.
type lanes struct{ outer, n, inner int }

func lanesOf(shape []int, axis int) lanes {
	return lanes{ir.Numel(shape[:axis]), shape[axis], ir.Numel(shape[axis+1:])}
}

// picked is gatherelements: the result has the shape of the indices. All is dense, on
// one cluster.
type picked struct {
	noParams
	lanes
	in   [2]dims // x, indices
	m    int     // indices along the axis
	elem int
	t    isa.DType // of the indices
}

func (k *picked) need(i int, _ box) box { return whole(k.in[i]) }
func (k *picked) cuts() [4]bool         { return [4]bool{} }

func (k *picked) cycles(c *arch.Chip, out box) int64 {
	n := out.numel()
	return vectorCycles(c, n, n+ceilDiv(n*k.t.Size(), c.Scratchpad.ReadBytes.Int()), ceilDiv(n*int64(k.elem), c.Scratchpad.WriteBytes.Int()))
}

func (k *picked) emit(e *emitter, out box, dst view, src []view) {
	e.emit(isa.OpPick, int64(k.elem), int64(k.t), dst.at(out.lo), src[0].at(dims{}), src[1].at(dims{}), int64(k.outer), int64(k.n), int64(k.m), int64(k.inner))
}

// put is scatterelements: a copy of the first operand, then the updates one by one.
// All is dense, on one cluster.
type put struct {
	noParams
	lanes
	in        [3]dims // x, indices, updates
	m         int     // updates along the axis
	fn        int64
	t, indexT isa.DType
}

func (k *put) need(i int, _ box) box { return whole(k.in[i]) }
func (k *put) cuts() [4]bool         { return [4]bool{} }

func (k *put) cycles(c *arch.Chip, out box) int64 {
	size, n := k.t.Size(), k.in[1].numel()
	read := ceilDiv(n*(size+k.indexT.Size()), c.Scratchpad.ReadBytes.Int())
	if k.fn != isa.PutReplace {
		read += n
	}
	return elemCycles(c, out.numel(), 0, size, size) + vectorCycles(c, n*laneWords(size), read, n)
}

func (k *put) emit(e *emitter, out box, dst view, src []view) {
	to, bytes := dst.at(out.lo), out.numel()*k.t.Size()
	e.emit(isa.OpCopy, to, src[0].at(dims{}), 1, 0, 0, 1, 0, 0, 1, 0, 0, bytes)
	e.emit(isa.OpPut, k.fn, int64(k.t), int64(k.indexT), to, src[2].at(dims{}), src[1].at(dims{}), int64(k.outer), int64(k.n), int64(k.m), int64(k.inner))
}

// best is topk. All is dense, on one cluster.
type best struct {
	noParams
	lanes
	in       dims
	k        int
	smallest int64
	t        isa.DType
}

func (k *best) need(int, box) box { return whole(k.in) }
func (k *best) cuts() [4]bool     { return [4]bool{} }

func (k *best) cycles(c *arch.Chip, out box) int64 {
	return elemCycles(c, out.numel()*int64(k.n), 2*laneWords(k.t.Size()), k.t.Size(), 0)
}

func (k *best) emit(e *emitter, out box, dst view, src []view) {
	e.emit(isa.OpTopK, int64(k.t), dst.at(out.lo), src[0].at(dims{}), int64(k.k), k.smallest, int64(k.outer), int64(k.n), int64(k.inner))
}

// sameButAxis checks that indices are as many as the elements of x along every
// dimension but one.
func sameButAxis(x, indices []int, axis int) error {
	for d := range x {
		if d != axis && x[d] != indices[d] {
			return fmt.Errorf("has indices of shape %v for elements of shape %v; on a PIM chip they differ along the axis alone", indices, x)
		}
	}
	return nil
}

// indexType returns the element type of indices.
func (l *lowering) indexType(i int) (isa.DType, error) {
	t, ok := numberTypes[l.inType(i).DType]
	if !ok || t == isa.F32 || t == isa.Bool {
		return t, fmt.Errorf("has indices of %s", l.inType(i).DType)
	}
	return t, nil
}

// dense returns the operands of the operator at hand, each whole and dense.
func (l *lowering) dense() ([]*tensor, error) {
	in := make([]*tensor, len(l.op.In))
	for i := range in {
		t, err := l.in(i)
		if err != nil {
			return nil, err
		}
		in[i] = l.densely(t)
	}
	return in, nil
}

// denseResult appends the step of a kernel whose operands and result are dense.
func (l *lowering) denseResult(k kernel, in ...*tensor) error {
	if err := l.result(k, in...); err != nil {
		return err
	}
	l.vals[l.op.Out].store.whole = true
	return nil
}

func (l *lowering) gatherElements() error {
	axis := l.op.Attr.(*ir.AxisAttr).Axis
	x, at := l.inType(0), l.inType(1)
	if err := sameButAxis(x.Shape, at.Shape, axis); err != nil {
		return err
	}
	t, err := l.indexType(1)
	if err != nil {
		return err
	}
	in, err := l.dense()
	if err != nil {
		return err
	}
	return l.denseResult(&picked{lanes: lanesOf(x.Shape, axis), in: [2]dims{in[0].dims, in[1].dims}, m: at.Shape[axis], elem: in[0].elem, t: t}, in...)
}

// puts are the ways to scatter.
var puts = map[ir.ScatterMode]int64{
	ir.ScatterSet: isa.PutReplace, ir.ScatterAdd: isa.PutAdd, ir.ScatterMul: isa.PutMul, ir.ScatterMin: isa.PutMin, ir.ScatterMax: isa.PutMax,
}

func (l *lowering) scatterElements() error {
	a := l.op.Attr.(*ir.ScatterAttr)
	x, at := l.inType(0), l.inType(1)
	if err := sameButAxis(x.Shape, at.Shape, a.Axis); err != nil {
		return err
	}
	it, err := l.indexType(1)
	if err != nil {
		return err
	}
	t, ok := numberTypes[x.DType]
	if !ok || t == isa.Bool && a.Mode != ir.ScatterSet {
		return fmt.Errorf("of %s has no form on a PIM chip", x.DType)
	}
	in, err := l.dense()
	if err != nil {
		return err
	}
	return l.denseResult(&put{lanes: lanesOf(x.Shape, a.Axis), in: [3]dims{in[0].dims, in[1].dims, in[2].dims}, m: at.Shape[a.Axis], fn: puts[a.Mode], t: t, indexT: it}, in...)
}

// mostTop is how many elements a topk finds on a chip, one a pass over all; for more,
// sorting on the host takes less.
const mostTop = 64

func (l *lowering) topK() error {
	a := l.op.Attr.(*ir.TopKAttr)
	x := l.inType(0)
	t, ok := numberTypes[x.DType]
	switch {
	case !ok || t == isa.Bool:
		return fmt.Errorf("of %s has no form on a PIM chip", x.DType)
	case a.K > mostTop:
		return fmt.Errorf("finds %d elements; on a PIM chip at most %d, one a pass", a.K, mostTop)
	}
	in, err := l.dense()
	if err != nil {
		return err
	}
	k := &best{lanes: lanesOf(x.Shape, a.Axis), in: in[0].dims, k: a.K, t: t}
	if a.Smallest {
		k.smallest = 1
	}
	return l.denseResult(k, in...)
}
