package kernel

import (
	"github.com/llir/llvm/ir/types"
)

// MulAdd is the sum of two products of 8-bit codes element by element, with
// broadcasting. Parameters: a, b, c, d, y.
type MulAdd struct {
	Nest     Nest // y, a, b, c, d
	In       [4]Codes
	Zero     [4]int32
	MAB, MCD int32 // see internal/fixed.MulAddParams
	Shift    int
	Range    Range
}

// Family implements Spec.
func (s MulAdd) Family() string { return "muladd" }

// Params implements Spec.
func (s MulAdd) Params() []string { return []string{"a", "b", "c", "d", "y"} }

// group is how many codes a thread computes.
func (s MulAdd) group() (Nest, int) {
	if n, ok := s.Nest.grouped(4); ok {
		return n, 4
	}
	return s.Nest, 1
}

// Launch implements Spec.
func (s MulAdd) Launch() Launch {
	n, _ := s.group()
	return linear(n.Size())
}

func (s MulAdd) emit(k *fn) {
	n, g := s.group()
	k.each(n.Size(), func(i val) {
		at := k.offsets(n, i)
		last := len(n.Dims) - 1
		var x [4][]val
		for p, name := range s.Params()[:4] {
			x[p] = k.codes(s.In[p], k.params[name], at[1+p], g, n.Stride[1+p][last] != 0)
		}
		out := make([]val, g)
		for j := range out {
			product := func(p int, m int32) val {
				a, b := k.sub(x[p][j], int(s.Zero[p])), k.sub(x[p+1][j], int(s.Zero[p+1]))
				return k.mul(k.sext(k.mul(a, b), types.I64), int(m))
			}
			y := k.roundShift64(k.add(product(0, s.MAB), product(2, s.MCD)), k.i64(int64(s.Shift)))
			lo, hi := int(s.Range.Lo)-int(s.Range.Zero), int(s.Range.Hi)-int(s.Range.Zero)
			out[j] = k.add(k.trunc(k.min(k.max(y, lo), hi), types.I32), int(s.Range.Zero))
		}
		k.storeCodes(k.params["y"], at[0], out)
	})
}
