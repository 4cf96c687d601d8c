package eval

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"situ/ir"
)

func prepareReshape(n *node) (kernel, error) {
	shape := n.out.Shape
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) { return in[0].Reshaped(shape...), nil }, nil
}

// selection is the preparation of an operator whose result element at an index
// is the operand's element at that index of layout s.
func selection(n *node, s layout) (kernel, error) {
	shape := n.out.Shape
	d := layout{0, rowMajor(shape)}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, shape...)
		copyStrided(out, d, in[0], s, shape)
		return out, nil
	}, nil
}

func prepareTranspose(n *node) (kernel, error) {
	strides := rowMajor(n.in[0].Shape)
	s := make([]int, len(strides))
	for i, p := range n.op.Attr.(*ir.PermAttr).Perm {
		s[i] = strides[p]
	}
	return selection(n, layout{0, s})
}

func prepareSlice(n *node) (kernel, error) {
	a := n.op.Attr.(*ir.SliceAttr)
	s := layout{0, rowMajor(n.in[0].Shape)}
	for i, st := range s.strides {
		s.off += a.Starts[i] * st
		s.strides[i] = a.Steps[i] * st
	}
	return selection(n, s)
}

func prepareExpand(n *node) (kernel, error) {
	x := n.in[0].Shape
	strides := rowMajor(x)
	s := make([]int, len(n.out.Shape))
	for i, d := range x {
		if d != 1 {
			s[i+len(s)-len(x)] = strides[i]
		}
	}
	return selection(n, layout{0, s})
}

func prepareConcat(n *node) (kernel, error) {
	ax, shape := n.op.Attr.(*ir.AxisAttr).Axis, n.out.Shape
	strides := rowMajor(shape)
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, shape...)
		d := layout{0, strides}
		for _, x := range in {
			copyStrided(out, d, x, layout{0, rowMajor(x.Shape)}, x.Shape)
			d.off += x.Shape[ax] * strides[ax]
		}
		return out, nil
	}, nil
}

func prepareGather(n *node) (kernel, error) {
	ax, x := n.op.Attr.(*ir.AxisAttr).Axis, n.in[0].Shape
	outer, inner := ir.Numel(x[:ax]), ir.Numel(x[ax+1:])
	count := n.in[1].Numel()
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, n.out.Shape...)
		idx := ir.Data[int64](cast(in[1], ir.I64))
		for i, k := range idx {
			at := k
			if at < 0 {
				at += int64(x[ax])
			}
			if at < 0 || at >= int64(x[ax]) {
				return nil, fmt.Errorf("index %d is outside dimension %d of %v", k, ax, x)
			}
			copyStrided(out, layout{i * inner, []int{count * inner, 1}},
				in[0], layout{int(at) * inner, []int{x[ax] * inner, 1}}, []int{outer, inner})
		}
		return out, nil
	}, nil
}

// preparePad pads constants in one step, other modes one dimension after the
// other, so that a later dimension repeats what an earlier one wrote.
func preparePad(n *node) (kernel, error) {
	a := n.op.Attr.(*ir.PadAttr)
	if a.Mode != ir.PadConstant {
		return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
			t := in[0]
			for ax := range t.Shape {
				t = padAxis(t, ax, a.Begin[ax], a.End[ax], a.Mode)
			}
			return t, nil
		}, nil
	}
	value := a.Value
	if n.out.IsQuantised() {
		if !n.out.Quant.IsPerTensor() {
			if !zeroIsZero(n.out.Quant) || value != 0 {
				return nil, errors.New("pads a per-axis quantised operand: a single code for the padding does not exist")
			}
			value = 0
		} else {
			value = float64(code(value, n.out))
		}
	}
	// The operand's part that remains, and where it goes.
	x := n.in[0].Shape
	d, s := layout{0, rowMajor(n.out.Shape)}, layout{0, rowMajor(x)}
	shape := slices.Clone(x)
	for i := range x {
		d.off += max(a.Begin[i], 0) * d.strides[i]
		s.off += max(-a.Begin[i], 0) * s.strides[i]
		shape[i] += min(a.Begin[i], 0) + min(a.End[i], 0)
	}
	return func(_ *env, in []*ir.Tensor) (*ir.Tensor, error) {
		out := ir.Zeros(n.out.DType, n.out.Shape...)
		if value != 0 || math.Signbit(value) {
			fill(out, value)
		}
		copyStrided(out, d, in[0], s, shape)
		return out, nil
	}, nil
}

func zeroIsZero(q *ir.Quant) bool {
	return !slices.ContainsFunc(q.Zero, func(z int32) bool { return z != 0 })
}

// padAxis pads (or with negative counts crops) one dimension.
func padAxis(t *ir.Tensor, ax, begin, end int, mode ir.PadMode) *ir.Tensor {
	if begin == 0 && end == 0 {
		return t
	}
	n := t.Shape[ax]
	shape := slices.Clone(t.Shape)
	shape[ax] = n + begin + end
	out := ir.Zeros(t.DType, shape...)
	outer, inner := ir.Numel(shape[:ax]), ir.Numel(shape[ax+1:])
	for i := range shape[ax] {
		copyStrided(out, layout{i * inner, []int{shape[ax] * inner, 1}},
			t, layout{padSource(i-begin, n, mode) * inner, []int{n * inner, 1}}, []int{outer, inner})
	}
	return out
}

// padSource returns the index whose element position i of a dimension of n takes.
func padSource(i, n int, mode ir.PadMode) int {
	switch {
	case i >= 0 && i < n:
		return i
	case mode == ir.PadReflect:
		if i < 0 {
			return -i
		}
		return 2*(n-1) - i
	case mode == ir.PadWrap:
		return (i + n) % n
	}
	return min(max(i, 0), n-1)
}
