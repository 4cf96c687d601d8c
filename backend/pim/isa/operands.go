package isa

// Operand positions, one block an instruction: Inst.Args[MVMSrc] is the source
// address of an mvm. A test checks them against the table.
const (
	// loop
	LoopCount = 0

	// set
	SetReg = 0
	SetImm = 1

	// addi
	AddiReg = 0
	AddiImm = 1

	// barrier
	BarrierId    = 0
	BarrierFirst = 1
	BarrierCount = 2

	// load
	LoadDst   = 0
	LoadSrc   = 1
	LoadN2    = 2
	LoadDstS2 = 3
	LoadSrcS2 = 4
	LoadN1    = 5
	LoadDstS1 = 6
	LoadSrcS1 = 7
	LoadLen   = 8

	// store
	StoreDst   = 0
	StoreSrc   = 1
	StoreN2    = 2
	StoreDstS2 = 3
	StoreSrcS2 = 4
	StoreN1    = 5
	StoreDstS1 = 6
	StoreSrcS1 = 7
	StoreLen   = 8

	// loadw
	LoadWDst    = 0
	LoadWSrc    = 1
	LoadWKtiles = 2
	LoadWNtiles = 3
	LoadWKsplit = 4
	LoadWRsplit = 5
	LoadWWbits  = 6
	LoadWFirst  = 7
	LoadWCount  = 8
	LoadWShifts = 9

	// send
	SendDst   = 0
	SendSrc   = 1
	SendN2    = 2
	SendDstS2 = 3
	SendSrcS2 = 4
	SendN1    = 5
	SendDstS1 = 6
	SendSrcS1 = 7
	SendLen   = 8
	SendFirst = 9
	SendCount = 10

	// mvm
	MVMAcc        = 0
	MVMWs         = 1
	MVMSrc        = 2
	MVMRowsY      = 3
	MVMRowSy      = 4
	MVMRowsX      = 5
	MVMRowSx      = 6
	MVMSegNz      = 7
	MVMSegSz      = 8
	MVMSegNy      = 9
	MVMSegSy      = 10
	MVMSegNx      = 11
	MVMSegSx      = 12
	MVMSegLen     = 13
	MVMNtiles     = 14
	MVMKsplit     = 15
	MVMRsplit     = 16
	MVMNSstep     = 17
	MVMN          = 18
	MVMWbits      = 19
	MVMAccumulate = 20
	MVMRow0       = 21
	MVMShifts     = 22

	// requant
	RequantDst      = 0
	RequantAcc      = 1
	RequantParams   = 2
	RequantRowsY    = 3
	RequantDstSy    = 4
	RequantRowsX    = 5
	RequantDstSx    = 6
	RequantN        = 7
	RequantAccPitch = 8
	RequantZero     = 9
	RequantLo       = 10
	RequantHi       = 11

	// fill
	FillDst   = 0
	FillN2    = 1
	FillDstS2 = 2
	FillN1    = 3
	FillDstS1 = 4
	FillLen   = 5
	FillValue = 6

	// copy
	CopyDst   = 0
	CopySrc   = 1
	CopyN3    = 2
	CopyDstS3 = 3
	CopySrcS3 = 4
	CopyN2    = 5
	CopyDstS2 = 6
	CopySrcS2 = 7
	CopyN1    = 8
	CopyDstS1 = 9
	CopySrcS1 = 10
	CopyLen   = 11

	// add
	AddDst   = 0
	AddA     = 1
	AddB     = 2
	AddN2    = 3
	AddDstS2 = 4
	AddAS2   = 5
	AddBS2   = 6
	AddN1    = 7
	AddDstS1 = 8
	AddAS1   = 9
	AddBS1   = 10
	AddLen   = 11
	AddZa    = 12
	AddZb    = 13
	AddZy    = 14
	AddMa    = 15
	AddMb    = 16
	AddShift = 17
	AddLo    = 18
	AddHi    = 19
	AddBStep = 20

	// mul
	MulDst   = 0
	MulA     = 1
	MulB     = 2
	MulN2    = 3
	MulDstS2 = 4
	MulAS2   = 5
	MulBS2   = 6
	MulN1    = 7
	MulDstS1 = 8
	MulAS1   = 9
	MulBS1   = 10
	MulLen   = 11
	MulZa    = 12
	MulZb    = 13
	MulZy    = 14
	MulM     = 15
	MulShift = 16
	MulLo    = 17
	MulHi    = 18
	MulBStep = 19

	// lut
	LUTDst   = 0
	LUTSrc   = 1
	LUTTable = 2
	LUTN2    = 3
	LUTDstS2 = 4
	LUTSrcS2 = 5
	LUTN1    = 6
	LUTDstS1 = 7
	LUTSrcS1 = 8
	LUTLen   = 9

	// maxpool
	MaxPoolDst     = 0
	MaxPoolSrc     = 1
	MaxPoolOutH    = 2
	MaxPoolOutW    = 3
	MaxPoolC       = 4
	MaxPoolDstSy   = 5
	MaxPoolDstSx   = 6
	MaxPoolSrcSy   = 7
	MaxPoolSrcSx   = 8
	MaxPoolKh      = 9
	MaxPoolKw      = 10
	MaxPoolStrideH = 11
	MaxPoolStrideW = 12
	MaxPoolDilH    = 13
	MaxPoolDilW    = 14
	MaxPoolY0      = 15
	MaxPoolX0      = 16
	MaxPoolInH     = 17
	MaxPoolInW     = 18

	// avgpool
	AvgPoolDst      = 0
	AvgPoolSrc      = 1
	AvgPoolParams   = 2
	AvgPoolOutH     = 3
	AvgPoolOutW     = 4
	AvgPoolC        = 5
	AvgPoolDstSy    = 6
	AvgPoolDstSx    = 7
	AvgPoolSrcSy    = 8
	AvgPoolSrcSx    = 9
	AvgPoolKh       = 10
	AvgPoolKw       = 11
	AvgPoolStrideH  = 12
	AvgPoolStrideW  = 13
	AvgPoolDilH     = 14
	AvgPoolDilW     = 15
	AvgPoolY0       = 16
	AvgPoolX0       = 17
	AvgPoolInH      = 18
	AvgPoolInW      = 19
	AvgPoolPadT     = 20
	AvgPoolPadL     = 21
	AvgPoolPadB     = 22
	AvgPoolPadR     = 23
	AvgPoolPerCount = 24
	AvgPoolZx       = 25
	AvgPoolZy       = 26
	AvgPoolLo       = 27
	AvgPoolHi       = 28

	// depthwise
	DepthwiseDst     = 0
	DepthwiseSrc     = 1
	DepthwiseW       = 2
	DepthwiseParams  = 3
	DepthwiseOutH    = 4
	DepthwiseOutW    = 5
	DepthwiseC       = 6
	DepthwiseDstSy   = 7
	DepthwiseDstSx   = 8
	DepthwiseSrcSy   = 9
	DepthwiseSrcSx   = 10
	DepthwiseKh      = 11
	DepthwiseKw      = 12
	DepthwiseStrideH = 13
	DepthwiseStrideW = 14
	DepthwiseDilH    = 15
	DepthwiseDilW    = 16
	DepthwiseZero    = 17
	DepthwiseLo      = 18
	DepthwiseHi      = 19

	// softmax
	SoftmaxDst    = 0
	SoftmaxSrc    = 1
	SoftmaxRows   = 2
	SoftmaxN      = 3
	SoftmaxParams = 4

	// quant
	QuantDst   = 0
	QuantSrc   = 1
	QuantN2    = 2
	QuantDstS2 = 3
	QuantSrcS2 = 4
	QuantN1    = 5
	QuantDstS1 = 6
	QuantSrcS1 = 7
	QuantLen   = 8
	QuantScale = 9
	QuantZero  = 10

	// dequant
	DequantDst   = 0
	DequantSrc   = 1
	DequantN2    = 2
	DequantDstS2 = 3
	DequantSrcS2 = 4
	DequantN1    = 5
	DequantDstS1 = 6
	DequantSrcS1 = 7
	DequantLen   = 8
	DequantScale = 9
	DequantZero  = 10

	// dequantacc
	DequantAccDst      = 0
	DequantAccAcc      = 1
	DequantAccParams   = 2
	DequantAccRowsY    = 3
	DequantAccDstSy    = 4
	DequantAccRowsX    = 5
	DequantAccDstSx    = 6
	DequantAccN        = 7
	DequantAccAccPitch = 8

	// unaryf
	UnaryFFn    = 0
	UnaryFDst   = 1
	UnaryFSrc   = 2
	UnaryFN     = 3
	UnaryFAlpha = 4
	UnaryFBeta  = 5

	// binaryf
	BinaryFFn    = 0
	BinaryFDst   = 1
	BinaryFA     = 2
	BinaryFB     = 3
	BinaryFN3    = 4
	BinaryFDstS3 = 5
	BinaryFAS3   = 6
	BinaryFBS3   = 7
	BinaryFN2    = 8
	BinaryFDstS2 = 9
	BinaryFAS2   = 10
	BinaryFBS2   = 11
	BinaryFN1    = 12
	BinaryFDstS1 = 13
	BinaryFAS1   = 14
	BinaryFBS1   = 15
	BinaryFN0    = 16
	BinaryFDstS0 = 17
	BinaryFAS0   = 18
	BinaryFBS0   = 19

	// softmaxf
	SoftmaxFLog   = 0
	SoftmaxFDst   = 1
	SoftmaxFSrc   = 2
	SoftmaxFOuter = 3
	SoftmaxFN     = 4
	SoftmaxFInner = 5

	// lrnf
	LRNFDst   = 0
	LRNFSrc   = 1
	LRNFOuter = 2
	LRNFC     = 3
	LRNFInner = 4
	LRNFSize  = 5
	LRNFAlpha = 6
	LRNFBeta  = 7
	LRNFBias  = 8

	// reducef
	ReduceFFn    = 0
	ReduceFDst   = 1
	ReduceFSrc   = 2
	ReduceFOuter = 3
	ReduceFN     = 4
	ReduceFInner = 5

	// storew
	StoreWDst    = 0
	StoreWSrc    = 1
	StoreWK      = 2
	StoreWKStep  = 3
	StoreWN      = 4
	StoreWNStep  = 5
	StoreWPlanes = 6
	StoreWZero   = 7
	StoreWKsplit = 8
	StoreWRsplit = 9

	// biasacc
	BiasAccDst  = 0
	BiasAccAcc  = 1
	BiasAccBias = 2
	BiasAccN    = 3

	// dot
	DotAcc   = 0
	DotA     = 1
	DotRowsY = 2
	DotRowSy = 3
	DotRowsX = 4
	DotRowSx = 5
	DotK     = 6
	DotB     = 7
	DotKStep = 8
	DotN     = 9
	DotNStep = 10
	DotZa    = 11
	DotZb    = 12
	// convert
	ConvertTo    = 0
	ConvertFrom  = 1
	ConvertDst   = 2
	ConvertSrc   = 3
	ConvertN2    = 4
	ConvertDstS2 = 5
	ConvertSrcS2 = 6
	ConvertN1    = 7
	ConvertDstS1 = 8
	ConvertSrcS1 = 9
	ConvertLen   = 10

	// binaryi
	BinaryIFn    = 0
	BinaryIType  = 1
	BinaryIDst   = 2
	BinaryIA     = 3
	BinaryIB     = 4
	BinaryIN3    = 5
	BinaryIDstS3 = 6
	BinaryIAS3   = 7
	BinaryIBS3   = 8
	BinaryIN2    = 9
	BinaryIDstS2 = 10
	BinaryIAS2   = 11
	BinaryIBS2   = 12
	BinaryIN1    = 13
	BinaryIDstS1 = 14
	BinaryIAS1   = 15
	BinaryIBS1   = 16
	BinaryIN0    = 17
	BinaryIDstS0 = 18
	BinaryIAS0   = 19
	BinaryIBS0   = 20

	// select
	SelectSize   = 0
	SelectDst    = 1
	SelectCond   = 2
	SelectA      = 3
	SelectB      = 4
	SelectN3     = 5
	SelectDstS3  = 6
	SelectCondS3 = 7
	SelectAS3    = 8
	SelectBS3    = 9
	SelectN2     = 10
	SelectDstS2  = 11
	SelectCondS2 = 12
	SelectAS2    = 13
	SelectBS2    = 14
	SelectN1     = 15
	SelectDstS1  = 16
	SelectCondS1 = 17
	SelectAS1    = 18
	SelectBS1    = 19
	SelectN0     = 20
	SelectDstS0  = 21
	SelectCondS0 = 22
	SelectAS0    = 23
	SelectBS0    = 24

	// reducei
	ReduceIFn    = 0
	ReduceIType  = 1
	ReduceIDst   = 2
	ReduceISrc   = 3
	ReduceIOuter = 4
	ReduceIN     = 5
	ReduceIInner = 6

	// gather
	GatherDst     = 0
	GatherSrc     = 1
	GatherIndex   = 2
	GatherType    = 3
	GatherAxis    = 4
	GatherN2      = 5
	GatherDstS2   = 6
	GatherSrcS2   = 7
	GatherN1      = 8
	GatherDstS1   = 9
	GatherIndexS1 = 10
	GatherSrcS1   = 11
	GatherLen     = 12

	// gatherd
	GatherDDst     = 0
	GatherDSrc     = 1
	GatherDIndex   = 2
	GatherDType    = 3
	GatherDAxis    = 4
	GatherDN2      = 5
	GatherDDstS2   = 6
	GatherDSrcS2   = 7
	GatherDN1      = 8
	GatherDDstS1   = 9
	GatherDIndexS1 = 10
	GatherDSrcS1   = 11
	GatherDLen     = 12

	// storeacc
	StoreAccDst      = 0
	StoreAccAcc      = 1
	StoreAccParams   = 2
	StoreAccRowsY    = 3
	StoreAccDstSy    = 4
	StoreAccRowsX    = 5
	StoreAccDstSx    = 6
	StoreAccN        = 7
	StoreAccAccPitch = 8

	// quantw
	QuantWType   = 0
	QuantWDst    = 1
	QuantWSrc    = 2
	QuantWN2     = 3
	QuantWDstS2  = 4
	QuantWSrcS2  = 5
	QuantWN1     = 6
	QuantWDstS1  = 7
	QuantWSrcS1  = 8
	QuantWLen    = 9
	QuantWScale  = 10
	QuantWOffset = 11

	// dequantw
	DequantWType   = 0
	DequantWDst    = 1
	DequantWSrc    = 2
	DequantWN2     = 3
	DequantWDstS2  = 4
	DequantWSrcS2  = 5
	DequantWN1     = 6
	DequantWDstS1  = 7
	DequantWSrcS1  = 8
	DequantWLen    = 9
	DequantWScale  = 10
	DequantWOffset = 11

	// matmulf
	MatMulFDst    = 0
	MatMulFSrc    = 1
	MatMulFW      = 2
	MatMulFRowsY  = 3
	MatMulFDstSy  = 4
	MatMulFSrcSy  = 5
	MatMulFRowsX  = 6
	MatMulFDstSx  = 7
	MatMulFSrcSx  = 8
	MatMulFSegNy  = 9
	MatMulFSegSy  = 10
	MatMulFSegNx  = 11
	MatMulFSegSx  = 12
	MatMulFSegLen = 13
	MatMulFWS     = 14
	MatMulFN      = 15

	// norm
	NormDst    = 0
	NormSrc    = 1
	NormRows   = 2
	NormN      = 3
	NormParams = 4

	// muladd
	MulAddDst   = 0
	MulAddA     = 1
	MulAddB     = 2
	MulAddC     = 3
	MulAddD     = 4
	MulAddN3    = 5
	MulAddDstS3 = 6
	MulAddAS3   = 7
	MulAddBS3   = 8
	MulAddCS3   = 9
	MulAddDS3   = 10
	MulAddN2    = 11
	MulAddDstS2 = 12
	MulAddAS2   = 13
	MulAddBS2   = 14
	MulAddCS2   = 15
	MulAddDS2   = 16
	MulAddN1    = 17
	MulAddDstS1 = 18
	MulAddAS1   = 19
	MulAddBS1   = 20
	MulAddCS1   = 21
	MulAddDS1   = 22
	MulAddN0    = 23
	MulAddDstS0 = 24
	MulAddAS0   = 25
	MulAddBS0   = 26
	MulAddCS0   = 27
	MulAddDS0   = 28
	MulAddZa    = 29
	MulAddZb    = 30
	MulAddZc    = 31
	MulAddZd    = 32
	MulAddZy    = 33
	MulAddMab   = 34
	MulAddMcd   = 35
	MulAddShift = 36
	MulAddLo    = 37
	MulAddHi    = 38

	// loada
	LoadADst    = 0
	LoadASrc    = 1
	LoadAK      = 2
	LoadAKStep  = 3
	LoadAN      = 4
	LoadANStep  = 5
	LoadAPlanes = 6
	LoadAZero   = 7
	LoadAKsplit = 8
	LoadARsplit = 9

	// wrap
	WrapReg  = 0
	WrapImm  = 1
	WrapSize = 2

	// pick
	PickSize  = 0
	PickType  = 1
	PickDst   = 2
	PickSrc   = 3
	PickIndex = 4
	PickOuter = 5
	PickN     = 6
	PickK     = 7
	PickInner = 8

	// put
	PutFn    = 0
	PutType  = 1
	PutItype = 2
	PutDst   = 3
	PutSrc   = 4
	PutIndex = 5
	PutOuter = 6
	PutN     = 7
	PutK     = 8
	PutInner = 9

	// topk
	TopKType     = 0
	TopKDst      = 1
	TopKSrc      = 2
	TopKK        = 3
	TopKSmallest = 4
	TopKOuter    = 5
	TopKN        = 6
	TopKInner    = 7

	// shlacc
	ShlAccAcc = 0
	ShlAccN   = 1
	ShlAccBy  = 2
)
