package ptx

import (
	"math"
	"strings"
)

func f32(x uint32) float32 { return math.Float32frombits(x) }
func b32(x float32) uint32 { return math.Float32bits(x) }

// canonicalNaN is what single-precision arithmetic returns for any NaN.
const canonicalNaN = 0x7fffffff

// nan32 returns the bits of x, with one NaN for all.
func nan32(x float32) uint32 {
	if x != x {
		return canonicalNaN
	}
	return b32(x)
}

// fma32 is x·y + z with one rounding, to nearest even. The product of two
// singles is exact in a double; what the sum loses there decides ties, so it is
// folded into the last bit before the second rounding (round to odd).
func fma32(x, y, z uint32) uint32 {
	p := float64(f32(x)) * float64(f32(y))
	c := float64(f32(z))
	s := p + c
	if bits := math.Float64bits(s); bits&1 == 0 && !math.IsInf(s, 0) && s == s {
		t := s - p
		if e := (p - (s - t)) + (c - t); e != 0 {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return nan32(float32(s))
}

// flush returns zero of the same sign for a subnormal number.
func flush(x uint32) uint32 {
	if x&0x7f800000 == 0 {
		return x & 0x80000000
	}
	return x
}

// saturate clamps to [0, 1]; NaN becomes 0.
func saturate(x uint32) uint32 {
	f := f32(x)
	switch {
	case !(f > 0):
		return 0
	case f > 1:
		return b32(1)
	}
	return x
}

// min32 is the number when one operand is NaN, and -0 is less than +0.
func min32(x, y uint32) uint32 {
	a, b := f32(x), f32(y)
	switch {
	case a != a && b != b:
		return canonicalNaN
	case a != a:
		return y
	case b != b:
		return x
	}
	return b32(min(a, b))
}

func max32(x, y uint32) uint32 {
	a, b := f32(x), f32(y)
	switch {
	case a != a && b != b:
		return canonicalNaN
	case a != a:
		return y
	case b != b:
		return x
	}
	return b32(max(a, b))
}

// A floatOp is a single-precision operation and which modifiers it takes.
type floatOp struct {
	class Class
	n     int
	round bool // .rn, .ftz and .sat are possible
	f     func(d, a, b, c l32)
}

// rounded is a function of doubles as a function of singles: computed in double
// precision and rounded once. The approximations of a device (.approx) differ
// from it in the last bits; see docs/ptx.md.
func rounded(f func(float64) float64) func(d, a, b, c l32) {
	return func(d, a, _, _ l32) {
		for i := range d {
			d[i] = nan32(float32(f(float64(f32(a[i])))))
		}
	}
}

func divide(d, a, b, _ l32) {
	map2(d, a, b, func(x, y uint32) uint32 { return nan32(f32(x) / f32(y)) })
}

var floatOps = map[string]floatOp{
	"add": {Float, 2, true, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return nan32(f32(x) + f32(y)) })
	}},
	"sub": {Float, 2, true, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return nan32(f32(x) - f32(y)) })
	}},
	"mul": {Float, 2, true, func(d, a, b, _ l32) {
		map2(d, a, b, func(x, y uint32) uint32 { return nan32(f32(x) * f32(y)) })
	}},
	"fma":          {Float, 3, true, func(d, a, b, c l32) { map3(d, a, b, c, fma32) }},
	"mad":          {Float, 3, true, func(d, a, b, c l32) { map3(d, a, b, c, fma32) }},
	"min":          {Float, 2, false, func(d, a, b, _ l32) { map2(d, a, b, min32) }},
	"max":          {Float, 2, false, func(d, a, b, _ l32) { map2(d, a, b, max32) }},
	"neg":          {Float, 1, false, func(d, a, _, _ l32) { map1(d, a, func(x uint32) uint32 { return x ^ 1<<31 }) }},
	"abs":          {Float, 1, false, func(d, a, _, _ l32) { map1(d, a, func(x uint32) uint32 { return x &^ (1 << 31) }) }},
	"copysign":     {Float, 2, false, func(d, a, b, _ l32) { map2(d, a, b, func(x, y uint32) uint32 { return y&^(1<<31) | x&(1<<31) }) }},
	"div":          {Special, 2, true, divide},
	"div.full":     {Special, 2, false, divide},
	"div.approx":   {Special, 2, false, divide},
	"rcp":          {Special, 1, true, rounded(func(x float64) float64 { return 1 / x })},
	"rcp.approx":   {Special, 1, false, rounded(func(x float64) float64 { return 1 / x })},
	"sqrt":         {Special, 1, true, rounded(math.Sqrt)},
	"sqrt.approx":  {Special, 1, false, rounded(math.Sqrt)},
	"rsqrt.approx": {Special, 1, false, rounded(func(x float64) float64 { return 1 / math.Sqrt(x) })},
	"ex2.approx":   {Special, 1, false, rounded(math.Exp2)},
	"lg2.approx":   {Special, 1, false, rounded(math.Log2)},
	"sin.approx":   {Special, 1, false, rounded(math.Sin)},
	"cos.approx":   {Special, 1, false, rounded(math.Cos)},
	"tanh.approx":  {Special, 1, false, rounded(math.Tanh)},
}

// floatALU finds a single-precision operation by its opcode.
func floatALU(op string) (alu, bool) {
	op, ok := strings.CutSuffix(op, ".f32")
	if !ok {
		return alu{}, false
	}
	op, sat := strings.CutSuffix(op, ".sat")
	op, ftz := strings.CutSuffix(op, ".ftz")
	op, rn := strings.CutSuffix(op, ".rn")
	o, ok := floatOps[op]
	if !ok || (rn || sat) && !o.round {
		return alu{}, false
	}
	if needs := op == "fma" || op == "mad" || op == "div" || op == "rcp" || op == "sqrt"; needs && !rn {
		return alu{}, false // these have no default rounding
	}
	t := types["f32"]
	f := o.f
	if ftz {
		f = func(d, a, b, c l32) {
			var x, y, z [lanes]uint32
			map1(&x, a, flush)
			map1(&y, b, flush)
			map1(&z, c, flush)
			o.f(d, &x, &y, &z)
			map1(d, d, flush)
		}
	}
	if sat {
		inner := f
		f = func(d, a, b, c l32) {
			inner(d, a, b, c)
			map1(d, d, saturate)
		}
	}
	return alu{class: o.class, dst: t, src: []typ{t, t, t}[:o.n], kind: kindF32, f32: f}, true
}

func f64(x uint64) float64 { return math.Float64frombits(x) }
func b64(x float64) uint64 { return math.Float64bits(x) }

// number64 is f of two numbers, or the number when the other operand is NaN.
func number64(x, y uint64, f func(a, b float64) float64) uint64 {
	a, b := f64(x), f64(y)
	switch {
	case a != a:
		return y
	case b != b:
		return x
	}
	return b64(f(a, b))
}

func init() {
	const t = "f64"
	add64(Float, "add", t, 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return b64(f64(x) + f64(y)) }) })
	add64(Float, "sub", t, 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return b64(f64(x) - f64(y)) }) })
	add64(Float, "mul", t, 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return b64(f64(x) * f64(y)) }) })
	add64(Float, "fma.rn", t, 3, func(d, a, b, c l64) {
		map3(d, a, b, c, func(x, y, z uint64) uint64 { return b64(math.FMA(f64(x), f64(y), f64(z))) })
	})
	add64(Special, "div.rn", t, 2, func(d, a, b, _ l64) { map2(d, a, b, func(x, y uint64) uint64 { return b64(f64(x) / f64(y)) }) })
	add64(Special, "rcp.rn", t, 1, func(d, a, _, _ l64) { map1(d, a, func(x uint64) uint64 { return b64(1 / f64(x)) }) })
	add64(Special, "sqrt.rn", t, 1, func(d, a, _, _ l64) { map1(d, a, func(x uint64) uint64 { return b64(math.Sqrt(f64(x))) }) })
	add64(Float, "min", t, 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 { return number64(x, y, func(a, b float64) float64 { return min(a, b) }) })
	})
	add64(Float, "max", t, 2, func(d, a, b, _ l64) {
		map2(d, a, b, func(x, y uint64) uint64 { return number64(x, y, func(a, b float64) float64 { return max(a, b) }) })
	})
	add64(Float, "neg", t, 1, func(d, a, _, _ l64) { map1(d, a, func(x uint64) uint64 { return x ^ 1<<63 }) })
	add64(Float, "abs", t, 1, func(d, a, _, _ l64) { map1(d, a, func(x uint64) uint64 { return x &^ (1 << 63) }) })
	for _, op := range []string{"add", "sub", "mul"} {
		alus[op+".rn.f64"] = alus[op+".f64"]
	}
}
