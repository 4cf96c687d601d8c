package kernel

import (
	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Copy moves elements of Elem bytes from x to y: transposes, slices, parts of
// concatenations, expansions. Parameters: x, y.
type Copy struct {
	Nest Nest // y, x
	Elem int
}

// Family implements Spec.
func (s Copy) Family() string { return "copy" }

// Params implements Spec.
func (s Copy) Params() []string { return []string{"x", "y"} }

// wide returns the nest over the largest pieces, up to 16 bytes, that lie
// together in both, and their size.
func (s Copy) wide() (Nest, int) {
	for g := 16 / s.Elem; g > 1; g /= 2 {
		n, ok := s.Nest.grouped(g)
		if ok && n.Stride[1][len(n.Dims)-1] == g {
			return n, g * s.Elem
		}
	}
	return s.Nest, s.Elem
}

// Launch implements Spec.
func (s Copy) Launch() Launch {
	n, _ := s.wide()
	return linear(n.Size())
}

func (s Copy) emit(k *fn) {
	n, bytes := s.wide()
	k.each(n.Size(), func(i val) {
		at := k.offsets(n, i)
		k.store(k.load(word(bytes), k.params["x"], k.mul(at[1], s.Elem)), k.params["y"], k.mul(at[0], s.Elem))
	})
}

// Pad copies x into a larger or smaller y; each element outside x takes Value
// (bits of the element), or one of x as the mode says. Parameters: x, y.
type Pad struct {
	Elem       int
	Shape      []int // of x
	Begin, End []int // negative to crop
	Value      int64
	Mode       PadMode
}

// PadMode says what stands outside.
type PadMode int

// Padding modes, those of the IR.
const (
	PadConstant PadMode = iota
	PadReflect
	PadEdge
	PadWrap
)

// Family implements Spec.
func (s Pad) Family() string { return "pad" }

// Params implements Spec.
func (s Pad) Params() []string { return []string{"x", "y"} }

func (s Pad) result() []int {
	out := make([]int, len(s.Shape))
	for i, n := range s.Shape {
		out[i] = s.Begin[i] + n + s.End[i]
	}
	return out
}

func (s Pad) size() int {
	size := 1
	for _, n := range s.result() {
		size *= n
	}
	return size
}

// Launch implements Spec.
func (s Pad) Launch() Launch { return linear(s.size()) }

func (s Pad) emit(k *fn) {
	t := types.NewInt(uint64(8 * s.Elem))
	k.each(s.size(), func(i val) {
		strides := RowMajor(s.Shape)
		var in, off val = nil, k.i32(0)
		for d, c := range k.split(i, s.result()...) {
			p, n := k.sub(c, s.Begin[d]), s.Shape[d]
			if s.Begin[d] > 0 || s.End[d] > 0 {
				switch s.Mode {
				case PadConstant:
					in = k.both(in, k.inside(p, n))
				case PadReflect:
					p = k.max(p, k.sub(k.i32(0), p))
					p = k.min(p, k.sub(k.i32(2*(n-1)), p))
				case PadEdge:
					p = k.clamp(p, 0, int32(n-1))
				case PadWrap:
					p = k.rem(k.add(p, n), n)
				}
			}
			off = k.add(off, k.mul(p, strides[d]))
		}
		v := k.pick(in, constant.NewInt(t, s.Value), func() val { return k.load(t, k.params["x"], k.mul(off, s.Elem)) })
		k.store(v, k.params["y"], k.mul(i, s.Elem))
	})
}

// Gather replaces the middle dimension of x [Outer, Axis, Inner] by the entries
// that indices select; negative ones count from the end. With Checked, for indices
// that come at run time, the kernel traps on one outside. Parameters: x, indices, y.
type Gather struct {
	Elem               int
	Outer, Axis, Inner int
	Count              int // indices
	IndexBytes         int // 4 or 8
	Checked            bool
}

// Family implements Spec.
func (s Gather) Family() string { return "gather" }

// Params implements Spec.
func (s Gather) Params() []string { return []string{"x", "indices", "y"} }

// piece is how many bytes a thread moves.
func (s Gather) piece() int {
	for b := 16; b > s.Elem; b /= 2 {
		if s.Inner*s.Elem%b == 0 {
			return b
		}
	}
	return s.Elem
}

// Launch implements Spec.
func (s Gather) Launch() Launch { return linear(s.Outer * s.Count * s.Inner * s.Elem / s.piece()) }

func (s Gather) emit(k *fn) {
	piece := s.piece()
	inner := s.Inner * s.Elem / piece
	k.each(s.Outer*s.Count*inner, func(i val) {
		c := k.split(i, s.Outer, s.Count, inner)
		index := k.load(types.NewInt(uint64(8*s.IndexBytes)), k.params["indices"], k.mul(c[1], s.IndexBytes))
		if s.Checked {
			index = k.sel(k.cmp(enum.IPredSLT, index, 0), k.add(index, s.Axis), index)
			k.when(k.cmp(enum.IPredUGE, index, s.Axis), func() { k.asm("trap;", "", true, types.Void) })
		}
		index = k.clamp(index, 0, int32(s.Axis-1)) // memory is safe whatever comes
		if s.IndexBytes == 8 {
			index = k.trunc(index, types.I32)
		}
		from := k.add(k.mul(k.add(k.mul(c[0], s.Axis), index), inner), c[2])
		k.store(k.load(word(piece), k.params["x"], k.mul(from, piece)), k.params["y"], k.mul(i, piece))
	})
}
