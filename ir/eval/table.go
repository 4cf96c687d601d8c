package eval

import (
	"errors"

	"situ/internal/vecf32"
	"situ/ir"
)

// A kernel computes one operator's result from its operands; absent optional
// operands are nil. It does not write to operands, may return one of them, and
// may run concurrently with itself.
type kernel func(e *env, in []*ir.Tensor) (*ir.Tensor, error)

// env is what a run passes to every kernel.
type env struct {
	plain bool // Options.Plain
}

// node is what prepare knows of an operator.
type node struct {
	op     *ir.Op
	in     []ir.Type    // element type ir.Invalid where absent, as long as the table's operand list
	consts []*ir.Tensor // operands that are constants, nil for the others
	out    ir.Type
}

// quantised reports whether the operator computes on codes.
func (n *node) quantised() bool { return n.in[0].IsQuantised() }

// A prepare function does an operator's work that does not depend on its
// operands' elements. It returns an error when the operator has no meaning for
// the operands' types.
type prepare func(n *node) (kernel, error)

// table is indexed by ir.OpKind.
var table = [...]prepare{
	ir.Conv2D: prepareConv,
	ir.MatMul: prepareMatMul,

	ir.MaxPool:    prepareMaxPool,
	ir.AvgPool:    prepareAvgPool,
	ir.ReduceSum:  reduction(vecf32.ReduceSum),
	ir.ReduceMean: reduction(vecf32.ReduceMean),
	ir.ReduceMax:  reduction(vecf32.ReduceMax),
	ir.ReduceMin:  reduction(vecf32.ReduceMin),
	ir.Softmax:    prepareSoftmax,
	ir.LogSoftmax: prepareLogSoftmax,
	ir.LRN:        prepareLRN,
	ir.ReduceProd: reduction(vecf32.ReduceProd),
	ir.CumSum:     prepareCumulate,
	ir.CumProd:    prepareCumulate,
	ir.TopK:       prepareTopK,
	ir.Sample:     prepareSample,
	ir.Det:        prepareDet,
	ir.LayerNorm:  prepareLayerNorm,

	ir.Add: binary(vecf32.Add),
	ir.Sub: binary(vecf32.Sub),
	ir.Mul: binary(vecf32.Mul),
	ir.Div: binary(vecf32.Div),
	ir.Min: binary(vecf32.Min),
	ir.Max: binary(vecf32.Max),
	ir.Pow: binary(vecf32.Pow),

	ir.Mod:        prepareMod,
	ir.BitAnd:     intBinary,
	ir.BitOr:      intBinary,
	ir.BitXor:     intBinary,
	ir.ShiftLeft:  intBinary,
	ir.ShiftRight: intBinary,
	ir.Equals:     prepareCompare,
	ir.Less:       prepareCompare,
	ir.LessEqual:  prepareCompare,

	ir.Relu:        unary(vecf32.Relu),
	ir.LeakyRelu:   unary(vecf32.LeakyRelu),
	ir.Clip:        unary(vecf32.Clip),
	ir.Sigmoid:     unary(vecf32.Sigmoid),
	ir.HardSigmoid: unary(vecf32.HardSigmoid),
	ir.HardSwish:   unary(vecf32.HardSwish),
	ir.Tanh:        unary(vecf32.Tanh),
	ir.Exp:         unary(vecf32.Exp),
	ir.Log:         unary(vecf32.Log),
	ir.Sqrt:        unary(vecf32.Sqrt),
	ir.Reciprocal:  unary(vecf32.Reciprocal),
	ir.Neg:         unary(vecf32.Neg),
	ir.Abs:         unary(vecf32.Abs),
	ir.Erf:         unary(vecf32.Erf),
	ir.Floor:       unary(vecf32.Floor),
	ir.Ceil:        unary(vecf32.Ceil),
	ir.Round:       unary(vecf32.Round),
	ir.Softplus:    unary(vecf32.Softplus),
	ir.Elu:         unary(vecf32.Elu),
	ir.LUT:         prepareLUT,
	ir.Sin:         unary(vecf32.Sin),
	ir.Cos:         unary(vecf32.Cos),
	ir.Tan:         unary(vecf32.Tan),
	ir.Asin:        unary(vecf32.Asin),
	ir.Acos:        unary(vecf32.Acos),
	ir.Atan:        unary(vecf32.Atan),
	ir.Sinh:        unary(vecf32.Sinh),
	ir.Cosh:        unary(vecf32.Cosh),
	ir.Asinh:       unary(vecf32.Asinh),
	ir.Acosh:       unary(vecf32.Acosh),
	ir.Atanh:       unary(vecf32.Atanh),
	ir.Where:       prepareWhere,
	ir.MulAdd:      prepareMulAdd,

	ir.Reshape:   prepareReshape,
	ir.Transpose: prepareTranspose,
	ir.Concat:    prepareConcat,
	ir.Slice:     prepareSlice,
	ir.Pad:       preparePad,
	ir.Expand:    prepareExpand,
	ir.Gather:    prepareGather,

	ir.GatherElements:  prepareGatherElements,
	ir.ScatterElements: prepareScatterElements,

	ir.Cast:        prepareCast,
	ir.Quantize:    prepareQuantize,
	ir.Dequantize:  prepareDequantize,
	ir.Requantize:  prepareRequantize,
	ir.Reinterpret: prepareReinterpret,
	ir.BitCast:     prepareBitCast,
}

// sharesOperand reports whether the result of an operator is its operand's
// memory under another type.
func sharesOperand(k ir.OpKind) bool { return k == ir.Reshape || k == ir.Reinterpret }

func prepareOp(g *ir.Graph, op *ir.Op) (kernel, error) {
	if int(op.Kind) >= len(table) || table[op.Kind] == nil {
		return nil, errors.New("no such operator")
	}
	size := max(len(op.In), ir.Info(op.Kind).MaxIn())
	n := &node{op: op, in: make([]ir.Type, size), consts: make([]*ir.Tensor, size), out: g.Type(op.Out)}
	for i, id := range op.In {
		if id != ir.NoValue {
			n.in[i], n.consts[i] = g.Type(id), g.Value(id).Const
		}
	}
	if n.out.Numel() == 0 {
		return func(*env, []*ir.Tensor) (*ir.Tensor, error) { return ir.Zeros(n.out.DType, n.out.Shape...), nil }, nil
	}
	return table[op.Kind](n)
}

// narrowFloat makes a kernel on f32 serve f16 and bf16 too: operands are widened,
// the result is rounded once. Operators on f64 are refused.
func narrowFloat(n *node, k kernel) (kernel, error) {
	switch d := n.in[0].DType; d {
	case ir.F32:
		return k, nil
	case ir.F16, ir.BF16:
		return func(e *env, in []*ir.Tensor) (*ir.Tensor, error) {
			wide := make([]*ir.Tensor, len(in))
			for i, t := range in {
				if t != nil {
					wide[i] = cast(t, ir.F32)
				}
			}
			out, err := k(e, wide)
			if err != nil {
				return nil, err
			}
			return cast(out, d), nil
		}, nil
	}
	return nil, unsupported(n)
}

func unsupported(n *node) error {
	d := n.in[0].DType
	if d == ir.F64 {
		return errors.New("f64 arithmetic is not supported: cast to f32 first")
	}
	return errors.New("has no meaning on plain " + d.String())
}
