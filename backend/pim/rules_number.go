package pim

import (
	"errors"
	"fmt"
	"slices"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/internal/vecf32"
	"situ/ir"
)

// numberTypes are the element types that exist on the machine.
var numberTypes = map[ir.DType]isa.DType{
	ir.F32: isa.F32, ir.I8: isa.I8, ir.U8: isa.U8, ir.I16: isa.I16, ir.U16: isa.U16, ir.I32: isa.I32, ir.U32: isa.U32,
	ir.I64: isa.I64, ir.U64: isa.U64, ir.Bool: isa.Bool,
}

// isPlain reports whether t holds integers or bools that are no codes.
func isPlain(t ir.Type) bool { return !t.IsQuantised() && !t.DType.IsFloat() }

// integerFns are the functions of two plain integers.
var integerFns = map[ir.OpKind]int64{
	ir.Add: isa.IAdd, ir.Sub: isa.ISub, ir.Mul: isa.IMul, ir.Div: isa.IDiv, ir.Min: isa.IMin, ir.Max: isa.IMax,
	ir.BitAnd: isa.IAnd, ir.BitOr: isa.IOr, ir.BitXor: isa.IXor,
	ir.Equals: isa.IEqual, ir.Less: isa.ILess, ir.LessEqual: isa.ILessEqual,
}

// broadcasts checks that operands of some dimensions can be repeated over a
// result's.
func broadcasts(out dims, operands ...*tensor) error {
	for _, t := range operands {
		for i, n := range out {
			if t.dims[i] != n && t.dims[i] != 1 {
				return errors.New("broadcasts over more than four dimensions")
			}
		}
	}
	return nil
}

// integers lowers a function of two plain numbers: of integers, or a comparison.
func (l *lowering) integers() error {
	a, err := l.in(0)
	if err != nil {
		return err
	}
	b, err := l.in(1)
	if err != nil {
		return err
	}
	if err := broadcasts(dimsOf(l.outType().Shape), a, b); err != nil {
		return err
	}
	fn, ok := integerFns[l.op.Kind]
	if m, mod := l.op.Attr.(*ir.ModAttr); mod {
		fn, ok = isa.IMod, true
		if m.Truncated {
			fn = isa.IRem
		}
	}
	t, known := numberTypes[l.inType(0).DType]
	if !ok || !known || t == isa.F32 && !isa.Compares(fn) {
		return fmt.Errorf("of plain %s has no form on a PIM chip", l.inType(0).DType)
	}
	if l.inType(0).IsQuantised() {
		return errors.New("compares codes; on a PIM chip only plain numbers are compared")
	}
	return l.result(&binaryI{fn: fn, t: t, a: a.dims, b: b.dims}, a, b)
}

func (l *lowering) where() error {
	var in [3]*tensor
	for i := range in {
		var err error
		if in[i], err = l.in(i); err != nil {
			return err
		}
	}
	if err := broadcasts(dimsOf(l.outType().Shape), in[:]...); err != nil {
		return err
	}
	return l.result(&selection{elem: in[1].elem, in: [3]dims{in[0].dims, in[1].dims, in[2].dims}}, in[:]...)
}

func (l *lowering) cast() error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	from, ok := numberTypes[l.inType(0).DType]
	to, ok2 := numberTypes[l.outType().DType]
	if !ok || !ok2 {
		return fmt.Errorf("from %s to %s has no form on a PIM chip", l.inType(0).DType, l.outType().DType)
	}
	if from == to {
		return l.alias(x, x.dims, x.off, x.reshaped)
	}
	return l.result(&retype{op: isa.OpConvert, to: to, from: from}, x)
}

// reduceIntegers lowers a reduction of plain integers over dimensions that lie
// side by side.
func (l *lowering) reduceIntegers(x *tensor, outer, n, inner int) error {
	fn, ok := map[ir.OpKind]int64{ir.ReduceSum: isa.ISum, ir.ReduceMax: isa.IReduceMax, ir.ReduceMin: isa.IReduceMin}[l.op.Kind]
	t, known := numberTypes[l.inType(0).DType]
	if !ok || !known || t == isa.Bool {
		return fmt.Errorf("of plain %s has no form on a PIM chip", l.inType(0).DType)
	}
	if err := l.result(&reduceI{fn: fn, t: t, in: x.dims, outer: outer, n: n, inner: inner}, l.densely(x)); err != nil {
		return err
	}
	l.vals[l.op.Out].store.whole = true
	return nil
}

// tableShare is the part of a scratchpad up to which a constant table of a gather
// is kept there; larger ones stay in DRAM.
const tableShare = 32

// A table is a constant that rows are looked up in.
type table struct {
	bytes int64
	kept  bool // in the scratchpad
}

// keepsTable reports whether a chip holds a table in its scratchpad.
func keepsTable(c *arch.Chip, bytes int64) bool { return bytes <= c.Scratchpad.Bytes.Int()/tableShare }

// alike reports whether the graph is lowered for c as it was for the chip it was
// lowered for: the tables that gathers read lie in the same memories.
func (l *lowering) alike(c *arch.Chip) bool {
	return (!l.blocks || l.shiftRows == c.ShiftRows()) && !slices.ContainsFunc(l.tables, func(t table) bool { return t.kept != keepsTable(c, t.bytes) })
}

// lookUp lowers a gather with indices known at run time.
func (l *lowering) lookUp() error {
	index, err := l.in(1)
	if err != nil {
		return err
	}
	t, ok := numberTypes[l.inType(1).DType]
	if !ok || t == isa.F32 || t == isa.Bool {
		return fmt.Errorf("has indices of %s", l.inType(1).DType)
	}
	shape, axis := l.inType(0).Shape, l.op.Attr.(*ir.AxisAttr).Axis
	count := l.inType(1).Numel()
	rows := dims{1, ir.Numel(shape[:axis]), shape[axis], ir.Numel(shape[axis+1:])}
	k := &lookUp{t: t, table: rows}
	in := []*tensor{l.view4(index, dims{1, 1, count, 1})}
	x, err := l.in(0)
	if err != nil {
		return err
	}
	k.elem = x.elem
	kept := x.store.absent == 0
	if kept {
		n := x.store.constBytes()
		kept = keepsTable(l.chip, n)
		l.tables = append(l.tables, table{n, kept})
	}
	if kept {
		in = append(in, l.view4(x, rows))
	} else {
		x.store.remote = true
		k.home = x.store
	}
	if err := l.result(k, in...); err != nil {
		return err
	}
	y := l.vals[l.op.Out]
	got := dims{1, rows[1], count, rows[3]}
	y.dims, y.store.dims = got, got
	l.vals[l.op.Out] = l.view4(y, dimsOf(l.outType().Shape))
	return nil
}

// wideCodes lowers the conversion of float32 to codes wider than 8 bits, or back.
func (l *lowering) wideCodes(op isa.Op, codes ir.Type) error {
	x, err := l.in(0)
	if err != nil {
		return err
	}
	t := numberTypes[codes.DType]
	if t != isa.I16 && t != isa.U16 && (t != isa.I32 || op == isa.OpQuantW) || !codes.Quant.IsPerTensor() || codes.DType == ir.I32 && codes.Quant.Zero[0] != 0 {
		return fmt.Errorf("%s codes with %d scales have no form on a PIM chip", codes.DType, len(codes.Quant.Scale))
	}
	k := &retype{op: op, to: t, from: isa.F32, scale: codes.Quant.Scale[0], zero: int64(codes.Quant.Zero[0])}
	if op == isa.OpDequantW {
		k.to, k.from = isa.F32, t
	}
	return l.result(k, x)
}

// maxFloatK bounds the length of the sums of a float32 product.
const maxFloatK = 1 << 18

// floatProduct lowers a product in float32: a fallback of the vector unit.
func (l *lowering) floatProduct() error {
	if l.outType().DType != ir.F32 || l.inType(1).DType != ir.F32 {
		return fmt.Errorf("of %s has no form on a PIM chip", l.inType(1).DType)
	}
	x, err := l.in(0)
	if err != nil {
		return err
	}
	k := &productF{window: window{kernel: [2]int{1, 1}, stride: [2]int{1, 1}, dilation: [2]int{1, 1}, in: x.dims}, cin: x.dims[3]}
	var w *tensor
	switch a := l.op.Attr.(type) {
	case *ir.ConvAttr:
		if a.Groups != 1 {
			return errors.New("convolves groups in floating point, for which a PIM chip has no instruction; quantise it")
		}
		s := l.inType(1).Shape
		k.window = window{kernel: [2]int{s[1], s[2]}, stride: a.Strides, dilation: a.Dilations, pad: [2]int{a.Pads[0], a.Pads[1]}, in: x.dims}
		if w, err = l.filters(); err != nil {
			return err
		}
		x = l.withBorder(x, &k.window, dimsOf(l.outType().Shape))
	default:
		if len(l.inType(0).Shape) < 2 || len(l.inType(1).Shape) < 2 {
			return errors.New("multiplies a vector; reshape it to a matrix")
		}
		if w, err = l.in(1); err != nil {
			return err
		}
		k.matrices = true
		out := dimsOf(l.outType().Shape)
		for i := range 2 {
			if x.dims[i] != out[i] && x.dims[i] != 1 || w.dims[i] != out[i] && w.dims[i] != 1 {
				return errors.New("broadcasts over more than four dimensions")
			}
		}
	}
	k.w = w.dims
	if k.w[2] > maxFloatK {
		return fmt.Errorf("sums %d products in float32; at most %d are possible", k.w[2], maxFloatK)
	}
	return l.finishFloat(k, x, w)
}

// finishFloat appends a float32 product, its bias and its activation.
func (l *lowering) finishFloat(k *productF, x, w *tensor) error {
	var bias *tensor
	if len(l.op.In) > 2 && l.op.In[2] != ir.NoValue {
		var err error
		if bias, err = l.in(2); err != nil {
			return err
		}
	}
	act := productAct(l.op.Attr)
	if bias == nil && act == nil {
		if err := l.result(k, x, w); err != nil {
			return err
		}
		l.countMACs(k)
		return nil
	}
	sums := &tensor{name: l.g.Value(l.op.Out).Name, dims: dimsOf(l.outType().Shape), elem: 4}
	l.ownStore(sums)
	l.add(k, sums, x, w)
	l.countMACs(k)
	var clip *vecf32.Params
	if act != nil {
		clip = &vecf32.Params{A: act.Lo, B: act.Hi}
	}
	if bias == nil {
		return l.result(&unaryF{fn: vecf32.Clip, p: *clip}, sums)
	}
	return l.result(&binaryF{fn: vecf32.Add, a: sums.dims, b: bias.dims, clip: clip}, sums, bias)
}

func (l *lowering) countMACs(k *productF) {
	l.layers[l.layer()].MACs = k.macs(whole(dimsOf(l.outType().Shape)))
}

// filters returns the constant weights [O, kh, kw, I] of a convolution as the
// right operand of a product: [1, 1, kh·kw·I, O].
func (l *lowering) filters() (*tensor, error) {
	id := l.op.In[1]
	if !l.g.IsConst(id) {
		return nil, errors.New("has weights that are not constant")
	}
	from := ir.Data[float32](l.g.Value(id).Const)
	o := l.inType(1).Shape[0]
	n := len(from) / max(o, 1)
	data := make([]float32, len(from))
	for i := range o {
		for j := range n {
			data[j*o+i] = from[i*n+j]
		}
	}
	t := &tensor{name: l.g.Value(id).Name, dims: dims{1, 1, n, o}, elem: 4}
	l.ownStore(t)
	var err error
	t.store.data, err = bytesOf(ir.NewTensor(ir.F32, []int{n, o}, data))
	return t, err
}
