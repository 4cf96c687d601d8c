package ptx

import (
	"math/bits"
	"slices"
)

// An asyncCopy is a cp.async of a warp that has not arrived. The source is read
// when the instruction is issued, the destination written only when the warp
// waits for the group: a kernel that reads too early reads old bytes here, as
// it may on a device.
type asyncCopy struct {
	mask uint32
	size uint8
	to   [lanes]uint32
	data [lanes][16]byte
}

// maxCopies bounds the copies of a warp that are under way.
const maxCopies = 1 << 12

// selectCopy handles cp.async and its groups.
func (c *compiler) selectCopy(mods []string) error {
	in := c.in
	in.class, in.kind = AsyncCopy, kindExec
	if len(mods) < 2 || mods[0] != "async" {
		return c.errorf("this copy is not modelled")
	}
	switch mods[1] {
	case "commit_group":
		in.exec = func(w *warp, in *instr) {
			if w.whole() {
				w.groups = append(w.groups, len(w.copies))
				if len(w.groups) > maxCopies {
					w.fault(-1, "more than %d groups of copies under way", maxCopies)
				}
			}
		}
		return c.count(0, 0)
	case "wait_all":
		in.exec = func(w *warp, in *instr) {
			if w.whole() {
				w.groups = w.groups[:0]
				w.arrive(len(w.copies))
			}
		}
		return c.count(0, 0)
	case "wait_group":
		if err := c.count(1, 1); err != nil {
			return err
		}
		o := c.st.args[0]
		if o.kind != opImm || o.value < 0 {
			return c.errorf("the number of groups must be a constant")
		}
		in.imm = min(o.value, maxCopies)
		in.exec = func(w *warp, in *instr) {
			if n := len(w.groups) - int(in.imm); w.whole() && n > 0 {
				done := w.groups[n-1]
				w.groups = slices.Delete(w.groups, 0, n)
				w.arrive(done)
			}
		}
		return nil
	case "ca":
	case "cg":
		in.bypass = true
	default:
		return c.errorf("this copy is not modelled")
	}
	if rest := mods[2:]; len(rest) < 2 || rest[0] != "shared" && rest[0] != "shared::cta" || rest[1] != "global" {
		return c.errorf("only from global to shared memory")
	}
	for _, m := range mods[4:] {
		switch m {
		case "L2::64B", "L2::128B", "L2::256B":
		default:
			return c.errorf("modifier .%s is not modelled", m)
		}
	}
	return c.selectCopyOperands()
}

// selectCopyOperands handles cp.async [dst], [src], size{, bytes}.
func (c *compiler) selectCopyOperands() error {
	in := c.in
	if err := c.count(3, 4); err != nil {
		return err
	}
	a := c.st.args
	size := a[2]
	if size.kind != opImm || size.value != 4 && size.value != 8 && size.value != 16 || in.bypass && size.value != 16 {
		return c.errorf("a copy has 4, 8 or 16 bytes, with .cg always 16")
	}
	in.size = uint8(size.value)
	// The source is the address of the instruction, the register of the destination
	// is in xs.
	if err := c.address(a[0]); err != nil {
		return err
	}
	dst := place{spaceShared, in.a, in.base32, uint64(in.imm)}
	in.space, in.base32 = spaceGlobal, false
	if err := c.address(a[1]); err != nil {
		return err
	}
	in.xs = []int32{dst.a}
	in.b = unused
	c.sites(2) // source and destination
	partial := len(a) == 4
	if partial {
		var err error
		if in.b, err = c.src(a[3], types["u32"]); err != nil {
			return err
		}
	}
	in.exec = func(w *warp, in *instr) {
		to := dst
		to.a = in.xs[0]
		w.copy(in, to, partial)
	}
	return nil
}

// whole fails unless the whole warp, as far as it has not ended, is here.
func (w *warp) whole() bool {
	if w.mask != w.live {
		w.fault(-1, "%d of %d threads of a warp are here", bits.OnesCount32(w.mask), bits.OnesCount32(w.live))
		return false
	}
	return true
}

// copy issues a cp.async: lane by lane, so many bytes are read as partial
// says and the rest is zero.
func (w *warp) copy(in *instr, to place, partial bool) {
	if len(w.copies)-w.arrived >= maxCopies {
		w.fault(-1, "more than %d copies under way", maxCopies)
		return
	}
	n := len(w.copies)
	if n < cap(w.copies) {
		w.copies = w.copies[:n+1]
	} else {
		w.copies = append(w.copies, asyncCopy{})
	}
	cp := &w.copies[n]
	size := int(in.size)
	cp.mask, cp.size = w.mask, in.size
	k := w.worker
	k.traffic.AsyncCopies++
	k.traffic.AsyncBytes += int64(size * bits.OnesCount32(w.mask))
	s, _, base := w.shapeOf(in.site+1, to, w.mask, size)
	if s != nil {
		low := uint32(base + uint64(s.low))
		for i, at := range s.at {
			cp.to[i] = low + at
		}
		k.countShared(s.count, s.waves, s.phases, true)
	} else if !w.target(cp, to, size) {
		return
	}
	reads, whole := w.mask, true
	if partial {
		for m := w.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			switch w.wanted(in, i, partial) {
			case 0:
				reads &^= 1 << i
				cp.data[i] = [16]byte{}
			case size:
			default:
				whole = false
			}
		}
		if reads == 0 {
			return
		}
	}
	if whole {
		if s, mem, base := w.shapeOf(in.site, in.place(), reads, size); s != nil {
			for m := reads; m != 0; m &= m - 1 {
				i := first(m) & (lanes - 1)
				if size == 16 {
					cp.data[i] = *(*[16]byte)(mem[s.at[i]:])
				} else {
					copy(cp.data[i][:], s.lane(mem, i))
				}
			}
			k.loadsOf(s, base, in.bypass)
			return
		}
	}
	w.locate(in.place())
	for m := reads; m != 0; m &= m - 1 {
		i := first(m) & (lanes - 1)
		d := &cp.data[i]
		var b []byte
		if want := w.wanted(in, i, partial); want == size {
			b = w.at(spaceGlobal, i, size)
		} else {
			b = w.source(i, want, size)
			*d = [16]byte{}
		}
		if b == nil {
			return
		}
		copy(d[:], b)
	}
	k.loads(&w.addr, reads, size, in.bypass)
}

// target finds where the lanes of a copy go that is not all in memory or not all aligned,
// or says what is wrong.
func (w *warp) target(cp *asyncCopy, to place, size int) bool {
	w.locate(to)
	for m := w.mask; m != 0; m &= m - 1 {
		i := first(m) & (lanes - 1)
		if w.at(spaceShared, i, size) == nil {
			return false
		}
		cp.to[i] = uint32(w.addr[i])
	}
	w.worker.sharedAccess(&w.addr, w.mask, size, true)
	return true
}

// wanted is how many bytes a lane reads.
func (w *warp) wanted(in *instr, lane int, partial bool) int {
	if !partial {
		return int(in.size)
	}
	return int(min(w.r32(in.b)[lane], uint32(in.size)))
}

// source returns the bytes a lane reads; its address is aligned to the size of
// the copy even if it reads less.
func (w *warp) source(lane, want, size int) []byte {
	a := w.addr[lane]
	if a&uint64(size-1) != 0 {
		w.fault(lane, "address %#x is not a multiple of %d", a, size)
		return nil
	}
	r := findRegion(w.worker.launch.regions, a)
	if r == nil || a-r.base+uint64(want) > uint64(len(r.data)) {
		w.fault(lane, "%d bytes at %#x are outside every buffer%s", want, a, w.worker.launch.nearest(a))
		return nil
	}
	return r.data[a-r.base:][:want]
}

// arrive completes the copies before the n-th. Their places are free again once
// they are many, or all.
func (w *warp) arrive(n int) {
	for j := range w.copies[w.arrived:n] {
		cp := &w.copies[w.arrived+j]
		for m := cp.mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			if to := w.worker.shared[cp.to[i]:]; int(cp.size) == len(cp.data[i]) {
				*(*[16]byte)(to) = cp.data[i]
			} else {
				copy(to, cp.data[i][:cp.size])
			}
		}
	}
	w.arrived = max(w.arrived, n)
	if w.arrived == len(w.copies) || w.arrived >= manyArrived {
		w.copies = w.copies[:copy(w.copies, w.copies[w.arrived:])]
		for i := range w.groups {
			w.groups[i] -= w.arrived
		}
		w.arrived = 0
	}
}

const manyArrived = 64
