// Package sequence walks a cluster's instruction stream as its sequencer does:
// it executes loops and address registers and yields the other instructions
// with their addresses resolved. The functional core and the timing model each
// walk the streams with it.
package sequence

import (
	"fmt"

	"situ/backend/pim/isa"
)

// Cursor is a position in a stream. A new one stands before the first
// instruction with all registers zero.
type Cursor struct {
	stream *isa.Stream
	pc     int
	regs   [isa.NumRegs]int64
	loops  []loop
	args   [maxOperands]int64
}

type loop struct {
	body int // index of the first instruction
	left int64
}

// maxOperands bounds the operands of an instruction.
const maxOperands = 40

// Step is one instruction to execute.
type Step struct {
	Op    isa.Op
	Index int     // in the stream
	Layer int32   // −1 for none
	Args  []int64 // addresses resolved; valid until the next step
	Plain bool    // no address is indexed: Args are those of the stream
}

// Start puts the cursor before the first instruction of a valid stream, which
// must not change while it is walked. Registers keep their values.
func (c *Cursor) Start(s *isa.Stream) { c.stream, c.pc, c.loops = s, 0, c.loops[:0] }

// Reset makes all registers zero.
func (c *Cursor) Reset() { c.regs = [isa.NumRegs]int64{} }

// Next moves to the next instruction and reports false at the end of the
// stream. Loops and register operations are executed and yielded as well,
// because they take a sequencer's time; halt ends the stream. The error is that
// of an address that is negative or too large.
func (c *Cursor) Next(st *Step) (bool, error) {
	if c.pc >= len(c.stream.Insts) {
		return false, nil
	}
	in := &c.stream.Insts[c.pc]
	st.Op, st.Index, st.Layer, st.Args, st.Plain = in.Op, c.pc, c.stream.Layer[c.pc], in.Args, true
	c.pc++
	switch in.Op {
	case isa.OpHalt:
		c.pc = len(c.stream.Insts)
		return false, nil
	case isa.OpLoop:
		c.loops = append(c.loops, loop{c.pc, in.Args[isa.LoopCount]})
	case isa.OpNext:
		top := &c.loops[len(c.loops)-1]
		if top.left--; top.left > 0 {
			c.pc = top.body
		} else {
			c.loops = c.loops[:len(c.loops)-1]
		}
	case isa.OpSet:
		c.regs[in.Args[isa.SetReg]] = in.Args[isa.SetImm]
	case isa.OpAddi:
		c.regs[in.Args[isa.AddiReg]] += in.Args[isa.AddiImm]
	case isa.OpWrap:
		r := &c.regs[in.Args[isa.WrapReg]]
		*r = (*r + in.Args[isa.WrapImm]) % in.Args[isa.WrapSize]
	default:
		return true, c.resolve(st)
	}
	return true, nil
}

// resolve replaces indexed addresses by plain ones, in a copy.
func (c *Cursor) resolve(st *Step) error {
	for _, i := range addresses[st.Op] {
		imm, reg := isa.SplitAddr(st.Args[i])
		if reg == 0 {
			continue
		}
		if st.Plain {
			st.Args = c.args[:copy(c.args[:], st.Args)]
			st.Plain = false
		}
		x := imm + c.regs[reg]
		if x < 0 || x >= 1<<48 {
			return fmt.Errorf("address %s = %d + r%d is %d", st.Op.Info().Operands[i].Name, imm, reg, x)
		}
		st.Args[i] = x
	}
	return nil
}

// addresses lists the address operands of each opcode.
var addresses = func() (list [isa.NumOps][]int) {
	for op := isa.OpInvalid + 1; op.Known(); op++ {
		for i, o := range op.Info().Operands {
			switch o.Kind {
			case isa.KSP, isa.KAcc, isa.KWS, isa.KDRAM:
				list[op] = append(list[op], i)
			}
		}
	}
	return list
}()
