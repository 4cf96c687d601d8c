package effect

import "situ/backend/pim/isa"

// ofNumbers is Of for instructions on plain integers and float32 products.
func (e *Effect) ofNumbers(op isa.Op, a []int64) {
	switch op {
	case isa.OpConvert:
		e.convert(a[isa.ConvertDst], a[isa.ConvertSrc], a[isa.ConvertN2:], size(a[isa.ConvertTo]), size(a[isa.ConvertFrom]))
	case isa.OpQuantW:
		e.convert(a[isa.QuantWDst], a[isa.QuantWSrc], a[isa.QuantWN2:], size(a[isa.QuantWType]), 4)
	case isa.OpDequantW:
		e.convert(a[isa.DequantWDst], a[isa.DequantWSrc], a[isa.DequantWN2:], 4, size(a[isa.DequantWType]))
	case isa.OpBinaryI:
		n, result := size(a[isa.BinaryIType]), size(a[isa.BinaryIType])
		if isa.Compares(a[isa.BinaryIFn]) {
			result = 1
		}
		e.nested(a[isa.BinaryIDst:isa.BinaryIN3], a[isa.BinaryIN3:], result, n, n)
	case isa.OpSelect:
		n := a[isa.SelectSize]
		if n&(n-1) != 0 {
			e.fail("size %d is not 1, 2, 4 or 8", n)
		}
		e.nested(a[isa.SelectDst:isa.SelectN3], a[isa.SelectN3:], n, 1, n, n)
	case isa.OpReduceI:
		bytes := size(a[isa.ReduceIType])
		out := mul(a[isa.ReduceIOuter], a[isa.ReduceIInner])
		n := mul(out, a[isa.ReduceIN])
		e.work = float64(n) * least
		e.multiples(bytes, a[isa.ReduceIDst], a[isa.ReduceISrc])
		e.add(SP, false, a[isa.ReduceISrc], mul(n, bytes))
		e.add(SP, true, a[isa.ReduceIDst], mul(out, bytes))
	case isa.OpGather:
		e.gather(a, SP)
	case isa.OpGatherD:
		e.gather(a, DRAM)
	case isa.OpPick:
		n, bytes, index := a[isa.PickSize], mul(a[isa.PickOuter], a[isa.PickInner]), size(a[isa.PickType])
		if n > 8 || n&(n-1) != 0 {
			e.fail("size %d is not 1, 2, 4 or 8", n)
		}
		taken := mul(bytes, a[isa.PickK])
		e.work = float64(taken) * least
		e.multiples(n, a[isa.PickDst], a[isa.PickSrc])
		e.multiples(index, a[isa.PickIndex])
		e.add(SP, false, a[isa.PickSrc], mul(mul(bytes, a[isa.PickN]), n))
		e.add(SP, false, a[isa.PickIndex], mul(taken, index))
		e.add(SP, true, a[isa.PickDst], mul(taken, n))
		e.apart()
	case isa.OpPut:
		n, lanes, index := size(a[isa.PutType]), mul(a[isa.PutOuter], a[isa.PutInner]), size(a[isa.PutItype])
		given := mul(lanes, a[isa.PutK])
		e.work = float64(given) * least
		e.multiples(n, a[isa.PutDst], a[isa.PutSrc])
		e.multiples(index, a[isa.PutIndex])
		e.add(SP, false, a[isa.PutSrc], mul(given, n))
		e.add(SP, false, a[isa.PutIndex], mul(given, index))
		e.add(SP, true, a[isa.PutDst], mul(mul(lanes, a[isa.PutN]), n))
		e.apart()
		e.add(SP, false, a[isa.PutDst], mul(mul(lanes, a[isa.PutN]), n))
	case isa.OpTopK:
		n, lanes := size(a[isa.TopKType]), mul(a[isa.TopKOuter], a[isa.TopKInner])
		if a[isa.TopKK] > a[isa.TopKN] {
			e.fail("k = %d of n = %d elements", a[isa.TopKK], a[isa.TopKN])
		}
		e.work = float64(mul(mul(lanes, a[isa.TopKN]), a[isa.TopKK])) * least
		e.multiples(n, a[isa.TopKSrc])
		e.multiples(8, a[isa.TopKDst])
		e.add(SP, false, a[isa.TopKSrc], mul(mul(lanes, a[isa.TopKN]), n))
		e.add(SP, true, a[isa.TopKDst], mul(mul(lanes, a[isa.TopKK]), 8))
		e.apart()
	case isa.OpStoreAcc:
		e.aligned(a[isa.StoreAccDst], a[isa.StoreAccDstSy], a[isa.StoreAccDstSx])
		e.fromAcc(a[isa.StoreAccDst], a[isa.StoreAccAcc], a[isa.StoreAccParams], a[isa.StoreAccRowsY:], 4, 4)
	case isa.OpMatMulF:
		e.matMulF(a)
	}
}

// apart notes an error when the last region, a result, overlaps one before it.
func (e *Effect) apart() {
	last := e.n - 1
	for i := range last {
		if overlap(e.regions[i], e.regions[last]) {
			e.fail("the result overlaps an operand")
		}
	}
}

// size returns the bytes of an element of a type, which Validate has checked.
func size(t int64) int64 { return isa.DType(t).Size() }

// multiples notes an error unless all values are multiples of n, or of 4 where n
// is larger.
func (e *Effect) multiples(n int64, values ...int64) {
	n = min(n, 4)
	for _, v := range values {
		if v&(n-1) != 0 {
			e.fail("address or step %d of %d-byte elements is no multiple of %d", v, n, n)
		}
	}
}

// convert is an instruction of one source and one result with elements of
// different sizes; d are its operands from n2 on.
func (e *Effect) convert(dst, src int64, d []int64, dstSize, srcSize int64) {
	e.multiples(dstSize, dst, d[1], d[4])
	e.multiples(srcSize, src, d[2], d[5])
	e.strided(dst, src, d, dstSize, srcSize)
	e.work = product(d[0], d[3], d[6], least)
}

// nested is an instruction over four dimensions: base are its addresses, the
// result first, d its operands from n3 on, each count followed by a step an
// address, and sizes the bytes of an element of each.
func (e *Effect) nested(base, d []int64, sizes ...int64) {
	per := 1 + len(base)
	n3, n2, n1, n0 := d[0], d[per], d[2*per], d[3*per]
	e.work = product(n3, n2, n1, n0, least)
	for i, at := range base {
		s := [4]int64{d[1+i], d[per+1+i], d[2*per+1+i], d[3*per+1+i]}
		e.multiples(sizes[i], at, s[0], s[1], s[2], s[3])
		e.add(SP, i == 0, at, sizes[i], dim{n3, s[0]}, dim{n2, s[1]}, dim{n1, s[2]}, dim{n0, s[3]})
	}
}

// gather touches all of a table, as any of its entries may be selected.
func (e *Effect) gather(a []int64, from Mem) {
	n2, n1, entry := a[isa.GatherN2], a[isa.GatherN1], a[isa.GatherLen]
	bytes := size(a[isa.GatherType])
	e.work = runs(entry, n2, n1)
	e.multiples(bytes, a[isa.GatherIndex], a[isa.GatherIndexS1])
	e.add(from, false, a[isa.GatherSrc], entry, dim{n2, a[isa.GatherSrcS2]}, dim{a[isa.GatherAxis], a[isa.GatherSrcS1]})
	e.add(SP, false, a[isa.GatherIndex], bytes, dim{n1, a[isa.GatherIndexS1]})
	e.add(SP, true, a[isa.GatherDst], entry, dim{n2, a[isa.GatherDstS2]}, dim{n1, a[isa.GatherDstS1]})
}

// maxFloatK bounds the K of one matmulf, for whose columns the host packs panels.
const maxFloatK = 1 << 18

func (e *Effect) matMulF(a []int64) {
	ny, nx, n := a[isa.MatMulFRowsY], a[isa.MatMulFRowsX], a[isa.MatMulFN]
	segLen := a[isa.MatMulFSegLen]
	k := mul(mul(a[isa.MatMulFSegNy], a[isa.MatMulFSegNx]), segLen)
	e.work = product(ny, nx, k, n) / 4
	e.aligned(a[isa.MatMulFDst], a[isa.MatMulFDstSy], a[isa.MatMulFDstSx], a[isa.MatMulFSrc], a[isa.MatMulFSrcSy], a[isa.MatMulFSrcSx],
		a[isa.MatMulFSegSy], a[isa.MatMulFSegSx], a[isa.MatMulFW], a[isa.MatMulFWS])
	if k > maxFloatK {
		e.fail("K = %d is above %d", k, int64(maxFloatK))
	}
	if a[isa.MatMulFDstSx] < mul(4, n) && nx > 1 || a[isa.MatMulFWS] < mul(4, n) && k > 1 {
		e.fail("rows of the result or of w overlap")
	}
	e.add(SP, false, a[isa.MatMulFSrc], mul(4, segLen), dim{ny, a[isa.MatMulFSrcSy]}, dim{nx, a[isa.MatMulFSrcSx]},
		dim{a[isa.MatMulFSegNy], a[isa.MatMulFSegSy]}, dim{a[isa.MatMulFSegNx], a[isa.MatMulFSegSx]})
	e.add(SP, false, a[isa.MatMulFW], mul(4, n), dim{k, a[isa.MatMulFWS]})
	e.add(SP, true, a[isa.MatMulFDst], mul(4, n), dim{ny, a[isa.MatMulFDstSy]}, dim{nx, a[isa.MatMulFDstSx]})
	e.apart()
}
