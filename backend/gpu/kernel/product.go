package kernel

import (
	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/types"
)

// Epilogue is what becomes of a product's sums: a bias is added, wrapping at 32
// bits, and unless the sums themselves are the result they are rescaled by
// channel. Its table holds four words for each channel: bias, multiplier and what
// follows from its shift. The bias also takes in what the zero point of x adds to
// each sum.
type Epilogue struct {
	Sums  bool // y is int32
	High  bool // the form of the table
	Range Range
	Then  Chain // not of sums

	// Same says that all channels are alike, and have Bias and Scale: there is no table.
	Same  bool
	Bias  int32
	Scale Scale
}

// NewEpilogue returns an epilogue that rescales, and its table, for channels with
// the given biases and multipliers.
func NewEpilogue(bias []int32, scales []Scale, r Range) (Epilogue, []int32) {
	e := Epilogue{High: allHigh(scales), Range: r}
	var table []int32
	for c, s := range scales {
		m, shift, mask := s.row(e.High)
		table = append(table, bias[c], m, shift, mask)
	}
	return e, table
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
}

func (e Epilogue) load(k *fn, channel val) channelParams {
	if e.Same {
		return channelParams{k.i32(int(e.Bias)), k.constantRescaling(e.Scale)}
	}
	at := k.mul(channel, 16)
	table := k.params["table"]
	if e.Sums {
		return channelParams{bias: k.load(types.I32, table, at)}
	}
	row := k.load(word(16), table, at)
	part := func(i int) val { return k.b.NewExtractElement(row, k.i32(i)) }
	return channelParams{part(0), k.newRescaling(part(1), part(2), part(3), e.High)}
}

// finish returns the result of one sum, as i32.
func (e Epilogue) finish(k *fn, sum val, p channelParams) val {
	sum = k.add(sum, p.bias)
	if e.Sums {
		return sum
	}
	return k.rescale(sum, p.scale, e.Range)
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
