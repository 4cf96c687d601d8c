package kernel

import "github.com/llir/llvm/ir/types"

// PixelBytes is the bytes of a position that Pixels writes.
const PixelBytes = 4

// Pixels gives each position of images x [N, H, W, C] of at most four channels of bytes a
// word of its own, and margins of zero points, so that a ConvTensor copies the taps of a
// row at once and checks none. What stands in the channels beyond C does not matter.
// y is [N, OutH, OutW, PixelBytes], and begins Top and Left before x; parts of x that it
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
func (s Pixels) Launch() Launch { return linear(s.N * s.OutH * s.OutW) }

func (s Pixels) emit(k *fn) {
	k.each(s.N*s.OutH*s.OutW, func(i val) {
		c := k.split(i, s.N, s.OutH, s.OutW)
		y, x := k.sub(c[1], s.Top), k.sub(c[2], s.Left)
		word := k.pick(k.both(k.inside(y, s.H), k.inside(x, s.W)), k.i32(int(repeatByte(s.Zero))), func() val {
			from := k.mul(k.add(k.mul(k.add(k.mul(c[0], s.H), y), s.W), x), s.C)
			if s.C == PixelBytes {
				return k.load(types.I32, k.params["x"], from)
			}
			codes := make([]val, PixelBytes)
			for j := range codes {
				codes[j] = k.i32(0)
				if j < s.C {
					codes[j] = k.zext(k.load(types.I8, k.params["x"], k.add(from, j)), types.I32)
				}
			}
			return k.packBytes(codes)
		})
		k.store(word, k.params["y"], k.mul(i, PixelBytes))
	})
}
