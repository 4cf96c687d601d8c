package kernel

import (
	"math"

	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// index reads the i-th of the indices into n entries, of 4 or 8 bytes; negative ones
// count from the end. The kernel traps on one outside.
func (k *fn) index(bytes int, i val, n int) val {
	x := k.load(types.NewInt(uint64(8*bytes)), k.params["indices"], k.mul(i, bytes))
	x = k.sel(k.cmp(enum.IPredSLT, x, 0), k.add(x, n), x)
	k.when(k.cmp(enum.IPredUGE, x, n), func() { k.asm("trap;", "", true, types.Void) })
	x = k.clamp(x, 0, int32(n-1)) // memory is safe whatever comes
	if bytes == 8 {
		x = k.trunc(x, types.I32)
	}
	return x
}

// GatherElements takes, for each index of [Outer, M, Inner], the element of
// x [Outer, N, Inner] at its place but at that index along N. Parameters: x, indices,
// y.
type GatherElements struct {
	Elem               int
	Outer, N, M, Inner int
	IndexBytes         int // 4 or 8
}

// Family implements Spec.
func (s GatherElements) Family() string { return "gather_elements" }

// Params implements Spec.
func (s GatherElements) Params() []string { return []string{"x", "indices", "y"} }

// Launch implements Spec.
func (s GatherElements) Launch() Launch { return linear(s.Outer * s.M * s.Inner) }

func (s GatherElements) emit(k *fn) {
	k.each(s.Outer*s.M*s.Inner, func(i val) {
		c := k.split(i, s.Outer, s.M, s.Inner)
		from := k.add(k.mul(k.add(k.mul(c[0], s.N), k.index(s.IndexBytes, i, s.N)), s.Inner), c[2])
		k.store(k.load(word(s.Elem), k.params["x"], k.mul(from, s.Elem)), k.params["y"], k.mul(i, s.Elem))
	})
}

// ScatterMode says what becomes of the element that is there.
type ScatterMode int

// Ways to scatter; integers wrap.
const (
	ScatterSet ScatterMode = iota
	ScatterAdd
	ScatterMul
	ScatterMin
	ScatterMax
)

// ScatterElements puts each of the updates [Outer, M, Inner] at its place of
// y [Outer, N, Inner] but at the given index along N. A thread does all of a lane, in
// order. Parameters: indices, updates, y.
type ScatterElements struct {
	Mode               ScatterMode
	Type               Number
	Outer, N, M, Inner int
	IndexBytes         int // 4 or 8
}

// Family implements Spec.
func (s ScatterElements) Family() string { return "scatter_elements" }

// Params implements Spec.
func (s ScatterElements) Params() []string { return []string{"indices", "updates", "y"} }

// Launch implements Spec.
func (s ScatterElements) Launch() Launch { return linear(s.Outer * s.Inner) }

func (s ScatterElements) emit(k *fn) {
	k.each(s.Outer*s.Inner, func(i val) {
		c := k.split(i, s.Outer, s.Inner)
		k.repeat(s.M, nil, func(j val, _ []val) []val {
			from := k.add(k.mul(k.add(k.mul(c[0], s.M), j), s.Inner), c[1])
			to := k.add(k.mul(k.add(k.mul(c[0], s.N), k.index(s.IndexBytes, from, s.N)), s.Inner), c[1])
			s.update(k, from, to)
			return nil
		})
	})
}

// update puts one update into its place, both elements.
func (s ScatterElements) update(k *fn, from, to val) {
	y := k.params["y"]
	t := types.NewInt(uint64(8 * s.Type.Bytes))
	switch {
	case s.Mode == ScatterSet:
		k.store(k.load(t, k.params["updates"], k.mul(from, s.Type.Bytes)), y, k.mul(to, s.Type.Bytes))
	case s.Type.Float:
		a, b := k.loadFloat(y, to), k.loadFloat(k.params["updates"], from)
		k.storeFloat(k.twoFloats([...]FloatOp{ScatterAdd: FloatAdd, ScatterMul: FloatMul, ScatterMin: FloatMin, ScatterMax: FloatMax}[s.Mode], a, b), y, to)
	default:
		a, b := k.loadInteger(s.Type, y, to), k.loadInteger(s.Type, k.params["updates"], from)
		op := [...]IntOp{ScatterAdd: IntAdd, ScatterMul: IntMul, ScatterMin: IntMin, ScatterMax: IntMax}[s.Mode]
		k.store(k.resize(k.twoInts(op, s.Type.Signed, a, b), t), y, k.mul(to, s.Type.Bytes))
	}
}

// TopK gives the indices, as int64 [Outer, K, Inner], of the K largest or smallest
// elements of x [Outer, N, Inner] along N, in order; of equals the first comes first,
// NaN is larger than all numbers. A thread finds those of a lane, one a pass.
// Parameters: x, y.
type TopK struct {
	Type               Number
	Outer, N, Inner, K int
	Smallest           bool
}

// Family implements Spec.
func (s TopK) Family() string { return "topk" }

// Params implements Spec.
func (s TopK) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s TopK) Launch() Launch { return linear(s.Outer * s.Inner) }

func (s TopK) emit(k *fn) {
	k.each(s.Outer*s.Inner, func(i val) {
		c := k.split(i, s.Outer, s.Inner)
		key := func(j val) val { return s.key(k, k.add(k.mul(k.add(k.mul(c[0], s.N), j), s.Inner), c[1])) }
		// What a pass may take comes behind what the pass before took: a greater key, or
		// an equal one later on.
		k.repeat(s.K, []val{k.i64(math.MinInt64), k.i32(-1)}, func(r val, last []val) []val {
			best := k.repeat(s.N, []val{k.i64(math.MaxInt64), k.i32(s.N)}, func(j val, b []val) []val {
				v := key(j)
				behind := k.b.NewOr(k.cmp(enum.IPredSGT, v, last[0]), k.b.NewAnd(k.cmp(enum.IPredEQ, v, last[0]), k.cmp(enum.IPredSGT, j, last[1])))
				// Of equal keys the first stays; a key that none is greater than counts, too.
				better := k.b.NewOr(k.cmp(enum.IPredSLT, v, b[0]), k.b.NewAnd(k.cmp(enum.IPredEQ, v, b[0]), k.cmp(enum.IPredSLT, j, b[1])))
				take := k.b.NewAnd(behind, better)
				return []val{k.sel(take, v, b[0]), k.sel(take, j, b[1])}
			})
			at := k.add(k.mul(k.add(k.mul(c[0], s.K), r), s.Inner), c[1])
			k.store(k.sext(best[1], types.I64), k.params["y"], k.mul(at, 8))
			return best
		})
	})
}

// key reads an element as an integer in whose order the elements are wanted, the
// least first.
func (s TopK) key(k *fn, at val) val {
	var x val
	switch {
	case s.Type.Float:
		bits := k.load(types.I32, k.params["x"], k.mul(at, 4))
		magnitude := k.and(bits, math.MaxInt32)
		signed := k.sel(k.cmp(enum.IPredSLT, bits, 0), k.sub(k.i32(0), magnitude), magnitude)
		nan := k.cmp(enum.IPredUGT, magnitude, 0x7f800000)
		x = k.sext(k.sel(nan, k.i32(math.MaxInt32), signed), types.I64)
	default:
		x = k.loadInteger(s.Type, k.params["x"], at)
		if s.Type.Bytes == 8 && !s.Type.Signed {
			x = k.xor(x, k.i64(math.MinInt64))
		}
	}
	if !s.Smallest {
		x = k.xor(x, k.i64(-1))
	}
	return x
}
