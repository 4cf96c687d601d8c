package ptx

import (
	"encoding/binary"
	"strings"
)

// selectAtomic handles atom and red. The lanes of a warp take their turns in
// order; which of two blocks comes first is open, as on a device.
func (c *compiler) selectAtomic(op string, mods []string) error {
	in := c.in
	in.class, in.kind = Atomic, kindExec
	if len(mods) < 2 {
		return c.errorf("an operation and a type are missing")
	}
	t, ok := types[mods[len(mods)-1]]
	name := mods[len(mods)-2]
	if !ok || t.bits < 32 {
		return c.errorf("type .%s is not modelled", mods[len(mods)-1])
	}
	for _, m := range mods[:len(mods)-2] {
		switch strings.TrimSuffix(m, "::cta") {
		case "global":
			in.space = spaceGlobal
		case "shared":
			in.space = spaceShared
		case "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys":
		default:
			return c.errorf("modifier .%s is not modelled", m)
		}
	}
	f := atomicOp(name, t)
	if f == nil {
		return c.errorf("atomic .%s of %v is not modelled", name, t)
	}
	n := 2
	if name == "cas" {
		n = 3
	}
	a := c.st.args
	if op == "atom" {
		n++
	}
	if err := c.count(n, n); err != nil {
		return err
	}
	in.size, in.to64 = uint8(t.bits/8), t.bits == 64
	var err error
	if op == "atom" {
		if !(a[0].kind == opLabel && a[0].name == "_") {
			if in.d, err = c.dst(a[0], t); err != nil {
				return err
			}
		}
		a = a[1:]
	}
	if err := c.address(a[0]); err != nil {
		return err
	}
	if in.b, err = c.src(a[1], t); err != nil {
		return err
	}
	if name == "cas" {
		if in.c, err = c.src(a[2], t); err != nil {
			return err
		}
	}
	c.early = true
	in.exec = func(w *warp, in *instr) {
		w.locate(in.place())
		w.bySpace(in, func(sp space, mask uint32) {
			if sp == spaceLocal {
				w.fault(first(mask), "atomic operation on local memory")
				return
			}
			if sp == spaceGlobal {
				w.worker.launch.cfg.Memory.atomics.Lock()
				defer w.worker.launch.cfg.Memory.atomics.Unlock()
			}
			for m := mask; m != 0; m &= m - 1 {
				if !w.atomic(in, sp, first(m)&(lanes-1), f) {
					return
				}
			}
			if sp == spaceGlobal {
				w.worker.atomics(&w.addr, mask, int(in.size))
			} else {
				w.worker.sharedAccess(&w.addr, mask, int(in.size), true)
			}
		})
	}
	return nil
}

// atomic does the operation of one lane.
func (w *warp) atomic(in *instr, sp space, lane int, f func(old, x, y uint64) uint64) bool {
	b := w.at(sp, lane, int(in.size))
	if b == nil {
		return false
	}
	if in.to64 {
		old := binary.LittleEndian.Uint64(b)
		binary.LittleEndian.PutUint64(b, f(old, w.r64(in.b)[lane], w.r64(in.c)[lane]))
		if in.d >= 0 {
			w.q[in.d][lane] = old
		}
		return true
	}
	old := binary.LittleEndian.Uint32(b)
	binary.LittleEndian.PutUint32(b, uint32(f(uint64(old), uint64(w.r32(in.b)[lane]), uint64(w.r32(in.c)[lane]))))
	if in.d >= 0 {
		w.r[in.d][lane] = old
	}
	return true
}

// atomicOp returns the operation on words of type t, or nil.
func atomicOp(name string, t typ) func(old, x, y uint64) uint64 {
	signed := func(x uint64) int64 {
		if t.bits == 32 {
			return int64(int32(x))
		}
		return int64(x)
	}
	switch name + "." + string(t.kind) {
	case "add.u", "add.s":
		return func(old, x, _ uint64) uint64 { return old + x }
	case "add.f":
		if t.bits == 64 {
			return func(old, x, _ uint64) uint64 { return b64(f64(old) + f64(x)) }
		}
		return func(old, x, _ uint64) uint64 { return uint64(nan32(f32(uint32(old)) + f32(uint32(x)))) }
	case "min.u":
		return func(old, x, _ uint64) uint64 { return min(old, x) }
	case "max.u":
		return func(old, x, _ uint64) uint64 { return max(old, x) }
	case "min.s":
		return func(old, x, _ uint64) uint64 { return uint64(min(signed(old), signed(x))) }
	case "max.s":
		return func(old, x, _ uint64) uint64 { return uint64(max(signed(old), signed(x))) }
	case "and.b":
		return func(old, x, _ uint64) uint64 { return old & x }
	case "or.b":
		return func(old, x, _ uint64) uint64 { return old | x }
	case "xor.b":
		return func(old, x, _ uint64) uint64 { return old ^ x }
	case "exch.b":
		return func(_, x, _ uint64) uint64 { return x }
	case "cas.b":
		return func(old, x, y uint64) uint64 {
			if old == x {
				return y
			}
			return old
		}
	}
	return nil
}
