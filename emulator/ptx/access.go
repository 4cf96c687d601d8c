package ptx

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

func first(mask uint32) int { return bits.TrailingZeros32(mask) }

// address fills in the address operand of the instruction.
func (c *compiler) address(o operand) error {
	in := c.in
	if o.kind != opAddr {
		return c.errorf("an address in [ ] is missing")
	}
	base := o.list[0]
	t := types["u64"]
	switch base.kind {
	case opReg:
		if c.regs[base.reg].class == class32 {
			t = types["u32"]
			in.base32 = true
		}
	case opImm:
		// [imm]: all of it is in o.value.
		base.value = 0
	}
	in.imm = o.value
	var err error
	in.a, err = c.src(base, t)
	return err
}

// at returns n bytes at the address of a lane; nil, and the warp has failed,
// if they are not there.
func (w *warp) at(sp space, lane, n int) []byte {
	return w.bytes(sp, lane, w.addr[lane&(lanes-1)], n)
}

func (w *warp) bytes(sp space, lane int, a uint64, n int) []byte {
	if a&uint64(n-1) != 0 {
		w.fault(lane, "address %#x is not a multiple of %d", a, n)
		return nil
	}
	var mem []byte
	off := a
	switch sp {
	case spaceGlobal, spaceConst:
		r := w.worker.hints[w.pc]
		if off = a - r.base; off >= uint64(len(r.data)) {
			r = findRegion(w.worker.launch.regions, a)
			if r == nil {
				w.fault(lane, "address %#x is outside every buffer%s", a, w.worker.launch.nearest(a))
				return nil
			}
			w.worker.hints[w.pc] = r
			off = a - r.base
		}
		mem = r.data
		if off+uint64(n) > uint64(len(mem)) {
			w.fault(lane, "%d bytes at %#x: buffer %s ends after %d", n, a, r.name, uint64(len(mem))-off)
			return nil
		}
	case spaceShared:
		mem = w.worker.shared
	case spaceParam:
		mem = w.worker.launch.params
	case spaceLocal:
		size := len(w.local) / lanes
		mem = w.local[lane*size : (lane+1)*size]
	}
	if off > uint64(len(mem)) || uint64(len(mem))-off < uint64(n) {
		w.fault(lane, "%d bytes at %#x: %s memory has %d", n, a, sp, len(mem))
		return nil
	}
	return mem[off : off+uint64(n) : off+uint64(n)]
}

func (s space) String() string {
	for name, v := range spaceNames {
		if v == s {
			return name
		}
	}
	return "generic"
}

// nearest says which buffer ends before an address, for errors.
func (l *launch) nearest(a uint64) string {
	for _, r := range slices.Backward(l.regions) {
		if r.base <= a {
			return fmt.Sprintf(" (the last one before it, %s, ends at %#x)", r.name, r.base+uint64(len(r.data)))
		}
	}
	return ""
}

// bySpace calls f for each state space that the lanes of a generic access fall
// in, with addresses of that space in w.addr.
func (w *warp) bySpace(in *instr, f func(sp space, mask uint32)) {
	if in.space != spaceGeneric {
		f(in.space, w.mask)
		return
	}
	var shared, local uint32
	for i := range w.addr {
		switch w.addr[i] &^ windowMask {
		case sharedWindow:
			shared |= 1 << i
			w.addr[i] &= windowMask
		case localWindow:
			local |= 1 << i
			w.addr[i] &= windowMask
		}
	}
	for _, part := range []struct {
		sp   space
		mask uint32
	}{{spaceGlobal, w.mask &^ (shared | local)}, {spaceShared, w.mask & shared}, {spaceLocal, w.mask & local}} {
		if part.mask != 0 {
			f(part.sp, part.mask)
		}
	}
}

// selectAccess handles ld and st.
func (c *compiler) selectAccess(op string, mods []string) error {
	in := c.in
	store := op == "st"
	in.kind = kindExec
	if len(mods) == 0 {
		return c.errorf("a type is missing")
	}
	t, ok := types[mods[len(mods)-1]]
	if !ok || t.kind == 'p' {
		return c.errorf("type .%s", mods[len(mods)-1])
	}
	n := 1
	for _, m := range mods[:len(mods)-1] {
		if sp, ok := spaceNames[strings.TrimSuffix(m, "::cta")]; ok {
			in.space = sp
			continue
		}
		switch m {
		case "v2":
			n = 2
		case "v4":
			n = 4
		case "nc", "ca", "wb", "weak", "L2::64B", "L2::128B", "L2::256B",
			"L1::evict_normal", "L1::evict_last", "L1::evict_first", "L1::evict_unchanged":
		case "volatile", "cg", "cs", "lu", "cv", "wt", "relaxed", "acquire", "release", "cta", "gpu", "sys", "L1::no_allocate":
			in.bypass = true
		default:
			return c.errorf("modifier .%s is not modelled", m)
		}
	}
	in.size, in.signed = uint8(t.bits/8), t.kind == 's'
	if n*int(in.size) > 16 {
		return c.errorf("more than 16 bytes")
	}
	in.class = accessClass(in.space, store)
	if store && (in.space == spaceConst || in.space == spaceParam) {
		return c.errorf("%s memory cannot be written", in.space)
	}
	if err := c.count(2, 2); err != nil {
		return err
	}
	value, addr := c.st.args[0], c.st.args[1]
	if store {
		value, addr = addr, value
	}
	values := []operand{value}
	if value.kind == opVec {
		values = value.list
	}
	if len(values) != n {
		return c.errorf("%d values, want %d", len(values), n)
	}
	if err := c.address(addr); err != nil {
		return err
	}
	if a := addr.list[0]; a.kind == opSym && in.space != spaceGeneric && a.sym.space != in.space {
		return c.errorf("%s is not in %s memory", a.name, in.space)
	}
	bits := 32 // of the registers
	for _, v := range values {
		if !store && v.kind == opLabel && v.name == "_" {
			in.xs = append(in.xs, unused)
			continue
		}
		vt := t
		if v.kind == opReg {
			r := c.regs[v.reg]
			if r.class == classPred || r.bits < t.bits {
				return c.errorf("%s is too narrow for %v", v.name, t)
			}
			vt = typ{t.kind, r.bits}
			in.to64 = in.to64 || r.bits == 64
			if in.to64 != (r.bits == 64) {
				return c.errorf("registers of different widths")
			}
		} else if t.bits == 64 {
			in.to64 = true
		}
		var r int32
		var err error
		if store {
			r, err = c.src(v, vt)
		} else {
			r, err = c.dst(v, vt)
			bits = vt.bits
		}
		if err != nil {
			return err
		}
		in.xs = append(in.xs, r)
	}
	if in.space == spaceGlobal || in.space == spaceShared {
		c.sites(1)
	}
	if store {
		in.exec = execStore
		return nil
	}
	c.early = true
	in.exec = execLoad
	if bits < 32 && in.signed {
		// A signed number fills its register, not more.
		cut := uint32(1)<<bits - 1
		in.exec = func(w *warp, in *instr) {
			execLoad(w, in)
			for _, x := range in.xs {
				if x >= 0 {
					map1(&w.r[x], &w.r[x], func(v uint32) uint32 { return v & cut })
				}
			}
		}
	}
	return nil
}

func accessClass(sp space, store bool) Class {
	switch sp {
	case spaceShared:
		if store {
			return SharedStore
		}
		return SharedLoad
	case spaceConst:
		return ConstLoad
	case spaceParam:
		return ParamLoad
	case spaceLocal:
		return LocalAccess
	}
	if store {
		return GlobalStore
	}
	return GlobalLoad
}

// countAccess counts an access of n bytes by each lane of mask.
func (w *warp) countAccess(sp space, mask uint32, n int, store, bypass bool) {
	switch k := w.worker; sp {
	case spaceGlobal:
		if store {
			k.stores(&w.addr, mask, n)
		} else {
			k.loads(&w.addr, mask, n, bypass)
		}
	case spaceShared:
		k.sharedAccess(&w.addr, mask, n, store)
	case spaceConst:
		k.traffic.ConstRequests++
		k.traffic.ConstBytes += int64(n * bits.OnesCount32(mask))
	case spaceLocal:
		k.traffic.LocalRequests++
		k.traffic.LocalBytes += int64(n * bits.OnesCount32(mask))
	}
}

// countShape counts an access of a known shape.
func (w *warp) countShape(in *instr, s *shape, base uint64, store bool) {
	switch k := w.worker; {
	case in.space == spaceShared:
		k.countShared(s.count, s.waves, s.phases, store)
	case store:
		k.storesOf(s, base)
	default:
		k.loadsOf(s, base, in.bypass)
	}
}

func execLoad(w *warp, in *instr) {
	if in.space == spaceParam && in.a < 0 {
		w.loadParam(in)
		return
	}
	n := int(in.size) * len(in.xs)
	if in.site >= 0 {
		if s, mem, base := w.shapeOf(in.site, in.place(), w.mask, n); s != nil {
			if in.to64 {
				for m := w.mask; m != 0; m &= m - 1 {
					i := first(m)
					w.put(in, i, s.lane(mem, i))
				}
			} else {
				for j, x := range in.xs {
					if x >= 0 {
						s.load(&w.r[x], mem, j*int(in.size), in.size, in.signed)
					}
				}
			}
			w.countShape(in, s, base, false)
			return
		}
	}
	w.locate(in.place())
	w.bySpace(in, func(sp space, mask uint32) {
		for m := mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			b := w.at(sp, i, n)
			if b == nil {
				return
			}
			w.put(in, i, b)
		}
		w.countAccess(sp, mask, n, false, in.bypass)
	})
}

// loadParam reads a parameter at a fixed place, the same for all lanes.
func (w *warp) loadParam(in *instr) {
	w.addr[0] = w.r64(in.a)[0] + uint64(in.imm)
	b := w.bytes(spaceParam, 0, w.addr[0], int(in.size)*len(in.xs))
	if b == nil {
		return
	}
	if in.size == 8 && len(in.xs) == 1 && in.xs[0] >= 0 && w.mask == full {
		v, d := binary.LittleEndian.Uint64(b), &w.q[in.xs[0]]
		for i := range d {
			d[i] = v
		}
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		w.put(in, first(m)&(lanes-1), b)
	}
}

// put writes the elements in b to the registers of a lane.
func (w *warp) put(in *instr, lane int, b []byte) {
	if in.size == 4 && !in.to64 {
		for j, x := range in.xs {
			if x >= 0 {
				w.r[x][lane] = binary.LittleEndian.Uint32(b[4*j:])
			}
		}
		return
	}
	for j, x := range in.xs {
		if x < 0 {
			continue
		}
		var v uint64
		switch e := b[j*int(in.size):]; in.size {
		case 1:
			v = uint64(e[0])
			if in.signed {
				v = uint64(int8(e[0]))
			}
		case 2:
			v = uint64(binary.LittleEndian.Uint16(e))
			if in.signed {
				v = uint64(int16(v))
			}
		case 4:
			v = uint64(binary.LittleEndian.Uint32(e))
			if in.signed {
				v = uint64(int32(v))
			}
		case 8:
			v = binary.LittleEndian.Uint64(e)
		}
		if in.to64 {
			w.q[x][lane] = v
		} else {
			w.r[x][lane] = uint32(v)
		}
	}
}

func execStore(w *warp, in *instr) {
	n := int(in.size) * len(in.xs)
	if in.site >= 0 {
		if s, mem, base := w.shapeOf(in.site, in.place(), w.mask, n); s != nil {
			if in.to64 {
				for m := w.mask; m != 0; m &= m - 1 {
					i := first(m)
					w.get(in, i, s.lane(mem, i))
				}
			} else {
				for j, x := range in.xs {
					s.store(w.r32(x), mem, j*int(in.size), in.size)
				}
			}
			w.countShape(in, s, base, true)
			return
		}
	}
	w.locate(in.place())
	w.bySpace(in, func(sp space, mask uint32) {
		for m := mask; m != 0; m &= m - 1 {
			i := first(m) & (lanes - 1)
			b := w.at(sp, i, n)
			if b == nil {
				return
			}
			w.get(in, i, b)
		}
		w.countAccess(sp, mask, n, true, in.bypass)
	})
}

// get reads the registers of a lane to b.
func (w *warp) get(in *instr, lane int, b []byte) {
	for j, x := range in.xs {
		var v uint64
		if in.to64 {
			v = w.r64(x)[lane]
		} else {
			v = uint64(w.r32(x)[lane])
		}
		switch e := b[j*int(in.size):]; in.size {
		case 1:
			e[0] = byte(v)
		case 2:
			binary.LittleEndian.PutUint16(e, uint16(v))
		case 4:
			binary.LittleEndian.PutUint32(e, uint32(v))
		case 8:
			binary.LittleEndian.PutUint64(e, v)
		}
	}
}
