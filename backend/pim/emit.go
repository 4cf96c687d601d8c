package pim

import (
	"encoding/binary"
	"math"

	"situ/arch"
	"situ/backend/pim/isa"
)

// emitter writes the instruction streams.
type emitter struct {
	chip    *arch.Chip
	streams []isa.Stream
	cluster int   // whose stream is being written
	layer   int32 // that instructions belong to, −1 for none
	params  int64 // scratchpad address of the constants of the step at hand
	args    []int64
	count   int     // instructions so far
	half    []int64 // of each cluster: accumulator half that is free next
	ring    []ring  // of each cluster: weight SRAM for streamed weights
	written []int64 // of each cluster: half of the weight SRAM for activations that is next
	direct  bool    // the second operand of the product at hand is read from DRAM
	chunk   int     // which chunk of columns a product emits, −1 for all
}

// maxInsts bounds a program, so that an absurd model gives an error and does not
// fill the memory.
const maxInsts = 1 << 22

// tooLong is what emit panics with; generate turns it into an error.
type tooLong struct{}

// emit appends one instruction to the stream of the cluster at hand.
func (e *emitter) emit(op isa.Op, args ...int64) {
	if e.count++; e.count > maxInsts {
		panic(tooLong{})
	}
	if cap(e.args)-len(e.args) < len(args) {
		e.args = make([]int64, 0, max(4096, len(args)))
	}
	n := len(e.args)
	e.args = append(e.args, args...)
	s := &e.streams[e.cluster]
	s.Insts = append(s.Insts, isa.Inst{Op: op, Args: e.args[n:len(e.args):len(e.args)]})
	s.Layer = append(s.Layer, e.layer)
}

// transfer emits load, store or send instructions that copy box b between two
// views of the same element size; tail holds the operands after len.
func (e *emitter) transfer(op isa.Op, b box, dst, src view, elem int, tail ...int64) {
	to, from := dst.at(b.lo), src.at(b.lo)
	el := int64(elem)
	runs(b.dims(), [3][4]int64{dst.st, src.st}, [3]int64{el, el}, 2, 2, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
		args := make([]int64, 0, 16)
		args = append(args, to+off[0], from+off[1], l[0].n, l[0].st[0], l[0].st[1], l[1].n, l[1].st[0], l[1].st[1], n*el)
		e.emit(op, append(args, tail...)...)
	})
}

// copyBox emits a copy within the scratchpad.
func (e *emitter) copyBox(ext dims, to, from int64, dst, src [4]int64, elem int) {
	el := int64(elem)
	runs(ext, [3][4]int64{dst, src}, [3]int64{el, el}, 2, 3, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
		e.emit(isa.OpCopy, to+off[0], from+off[1],
			l[0].n, l[0].st[0], l[0].st[1], l[1].n, l[1].st[0], l[1].st[1], l[2].n, l[2].st[0], l[2].st[1], n*el)
	})
}

// fillBox writes one byte value over box b of a view.
func (e *emitter) fillBox(b box, v view, elem int, value int64) {
	if b.empty() {
		return
	}
	to, el := v.at(b.lo), int64(elem)
	runs(b.dims(), [3][4]int64{v.st}, [3]int64{el}, 1, 2, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
		e.emit(isa.OpFill, to+off[0], l[0].n, l[0].st[0], l[1].n, l[1].st[0], n*el, value)
	})
}

func negate(d dims) dims {
	for i := range d {
		d[i] = -d[i]
	}
	return d
}

func f32bits(f float32) int64 { return int64(math.Float32bits(f)) }

// int32s appends values little endian.
func int32s(b []byte, v ...int32) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}
