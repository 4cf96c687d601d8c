package gpu

import (
	"errors"
	"fmt"
	"math"
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// floatFns are the functions of one float32 that have a kernel.
var floatFns = map[ir.OpKind]gen.FloatFn{
	ir.Relu: gen.Relu, ir.LeakyRelu: gen.LeakyRelu, ir.Clip: gen.Clip, ir.Sigmoid: gen.Sigmoid, ir.HardSigmoid: gen.HardSigmoid,
	ir.HardSwish: gen.HardSwish, ir.Tanh: gen.Tanh, ir.Exp: gen.Exp, ir.Log: gen.Log, ir.Sqrt: gen.Sqrt,
	ir.Reciprocal: gen.Reciprocal, ir.Neg: gen.Neg, ir.Abs: gen.Abs, ir.Softplus: gen.Softplus, ir.Elu: gen.Elu,
	ir.Floor: gen.Floor, ir.Ceil: gen.Ceil, ir.Round: gen.Round, ir.Erf: gen.Erf,
}

// floatOps are the operators of two float32 that have a kernel.
var floatOps = map[ir.OpKind]gen.FloatOp{
	ir.Add: gen.FloatAdd, ir.Sub: gen.FloatSub, ir.Mul: gen.FloatMul, ir.Div: gen.FloatDiv, ir.Min: gen.FloatMin, ir.Max: gen.FloatMax,
}

// float launches an operator that stays in float32.
func (l *lowering) float() error {
	g, op := l.g, l.op
	x, y := g.Type(op.In[0]), g.Type(op.Out)
	if x.DType != ir.F32 {
		return fmt.Errorf("%s has no kernel; of floating point only f32 has", x.DType)
	}
	if f, ok := floatFns[op.Kind]; ok {
		s := gen.Unary{N: x.Numel(), Fn: f}
		switch a := op.Attr.(type) {
		case *ir.ClipAttr:
			s.A, s.B = a.Lo, a.Hi
		case *ir.AlphaBetaAttr:
			s.A, s.B = a.Alpha, a.Beta
		}
		return l.launch(s, l.value(op.In[0]), l.result())
	}
	if o, ok := floatOps[op.Kind]; ok {
		a, b := x.Shape, g.Type(op.In[1]).Shape
		inf := float32(math.Inf(1))
		s := gen.FloatBinary{
			Nest: gen.NewNest(y.Shape, []int{0, 0, 0}, gen.RowMajor(y.Shape), gen.Broadcast(a, y.Shape), gen.Broadcast(b, y.Shape)),
			Op:   o, Lo: -inf, Hi: inf,
		}
		if act := actOf(op.Attr); act != nil {
			s.Lo, s.Hi = act.Lo, act.Hi
		}
		return l.launch(s, l.value(op.In[0]), l.value(op.In[1]), l.result())
	}
	switch op.Kind {
	case ir.Conv2D, ir.MatMul:
		return l.floatProduct()
	case ir.Equals, ir.Less, ir.LessEqual:
		return l.compare()
	case ir.ReduceMean, ir.ReduceSum, ir.ReduceMax, ir.ReduceMin:
		kept, over := reduced(x.Shape, op.Attr.(*ir.ReduceAttr).Axes)
		s := gen.FloatReduce{Kept: kept, Over: over, Mean: op.Kind == ir.ReduceMean}
		switch op.Kind {
		case ir.ReduceMax:
			s.Op = gen.Max
		case ir.ReduceMin:
			s.Op = gen.Min
		}
		return l.launch(s, l.value(op.In[0]), l.result())
	case ir.MaxPool:
		w := poolWindow(op.Attr.(*ir.PoolAttr), x, y)
		if slices.Min(w.Counts(0, 0, w.H)) == 0 || slices.Min(w.Counts(1, 0, w.W)) == 0 {
			return errEmptyWindow
		}
		return l.launch(gen.FloatMaxPool{Window: w}, l.value(op.In[0]), l.result())
	case ir.Softmax, ir.LogSoftmax:
		a := op.Attr.(*ir.AxisAttr).Axis
		s := gen.FloatSoftmax{Outer: ir.Numel(x.Shape[:a]), N: x.Shape[a], Inner: ir.Numel(x.Shape[a+1:]), Log: op.Kind == ir.LogSoftmax}
		if s.Inner == 1 && s.N >= 32 {
			s.Warps = gen.RowWarps(s.Outer, s.N, int(l.gpu.SMs.Value))
		}
		return l.launch(s, l.value(op.In[0]), l.result())
	}
	if a, ok := op.Attr.(*ir.LRNAttr); ok {
		s := gen.LRN{
			Outer: ir.Numel(x.Shape[:a.Axis]), N: x.Shape[a.Axis], Inner: ir.Numel(x.Shape[a.Axis+1:]),
			Size: a.Size, Alpha: a.Alpha, Beta: a.Beta, Bias: a.Bias,
		}
		return l.launch(s, l.value(op.In[0]), l.result())
	}
	return errors.New("has no kernel in float32, and is not fixed point in this model")
}
