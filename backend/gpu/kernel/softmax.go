package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Softmax is the integer softmax of internal/fixed over rows of N 8-bit codes.
// Parameters: x, table (256 32-bit powers), y.
type Softmax struct {
	Rows, N   int
	In        Codes
	OutSigned bool
	C         uint64
	Range     Range // of unsigned codes
	Warps     int   // of a row
}

const softmaxFrac = 14 // fraction bits of C, see internal/fixed.SoftmaxParams

// Family implements Spec.
func (s Softmax) Family() string { return "softmax" }

// Params implements Spec.
func (s Softmax) Params() []string { return []string{"x", "table", "y"} }

// Launch implements Spec.
func (s Softmax) Launch() Launch { return rowLaunch(s.Rows, s.Warps) }

func (s Softmax) emit(k *fn) {
	k.eachRow(s.Rows, s.N, s.Warps, func(r *row) {
		lowest := 0
		if s.In.Signed {
			lowest = -128
		}
		top := r.walk([]val{k.i32(lowest)}, func(at val, n int, c []val) []val {
			for _, x := range k.neighbours(s.In, k.params["x"], at, n) {
				c = []val{k.max(c[0], x)}
			}
			return c
		})
		top = r.all(top, func(a, b val) val { return k.max(a, b) })
		powers := func(at val, n int) (out []val) {
			for _, x := range k.neighbours(s.In, k.params["x"], at, n) {
				out = append(out, k.load(types.I32, k.params["table"], k.mul(k.sub(top[0], x), 4)))
			}
			return out
		}
		sum := r.walk([]val{k.i64(0)}, func(at val, n int, c []val) []val {
			for _, t := range powers(at, n) {
				c = []val{k.add(c[0], k.zext(t, types.I64))}
			}
			return c
		})
		sum = r.all(sum, func(a, b val) val { return k.add(a, b) })
		share := s.shares(k, k.shl(sum[0], softmaxFrac))
		r.walk(nil, func(at val, n int, none []val) []val {
			out := powers(at, n)
			for i, t := range out {
				y := k.clamp(k.add(share(t), int(s.Range.Zero)), s.Range.Lo, s.Range.Hi)
				if s.OutSigned {
					y = k.xor(y, 128)
				}
				out[i] = y
			}
			k.storeCodes(k.params["y"], at, out)
			return none
		})
	})
}

// shares returns a function that gives round(t·C/den), half to even, for a den of the
// row.
//
// The quotient is first found in float32, whose relative error is below 2^−21. It is at
// most 1/sy ≤ 2^18, so that less one quarter and rounded it is the result or one less;
// which, the remainder of one half more says exactly.
func (s Softmax) shares(k *fn, den val) func(t val) val {
	if s.N > 1<<16 { // twice the result times den might not fit 64 bits
		return func(t val) val {
			num := k.b.NewMul(k.zext(t, types.I64), k.i64(int64(s.C)))
			q := k.b.NewUDiv(num, den)
			r := k.sub(num, k.b.NewMul(q, den))
			rest := k.sub(den, r)
			odd := k.cmp(enum.IPredEQ, k.and(q, 1), 1)
			up := k.b.NewOr(k.cmp(enum.IPredUGT, r, rest), k.b.NewAnd(k.cmp(enum.IPredEQ, r, rest), odd))
			return k.trunc(k.add(q, k.zext(up, types.I64)), types.I32)
		}
	}
	factor := k.b.NewFDiv(f32(float32(s.C)), k.b.NewUIToFP(den, types.Float))
	return func(t val) val {
		a := k.b.NewFMul(k.b.NewUIToFP(t, types.Float), factor)
		q := k.nearest(k.b.NewFSub(a, f32(0.25)))
		twice := k.b.NewMul(k.zext(t, types.I64), k.i64(int64(2*s.C)))
		half := k.mul(den, k.zext(k.add(k.shl(q, 1), 1), types.I64))
		rest := k.add(k.sub(twice, half), k.zext(k.and(q, 1), types.I64))
		return k.add(q, k.zext(k.cmp(enum.IPredSGT, rest, 0), types.I32))
	}
}
