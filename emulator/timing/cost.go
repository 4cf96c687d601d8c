package timing

import (
	"situ/backend/pim/isa"
	"situ/internal/vecf32"
)

// Lane operations of the vector unit for one element. A fixed-point
// multiplication with rounding and clamp takes three: multiply, shift and round,
// clamp.
const (
	opsRequant = 4 // add bias, multiply, shift and round, clamp
	opsAdd     = 6 // subtract and multiply twice, add, shift and clamp
	opsMul     = 5
	opsLUT     = 1
	opsSoftmax = 6 // maximum, lookup, sum, multiply, divide, clamp
	opsPool    = 3 // behind the sum
	opsQuant   = 2
	opsDequant = 2
)

// vectorCost is what an instruction asks of the vector unit.
type vectorCost struct {
	ops, floatOps, macs   int64
	spRead, spWrite       int64 // bytes
	accRead               int64
	readCycles, wrtCycles int64 // of scratchpad ports, when more than the bytes need
}

// vectorCostOf returns the cost of a vector instruction, and false for others.
func (r *rates) vectorCostOf(op isa.Op, a []int64) (v vectorCost, ok bool) {
	switch op {
	case isa.OpRequant:
		n := a[isa.RequantRowsY] * a[isa.RequantRowsX] * a[isa.RequantN]
		v = vectorCost{ops: n * opsRequant, accRead: 4 * n, spRead: 12 * a[isa.RequantN], spWrite: n}
	case isa.OpFill:
		runs := a[isa.FillN2] * a[isa.FillN1]
		v = vectorCost{spWrite: runs * a[isa.FillLen], wrtCycles: runs * ceilDiv(a[isa.FillLen], r.spWrite)}
		if contiguous(a[isa.FillN2], a[isa.FillDstS2], a[isa.FillN1], a[isa.FillDstS1], a[isa.FillLen]) {
			v.wrtCycles = 0
		}
	case isa.OpCopy:
		runs, size := a[isa.CopyN3]*a[isa.CopyN2]*a[isa.CopyN1], a[isa.CopyLen]
		v = vectorCost{spRead: runs * size, spWrite: runs * size, readCycles: runs * ceilDiv(size, r.spRead), wrtCycles: runs * ceilDiv(size, r.spWrite)}
		if a[isa.CopyN1] == 1 || a[isa.CopyDstS1] == size && a[isa.CopySrcS1] == size {
			rows, long := a[isa.CopyN3]*a[isa.CopyN2], a[isa.CopyN1]*size
			v.readCycles, v.wrtCycles = rows*ceilDiv(long, r.spRead), rows*ceilDiv(long, r.spWrite)
		}
	case isa.OpAdd:
		v = binaryCost(a, a[isa.AddBStep], opsAdd)
	case isa.OpMul:
		v = binaryCost(a, a[isa.MulBStep], opsMul)
	case isa.OpLUT:
		n := a[isa.LUTN2] * a[isa.LUTN1] * a[isa.LUTLen]
		v = vectorCost{ops: n * opsLUT, spRead: n + 256, spWrite: n}
	case isa.OpMaxPool:
		out := a[isa.MaxPoolOutH] * a[isa.MaxPoolOutW] * a[isa.MaxPoolC]
		taps := out * a[isa.MaxPoolKh] * a[isa.MaxPoolKw]
		v = vectorCost{ops: taps, spRead: taps, spWrite: out}
	case isa.OpAvgPool:
		out := a[isa.AvgPoolOutH] * a[isa.AvgPoolOutW] * a[isa.AvgPoolC]
		taps := out * a[isa.AvgPoolKh] * a[isa.AvgPoolKw]
		v = vectorCost{ops: taps + out*opsPool, spRead: taps + 8, spWrite: out}
		if a[isa.AvgPoolPerCount] != 0 {
			v.spRead += 8 * (a[isa.AvgPoolKh]*a[isa.AvgPoolKw] - 1)
		}
	case isa.OpDepthwise:
		c, taps := a[isa.DepthwiseC], a[isa.DepthwiseKh]*a[isa.DepthwiseKw]
		out := a[isa.DepthwiseOutH] * a[isa.DepthwiseOutW] * c
		v = vectorCost{ops: out * opsRequant, macs: out * taps, spRead: out*taps + taps*c + 12*c, spWrite: out}
	case isa.OpSoftmax:
		n := a[isa.SoftmaxRows] * a[isa.SoftmaxN]
		v = vectorCost{ops: n * opsSoftmax, spRead: 2*n + 1040, spWrite: n}
	default:
		return r.floatCostOf(op, a)
	}
	return v, true
}

// contiguous reports whether n2 × n1 runs lie one behind the other.
func contiguous(n2, s2, n1, s1, size int64) bool {
	return (n1 == 1 || s1 == size) && (n2 == 1 || s2 == n1*size)
}

func binaryCost(a []int64, bStep, ops int64) vectorCost {
	runs := a[isa.AddN2] * a[isa.AddN1]
	n := runs * a[isa.AddLen]
	b := n
	if bStep == 0 {
		b = runs
	}
	return vectorCost{ops: n * ops, spRead: n + b, spWrite: n}
}

// floatCostOf is vectorCostOf for float32 instructions.
func (r *rates) floatCostOf(op isa.Op, a []int64) (v vectorCost, ok bool) {
	switch op {
	case isa.OpQuant:
		n := a[isa.QuantN2] * a[isa.QuantN1] * a[isa.QuantLen]
		v = vectorCost{floatOps: n * opsQuant, spRead: 4 * n, spWrite: n}
	case isa.OpDequant:
		n := a[isa.DequantN2] * a[isa.DequantN1] * a[isa.DequantLen]
		v = vectorCost{floatOps: n * opsDequant, spRead: n, spWrite: 4 * n}
	case isa.OpDequantAcc:
		n := a[isa.DequantAccRowsY] * a[isa.DequantAccRowsX] * a[isa.DequantAccN]
		v = vectorCost{floatOps: n * opsDequant, accRead: 4 * n, spRead: 8 * a[isa.DequantAccN], spWrite: 4 * n}
	case isa.OpUnaryF:
		n, ops := a[isa.UnaryFN], r.special
		if simple(vecf32.Fn(a[isa.UnaryFFn])) {
			ops = 2
		}
		v = vectorCost{floatOps: n * ops, spRead: 4 * n, spWrite: 4 * n}
	case isa.OpBinaryF:
		n := a[isa.BinaryFN3] * a[isa.BinaryFN2] * a[isa.BinaryFN1] * a[isa.BinaryFN0]
		v = vectorCost{floatOps: n, spRead: 8 * n, spWrite: 4 * n}
		if fn := vecf32.BinOp(a[isa.BinaryFFn]); fn == vecf32.Div || fn == vecf32.Pow {
			v.floatOps *= r.special
		}
	case isa.OpSoftmaxF:
		n := a[isa.SoftmaxFOuter] * a[isa.SoftmaxFN] * a[isa.SoftmaxFInner]
		v = vectorCost{floatOps: n * (2*r.special + 2), spRead: 12 * n, spWrite: 4 * n}
	case isa.OpLRNF:
		n := a[isa.LRNFOuter] * a[isa.LRNFC] * a[isa.LRNFInner]
		v = vectorCost{floatOps: n * (2*min(a[isa.LRNFSize], a[isa.LRNFC]) + 2*r.special), spRead: 4 * n * min(a[isa.LRNFSize], a[isa.LRNFC]), spWrite: 4 * n}
	case isa.OpReduceF:
		out := a[isa.ReduceFOuter] * a[isa.ReduceFInner]
		n := out * a[isa.ReduceFN]
		v = vectorCost{floatOps: n, spRead: 4 * n, spWrite: 4 * out}
	default:
		return v, false
	}
	return v, true
}

// simple reports whether a function takes one or two lane operations rather
// than those of a special one.
func simple(fn vecf32.Fn) bool {
	switch fn {
	case vecf32.Relu, vecf32.LeakyRelu, vecf32.Clip, vecf32.HardSigmoid, vecf32.HardSwish, vecf32.Neg, vecf32.Abs,
		vecf32.Floor, vecf32.Ceil, vecf32.Round:
		return true
	}
	return false
}

// cycles returns how long the vector unit is busy.
func (v *vectorCost) cycles(r *rates) int64 {
	work := ceilDiv(v.ops, r.lanes) + ceilDiv(v.floatOps, r.f32Lanes) + ceilDiv(v.macs, r.lanes*r.macsPerLane)
	return r.start + max(work, ceilDiv(v.accRead, 4*r.lanes),
		ceilDiv(v.spRead, r.spRead), v.readCycles, ceilDiv(v.spWrite, r.spWrite), v.wrtCycles)
}

// count adds the cost to counters.
func (v *vectorCost) count(c *Counters) {
	c.VectorOps += v.ops
	c.FloatOps += v.floatOps
	c.VectorMACs += v.macs
	c.SPRead += v.spRead
	c.SPWrite += v.spWrite
	c.AccRead += v.accRead
}
