package onnx

import (
	"math"
	"slices"

	"situ/ir"
)

// reduceAxes reads the axes of a reduction: an attribute, from opset operandFrom
// on an operand. none is set when nothing is to be reduced.
func (c *call) reduceAxes(rank int, operandFrom int64) (axes []int, none bool) {
	var list []int64
	noop := false
	if c.opset >= operandFrom {
		list, _ = c.intsOperand(1, "axes")
		noop = c.bool("noop_with_empty_axes", false)
	} else {
		list, _ = c.ints("axes")
	}
	if len(list) > 0 {
		return c.axes(list, rank), false
	}
	if noop {
		return nil, true
	}
	for d := range rank {
		axes = append(axes, d)
	}
	return axes, rank == 0
}

// A reduction is what remains of a node once its axes are known.
type reduction struct {
	axes []int // none when nothing is to be reduced
	keep bool
}

// reduced applies one of the IR's reductions.
func (c *call) reduced(r reduction, kind ir.OpKind, x ir.ValueID) ir.ValueID {
	if len(r.axes) == 0 {
		return x
	}
	return c.add(kind, &ir.ReduceAttr{Axes: r.axes, KeepDims: r.keep}, x)
}

// reduce translates a reduction that is made of f.
func reduce(operandFrom int64, f func(c *call, r reduction, x ir.ValueID) ir.ValueID) func(*call) {
	return func(c *call) {
		rank := len(c.typeOf(c.in[0]).Shape)
		r := reduction{keep: c.bool("keepdims", true)}
		r.axes, _ = c.reduceAxes(rank, operandFrom)
		if c.err != nil {
			return
		}
		if len(r.axes) == 0 && c.typeOf(c.in[0]).DType == ir.Bool {
			c.pass(c.in[0])
			return
		}
		c.set(f(c, r, c.plain(0)))
	}
}

// native is a reduction that the IR has.
func native(kind ir.OpKind) func(*call, reduction, ir.ValueID) ir.ValueID {
	return func(c *call, r reduction, x ir.ValueID) ir.ValueID { return c.reduced(r, kind, x) }
}

// extreme is a maximum or minimum; of bools it is "any" or "all".
func extreme(kind ir.OpKind) func(*call, reduction, ir.ValueID) ir.ValueID {
	return func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		if c.typ(x).DType != ir.Bool {
			return c.reduced(r, kind, x)
		}
		return c.castID(c.reduced(r, kind, c.castID(x, ir.U8)), ir.Bool)
	}
}

// onShapes is a reduction that is evaluated at once where its operand is a
// constant of integers, as in the arithmetic on shapes.
func onShapes(operandFrom int64, join func(a, b int64) int64, f func(*call, reduction, ir.ValueID) ir.ValueID) func(*call) {
	general := reduce(operandFrom, f)
	return func(c *call) {
		v := c.in[0]
		if !v.isConst() || !v.tensor.DType.IsInt() || v.tensor.DType == ir.U64 || v.tensor.Numel() == 0 || !c.foldable(v) {
			general(c)
			return
		}
		keep := c.bool("keepdims", true)
		s := v.tensor.Shape
		axes, none := c.reduceAxes(len(s), operandFrom)
		if c.err != nil || none {
			c.pass(v)
			return
		}
		kept, shape := slices.Clone(s), []int(nil)
		for d := range s {
			switch {
			case !slices.Contains(axes, d):
				shape = append(shape, s[d])
				continue
			case keep:
				shape = append(shape, 1)
			}
			kept[d] = 1
		}
		out := make([]int64, ir.Numel(kept))
		seen := make([]bool, len(out))
		list := int64s(v.tensor)
		for i, o := range broadcastIndices(kept, s) {
			if seen[o] {
				out[o] = join(out[o], list[i])
			} else {
				out[o], seen[o] = list[i], true
			}
		}
		c.setConst(fromInts(v.tensor.DType, shape, out))
	}
}

// castID converts the element type of a value of the graph.
func (c *call) castID(x ir.ValueID, d ir.DType) ir.ValueID {
	t := c.typ(x)
	if t.DType == d {
		return x
	}
	return c.addTyped(ir.Cast, nil, ir.TypeOf(d, t.Shape...), x)
}

// wide computes in floating point of at least 32 bits and rounds the result
// once: 16-bit floats in f32, integers in f64.
func (c *call) wide(x ir.ValueID, f func(x ir.ValueID) ir.ValueID) ir.ValueID {
	d := c.typ(x).DType
	switch {
	case d == ir.F16 || d == ir.BF16:
		return c.castID(f(c.castID(x, ir.F32)), d)
	case d.IsInt():
		return c.castID(f(c.castID(x, ir.F64)), d)
	}
	return f(x)
}

// widely makes f compute as wide does.
func widely(f func(*call, reduction, ir.ValueID) ir.ValueID) func(*call, reduction, ir.ValueID) ir.ValueID {
	return func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		return c.wide(x, func(x ir.ValueID) ir.ValueID { return f(c, r, x) })
	}
}

// abs is the absolute value of numbers of any type.
func (c *call) abs(x ir.ValueID) ir.ValueID {
	switch d := c.typ(x).DType; {
	case d.IsFloat():
		return c.add(ir.Abs, nil, x)
	case d == ir.I8 || d == ir.I16 || d == ir.I32 || d == ir.I64:
		return c.add(ir.Max, nil, x, c.add(ir.Sub, nil, c.scalar(d, 0), x))
	}
	return x
}

func sumOfAbs(c *call, r reduction, x ir.ValueID) ir.ValueID {
	if d := c.typ(x).DType; d.IsInt() {
		return c.reduced(r, ir.ReduceSum, c.abs(x))
	}
	return widely(func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		return c.reduced(r, ir.ReduceSum, c.abs(x))
	})(c, r, x)
}

func sumOfSquares(c *call, r reduction, x ir.ValueID) ir.ValueID {
	square := func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		return c.reduced(r, ir.ReduceSum, c.add(ir.Mul, nil, x, x))
	}
	if c.typ(x).DType.IsInt() {
		return square(c, r, x)
	}
	return widely(square)(c, r, x)
}

func norm2(c *call, r reduction, x ir.ValueID) ir.ValueID {
	return widely(func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		return c.add(ir.Sqrt, nil, c.reduced(r, ir.ReduceSum, c.add(ir.Mul, nil, x, x)))
	})(c, r, x)
}

func logOfSum(c *call, r reduction, x ir.ValueID) ir.ValueID {
	return widely(func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		return c.add(ir.Log, nil, c.reduced(r, ir.ReduceSum, x))
	})(c, r, x)
}

// logOfSumOfExp is m + log Σ exp(x − m) with m the maximum, or 0 where that is
// infinite.
func logOfSumOfExp(c *call, r reduction, x ir.ValueID) ir.ValueID {
	if len(r.axes) == 0 {
		return x
	}
	return widely(func(c *call, r reduction, x ir.ValueID) ir.ValueID {
		d := c.typ(x).DType
		m := c.add(ir.ReduceMax, &ir.ReduceAttr{Axes: r.axes, KeepDims: true}, x)
		infinite := c.add(ir.Equals, nil, c.add(ir.Abs, nil, m), c.scalar(d, math.Inf(1)))
		m = c.where(infinite, c.scalar(d, 0), m)
		sum := c.reduced(r, ir.ReduceSum, c.add(ir.Exp, nil, c.add(ir.Sub, nil, x, m)))
		return c.add(ir.Add, nil, c.add(ir.Log, nil, sum), c.reshape(m, c.typ(sum).Shape...))
	})(c, r, x)
}

// lpNormalization divides by the norm along an axis; where that is 0, so are all
// elements, and the result is.
func lpNormalization(c *call) {
	x := c.id(0)
	axis := c.axis(c.int("axis", -1), len(c.typ(x).Shape))
	p := c.int("p", 2)
	if c.err == nil && p != 1 && p != 2 {
		c.failf("p is %d, want 1 or 2", p)
	}
	c.set(c.wide(x, func(x ir.ValueID) ir.ValueID {
		r := reduction{axes: []int{axis}, keep: true}
		n := ir.NoValue
		if p == 1 {
			n = sumOfAbs(c, r, x)
		} else {
			n = norm2(c, r, x)
		}
		d := c.typ(x).DType
		n = c.where(c.add(ir.Equals, nil, n, c.scalar(d, 0)), c.scalar(d, 1), n)
		return c.add(ir.Div, nil, x, n)
	}))
}
