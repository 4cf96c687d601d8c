package functional

import (
	"fmt"

	"situ/backend/pim/isa"
)

// functions holds what each instruction does, given operands whose regions have
// been checked. Control instructions have none: the cursor executes them.
var functions = [isa.NumOps]func(c *cluster, a []int64) error{
	isa.OpLoad:       (*cluster).load,
	isa.OpStore:      (*cluster).store,
	isa.OpLoadW:      (*cluster).loadW,
	isa.OpSend:       (*cluster).send,
	isa.OpMVM:        (*cluster).mvm,
	isa.OpRequant:    (*cluster).requant,
	isa.OpFill:       (*cluster).fill,
	isa.OpCopy:       (*cluster).copy,
	isa.OpAdd:        (*cluster).add,
	isa.OpMul:        (*cluster).mul,
	isa.OpLUT:        (*cluster).lut,
	isa.OpMaxPool:    (*cluster).maxPool,
	isa.OpAvgPool:    (*cluster).avgPool,
	isa.OpDepthwise:  (*cluster).depthwise,
	isa.OpSoftmax:    (*cluster).softmax,
	isa.OpQuant:      (*cluster).quant,
	isa.OpDequant:    (*cluster).dequant,
	isa.OpDequantAcc: (*cluster).dequantAcc,
	isa.OpUnaryF:     (*cluster).unaryF,
	isa.OpBinaryF:    (*cluster).binaryF,
	isa.OpSoftmaxF:   (*cluster).softmaxF,
	isa.OpLRNF:       (*cluster).lrnF,
	isa.OpReduceF:    (*cluster).reduceF,
	isa.OpStoreW:     (*cluster).storeW,
	isa.OpLoadA:      (*cluster).loadA,
	isa.OpBiasAcc:    (*cluster).biasAcc,
	isa.OpShlAcc:     (*cluster).shlAcc,
	isa.OpDot:        (*cluster).dot,
	isa.OpConvert:    (*cluster).convert,
	isa.OpBinaryI:    (*cluster).binaryI,
	isa.OpSelect:     (*cluster).choose,
	isa.OpReduceI:    (*cluster).reduceI,
	isa.OpGather:     (*cluster).gather,
	isa.OpGatherD:    (*cluster).gatherD,
	isa.OpStoreAcc:   (*cluster).storeAcc,
	isa.OpQuantW:     (*cluster).quantW,
	isa.OpDequantW:   (*cluster).dequantW,
	isa.OpMatMulF:    (*cluster).matMulF,
	isa.OpNorm:       (*cluster).norm,
	isa.OpMulAdd:     (*cluster).mulAdd,
	isa.OpPick:       (*cluster).pick,
	isa.OpPut:        (*cluster).put,
	isa.OpTopK:       (*cluster).topK,
}

// exec executes one instruction with resolved addresses.
func (c *cluster) exec(op isa.Op, a []int64) (err error) {
	f := functions[op]
	if f == nil {
		return nil
	}
	c.eff.Of(op, a, &c.m.shape)
	if err := c.eff.Check(&c.m.limits); err != nil {
		return err
	}
	return f(c, a)
}

// badFunction is the error of an fn operand that names nothing.
func badFunction(fn int64) error { return fmt.Errorf("fn = %d is no function", fn) }
