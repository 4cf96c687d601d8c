package ir

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// window returns the number of positions of a kernel along one dimension:
// floor((in + pads − dilation·(kernel−1) − 1) / stride) + 1.
func window(in, kernel, stride, dilation, padBegin, padEnd int) (int, error) {
	for _, a := range [...]struct {
		name  string
		v, lo int
	}{{"kernel", kernel, 1}, {"stride", stride, 1}, {"dilation", dilation, 1}, {"pad", padBegin, 0}, {"pad", padEnd, 0}} {
		if a.v < a.lo || a.v > maxStep {
			return 0, fmt.Errorf("%s is %d, want %d to %d", a.name, a.v, a.lo, maxStep)
		}
	}
	span := in + padBegin + padEnd - dilation*(kernel-1) - 1
	if span < 0 {
		return 0, fmt.Errorf("kernel %d with dilation %d is larger than the padded operand (%d + %d + %d)",
			kernel, dilation, in, padBegin, padEnd)
	}
	return span/stride + 1, nil
}

func convShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*ConvAttr)
	x, w, bias := in[0], in[1], in[2]
	if err := errors.Join(needRank("x", x, 4), needRank("w", w, 4)); err != nil {
		return nil, err
	}
	if err := checkAct(a.Act); err != nil {
		return nil, err
	}
	n, c, o := x.Shape[0], x.Shape[3], w.Shape[0]
	if a.Groups < 1 || c%a.Groups != 0 || o%a.Groups != 0 {
		return nil, fmt.Errorf("groups %d do not divide %d input and %d output channels", a.Groups, c, o)
	}
	if w.Shape[3] != c/a.Groups {
		return nil, fmt.Errorf("w has %d input channels, x has %d in %d groups", w.Shape[3], c, a.Groups)
	}
	if err := checkBias(bias, o); err != nil {
		return nil, err
	}
	h, err := window(x.Shape[1], w.Shape[1], a.Strides[0], a.Dilations[0], a.Pads[0], a.Pads[2])
	if err != nil {
		return nil, fmt.Errorf("height: %w", err)
	}
	wd, err := window(x.Shape[2], w.Shape[2], a.Strides[1], a.Dilations[1], a.Pads[1], a.Pads[3])
	if err != nil {
		return nil, fmt.Errorf("width: %w", err)
	}
	return []int{n, h, wd, o}, nil
}

func checkBias(bias Type, n int) error {
	if bias.DType != Invalid && !slices.Equal(bias.Shape, []int{n}) {
		return fmt.Errorf("bias has shape %v, want [%d]", bias.Shape, n)
	}
	return nil
}

// checkAct requires an interval without NaN.
func checkAct(a *Act) error {
	if a != nil && !(a.Lo <= a.Hi) {
		return fmt.Errorf("activation interval [%v, %v] is empty or not a number", a.Lo, a.Hi)
	}
	return nil
}

func matmulShape(op *Op, in []Type) ([]int, error) {
	a, b, bias := in[0].Shape, in[1].Shape, in[2]
	if len(a) < 2 || len(b) < 2 {
		return nil, fmt.Errorf("operands have shapes %v and %v, want at least 2 dimensions each", a, b)
	}
	if err := checkAct(op.Attr.(*MatMulAttr).Act); err != nil {
		return nil, err
	}
	la, lb := len(a)-2, len(b)-2
	if a[la+1] != b[lb] {
		return nil, fmt.Errorf("inner dimensions of %v and %v differ", a, b)
	}
	lead, err := broadcast(a[:la], b[:lb])
	if err != nil {
		return nil, err
	}
	if err := checkBias(bias, b[lb+1]); err != nil {
		return nil, err
	}
	return append(lead, a[la], b[lb+1]), nil
}

func poolShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*PoolAttr)
	if err := needRank("x", in[0], 4); err != nil {
		return nil, err
	}
	out := slices.Clone(in[0].Shape)
	for d, dim := range [...]string{"height", "width"} {
		size, begin, end := out[1+d], a.Pads[d], a.Pads[2+d]
		n, err := window(size, a.Kernel[d], a.Strides[d], a.Dilations[d], begin, end)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dim, err)
		}
		if a.CeilPads[d] < 0 || a.CeilPads[d] > end {
			return nil, fmt.Errorf("%s: ceil_pads %d is not part of the pad %d", dim, a.CeilPads[d], end)
		}
		if i := emptyWindow(size, n, a.Kernel[d], a.Strides[d], a.Dilations[d], begin); i >= 0 {
			return nil, fmt.Errorf("%s: window %d lies wholly in the padding", dim, i)
		}
		out[1+d] = n
	}
	return out, nil
}

// emptyWindow returns the index of a window without an element of the operand,
// or −1. Windows that start inside the operand have one; those before it are
// few, as pads are bounded.
func emptyWindow(in, n, kernel, stride, dilation, pad int) int {
	for i := 0; i < n && i*stride < pad; i++ {
		tap := (pad - i*stride + dilation - 1) / dilation // first tap not before the operand
		if tap >= kernel || i*stride-pad+tap*dilation >= in {
			return i
		}
	}
	if (n-1)*stride-pad >= in {
		return n - 1
	}
	return -1
}

func reduceShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*ReduceAttr)
	if len(a.Axes) == 0 {
		return nil, errors.New("axes are missing")
	}
	for i, ax := range a.Axes {
		if err := axisIn(ax, in[0]); err != nil {
			return nil, err
		}
		if i > 0 && ax <= a.Axes[i-1] {
			return nil, fmt.Errorf("axes %v are not ascending", a.Axes)
		}
	}
	var out []int
	for i, d := range in[0].Shape {
		switch {
		case !slices.Contains(a.Axes, i):
			out = append(out, d)
		case a.KeepDims:
			out = append(out, 1)
		}
	}
	return out, nil
}

func axisShape(op *Op, in []Type) ([]int, error) {
	return in[0].Shape, axisIn(op.Attr.(*AxisAttr).Axis, in[0])
}

func lrnShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*LRNAttr)
	if a.Size < 1 || a.Size > maxStep {
		return nil, fmt.Errorf("size is %d, want 1 to %d", a.Size, maxStep)
	}
	if err := finite("alpha, beta and bias", a.Alpha, a.Beta, a.Bias); err != nil {
		return nil, err
	}
	return in[0].Shape, axisIn(a.Axis, in[0])
}

func normShape(op *Op, in []Type) ([]int, error) {
	s := in[0].Shape
	if len(s) == 0 {
		return nil, errors.New("x has no dimension to normalise along")
	}
	if e := op.Attr.(*NormAttr).Epsilon; !(e >= 0) {
		return nil, fmt.Errorf("epsilon is %v, want 0 or more", e)
	}
	for i, what := range []string{"gamma", "beta"} {
		if u := in[1+i]; u.DType != Invalid && (len(u.Shape) != 1 || u.Shape[0] != s[len(s)-1]) {
			return nil, fmt.Errorf("%s has shape %v, want [%d]", what, u.Shape, s[len(s)-1])
		}
	}
	return s, finite("epsilon", op.Attr.(*NormAttr).Epsilon)
}

func finite(what string, v ...float32) error {
	for _, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%s must be finite, got %v", what, v)
		}
	}
	return nil
}

func binaryShape(op *Op, in []Type) ([]int, error) {
	if a, ok := op.Attr.(*BinaryAttr); ok {
		if err := checkAct(a.Act); err != nil {
			return nil, err
		}
	}
	return broadcast(in[0].Shape, in[1].Shape)
}

func mulAddShape(_ *Op, in []Type) ([]int, error) {
	shape := in[0].Shape
	for _, t := range in[1:] {
		var err error
		if shape, err = broadcast(shape, t.Shape); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

func clipShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*ClipAttr)
	if a.Lo != a.Lo || a.Hi != a.Hi {
		return nil, fmt.Errorf("bounds [%v, %v] are not numbers", a.Lo, a.Hi)
	}
	return in[0].Shape, nil
}

func alphaBetaShape(op *Op, in []Type) ([]int, error) {
	a := op.Attr.(*AlphaBetaAttr)
	return in[0].Shape, finite("alpha and beta", a.Alpha, a.Beta)
}

func lutShape(_ *Op, in []Type) ([]int, error) {
	if !slices.Equal(in[1].Shape, []int{256}) {
		return nil, fmt.Errorf("table has shape %v, want [256]", in[1].Shape)
	}
	return in[0].Shape, nil
}

func reshapeShape(op *Op, in []Type) ([]int, error) {
	s := op.Attr.(*ShapeAttr).Shape
	if err := validShape(s); err != nil {
		return nil, err
	}
	if Numel(s) != in[0].Numel() {
		return nil, fmt.Errorf("shape %v has %d elements, x %v has %d", s, Numel(s), in[0].Shape, in[0].Numel())
	}
	return slices.Clone(s), nil
}

func transposeShape(op *Op, in []Type) ([]int, error) {
	perm, x := op.Attr.(*PermAttr).Perm, in[0]
	bad := fmt.Errorf("perm %v does not permute the %d dimensions of x", perm, len(x.Shape))
	if len(perm) != len(x.Shape) {
		return nil, bad
	}
	out := make([]int, len(perm))
	var seen [MaxRank]bool
	for i, p := range perm {
		if p < 0 || p >= len(perm) || seen[p] {
			return nil, bad
		}
		seen[p] = true
		out[i] = x.Shape[p]
	}
	return out, nil
}

func concatShape(op *Op, in []Type) ([]int, error) {
	axis := op.Attr.(*AxisAttr).Axis
	if err := axisIn(axis, in[0]); err != nil {
		return nil, err
	}
	out := slices.Clone(in[0].Shape)
	for i, t := range in[1:] {
		fits := len(t.Shape) == len(out)
		for d := 0; fits && d < len(out); d++ {
			fits = d == axis || t.Shape[d] == out[d]
		}
		if !fits {
			return nil, fmt.Errorf("operand %d has shape %v, which does not join %v along axis %d", i+1, t.Shape, in[0].Shape, axis)
		}
		if out[axis] += t.Shape[axis]; out[axis] > MaxElems {
			return nil, errors.New("the joined dimension exceeds 2^40")
		}
	}
	return out, nil
}

func sliceShape(op *Op, in []Type) ([]int, error) {
	a, x := op.Attr.(*SliceAttr), in[0].Shape
	if len(a.Starts) != len(x) || len(a.Steps) != len(x) || len(a.Sizes) != len(x) {
		return nil, fmt.Errorf("starts, steps and sizes have %d, %d and %d entries, x has %d dimensions",
			len(a.Starts), len(a.Steps), len(a.Sizes), len(x))
	}
	for d, n := range x {
		start, step, size := a.Starts[d], a.Steps[d], a.Sizes[d]
		ok := size >= 1 && size <= n && start >= 0 && start < n && step != 0 || size == 0 && start >= 0 && start <= n && step != 0
		if ok && size > 1 {
			// |step| is bounded first so that the product cannot overflow.
			ok = step >= -n && step <= n
			if last := start + step*(size-1); ok {
				ok = last >= 0 && last < n
			}
		}
		if !ok {
			return nil, fmt.Errorf("dimension %d: start %d, step %d and size %d leave its %d elements", d, start, step, size, n)
		}
	}
	return slices.Clone(a.Sizes), nil
}

func padShape(op *Op, in []Type) ([]int, error) {
	a, x := op.Attr.(*PadAttr), in[0].Shape
	if len(a.Begin) != len(x) || len(a.End) != len(x) {
		return nil, fmt.Errorf("begin and end have %d and %d entries, x has %d dimensions", len(a.Begin), len(a.End), len(x))
	}
	if a.Mode > PadWrap {
		return nil, fmt.Errorf("mode %d does not exist", a.Mode)
	}
	if math.IsNaN(a.Value) {
		return nil, errors.New("value is not a number")
	}
	out := make([]int, len(x))
	for d, n := range x {
		b, e := a.Begin[d], a.End[d]
		if b < -MaxElems || b > MaxElems || e < -MaxElems || e > MaxElems {
			return nil, fmt.Errorf("dimension %d: pads %d and %d are out of bounds", d, b, e)
		}
		if min(b, 0)+min(e, 0) < -n {
			return nil, fmt.Errorf("dimension %d: cropping by %d and %d takes more than its %d elements", d, b, e, n)
		}
		most := MaxElems
		switch a.Mode {
		case PadReflect:
			most = n - 1
		case PadWrap:
			most = n
		case PadEdge:
			if n == 0 {
				most = 0
			}
		}
		if b > most || e > most {
			return nil, fmt.Errorf("dimension %d: pads %d and %d exceed what its %d elements can give by %s", d, b, e, n, a.Mode)
		}
		out[d] = n + b + e
	}
	return out, nil
}

func expandShape(op *Op, in []Type) ([]int, error) {
	s := op.Attr.(*ShapeAttr).Shape
	if err := validShape(s); err != nil {
		return nil, err
	}
	if b, err := broadcast(in[0].Shape, s); err != nil || !slices.Equal(b, s) {
		return nil, fmt.Errorf("x of shape %v does not broadcast to %v", in[0].Shape, s)
	}
	return slices.Clone(s), nil
}

func gatherShape(op *Op, in []Type) ([]int, error) {
	axis := op.Attr.(*AxisAttr).Axis
	if err := axisIn(axis, in[0]); err != nil {
		return nil, err
	}
	return slices.Concat(in[0].Shape[:axis], in[1].Shape, in[0].Shape[axis+1:]), nil
}
