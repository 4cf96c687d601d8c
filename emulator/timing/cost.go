package timing

import (
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/internal/vecf32"
)

// Lane operations of the vector unit for one element. A fixed-point
// multiplication with rounding and clamp takes three: multiply, shift and round,
// clamp.
const (
	opsRequant = 4 // add bias, multiply, shift and round, clamp
	opsAdd     = 6 // subtract and multiply twice, add, shift and clamp
	opsMul     = 5
	opsMulAdd  = 9 // four subtractions less one, two products, multiply twice and add, shift and round, clamp
	opsLUT     = 1
	opsSoftmax = 6 // maximum, lookup, sum, multiply, divide, clamp
	opsNorm    = 9 // subtract, sum, square and sum; subtract, multiply, shift and round, multiply and add, shift and round, clamp
	opsNormRow = 8 // of a row: sum of squares, five steps of the root, one division, shift
	opsPool    = 3 // behind the sum
	opsQuant   = 2
	opsDequant = 2
)

// vectorCost is what an instruction asks of the vector unit.
type vectorCost struct {
	ops, floatOps, macs   int64
	spRead, spWrite       int64 // bytes
	accRead, accWrite     int64
	readCycles, wrtCycles int64 // of the scratchpad's ports, for the runs of the main operands
}

// vectorCostOf returns the cost of a vector instruction, and false for others.
func (r *rates) vectorCostOf(op isa.Op, a []int64) (v vectorCost, ok bool) {
	switch op {
	case isa.OpRequant:
		ny, nx, n := a[isa.RequantRowsY], a[isa.RequantRowsX], a[isa.RequantN]
		v = vectorCost{ops: ny * nx * n * opsRequant, accRead: 4 * ny * nx * n, spRead: 12 * n, spWrite: ny * nx * n,
			wrtCycles: runCycles(ny, a[isa.RequantDstSy], nx, a[isa.RequantDstSx], n, r.spWrite)}
	case isa.OpBiasAcc:
		n := a[isa.BiasAccN]
		v = vectorCost{ops: n, accRead: 4 * n, spRead: 4 * n, spWrite: 4 * n}
	case isa.OpShlAcc:
		n := a[isa.ShlAccN]
		v = vectorCost{ops: n, accRead: 4 * n, accWrite: 4 * n}
	case isa.OpDot:
		v = r.dotCost(a)
	case isa.OpFill:
		n2, n1, size := a[isa.FillN2], a[isa.FillN1], a[isa.FillLen]
		v = vectorCost{spWrite: n2 * n1 * size, wrtCycles: runCycles(n2, a[isa.FillDstS2], n1, a[isa.FillDstS1], size, r.spWrite)}
	case isa.OpCopy:
		n3, n2, n1, size := a[isa.CopyN3], a[isa.CopyN2], a[isa.CopyN1], a[isa.CopyLen]
		bytes := n3 * n2 * n1 * size
		v = vectorCost{spRead: bytes, spWrite: bytes,
			readCycles: n3 * runCycles(n2, a[isa.CopySrcS2], n1, a[isa.CopySrcS1], size, r.spRead),
			wrtCycles:  n3 * runCycles(n2, a[isa.CopyDstS2], n1, a[isa.CopyDstS1], size, r.spWrite)}
	case isa.OpAdd:
		v = r.binaryCost(a, a[isa.AddBStep], opsAdd)
	case isa.OpMul:
		v = r.binaryCost(a, a[isa.MulBStep], opsMul)
	case isa.OpLUT:
		v = r.convertCost(a[isa.LUTN2:], 1, 1)
		v.ops = v.spWrite * opsLUT
		v.spRead += 256
	case isa.OpMaxPool:
		v, _, v.ops = r.windowCost(a[isa.MaxPoolOutH:])
	case isa.OpAvgPool:
		var out, taps int64
		v, out, taps = r.windowCost(a[isa.AvgPoolOutH:])
		v.ops = taps + out*opsPool
		v.spRead += 8
		if a[isa.AvgPoolPerCount] != 0 {
			v.spRead += 8 * (a[isa.AvgPoolKh]*a[isa.AvgPoolKw] - 1)
		}
	case isa.OpDepthwise:
		var out int64
		v, out, v.macs = r.windowCost(a[isa.DepthwiseOutH:])
		c := a[isa.DepthwiseC]
		v.ops = out * opsRequant
		v.spRead += a[isa.DepthwiseKh]*a[isa.DepthwiseKw]*c + 12*c
	case isa.OpSoftmax:
		n := a[isa.SoftmaxRows] * a[isa.SoftmaxN]
		v = vectorCost{ops: n * opsSoftmax, spRead: 2*n + effect.SoftmaxBlock, spWrite: n}
	case isa.OpMulAdd:
		v = r.mulAddCost(a)
	case isa.OpNorm:
		rows, n := a[isa.NormRows], a[isa.NormN]
		v = vectorCost{ops: rows * (n*opsNorm + opsNormRow), spRead: 2*rows*n + effect.NormBlock(n), spWrite: rows * n}
	default:
		return r.floatCostOf(op, a)
	}
	return v, true
}

// runCycles is how long a port of some bytes a cycle takes for n2 × n1 runs: a
// run of its own takes a cycle at least, runs one behind the other are one.
func runCycles(n2, s2, n1, s1, size, width int64) int64 {
	if n1 == 1 || s1 == size {
		size, n1 = size*n1, 1
		if n2 == 1 || s2 == size {
			size, n2 = size*n2, 1
		}
	}
	return n2 * n1 * ceilDiv(size, width)
}

func (r *rates) binaryCost(a []int64, bStep, ops int64) vectorCost {
	n2, n1, size := a[isa.AddN2], a[isa.AddN1], a[isa.AddLen]
	n := n2 * n1 * size
	v := vectorCost{
		ops: n * ops, spRead: 2 * n, spWrite: n,
		readCycles: runCycles(n2, a[isa.AddAS2], n1, a[isa.AddAS1], size, r.spRead),
		wrtCycles:  runCycles(n2, a[isa.AddDstS2], n1, a[isa.AddDstS1], size, r.spWrite),
	}
	if bStep == 0 {
		v.spRead = n + n2*n1
		v.readCycles += n2 * n1
	} else {
		v.readCycles += runCycles(n2, a[isa.AddBS2], n1, a[isa.AddBS1], size, r.spRead)
	}
	return v
}

// mulAddCost counts an operand that stands still along the innermost loop once a run.
func (r *rates) mulAddCost(a []int64) vectorCost {
	const per = isa.MulAddN2 - isa.MulAddN3
	runs, n := a[isa.MulAddN3]*a[isa.MulAddN2]*a[isa.MulAddN1], a[isa.MulAddN0]
	v := vectorCost{ops: runs * n * opsMulAdd}
	for i := range 5 {
		s0, s1, s2 := a[isa.MulAddDstS0+i], a[isa.MulAddDstS0-per+i], a[isa.MulAddDstS0-2*per+i]
		bytes, width := runs*n, r.spRead
		if i == 0 {
			width = r.spWrite
		}
		cycles := bytes // one by one
		switch s0 {
		case 0:
			bytes, cycles = runs, runs
		case 1:
			cycles = a[isa.MulAddN3] * runCycles(a[isa.MulAddN2], s2, a[isa.MulAddN1], s1, n, width)
		}
		if i == 0 {
			v.spWrite, v.wrtCycles = bytes, cycles
		} else {
			v.spRead += bytes
			v.readCycles += cycles
		}
	}
	return v
}

// convertCost is the cost of lut, quant and dequant; d are their operands from
// n2 on.
func (r *rates) convertCost(d []int64, dstSize, srcSize int64) vectorCost {
	n := d[0] * d[3] * d[6]
	return vectorCost{
		spRead: n * srcSize, spWrite: n * dstSize,
		readCycles: runCycles(d[0], d[2], d[3], d[5], d[6]*srcSize, r.spRead),
		wrtCycles:  runCycles(d[0], d[1], d[3], d[4], d[6]*dstSize, r.spWrite),
	}
}

// windowCost is the reading and writing of maxpool, avgpool and depthwise: the
// channels of each place of each window are one run; d are their operands from
// out_h on.
func (r *rates) windowCost(d []int64) (v vectorCost, out, taps int64) {
	pixels, c := d[0]*d[1], d[2]
	out = pixels * c
	taps = out * d[7] * d[8]
	return vectorCost{
		spRead: taps, spWrite: out, readCycles: pixels * d[7] * d[8] * ceilDiv(c, r.spRead),
		wrtCycles: runCycles(d[0], d[3], d[1], d[4], c, r.spWrite),
	}, out, taps
}

// floatCostOf is vectorCostOf for float32 instructions.
func (r *rates) floatCostOf(op isa.Op, a []int64) (v vectorCost, ok bool) {
	switch op {
	case isa.OpQuant:
		v = r.convertCost(a[isa.QuantN2:], 1, 4)
		v.floatOps = v.spWrite * opsQuant
	case isa.OpDequant:
		v = r.convertCost(a[isa.DequantN2:], 4, 1)
		v.floatOps = v.spRead * opsDequant
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
		return r.numberCostOf(op, a)
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
	return r.start + max(work, ceilDiv(v.accRead, 4*r.lanes), ceilDiv(v.accWrite, 4*r.lanes),
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
	c.AccWrite += v.accWrite
}
