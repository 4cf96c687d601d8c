package functional

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"situ/backend/pim/isa"
	"situ/emulator/internal/testchip"
)

// state is a naive cluster: every instruction below is written from its table
// row, one element at a time, without the packages the emulator uses.
type state struct {
	sp     []byte
	acc    []int32
	consts []byte
}

func (s *state) i32(at int64) int64 { return int64(int32(binary.LittleEndian.Uint32(s.sp[at:]))) }
func (s *state) f32(at int64) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(s.sp[at:]))
}
func (s *state) setF32(at int64, x float32) {
	binary.LittleEndian.PutUint32(s.sp[at:], math.Float32bits(x))
}

// roundDiv returns x / 2^shift rounded half to even, with big integers.
func roundDiv(x int64, shift int64) int64 {
	r := new(big.Rat).SetFrac(big.NewInt(x), new(big.Int).Lsh(big.NewInt(1), uint(shift)))
	half := new(big.Rat).Add(r, big.NewRat(1, 2))
	q := new(big.Int).Div(half.Num(), half.Denom()) // floor
	if half.IsInt() && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q.Int64()
}

func clamp(x, lo, hi int64) byte { return byte(min(max(x, lo), hi)) }

type arg func(name string) int64

// naive executes one instruction.
func (s *state) naive(op isa.Op, a []int64) {
	names := map[string]int64{}
	for i, o := range op.Info().Operands {
		names[o.Name] = a[i]
	}
	g := func(name string) int64 {
		v, ok := names[name]
		if !ok {
			panic(op.String() + " has no " + name)
		}
		return v
	}
	f := func(name string) float32 { return math.Float32frombits(uint32(g(name))) }
	// each calls do for every run and element of an n2 × n1 × len access.
	each := func(do func(i2, i1, j int64)) {
		for i2 := range g("n2") {
			for i1 := range g("n1") {
				for j := range g("len") {
					do(i2, i1, j)
				}
			}
		}
	}
	at := func(x string, i2, i1, j int64) int64 { return g(x) + i2*g(x+"_s2") + i1*g(x+"_s1") + j }
	requantised := func(v int64, ch, n int64) byte {
		p := g("params")
		v = int64(int32(v + s.i32(p+4*ch)))
		return clamp(g("zero")+roundDiv(v*s.i32(p+4*n+4*ch), s.i32(p+8*n+4*ch)), g("lo"), g("hi"))
	}
	switch op {
	case isa.OpFill:
		for i2 := range g("n2") {
			for i1 := range g("n1") {
				for j := range g("len") {
					s.sp[g("dst")+i2*g("dst_s2")+i1*g("dst_s1")+j] = byte(g("value"))
				}
			}
		}
	case isa.OpCopy:
		for i3 := range g("n3") {
			each(func(i2, i1, j int64) {
				s.sp[at("dst", i2, i1, j)+i3*g("dst_s3")] = s.sp[at("src", i2, i1, j)+i3*g("src_s3")]
			})
		}
	case isa.OpAdd, isa.OpMul:
		each(func(i2, i1, j int64) {
			x := int64(s.sp[at("a", i2, i1, j)]) - g("za")
			y := int64(s.sp[at("b", i2, i1, j*g("b_step"))]) - g("zb")
			if op == isa.OpAdd {
				x = x*g("ma") + y*g("mb")
			} else {
				x = x * y * g("m")
			}
			s.sp[at("dst", i2, i1, j)] = clamp(g("zy")+roundDiv(x, g("shift")), g("lo"), g("hi"))
		})
	case isa.OpLUT:
		each(func(i2, i1, j int64) {
			s.sp[at("dst", i2, i1, j)] = s.sp[g("table")+int64(s.sp[at("src", i2, i1, j)])]
		})
	case isa.OpMVM:
		s.mvm(g)
	case isa.OpRequant, isa.OpDequantAcc:
		for y := range g("rows_y") {
			for x := range g("rows_x") {
				for ch := range g("n") {
					v := int64(s.acc[g("acc")/4+(y*g("rows_x")+x)*g("acc_pitch")/4+ch])
					to := g("dst") + y*g("dst_sy") + x*g("dst_sx")
					if op == isa.OpRequant {
						s.sp[to+ch] = requantised(v, ch, g("n"))
					} else {
						v = int64(int32(v + s.i32(g("params")+4*ch)))
						s.setF32(to+4*ch, float32(v)*s.f32(g("params")+4*g("n")+4*ch))
					}
				}
			}
		}
	case isa.OpShlAcc:
		for i := range g("n") {
			s.acc[g("acc")/4+i] *= 1 << g("by")
		}
	case isa.OpBiasAcc:
		for i := range g("n") {
			binary.LittleEndian.PutUint32(s.sp[g("dst")+4*i:], uint32(s.i32(g("bias")+4*i)-int64(s.acc[g("acc")/4+i])))
		}
	case isa.OpDot:
		s.dot(g)
	case isa.OpMaxPool, isa.OpAvgPool:
		s.pool(op, g)
	case isa.OpDepthwise:
		for y := range g("out_h") {
			for x := range g("out_w") {
				for ch := range g("c") {
					v := int64(0)
					for ky := range g("kh") {
						for kx := range g("kw") {
							at := g("src") + (y*g("stride_h")+ky*g("dil_h"))*g("src_sy") + (x*g("stride_w")+kx*g("dil_w"))*g("src_sx") + ch
							v += int64(s.sp[at]) * int64(int8(s.sp[g("w")+(ky*g("kw")+kx)*g("c")+ch]))
						}
					}
					s.sp[g("dst")+y*g("dst_sy")+x*g("dst_sx")+ch] = requantised(v, ch, g("c"))
				}
			}
		}
	case isa.OpSoftmax:
		s.softmax(g)
	case isa.OpNorm:
		s.norm(g)
	case isa.OpMulAdd:
		for i3 := range g("n3") {
			for i2 := range g("n2") {
				for i1 := range g("n1") {
					for i0 := range g("n0") {
						at := func(x string) int64 {
							return g(x) + i3*g(x+"_s3") + i2*g(x+"_s2") + i1*g(x+"_s1") + i0*g(x+"_s0")
						}
						less := func(x string) int64 { return int64(s.sp[at(x)]) - g("z"+x) }
						v := less("a")*less("b")*g("mab") + less("c")*less("d")*g("mcd")
						s.sp[at("dst")] = clamp(g("zy")+roundDiv(v, g("shift")), g("lo"), g("hi"))
					}
				}
			}
		}
	case isa.OpQuant:
		each(func(i2, i1, j int64) {
			q := math.RoundToEven(float64(s.f32(at("src", i2, i1, 4*j))/f("scale"))) + float64(g("zero"))
			s.sp[at("dst", i2, i1, j)] = byte(min(max(q, 0), 255))
		})
	case isa.OpDequant:
		each(func(i2, i1, j int64) {
			s.setF32(at("dst", i2, i1, 4*j), float32(int64(s.sp[at("src", i2, i1, j)])-g("zero"))*f("scale"))
		})
	case isa.OpUnaryF:
		for i := range g("n") {
			x := float64(s.f32(g("src") + 4*i))
			s.setF32(g("dst")+4*i, float32(1/(1+math.Exp(-x)))) // the test uses fn = sigmoid
		}
	case isa.OpBinaryF:
		for i3 := range g("n3") {
			for i2 := range g("n2") {
				for i1 := range g("n1") {
					for i0 := range g("n0") {
						at := func(x string) int64 {
							return g(x) + i3*g(x+"_s3") + i2*g(x+"_s2") + i1*g(x+"_s1") + i0*g(x+"_s0")
						}
						s.setF32(at("dst"), s.f32(at("a"))-s.f32(at("b"))) // fn = sub
					}
				}
			}
		}
	case isa.OpSoftmaxF, isa.OpLRNF, isa.OpReduceF:
		s.middle(op, g, f)
	default:
		s.naiveNumber(op, g, f)
	}
}

func (s *state) mvm(g arg) {
	const rows = 16
	cols := int64(8)
	if g("wbits") == 4 {
		cols = 16
	}
	const shiftRows = 8
	k := g("seg_nz") * g("seg_ny") * g("seg_nx") * g("seg_len")
	ktiles := (g("row0") + k + rows - 1) / rows
	tile := rows * cols * g("wbits") / 8
	if g("shifts") == 1 {
		tile += rows / shiftRows * cols
	}
	per := cols
	if g("n_sstep") != 0 {
		per = g("n") / g("ntiles")
	}
	weight := func(k, c int64) int64 {
		k += g("row0")
		here := s.consts[((c/per)*ktiles+k/rows)*tile:][:tile] // from the start of the constants
		i, shift := k%rows*cols+c%per, 0
		if g("shifts") == 1 {
			shift = int(here[rows*cols*g("wbits")/8+k%rows/shiftRows*cols+c%per] % 8)
		}
		if g("wbits") == 8 {
			return int64(int8(here[i])) << shift
		}
		return int64(int8(here[i/2]>>(4*(i%2))<<4)>>4) << shift
	}
	for y := range g("rows_y") {
		for x := range g("rows_x") {
			for c := range g("n") {
				sum, k := int64(0), int64(0)
				for sz := range g("seg_nz") {
					for sy := range g("seg_ny") {
						for sx := range g("seg_nx") {
							for j := range g("seg_len") {
								at := g("src") + y*g("row_sy") + x*g("row_sx") + sz*g("seg_sz") + sy*g("seg_sy") + sx*g("seg_sx") + j + c/per*g("n_sstep")
								sum += int64(s.sp[at]) * weight(k, c)
								k++
							}
						}
					}
				}
				to := g("acc")/4 + (y*g("rows_x")+x)*g("n") + c
				if g("accumulate") == 1 {
					sum += int64(s.acc[to])
				}
				s.acc[to] = int32(sum)
			}
		}
	}
}

func (s *state) pool(op isa.Op, g arg) {
	for y := range g("out_h") {
		for x := range g("out_w") {
			for ch := range g("c") {
				greatest, sum, count := byte(0), int64(0), int64(0)
				for ky := range g("kh") {
					for kx := range g("kw") {
						r, c := g("y0")+y*g("stride_h")+ky*g("dil_h"), g("x0")+x*g("stride_w")+kx*g("dil_w")
						inside := r >= 0 && r < g("in_h") && c >= 0 && c < g("in_w")
						if inside {
							v := s.sp[g("src")+r*g("src_sy")+c*g("src_sx")+ch]
							greatest = max(greatest, v)
							if op == isa.OpAvgPool {
								sum += int64(v) - g("zx")
							}
						}
						if op == isa.OpAvgPool && r >= -g("pad_t") && r < g("in_h")+g("pad_b") && c >= -g("pad_l") && c < g("in_w")+g("pad_r") {
							count++
						}
					}
				}
				v := greatest
				if op == isa.OpAvgPool {
					entries, entry := int64(1), int64(0)
					if g("per_count") == 1 {
						entries, entry = g("kh")*g("kw"), max(count, 1)-1
					}
					p := g("params")
					v = clamp(g("zy")+roundDiv(sum*s.i32(p+4*entry), s.i32(p+4*entries+4*entry)), g("lo"), g("hi"))
				}
				s.sp[g("dst")+y*g("dst_sy")+x*g("dst_sx")+ch] = v
			}
		}
	}
}

func (s *state) softmax(g arg) {
	p := s.sp[g("params"):]
	le := binary.LittleEndian
	for r := range g("rows") {
		row := slices.Clone(s.sp[g("src")+r*g("n"):][:g("n")])
		t := func(q byte) uint64 { return uint64(le.Uint32(p[4*int(slices.Max(row)-q):])) }
		sum := uint64(0)
		for _, q := range row {
			sum += t(q)
		}
		for i, q := range row {
			// round(t·C / (sum·2^14)) half to even, with rationals
			num := new(big.Int).Mul(new(big.Int).SetUint64(t(q)), new(big.Int).SetUint64(le.Uint64(p[1024:])))
			v := new(big.Rat).SetFrac(num, new(big.Int).Lsh(new(big.Int).SetUint64(sum), 14))
			half := new(big.Rat).Add(v, big.NewRat(1, 2))
			q := new(big.Int).Div(half.Num(), half.Denom())
			if half.IsInt() && q.Bit(0) == 1 {
				q.Sub(q, big.NewInt(1))
			}
			s.sp[g("dst")+r*g("n")+int64(i)] = clamp(q.Int64()+int64(int32(le.Uint32(p[1032:]))), int64(p[1036]), int64(p[1037]))
		}
	}
}

// norm follows the table row's definition with integers of any size.
func (s *state) norm(g arg) {
	le, p, n := binary.LittleEndian, s.sp[g("params"):], g("n")
	big1 := func(v int64) *big.Int { return big.NewInt(v) }
	round := func(v *big.Int, shift uint) int64 { // v / 2^shift, half to even
		x := new(big.Rat).SetFrac(v, new(big.Int).Lsh(big1(1), shift))
		half := new(big.Rat).Add(x, big.NewRat(1, 2))
		q := new(big.Int).Div(half.Num(), half.Denom())
		if half.IsInt() && q.Bit(0) == 1 {
			q.Sub(q, big1(1))
		}
		return q.Int64()
	}
	for r := range g("rows") {
		row := slices.Clone(s.sp[g("src")+r*n:][:n])
		sum, square := int64(0), int64(0)
		for _, q := range row {
			d := int64(q) - int64(int32(le.Uint32(p[8:])))
			sum, square = sum+d, square+d*d
		}
		if p[19] != 0 {
			sum = 0
		}
		d := new(big.Int).Lsh(big1(n*square-sum*sum), 12)
		d.Add(d, new(big.Int).SetUint64(le.Uint64(p)))
		inverse, half := int64(0), uint(0)
		if d.Sign() > 0 {
			for d.BitLen() < 61 {
				d.Lsh(d, 2)
				half++
			}
			inverse = new(big.Int).Div(big1(1<<61), new(big.Int).Sqrt(d)).Int64()
		}
		for j, q := range row {
			h := round(big1((n*(int64(q)-int64(int32(le.Uint32(p[8:]))))-sum)*inverse), 35-half)
			v := new(big.Int).Mul(big1(h), big1(int64(int32(le.Uint32(p[24+4*j:])))))
			v.Add(v, new(big.Int).Lsh(big1(int64(int32(le.Uint32(p[24+4*n+4*int64(j):])))), 20))
			s.sp[g("dst")+r*n+int64(j)] = clamp(round(v, uint(p[16]))+int64(int32(le.Uint32(p[12:]))), int64(p[17]), int64(p[18]))
		}
	}
}

// middle is the float functions along the middle of three dimensions.
func (s *state) middle(op isa.Op, g arg, f func(string) float32) {
	along := "n"
	if op == isa.OpLRNF {
		along = "c"
	}
	n, inner := g(along), g("inner")
	for o := range g("outer") {
		for i := range inner {
			x := func(k int64) float64 { return float64(s.f32(g("src") + 4*((o*n+k)*inner+i))) }
			set := func(k int64, v float64) { s.setF32(g("dst")+4*((o*n+k)*inner+i), float32(v)) }
			switch op {
			case isa.OpReduceF: // fn = mean
				sum := 0.0
				for k := range n {
					sum += x(k)
				}
				s.setF32(g("dst")+4*(o*inner+i), float32(sum/float64(n)))
			case isa.OpSoftmaxF:
				top, sum := math.Inf(-1), 0.0
				for k := range n {
					top = max(top, x(k))
				}
				for k := range n {
					sum += math.Exp(x(k) - top)
				}
				for k := range n {
					if g("log") == 1 {
						set(k, x(k)-top-math.Log(sum))
					} else {
						set(k, math.Exp(x(k)-top)/sum)
					}
				}
			case isa.OpLRNF:
				for k := range n {
					sum := 0.0
					for j := max(0, k-(g("size")-1)/2); j <= min(n-1, k+g("size")/2); j++ {
						sum += x(j) * x(j)
					}
					set(k, x(k)/math.Pow(float64(f("bias"))+float64(float64(f("alpha"))/float64(g("size"))*sum), float64(f("beta"))))
				}
			}
		}
	}
}

// values draws operands for one execution of an instruction: everything small,
// strides that may leave gaps, sources in the lower half of the scratchpad,
// results in the upper one.
type values struct {
	rng *rand.Rand
	m   *Machine
}

func (v *values) n(lo, hi int64) int64 { return lo + v.rng.Int64N(hi-lo+1) }

const (
	testSrc    = 4096  // sources from here
	testParams = 24576 // parameter blocks from here
	testDst    = 40960 // results from here
)

// params writes n biases (unless none), multipliers and shifts at testParams.
func (v *values) params(n int64, biases bool) int64 {
	at := int64(testParams)
	put := func(x int32) {
		binary.LittleEndian.PutUint32(v.m.clusters[0].sp[at:], uint32(x))
		at += 4
	}
	if biases {
		for range n {
			put(int32(v.n(-5000, 5000)))
		}
	}
	for range n {
		put(int32(v.n(1<<30, 1<<31-1)))
	}
	for range n {
		put(int32(v.n(34, 44)))
	}
	return testParams
}

// strided fills the operands of an n2 × n1 × len access with elements of the
// given sizes for each name.
func (v *values) strided(a map[string]int64, size map[string]int64) {
	a["n2"], a["n1"], a["len"] = v.n(1, 4), v.n(1, 4), v.n(1, 40)
	for name, bytes := range size {
		gap := v.n(0, 2)
		if v.n(0, 1) == 0 {
			gap = 0 // runs that can be merged
		}
		a[name+"_s1"] = a["len"]*bytes + 4*gap
		a[name+"_s2"] = a["n1"]*a[name+"_s1"] + 4*v.n(0, 1)*gap
		a[name] = testSrc + 4*v.n(0, 99)
		if name == "dst" {
			a[name] = testDst + 4*v.n(0, 99)
		}
	}
	if _, float := a["float"]; !float && v.n(0, 3) == 0 && size["b"] == 0 {
		a["len"] = []int64{1, 4}[v.n(0, 1)]
	}
}

func (v *values) draw(op isa.Op) map[string]int64 {
	a := map[string]int64{"zero": v.n(0, 255), "hi": v.n(128, 255), "lo": v.n(0, 127), "zx": v.n(0, 255), "zy": v.n(0, 255),
		"za": v.n(0, 255), "zb": v.n(0, 255), "dst": testDst + 4*v.n(0, 9), "src": testSrc + 4*v.n(0, 9)}
	floats := func(count int64) {
		for i := range count {
			binary.LittleEndian.PutUint32(v.m.clusters[0].sp[testSrc+4*i:], math.Float32bits(float32(v.rng.NormFloat64())))
		}
	}
	switch op {
	case isa.OpFill:
		v.strided(a, map[string]int64{"dst": 1})
		a["value"] = v.n(0, 255)
	case isa.OpCopy:
		v.strided(a, map[string]int64{"dst": 1, "src": 1})
		a["n3"], a["dst_s3"], a["src_s3"] = v.n(1, 3), 2000, 1000
	case isa.OpAdd:
		v.strided(a, map[string]int64{"dst": 1, "a": 1, "b": 1})
		a["ma"], a["mb"], a["shift"], a["b_step"] = v.n(1, 1<<21), v.n(-1<<20, 1<<21), v.n(10, 24), v.n(0, 1)
	case isa.OpMul:
		v.strided(a, map[string]int64{"dst": 1, "a": 1, "b": 1})
		a["m"], a["shift"], a["b_step"] = v.n(1<<30, 1<<31-1), v.n(30, 40), v.n(0, 1)
	case isa.OpLUT:
		v.strided(a, map[string]int64{"dst": 1, "src": 1})
		a["table"] = testParams
	case isa.OpMVM:
		v.mvm(a)
	case isa.OpRequant, isa.OpDequantAcc:
		a["rows_y"], a["rows_x"], a["n"] = v.n(1, 4), v.n(1, 4), v.n(1, 70)
		a["acc_pitch"], a["acc"] = 4*(a["n"]+v.n(0, 3)), 4*v.n(0, 9)
		a["params"] = v.params(a["n"], true)
		size := int64(1)
		if op == isa.OpDequantAcc {
			size = 4
		}
		a["dst_sx"] = size*a["n"] + 4*v.n(0, 2)
		a["dst_sy"] = a["rows_x"]*a["dst_sx"] + 4*v.n(0, 1)
	case isa.OpMaxPool, isa.OpAvgPool, isa.OpDepthwise:
		v.window(op, a)
	case isa.OpShlAcc:
		a["n"], a["acc"], a["by"] = v.n(1, 70), 4*v.n(0, 9), v.n(1, 31)
	case isa.OpBiasAcc:
		a["n"], a["acc"], a["bias"] = v.n(1, 70), 4*v.n(0, 9), testParams
	case isa.OpDot:
		v.dot(a)
	case isa.OpSoftmax:
		a["rows"], a["n"], a["params"] = v.n(1, 3), v.n(1, 600), testParams
		p := v.m.clusters[0].sp[testParams:]
		for d := range 256 {
			binary.LittleEndian.PutUint32(p[4*d:], uint32(math.RoundToEven(math.Exp(-float64(d)*0.05)*(1<<30))))
		}
		binary.LittleEndian.PutUint64(p[1024:], 1<<22)
		binary.LittleEndian.PutUint32(p[1032:], uint32(v.n(0, 20)))
		p[1036], p[1037] = byte(v.n(0, 5)), byte(v.n(200, 255))
	case isa.OpMulAdd:
		a["a"], a["b"], a["c"], a["d"] = testSrc, testSrc+400, testSrc+900, testSrc+1400
		step := int64(1)
		if v.n(0, 2) == 0 {
			step = 2
		}
		for _, d := range []string{"0", "1", "2", "3"} {
			a["n"+d] = v.n(1, 4)
			a["dst_s"+d] = step
			a["a_s"+d], a["b_s"+d], a["c_s"+d], a["d_s"+d] = step*v.n(0, 1), v.n(0, 3), step, v.n(0, 1)
			step *= a["n"+d]
		}
		a["mab"], a["mcd"], a["shift"] = v.n(-1<<30, 1<<30), v.n(-1<<30, 1<<30), v.n(30, 44)
		a["zc"], a["zd"] = v.n(0, 255), v.n(0, 255)
	case isa.OpNorm:
		a["rows"], a["n"], a["params"] = v.n(1, 3), v.n(1, 300), testParams
		p := v.m.clusters[0].sp[testParams:]
		binary.LittleEndian.PutUint64(p, uint64(v.n(0, 1)*v.n(0, 1<<40)))
		binary.LittleEndian.PutUint32(p[8:], uint32(v.n(0, 255)))
		binary.LittleEndian.PutUint32(p[12:], uint32(v.n(0, 255)))
		p[16], p[17], p[18], p[19] = byte(v.n(42, 48)), byte(v.n(0, 5)), byte(v.n(200, 255)), byte(v.n(0, 1))
		for j := range 2 * a["n"] {
			binary.LittleEndian.PutUint32(p[24+4*j:], uint32(v.n(-1<<30, 1<<30)))
		}
	case isa.OpQuant:
		floats(4096)
		a["float"] = 1
		v.strided(a, map[string]int64{"dst": 1, "src": 4})
		a["scale"] = int64(math.Float32bits(0.037))
	case isa.OpDequant:
		a["float"] = 1
		v.strided(a, map[string]int64{"dst": 4, "src": 1})
		a["scale"] = int64(math.Float32bits(0.037))
	case isa.OpUnaryF:
		floats(100)
		a["fn"], a["n"], a["src"] = 3, v.n(1, 90), testSrc
	case isa.OpBinaryF:
		floats(2048)
		a["fn"], a["a"], a["b"] = 1, testSrc, testSrc+400
		step := int64(4)
		for _, d := range []string{"0", "1", "2", "3"} {
			a["n"+d] = v.n(1, 4)
			a["dst_s"+d] = step
			a["a_s"+d], a["b_s"+d] = step*v.n(0, 1), 4*v.n(0, 3)
			step *= a["n"+d]
		}
	case isa.OpSoftmaxF, isa.OpLRNF, isa.OpReduceF:
		floats(2048)
		a["src"], a["fn"], a["log"] = testSrc, 1, v.n(0, 1)
		a["outer"], a["inner"], a["n"], a["c"], a["size"] = v.n(1, 4), v.n(1, 4), v.n(1, 20), v.n(1, 20), v.n(1, 6)
		a["alpha"], a["beta"], a["bias"] = int64(math.Float32bits(0.01)), int64(math.Float32bits(0.75)), int64(math.Float32bits(1))
	default:
		v.drawNumber(op, a, floats)
	}
	return a
}

func (v *values) mvm(a map[string]int64) {
	a["wbits"] = []int64{4, 8}[v.n(0, 1)]
	cols := map[int64]int64{4: 16, 8: 8}[a["wbits"]]
	a["seg_nz"], a["seg_ny"], a["seg_nx"] = v.n(1, 2), v.n(1, 3), v.n(1, 3)
	a["seg_len"] = []int64{v.n(1, 9), 4 * v.n(1, 5), v.n(1, 60), v.n(500, 700)}[v.n(0, 3)]
	if a["seg_len"] > 100 {
		a["seg_nz"], a["seg_ny"], a["seg_nx"] = 1, 1, v.n(1, 2)
	}
	a["seg_sx"] = a["seg_len"] + v.n(0, 1)*v.n(0, 3)
	a["seg_sy"] = a["seg_nx"]*a["seg_sx"] + v.n(0, 1)*v.n(0, 5)
	a["seg_sz"] = a["seg_ny"]*a["seg_sy"] + v.n(0, 2)
	a["rows_y"], a["row_sy"], a["rows_x"], a["row_sx"] = v.n(1, 5), v.n(-9, 300), v.n(1, 9), v.n(0, 30)
	a["ksplit"], a["rsplit"], a["ntiles"] = []int64{1, 2, 4}[v.n(0, 2)], 1, 1
	a["ntiles"] = v.n(1, 4/a["ksplit"])
	if a["ksplit"]*a["ntiles"] <= 2 {
		a["rsplit"] = v.n(1, 2)
	}
	a["n"] = v.n((a["ntiles"]-1)*cols+1, a["ntiles"]*cols)
	if v.n(0, 2) == 0 {
		a["n_sstep"] = v.n(1, 20)
		a["n"] = a["ntiles"] * v.n(1, cols)
	}
	a["accumulate"] = v.n(0, 1)
	a["acc"] = 4 * v.n(0, 20)
	a["ws"] = 128 * v.n(0, 2)
	if a["rows_y"]*a["rows_x"]*a["n"] > 4000 {
		a["rows_y"] = 1
	}
	// The weights it wants.
	a["row0"], a["shifts"] = []int64{0, v.n(0, 15)}[v.n(0, 1)], v.n(0, 1)
	k := a["row0"] + a["seg_nz"]*a["seg_ny"]*a["seg_nx"]*a["seg_len"]
	load := []int64{a["ws"], 0, (k + 15) / 16, a["ntiles"], a["ksplit"], a["rsplit"], a["wbits"], 0, 1, a["shifts"]}
	if err := v.m.clusters[0].exec(isa.OpLoadW, load); err != nil {
		panic(err)
	}
}

func (v *values) window(op isa.Op, a map[string]int64) {
	a["out_h"], a["out_w"], a["c"] = v.n(1, 5), v.n(1, 5), v.n(1, 40)
	a["kh"], a["kw"], a["stride_h"], a["stride_w"] = v.n(1, 4), v.n(1, 4), v.n(1, 3), v.n(1, 3)
	a["dil_h"], a["dil_w"] = v.n(1, 2), v.n(1, 2)
	a["in_h"], a["in_w"] = v.n(1, 9), v.n(1, 9)
	a["y0"], a["x0"] = v.n(-8, 1), v.n(-3, 1)
	a["src_sx"] = a["c"] + v.n(0, 3)
	a["src_sy"] = 20*a["src_sx"] + v.n(0, 3)
	a["dst_sx"] = a["c"] + v.n(0, 3)
	a["dst_sy"] = a["out_w"]*a["dst_sx"] + v.n(0, 3)
	for _, pad := range []string{"pad_t", "pad_l", "pad_b", "pad_r"} {
		a[pad] = v.n(0, 3)
	}
	a["per_count"] = v.n(0, 1)
	switch op {
	case isa.OpAvgPool:
		n := int64(1)
		if a["per_count"] == 1 {
			n = a["kh"] * a["kw"]
		}
		a["params"] = v.params(n, false)
	case isa.OpDepthwise:
		a["params"] = v.params(a["c"], true)
		a["w"] = testParams + 2048
	}
}

// TestInstructions compares every instruction with its naive definition, over
// the whole of the memories.
func TestInstructions(t *testing.T) {
	chip := testchip.New(1, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	consts := make([]byte, 1<<16)
	for i := range consts {
		consts[i] = byte(rng.Uint32())
	}
	p := testchip.Program(chip, consts, 64)
	for op := isa.OpInvalid + 1; op.Known(); op++ {
		if functions[op] == nil {
			if op.Info().Unit != isa.UnitCtrl {
				t.Errorf("%s has no function", op)
			}
			continue
		}
		switch op {
		case isa.OpLoad, isa.OpStore, isa.OpSend, isa.OpLoadW, isa.OpStoreW, isa.OpLoadA:
			continue // see TestMoves and TestStoredWeights; mvm loads its weights
		}
		t.Run(op.String(), func(t *testing.T) {
			m, err := New(p, chip)
			if err != nil {
				t.Fatal(err)
			}
			c := m.clusters[0]
			for trial := range 120 {
				for i := range c.sp {
					c.sp[i] = byte(rng.Uint32())
				}
				for i := range c.acc {
					c.acc[i] = int32(rng.Uint32()) >> 8
				}
				v := &values{rng: rng, m: m}
				named := v.draw(op)
				var args []int64
				for _, o := range op.Info().Operands {
					args = append(args, named[o.Name])
				}
				want := state{slices.Clone(c.sp), slices.Clone(c.acc), consts}
				in := isa.Inst{Op: op, Args: args}
				if err := c.exec(op, args); err != nil {
					t.Fatalf("%s: %v", isa.AppendInst(nil, &in), err)
				}
				want.naive(op, args)
				if i := firstDiff(c.sp, want.sp); i >= 0 {
					t.Fatalf("trial %d: %s\nscratchpad byte %d is %d, want %d", trial, isa.AppendInst(nil, &in), i, c.sp[i], want.sp[i])
				}
				if !slices.Equal(c.acc, want.acc) {
					t.Fatalf("trial %d: %s\naccumulators differ", trial, isa.AppendInst(nil, &in))
				}
			}
		})
	}
}

func firstDiff(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestMoves runs load, send and store with strides through two clusters, with a
// loop over an address register.
func TestMoves(t *testing.T) {
	chip := testchip.New(1, 2)
	consts := []byte("0123456789abcdef")
	p := testchip.Program(chip, consts, 64)
	p.Inputs = []isa.IO{{Name: "x", DType: isa.I8, Shape: []int{4}, Addr: 16}}
	p.Outputs = []isa.IO{{Name: "y", DType: isa.U8, Shape: []int{16}, Addr: 32}, {Name: "z", DType: isa.I8, Shape: []int{4}, Addr: 48}}
	s0, s1 := &p.Main[0], &p.Main[1]
	testchip.Emit(s0, isa.OpSet, 1, 0)
	testchip.Emit(s0, isa.OpSet, 2, 0)
	testchip.Emit(s0, isa.OpLoop, 2)
	// rows of 2 bytes, 4 apart, from the constants: "01", "45", then "89", "cd"
	testchip.Emit(s0, isa.OpLoad, isa.Addr(100, 1), isa.Addr(0, 2), 1, 0, 0, 2, 2, 4, 2)
	testchip.Emit(s0, isa.OpAddi, 1, 4)
	testchip.Emit(s0, isa.OpAddi, 2, 8)
	testchip.Emit(s0, isa.OpNext)
	testchip.Emit(s0, isa.OpLoad, 200, 16, 1, 0, 0, 1, 0, 0, 4)
	testchip.Emit(s0, isa.OpSend, 300, 100, 1, 0, 0, 8, -1, 1, 1, 0, 2) // backwards
	testchip.Emit(s0, isa.OpSend, 400, 200, 1, 0, 0, 1, 0, 0, 4, 1, 1)
	testchip.Emit(s0, isa.OpBarrier, 1, 0, 2)
	testchip.Emit(s1, isa.OpFill, 280, 1, 0, 1, 0, 13, '.')
	testchip.Emit(s1, isa.OpBarrier, 1, 0, 2)
	testchip.Emit(s1, isa.OpStore, 32, 290, 1, 0, 0, 1, 0, 0, 16)
	testchip.Emit(s1, isa.OpStore, 48, 400, 1, 0, 0, 1, 0, 0, 4)
	if err := isa.Validate(p); err != nil {
		t.Fatal(err)
	}
	m, err := New(p, chip)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		out, err := m.Run(context.Background(), [][]byte{{1, 2, 0xff, 0x80}})
		if err != nil {
			t.Fatal(err)
		}
		if want := "...dc985410"; !strings.HasPrefix(string(out[0]), want) {
			t.Fatalf("output is %q, want %q", out[0], want)
		}
		if want := []byte{1, 2, 0xff, 0x80}; !bytes.Equal(out[1], want) {
			t.Fatalf("int8 codes come back as %v, want %v", out[1], want)
		}
	}
}

// TestFaults gives programs that err at run time.
func TestFaults(t *testing.T) {
	chip := testchip.New(1, 2)
	mvm := func(ws, rows, segLen, acc int64) []int64 {
		return []int64{acc, ws, 0, rows, 16, 1, 0, 1, 0, 1, 0, 1, 0, segLen, 1, 1, 1, 0, 8, 8, 0, 0, 0}
	}
	for _, c := range []struct {
		want string
		op   isa.Op
		args []int64
	}{
		{"scratchpad, which has 65536", isa.OpFill, []int64{65536, 1, 0, 1, 0, 1, 0}},
		{"scratchpad, which has 65536", isa.OpFill, []int64{0, 1 << 20, 1 << 40, 1, 0, 1, 0}},
		{"scratchpad, which has 65536", isa.OpFill, []int64{0, 1, 0, 2, -1, 1, 0}},
		{"asks for the work", isa.OpFill, []int64{0, 1 << 40, 0, 1 << 40, 0, 1, 0}},
		{"DRAM, which has", isa.OpLoad, []int64{0, 1 << 40, 1, 0, 0, 1, 0, 0, 4}},
		{"partly in the", isa.OpLoad, []int64{0, 1020, 1, 0, 0, 1, 0, 0, 8}},
		{"are constants", isa.OpStore, []int64{0, 0, 1, 0, 0, 1, 0, 0, 4}},
		{"receiving scratchpad", isa.OpSend, []int64{65535, 0, 1, 0, 0, 1, 0, 0, 2, 0, 2}},
		{"not all constants", isa.OpLoadW, []int64{0, 1024, 1, 1, 1, 1, 8, 0, 1, 0}},
		{"receiving weight SRAM", isa.OpLoadW, []int64{16384, 0, 1, 1, 1, 1, 8, 0, 1, 0}},
		{"multiple of 4", isa.OpShlAcc, []int64{2, 1, 4}},
		{"row0 = 16, an array has 16 rows", isa.OpMVM, append(mvm(0, 1, 16, 0)[:isa.MVMRow0], 16, 0)},
		{"needs 8 cores", isa.OpLoadW, []int64{0, 0, 1, 4, 1, 2, 8, 0, 1, 0}},
		{"no weights have been loaded", isa.OpMVM, mvm(0, 1, 16, 0)},
		{"weight SRAM, which has", isa.OpMVM, mvm(16384, 1, 16, 0)},
		{"accumulators, which has 16384", isa.OpMVM, mvm(0, 1, 16, 16384)},
		{"multiple of 4", isa.OpMVM, mvm(0, 1, 16, 2)},
		{"shift outside", isa.OpRequant, []int64{0, 0, 64, 1, 0, 1, 0, 4, 16, 0, 0, 255}},
		{"multiple of 4", isa.OpUnaryF, []int64{0, 0, 2, 1, 0, 0}},
		{"fn = 200", isa.OpUnaryF, []int64{200, 0, 4, 1, 0, 0}},
		{"table starts with 0", isa.OpSoftmax, []int64{0, 0, 1, 1, 64}},
		{"overlap", isa.OpLRNF, []int64{0, 4, 1, 4, 1, 1, 0, 0, 0}},
		{"above 2^24", isa.OpMaxPool, []int64{0, 0, 1 << 30, 1, 1, 0, 0, 0, 0, 1, 1, 1 << 40, 1, 1, 1, 0, 0, 1, 1}},
		{"wait for each other", isa.OpBarrier, []int64{1, 0, 2}},
		{"is not one of", isa.OpBarrier, []int64{1, 1, 1}},
		{"is -5", isa.OpFill, []int64{isa.Addr(0, 1), 1, 0, 1, 0, 1, 0}},
	} {
		p := testchip.Program(chip, make([]byte, 1024), 1024)
		p.Layers = []isa.Layer{{Name: "conv1"}}
		testchip.Emit(&p.Main[0], isa.OpSet, 1, -5)
		testchip.EmitLayer(&p.Main[0], 0, c.op, c.args...)
		if err := isa.Validate(p); err != nil {
			t.Errorf("%s: %v", c.op, err)
			continue
		}
		m, err := New(p, chip)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Run(context.Background(), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error is %v, want one with %q", c.op, c.args, err, c.want)
		} else if c.op != isa.OpBarrier && !strings.Contains(err.Error(), fmt.Sprintf("cluster 0, main instruction 1 (%s, layer conv1)", c.op)) {
			t.Errorf("%s: error %v does not name the place", c.op, err)
		}
	}
}

// TestMergedWeights checks a product that uses the second part of a loaded
// block.
func TestMergedWeights(t *testing.T) {
	chip := testchip.New(1, 1)
	consts := make([]byte, 1024)
	for i := range consts {
		consts[i] = byte(3 * i)
	}
	m, err := New(testchip.Program(chip, consts, 0), chip)
	if err != nil {
		t.Fatal(err)
	}
	c := m.clusters[0]
	for i := range 32 {
		c.sp[i] = byte(i * 7)
	}
	// Four tiles along K over two cores; the product takes the last two.
	if err := c.exec(isa.OpLoadW, []int64{256, 0, 4, 1, 2, 1, 8, 0, 1, 0}); err != nil {
		t.Fatal(err)
	}
	if err := c.exec(isa.OpMVM, []int64{0, 256 + 128, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 32, 1, 2, 1, 0, 8, 8, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	for col := range 8 {
		want := int32(0)
		for k := range 32 {
			want += int32(c.sp[k]) * int32(int8(consts[(32+k)*8+col]))
		}
		if c.acc[col] != want {
			t.Errorf("column %d is %d, want %d", col, c.acc[col], want)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	chip := testchip.New(1, 2)
	for want, spoil := range map[string]func(p *isa.Program){
		"functional emulation holds": func(p *isa.Program) { p.DRAMBytes = 1 << 40 },
		"larger than 2 GiB":          func(p *isa.Program) { p.ScratchpadBytes = 3 << 30 },
	} {
		p := testchip.Program(chip, nil, 64)
		spoil(p)
		if _, err := New(p, chip); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}
