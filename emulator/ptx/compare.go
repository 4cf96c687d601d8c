package ptx

import "strings"

// A comparison of one width, in all lanes.
type (
	compare32 func(a, b l32) uint32
	compare64 func(a, b l64) uint32
)

// compares32 is by comparison and kind of type: u (also b), s, f.
var compares32 = map[string]compare32{
	"eq.u": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return x == y }) },
	"ne.u": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return x != y }) },
	"lt.u": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return x < y }) },
	"le.u": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return x <= y }) },
	"gt.u": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return x > y }) },
	"ge.u": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return x >= y }) },
	"lt.s": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return int32(x) < int32(y) }) },
	"le.s": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return int32(x) <= int32(y) }) },
	"gt.s": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return int32(x) > int32(y) }) },
	"ge.s": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return int32(x) >= int32(y) }) },
	"eq.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return f32(x) == f32(y) }) },
	"lt.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return f32(x) < f32(y) }) },
	"le.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return f32(x) <= f32(y) }) },
	"gt.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return f32(x) > f32(y) }) },
	"ge.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return f32(x) >= f32(y) }) },
	"ne.f": func(a, b l32) uint32 {
		return test(a, b, func(x, y uint32) bool { return f32(x) < f32(y) || f32(x) > f32(y) })
	},
	"num.f": func(a, b l32) uint32 {
		return test(a, b, func(x, y uint32) bool { return f32(x) == f32(x) && f32(y) == f32(y) })
	},
	// The unordered comparisons hold when an operand is NaN.
	"equ.f": func(a, b l32) uint32 {
		return test(a, b, func(x, y uint32) bool { return !(f32(x) < f32(y) || f32(x) > f32(y)) })
	},
	"neu.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return f32(x) != f32(y) }) },
	"ltu.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return !(f32(x) >= f32(y)) }) },
	"leu.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return !(f32(x) > f32(y)) }) },
	"gtu.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return !(f32(x) <= f32(y)) }) },
	"geu.f": func(a, b l32) uint32 { return test(a, b, func(x, y uint32) bool { return !(f32(x) < f32(y)) }) },
	"nan.f": func(a, b l32) uint32 {
		return test(a, b, func(x, y uint32) bool { return f32(x) != f32(x) || f32(y) != f32(y) })
	},
}

var compares64 = map[string]compare64{
	"eq.u":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return x == y }) },
	"ne.u":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return x != y }) },
	"lt.u":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return x < y }) },
	"le.u":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return x <= y }) },
	"gt.u":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return x > y }) },
	"ge.u":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return x >= y }) },
	"lt.s":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return int64(x) < int64(y) }) },
	"le.s":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return int64(x) <= int64(y) }) },
	"gt.s":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return int64(x) > int64(y) }) },
	"ge.s":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return int64(x) >= int64(y) }) },
	"eq.f":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return f64(x) == f64(y) }) },
	"lt.f":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return f64(x) < f64(y) }) },
	"le.f":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return f64(x) <= f64(y) }) },
	"gt.f":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return f64(x) > f64(y) }) },
	"ge.f":  func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return f64(x) >= f64(y) }) },
	"neu.f": func(a, b l64) uint32 { return test(a, b, func(x, y uint64) bool { return f64(x) != f64(y) }) },
}

// comparison finds how to compare; the result takes operands a and b of the
// instruction and returns the lanes for which it holds.
func (c *compiler) comparison(name string, t typ, ftz bool) (func(w *warp, in *instr) uint32, error) {
	kind := string(t.kind)
	switch name {
	case "lo", "ls", "hi", "hs":
		name = map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[name]
		kind = "u"
	case "eq", "ne":
		if kind == "s" {
			kind = "u"
		}
	}
	if kind == "b" {
		kind = "u"
	}
	if ftz && t != types["f32"] {
		return nil, c.errorf(".ftz with %v", t)
	}
	if t.bits == 64 {
		f := vectorCompare64[name+"."+kind]
		if f == nil {
			f = compares64[name+"."+kind]
		}
		if f == nil {
			return nil, c.errorf("comparison .%s of %v is not modelled", name, t)
		}
		return func(w *warp, in *instr) uint32 { return f(w.r64(in.a), w.r64(in.b)) }, nil
	}
	f := vectorCompare32[name+"."+kind]
	if f == nil {
		f = compares32[name+"."+kind]
	}
	if f == nil || t.bits < 16 || t.kind == 'f' && t.bits != 32 {
		return nil, c.errorf("comparison .%s of %v is not modelled", name, t)
	}
	switch {
	case t.bits == 16 && kind == "s":
		return func(w *warp, in *instr) uint32 {
			var x, y [lanes]uint32
			signed := func(v uint32) uint32 { return uint32(int32(int16(v))) }
			map1(&x, w.r32(in.a), signed)
			map1(&y, w.r32(in.b), signed)
			return f(&x, &y)
		}, nil
	case ftz:
		return func(w *warp, in *instr) uint32 {
			var x, y [lanes]uint32
			map1(&x, w.r32(in.a), flush)
			map1(&y, w.r32(in.b), flush)
			return f(&x, &y)
		}, nil
	}
	return func(w *warp, in *instr) uint32 { return f(w.r32(in.a), w.r32(in.b)) }, nil
}

// selectSetp handles setp.cmp{.bool}{.ftz}.type p{|q}, a, b{, {!}c and set,
// which writes the outcome to a register.
func (c *compiler) selectSetp(op string, mods []string) error {
	in := c.in
	in.class, in.kind = Compare, kindExec
	n := 1 // types
	if op == "set" {
		n = 2
	}
	if len(mods) < 1+n {
		return c.errorf("a comparison and a type are missing")
	}
	t, ok := types[mods[len(mods)-1]]
	if !ok || t.kind == 'p' {
		return c.errorf("type .%s", mods[len(mods)-1])
	}
	middle := mods[1 : len(mods)-n]
	boolean, ftz := "", false
	for _, m := range middle {
		switch m {
		case "and", "or", "xor":
			boolean = m
		case "ftz":
			ftz = true
		default:
			return c.errorf("modifier .%s is not modelled", m)
		}
	}
	cmp, err := c.comparison(mods[0], t, ftz)
	if err != nil {
		return err
	}
	args := 3
	if boolean != "" {
		args = 4
	}
	if err := c.count(args, args); err != nil {
		return err
	}
	a := c.st.args
	if in.a, err = c.src(a[1], t); err != nil {
		return err
	}
	if in.b, err = c.src(a[2], t); err != nil {
		return err
	}
	if boolean != "" {
		if in.c, err = c.predicate(a[3], 2); err != nil {
			return err
		}
	}
	combine := func(w *warp, in *instr) (holds, not uint32) {
		v := cmp(w, in)
		other := w.pred(in.c)
		if in.neg&2 != 0 {
			other = ^other
		}
		switch boolean {
		case "and":
			return v & other, ^v & other
		case "or":
			return v | other, ^v | other
		case "xor":
			return v ^ other, ^v ^ other
		}
		return v, ^v
	}
	if op == "set" {
		return c.finishSet(mods[len(mods)-2], combine)
	}
	d := []operand{a[0]}
	if a[0].kind == opVec && a[0].name == "|" {
		d = a[0].list
	}
	if in.d, err = c.discardable(d[0]); err != nil {
		return err
	}
	if len(d) > 1 {
		if in.d2, err = c.discardable(d[1]); err != nil {
			return err
		}
	}
	in.exec = func(w *warp, in *instr) {
		p, q := combine(w, in)
		w.setPred(in.d, p)
		w.setPred(in.d2, q)
	}
	return nil
}

// finishSet makes the result of set a number: all ones or zero, or 1.0.
func (c *compiler) finishSet(typeName string, combine func(w *warp, in *instr) (uint32, uint32)) error {
	in := c.in
	t, ok := types[typeName]
	if !ok || t.bits != 32 {
		return c.errorf("result type .%s is not modelled", typeName)
	}
	one := full
	if t.kind == 'f' {
		one = b32(1)
	}
	var err error
	if in.d, err = c.dst(c.st.args[0], t); err != nil {
		return err
	}
	in.kind = kindExec32
	in.exec = func(w *warp, in *instr) {
		m, _ := combine(w, in)
		d := w.out32
		for i := range d {
			d[i] = one & -(m >> i & 1)
		}
	}
	return nil
}

// discardable is a predicate that is written, or _.
func (c *compiler) discardable(o operand) (int32, error) {
	if o.kind == opLabel && o.name == "_" {
		return unused, nil
	}
	return c.dst(o, types["pred"])
}

// predicate is a predicate that is read; bit is set in neg if it is inverted.
func (c *compiler) predicate(o operand, bit uint8) (int32, error) {
	r, err := c.src(o, types["pred"])
	if err == nil && o.kind == opReg && o.neg {
		c.in.neg |= bit
	}
	return r, err
}

// selectPredicate handles and, or, xor, not and mov of predicates.
func (c *compiler) selectPredicate(op string) error {
	in := c.in
	in.class, in.kind = Compare, kindExec
	n := 3
	if op == "not" || op == "mov" {
		n = 2
	}
	if err := c.count(n, n); err != nil {
		return err
	}
	var err error
	if in.a, err = c.predicate(c.st.args[1], 1); err != nil {
		return err
	}
	if n == 3 {
		if in.b, err = c.predicate(c.st.args[2], 2); err != nil {
			return err
		}
	}
	if in.d, err = c.dst(c.st.args[0], types["pred"]); err != nil {
		return err
	}
	in.exec = func(w *warp, in *instr) {
		x, y := w.pred(in.a), w.pred(in.b)
		if in.neg&1 != 0 {
			x = ^x
		}
		if in.neg&2 != 0 {
			y = ^y
		}
		switch op {
		case "and":
			x &= y
		case "or":
			x |= y
		case "xor":
			x ^= y
		case "not":
			x = ^x
		}
		w.setPred(in.d, x)
	}
	return nil
}

// selectSelp handles selp.type d, a, b, {!}p: a where p holds, else b.
func (c *compiler) selectSelp(mods []string) error {
	in := c.in
	in.class = Move
	t, ok := types[strings.Join(mods, ".")]
	if !ok || t.kind == 'p' || t.bits < 16 {
		return c.errorf("type .%s", strings.Join(mods, "."))
	}
	if err := c.count(4, 4); err != nil {
		return err
	}
	var err error
	if in.a, err = c.src(c.st.args[1], t); err != nil {
		return err
	}
	if in.b, err = c.src(c.st.args[2], t); err != nil {
		return err
	}
	if in.c, err = c.predicate(c.st.args[3], 2); err != nil {
		return err
	}
	if in.d, err = c.dst(c.st.args[0], t); err != nil {
		return err
	}
	chosen := func(w *warp, in *instr) uint32 {
		m := w.pred(in.c)
		if in.neg&2 != 0 {
			m = ^m
		}
		return m
	}
	if t.bits == 64 {
		in.kind = kindExec64
		in.exec = func(w *warp, in *instr) {
			select64(w.out64, w.r64(in.a), w.r64(in.b), chosen(w, in))
		}
		return nil
	}
	in.kind = kindExec32
	in.exec = func(w *warp, in *instr) {
		select32(w.out32, w.r32(in.a), w.r32(in.b), chosen(w, in))
	}
	return nil
}
