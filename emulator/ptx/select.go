package ptx

import (
	"slices"
	"strings"
)

// sel fills in c.in from c.st.
func (c *compiler) sel() error {
	op := c.st.op
	a, ok := alus[op]
	if !ok {
		a, ok = floatALU(op)
	}
	if ok && !c.onPredicates() && !c.packs() {
		return c.selectALU(a)
	}
	parts := strings.Split(op, ".")
	mods := parts[1:]
	switch parts[0] {
	case "and", "or", "xor", "not", "mov":
		switch {
		case len(mods) == 1 && mods[0] == "pred":
			return c.selectPredicate(parts[0])
		case parts[0] == "mov" && c.packs():
			return c.selectPack(mods)
		}
	case "setp", "set":
		return c.selectSetp(parts[0], mods)
	case "selp":
		return c.selectSelp(mods)
	case "cvt":
		return c.selectConvert(mods)
	case "cvta":
		return c.selectAddress(mods)
	case "bfi":
		return c.selectInsert(mods)
	case "ld", "ldu":
		return c.selectAccess(parts[0], mods)
	case "st":
		return c.selectAccess(parts[0], mods)
	case "atom", "red":
		return c.selectAtomic(parts[0], mods)
	case "cp":
		return c.selectCopy(mods)
	case "prefetch", "prefetchu", "applypriority", "discard":
		return c.errorf("cache hints are not modelled")
	case "ldmatrix":
		return c.selectMatrix(mods)
	case "mma":
		return c.selectMMA(mods)
	case "shfl":
		return c.selectShuffle(mods)
	case "vote":
		return c.selectVote(mods)
	case "activemask":
		return c.selectActive(mods)
	case "bar", "barrier":
		return c.selectBarrier(parts[0], mods)
	case "membar", "fence":
		c.in.kind, c.in.class = kindExec, Barrier
		c.in.exec = func(*warp, *instr) {}
		return c.count(0, 0)
	case "bra":
		return c.selectBranch(mods)
	case "ret", "exit":
		if len(mods) > 0 && !(len(mods) == 1 && mods[0] == "uni") {
			return c.errorf("modifier .%s is not modelled", strings.Join(mods, "."))
		}
		c.in.kind, c.in.class = kindExit, Control
		return c.count(0, 0)
	case "trap":
		c.in.kind, c.in.class = kindExec, Control
		c.in.exec = func(w *warp, _ *instr) { w.fault(first(w.mask), "the kernel traps") }
		return c.count(0, 0)
	}
	return c.errorf("this opcode is not modelled")
}

// onPredicates says that the instruction's result is a predicate.
func (c *compiler) onPredicates() bool {
	a := c.st.args
	return len(a) > 0 && a[0].kind == opReg && c.regs[a[0].reg].class == classPred
}

// packs says that a mov has a list as an operand.
func (c *compiler) packs() bool {
	return strings.HasPrefix(c.st.op, "mov.") && slices.ContainsFunc(c.st.args, func(o operand) bool { return o.kind == opVec })
}

// selectALU fills in an operation from the tables.
func (c *compiler) selectALU(a alu) error {
	in := c.in
	if err := c.count(1+len(a.src), 1+len(a.src)); err != nil {
		return err
	}
	in.kind, in.class, in.f32, in.f64, in.exec = a.kind, a.class, a.f32, a.f64, a.exec
	if f := vector32[c.st.op]; f != nil {
		in.f32 = f
	}
	if f := vector64[c.st.op]; f != nil {
		in.f64 = f
	}
	for i, f := range []*int32{&in.a, &in.b, &in.c}[:len(a.src)] {
		var err error
		if *f, err = c.src(c.st.args[1+i], a.src[i]); err != nil {
			return err
		}
	}
	var err error
	in.d, err = c.dst(c.st.args[0], a.dst)
	return err
}

// selectPack handles mov between a register and a list of its parts.
func (c *compiler) selectPack(mods []string) error {
	in := c.in
	in.class = Move
	if err := c.count(2, 2); err != nil {
		return err
	}
	t, ok := types[strings.Join(mods, ".")]
	d, s := c.st.args[0], c.st.args[1]
	list, packing := d.list, false
	if s.kind == opVec {
		list, packing = s.list, true
	}
	if !ok || t.kind == 'p' || d.kind == opVec && s.kind == opVec || len(list) != 2 && len(list) != 4 {
		return c.errorf("a list here is not modelled")
	}
	part := typ{'b', t.bits / len(list)}
	if part.bits < 8 {
		return c.errorf("parts of %d bits", part.bits)
	}
	for _, e := range list {
		if !packing && e.kind == opLabel && e.name == "_" {
			in.xs = append(in.xs, unused)
			continue
		}
		var r int32
		var err error
		if packing {
			r, err = c.src(e, part)
		} else {
			r, err = c.dst(e, part)
		}
		if err != nil {
			return err
		}
		in.xs = append(in.xs, r)
	}
	var err error
	shift := uint(part.bits)
	cut := uint32(uint64(1)<<shift - 1)
	if !packing {
		c.early = true
		if in.a, err = c.src(s, t); err != nil {
			return err
		}
		in.kind = kindExec
		in.exec = func(w *warp, in *instr) {
			for j, x := range in.xs {
				if x < 0 {
					continue
				}
				if t.bits == 64 {
					map1(&w.t32, w.r64(in.a), func(v uint64) uint32 { return uint32(v>>(shift*uint(j))) & cut })
				} else {
					map1(&w.t32, w.r32(in.a), func(v uint32) uint32 { return v >> (shift * uint(j)) & cut })
				}
				blend32(&w.r[x], &w.t32, w.mask)
			}
		}
		return nil
	}
	if in.d, err = c.dst(d, t); err != nil {
		return err
	}
	if t.bits == 64 {
		in.kind = kindExec64
		in.exec = func(w *warp, in *instr) {
			var out [lanes]uint64
			for j, x := range in.xs {
				map2(&out, &out, w.r32(x), func(o uint64, v uint32) uint64 { return o | uint64(v)<<(shift*uint(j)) })
			}
			*w.out64 = out
		}
		return nil
	}
	in.kind = kindExec32
	in.exec = func(w *warp, in *instr) {
		var out [lanes]uint32
		for j, x := range in.xs {
			map2(&out, &out, w.r32(x), func(o, v uint32) uint32 { return o | v<<(shift*uint(j)) })
		}
		*w.out32 = out
	}
	return nil
}

// selectAddress handles cvta, between a state space and generic addresses.
func (c *compiler) selectAddress(mods []string) error {
	in := c.in
	in.class, in.kind = Move, kindExec64
	to := len(mods) > 0 && mods[0] == "to"
	if to {
		mods = mods[1:]
	}
	if len(mods) != 2 || mods[1] != "u64" {
		return c.errorf("only between 64-bit addresses")
	}
	var window uint64
	switch spaceNames[mods[0]] {
	case spaceGlobal, spaceConst:
	case spaceShared:
		window = sharedWindow
	case spaceLocal:
		window = localWindow
	default:
		return c.errorf("state space .%s", mods[0])
	}
	if to {
		window = -window
	}
	if err := c.count(2, 2); err != nil {
		return err
	}
	var err error
	if in.a, err = c.src(c.st.args[1], types["u64"]); err != nil {
		return err
	}
	if in.d, err = c.dst(c.st.args[0], types["u64"]); err != nil {
		return err
	}
	in.exec = func(w *warp, in *instr) {
		map1(w.out64, w.r64(in.a), func(x uint64) uint64 { return x + window })
	}
	return nil
}

// selectInsert handles bfi d, a, b, pos, len.
func (c *compiler) selectInsert(mods []string) error {
	in := c.in
	in.class = Integer
	t := types[strings.Join(mods, ".")]
	if t.kind != 'b' || t.bits < 32 {
		return c.errorf("type .%s", strings.Join(mods, "."))
	}
	if err := c.count(5, 5); err != nil {
		return err
	}
	for i, f := range []*int32{&in.a, &in.b, &in.c} {
		ot := t
		if i == 2 {
			ot = types["u32"]
		}
		var err error
		if *f, err = c.src(c.st.args[1+i], ot); err != nil {
			return err
		}
	}
	n, err := c.src(c.st.args[4], types["u32"])
	if err != nil {
		return err
	}
	in.xs = []int32{n}
	if in.d, err = c.dst(c.st.args[0], t); err != nil {
		return err
	}
	if t.bits == 64 {
		in.kind = kindExec64
		in.exec = func(w *warp, in *instr) {
			d, a, b, p, n := w.out64, w.r64(in.a), w.r64(in.b), w.r32(in.c), w.r32(in.xs[0])
			for i := range d {
				d[i] = insert64(a[i], b[i], p[i], n[i])
			}
		}
		return nil
	}
	in.kind = kindExec32
	in.exec = func(w *warp, in *instr) {
		d, a, b, p, n := w.out32, w.r32(in.a), w.r32(in.b), w.r32(in.c), w.r32(in.xs[0])
		for i := range d {
			d[i] = insert32(a[i], b[i], p[i], n[i])
		}
	}
	return nil
}

// selectBranch handles bra.
func (c *compiler) selectBranch(mods []string) error {
	in := c.in
	in.kind, in.class = kindBranch, Control
	if len(mods) > 1 || len(mods) == 1 && mods[0] != "uni" {
		return c.errorf("modifier .%s is not modelled", strings.Join(mods, "."))
	}
	if err := c.count(1, 1); err != nil {
		return err
	}
	o := c.st.args[0]
	at, ok := c.st.scope.label(o.name)
	if o.kind != opLabel || !ok {
		return c.errorf("label %q is not defined", o.name)
	}
	in.target = int32(at)
	return nil
}

// selectBarrier handles bar.sync and barrier.sync for the whole block, and
// bar.warp.sync, which is nothing in lock step.
func (c *compiler) selectBarrier(op string, mods []string) error {
	in := c.in
	in.class = Barrier
	name := strings.Join(mods, ".")
	switch {
	case op == "bar" && name == "warp.sync":
		if err := c.count(1, 1); err != nil {
			return err
		}
		if _, err := c.src(c.st.args[0], types["b32"]); err != nil {
			return err
		}
		in.kind = kindExec
		in.exec = func(*warp, *instr) {}
		return nil
	case name == "sync", op == "bar" && name == "cta.sync", op == "barrier" && (name == "sync.aligned" || name == "cta.sync" || name == "cta.sync.aligned"):
		if err := c.count(1, 1); err != nil {
			return err
		}
		o := c.st.args[0]
		if o.kind != opImm || o.value < 0 || o.value > 15 {
			return c.errorf("the barrier must be a number from 0 to 15")
		}
		in.kind, in.imm = kindBarrier, o.value
		return nil
	}
	return c.errorf("this barrier is not modelled")
}
