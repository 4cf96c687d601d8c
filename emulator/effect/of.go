package effect

import "situ/backend/pim/isa"

// SoftmaxBlock is the size of the parameter block of a softmax.
const SoftmaxBlock = 256*4 + 8 + 4 + 4

// NormBlock is the size of the parameter block of a norm of n codes.
func NormBlock(n int64) int64 { return NormHead + mul(n, 8) }

// NormHead is the part of the block before the factors.
const NormHead = 24

// Of sets e to the effect of an instruction whose address operands are resolved
// (plain byte addresses). The instruction is valid by isa.Validate. Control
// instructions touch nothing.
func (e *Effect) Of(op isa.Op, a []int64, s *Shape) {
	e.n, e.work, e.err = 0, 0, nil
	switch op {
	case isa.OpLoad:
		e.move(a, DRAM, SP)
	case isa.OpStore:
		e.move(a, SP, DRAM)
	case isa.OpSend:
		e.move(a, SP, RemoteSP)
	case isa.OpLoadW:
		e.loadW(a, s)
	case isa.OpStoreW:
		e.storeW(a, s, SP)
	case isa.OpLoadA:
		e.storeW(a, s, DRAM)
	case isa.OpShlAcc:
		n := mul(a[isa.ShlAccN], 4)
		e.aligned(a[isa.ShlAccAcc])
		e.work = float64(n)
		e.add(Acc, true, a[isa.ShlAccAcc], n)
	case isa.OpBiasAcc:
		n := mul(a[isa.BiasAccN], 4)
		e.aligned(a[isa.BiasAccDst], a[isa.BiasAccAcc], a[isa.BiasAccBias])
		e.work = float64(n)
		e.add(Acc, false, a[isa.BiasAccAcc], n)
		e.add(SP, false, a[isa.BiasAccBias], n)
		e.add(SP, true, a[isa.BiasAccDst], n)
	case isa.OpDot:
		e.dot(a)
	case isa.OpMVM:
		e.mvm(a, s)
	case isa.OpRequant:
		e.fromAcc(a[isa.RequantDst], a[isa.RequantAcc], a[isa.RequantParams], a[isa.RequantRowsY:], 1, 12)
	case isa.OpDequantAcc:
		e.aligned(a[isa.DequantAccDst], a[isa.DequantAccDstSy], a[isa.DequantAccDstSx])
		e.fromAcc(a[isa.DequantAccDst], a[isa.DequantAccAcc], a[isa.DequantAccParams], a[isa.DequantAccRowsY:], 4, 8)
	case isa.OpFill:
		e.work = runs(a[isa.FillLen], a[isa.FillN2], a[isa.FillN1])
		e.add(SP, true, a[isa.FillDst], a[isa.FillLen], dim{a[isa.FillN2], a[isa.FillDstS2]}, dim{a[isa.FillN1], a[isa.FillDstS1]})
	case isa.OpCopy:
		e.work = runs(a[isa.CopyLen], a[isa.CopyN3], a[isa.CopyN2], a[isa.CopyN1])
		n3, n2, n1 := a[isa.CopyN3], a[isa.CopyN2], a[isa.CopyN1]
		e.add(SP, false, a[isa.CopySrc], a[isa.CopyLen], dim{n3, a[isa.CopySrcS3]}, dim{n2, a[isa.CopySrcS2]}, dim{n1, a[isa.CopySrcS1]})
		e.add(SP, true, a[isa.CopyDst], a[isa.CopyLen], dim{n3, a[isa.CopyDstS3]}, dim{n2, a[isa.CopyDstS2]}, dim{n1, a[isa.CopyDstS1]})
	case isa.OpAdd:
		e.binary(a, a[isa.AddBStep])
	case isa.OpMul:
		e.binary(a, a[isa.MulBStep])
	case isa.OpLUT:
		e.strided(a[isa.LUTDst], a[isa.LUTSrc], a[isa.LUTN2:], 1, 1)
		e.add(SP, false, a[isa.LUTTable], 256)
	case isa.OpQuant:
		e.aligned(a[isa.QuantSrc], a[isa.QuantSrcS2], a[isa.QuantSrcS1])
		e.strided(a[isa.QuantDst], a[isa.QuantSrc], a[isa.QuantN2:], 1, 4)
	case isa.OpDequant:
		e.aligned(a[isa.DequantDst], a[isa.DequantDstS2], a[isa.DequantDstS1])
		e.strided(a[isa.DequantDst], a[isa.DequantSrc], a[isa.DequantN2:], 4, 1)
	case isa.OpMaxPool:
		e.pool(a[isa.MaxPoolDst], a[isa.MaxPoolSrc], a[isa.MaxPoolOutH:])
	case isa.OpAvgPool:
		e.pool(a[isa.AvgPoolDst], a[isa.AvgPoolSrc], a[isa.AvgPoolOutH:])
		entries := int64(1)
		if a[isa.AvgPoolPerCount] != 0 {
			entries = mul(a[isa.AvgPoolKh], a[isa.AvgPoolKw])
		}
		e.aligned(a[isa.AvgPoolParams])
		e.add(SP, false, a[isa.AvgPoolParams], mul(entries, 8))
	case isa.OpDepthwise:
		e.depthwise(a)
	case isa.OpSoftmax:
		n := mul(a[isa.SoftmaxRows], a[isa.SoftmaxN])
		e.work = runs(a[isa.SoftmaxN], a[isa.SoftmaxRows], least)
		e.aligned(a[isa.SoftmaxParams])
		e.add(SP, false, a[isa.SoftmaxSrc], n)
		e.add(SP, true, a[isa.SoftmaxDst], n)
		e.add(SP, false, a[isa.SoftmaxParams], SoftmaxBlock)
	case isa.OpNorm:
		n := mul(a[isa.NormRows], a[isa.NormN])
		e.work = runs(a[isa.NormN], a[isa.NormRows], least)
		e.aligned(a[isa.NormParams])
		e.add(SP, false, a[isa.NormSrc], n)
		e.add(SP, true, a[isa.NormDst], n)
		e.add(SP, false, a[isa.NormParams], NormBlock(a[isa.NormN]))
	case isa.OpMulAdd:
		e.mulAdd(a)
	case isa.OpUnaryF:
		e.float(a[isa.UnaryFDst], a[isa.UnaryFN], a[isa.UnaryFSrc], a[isa.UnaryFN], 1)
	case isa.OpBinaryF:
		e.binaryF(a)
	case isa.OpSoftmaxF:
		n := mul(a[isa.SoftmaxFOuter], mul(a[isa.SoftmaxFN], a[isa.SoftmaxFInner]))
		e.float(a[isa.SoftmaxFDst], n, a[isa.SoftmaxFSrc], n, 1)
	case isa.OpLRNF:
		n := mul(a[isa.LRNFOuter], mul(a[isa.LRNFC], a[isa.LRNFInner]))
		e.float(a[isa.LRNFDst], n, a[isa.LRNFSrc], n, 1+min(a[isa.LRNFSize], a[isa.LRNFC]))
		if overlap(e.regions[0], e.regions[1]) {
			e.fail("source and result overlap")
		}
	case isa.OpReduceF:
		n := mul(a[isa.ReduceFOuter], a[isa.ReduceFInner])
		e.float(a[isa.ReduceFDst], n, a[isa.ReduceFSrc], mul(n, a[isa.ReduceFN]), 1)
	default:
		e.ofNumbers(op, a)
	}
}

func overlap(a, b Region) bool { return a.Lo < b.Hi && b.Lo < a.Hi }

// move is load, store and send, whose operands are alike.
func (e *Effect) move(a []int64, from, to Mem) {
	n2, n1, size := a[isa.LoadN2], a[isa.LoadN1], a[isa.LoadLen]
	e.work = runs(size, n2, n1)
	e.add(from, false, a[isa.LoadSrc], size, dim{n2, a[isa.LoadSrcS2]}, dim{n1, a[isa.LoadSrcS1]})
	e.add(to, true, a[isa.LoadDst], size, dim{n2, a[isa.LoadDstS2]}, dim{n1, a[isa.LoadDstS1]})
}

func (e *Effect) loadW(a []int64, s *Shape) {
	tile := s.TileBytes(a[isa.LoadWWbits], a[isa.LoadWShifts])
	e.shifts(a[isa.LoadWShifts], s)
	tiles := mul(a[isa.LoadWKtiles], a[isa.LoadWNtiles])
	ksplit := a[isa.LoadWKsplit]
	if cores := mul(mul(a[isa.LoadWRsplit], a[isa.LoadWNtiles]), ksplit); cores > s.Cores {
		e.fail("needs %d cores, a cluster has %d", cores, s.Cores)
	}
	e.work = float64(tiles)
	e.add(DRAM, false, a[isa.LoadWSrc], mul(tiles, tile))
	e.add(RemoteWS, true, a[isa.LoadWDst], mul((a[isa.LoadWKtiles]+ksplit-1)/ksplit, tile))
}

// StoreWTiles returns the tiles that a storew or loada writes along K and N.
func (s *Shape) StoreWTiles(a []int64) (ktiles, ntiles int64) {
	cols := s.ArrayCols(8)
	return (mul(a[isa.StoreWPlanes], a[isa.StoreWK]) + s.Rows - 1) / s.Rows, (a[isa.StoreWN] + cols - 1) / cols
}

// storeW is storew and loada, whose operands are alike.
func (e *Effect) storeW(a []int64, s *Shape, from Mem) {
	k, n, ksplit := a[isa.StoreWK], a[isa.StoreWN], a[isa.StoreWKsplit]
	ktiles, ntiles := s.StoreWTiles(a)
	if cores := mul(mul(a[isa.StoreWRsplit], ntiles), ksplit); cores > s.Cores {
		e.fail("needs %d cores, a cluster has %d", cores, s.Cores)
	}
	tile := s.TileBytes(8, 0)
	e.work = product(ktiles, ntiles, tile)
	e.add(from, false, a[isa.StoreWSrc], 1, dim{k, a[isa.StoreWKStep]}, dim{n, a[isa.StoreWNStep]})
	e.add(WS, true, a[isa.StoreWDst], mul((ktiles+ksplit-1)/ksplit, tile))
}

func (e *Effect) dot(a []int64) {
	m, k, n := mul(a[isa.DotRowsY], a[isa.DotRowsX]), a[isa.DotK], a[isa.DotN]
	e.aligned(a[isa.DotAcc])
	e.work = runs(n, m, k)
	e.add(SP, false, a[isa.DotA], k, dim{a[isa.DotRowsY], a[isa.DotRowSy]}, dim{a[isa.DotRowsX], a[isa.DotRowSx]})
	e.add(SP, false, a[isa.DotB], 1, dim{k, a[isa.DotKStep]}, dim{n, a[isa.DotNStep]})
	e.add(Acc, true, a[isa.DotAcc], mul(mul(m, n), 4))
}

func (e *Effect) mvm(a []int64, s *Shape) {
	m := mul(a[isa.MVMRowsY], a[isa.MVMRowsX])
	segs := mul(a[isa.MVMSegNz], mul(a[isa.MVMSegNy], a[isa.MVMSegNx]))
	k := mul(segs, a[isa.MVMSegLen])
	n, ntiles, ksplit := a[isa.MVMN], a[isa.MVMNtiles], a[isa.MVMKsplit]
	passes := ((k+a[isa.MVMRow0]+s.Rows-1)/s.Rows + ksplit - 1) / ksplit
	wbits := a[isa.MVMWbits]
	if cores := mul(mul(a[isa.MVMRsplit], ntiles), ksplit); cores > s.Cores {
		e.fail("needs %d cores, a cluster has %d", cores, s.Cores)
	}
	cols := s.ArrayCols(wbits)
	if n > ntiles*cols {
		e.fail("%d columns do not fit %d tiles of %d", n, ntiles, cols)
	}
	nStep := a[isa.MVMNSstep]
	if nStep != 0 && n%ntiles != 0 {
		e.fail("%d columns do not divide into %d groups", n, ntiles)
	}
	groups := int64(1)
	if nStep != 0 {
		groups = ntiles
	}
	if row0 := a[isa.MVMRow0]; row0 >= s.Rows {
		e.fail("row0 = %d, an array has %d rows", row0, s.Rows)
	}
	e.shifts(a[isa.MVMShifts], s)
	e.aligned(a[isa.MVMAcc])
	e.work = runs(n, m, k) / 64
	e.add(SP, false, a[isa.MVMSrc], a[isa.MVMSegLen], dim{a[isa.MVMRowsY], a[isa.MVMRowSy]}, dim{a[isa.MVMRowsX], a[isa.MVMRowSx]},
		dim{a[isa.MVMSegNz], a[isa.MVMSegSz]}, dim{a[isa.MVMSegNy], a[isa.MVMSegSy]}, dim{a[isa.MVMSegNx], a[isa.MVMSegSx]}, dim{groups, nStep})
	e.add(WS, false, a[isa.MVMWs], mul(passes, s.TileBytes(wbits, a[isa.MVMShifts])))
	e.add(Acc, true, a[isa.MVMAcc], mul(mul(m, n), 4))
}

// shifts notes an error when weights have shifts and arrays no shifters.
func (e *Effect) shifts(shifts int64, s *Shape) {
	if shifts != 0 && s.ShiftRows == 0 {
		e.fail("the weights have shifts, for which the architecture's arrays have no shifters (array.shift_rows)")
	}
}

// fromAcc is requant and dequantacc: rows are their operands from rows_y on,
// size the bytes of a result and perChannel those of the parameters.
func (e *Effect) fromAcc(dst, acc, params int64, rows []int64, size, perChannel int64) {
	ny, sy, nx, sx, n, pitch := rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
	e.work = runs(n, ny, nx)
	e.aligned(acc, pitch, params)
	e.add(Acc, false, acc, mul(n, 4), dim{mul(ny, nx), pitch})
	e.add(SP, false, params, mul(n, perChannel))
	e.add(SP, true, dst, mul(n, size), dim{ny, sy}, dim{nx, sx})
}

// binary is add and mul, whose first operands are alike.
func (e *Effect) binary(a []int64, bStep int64) {
	n2, n1, size := a[isa.AddN2], a[isa.AddN1], a[isa.AddLen]
	e.work = runs(size, n2, n1)
	bLen := size
	if bStep == 0 {
		bLen = 1
	}
	e.add(SP, false, a[isa.AddA], size, dim{n2, a[isa.AddAS2]}, dim{n1, a[isa.AddAS1]})
	e.add(SP, false, a[isa.AddB], bLen, dim{n2, a[isa.AddBS2]}, dim{n1, a[isa.AddBS1]})
	e.add(SP, true, a[isa.AddDst], size, dim{n2, a[isa.AddDstS2]}, dim{n1, a[isa.AddDstS1]})
}

func (e *Effect) mulAdd(a []int64) {
	e.work = product(a[isa.MulAddN3], a[isa.MulAddN2], a[isa.MulAddN1], a[isa.MulAddN0], least)
	for i := range 5 { // dst, a, b, c, d
		s := a[isa.MulAddDstS3+i:]
		const per = isa.MulAddN2 - isa.MulAddN3
		e.add(SP, i == 0, a[isa.MulAddDst+i], 1, dim{a[isa.MulAddN3], s[0]}, dim{a[isa.MulAddN2], s[per]},
			dim{a[isa.MulAddN1], s[2*per]}, dim{a[isa.MulAddN0], s[3*per]})
	}
}

// strided is an instruction of one source and one result over n2, n1 and len
// elements of the given sizes.
func (e *Effect) strided(dst, src int64, d []int64, dstSize, srcSize int64) {
	n2, dstS2, srcS2, n1, dstS1, srcS1, n := d[0], d[1], d[2], d[3], d[4], d[5], d[6]
	e.work = runs(n, n2, n1)
	e.add(SP, false, src, mul(n, srcSize), dim{n2, srcS2}, dim{n1, srcS1})
	e.add(SP, true, dst, mul(n, dstSize), dim{n2, dstS2}, dim{n1, dstS1})
}

// pool is maxpool and avgpool; d are their operands from out_h on.
func (e *Effect) pool(dst, src int64, d []int64) {
	outH, outW, c, dstSy, dstSx, srcSy, srcSx := d[0], d[1], d[2], d[3], d[4], d[5], d[6]
	kh, kw, inH, inW := d[7], d[8], d[15], d[16]
	e.work = runs(c, outH, outW, min(kh, inH), min(kw, inW))
	if srcSy < 0 || srcSx < 0 {
		e.fail("a source step is negative")
	}
	for _, n := range [...]int64{outH, outW, kh, kw, d[9], d[10], d[11], d[12], inH, inW} {
		if n > 1<<24 {
			e.fail("a size, stride or dilation is above 2^24")
		}
	}
	e.add(SP, false, src, c, dim{inH, srcSy}, dim{inW, srcSx})
	e.add(SP, true, dst, c, dim{outH, dstSy}, dim{outW, dstSx})
}

func (e *Effect) depthwise(a []int64) {
	outH, outW, c := a[isa.DepthwiseOutH], a[isa.DepthwiseOutW], a[isa.DepthwiseC]
	kh, kw := a[isa.DepthwiseKh], a[isa.DepthwiseKw]
	sy, sx := a[isa.DepthwiseSrcSy], a[isa.DepthwiseSrcSx]
	e.work = runs(c, outH, outW, kh, kw)
	e.aligned(a[isa.DepthwiseParams])
	e.add(SP, false, a[isa.DepthwiseSrc], c,
		dim{outH, mul(a[isa.DepthwiseStrideH], sy)}, dim{outW, mul(a[isa.DepthwiseStrideW], sx)},
		dim{kh, mul(a[isa.DepthwiseDilH], sy)}, dim{kw, mul(a[isa.DepthwiseDilW], sx)})
	e.add(SP, false, a[isa.DepthwiseW], mul(mul(kh, kw), c))
	e.add(SP, false, a[isa.DepthwiseParams], mul(c, 12))
	e.add(SP, true, a[isa.DepthwiseDst], c, dim{outH, a[isa.DepthwiseDstSy]}, dim{outW, a[isa.DepthwiseDstSx]})
}

// float is a float32 instruction on contiguous operands.
func (e *Effect) float(dst, dstN, src, srcN, perElement int64) {
	e.aligned(dst, src)
	e.work = product(max(srcN, dstN), perElement, least)
	e.add(SP, false, src, mul(srcN, 4))
	e.add(SP, true, dst, mul(dstN, 4))
}

func (e *Effect) binaryF(a []int64) {
	e.work = product(a[isa.BinaryFN3], a[isa.BinaryFN2], a[isa.BinaryFN1], a[isa.BinaryFN0], least)
	for i, base := range [3]int64{a[isa.BinaryFDst], a[isa.BinaryFA], a[isa.BinaryFB]} {
		s := a[isa.BinaryFDstS3+i:]
		const per = isa.BinaryFN2 - isa.BinaryFN3
		e.aligned(base, s[0], s[per], s[2*per], s[3*per])
		e.add(SP, i == 0, base, 4, dim{a[isa.BinaryFN3], s[0]}, dim{a[isa.BinaryFN2], s[per]},
			dim{a[isa.BinaryFN1], s[2*per]}, dim{a[isa.BinaryFN0], s[3*per]})
	}
}
