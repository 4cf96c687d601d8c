package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// row is a row of n elements that one warp or several compute together.
type row struct {
	k      *fn
	n      int
	piece  int // neighbours that a thread takes at once
	warps  int
	base   val // of its first element
	thread val // among those of the row
	slot   int // of the values that its warps hand each other
}

// rowSlots is how many values, of 8 bytes at most, a row's warps hand each other.
const rowSlots = 3

// rowLaunch is the launch of a number of rows.
func rowLaunch(rows, warps int) Launch {
	if warps == 1 {
		return linear(32 * rows)
	}
	return Launch{Grid: [3]int{rows, 1, 1}, Block: [3]int{32 * warps, 1, 1}, Shared: rowShared(warps)}
}

// rowShared is the bytes of shared memory that the warps of a row need.
func rowShared(warps int) int { return 8 * rowSlots * warps }

// RowWarps returns how many warps are to compute a row: as few as let a thread keep its
// codes where there are rows for all SMs, else up to as many as have four codes a thread.
func RowWarps(rows, n, sms int) int {
	const warpsOfSM = 16
	warps := 1
	for warps < 16 && (n > unrolled*4*32*warps || 2*warps*32*4 <= n && rows*warps < warpsOfSM*sms) {
		warps *= 2
	}
	return warps
}

// eachRow runs body for every row of a launch by rowLaunch.
func (k *fn) eachRow(rows, n, piece, warps int, body func(r *row)) {
	r := &row{k: k, n: n, piece: piece, warps: warps}
	if warps == 1 {
		k.each(32*rows, func(thread val) {
			r.base, r.thread = k.mul(k.div(thread, 32), n), k.and(thread, 31)
			body(r)
		})
		return
	}
	r.base, r.thread = k.mul(k.special("ctaid.x"), n), k.special("tid.x")
	body(r)
}

// codesAtOnce is how many 8-bit codes of rows of n a thread takes at once.
func codesAtOnce(n int) int {
	if n%4 == 0 {
		return 4
	}
	return 1
}

// unrolled is the most pieces a thread takes that are written out.
const unrolled = 8

// walk calls f for the pieces of the row that belong to the thread: n
// elements from at on, of all rows. Where in, if not nil, does not hold the row has no such
// piece, and at is the beginning of the row. j counts the pieces of a thread, if they
// are few enough to be written out, so that f can keep what belongs to one; else it
// is −1.
func (r *row) walk(init []val, f func(j int, at, in val, n int, c []val) []val) []val {
	k, n := r.k, r.piece
	pieces, threads := r.n/n, 32*r.warps
	turns := (pieces + threads - 1) / threads
	turn := func(j int, t val, c []val) []val {
		i := k.add(k.mul(t, threads), r.thread)
		at := k.add(r.base, k.mul(i, n))
		if pieces%threads == 0 || j >= 0 && j < turns-1 {
			return f(j, at, nil, n, c)
		}
		in := k.cmp(enum.IPredULT, i, pieces)
		return f(j, k.sel(in, at, r.base), in, n, c)
	}
	if turns > unrolled {
		return k.loop(turns, init, func(t val, c []val) []val { return turn(-1, t, c) })
	}
	c := init
	for j := range turns {
		c = turn(j, k.i32(j), c)
	}
	return c
}

// orZero is v where in, if not nil, holds.
func (k *fn) orZero(in, v val) val {
	if in == nil {
		return v
	}
	return k.sel(in, v, lift(v, 0))
}

// all combines values, i32 or double, of all threads of the row: each gets the results.
// A row has rowSlots of them.
func (r *row) all(vs []val, combine func(a, b val) val) []val {
	k := r.k
	out := make([]val, len(vs))
	for i, v := range vs {
		for mask := 16; mask > 0; mask /= 2 {
			v = combine(v, k.shuffleValue(v, mask))
		}
		out[i] = v
	}
	if r.warps == 1 {
		return out
	}
	for i, v := range out {
		at := 8 * r.warps * r.slot
		r.slot++
		k.when(k.cmp(enum.IPredEQ, k.and(r.thread, 31), 0), func() {
			k.store(v, k.shared(), k.add(k.mul(k.lshr(r.thread, 5), 8), at))
		})
		k.barrier()
		out[i] = k.repeat(r.warps-1, []val{k.load(v.Type(), k.shared(), at)}, func(w val, c []val) []val {
			return []val{combine(c[0], k.load(v.Type(), k.shared(), k.add(k.mul(w, 8), at+8)))}
		})[0]
	}
	return out
}

// shuffleValue is shuffle for i32 and double.
func (k *fn) shuffleValue(x val, mask int) val {
	if x.Type().Equal(types.I32) {
		return k.shuffle(x, mask)
	}
	w := k.b.NewBitCast(x, types.I64)
	lo, hi := k.shuffle(k.trunc(w, types.I32), mask), k.shuffle(k.trunc(k.lshr(w, 32), types.I32), mask)
	return k.b.NewBitCast(k.or(k.zext(lo, types.I64), k.shl(k.zext(hi, types.I64), 32)), types.Double)
}
