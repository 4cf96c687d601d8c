package gpu

import (
	"fmt"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// number describes a plain element type that kernels compute on.
func number(d ir.DType) (gen.Number, bool) {
	n := gen.Number{Bytes: elemBytes(d), Float: d == ir.F32, Bool: d == ir.Bool}
	switch d {
	case ir.I8, ir.I16, ir.I32, ir.I64:
		n.Signed = true
	case ir.U8, ir.U16, ir.U32, ir.U64, ir.Bool, ir.F32:
	default:
		return n, false
	}
	return n, true
}

func (l *lowering) cast() error {
	x, y := l.g.Type(l.op.In[0]), l.g.Type(l.op.Out)
	from, ok := number(x.DType)
	to, ok2 := number(y.DType)
	if !ok || !ok2 || from.Float && y.DType == ir.U64 {
		return fmt.Errorf("of %s to %s has no kernel", x.DType, y.DType)
	}
	return l.launch(gen.Cast{N: x.Numel(), From: from, To: to}, l.value(l.op.In[0]), l.result())
}

// intOps are the operators of two plain integers that have a kernel. Division is
// none: it fails on a zero, and a kernel cannot.
var intOps = map[ir.OpKind]gen.IntOp{
	ir.Add: gen.IntAdd, ir.Sub: gen.IntSub, ir.Mul: gen.IntMul, ir.Min: gen.IntMin, ir.Max: gen.IntMax,
	ir.BitAnd: gen.IntAnd, ir.BitOr: gen.IntOr, ir.BitXor: gen.IntXor,
}

// comparisons are the comparisons of two numbers that have a kernel.
var comparisons = map[ir.OpKind]gen.Comparison{ir.Equals: gen.Equal, ir.Less: gen.Less, ir.LessEqual: gen.LessEqual}

// nest walks a result and its operands, which broadcast.
func (l *lowering) nest() gen.Nest {
	y := l.g.Type(l.op.Out).Shape
	strides := [][]int{gen.RowMajor(y)}
	for _, id := range l.op.In {
		strides = append(strides, gen.Broadcast(l.g.Type(id).Shape, y))
	}
	return gen.NewNest(y, make([]int, len(strides)), strides...)
}

func (l *lowering) compare() error {
	n, ok := number(l.g.Type(l.op.In[0]).DType)
	if !ok {
		return fmt.Errorf("on plain %s has no kernel", l.g.Type(l.op.In[0]).DType)
	}
	return l.launch(gen.Compare{Nest: l.nest(), Op: comparisons[l.op.Kind], Type: n}, l.value(l.op.In[0]), l.value(l.op.In[1]), l.result())
}

// where chooses elements of any type.
func (l *lowering) where() error {
	s := gen.Select{Nest: l.nest(), Elem: elemBytes(l.g.Type(l.op.Out).DType)}
	return l.launch(s, l.value(l.op.In[0]), l.value(l.op.In[1]), l.value(l.op.In[2]), l.result())
}

// reductions are the reductions of plain integers that have a kernel.
var reductions = map[ir.OpKind]gen.Reduction{ir.ReduceSum: gen.Sum, ir.ReduceMax: gen.Max, ir.ReduceMin: gen.Min}

// integer launches an operator on plain integers.
func (l *lowering) integer() error {
	g, op := l.g, l.op
	x := g.Type(op.In[0])
	if _, ok := comparisons[op.Kind]; ok {
		return l.compare()
	}
	n, known := number(x.DType)
	if r, ok := reductions[op.Kind]; ok && known && !n.Bool {
		kept, over := reduced(x.Shape, op.Attr.(*ir.ReduceAttr).Axes)
		return l.launch(gen.IntReduce{Op: r, Kept: kept, Over: over, Type: n}, l.value(op.In[0]), l.result())
	}
	o, ok := intOps[op.Kind]
	if !ok || !known || n.Bool && o < gen.IntAnd {
		return fmt.Errorf("on plain %s has no kernel", x.DType)
	}
	return l.launch(gen.IntBinary{Nest: l.nest(), Op: o, Type: n}, l.value(op.In[0]), l.value(op.In[1]), l.result())
}
