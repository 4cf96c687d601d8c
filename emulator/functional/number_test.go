package functional

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"testing"

	"situ/backend/pim/isa"
	"situ/emulator/internal/testchip"
)

// integerTypes are the types of plain integers, with their bits and whether they
// have a sign.
var integerTypes = map[isa.DType]struct {
	bits   uint
	signed bool
}{
	isa.I8: {8, true}, isa.U8: {8, false}, isa.I16: {16, true}, isa.U16: {16, false}, isa.I32: {32, true}, isa.U32: {32, false},
	isa.I64: {64, true}, isa.U64: {64, false}, isa.Bool: {8, false},
}

// integer returns the element of a type at an address as a big integer.
func (s *state) integer(at int64, t isa.DType) *big.Int {
	k := integerTypes[t]
	x := new(big.Int)
	for i := int64(k.bits)/8 - 1; i >= 0; i-- {
		b := s.sp[at+i]
		if t == isa.I8 {
			b ^= 0x80
		}
		x.Or(x.Lsh(x, 8), big.NewInt(int64(b)))
	}
	if k.signed && x.Bit(int(k.bits)-1) == 1 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), k.bits))
	}
	return x
}

// setInteger writes the low bits of x.
func (s *state) setInteger(at int64, t isa.DType, x *big.Int) {
	k := integerTypes[t]
	x = new(big.Int).Mod(x, new(big.Int).Lsh(big.NewInt(1), k.bits))
	for i := range int64(k.bits) / 8 {
		b := byte(new(big.Int).Rsh(x, uint(8*i)).Uint64())
		if t == isa.I8 {
			b ^= 0x80
		}
		s.sp[at+i] = b
	}
}

func truth(b bool) *big.Int {
	if b {
		return big.NewInt(1)
	}
	return new(big.Int)
}

// saturated rounds x towards zero into a type.
func saturated(x float64, t isa.DType) *big.Int {
	if math.IsNaN(x) {
		return new(big.Int)
	}
	k := integerTypes[t]
	lo, hi := new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), k.bits), big.NewInt(1))
	if k.signed {
		half := new(big.Int).Lsh(big.NewInt(1), k.bits-1)
		lo, hi = new(big.Int).Neg(half), new(big.Int).Sub(half, big.NewInt(1))
	}
	if math.IsInf(x, -1) {
		return lo
	}
	if math.IsInf(x, 1) {
		return hi
	}
	y, _ := big.NewFloat(x).Int(nil)
	if y.Cmp(lo) < 0 {
		return lo
	}
	if y.Cmp(hi) > 0 {
		return hi
	}
	return y
}

func (s *state) convertOne(d int64, to isa.DType, src int64, from isa.DType) {
	switch {
	case from == isa.F32 && to == isa.F32:
		s.setF32(d, s.f32(src))
	case from == isa.F32 && to == isa.Bool:
		s.setInteger(d, to, truth(s.f32(src) != 0))
	case from == isa.F32:
		s.setInteger(d, to, saturated(float64(s.f32(src)), to))
	case to == isa.F32:
		f, _ := new(big.Float).SetInt(s.integer(src, from)).Float32()
		s.setF32(d, f)
	case to == isa.Bool:
		s.setInteger(d, to, truth(s.integer(src, from).Sign() != 0))
	default:
		s.setInteger(d, to, s.integer(src, from))
	}
}

// twoIntegers is a function of binaryi.
func twoIntegers(fn int64, x, y *big.Int) *big.Int {
	z := new(big.Int)
	switch fn {
	case isa.IAdd:
		return z.Add(x, y)
	case isa.ISub:
		return z.Sub(x, y)
	case isa.IMul:
		return z.Mul(x, y)
	case isa.IDiv:
		return z.Quo(x, y)
	case isa.IRem:
		return z.Rem(x, y)
	case isa.IMod: // of the sign of y
		q := new(big.Rat).SetFrac(x, y)
		floor := new(big.Int).Div(q.Num(), q.Denom())
		return z.Sub(x, floor.Mul(floor, y))
	case isa.IAnd:
		return z.And(x, y)
	case isa.IOr:
		return z.Or(x, y)
	case isa.IXor:
		return z.Xor(x, y)
	case isa.IMin:
		if x.Cmp(y) < 0 {
			return x
		}
		return y
	case isa.IMax:
		if x.Cmp(y) > 0 {
			return x
		}
		return y
	case isa.IEqual:
		return truth(x.Cmp(y) == 0)
	case isa.ILess:
		return truth(x.Cmp(y) < 0)
	}
	return truth(x.Cmp(y) <= 0)
}

func (s *state) naiveNumber(op isa.Op, g arg, f func(string) float32) {
	size := func(t isa.DType) int64 { return t.Size() }
	each := func(dstSize, srcSize int64, do func(d, src int64)) {
		for i2 := range g("n2") {
			for i1 := range g("n1") {
				for j := range g("len") {
					do(g("dst")+i2*g("dst_s2")+i1*g("dst_s1")+j*dstSize, g("src")+i2*g("src_s2")+i1*g("src_s1")+j*srcSize)
				}
			}
		}
	}
	nest := func(do func(at func(string) int64)) {
		for i3 := range g("n3") {
			for i2 := range g("n2") {
				for i1 := range g("n1") {
					for i0 := range g("n0") {
						do(func(x string) int64 {
							return g(x) + i3*g(x+"_s3") + i2*g(x+"_s2") + i1*g(x+"_s1") + i0*g(x+"_s0")
						})
					}
				}
			}
		}
	}
	switch op {
	case isa.OpConvert:
		to, from := isa.DType(g("to")), isa.DType(g("from"))
		each(size(to), size(from), func(d, src int64) { s.convertOne(d, to, src, from) })
	case isa.OpQuantW:
		t := isa.DType(g("type"))
		each(2, 4, func(d, src int64) {
			x := math.RoundToEven(float64(s.f32(src)/f("scale"))) + float64(g("offset"))
			if x != x {
				x = float64(g("offset"))
			}
			s.setInteger(d, t, saturated(x, t))
		})
	case isa.OpDequantW:
		t := isa.DType(g("type"))
		each(4, size(t), func(d, src int64) {
			s.setF32(d, float32(s.integer(src, t).Int64()-g("offset"))*f("scale"))
		})
	case isa.OpBinaryI:
		t, fn := isa.DType(g("type")), g("fn")
		nest(func(at func(string) int64) {
			var z *big.Int
			if t == isa.F32 {
				x, y := s.f32(at("a")), s.f32(at("b"))
				z = truth(fn == isa.IEqual && x == y || fn == isa.ILess && x < y || fn == isa.ILessEqual && x <= y)
			} else {
				z = twoIntegers(fn, s.integer(at("a"), t), s.integer(at("b"), t))
			}
			if fn >= isa.IEqual {
				s.setInteger(at("dst"), isa.Bool, z)
			} else {
				s.setInteger(at("dst"), t, z)
			}
		})
	case isa.OpSelect:
		nest(func(at func(string) int64) {
			from := "b"
			if s.sp[at("cond")] == 1 {
				from = "a"
			}
			for i := range g("size") {
				s.sp[at("dst")+i] = s.sp[at(from)+i]
			}
		})
	case isa.OpReduceI:
		t := isa.DType(g("type"))
		for o := range g("outer") {
			for i := range g("inner") {
				var x *big.Int
				for k := range g("n") {
					y := s.integer(g("src")+((o*g("n")+k)*g("inner")+i)*size(t), t)
					switch {
					case x == nil:
						x = y
					case g("fn") == isa.ISum:
						x.Add(x, y)
					case (g("fn") == isa.IReduceMax) == (y.Cmp(x) > 0):
						x = y
					}
				}
				s.setInteger(g("dst")+(o*g("inner")+i)*size(t), t, x)
			}
		}
	case isa.OpGather, isa.OpGatherD:
		from := s.sp
		if op == isa.OpGatherD {
			from = s.consts
		}
		t := isa.DType(g("type"))
		for j := range g("n1") {
			k := s.integer(g("index")+j*g("index_s1"), t).Int64()
			if k < 0 {
				k += g("axis")
			}
			for i := range g("n2") {
				for b := range g("len") {
					s.sp[g("dst")+i*g("dst_s2")+j*g("dst_s1")+b] = from[g("src")+i*g("src_s2")+k*g("src_s1")+b]
				}
			}
		}
	case isa.OpStoreAcc:
		for y := range g("rows_y") {
			for x := range g("rows_x") {
				for ch := range g("n") {
					v := int64(s.acc[g("acc")/4+(y*g("rows_x")+x)*g("acc_pitch")/4+ch])
					s.setInteger(g("dst")+y*g("dst_sy")+x*g("dst_sx")+4*ch, isa.I32, big.NewInt(v+s.i32(g("params")+4*ch)))
				}
			}
		}
	case isa.OpMatMulF:
		s.matMulF(g)
	case isa.OpPick, isa.OpPut:
		s.naiveIndexed(op, g)
	case isa.OpTopK:
		t := isa.DType(g("type"))
		less := func(x, y int64) bool { // by address
			if t == isa.F32 {
				a, b := s.f32(x), s.f32(y)
				return a < b || a == a && b != b
			}
			return s.integer(x, t).Cmp(s.integer(y, t)) < 0
		}
		for o := range g("outer") {
			for i := range g("inner") {
				at := func(j int64) int64 { return g("src") + ((o*g("n")+j)*g("inner")+i)*size(t) }
				taken := map[int64]bool{}
				for j := range g("k") {
					best := int64(-1)
					for p := range g("n") {
						better := best < 0 || g("smallest") == 0 && less(at(best), at(p)) || g("smallest") == 1 && less(at(p), at(best))
						if !taken[p] && better {
							best = p
						}
					}
					taken[best] = true
					s.setInteger(g("dst")+8*((o*g("k")+j)*g("inner")+i), isa.I64, big.NewInt(best))
				}
			}
		}
	default:
		panic("no naive " + op.String())
	}
}

// naiveIndexed is pick and put.
func (s *state) naiveIndexed(op isa.Op, g arg) {
	it, bytes := "type", int64(0)
	if op == isa.OpPick {
		bytes = g("size")
	} else {
		it, bytes = "itype", isa.DType(g("type")).Size()
	}
	for o := range g("outer") {
		for j := range g("k") {
			for i := range g("inner") {
				at := (o*g("k")+j)*g("inner") + i
				k := s.integer(g("index")+at*isa.DType(g(it)).Size(), isa.DType(g(it))).Int64()
				if k < 0 {
					k += g("n")
				}
				far := ((o*g("n")+k)*g("inner") + i) * bytes
				if op == isa.OpPick {
					copy(s.sp[g("dst")+at*bytes:], s.sp[g("src")+far:][:bytes])
					continue
				}
				to, from, t := g("dst")+far, g("src")+at*bytes, isa.DType(g("type"))
				switch fn := g("fn"); {
				case fn == isa.PutReplace:
					copy(s.sp[to:], s.sp[from:][:bytes])
				case t == isa.F32:
					x, y := s.f32(to), s.f32(from)
					s.setF32(to, [...]float32{isa.PutAdd: x + y, isa.PutMul: x * y, isa.PutMin: min(x, y), isa.PutMax: max(x, y)}[fn])
				default:
					do := [...]int64{isa.PutAdd: isa.IAdd, isa.PutMul: isa.IMul, isa.PutMin: isa.IMin, isa.PutMax: isa.IMax}[fn]
					s.setInteger(to, t, twoIntegers(do, s.integer(to, t), s.integer(from, t)))
				}
			}
		}
	}
}

// matMulF rounds each step of a sum once, with exact rationals.
func (s *state) matMulF(g arg) {
	for y := range g("rows_y") {
		for x := range g("rows_x") {
			for c := range g("n") {
				sum, k := float32(0), int64(0)
				for sy := range g("seg_ny") {
					for sx := range g("seg_nx") {
						for j := range g("seg_len") {
							v := s.f32(g("src") + y*g("src_sy") + x*g("src_sx") + sy*g("seg_sy") + sx*g("seg_sx") + 4*j)
							w := s.f32(g("w") + k*g("w_s") + 4*c)
							p := new(big.Rat).Mul(new(big.Rat).SetFloat64(float64(v)), new(big.Rat).SetFloat64(float64(w)))
							sum, _ = p.Add(p, new(big.Rat).SetFloat64(float64(sum))).Float32()
							k++
						}
					}
				}
				s.setF32(g("dst")+y*g("dst_sy")+x*g("dst_sx")+4*c, sum)
			}
		}
	}
}

// drawNumber draws the operands of instructions on plain numbers.
func (v *values) drawNumber(op isa.Op, a map[string]int64, floats func(int64)) {
	types := []isa.DType{isa.I8, isa.U8, isa.I32, isa.I64, isa.Bool, isa.I16, isa.U16, isa.U32, isa.U64}
	pick := func(ts []isa.DType) int64 { return int64(ts[v.n(0, int64(len(ts))-1)]) }
	size := func(name string) int64 { return isa.DType(a[name]).Size() }
	a["dst"], a["src"] = testDst+8*v.n(0, 9), testSrc+8*v.n(0, 9)
	strided := func(dst, src int64) {
		a["n2"], a["n1"], a["len"] = v.n(1, 3), v.n(1, 4), v.n(1, 20)
		a["dst_s1"], a["src_s1"] = 8*((a["len"]*dst+7)/8+v.n(0, 2)), 8*((a["len"]*src+7)/8+v.n(0, 2))
		a["dst_s2"], a["src_s2"] = a["n1"]*a["dst_s1"], a["n1"]*a["src_s1"]
	}
	nest := func(names ...string) {
		step := int64(1)
		for _, d := range []string{"0", "1", "2", "3"} {
			a["n"+d] = v.n(1, 4)
			for i, name := range names {
				if i == 0 {
					a[name+"_s"+d] = 8 * step
				} else {
					a[name+"_s"+d] = 8 * v.n(0, 3)
				}
			}
			step *= a["n"+d]
		}
		a["a"], a["b"], a["cond"] = testSrc, testSrc+1024, testSrc+2048
	}
	switch op {
	case isa.OpConvert:
		all := append(types, isa.F32)
		a["to"], a["from"] = pick(all), pick(all)
		if isa.DType(a["from"]) == isa.F32 && v.n(0, 1) == 0 {
			floats(1024) // small ones; otherwise any bits
		}
		strided(size("to"), size("from"))
	case isa.OpQuantW:
		a["type"] = pick([]isa.DType{isa.I16, isa.U16})
		if v.n(0, 1) == 0 {
			floats(1024)
		}
		a["scale"], a["offset"] = int64(math.Float32bits(0.0003)), v.n(-30000, 60000)
		strided(2, 4)
	case isa.OpDequantW:
		a["type"] = pick([]isa.DType{isa.I16, isa.U16, isa.I32})
		a["scale"], a["offset"] = int64(math.Float32bits(0.037)), v.n(-30000, 60000)
		strided(4, size("type"))
	case isa.OpBinaryI:
		a["fn"], a["type"] = v.n(0, isa.NumIFns-1), pick(types)
		if a["fn"] >= isa.IEqual && v.n(0, 3) == 0 {
			a["type"] = int64(isa.F32)
			floats(600)
		}
		nest("dst", "a", "b")
		// Divisors are not 0, and some operands are equal.
		sp := v.m.clusters[0].sp
		for i := range int64(1024) {
			if a["fn"] == isa.IDiv || a["fn"] == isa.IMod || a["fn"] == isa.IRem {
				sp[testSrc+1024+i] |= 1
			}
			if a["fn"] == isa.IEqual && v.n(0, 1) == 0 {
				sp[testSrc+i] = sp[testSrc+1024+i]
			}
		}
		if isa.DType(a["type"]) == isa.I8 {
			for i := range int64(1024) { // 0 is stored as 128
				sp[testSrc+1024+i] = sp[testSrc+1024+i]&0x7f | 1
			}
		}
	case isa.OpSelect:
		a["size"] = 1 << v.n(0, 3)
		nest("dst", "cond", "a", "b")
		for i := range int64(256) {
			v.m.clusters[0].sp[testSrc+2048+i] = byte(v.n(0, 1))
		}
	case isa.OpReduceI:
		a["fn"], a["type"] = v.n(0, isa.NumIReductions-1), pick(types)
		a["outer"], a["n"], a["inner"] = v.n(1, 4), v.n(1, 20), v.n(1, 4)
	case isa.OpGather, isa.OpGatherD:
		a["type"], a["axis"] = pick([]isa.DType{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64}), v.n(1, 30)
		a["n1"], a["n2"], a["len"] = v.n(1, 9), v.n(1, 3), v.n(1, 30)
		a["index"], a["index_s1"] = testParams, size("type")+8*v.n(0, 1)
		a["index_s1"] = (a["index_s1"] + size("type") - 1) / size("type") * size("type")
		a["src_s1"], a["src_s2"] = a["len"]+v.n(0, 2), 40*a["axis"]
		a["dst_s1"], a["dst_s2"] = a["len"]+v.n(0, 3), 40*a["n1"]
		s := state{sp: v.m.clusters[0].sp}
		for j := range a["n1"] {
			k := v.n(0, a["axis"]-1)
			if integerTypes[isa.DType(a["type"])].signed && v.n(0, 2) == 0 {
				k -= a["axis"]
			}
			s.setInteger(a["index"]+j*a["index_s1"], isa.DType(a["type"]), big.NewInt(k))
		}
	case isa.OpPick, isa.OpPut:
		index := "type"
		if op == isa.OpPut {
			index = "itype"
			a["fn"], a["type"] = v.n(0, isa.NumPuts-1), pick(append(types, isa.F32))
			if a["fn"] != isa.PutReplace && isa.DType(a["type"]) == isa.Bool {
				a["fn"] = isa.PutReplace
			}
			if isa.DType(a["type"]) == isa.F32 {
				floats(1024)
			}
		} else {
			a["size"] = 1 << v.n(0, 3)
		}
		a[index] = pick([]isa.DType{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64})
		a["outer"], a["n"], a["k"], a["inner"] = v.n(1, 3), v.n(1, 9), v.n(1, 9), v.n(1, 3)
		a["index"] = testParams
		s := state{sp: v.m.clusters[0].sp}
		for j := range a["outer"] * a["k"] * a["inner"] {
			k := v.n(0, a["n"]-1)
			if integerTypes[isa.DType(a[index])].signed && v.n(0, 2) == 0 {
				k -= a["n"]
			}
			s.setInteger(a["index"]+j*size(index), isa.DType(a[index]), big.NewInt(k))
		}
	case isa.OpTopK:
		a["type"], a["smallest"] = pick(append(types, isa.F32)), v.n(0, 1)
		a["outer"], a["n"], a["inner"] = v.n(1, 3), v.n(1, 20), v.n(1, 3)
		a["k"] = v.n(1, a["n"])
		sp := v.m.clusters[0].sp
		for i := range int64(512) { // equal elements, zeros of both signs, NaN
			switch v.n(0, 7) {
			case 0:
				copy(sp[testSrc+8*i:], sp[testSrc+8*(i/2):][:8])
			case 1:
				binary.LittleEndian.PutUint64(sp[testSrc+8*i:], 0x80000000_00000000)
			case 2:
				binary.LittleEndian.PutUint64(sp[testSrc+8*i:], 0xffc00000_7fc00001)
			}
		}
	case isa.OpStoreAcc:
		a["rows_y"], a["rows_x"], a["n"] = v.n(1, 4), v.n(1, 4), v.n(1, 70)
		a["acc_pitch"], a["acc"] = 4*(a["n"]+v.n(0, 3)), 4*v.n(0, 9)
		a["params"] = v.params(a["n"], true)
		a["dst_sx"] = 4 * (a["n"] + v.n(0, 2))
		a["dst_sy"] = a["rows_x"]*a["dst_sx"] + 4*v.n(0, 1)
	case isa.OpMatMulF:
		floats(4000)
		a["rows_y"], a["rows_x"], a["n"] = v.n(1, 3), v.n(1, 3), []int64{v.n(1, 9), v.n(60, 70)}[v.n(0, 1)]
		a["seg_ny"], a["seg_nx"], a["seg_len"] = v.n(1, 3), v.n(1, 2), v.n(1, 5)
		a["src"] = testSrc + 400
		a["src_sy"], a["src_sx"], a["seg_sy"], a["seg_sx"] = 4*v.n(0, 99), 4*v.n(0, 9), 4*v.n(-9, 30), 4*v.n(-2, 9)
		a["w"], a["w_s"] = testSrc+2400, 4*(a["n"]+v.n(0, 2))
		a["dst_sx"] = 4 * (a["n"] + v.n(0, 2))
		a["dst_sy"] = a["rows_x"]*a["dst_sx"] + 4*v.n(0, 1)
	}
}

// TestNumberFaults runs instructions that cannot be executed on the data they find.
func TestNumberFaults(t *testing.T) {
	chip := testchip.New(1, 1)
	m, err := New(testchip.Program(chip, make([]byte, 4096), 64), chip)
	if err != nil {
		t.Fatal(err)
	}
	c := m.clusters[0]
	index := func(x int32) { binary.LittleEndian.PutUint32(c.sp[testParams:], uint32(x)) }
	gather := []int64{testDst, 0, testParams, int64(isa.I32), 5, 1, 0, 0, 1, 0, 4, 8, 8}
	nest := []int64{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}
	binary := func(fn int64, t isa.DType) []int64 {
		return append([]int64{fn, int64(t), testDst, testSrc, testParams}, nest...)
	}
	for _, f := range []struct {
		op    isa.Op
		args  []int64
		index int32
		want  string
	}{
		{isa.OpGather, gather, 4, ""},
		{isa.OpGather, gather, -5, ""},
		{isa.OpGather, gather, 5, "index 5 is outside a dimension of 5 elements"},
		{isa.OpGatherD, gather, -6, "index -6 is outside a dimension of 5 elements"},
		{isa.OpGatherD, gather, 0, ""},
		{isa.OpBinaryI, binary(isa.IDiv, isa.I32), 0, "division by zero"},
		{isa.OpBinaryI, binary(isa.IDiv, isa.I32), -1, ""},
		{isa.OpBinaryI, binary(isa.IAdd, isa.F32), 1, "fn = 0"},
		{isa.OpBinaryI, binary(isa.ILess, isa.F32), 1, ""},
		{isa.OpBinaryI, binary(isa.NumIFns, isa.I32), 1, "fn = 14"},
		{isa.OpReduceI, []int64{isa.ISum, int64(isa.F32), testDst, testSrc, 1, 1, 1}, 1, "fn = 0"},
		{isa.OpPick, []int64{4, int64(isa.I32), testDst, testSrc, testParams, 1, 5, 1, 1}, -6, "index -6 is outside a dimension of 5 elements"},
		{isa.OpPick, []int64{4, int64(isa.F32), testDst, testSrc, testParams, 1, 5, 1, 1}, 0, "indices are integers"},
		{isa.OpPick, []int64{3, int64(isa.I32), testDst, testSrc, testParams, 1, 5, 1, 1}, 0, "size 3"},
		{isa.OpPick, []int64{4, int64(isa.I32), testDst, testDst, testParams, 1, 5, 1, 1}, 0, "overlaps an operand"},
		{isa.OpPut, []int64{0, int64(isa.I32), int64(isa.I32), testDst, testSrc, testParams, 1, 5, 1, 1}, 5, "index 5 is outside a dimension of 5 elements"},
		{isa.OpPut, []int64{isa.PutAdd, int64(isa.Bool), int64(isa.I32), testDst, testSrc, testParams, 1, 5, 1, 1}, 0, "fn = 1"},
		{isa.OpPut, []int64{isa.NumPuts, int64(isa.I32), int64(isa.I32), testDst, testSrc, testParams, 1, 5, 1, 1}, 0, "fn = 5"},
		{isa.OpTopK, []int64{int64(isa.F32), testDst, testSrc, 3, 0, 1, 2, 1}, 0, "k = 3 of n = 2"},
		{isa.OpQuantW, []int64{int64(isa.I32), testDst, testSrc, 1, 0, 0, 1, 0, 0, 1, 0x3f800000, 0}, 1, "codes of i32"},
		{isa.OpQuantW, []int64{int64(isa.I16), testDst, testSrc, 1, 0, 0, 1, 0, 0, 1, 0, 0}, 1, "scale = 0"},
		{isa.OpDequantW, []int64{int64(isa.U8), testDst, testSrc, 1, 0, 0, 1, 0, 0, 1, 0x3f800000, 0}, 1, "codes of u8"},
	} {
		index(f.index)
		err := c.exec(f.op, f.args)
		if f.want == "" && err != nil || f.want != "" && (err == nil || !strings.Contains(err.Error(), f.want)) {
			t.Errorf("%s with %d: %v, want %q", f.op, f.index, err, f.want)
		}
	}
}
