package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Comparison says what Compare asks of a and b.
type Comparison int

// Comparisons; none holds of a NaN.
const (
	Equal Comparison = iota
	Less
	LessEqual
)

// Compare compares plain numbers, or float32, element by element, with
// broadcasting; results are bools of a byte. Parameters: a, b, y.
type Compare struct {
	Nest Nest // y, a, b; y dense
	Op   Comparison
	Type Number
}

// Family implements Spec.
func (s Compare) Family() string { return "compare" }

// Params implements Spec.
func (s Compare) Params() []string { return []string{"a", "b", "y"} }

// Launch implements Spec.
func (s Compare) Launch() Launch { return linear(s.Nest.Size()) }

func (s Compare) emit(k *fn) {
	k.each(s.Nest.Size(), func(i val) {
		at := k.offsets(s.Nest, i)
		var y val
		if s.Type.Float {
			pred := [...]enum.FPred{Equal: enum.FPredOEQ, Less: enum.FPredOLT, LessEqual: enum.FPredOLE}[s.Op]
			y = k.b.NewFCmp(pred, k.loadFloat(k.params["a"], at[1]), k.loadFloat(k.params["b"], at[2]))
		} else {
			pred := [...]enum.IPred{Equal: enum.IPredEQ, Less: enum.IPredULT, LessEqual: enum.IPredULE}[s.Op]
			if s.Type.Signed {
				pred = [...]enum.IPred{Equal: enum.IPredEQ, Less: enum.IPredSLT, LessEqual: enum.IPredSLE}[s.Op]
			}
			y = k.cmp(pred, k.loadInteger(s.Type, k.params["a"], at[1]), k.loadInteger(s.Type, k.params["b"], at[2]))
		}
		k.store(k.zext(y, types.I8), k.params["y"], at[0])
	})
}

// Select takes elements of Elem bytes of a where a bool is 1, else of b, with
// broadcasting. Parameters: cond, a, b, y.
type Select struct {
	Nest Nest // y, cond, a, b; y dense
	Elem int
}

// Family implements Spec.
func (s Select) Family() string { return "select" }

// Params implements Spec.
func (s Select) Params() []string { return []string{"cond", "a", "b", "y"} }

// Launch implements Spec.
func (s Select) Launch() Launch { return linear(s.Nest.Size()) }

func (s Select) emit(k *fn) {
	t := types.NewInt(uint64(8 * s.Elem))
	k.each(s.Nest.Size(), func(i val) {
		at := k.offsets(s.Nest, i)
		cond := k.cmp(enum.IPredNE, k.load(types.I8, k.params["cond"], at[1]), 0)
		a, b := k.load(t, k.params["a"], k.mul(at[2], s.Elem)), k.load(t, k.params["b"], k.mul(at[3], s.Elem))
		k.store(k.sel(cond, a, b), k.params["y"], k.mul(at[0], s.Elem))
	})
}

// IntReduce is the sum, maximum or minimum of plain integers over some
// dimensions; sums wrap. Parameters: x, y.
type IntReduce struct {
	Op   Reduction
	Kept Nest // x only: of the first element of each sum
	Over Nest // x only: the elements of one sum
	Type Number
}

// Family implements Spec.
func (s IntReduce) Family() string { return "integer_reduce" }

// Params implements Spec.
func (s IntReduce) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s IntReduce) Launch() Launch { return linear(s.Kept.Size()) }

func (s IntReduce) emit(k *fn) {
	less := enum.IPredULT
	if s.Type.Signed {
		less = enum.IPredSLT
	}
	k.each(s.Kept.Size(), func(i val) {
		base := k.offsets(s.Kept, i)[0]
		x := func(r val) val { return k.loadInteger(s.Type, k.params["x"], k.add(base, k.offsets(s.Over, r)[0])) }
		start := k.i64(0)
		if s.Op != Sum {
			start = x(k.i32(0)) // once more below, which changes nothing
		}
		acc := k.repeat(s.Over.Size(), []val{start}, func(r val, c []val) []val {
			v := x(r)
			switch s.Op {
			case Max:
				return []val{k.sel(k.cmp(less, c[0], v), v, c[0])}
			case Min:
				return []val{k.sel(k.cmp(less, v, c[0]), v, c[0])}
			}
			return []val{k.add(c[0], v)}
		})[0]
		k.store(k.resize(acc, types.NewInt(uint64(8*s.Type.Bytes))), k.params["y"], k.mul(i, s.Type.Bytes))
	})
}
