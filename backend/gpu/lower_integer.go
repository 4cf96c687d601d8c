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
}

// integer launches an operator on plain integers.
func (l *lowering) integer() error {
	g, op := l.g, l.op
	x, y := g.Type(op.In[0]), g.Type(op.Out)
	o, ok := intOps[op.Kind]
	n, ok2 := number(x.DType)
	if !ok || !ok2 || n.Bool {
		return fmt.Errorf("on plain %s has no kernel", x.DType)
	}
	a, b := x.Shape, g.Type(op.In[1]).Shape
	s := gen.IntBinary{
		Nest: gen.NewNest(y.Shape, []int{0, 0, 0}, gen.RowMajor(y.Shape), gen.Broadcast(a, y.Shape), gen.Broadcast(b, y.Shape)),
		Op:   o, Type: n,
	}
	return l.launch(s, l.value(op.In[0]), l.value(op.In[1]), l.result())
}
