package eval

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
)

var allTypes = []ir.DType{ir.F32, ir.F64, ir.F16, ir.BF16, ir.I4, ir.U4, ir.I8, ir.U8, ir.I16, ir.U16, ir.I32, ir.U32, ir.I64, ir.U64, ir.Bool}

// numbered returns a tensor of d whose elements count up from 0 (modulo what d
// can hold).
func numbered(d ir.DType, shape ...int) *ir.Tensor {
	x := make([]int64, ir.Numel(shape))
	mod := int64(1) << min(d.Bits(), 15)
	switch d {
	case ir.I4, ir.I8:
		mod /= 2
	case ir.Bool:
		mod = 2
	case ir.BF16, ir.F16:
		mod = 256
	}
	for i := range x {
		x[i] = int64(i) % mod
	}
	return cast(ir.NewTensor(ir.I64, shape, x), d)
}

// index returns the offset of an index of a dense tensor; at runs over all
// indices of a shape in row-major order.
func index(shape, at []int) int {
	o := 0
	for i, n := range shape {
		o = o*n + at[i]
	}
	return o
}

func eachIndex(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range ir.Numel(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// checkMove evaluates one movement of x and compares it with source, which says
// where the element at an index of the result comes from.
func checkMove(t *rapid.T, kind ir.OpKind, attr ir.Attr, x *ir.Tensor, source func(at []int) []int) {
	g := &ir.Graph{}
	y, err := g.Add(kind, "move", attr, g.AddInput("x", x.Type()))
	if err != nil {
		t.Fatalf("%v", err)
	}
	g.Outputs = []ir.ValueID{y}
	got := run(t, g, []*ir.Tensor{x}, Options{})[0]
	want := make([]int64, 0, got.Numel())
	xs := ir.Data[int64](cast(x, ir.I64))
	eachIndex(g.Type(y).Shape, func(at []int) { want = append(want, xs[index(x.Shape, source(at))]) })
	if got.DType != x.DType || !slices.Equal(ir.Data[int64](cast(got, ir.I64)), want) {
		t.Fatalf("%s %+v of %v:\n got %v\nwant %v", kind, attr, x.Shape, ir.Data[int64](cast(got, ir.I64)), want)
	}
}

// TestMoves checks movements of every element type, some large enough to be
// split over goroutines, against their definition by indices.
func TestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(allTypes).Draw(t, "type")
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "shape")
		if rapid.IntRange(0, 9).Draw(t, "large") == 9 {
			shape = append([]int{rapid.IntRange(1, 40).Draw(t, "outer")}, 37, rapid.IntRange(17, 67).Draw(t, "inner"))
		}
		x := numbered(d, shape...)
		draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			perm := make([]int, len(shape))
			for i := range perm {
				perm[i] = i
			}
			perm = rapid.Permutation(perm).Draw(t, "perm")
			checkMove(t, ir.Transpose, &ir.PermAttr{Perm: perm}, x, func(at []int) []int {
				s := make([]int, len(at))
				for i, p := range perm {
					s[p] = at[i]
				}
				return s
			})
		case 1:
			a := &ir.SliceAttr{}
			for _, n := range shape {
				start, step := draw("start", 0, n-1), draw("step", -2, 2)
				if step == 0 {
					step = 3
				}
				size := (n-1-start)/max(step, 1) + 1
				if step < 0 {
					size = start/-step + 1
				}
				if size == 1 {
					step = 1
				}
				a.Starts, a.Steps, a.Sizes = append(a.Starts, start), append(a.Steps, step), append(a.Sizes, draw("size", 1, size))
			}
			checkMove(t, ir.Slice, a, x, func(at []int) []int {
				s := make([]int, len(at))
				for i := range at {
					s[i] = a.Starts[i] + a.Steps[i]*at[i]
				}
				return s
			})
		case 2:
			axis := draw("axis", 0, len(shape)-1)
			one := slices.Clone(shape)
			one[axis] = 1
			x = numbered(d, one...)
			checkMove(t, ir.Expand, &ir.ShapeAttr{Shape: append([]int{2}, shape...)}, x, func(at []int) []int {
				s := slices.Clone(at[1:])
				s[axis] = 0
				return s
			})
		case 3:
			a := &ir.PadAttr{Mode: ir.PadEdge}
			for _, n := range shape {
				a.Begin, a.End = append(a.Begin, draw("begin", -(n-1)/2, 2)), append(a.End, draw("end", -(n-1)/2, 2))
			}
			checkMove(t, ir.Pad, a, x, func(at []int) []int {
				s := make([]int, len(at))
				for i := range at {
					s[i] = min(max(at[i]-a.Begin[i], 0), shape[i]-1)
				}
				return s
			})
		}
	})
}

// TestConcatSlices checks that the slices of a concatenation are its operands.
func TestConcatSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(allTypes).Draw(t, "type")
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "shape")
		axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
		g := &ir.Graph{}
		var ids []ir.ValueID
		var parts []*ir.Tensor
		for range rapid.IntRange(1, 3).Draw(t, "operands") {
			s := slices.Clone(shape)
			s[axis] = rapid.IntRange(1, 3).Draw(t, "size")
			parts = append(parts, numbered(d, s...))
			ids = append(ids, g.AddConst("", parts[len(parts)-1], nil))
		}
		y, err := g.Add(ir.Concat, "", &ir.AxisAttr{Axis: axis}, ids...)
		if err != nil {
			t.Fatalf("%v", err)
		}
		start := 0
		for _, p := range parts {
			a := &ir.SliceAttr{Starts: make([]int, len(shape)), Steps: slices.Repeat([]int{1}, len(shape)), Sizes: p.Shape}
			a.Starts[axis] = start
			start += p.Shape[axis]
			s, err := g.Add(ir.Slice, "", a, y)
			if err != nil {
				t.Fatalf("%v", err)
			}
			g.Outputs = append(g.Outputs, s)
		}
		for i, got := range run(t, g, nil, Options{}) {
			if !slices.Equal(ir.Data[int64](cast(got, ir.I64)), ir.Data[int64](cast(parts[i], ir.I64))) {
				t.Fatalf("operand %d comes back as %v", i, got.Any())
			}
		}
	})
}
