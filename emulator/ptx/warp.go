package ptx

import (
	"fmt"
	"math/bits"
)

// A frame is a set of lanes that will run from pc until they reach rpc.
type frame struct {
	pc, rpc int32
	mask    uint32
}

// A state says what a warp does next.
type state uint8

const (
	ready state = iota
	waiting
	done
)

// A warp is 32 threads in lock step. Where a branch sends them to different
// sides, the sides run one after the other, each with its lanes masked in, and
// meet where the branch's immediate post-dominator begins.
type warp struct {
	r [][lanes]uint32 // 32-bit registers
	q [][lanes]uint64 // 64-bit registers
	p []uint32        // predicates, a bit for each lane

	worker *worker
	code   []instr
	c32    [][lanes]uint32 // constants, shared by all warps of a launch
	c64    [][lanes]uint64

	pc, rpc int32
	active  uint32  // lanes that run
	live    uint32  // lanes that have not ended
	mask    uint32  // active lanes whose guard holds
	stack   []frame // what runs when active is done

	out32 l32 // where kindExec32 writes
	out64 l64
	t32   [lanes]uint32 // results of partial warps, before blending
	t64   [lanes]uint64
	addr  [lanes]uint64

	index   int // in the block
	local   []byte
	copies  []asyncCopy
	arrived int   // copies of these that have arrived
	groups  []int // copies up to each committed group
	state   state
	barrier int32
	err     error
}

func (w *warp) r32(i int32) l32 {
	if i < 0 {
		return &w.c32[^i]
	}
	return &w.r[i]
}

func (w *warp) r64(i int32) l64 {
	if i < 0 {
		return &w.c64[^i]
	}
	return &w.q[i]
}

// pred returns a predicate of all lanes.
func (w *warp) pred(i int32) uint32 {
	switch {
	case i >= 0:
		return w.p[i]
	case i == unused:
		return 0
	}
	return full
}

// setPred writes the lanes of w.mask.
func (w *warp) setPred(i int32, v uint32) {
	if i >= 0 {
		w.p[i] = w.p[i]&^w.mask | v&w.mask
	}
}

// blend32 and blend64 copy the lanes of a mask.
func blend32(d, s l32, mask uint32) { select32(d, s, d, mask) }
func blend64(d, s l64, mask uint32) { select64(d, s, d, mask) }

// fault stops the warp with an error at the running instruction.
func (w *warp) fault(lane int, format string, args ...any) {
	if w.err != nil {
		return
	}
	in := &w.code[w.pc]
	l := w.worker.launch
	where := fmt.Sprintf("block %v", w.worker.block)
	if lane >= 0 {
		t := w.index*lanes + lane
		b := l.cfg.Block
		where += fmt.Sprintf(" thread %v", [3]int{t % b[0], t / b[0] % b[1], t / (b[0] * b[1])})
	}
	w.err = fmt.Errorf("%s:%d: %s in %s, %s: %w", l.module.Name, in.line, in.name, l.kernel.name, where, fmt.Errorf(format, args...))
}

// run executes up to budget instructions and returns how many it did.
func (w *warp) run(budget int) int {
	counts := w.worker.counts
	for n := 0; n < budget; n++ {
		if w.pc == w.rpc && !w.pop() {
			return n
		}
		in := &w.code[w.pc]
		mask := w.active
		if in.guard >= 0 && in.kind != kindBranch {
			mask &= w.p[in.guard] ^ in.guardNeg
		}
		w.mask = mask
		count := &counts[w.pc]
		count.warps++
		count.threads += uint64(bits.OnesCount32(mask))
		switch in.kind {
		case kindF32:
			if mask == full {
				in.f32(&w.r[in.d], w.r32(in.a), w.r32(in.b), w.r32(in.c))
			} else if mask != 0 {
				in.f32(&w.t32, w.r32(in.a), w.r32(in.b), w.r32(in.c))
				blend32(&w.r[in.d], &w.t32, mask)
			}
		case kindF64:
			if mask == full {
				in.f64(&w.q[in.d], w.r64(in.a), w.r64(in.b), w.r64(in.c))
			} else if mask != 0 {
				in.f64(&w.t64, w.r64(in.a), w.r64(in.b), w.r64(in.c))
				blend64(&w.q[in.d], &w.t64, mask)
			}
		case kindExec32:
			if mask == full {
				w.out32 = &w.r[in.d]
				in.exec(w, in)
			} else if mask != 0 {
				w.out32 = &w.t32
				in.exec(w, in)
				blend32(&w.r[in.d], &w.t32, mask)
			}
		case kindExec64:
			if mask == full {
				w.out64 = &w.q[in.d]
				in.exec(w, in)
			} else if mask != 0 {
				w.out64 = &w.t64
				in.exec(w, in)
				blend64(&w.q[in.d], &w.t64, mask)
			}
		case kindExec:
			if mask != 0 {
				in.exec(w, in)
				if w.err != nil {
					return n
				}
			}
		case kindBranch:
			w.branch(in)
			continue
		case kindExit:
			w.live &^= mask
			w.active &^= mask
			if w.active == 0 {
				if !w.pop() {
					return n + 1
				}
				continue
			}
		case kindBarrier:
			if mask != 0 {
				if mask != w.live {
					w.fault(-1, "%d of %d threads of a warp reach the barrier", bits.OnesCount32(mask), bits.OnesCount32(w.live))
					return n
				}
				w.state, w.barrier = waiting, int32(in.imm)
				w.pc++
				return n + 1
			}
		}
		w.pc++
	}
	return budget
}

// pop takes the next frame with lanes that have not ended; without one the
// warp is done.
func (w *warp) pop() bool {
	for n := len(w.stack) - 1; n >= 0; n-- {
		f := w.stack[n]
		w.stack = w.stack[:n]
		if f.mask &= w.live; f.mask != 0 {
			w.pc, w.rpc, w.active = f.pc, f.rpc, f.mask
			if w.pc == w.rpc {
				continue
			}
			return true
		}
	}
	w.state = done
	return false
}

// branch sends the active lanes where their guards say.
func (w *warp) branch(in *instr) {
	taken := w.active
	if in.guard >= 0 {
		taken &= w.p[in.guard] ^ in.guardNeg
	}
	next := w.pc + 1
	switch taken {
	case w.active:
		w.pc = in.target
		return
	case 0:
		w.pc = next
		return
	}
	w.worker.divergent++
	if in.rpc != w.rpc && in.rpc != noReconverge {
		w.stack = append(w.stack, frame{in.rpc, w.rpc, w.active})
	}
	rest := w.active &^ taken
	// A side that begins where the two meet just waits there.
	switch in.rpc {
	case in.target:
		w.pc, w.active = next, rest
	case next:
		w.pc, w.active = in.target, taken
	default:
		w.stack = append(w.stack, frame{in.target, in.rpc, taken})
		w.pc, w.active = next, rest
	}
	w.rpc = in.rpc
}
