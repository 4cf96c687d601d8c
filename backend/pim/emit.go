package pim

import (
	"encoding/binary"
	"math"
	"slices"

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
	args    arena
	phases  [2][]isa.Stream // memory of the streams of init and main
	count   int             // instructions so far
	half    []int64         // of each cluster: accumulator half that is free next
	ring    []ring          // of each cluster: weight SRAM for streamed weights
	written []int64         // of each cluster: half of the weight SRAM for activations that is next
	turns   [][]turn        // of each cluster: address registers that go round
	direct  bool            // the second operand of the product at hand is read from DRAM
	chunk   int             // which chunk of columns a product emits, −1 for all
	before  emittedStep
	src     []view // of the operands of the step at hand
	used    []bool // of each layer of each round: it has instructions
	layers  int    // of a round
	round   int    // of the batch, that is being written
}

// maxInsts bounds a program, so that an absurd model gives an error and does not
// fill the memory.
const maxInsts = 1 << 22

// tooLong is what emit panics with; generate turns it into an error.
type tooLong struct{}

// emit appends one instruction to the stream of the cluster at hand and returns its
// operands.
func (e *emitter) emit(op isa.Op, args ...int64) []int64 {
	if e.count++; e.count > maxInsts {
		panic(tooLong{})
	}
	s := e.stream()
	kept := e.args.keep(args)
	s.Insts = append(s.Insts, isa.Inst{Op: op, Args: kept})
	e.inLayer(s, 1)
	return kept
}

// again appends instructions that have been emitted before to the stream of the
// cluster at hand.
func (e *emitter) again(insts []isa.Inst) {
	if e.count += len(insts); e.count > maxInsts {
		panic(tooLong{})
	}
	s := e.stream()
	s.Insts = append(s.Insts, insts...)
	e.inLayer(s, len(insts))
}

// inLayer says of the next n instructions of a stream that they are of the layer at
// hand.
func (e *emitter) inLayer(s *isa.Stream, n int) {
	for range n {
		s.Layer = append(s.Layer, e.layerOf())
	}
	if e.layer >= 0 {
		e.used[e.layerOf()] = true
	}
}

// layerOf returns the layer at hand of the round at hand.
func (e *emitter) layerOf() int32 {
	if e.layer < 0 {
		return e.layer
	}
	return e.layer + int32(e.round*e.layers)
}

// arena keeps operands of instructions in few pieces of memory.
type arena struct {
	pieces [][]int64
	at     int // the piece that is being filled
}

// keep returns a copy of operands.
func (a *arena) keep(args []int64) []int64 {
	for ; a.at < len(a.pieces); a.at++ {
		if b := a.pieces[a.at]; cap(b)-len(b) >= len(args) {
			break
		}
	}
	if a.at == len(a.pieces) {
		a.pieces = append(a.pieces, make([]int64, 0, max(4096, len(args))))
	}
	b := a.pieces[a.at]
	n := len(b)
	b = append(b, args...)
	a.pieces[a.at] = b
	return b[n:len(b):len(b)]
}

// reset gives the memory to other operands.
func (a *arena) reset() {
	for i := range a.pieces {
		a.pieces[i] = a.pieces[i][:0]
	}
	a.at = 0
}

// mostKept is of how many instructions the memory is kept for the next plan's.
const mostKept = 1 << 18

// reset makes e ready for the streams of a plan, in the memory of those before.
func (e *emitter) reset(p *plan) {
	if e.count > mostKept {
		*e = emitter{}
	}
	e.args.reset()
	*e = emitter{
		chip: p.chip, args: e.args, phases: e.phases, half: zeroed(e.half, p.clusters), ring: slices.Grow(e.ring[:0], p.clusters)[:p.clusters],
		written: zeroed(e.written, p.clusters), turns: slices.Grow(e.turns[:0], p.clusters)[:p.clusters], chunk: -1, layer: -1, src: e.src, used: slices.Grow(e.used[:0], len(p.layers)*len(p.rounds))[:len(p.layers)*len(p.rounds)], layers: len(p.layers),
	}
	clear(e.used)
	for j := range e.ring {
		e.ring[j] = ring{base: p.ringBase, end: p.ringEnd, held: e.ring[j].held[:0]}
		e.turns[j] = e.turns[j][:0]
	}
}

// begin returns the streams of a phase, which are written from now on.
func (e *emitter) begin(phase int) []isa.Stream {
	e.streams = emptied(e.phases[phase], len(e.half))
	e.phases[phase] = e.streams
	return e.streams
}

// emptied returns n streams without instructions, in the memory of others.
func emptied(streams []isa.Stream, n int) []isa.Stream {
	streams = slices.Grow(streams[:0], n)[:n]
	for j := range streams {
		s := &streams[j]
		s.Insts, s.Layer = s.Insts[:0], s.Layer[:0]
	}
	return streams
}

// stream returns the stream of the cluster at hand.
func (e *emitter) stream() *isa.Stream { return &e.streams[e.cluster] }

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
