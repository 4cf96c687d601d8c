package kernel

import "github.com/llir/llvm/ir/types"

// PixelBytes is the bytes of a position that Pixels writes.
const PixelBytes = 4

// Pixels gives each position of images x [N, H, W, C] of at most four channels of bytes a
// word of its own, and margins of zero points, so that a ConvTensor copies the taps of a
// row at once and checks none. What stands in the channels beyond C does not matter.
// y is [N, OutH, OutW, PixelBytes], OutW a multiple of four, and begins Top and Left before x; parts of x that it
// does not reach are left out. Parameters: x, y.
type Pixels struct {
	N, H, W, C int
	Top, Left  int
	OutH, OutW int
	Zero       int32
}

// Family implements Spec.
func (s Pixels) Family() string { return "pixels" }

// Params implements Spec.
func (s Pixels) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s Pixels) Launch() Launch { return linear(s.N * s.OutH * s.OutW / pixelsOf) }

// pixelsOf is how many positions of a row a thread writes.
const pixelsOf = 4

func (s Pixels) emit(k *fn) {
	k.each(s.N*s.OutH*s.OutW/pixelsOf, func(i val) {
		c := k.split(i, s.N, s.OutH, s.OutW/pixelsOf)
		y, x0 := k.sub(c[1], s.Top), k.sub(k.mul(c[2], pixelsOf), s.Left)
		row := k.mul(k.add(k.mul(k.add(k.mul(c[0], s.H), y), s.W), x0), s.C)
		words := make([]val, pixelsOf)
		for p := range words {
			in := k.both(k.inside(y, s.H), k.inside(k.add(x0, p), s.W))
			words[p] = k.pick(in, k.i32(int(repeatByte(s.Zero))), func() val { return s.pixel(k, k.add(row, p*s.C)) })
		}
		k.store(k.vectorOf(words), k.params["y"], k.mul(i, pixelsOf*PixelBytes))
	})
}

// pixel loads the channels of the position at offset from.
func (s Pixels) pixel(k *fn, from val) val {
	if s.C == PixelBytes {
		return k.load(types.I32, k.params["x"], from)
	}
	p := k.at(k.params["x"], from)
	codes := make([]val, PixelBytes)
	for j := range codes {
		codes[j] = k.i32(0)
		if j < s.C {
			codes[j] = k.zext(k.load(types.I8, p, j), types.I32)
		}
	}
	return k.packBytes(codes)
}
