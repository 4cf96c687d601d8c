package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/types"
)

// Chain is what is done with the results of a kernel before they are stored:
// element-wise operators, in order, each on the codes that the one before gives.
// A step with a table or a second operand adds a parameter; a second operand has
// the result's shape.
type Chain []Step

// StepKind says what a step computes.
type StepKind int

// Steps.
const (
	Lookup  StepKind = iota // in a table of 256 codes
	Combine                 // with the code of another tensor
	Rescale                 // to another scale and zero point
)

// Step is one step of a Chain.
type Step struct {
	Kind    StepKind
	In, Out Codes // Lookup: the codes looked up and those of the table
	Arith   Arith // Combine
	Right   bool  // Combine: the value is the second operand, the tensor the first
	Zero    int32 // Rescale
	Scale   Scale
	Range   Range
}

// params lists the parameters of the steps that have one.
func (c Chain) params() []string {
	var names []string
	for i, s := range c {
		if s.Kind != Rescale {
			names = append(names, fmt.Sprintf("extra%d", i))
		}
	}
	return names
}

// with returns the parameters of a kernel: its own, those of the chain, and the
// result.
func (c Chain) with(names ...string) []string { return append(append(names, c.params()...), "y") }

// apply takes neighbouring codes, the first of element at of the result, through
// the steps.
func (c Chain) apply(k *fn, vs []val, at val) []val {
	vs, r := c.unlimited(k, vs, at)
	if r != nil {
		for i, v := range vs {
			vs[i] = k.clamp(v, r.Lo, r.Hi)
		}
	}
	return vs
}

// unlimited is apply but for the limits of the last step's range, which it returns, nil
// where the values keep to it.
func (c Chain) unlimited(k *fn, vs []val, at val) ([]val, *Range) {
	var limit *Range
	for i, s := range c {
		p := k.params[fmt.Sprintf("extra%d", i)]
		out := make([]val, len(vs))
		var others []val
		if s.Kind == Combine {
			other := s.Arith.B
			if s.Right {
				other = s.Arith.A
			}
			others = k.neighbours(other, p, at, len(vs))
		}
		for j, v := range vs {
			if limit != nil {
				v = k.clamp(v, limit.Lo, limit.Hi)
			}
			switch {
			case s.Kind == Lookup:
				out[j] = k.lookup(p, v, s.In, s.Out)
			case s.Kind == Rescale:
				out[j] = k.scaled(k.sub(v, int(s.Zero)), s.Scale, s.Range)
			case s.Right:
				out[j] = s.Arith.unlimited(k, others[j], v)
			default:
				out[j] = s.Arith.unlimited(k, v, others[j])
			}
		}
		vs, limit = out, nil
		if s.Kind == Combine && !s.Arith.Mul {
			limit = &s.Arith.Out
		}
	}
	return vs, limit
}

// limitedWords limits values, a multiple of four, to the codes of a range, and makes
// words of them.
func (k *fn) limitedWords(vs []val, r Range) []val {
	signed := r.Lo < 0
	lo, hi := 0, math.MaxUint8
	if signed {
		lo, hi = math.MinInt8, math.MaxInt8
	}
	out := make([]val, len(vs)/4)
	for i := range out {
		four := slices.Clone(vs[4*i : 4*i+4])
		for j, v := range four {
			if int(r.Lo) > lo {
				v = k.max(v, int(r.Lo))
			}
			if int(r.Hi) < hi {
				v = k.min(v, int(r.Hi))
			}
			four[j] = v
		}
		out[i] = k.packSaturated(signed, four)
	}
	return out
}

// lookup returns the table's code for a code; that of the smallest comes first.
func (k *fn) lookup(table, v val, in, out Codes) val {
	if in.Signed {
		v = k.add(v, 128)
	}
	return k.loadCode(out, table, v)
}

// vectorOf makes a value of 4, 8 or 16 bytes of words.
func (k *fn) vectorOf(words []val) val {
	if len(words) == 1 {
		return words[0]
	}
	var w val = constant.NewUndef(types.NewVector(uint64(len(words)), types.I32))
	for i, v := range words {
		w = k.b.NewInsertElement(w, v, k.i32(i))
	}
	return w
}

// neighbours loads n 8-bit codes, 1, 2, 4, 8 or 16, that lie together at a multiple
// of n.
func (k *fn) neighbours(c Codes, p, off val, n int) []val {
	if n == 1 {
		return []val{k.loadCode(c, p, off)}
	}
	return k.codesOf(k.load(word(n), p, off), n, c.Signed)
}

// words takes a value of n bytes, a multiple of four, apart.
func (k *fn) words(v val, n int) []val {
	if n == 4 {
		return []val{v}
	}
	out := make([]val, n/4)
	for i := range out {
		out[i] = k.b.NewExtractElement(v, k.i32(i))
	}
	return out
}

// codesOf takes a word of n bytes apart.
func (k *fn) codesOf(w val, n int, signed bool) []val {
	var words []val
	if n == 2 {
		words = []val{k.zext(w, types.I32)}
	} else {
		words = k.words(w, n)
	}
	out := make([]val, n)
	for j := range out {
		out[j] = k.byteOf(words[j/4], j%4, signed)
	}
	return out
}

// wordOf makes a word of the low bytes of 1, 2, 4, 8 or 16 codes.
func (k *fn) wordOf(vs []val) val {
	switch len(vs) {
	case 1:
		return k.trunc(vs[0], types.I8)
	case 2:
		return k.trunc(k.packBytes(vs), types.I16)
	case 4:
		return k.packBytes(vs)
	}
	words := make([]val, len(vs)/4)
	for i := range words {
		words[i] = k.packBytes(vs[4*i : 4*i+4])
	}
	return k.vectorOf(words)
}

// storeCodes stores 1, 2, 4, 8 or 16 neighbouring 8-bit codes at a multiple of their
// number.
func (k *fn) storeCodes(p, off val, vs []val) { k.store(k.wordOf(vs), p, off) }
