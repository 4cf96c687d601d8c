package timing

import (
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/sequence"
)

// A lane works on 32 bits; integers of 64 take it twice.
func laneOps(t isa.DType) int64 { return max(t.Size()/4, 1) }

// integerDivOps is what an integer division takes: a quotient bit a cycle is
// the plain way, four at a time a common one.
const integerDivOps = 8

// numberCostOf is vectorCostOf for instructions on plain integers and float32
// products.
func (r *rates) numberCostOf(op isa.Op, a []int64) (v vectorCost, ok bool) {
	switch op {
	case isa.OpConvert:
		to, from := isa.DType(a[isa.ConvertTo]), isa.DType(a[isa.ConvertFrom])
		n := a[isa.ConvertN2] * a[isa.ConvertN1] * a[isa.ConvertLen]
		v = r.convertCost(a[isa.ConvertN2:], to.Size(), from.Size())
		if to == isa.F32 || from == isa.F32 {
			v.floatOps = n
		} else {
			v.ops = n * max(laneOps(to), laneOps(from))
		}
	case isa.OpQuantW:
		v = r.convertCost(a[isa.QuantWN2:], isa.DType(a[isa.QuantWType]).Size(), 4)
		v.floatOps = v.spRead / 4 * opsQuant
	case isa.OpDequantW:
		v = r.convertCost(a[isa.DequantWN2:], 4, isa.DType(a[isa.DequantWType]).Size())
		v.floatOps = v.spWrite / 4 * opsDequant
	case isa.OpBinaryI:
		t := isa.DType(a[isa.BinaryIType])
		n := a[isa.BinaryIN3] * a[isa.BinaryIN2] * a[isa.BinaryIN1] * a[isa.BinaryIN0]
		v = vectorCost{spRead: 2 * n * t.Size(), spWrite: n * t.Size()}
		fn := a[isa.BinaryIFn]
		if isa.Compares(fn) {
			v.spWrite = n
		}
		switch {
		case t == isa.F32:
			v.floatOps = n
		case fn == isa.IDiv || fn == isa.IMod || fn == isa.IRem:
			v.ops = n * laneOps(t) * integerDivOps
		default:
			v.ops = n * laneOps(t)
		}
	case isa.OpSelect:
		n, size := a[isa.SelectN3]*a[isa.SelectN2]*a[isa.SelectN1]*a[isa.SelectN0], a[isa.SelectSize]
		v = vectorCost{ops: n * max(size/4, 1), spRead: n * (1 + 2*size), spWrite: n * size}
	case isa.OpReduceI:
		t := isa.DType(a[isa.ReduceIType])
		out := a[isa.ReduceIOuter] * a[isa.ReduceIInner]
		n := out * a[isa.ReduceIN]
		v = vectorCost{ops: n * laneOps(t), spRead: n * t.Size(), spWrite: out * t.Size()}
	case isa.OpGather:
		// An entry is a run of its own, wherever it lies.
		n1, n, size := a[isa.GatherN1], a[isa.GatherN1]*a[isa.GatherN2], a[isa.GatherLen]
		index := n1 * isa.DType(a[isa.GatherType]).Size()
		v = vectorCost{ops: n1, spRead: n*size + index, spWrite: n * size, readCycles: n*ceilDiv(size, r.spRead) + ceilDiv(index, r.spRead),
			wrtCycles: runCycles(a[isa.GatherN2], a[isa.GatherDstS2], n1, a[isa.GatherDstS1], size, r.spWrite)}
	case isa.OpPick:
		// Each element is an access of its own, wherever it lies.
		size, n := a[isa.PickSize], a[isa.PickOuter]*a[isa.PickK]*a[isa.PickInner]
		index := n * isa.DType(a[isa.PickType]).Size()
		v = vectorCost{ops: n, spRead: n*size + index, spWrite: n * size, readCycles: n + ceilDiv(index, r.spRead)}
	case isa.OpPut:
		t, n := isa.DType(a[isa.PutType]), a[isa.PutOuter]*a[isa.PutK]*a[isa.PutInner]
		index := n * isa.DType(a[isa.PutItype]).Size()
		v = vectorCost{spRead: n*t.Size() + index, spWrite: n * t.Size(), wrtCycles: n}
		v.readCycles = ceilDiv(v.spRead, r.spRead)
		if a[isa.PutFn] != isa.PutReplace {
			v.spRead += n * t.Size()
			v.readCycles += n
		}
		if t == isa.F32 {
			v.floatOps = n
		} else {
			v.ops = n * laneOps(t)
		}
	case isa.OpTopK:
		// A pass compares and selects, and keeps the best of each lane with its index.
		t, out := isa.DType(a[isa.TopKType]), a[isa.TopKOuter]*a[isa.TopKK]*a[isa.TopKInner]
		n := out * a[isa.TopKN]
		v = vectorCost{spRead: n * t.Size(), spWrite: 8 * out}
		if t == isa.F32 {
			v.floatOps = 2 * n
		} else {
			v.ops = 2 * n * laneOps(t)
		}
	case isa.OpStoreAcc:
		ny, nx, n := a[isa.StoreAccRowsY], a[isa.StoreAccRowsX], a[isa.StoreAccN]
		v = vectorCost{ops: ny * nx * n, accRead: 4 * ny * nx * n, spRead: 4 * n, spWrite: 4 * ny * nx * n,
			wrtCycles: runCycles(ny, a[isa.StoreAccDstSy], nx, a[isa.StoreAccDstSx], 4*n, r.spWrite)}
	case isa.OpMatMulF:
		// Every element of the right operand is read once for each row; sums stay
		// in the lanes.
		m, n := a[isa.MatMulFRowsY]*a[isa.MatMulFRowsX], a[isa.MatMulFN]
		k := a[isa.MatMulFSegNy] * a[isa.MatMulFSegNx] * a[isa.MatMulFSegLen]
		v = vectorCost{floatOps: 2 * m * n * k, spRead: 4*m*n*k + 4*m*k, spWrite: 4 * m * n}
	default:
		return v, false
	}
	return v, true
}

// dramBurst is how many bytes a DRAM channel moves at least for a gathered entry.
const dramBurst = 64

// gather books a gatherd that may start at ready. Its time does not depend on
// the indices: each entry is a burst of its own.
func (m *model) gather(id int, st *sequence.Step, regions []effect.Region, ready int64, c *Counters) (start, end int64) {
	k, a := &m.clusters[id], st.Args
	unit := st.Op.Info().Unit
	n1, n, size := a[isa.GatherDN1], a[isa.GatherDN1]*a[isa.GatherDN2], a[isa.GatherDLen]
	index := n1 * isa.DType(a[isa.GatherDType]).Size()
	bytes := n * size
	fetch := ready + m.ps(ceilDiv(index, m.spRead))
	cycles := max(ceilDiv(bytes, m.linkWidth), runCycles(a[isa.GatherDN2], a[isa.GatherDDstS2], n1, a[isa.GatherDDstS1], size, m.spWrite))
	m.to.first, m.to.count, m.to.skip, m.latest = id, 1, -1, 0
	bursts := n * (ceilDiv(size, dramBurst) * dramBurst)
	k.free[unit] = m.net.gathered(bytes, bursts, cycles, m.dieOf(a[isa.GatherDSrc]), fetch, &m.to, c)
	c.SPRead += index
	c.SPWrite += bytes
	c.SPReceived += bytes
	k.sp.set(&regions[1], fetch)
	k.sp.set(&regions[2], m.latest)
	k.busy[unit] = interval{ready, m.latest, index, bytes}
	return ready, m.latest
}
