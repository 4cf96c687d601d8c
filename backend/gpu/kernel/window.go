package kernel

import (
	"math"

	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Window is where the taps of a 2-D window lie: N images of H×W×C, a result of
// OH×OW positions.
type Window struct {
	N, H, W, C int
	OH, OW     int
	Kernel     [2]int
	Stride     [2]int
	Dilation   [2]int
	Pad        [2]int // top, left
}

func (w Window) size(axis int) int { return [2]int{w.H, w.W}[axis] }

func (w Window) positions(axis int) int { return [2]int{w.OH, w.OW}[axis] }

// checked reports whether some tap along an axis lies outside the image.
func (w Window) checked(axis int) bool {
	last := (w.positions(axis)-1)*w.Stride[axis] + (w.Kernel[axis]-1)*w.Dilation[axis] - w.Pad[axis]
	return w.Pad[axis] > 0 || last >= w.size(axis)
}

// Counts returns for each position along an axis how many taps of its window lie
// in lo … hi−1.
func (w Window) Counts(axis, lo, hi int) []int {
	c := make([]int, w.positions(axis))
	for o := range c {
		for t := range w.Kernel[axis] {
			if p := o*w.Stride[axis] - w.Pad[axis] + t*w.Dilation[axis]; p >= lo && p < hi {
				c[o]++
			}
		}
	}
	return c
}

// first returns the coordinate of tap 0 of the window at position o of an axis.
func (k *fn) first(w Window, axis int, o val) val {
	return k.sub(k.mul(o, w.Stride[axis]), w.Pad[axis])
}

// tap returns the coordinate of tap i, and whether it is inside (nil when it
// always is).
func (k *fn) tap(w Window, axis int, first, i val) (p, inside val) {
	p = k.add(k.mul(i, w.Dilation[axis]), first)
	if w.checked(axis) {
		inside = k.inside(p, w.size(axis))
	}
	return p, inside
}

// Pool is the maximum or the mean of windows of 8-bit codes. Parameters: x,
// scales (for each divisor from 0 multiplier and shift, 8 bytes; not read when
// there is one divisor, or for a maximum), y.
type Pool struct {
	Window Window
	Codes  Codes // of x; y's are bytes
	Mean   bool
	Zero   int32  // of x
	Scale  Scale  // when every window has the same divisor
	Varies bool   // the divisor is a matter of position
	Count  [4]int // coordinates that count: first row, row after the last, first column, column after the last
	Range  Range
}

// Family implements Spec.
func (s Pool) Family() string {
	if s.Mean {
		return "avgpool"
	}
	return "maxpool"
}

// Params implements Spec.
func (s Pool) Params() []string { return []string{"x", "scales", "y"} }

// group is how many codes a thread computes.
func (s Pool) group() int {
	switch {
	case s.Window.C%16 == 0 && s.whole():
		return 16
	case s.Window.C%4 == 0:
		return 4
	}
	return 1
}

// whole reports whether the pool is a maximum of windows without gaps, in which a tap
// outside the image may be replaced by the nearest inside.
func (s Pool) whole() bool { return !s.Mean && s.Window.Dilation == [2]int{1, 1} }

// Launch implements Spec.
func (s Pool) Launch() Launch {
	w := s.Window
	return linear(w.N * w.OH * w.OW * w.C / s.group())
}

func (s Pool) emit(k *fn) {
	w, g := s.Window, s.group()
	k.each(w.N*w.OH*w.OW*w.C/g, func(i val) {
		c := k.split(i, w.N, w.OH, w.OW, w.C/g)
		y0, x0 := k.first(w, 0, c[1]), k.first(w, 1, c[2])
		base := k.add(k.mul(c[0], w.H*w.W*w.C), k.mul(c[3], g))
		if s.whole() && g > 1 {
			k.store(s.largest(k, y0, x0, base, g), k.params["y"], k.mul(i, g))
			return
		}
		start := int32(0)
		if !s.Mean {
			start = s.Range.Lo
		}
		acc := make([]val, g)
		for j := range acc {
			acc[j] = k.i32(int(start))
		}
		acc = k.repeat(w.Kernel[0], acc, func(ky val, acc []val) []val {
			y, inY := k.tap(w, 0, y0, ky)
			row := k.add(base, k.mul(y, w.W*w.C))
			return k.repeat(w.Kernel[1], acc, func(kx val, acc []val) []val {
				x, inX := k.tap(w, 1, x0, kx)
				in := k.both(inY, inX)
				codes := k.paddedCodes(in, s.Codes, k.add(row, k.mul(x, w.C)), g, s.Zero)
				out := make([]val, g)
				for j := range out {
					v := codes[j]
					if s.Mean {
						out[j] = k.add(acc[j], k.sub(v, int(s.Zero)))
						continue
					}
					best := k.max(acc[j], v)
					if in != nil {
						best = k.sel(in, best, acc[j])
					}
					out[j] = best
				}
				return out
			})
		})
		if s.Mean {
			scale := s.divisor(k, y0, x0)
			for j := range acc {
				acc[j] = k.rescale(acc[j], scale, s.Range)
			}
		}
		k.storeCodes(k.params["y"], k.mul(i, g), acc)
	})
}

// largest is the maximum of g channels, a multiple of four, in the window with first tap
// (y0, x0), as words. Codes are compared as the upper bytes of words, in which what is
// below decides between equals only.
func (s Pool) largest(k *fn, y0, x0, base val, g int) val {
	w := s.Window
	start, least := 0, enum.IPredUGT
	if s.Codes.Signed {
		start, least = math.MinInt32, enum.IPredSGT
	}
	acc := make([]val, g)
	for j := range acc {
		acc[j] = k.i32(start)
	}
	at := func(axis int, first, i val) val {
		p := k.add(first, i)
		if w.checked(axis) {
			p = k.clamp(p, 0, int32(w.size(axis)-1))
		}
		return p
	}
	acc = k.repeat(w.Kernel[0], acc, func(ky val, acc []val) []val {
		row := k.add(base, k.mul(at(0, y0, ky), w.W*w.C))
		return k.repeat(w.Kernel[1], acc, func(kx val, acc []val) []val {
			words := k.words(k.load(word(g), k.params["x"], k.add(row, k.mul(at(1, x0, kx), w.C))), g)
			out := make([]val, g)
			for j := range out {
				v := k.shl(words[j/4], 24-8*(j%4))
				out[j] = k.sel(k.cmp(least, acc[j], v), acc[j], v)
			}
			return out
		})
	})
	out := make([]val, g/4)
	for i := range out {
		a := acc[4*i:]
		out[i] = k.permute(k.permute(a[0], a[1], 0x0073), k.permute(a[2], a[3], 0x0073), 0x5410)
	}
	return k.vectorOf(out)
}

// paddedCodes loads g codes of x, or zero when in does not hold.
func (k *fn) paddedCodes(in val, c Codes, off val, g int, zero int32) []val {
	if g == 1 {
		return []val{k.pick(in, k.i32(int(zero)), func() val { return k.loadCode(c, k.params["x"], off) })}
	}
	w := k.pick(in, k.i32(int(repeatByte(zero))), func() val { return k.load(types.I32, k.params["x"], off) })
	out := make([]val, g)
	for j := range out {
		out[j] = k.byteOf(w, j, c.Signed)
	}
	return out
}

// repeatByte is a word of four equal codes.
func repeatByte(code int32) int32 { return int32(uint32(uint8(code)) * 0x01010101) }

// divisor returns the multiplier of the window with first tap (y0, x0).
func (s Pool) divisor(k *fn, y0, x0 val) rescaling {
	if !s.Varies {
		return k.constantRescaling(s.Scale)
	}
	count := func(axis int, first val) val {
		w, lo, hi := s.Window, s.Count[2*axis], s.Count[2*axis+1]
		return k.repeat(w.Kernel[axis], []val{k.i32(0)}, func(i val, c []val) []val {
			p := k.sub(k.add(k.mul(i, w.Dilation[axis]), first), lo)
			return []val{k.add(c[0], k.zext(k.inside(p, hi-lo), types.I32))}
		})[0]
	}
	at := k.mul(k.mul(count(0, y0), count(1, x0)), 8)
	return k.newRescaling(k.load(types.I32, k.params["scales"], at), k.load(types.I32, k.params["scales"], k.add(at, 4)), nil, false)
}

// Reduction says what Reduce computes.
type Reduction int

// Reductions. Sum covers the mean, whose divisor is in the scale.
const (
	Sum Reduction = iota
	Max
	Min
)

// Reduce is the sum, maximum or minimum of 8-bit codes over some dimensions.
// Parameters: x, y.
type Reduce struct {
	Op    Reduction
	Kept  Nest // x only: of the first element of each sum
	Over  Nest // x only: the elements of one sum
	Codes Codes
	Zero  int32
	Scale Scale
	Range Range
}

// Family implements Spec.
func (s Reduce) Family() string { return [...]string{"sum", "max", "min"}[s.Op] }

// Params implements Spec.
func (s Reduce) Params() []string { return []string{"x", "y"} }

// warps reports whether a warp shares the work of one result: it pays when the
// elements lie together and are many.
func (s Reduce) warps() bool {
	return s.Over.Size() >= 64 && s.Over.Stride[0][len(s.Over.Dims)-1] == 1
}

// Launch implements Spec.
func (s Reduce) Launch() Launch {
	if s.warps() {
		return linear(32 * s.Kept.Size())
	}
	return linear(s.Kept.Size())
}

func (s Reduce) emit(k *fn) {
	n, count := s.Kept.Size(), s.Over.Size()
	start := map[Reduction]int32{Sum: 0, Max: s.Range.Lo, Min: s.Range.Hi}[s.Op]
	at := func(base, r val) val { return k.add(base, k.offsets(s.Over, r)[0]) }
	load := func(off val) val { return k.loadCode(s.Codes, k.params["x"], off) }
	finish := func(acc, i val) {
		if s.Op == Sum {
			acc = k.scaled(acc, s.Scale, s.Range)
		}
		k.store(k.trunc(acc, types.I8), k.params["y"], i)
	}
	if !s.warps() {
		k.each(n, func(i val) {
			base := k.offsets(s.Kept, i)[0]
			acc := k.repeat(count, []val{k.i32(int(start))}, func(r val, c []val) []val {
				return []val{s.join(k, c[0], load(at(base, r)))}
			})
			finish(acc[0], i)
		})
		return
	}
	k.each(32*n, func(thread val) {
		i, lane := k.div(thread, 32), k.and(thread, 31)
		base := k.offsets(s.Kept, i)[0]
		neutral := start
		if s.Op == Sum {
			neutral = s.Zero
		}
		acc := k.repeat((count+31)/32, []val{k.i32(int(start))}, func(j val, c []val) []val {
			r := k.add(k.mul(j, 32), lane)
			var in val
			if count%32 != 0 {
				in = k.cmp(enum.IPredULT, r, count)
			}
			return []val{s.join(k, c[0], k.pick(in, k.i32(int(neutral)), func() val { return load(at(base, r)) }))}
		})[0]
		for mask := 16; mask > 0; mask /= 2 {
			other := k.shuffle(acc, mask)
			switch s.Op {
			case Sum:
				acc = k.add(acc, other)
			case Max:
				acc = k.max(acc, other)
			case Min:
				acc = k.min(acc, other)
			}
		}
		k.when(k.cmp(enum.IPredEQ, lane, 0), func() { finish(acc, i) })
	})
}

// join takes one more code into a result.
func (s Reduce) join(k *fn, acc, v val) val {
	switch s.Op {
	case Max:
		return k.max(acc, v)
	case Min:
		return k.min(acc, v)
	}
	return k.add(acc, k.sub(v, int(s.Zero)))
}
