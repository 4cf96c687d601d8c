package functional

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"situ/backend/pim/isa"
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
