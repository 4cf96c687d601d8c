package ir

import (
	"math"
	"testing"
)

// TestShapeRules checks that each operator has a shape rule.
func TestShapeRules(t *testing.T) {
	for _, k := range Kinds() {
		if opTable[k].shape == nil {
			t.Errorf("%s has no shape rule", k)
		}
	}
}

// FuzzTypeRules looks for attributes and shapes that make a rule panic, hang or
// accept a result of absurd size.
func FuzzTypeRules(f *testing.F) {
	f.Add(uint8(Conv2D), int64(3), int64(1), int64(1), int64(1), int64(0))
	f.Add(uint8(Slice), int64(4), int64(2), int64(math.MinInt64), int64(2), int64(-1))
	f.Add(uint8(Pad), int64(1<<40), int64(1), int64(math.MaxInt64), int64(1), int64(math.MinInt64))
	f.Add(uint8(ScatterElements), int64(5), int64(2), int64(2), int64(1), int64(0))
	f.Add(uint8(TopK), int64(5), int64(2), int64(1), int64(-1), int64(0))
	f.Add(uint8(Where), int64(0), int64(2), int64(2), int64(1), int64(0))
	f.Add(uint8(MaxPool), int64(5), int64(7), int64(1<<20), int64(1<<20), int64(1<<20))
	f.Fuzz(func(t *testing.T, kind uint8, a, b, c, d, e int64) {
		g := &Graph{}
		x := g.AddInput("x", TypeOf(F32, 1, int(a), int(b), 1))
		w := g.AddInput("w", TypeOf(F32, 1, int(b), int(c), 1))
		index := g.AddInput("index", TypeOf(I64, 1, int(c), int(b), 1))
		cond := g.AddInput("cond", TypeOf(Bool, 1, int(d), int(b), 1))
		i := func(v int64) [2]int { return [2]int{int(v), 1} }
		p := [4]int{int(d), 0, int(e), 0}
		l := func(v int64) []int { return []int{0, int(v), 0, 0} }
		for _, attr := range []Attr{
			nil,
			&ConvAttr{Strides: i(c), Pads: p, Dilations: i(b), Groups: int(a)},
			&PoolAttr{Kernel: i(b), Strides: i(c), Pads: p, Dilations: i(e), CeilPads: i(d)},
			&ReduceAttr{Axes: []int{int(c), int(d)}},
			&AxisAttr{Axis: int(c)},
			&ShapeAttr{Shape: []int{int(c), int(d), int(e)}},
			&PermAttr{Perm: []int{int(b), int(c), int(d), int(e)}},
			&SliceAttr{Starts: l(c), Steps: []int{1, int(d), 1, 1}, Sizes: []int{1, int(e), 1, 1}},
			&PadAttr{Begin: l(c), End: l(d), Mode: PadMode(e)},
			&LRNAttr{Axis: int(c), Size: int(d)},
			&ModAttr{},
			&TopKAttr{Axis: int(c), K: int(d)},
			&ScatterAttr{Axis: int(c), Mode: ScatterMode(d)},
		} {
			for _, in := range [][]ValueID{{x}, {x, w}, {x, x}, {x, index, w}, {cond, x, w}} {
				op := Op{Kind: OpKind(kind), In: in, Attr: attr}
				if got, err := InferType(g, &op); err == nil {
					if err := ValidType(got); err != nil {
						t.Fatalf("%s with %+v infers %v: %v", op.Kind, attr, got, err)
					}
				}
			}
		}
	})
}
