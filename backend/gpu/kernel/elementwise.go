package kernel

import (
	"math"

	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Arith is an addition, a subtraction or a multiplication of two 8-bit codes.
type Arith struct {
	A, B   Codes
	ZA, ZB int32
	Mul    bool
	MA, MB int32 // of an addition, see internal/fixed.AddParams
	Shift  int
	Scale  Scale // of a multiplication
	Out    Range
}

func (s Arith) compute(k *fn, a, b val) val { return k.clamp(s.unlimited(k, a, b), s.Out.Lo, s.Out.Hi) }

// unlimited is compute but for the limits of the range, which a product keeps to anyway.
func (s Arith) unlimited(k *fn, a, b val) val {
	if s.Mul {
		return k.scaled(k.mul(k.sub(a, int(s.ZA)), k.sub(b, int(s.ZB))), s.Scale, s.Out)
	}
	// Zero points and one half are one addend; so is that of the result where there is
	// room and no tie, whose evenness it would change.
	half, most := 1<<(s.Shift-1), int(max(s.MA, -s.MA)+max(s.MB, -s.MB))*math.MaxUint8
	start, zero := half-int(s.ZA)*int(s.MA)-int(s.ZB)*int(s.MB), int(s.Out.Zero)
	ties := s.ties()
	if room := math.MaxInt32 - most - half; !ties && max(zero, -zero)<<s.Shift < room {
		start, zero = start+zero<<s.Shift, 0
	}
	sum := k.add(k.add(k.mul(a, int(s.MA)), int(int32(start))), k.mul(b, int(s.MB)))
	q := k.ashr(sum, s.Shift)
	if ties {
		q = k.sel(k.cmp(enum.IPredEQ, k.and(sum, 1<<s.Shift-1), 0), k.and(q, -2), q)
	}
	return k.add(q, zero)
}

// ties reports whether the sum of some two codes lies half-way between two codes.
func (s Arith) ties() bool {
	lo := func(c Codes) int32 {
		if c.Signed {
			return math.MinInt8
		}
		return 0
	}
	mask, half := int32(1)<<s.Shift-1, int32(1)<<(s.Shift-1)
	for a := range int32(256) {
		part := (a+lo(s.A)-s.ZA)*s.MA + half
		for b := range int32(256) {
			if (part+(b+lo(s.B)-s.ZB)*s.MB)&mask == 0 {
				return true
			}
		}
	}
	return false
}

// Binary is Arith element by element, with broadcasting. Parameters: a, b, those
// of the chain, y.
type Binary struct {
	Nest  Nest // y, a, b; with a chain that reads other tensors y is dense
	Arith Arith
	Then  Chain
}

// Family implements Spec.
func (s Binary) Family() string {
	if s.Arith.Mul {
		return "mul"
	}
	return "add"
}

// Params implements Spec.
func (s Binary) Params() []string { return s.Then.with("a", "b") }

// group is how many codes a thread computes.
func (s Binary) group() (Nest, int) {
	if n, ok := s.Nest.grouped(4); ok {
		return n, 4
	}
	return s.Nest, 1
}

// Launch implements Spec.
func (s Binary) Launch() Launch {
	n, _ := s.group()
	return linear(n.Size())
}

func (s Binary) emit(k *fn) {
	n, g := s.group()
	k.each(n.Size(), func(i val) {
		at := k.offsets(n, i)
		last := len(n.Dims) - 1
		a := k.codes(s.Arith.A, k.params["a"], at[1], g, n.Stride[1][last] != 0)
		b := k.codes(s.Arith.B, k.params["b"], at[2], g, n.Stride[2][last] != 0)
		out := make([]val, g)
		for j := range out {
			out[j] = s.Arith.compute(k, a[j], b[j])
		}
		k.storeCodes(k.params["y"], at[0], s.Then.apply(k, out, at[0]))
	})
}

// codes loads g neighbouring 8-bit codes, or one that stands for all.
func (k *fn) codes(c Codes, p, off val, g int, dense bool) []val {
	if dense {
		return k.neighbours(c, p, off, g)
	}
	out := make([]val, g)
	v := k.loadCode(c, p, off)
	for j := range out {
		out[j] = v
	}
	return out
}

// Table looks each 8-bit code up. Parameters: x, table (256 bytes, that of the
// smallest code first), those of the chain, y.
type Table struct {
	Nest    Nest // y, x; with a chain that reads other tensors y is dense
	In, Out Codes
	Then    Chain
}

// Family implements Spec.
func (s Table) Family() string { return "lut" }

// Params implements Spec.
func (s Table) Params() []string { return s.Then.with("x", "table") }

// group is how many codes a thread looks up.
func (s Table) group() (Nest, int) {
	if n, ok := s.Nest.grouped(4); ok {
		return n, 4
	}
	return s.Nest, 1
}

// Launch implements Spec.
func (s Table) Launch() Launch {
	n, _ := s.group()
	return linear(n.Size())
}

func (s Table) emit(k *fn) {
	n, g := s.group()
	k.each(n.Size(), func(i val) {
		at := k.offsets(n, i)
		x := k.codes(s.In, k.params["x"], at[1], g, n.Stride[1][len(n.Dims)-1] != 0)
		out := make([]val, g)
		for j, v := range x {
			out[j] = k.lookup(k.params["table"], v, s.In, s.Out)
		}
		k.storeCodes(k.params["y"], at[0], s.Then.apply(k, out, at[0]))
	})
}

// channelled is how an element-wise kernel finds its channel: that of element i
// is i / Inner % Count.
type channelled struct {
	Count, Inner int
}

// group is how many neighbours of n elements a thread takes: four where codes are bytes
// and all of one channel.
func (c channelled) group(n int, codes Codes) int {
	if c.Count == 1 && n%4 == 0 && codes.Bytes == 1 {
		return 4
	}
	return 1
}

func (k *fn) channel(c channelled, i val) val { return k.rem(k.div(i, c.Inner), c.Count) }

// Requantize rescales each code less its zero point. Parameters: x, scales (four
// words for each channel: zero point and multiplier, see NewRequantizeTable; not
// read when there is one), y.
type Requantize struct {
	N        int
	In, Out  Codes
	Channels channelled
	Zero     int32 // of x, with one channel
	Scale    Scale // with one channel
	High     bool  // the form of the table
	Range    Range
}

// NewRequantizeTable returns the table of a Requantize with several channels and
// its form.
func NewRequantizeTable(zeros []int32, scales []Scale) (table []int32, high bool) {
	high = allHigh(scales)
	for c, s := range scales {
		m, shift, mask := s.row(high)
		table = append(table, zeros[c], m, shift, mask)
	}
	return table, high
}

// Channels returns the channels of a tensor whose element i belongs to channel
// i / inner % count.
func Channels(count, inner int) channelled { return channelled{count, inner} }

// Family implements Spec.
func (s Requantize) Family() string { return "requantize" }

// Params implements Spec.
func (s Requantize) Params() []string { return []string{"x", "scales", "y"} }

// Launch implements Spec.
func (s Requantize) Launch() Launch { return linear(s.N) }

func (s Requantize) emit(k *fn) {
	k.each(s.N, func(i val) {
		v := k.loadCode(s.In, k.params["x"], k.mul(i, s.In.Bytes))
		zero, scale := k.i32(int(s.Zero)), k.constantRescaling(s.Scale)
		if s.Channels.Count > 1 {
			row := k.load(word(16), k.params["scales"], k.mul(k.channel(s.Channels, i), 16))
			part := func(i int) val { return k.b.NewExtractElement(row, k.i32(i)) }
			zero, scale = part(0), k.newRescaling(part(1), part(2), part(3), s.High)
		}
		y := k.rescale(k.sub(v, zero), scale, s.Range)
		k.store(k.narrow(s.Out, y), k.params["y"], k.mul(i, s.Out.Bytes))
	})
}

// Quantize is x/scale rounded half to even plus zero, saturated. Parameters: x,
// scales (for each channel the scale as float32 and the zero point; not read when
// there is one), y.
type Quantize struct {
	N        int
	Out      Codes
	Channels channelled
	Scale    float32
	Range    Range // Zero counts with one channel
}

// Family implements Spec.
func (s Quantize) Family() string { return "quantize" }

// Params implements Spec.
func (s Quantize) Params() []string { return []string{"x", "scales", "y"} }

// Launch implements Spec.
func (s Quantize) Launch() Launch { return linear(s.N / s.group()) }

// group is how many elements a thread converts.
func (s Quantize) group() int { return s.Channels.group(s.N, s.Out) }

func (s Quantize) emit(k *fn) {
	g := s.group()
	k.each(s.N/g, func(i val) {
		if g > 1 {
			x := k.load(types.NewVector(uint64(g), types.Float), k.params["x"], k.mul(i, 4*g))
			out := make([]val, g)
			for j := range out {
				out[j] = s.code(k, k.b.NewExtractElement(x, k.i32(j)), f32(s.Scale), k.i32(int(s.Range.Zero)))
			}
			k.storeCodes(k.params["y"], k.mul(i, g), out)
			return
		}
		x := k.load(types.Float, k.params["x"], k.mul(i, 4))
		scale, zero := f32(s.Scale), k.i32(int(s.Range.Zero))
		if s.Channels.Count > 1 {
			at := k.mul(k.channel(s.Channels, i), 8)
			scale, zero = k.load(types.Float, k.params["scales"], at), k.load(types.I32, k.params["scales"], k.add(at, 4))
		}
		k.store(k.narrow(s.Out, s.code(k, x, scale, zero)), k.params["y"], k.mul(i, s.Out.Bytes))
	})
}

// code is the code of one number.
func (s Quantize) code(k *fn, x, scale, zero val) val {
	// Beyond ±2^17 any code of 16 bits is saturated, whatever the zero point.
	const far = 1 << 17
	y := k.clamp(k.nearest(k.b.NewFDiv(x, scale)), -far, far)
	return k.clamp(k.add(y, zero), s.Range.Lo, s.Range.Hi)
}

// Dequantize is (x − zero)·scale in float32: the difference is exact, then
// rounded, then multiplied. Parameters: x, scales (for each channel the scale as
// float32 and the zero point; not read when there is one), y.
type Dequantize struct {
	N        int
	In       Codes
	Channels channelled
	Scale    float32
	Zero     int32
}

// Family implements Spec.
func (s Dequantize) Family() string { return "dequantize" }

// Params implements Spec.
func (s Dequantize) Params() []string { return []string{"x", "scales", "y"} }

// Launch implements Spec.
func (s Dequantize) Launch() Launch { return linear(s.N / s.group()) }

// group is how many elements a thread converts.
func (s Dequantize) group() int { return s.Channels.group(s.N, s.In) }

func (s Dequantize) emit(k *fn) {
	g := s.group()
	k.each(s.N/g, func(i val) {
		if g > 1 {
			var out val = constant.NewUndef(types.NewVector(uint64(g), types.Float))
			for j, x := range k.neighbours(s.In, k.params["x"], k.mul(i, g), g) {
				y := k.b.NewFMul(k.b.NewSIToFP(k.sub(x, int(s.Zero)), types.Float), f32(s.Scale))
				out = k.b.NewInsertElement(out, y, k.i32(j))
			}
			k.store(out, k.params["y"], k.mul(i, 4*g))
			return
		}
		var x val = k.loadCode(s.In, k.params["x"], k.mul(i, s.In.Bytes))
		scale, zero := f32(s.Scale), k.i32(int(s.Zero))
		if s.Channels.Count > 1 {
			at := k.mul(k.channel(s.Channels, i), 8)
			scale, zero = k.load(types.Float, k.params["scales"], at), k.load(types.I32, k.params["scales"], k.add(at, 4))
		}
		if s.In.Bytes == 4 { // the difference may need 33 bits
			x, zero = k.sext(x, types.I64), k.sext(zero, types.I64)
		}
		y := k.b.NewFMul(k.b.NewSIToFP(k.sub(x, zero), types.Float), scale)
		k.store(y, k.params["y"], k.mul(i, 4))
	})
}
