package pim

import (
	"situ/arch"
	"situ/backend/pim/isa"
)

// elemCycles estimates an instruction that goes through n elements one by one,
// each of ops lane operations and some bytes read and written.
func elemCycles(c *arch.Chip, n, ops, read, write int64) int64 {
	return vectorCycles(c, n*ops, ceilDiv(n*read, c.Scratchpad.ReadBytes.Int()), ceilDiv(n*write, c.Scratchpad.WriteBytes.Int()))
}

// laneWords is how many 32-bit lanes an element of some bytes takes.
func laneWords(bytes int64) int64 { return max(bytes/4, 1) }

// retype converts the element type, of plain numbers or between float32 and
// codes wider than 8 bits.
type retype struct {
	pointwise
	op       isa.Op // OpConvert, OpQuantW or OpDequantW
	to, from isa.DType
	scale    float32
	zero     int64
}

func (k *retype) cycles(c *arch.Chip, out box) int64 {
	return elemCycles(c, out.numel(), laneWords(max(k.to.Size(), k.from.Size())), k.from.Size(), k.to.Size())
}

func (k *retype) emit(e *emitter, out box, dst view, src []view) {
	to, from := dst.at(out.lo), src[0].at(out.lo)
	runs(out.dims(), [3][4]int64{dst.st, src[0].st}, [3]int64{k.to.Size(), k.from.Size()}, 2, 2, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
		args := make([]int64, 0, 13)
		switch k.op {
		case isa.OpQuantW:
			args = append(args, int64(k.to))
		case isa.OpDequantW:
			args = append(args, int64(k.from))
		default:
			args = append(args, int64(k.to), int64(k.from))
		}
		args = append(args, to+off[0], from+off[1], l[0].n, l[0].st[0], l[0].st[1], l[1].n, l[1].st[0], l[1].st[1], n)
		if k.op != isa.OpConvert {
			args = append(args, f32bits(k.scale), k.zero)
		}
		e.emit(k.op, args...)
	})
}

// binaryI is a function of two plain numbers, element by element, with
// broadcasting.
type binaryI struct {
	noParams
	fn   int64
	t    isa.DType
	a, b dims
}

func (k *binaryI) need(i int, out box) box {
	if i == 0 {
		return broadcast(k.a, out)
	}
	return broadcast(k.b, out)
}

func (k *binaryI) cuts() [4]bool { return allCuts }

func (k *binaryI) cycles(c *arch.Chip, out box) int64 {
	n := k.t.Size()
	return elemCycles(c, out.numel(), laneWords(n), 2*n, n)
}

func (k *binaryI) emit(e *emitter, out box, dst view, src []view) {
	steps := [3][4]int64{dst.st, stepsOf(src[0], k.a), stepsOf(src[1], k.b)}
	args := []int64{k.fn, int64(k.t), dst.at(out.lo), src[0].at(k.need(0, out).lo), src[1].at(k.need(1, out).lo)}
	e.emit(isa.OpBinaryI, nestArgs(args, out, steps[:])...)
}

// nestArgs appends the four counts of a box, each with the steps of the operands
// along it.
func nestArgs(args []int64, out box, steps [][4]int64) []int64 {
	for d := range 4 {
		args = append(args, int64(out.ext(d)))
		for _, st := range steps {
			args = append(args, st[d])
		}
	}
	return args
}

// selection is where: elements of a or b, as a bool says.
type selection struct {
	noParams
	elem int
	in   [3]dims // condition, a, b
}

func (k *selection) need(i int, out box) box { return broadcast(k.in[i], out) }
func (k *selection) cuts() [4]bool           { return allCuts }

func (k *selection) cycles(c *arch.Chip, out box) int64 {
	n := int64(k.elem)
	return elemCycles(c, out.numel(), laneWords(n), 1+2*n, n)
}

func (k *selection) emit(e *emitter, out box, dst view, src []view) {
	steps := [][4]int64{dst.st}
	args := []int64{int64(k.elem), dst.at(out.lo)}
	for i, v := range src {
		args = append(args, v.at(k.need(i, out).lo))
		steps = append(steps, stepsOf(v, k.in[i]))
	}
	e.emit(isa.OpSelect, nestArgs(args, out, steps)...)
}

// reduceI is a reduction of plain integers along the middle dimension of
// [outer, n, inner], all dense, on one cluster.
type reduceI struct {
	noParams
	fn              int64
	t               isa.DType
	in              dims
	outer, n, inner int
}

func (k *reduceI) need(int, box) box { return whole(k.in) }
func (k *reduceI) cuts() [4]bool     { return [4]bool{} }

func (k *reduceI) cycles(c *arch.Chip, _ box) int64 {
	return elemCycles(c, k.in.numel(), laneWords(k.t.Size()), k.t.Size(), 0)
}

func (k *reduceI) emit(e *emitter, out box, dst view, src []view) {
	e.emit(isa.OpReduceI, k.fn, int64(k.t), dst.at(out.lo), src[0].at(dims{}), int64(k.outer), int64(k.n), int64(k.inner))
}

// lookUp is a gather with indices known at run time: the result [1, before,
// count, after] takes entries of a table [1, before, axis, after]. A table that
// stays in DRAM is no operand: its rows come by themselves.
type lookUp struct {
	noParams
	t     isa.DType // of the indices
	table dims
	elem  int
	home  *store // of a table in DRAM, nil for an operand
}

// need: operand 0 is the indices, [1, 1, count, 1], operand 1 the table.
func (k *lookUp) need(i int, out box) box {
	if i == 0 {
		return out.along(1, 0, min(1, out.ext(1))).along(3, 0, min(1, out.ext(3)))
	}
	return out.along(2, 0, k.table[2])
}

func (k *lookUp) cuts() [4]bool { return [4]bool{false, true, true, k.home == nil} }

func (k *lookUp) cycles(c *arch.Chip, out box) int64 {
	rows, n := int64(out.ext(1)*out.ext(2)), int64(out.ext(3)*k.elem)
	if k.home == nil {
		t := rows * ceilDiv(n, c.Scratchpad.ReadBytes.Int())
		return vectorCycles(c, int64(out.ext(2)), t, t)
	}
	const burst = 64 // bytes; a row is bursts of its own
	return dramCycles(c, rows*roundUp(n, burst)) + int64(c.DRAM.LatencyNS.Value*c.ClockMHz.Value/1e3)
}

func (k *lookUp) emit(e *emitter, out box, dst view, src []view) {
	op, table := isa.OpGather, view{}
	if k.home == nil {
		table = src[1]
	} else {
		op, table = isa.OpGatherD, dense(k.home.dram, whole(k.table), k.elem)
	}
	first := dims{0, out.lo[1], 0, out.lo[3]}
	e.emit(op, dst.at(out.lo), table.at(first), src[0].at(k.need(0, out).lo), int64(k.t), int64(k.table[2]),
		int64(out.ext(1)), dst.st[1], table.st[1], int64(out.ext(2)), dst.st[2], src[0].st[2], table.st[2], int64(out.ext(3)*k.elem))
}
