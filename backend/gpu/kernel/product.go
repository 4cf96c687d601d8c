package kernel

import (
	"math"
	"math/bits"

	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/types"
)

// Epilogue is what becomes of a product's sums: a bias is added, wrapping at 32
// bits, and unless the sums themselves are the result they are rescaled by
// channel. Its table holds four words for each channel: bias, multiplier and what
// follows from its shift. The bias also takes in what the zero point of x adds to
// each sum.
//
// Where no product of a sum and its multiplier can lie half-way between two codes, and
// all shifts are 32 or more, the table is folded: bias, rounding and zero point are one
// 64-bit addend of the product, and the code is in the upper word. It holds the words of
// the addend, the multiplier, and the shift less 32.
type Epilogue struct {
	Sums   bool // y is int32
	High   bool // the form of the table
	Folded bool // so is this
	Range  Range
	Then   Chain // not of sums

	// Same says that all channels are alike, and have Bias and Scale: there is no table.
	Same  bool
	Bias  int32
	Scale Scale
}

// NewEpilogue returns an epilogue that rescales, and its table, for channels with
// the given biases and multipliers. Neither a sum nor a sum and its bias is more than
// most away from 0.
func NewEpilogue(bias []int32, scales []Scale, r Range, most int64) (Epilogue, []int32) {
	if table, ok := foldedTable(bias, scales, r, most); ok {
		return Epilogue{Folded: true, Range: r}, table
	}
	e := Epilogue{High: allHigh(scales), Range: r}
	var table []int32
	for c, s := range scales {
		m, shift, mask := s.row(e.High)
		table = append(table, bias[c], m, shift, mask)
	}
	return e, table
}

// foldedTable returns the table of a folded epilogue; ok is false when some sum may wrap
// or lie half-way, or some shift is too small.
//
// sum·M lies half-way between multiples of 2^shift when it has exactly shift−1 factors of
// two: those of M, and no more from a sum than its size allows.
func foldedTable(bias []int32, scales []Scale, r Range, most int64) (table []int32, ok bool) {
	if most > math.MaxInt32 || !allHigh(scales) {
		return nil, false
	}
	for c, s := range scales {
		s = s.normal()
		if s.M != 0 && bits.TrailingZeros32(uint32(s.M))+bits.Len64(uint64(most)) >= s.Shift {
			return nil, false
		}
		const room = 1 << 62 // a quarter of what an addend may take up
		if s.Shift > 52 || most > room/int64(max(s.M, 1)) {
			return nil, false
		}
		start := int64(bias[c])*int64(s.M) + 1<<(s.Shift-1) + int64(r.Zero)<<s.Shift
		table = append(table, int32(start), int32(start>>32), s.M, int32(s.Shift-highShift))
	}
	return table, true
}

// NewSums returns an epilogue whose result is the sums plus biases, and its table.
func NewSums(bias []int32) (Epilogue, []int32) {
	var table []int32
	for _, b := range bias {
		table = append(table, b, 0, 0, 0)
	}
	return Epilogue{Sums: true}, table
}

// channelParams are one channel's row of the table.
type channelParams struct {
	bias  val
	scale rescaling
	start val // of a folded epilogue, whose shift is scale's
}

func (e Epilogue) load(k *fn, channel val) channelParams {
	if e.Same {
		return channelParams{bias: k.i32(int(e.Bias)), scale: k.constantRescaling(e.Scale)}
	}
	at := k.mul(channel, 16)
	table := k.params["table"]
	if e.Sums {
		return channelParams{bias: k.load(types.I32, table, at)}
	}
	if e.Folded {
		row := k.load(types.NewVector(2, types.I64), table, at)
		rest := k.b.NewExtractElement(row, k.i32(1))
		return channelParams{
			start: k.b.NewExtractElement(row, k.i32(0)),
			scale: rescaling{m: k.trunc(rest, types.I32), shift: k.trunc(k.lshr(rest, 32), types.I32)},
		}
	}
	row := k.load(word(16), table, at)
	part := func(i int) val { return k.b.NewExtractElement(row, k.i32(i)) }
	return channelParams{bias: part(0), scale: k.newRescaling(part(1), part(2), part(3), e.High)}
}

// finish returns the result of one sum, as i32.
func (e Epilogue) finish(k *fn, sum val, p channelParams) val {
	if e.Folded {
		return k.clamp(e.rounded(k, sum, p), e.Range.Lo, e.Range.Hi)
	}
	sum = k.add(sum, p.bias)
	if e.Sums {
		return sum
	}
	return k.rescale(sum, p.scale, e.Range)
}

// rounded is finish of a folded epilogue but for the limits of the range.
func (e Epilogue) rounded(k *fn, sum val, p channelParams) val {
	return k.ashr(k.productHigh(sum, p.scale.m, p.start), p.scale.shift)
}

// words returns the results of neighbouring sums, a multiple of four, the first of
// element at, as words of codes that have gone through the chain.
func (e Epilogue) words(k *fn, sums []val, ps []channelParams, at val) []val {
	codes := make([]val, len(sums))
	r := &e.Range
	switch {
	case e.Folded && e.Then == nil:
		for i, s := range sums {
			codes[i] = e.rounded(k, s, ps[i])
		}
	default:
		for i, s := range sums {
			codes[i] = e.finish(k, s, ps[i])
		}
		codes, r = e.Then.unlimited(k, codes, at)
	}
	if r != nil {
		return k.limitedWords(codes, *r)
	}
	out := make([]val, len(codes)/4)
	for i := range out {
		out[i] = k.packBytes(codes[4*i : 4*i+4])
	}
	return out
}

// Conv is a convolution, or a matrix product with constant weights as one of 1×1,
// with dot products of four in each thread, which computes one result. It takes
// any shape and any groups. Parameters: x, w, table,
// those of the chain, y.
//
// Weights lie as words of four input channels, of 32 or 16 bits, the last of a tap
// filled up with zeros: [group][tap][word][output channel of the group]. With ZeroPoints they are
// codes, and a parameter before table holds each output channel's zero point:
// Σ x·(w−z) is Σ x·w − z·Σ x.
type Conv struct {
	Window Window
	O      int
	Groups int
	X      Codes
	Zero   int32 // of x
	Out    Epilogue
	Form   Form

	ZeroPoints bool // not with blocks
}

// Family implements Spec.
func (s Conv) Family() string { return "conv_dp4a" }

// Params implements Spec.
func (s Conv) Params() []string {
	if s.ZeroPoints {
		return s.Out.Then.with("x", "w", "zeros", "table")
	}
	return s.Out.Then.with(append(s.Form.weightParams(), "table")...)
}

// Launch implements Spec.
func (s Conv) Launch() Launch { return linear(s.Window.N * s.Window.OH * s.Window.OW * s.O) }

// Words is the number of words of input channels of one tap.
func (s Conv) Words() int { return (s.Window.C/s.Groups + 3) / 4 }

// PackWeights lays weights [O, KH, KW, C/Groups] out as the kernel reads them.
func (s Conv) PackWeights(w []int8) []byte {
	ig, og := s.Window.C/s.Groups, s.O/s.Groups
	taps := s.Window.Kernel[0] * s.Window.Kernel[1]
	out := make([]byte, 0, s.PackedBytes())
	for g := range s.Groups {
		for t := range taps {
			out = s.Form.packWords(out, og, ig, func(o, c int) int8 { return w[((g*og+o)*taps+t)*ig+c] })
		}
	}
	return out
}

// PackedBytes is the size of what PackWeights returns.
func (s Conv) PackedBytes() int {
	n := s.O * s.Window.Kernel[0] * s.Window.Kernel[1] * s.Words() * 4
	if s.Form.Nibbles {
		n /= 2
	}
	return n
}

func (s Conv) emit(k *fn) {
	w := s.Window
	ig, og, words := w.C/s.Groups, s.O/s.Groups, s.Words()
	aligned := w.C%4 == 0 && ig%4 == 0
	k.each(w.N*w.OH*w.OW*s.O, func(i val) {
		c := k.split(i, w.N, w.OH, w.OW, s.Groups, og)
		y0, x0 := k.first(w, 0, c[1]), k.first(w, 1, c[2])
		base := k.add(k.mul(c[0], w.H*w.W*w.C), k.mul(c[3], ig))
		weights := k.add(k.mul(c[3], w.Kernel[0]*w.Kernel[1]*words*og), c[4])
		start := []val{k.i32(0)}
		if s.ZeroPoints {
			start = append(start, k.i32(0))
		}
		sums := k.repeat(w.Kernel[0], start, func(ky val, acc []val) []val {
			y, inY := k.tap(w, 0, y0, ky)
			row := k.add(base, k.mul(y, w.W*w.C))
			return k.repeat(w.Kernel[1], acc, func(kx val, acc []val) []val {
				x, inX := k.tap(w, 1, x0, kx)
				in := k.both(inY, inX)
				at := k.add(row, k.mul(x, w.C))
				index := k.add(k.mul(ky, w.Kernel[1]), kx)
				tap := k.add(weights, k.mul(index, words*og))
				operands := func(word val, bytes int) (x, wt val) {
					v := k.pick(in, k.i32(int(repeatByte(s.Zero))), func() val {
						from := k.add(at, k.mul(word, 4))
						if aligned {
							return k.load(types.I32, k.params["x"], from)
						}
						return k.gatherBytes(k.params["x"], from, bytes)
					})
					return v, s.Form.word(k, k.add(tap, k.mul(word, og)))
				}
				if s.Form.Blocks {
					first := k.add(k.mul(c[3], blocks(w.Kernel[0]*w.Kernel[1]*ig)*og), c[4])
					return []val{s.tapBlocks(k, operands, k.mul(index, ig), first, acc[0])}
				}
				dot := func(word val, acc []val, bytes int) []val {
					v, wt := operands(word, bytes)
					next := []val{k.dp4a(s.X.Signed, v, wt, acc[0])}
					if s.ZeroPoints {
						ones := k.i32(0x01010101 & (1<<(8*bytes) - 1))
						next = append(next, k.dp4a(s.X.Signed, v, ones, acc[1]))
					}
					return next
				}
				if full := ig / 4; full > 0 {
					acc = k.repeat(full, acc, func(j val, acc []val) []val { return dot(j, acc, 4) })
				}
				if ig%4 > 0 {
					acc = dot(k.i32(ig/4), acc, ig%4)
				}
				return acc
			})
		})
		channel, sum := k.add(k.mul(c[3], og), c[4]), sums[0]
		if s.ZeroPoints {
			z := k.load(types.I32, k.params["zeros"], k.mul(channel, 4))
			sum = k.sub(sum, k.mul(z, sums[1]))
		}
		s.Out.store(k, i, s.Out.finish(k, sum, s.Out.load(k, channel)))
	})
}

// store takes neighbouring results, the first of element at, through the chain
// and writes them: 1, 2 or 4 at a multiple of their number.
func (e Epilogue) store(k *fn, at val, vs ...val) {
	if !e.Sums {
		k.storeCodes(k.params["y"], at, e.Then.apply(k, vs, at))
		return
	}
	if len(vs) == 1 {
		k.store(vs[0], k.params["y"], k.mul(at, 4))
		return
	}
	var row val = constant.NewUndef(types.NewVector(uint64(len(vs)), types.I32))
	for i, v := range vs {
		row = k.b.NewInsertElement(row, v, k.i32(i))
	}
	k.store(row, k.params["y"], k.mul(at, 4))
}

// gatherBytes makes a word of n bytes at p+off and zeros.
func (k *fn) gatherBytes(p, off val, n int) val {
	w := k.i32(0)
	for j := range n {
		w = k.or(w, k.shl(k.zext(k.load(types.I8, p, k.add(off, j)), types.I32), 8*j))
	}
	return w
}

// Depthwise is a convolution whose every channel is a group of its own.
// Parameters: x, w, table,
// those of the chain, y. Weights lie as [tap][channel].
type Depthwise struct {
	Window Window
	X      Codes
	Zero   int32 // of x
	Out    Epilogue
	Form   Form // of bytes; factors lie as [block of taps][channel]
}

// Family implements Spec.
func (s Depthwise) Family() string { return "conv_depthwise" }

// Params implements Spec.
func (s Depthwise) Params() []string {
	return s.Out.Then.with(append(s.Form.weightParams(), "table")...)
}

func (s Depthwise) group() int {
	if s.Window.C%4 == 0 {
		return 4
	}
	return 1
}

// Launch implements Spec.
func (s Depthwise) Launch() Launch {
	w := s.Window
	return linear(w.N * w.OH * w.OW * w.C / s.group())
}

// PackWeights lays weights [C, KH, KW, 1] out as the kernel reads them.
func (s Depthwise) PackWeights(w []int8) []byte {
	taps := s.Window.Kernel[0] * s.Window.Kernel[1]
	out := make([]byte, len(w))
	for i, v := range w {
		out[i%taps*s.Window.C+i/taps] = byte(v)
	}
	return out
}

// PackedBytes is the size of what PackWeights returns.
func (s Depthwise) PackedBytes() int { return s.Window.Kernel[0] * s.Window.Kernel[1] * s.Window.C }

func (s Depthwise) emit(k *fn) {
	w, g := s.Window, s.group()
	k.each(w.N*w.OH*w.OW*w.C/g, func(i val) {
		c := k.split(i, w.N, w.OH, w.OW, w.C/g)
		y0, x0 := k.first(w, 0, c[1]), k.first(w, 1, c[2])
		channel := k.mul(c[3], g)
		base := k.add(k.mul(c[0], w.H*w.W*w.C), channel)
		acc := make([]val, g)
		for j := range acc {
			acc[j] = k.i32(0)
		}
		acc = k.repeat(w.Kernel[0], acc, func(ky val, acc []val) []val {
			y, inY := k.tap(w, 0, y0, ky)
			row := k.add(base, k.mul(y, w.W*w.C))
			return k.repeat(w.Kernel[1], acc, func(kx val, acc []val) []val {
				x, inX := k.tap(w, 1, x0, kx)
				xs := k.paddedCodes(k.both(inY, inX), s.X, k.add(row, k.mul(x, w.C)), g, s.Zero)
				index := k.add(k.mul(ky, w.Kernel[1]), kx)
				tap := k.mul(index, w.C)
				ws := k.codes(Codes{1, true}, k.params["w"], k.add(tap, channel), g, true)
				if s.Form.Blocks {
					at := k.add(k.mul(k.lshr(index, 5), w.C), channel)
					for j, f := range k.codes(Codes{1, false}, k.params["factors"], at, g, true) {
						ws[j] = k.mul(ws[j], f)
					}
				}
				out := make([]val, g)
				for j := range out {
					out[j] = k.add(acc[j], k.mul(xs[j], ws[j]))
				}
				return out
			})
		})
		for j := range acc {
			acc[j] = s.Out.finish(k, acc[j], s.Out.load(k, k.add(channel, j)))
		}
		s.Out.store(k, k.mul(i, g), acc...)
	})
}
