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
func (s Softmax) Launch() Launch {
	l := rowLaunch(s.Rows, s.Warps)
	l.Shared = rowShared(s.Warps) + tableBytes
	return l
}

const tableBytes = 4 * 256

func (s Softmax) emit(k *fn) {
	// The powers go to shared memory, behind what the warps of a row hand each other.
	powers := k.at(k.shared(), rowShared(s.Warps))
	threads := s.Launch().Threads()
	tid := k.special("tid.x")
	k.repeat((256+threads-1)/threads, nil, func(t val, none []val) []val {
		at := k.mul(k.min(k.add(k.mul(t, threads), tid), 255), 4)
		k.store(k.load(types.I32, k.params["table"], at), powers, at)
		return none
	})
	k.barrier()
	k.eachRow(s.Rows, s.N, codesAtOnce(s.N), s.Warps, func(r *row) {
		lowest := 0
		if s.In.Signed {
			lowest = -128
		}
		var codes [unrolled][]val // and powers, of short rows
		load := func(j int, at val, n int) []val {
			if j >= 0 && codes[j] != nil {
				return codes[j]
			}
			x := k.neighbours(s.In, k.params["x"], at, n)
			if j >= 0 {
				codes[j] = x
			}
			return x
		}
		top := r.walk([]val{k.i32(lowest)}, func(j int, at, _ val, n int, c []val) []val {
			for _, x := range load(j, at, n) {
				c = []val{k.max(c[0], x)}
			}
			return c
		})
		top = r.all(top, func(a, b val) val { return k.max(a, b) })
		var kept [unrolled][]val
		power := func(j int, at val, n int) []val {
			if j >= 0 && kept[j] != nil {
				return kept[j]
			}
			out := make([]val, n)
			for i, x := range load(j, at, n) {
				out[i] = k.load(types.I32, powers, k.mul(k.sub(top[0], x), 4))
			}
			if j >= 0 {
				kept[j] = out
			}
			return out
		}
		sum := r.walk([]val{k.i64(0)}, func(j int, at, in val, n int, c []val) []val {
			ts := power(j, at, n)
			for i := 0; i < n; i += 2 { // two of at most 2^30 fit a word
				t := ts[i]
				if n > 1 {
					t = k.add(t, ts[i+1])
				}
				c = []val{k.add(c[0], k.zext(k.orZero(in, t), types.I64))}
			}
			return c
		})[0]
		// Sums of at most 2^50 pass between threads in two parts.
		const low = 20
		parts := []val{k.trunc(k.lshr(sum, low), types.I32), k.and(k.trunc(sum, types.I32), 1<<low-1)}
		parts = r.all(parts, func(a, b val) val { return k.add(a, b) })
		sum = k.add(k.shl(k.zext(parts[0], types.I64), low), k.zext(parts[1], types.I64))
		share := s.shares(k, k.shl(sum, softmaxFrac))
		r.walk(nil, func(j int, at, in val, n int, none []val) []val {
			out := make([]val, n)
			for i, t := range power(j, at, n) {
				y := k.clamp(k.add(share(t), int(s.Range.Zero)), s.Range.Lo, s.Range.Hi)
				if s.OutSigned {
					y = k.xor(y, 128)
				}
				out[i] = y
			}
			k.when(in, func() { k.storeCodes(k.params["y"], at, out) })
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
	less := k.sub(k.i64(0), den)
	factor := k.b.NewFDiv(f32(float32(s.C)), k.b.NewUIToFP(den, types.Float))
	return func(t val) val {
		a := k.b.NewFMul(k.b.NewUIToFP(t, types.Float), factor)
		q := k.nearest(k.b.NewFSub(a, f32(0.25)))
		twice := k.b.NewMul(k.zext(t, types.I64), k.i64(int64(2*s.C)))
		rest := k.add(k.mul(less, k.zext(k.add(k.shl(q, 1), 1), types.I64)), twice)
		rest = k.add(rest, k.zext(k.and(q, 1), types.I64))
		return k.add(q, k.zext(k.cmp(enum.IPredSGT, rest, 0), types.I32))
	}
}
