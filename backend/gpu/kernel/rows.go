package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// row is a row of n 8-bit codes that one warp or several compute together.
type row struct {
	k      *fn
	n      int
	warps  int
	base   val // of its first element
	thread val // among those of the row
	slot   int // words of shared memory in use
}

// rowSlots is how many 64-bit values a row's warps hand each other.
const rowSlots = 2

// rowLaunch is the launch of a number of rows.
func rowLaunch(rows, warps int) Launch {
	if warps == 1 {
		return linear(32 * rows)
	}
	return Launch{Grid: [3]int{rows, 1, 1}, Block: [3]int{32 * warps, 1, 1}, Shared: 8 * rowSlots * warps}
}

// RowWarps returns how many warps are to compute a row: one where there are rows for
// all SMs, else up to as many as have four codes a thread.
func RowWarps(rows, n, sms int) int {
	const warpsOfSM = 16
	warps := 1
	for warps < 16 && 2*warps*32*4 <= n && rows*warps < warpsOfSM*sms {
		warps *= 2
	}
	return warps
}

// eachRow runs body for every row of a launch by rowLaunch.
func (k *fn) eachRow(rows, n, warps int, body func(r *row)) {
	if warps == 1 {
		k.each(32*rows, func(thread val) {
			body(&row{k: k, n: n, warps: 1, base: k.mul(k.div(thread, 32), n), thread: k.and(thread, 31)})
		})
		return
	}
	body(&row{k: k, n: n, warps: warps, base: k.mul(k.special("ctaid.x"), n), thread: k.special("tid.x")})
}

// piece is how many codes a thread takes at once.
func (r *row) piece() int {
	if r.n%4 == 0 {
		return 4
	}
	return 1
}

// walk calls f for the pieces of the row that belong to the thread: n codes from
// element at on, of all rows.
func (r *row) walk(init []val, f func(at val, n int, c []val) []val) []val {
	k, n := r.k, r.piece()
	pieces, threads := r.n/n, 32*r.warps
	return k.loop((pieces+threads-1)/threads, init, func(j val, c []val) []val {
		i := k.add(k.mul(j, threads), r.thread)
		body := func() []val { return f(k.add(r.base, k.mul(i, n)), n, c) }
		if pieces%threads == 0 {
			return body()
		}
		return k.guarded(k.cmp(enum.IPredULT, i, pieces), c, body)
	})
}

// all combines values, i32 or i64, of all threads of the row: each gets the result.
// A row has rowSlots of them.
func (r *row) all(vs []val, combine func(a, b val) val) []val {
	k := r.k
	out := make([]val, len(vs))
	for i, v := range vs {
		for mask := 16; mask > 0; mask /= 2 {
			v = combine(v, k.shuffleWide(v, mask))
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

// shuffleWide is shuffle for i32 and i64.
func (k *fn) shuffleWide(x val, mask int) val {
	if x.Type().Equal(types.I32) {
		return k.shuffle(x, mask)
	}
	lo := k.shuffle(k.trunc(x, types.I32), mask)
	hi := k.shuffle(k.trunc(k.lshr(x, 32), types.I32), mask)
	return k.or(k.zext(lo, types.I64), k.shl(k.zext(hi, types.I64), 32))
}
