package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/internal/fixed"
	"situ/ir"
)

// arith returns the numbers of an add, sub or mul of codes.
func (l *lowering) arith(op *ir.Op) (gen.Arith, error) {
	g := l.g
	a, b, y := g.Type(op.In[0]), g.Type(op.In[1]), g.Type(op.Out)
	s := gen.Arith{
		A: codes(a), B: codes(b), ZA: a.Quant.Zero[0], ZB: b.Quant.Zero[0],
		Mul: op.Kind == ir.Mul, Out: codeRange(y, actOf(op.Attr)),
	}
	sa, sb, sy := float64(a.Quant.Scale[0]), float64(b.Quant.Scale[0]), float64(y.Quant.Scale[0])
	if s.Mul {
		p, err := fixed.NewMul(sa, sb, sy, 0, 0, 0, 0, 255)
		s.Scale = scale(p.M)
		return s, err
	}
	if op.Kind == ir.Sub {
		sb = -sb
	}
	p, err := fixed.NewAdd(sa, sb, sy, 0, 0, 0, 0, 255)
	s.MA, s.MB, s.Shift = p.MA, p.MB, int(p.Shift)
	return s, err
}

// binary launches add, sub and mul of codes.
func (l *lowering) binary() error {
	g, op := l.g, l.op
	arith, err := l.arith(op)
	if err != nil {
		return err
	}
	y := g.Type(op.Out).Shape
	a, b, to := l.readView(op.In[0]), l.readView(op.In[1]), l.destination()
	s := gen.Binary{
		Nest: gen.NewNest(y, []int{to.base, a.base, b.base}, to.strides,
			broadcast(g.Type(op.In[0]).Shape, a.strides, y), broadcast(g.Type(op.In[1]).Shape, b.strides, y)),
		Arith: arith,
	}
	if s.Then, err = l.steps(); err != nil {
		return err
	}
	return l.launchChainTo(to.at(), s, a.at(), b.at())
}

func (l *lowering) lut() error {
	x, from, to := l.g.Type(l.op.In[0]), l.readView(l.op.In[0]), l.destination()
	steps, err := l.steps()
	if err != nil {
		return err
	}
	s := gen.Table{
		Nest: gen.NewNest(x.Shape, []int{to.base, from.base}, to.strides, from.strides),
		In:   codes(x), Out: codes(l.g.Type(l.op.Out)), Then: steps,
	}
	return l.launchChainTo(to.at(), s, from.at(), l.value(l.op.In[1]))
}

// channels describes the quantisation axis of a type.
func channels(t ir.Type) (count, inner int) {
	if t.Quant.IsPerTensor() {
		return 1, 1
	}
	a := t.Quant.Axis
	return t.Shape[a], ir.Numel(t.Shape[a+1:])
}

func (l *lowering) requantize() error {
	x, y := l.g.Type(l.op.In[0]), l.g.Type(l.op.Out)
	count, inner := channels(x)
	s := gen.Requantize{N: x.Numel(), In: codes(x), Out: codes(y), Channels: gen.Channels(count, inner), Range: codeRange(y, nil)}
	var scales []gen.Scale
	for _, sx := range x.Quant.Scale {
		m, err := fixed.NewMultiplier(float64(sx) / float64(y.Quant.Scale[0]))
		if err != nil {
			return err
		}
		scales = append(scales, scale(m))
	}
	table := l.unused()
	if count > 1 {
		rows, high := gen.NewRequantizeTable(x.Quant.Zero, scales)
		s.High = high
		table = l.words(rows)
	} else {
		s.Scale, s.Zero = scales[0], x.Quant.Zero[0]
	}
	return l.launch(s, l.value(l.op.In[0]), table, l.result())
}

// realScales is the table of scales and zero points of a per-axis type.
func (l *lowering) realScales(q *ir.Quant) arg {
	var rows []int32
	for c, s := range q.Scale {
		rows = append(rows, int32(math.Float32bits(s)), q.Zero[c])
	}
	return l.words(rows)
}

func (l *lowering) quantize() error {
	y := l.g.Type(l.op.Out)
	if y.DType.Bits() > 16 {
		return fmt.Errorf("to %s has no kernel, only to codes of at most 16 bits", y.DType)
	}
	count, inner := channels(y)
	s := gen.Quantize{N: y.Numel(), Out: codes(y), Channels: gen.Channels(count, inner), Range: codeRange(y, nil)}
	table := l.unused()
	if count > 1 {
		s.Range.Zero = 0
		table = l.realScales(y.Quant)
	} else {
		s.Scale = y.Quant.Scale[0]
	}
	return l.launch(s, l.value(l.op.In[0]), table, l.result())
}

func (l *lowering) dequantize() error {
	x := l.g.Type(l.op.In[0])
	count, inner := channels(x)
	s := gen.Dequantize{N: x.Numel(), In: codes(x), Channels: gen.Channels(count, inner)}
	table := l.unused()
	if count > 1 {
		table = l.realScales(x.Quant)
	} else {
		s.Scale, s.Zero = x.Quant.Scale[0], x.Quant.Zero[0]
	}
	return l.launch(s, l.value(l.op.In[0]), table, l.result())
}

// poolWindow returns where the windows of a pool from type x to type y lie.
func poolWindow(a *ir.PoolAttr, x, y ir.Type) gen.Window {
	return gen.Window{
		N: x.Shape[0], H: x.Shape[1], W: x.Shape[2], C: x.Shape[3], OH: y.Shape[1], OW: y.Shape[2],
		Kernel: a.Kernel, Stride: a.Strides, Dilation: a.Dilations, Pad: [2]int{a.Pads[0], a.Pads[1]},
	}
}

var errEmptyWindow = errors.New("has a window without any element")

func (l *lowering) pool() error {
	g, op := l.g, l.op
	a := op.Attr.(*ir.PoolAttr)
	x, y := g.Type(op.In[0]), g.Type(op.Out)
	if x.DType.Bits() > 8 {
		return fmt.Errorf("of %s has no kernel, only of 8-bit codes", x.DType)
	}
	s := gen.Pool{
		Window: poolWindow(a, x, y), Codes: codes(x), Mean: op.Kind == ir.AvgPool, Zero: channel(x.Quant.Zero, 0),
	}
	rows, cols := s.Window.Counts(0, 0, x.Shape[1]), s.Window.Counts(1, 0, x.Shape[2])
	if !s.Mean {
		if slices.Min(rows) == 0 || slices.Min(cols) == 0 {
			return errEmptyWindow
		}
		lo, hi := x.DType.IntRange()
		s.Range = gen.Range{Lo: int32(lo), Hi: int32(hi)}
		return l.launch(s, l.value(op.In[0]), l.unused(), l.result())
	}
	if a.Kernel[0]*a.Kernel[1] > math.MaxInt32/255 {
		return errors.New("pools more elements than a 32-bit sum of codes can hold")
	}
	s.Range = codeRange(y, nil)
	s.Count = [4]int{0, x.Shape[1], 0, x.Shape[2]}
	if a.CountPad {
		s.Count = [4]int{-a.Pads[0], x.Shape[1] + a.Pads[2] - a.CeilPads[0], -a.Pads[1], x.Shape[2] + a.Pads[3] - a.CeilPads[1]}
	}
	rows, cols = s.Window.Counts(0, s.Count[0], s.Count[1]), s.Window.Counts(1, s.Count[2], s.Count[3])
	table := make([]int32, 2*(slices.Max(rows)*slices.Max(cols)+1))
	var last fixed.Multiplier
	different := map[int]bool{}
	for _, r := range rows {
		for _, c := range cols {
			if different[r*c] {
				continue
			}
			m, err := fixed.NewMultiplier(float64(x.Quant.Scale[0]) / (float64(y.Quant.Scale[0]) * float64(r*c)))
			if err != nil {
				return err
			}
			different[r*c], last = true, m
			table[2*r*c], table[2*r*c+1] = m.M, int32(m.Shift)
		}
	}
	if len(different) > 1 {
		s.Varies = true
		return l.launch(s, l.value(op.In[0]), l.words(table), l.result())
	}
	s.Scale, s.Count = scale(last), [4]int{}
	return l.launch(s, l.value(op.In[0]), l.unused(), l.result())
}

// reduced divides a shape into the dimensions that a reduction keeps and those it
// sums over.
func reduced(shape, axes []int) (kept, over gen.Nest) {
	strides := gen.RowMajor(shape)
	var dims, steps [2][]int // kept, over
	for d, n := range shape {
		i := 0
		if slices.Contains(axes, d) {
			i = 1
		}
		dims[i], steps[i] = append(dims[i], n), append(steps[i], strides[d])
	}
	return gen.NewNest(dims[0], []int{0}, steps[0]), gen.NewNest(dims[1], []int{0}, steps[1])
}

func (l *lowering) reduce() error {
	g, op := l.g, l.op
	x, y := g.Type(op.In[0]), g.Type(op.Out)
	if x.DType.Bits() > 8 {
		return fmt.Errorf("of %s has no kernel, only of 8-bit codes", x.DType)
	}
	kept, over := reduced(x.Shape, op.Attr.(*ir.ReduceAttr).Axes)
	s := gen.Reduce{Kept: kept, Over: over, Codes: codes(x), Zero: channel(x.Quant.Zero, 0)}
	switch op.Kind {
	case ir.ReduceMax, ir.ReduceMin:
		s.Op = gen.Max
		if op.Kind == ir.ReduceMin {
			s.Op = gen.Min
		}
		lo, hi := x.DType.IntRange()
		s.Range = gen.Range{Lo: int32(lo), Hi: int32(hi)}
	default:
		count := x.Numel() / y.Numel()
		if count > math.MaxInt32/255 {
			return errors.New("reduces more elements than a 32-bit sum of codes can hold")
		}
		if op.Kind == ir.ReduceSum {
			count = 1
		}
		m, err := fixed.NewMultiplier(float64(x.Quant.Scale[0]) / (float64(y.Quant.Scale[0]) * float64(count)))
		if err != nil {
			return err
		}
		s.Scale, s.Range = scale(m), codeRange(y, nil)
	}
	return l.launch(s, l.value(op.In[0]), l.result())
}

func (l *lowering) softmax() error {
	x, y := l.g.Type(l.op.In[0]), l.g.Type(l.op.Out)
	n := x.Shape[len(x.Shape)-1]
	if n > fixed.MaxSoftmax {
		return errors.New("the axis is too long for fixed point")
	}
	lo, hi := y.DType.IntRange()
	p, err := fixed.NewSoftmax(float64(x.Quant.Scale[0]), float64(y.Quant.Scale[0]), y.Quant.Zero[0]-int32(lo), 0, byte(hi-lo))
	if err != nil {
		return err
	}
	table := make([]byte, 0, 4*len(p.Table))
	for _, t := range p.Table {
		table = binary.LittleEndian.AppendUint32(table, t)
	}
	s := gen.Softmax{
		Rows: x.Numel() / n, N: n, In: codes(x), OutSigned: codes(y).Signed, C: p.C,
		Warps: gen.RowWarps(x.Numel()/n, n, int(l.gpu.SMs.Value)),
		Range: gen.Range{Zero: p.ZY, Lo: int32(p.Lo), Hi: int32(p.Hi)},
	}
	return l.launch(s, l.value(l.op.In[0]), l.constant(table), l.result())
}
