package ptx

import (
	"math"
	"slices"
	"strings"

	"github.com/x448/float16"
)

// selectConvert handles cvt with its many pairs of types: integers are brought
// to 64 bits by the source's sign, converted, and cut to the destination's.
func (c *compiler) selectConvert(mods []string) error {
	if len(mods) > 0 && mods[0] == "pack" {
		return c.selectConvertPack(mods)
	}
	if len(mods) < 2 {
		return c.errorf("cvt needs two types")
	}
	dt, dok := types[mods[len(mods)-2]]
	st, sok := types[mods[len(mods)-1]]
	if !dok || !sok || dt.kind == 'b' || dt.kind == 'p' || st.kind == 'b' || st.kind == 'p' {
		return c.errorf("this conversion is not modelled")
	}
	mods = mods[:len(mods)-2]
	take := func(name string) bool {
		i := slices.Index(mods, name)
		if i >= 0 {
			mods = slices.Delete(slices.Clone(mods), i, i+1)
		}
		return i >= 0
	}
	sat := take("sat")
	ftz := take("ftz")
	round := ""
	for _, r := range []string{"rn", "rz", "rni", "rzi", "rmi", "rpi"} {
		if take(r) {
			round = r
		}
	}
	if len(mods) > 0 {
		return c.errorf("modifier .%s is not modelled", strings.Join(mods, "."))
	}
	if err := c.count(2, 2); err != nil {
		return err
	}
	f, err := c.conversion(dt, st, round, sat, ftz)
	if err != nil {
		return err
	}
	in := c.in
	in.class = Convert
	a := c.st.args[1]
	// Operands may be wider than their type.
	sreg, err := c.wide(a, st)
	if err != nil {
		return err
	}
	if in.a, err = c.src(a, sreg); err != nil {
		return err
	}
	dreg, err := c.wide(c.st.args[0], dt)
	if err != nil {
		return err
	}
	if in.d, err = c.dst(c.st.args[0], dreg); err != nil {
		return err
	}
	// Pieces of the loop: widen, convert, cut.
	from64, to64 := sreg.bits == 64, dreg.bits == 64
	sx := extension(st)
	cut := uint64(1)<<dreg.bits - 1
	if to64 {
		cut = ^uint64(0)
	}
	dx := extension(dt)
	switch {
	case to64 && !from64 && f == nil && st.bits == 32 && st.kind == 's' && dt.bits == 64:
		in.kind, in.exec = kindExec64, func(w *warp, in *instr) {
			widenS(w.out64, w.r32(in.a))
		}
	case to64 && !from64 && f == nil && st.bits == 32 && dt.bits == 64:
		in.kind, in.exec = kindExec64, func(w *warp, in *instr) {
			widenU(w.out64, w.r32(in.a))
		}
	case !to64 && from64 && f == nil && st.bits == 64 && dt.bits == 32 && dreg.bits == 32:
		in.kind, in.exec = kindExec32, func(w *warp, in *instr) {
			narrow(w.out32, w.r64(in.a))
		}
	case !to64 && !from64 && f == nil:
		// The narrower type says how its bits are extended.
		least := dt
		mask := uint32(cut)
		if st.bits < dt.bits {
			least = st
			if dt.kind == 'u' {
				mask &= uint32(uint64(1)<<dt.bits - 1)
			}
		}
		if least.kind == 's' {
			in.kind, in.exec = kindExec32, func(w *warp, in *instr) {
				signExtend(w.out32, w.r32(in.a), uint32(32-least.bits), mask)
			}
			break
		}
		mask &= uint32(uint64(1)<<least.bits - 1)
		in.kind, in.exec = kindExec32, func(w *warp, in *instr) { mask32(w.out32, w.r32(in.a), mask) }
	default:
		load := func(w *warp, in *instr, t l64) {
			if from64 {
				map1(t, w.r64(in.a), func(x uint64) uint64 { return uint64(int64(x<<sx.left) >> sx.left & sx.mask) })
			} else {
				map1(t, w.r32(in.a), func(x uint32) uint64 { return uint64(int64(uint64(x)<<sx.left) >> sx.left & sx.mask) })
			}
			if f != nil {
				f(t)
			}
		}
		finish := func(x uint64) uint64 { return uint64(int64(x<<dx.left)>>dx.left&dx.mask) & cut }
		if to64 {
			in.kind, in.exec = kindExec64, func(w *warp, in *instr) {
				var t [lanes]uint64
				load(w, in, &t)
				map1(w.out64, &t, finish)
			}
		} else {
			in.kind, in.exec = kindExec32, func(w *warp, in *instr) {
				var t [lanes]uint64
				load(w, in, &t)
				map1(w.out32, &t, func(x uint64) uint32 { return uint32(finish(x)) })
			}
		}
	}
	return nil
}

// selectConvertPack handles cvt.pack.sat.u8.s32.b32 d, a, b, c and that of s8: a and b
// saturated to bytes are bytes 1 and 0 of d, above them is the low half of c.
func (c *compiler) selectConvertPack(mods []string) error {
	in := c.in
	in.class = Convert
	name := strings.Join(mods, ".")
	if name != "pack.sat.s8.s32.b32" && name != "pack.sat.u8.s32.b32" {
		return c.errorf("this conversion is not modelled")
	}
	if err := c.count(4, 4); err != nil {
		return err
	}
	t := types["s32"]
	for i, f := range []*int32{&in.a, &in.b, &in.c} {
		if i == 2 {
			t = types["b32"]
		}
		var err error
		if *f, err = c.src(c.st.args[1+i], t); err != nil {
			return err
		}
	}
	lo, hi := integerRange(types[mods[2]])
	least, most := int32(lo), int32(hi)
	in.kind = kindF32
	in.f32 = func(d, a, b, c l32) {
		map3(d, a, b, c, func(x, y, z uint32) uint32 {
			sat := func(v uint32) uint32 { return uint32(min(max(int32(v), least), most)) & 255 }
			return z<<16 | sat(x)<<8 | sat(y)
		})
	}
	var err error
	in.d, err = c.dst(c.st.args[0], t)
	return err
}

// wide returns the type of the register an operand of cvt, ld or st is in,
// which may be wider than the operand's type t.
func (c *compiler) wide(o operand, t typ) (typ, error) {
	if o.kind != opReg {
		return t, nil
	}
	r := c.regs[o.reg]
	if r.class == classPred || r.bits < t.bits || t.kind == 'f' && r.bits != t.bits {
		return t, c.errorf("%s has %d bits, the instruction names %v", o.name, r.bits, t)
	}
	return typ{t.kind, r.bits}, nil
}

// An extend brings the low bits of a word to 64: shift left, shift right with
// sign, mask.
type extend struct {
	left uint
	mask int64
}

func extension(t typ) extend {
	left := uint(64 - t.bits)
	if t.kind == 's' {
		return extend{left, -1}
	}
	return extend{left, int64(^uint64(0) >> left)}
}

// conversion returns what happens to a value between widening and cutting;
// nil if nothing.
func (c *compiler) conversion(dt, st typ, round string, sat, ftz bool) (func(l64), error) {
	lo, hi := integerRange(dt)
	df, sf := dt.kind == 'f', st.kind == 'f'
	each := func(f func(uint64) uint64) func(l64) {
		return func(t l64) {
			for i := range t {
				t[i] = f(t[i])
			}
		}
	}
	switch {
	case !df && !sf:
		if round != "" || ftz {
			return nil, c.errorf("rounding an integer")
		}
		if !sat {
			return nil, nil
		}
		signed := st.kind == 's'
		return each(func(x uint64) uint64 {
			if signed && int64(x) < 0 {
				return uint64(max(int64(x), lo))
			}
			return min(x, hi)
		}), nil
	case df && !sf:
		if round != "rn" || sat {
			return nil, c.errorf("from an integer only .rn is modelled")
		}
		signed := st.kind == 's'
		if dt.bits == 64 {
			return each(func(x uint64) uint64 {
				if signed {
					return b64(float64(int64(x)))
				}
				return b64(float64(x))
			}), nil
		}
		half := dt.bits == 16
		return each(func(x uint64) uint64 {
			var y float32
			if signed {
				y = float32(int64(x))
			} else {
				y = float32(x)
			}
			if half {
				// Every integer that a half holds is exact in single; one
				// beyond 2²⁴ is infinity either way.
				return uint64(float16.Fromfloat32(y).Bits())
			}
			return uint64(b32(y))
		}), nil
	case sf && !df:
		r := integral(round)
		if r == nil {
			return nil, c.errorf("to an integer needs .rni, .rzi, .rmi or .rpi")
		}
		return each(func(x uint64) uint64 {
			v := r(decode(x, st, ftz))
			switch {
			case v != v:
				return 0
			case v <= float64(lo):
				return uint64(lo)
			case v >= float64(hi):
				return hi
			case v < 0:
				return uint64(int64(v))
			}
			return uint64(v)
		}), nil
	}
	r := integral(round)
	switch {
	case round == "", round == "rn", r != nil && st == dt:
	default:
		return nil, c.errorf("rounding .%s is not modelled here", round)
	}
	if dt.bits < st.bits && round != "rn" {
		return nil, c.errorf("a narrower type needs .rn")
	}
	return each(func(x uint64) uint64 {
		v := decode(x, st, ftz)
		if r != nil {
			v = r(v)
		}
		if sat {
			v = max(0, min(1, v))
			if v != v {
				v = 0
			}
		}
		switch dt.bits {
		case 16:
			if st.bits == 64 {
				return uint64(halfFrom64(v))
			}
			return uint64(float16.Fromfloat32(float32(v)).Bits())
		case 32:
			y := nan32(float32(v))
			if ftz {
				y = flush(y)
			}
			return uint64(y)
		}
		return b64(v)
	}), nil
}

// halfFrom64 rounds a double to a half once: by way of a single whose last bit
// remembers what was lost.
func halfFrom64(v float64) uint16 {
	s := float32(v)
	if e := v - float64(s); e != 0 && !math.IsInf(float64(s), 0) {
		bits := b32(s)
		if bits&1 == 0 {
			if (e > 0) == (v > 0) {
				bits++
			} else {
				bits--
			}
		}
		s = f32(bits)
	}
	return float16.Fromfloat32(s).Bits()
}

// decode reads a floating-point number of type t.
func decode(x uint64, t typ, ftz bool) float64 {
	switch t.bits {
	case 16:
		return float64(float16.Frombits(uint16(x)).Float32())
	case 32:
		y := uint32(x)
		if ftz {
			y = flush(y)
		}
		return float64(f32(y))
	}
	return f64(x)
}

// integral returns the rounding to an integer that a modifier names, or nil.
func integral(round string) func(float64) float64 {
	switch round {
	case "rni":
		return math.RoundToEven
	case "rzi":
		return math.Trunc
	case "rmi":
		return math.Floor
	case "rpi":
		return math.Ceil
	}
	return nil
}

// integerRange is the smallest and largest value of an integer type.
func integerRange(t typ) (lo int64, hi uint64) {
	if t.kind == 's' {
		return -1 << (t.bits - 1), 1<<(t.bits-1) - 1
	}
	return 0, ^uint64(0) >> (64 - t.bits)
}
