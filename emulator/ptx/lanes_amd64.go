package ptx

import "golang.org/x/sys/cpu"

// The operations of lanes_amd64.s.
func init() {
	if !cpu.X86.HasAVX2 {
		return
	}
	widenS, widenU, narrow = laneWidenS, laneWidenU, laneNarrow
	signExtend, mask32 = laneExtend, laneMask
	mulWideS, mulWideU, madWideS, madWideU = laneMulWideS, laneMulWideU, laneMadWideS, laneMadWideU
	shl64, shrU64, shrS64 = laneShl64, laneShrU64, laneShrS64
	select32, select64 = laneSelect32, laneSelect64
	loadWords, storeWords = laneLoadWords, laneStoreWords
	loadRows = laneLoadRows
	loadBytes, loadSigned = laneLoadBytes, laneLoadSigned
	sameShape64, sameShape32 = laneShape64, laneShape32
	vector32 = map[string]func(d, a, b, c l32){
		"mov.b32": laneMov32, "mov.u32": laneMov32, "mov.s32": laneMov32, "mov.f32": laneMov32,
		"add.u32": laneAdd32, "add.s32": laneAdd32,
		"sub.u32": laneSub32, "sub.s32": laneSub32,
		"mul.lo.u32": laneMul32, "mul.lo.s32": laneMul32,
		"mul.hi.u32": laneMulHiU32, "mul.hi.s32": laneMulHiS32,
		"mad.lo.u32": laneMad32, "mad.lo.s32": laneMad32,
		"and.b32": laneAnd32, "or.b32": laneOr32, "xor.b32": laneXor32, "not.b32": laneNot32,
		"and.b16": laneAnd32, "or.b16": laneOr32, "xor.b16": laneXor32,
		"neg.s32": laneNeg32,
		"min.s32": laneMinS32, "max.s32": laneMaxS32, "min.u32": laneMinU32, "max.u32": laneMaxU32,
		"shl.b32": laneShl32, "shr.u32": laneShrU32, "shr.b32": laneShrU32, "shr.s32": laneShrS32,
		"bfe.u32": laneFieldU32, "bfe.s32": laneFieldS32,
		"dp4a.s32.s32": laneDotSS, "dp4a.s32.u32": laneDotSU, "dp4a.u32.s32": laneDotUS, "dp4a.u32.u32": laneDotUU,
	}
	vector64 = map[string]func(d, a, b, c l64){
		"mov.b64": laneMov64, "mov.u64": laneMov64, "mov.s64": laneMov64, "mov.f64": laneMov64,
		"add.u64": laneAdd64, "add.s64": laneAdd64,
		"sub.u64": laneSub64, "sub.s64": laneSub64,
		"mul.lo.u64": laneMul64, "mul.lo.s64": laneMul64,
		"and.b64": laneAnd64, "or.b64": laneOr64, "xor.b64": laneXor64,
	}
	vectorCompare32 = map[string]compare32{
		"eq.u": laneEq32,
		"ne.u": func(a, b l32) uint32 { return ^laneEq32(a, b) },
		"gt.s": laneGtS32,
		"lt.s": func(a, b l32) uint32 { return laneGtS32(b, a) },
		"le.s": func(a, b l32) uint32 { return ^laneGtS32(a, b) },
		"ge.s": func(a, b l32) uint32 { return ^laneGtS32(b, a) },
		"gt.u": laneGtU32,
		"lt.u": func(a, b l32) uint32 { return laneGtU32(b, a) },
		"le.u": func(a, b l32) uint32 { return ^laneGtU32(a, b) },
		"ge.u": func(a, b l32) uint32 { return ^laneGtU32(b, a) },
	}
	vectorCompare64 = map[string]compare64{
		"eq.u": laneEq64,
		"ne.u": func(a, b l64) uint32 { return ^laneEq64(a, b) },
		"gt.s": laneGtS64,
		"lt.s": func(a, b l64) uint32 { return laneGtS64(b, a) },
		"le.s": func(a, b l64) uint32 { return ^laneGtS64(a, b) },
		"ge.s": func(a, b l64) uint32 { return ^laneGtS64(b, a) },
		"gt.u": laneGtU64,
		"lt.u": func(a, b l64) uint32 { return laneGtU64(b, a) },
		"le.u": func(a, b l64) uint32 { return ^laneGtU64(a, b) },
		"ge.u": func(a, b l64) uint32 { return ^laneGtU64(b, a) },
	}
}

//go:noescape
func laneAdd32(d, a, b, c l32)

//go:noescape
func laneSub32(d, a, b, c l32)

//go:noescape
func laneMul32(d, a, b, c l32)

//go:noescape
func laneMulHiU32(d, a, b, c l32)

//go:noescape
func laneMulHiS32(d, a, b, c l32)

//go:noescape
func laneMad32(d, a, b, c l32)

//go:noescape
func laneAnd32(d, a, b, c l32)

//go:noescape
func laneOr32(d, a, b, c l32)

//go:noescape
func laneXor32(d, a, b, c l32)

//go:noescape
func laneNot32(d, a, b, c l32)

//go:noescape
func laneNeg32(d, a, b, c l32)

//go:noescape
func laneMinS32(d, a, b, c l32)

//go:noescape
func laneMaxS32(d, a, b, c l32)

//go:noescape
func laneMinU32(d, a, b, c l32)

//go:noescape
func laneMaxU32(d, a, b, c l32)

//go:noescape
func laneShl32(d, a, b, c l32)

//go:noescape
func laneShrU32(d, a, b, c l32)

//go:noescape
func laneShrS32(d, a, b, c l32)

//go:noescape
func laneFieldU32(d, a, b, c l32)

//go:noescape
func laneFieldS32(d, a, b, c l32)

//go:noescape
func laneDotSS(d, a, b, c l32)

//go:noescape
func laneDotSU(d, a, b, c l32)

//go:noescape
func laneDotUS(d, a, b, c l32)

//go:noescape
func laneDotUU(d, a, b, c l32)

//go:noescape
func laneMov32(d, a, b, c l32)

//go:noescape
func laneAdd64(d, a, b, c l64)

//go:noescape
func laneSub64(d, a, b, c l64)

//go:noescape
func laneMul64(d, a, b, c l64)

//go:noescape
func laneAnd64(d, a, b, c l64)

//go:noescape
func laneOr64(d, a, b, c l64)

//go:noescape
func laneXor64(d, a, b, c l64)

//go:noescape
func laneMov64(d, a, b, c l64)

//go:noescape
func laneEq32(a, b l32) uint32

//go:noescape
func laneEq64(a, b l64) uint32

//go:noescape
func laneGtS32(a, b l32) uint32

//go:noescape
func laneGtS64(a, b l64) uint32

//go:noescape
func laneGtU32(a, b l32) uint32

//go:noescape
func laneGtU64(a, b l64) uint32

//go:noescape
func laneWidenS(d l64, a l32)

//go:noescape
func laneWidenU(d l64, a l32)

//go:noescape
func laneNarrow(d l32, a l64)

//go:noescape
func laneMulWideS(d l64, a, b l32)

//go:noescape
func laneMulWideU(d l64, a, b l32)

//go:noescape
func laneMadWideS(d l64, a, b l32, c l64)

//go:noescape
func laneMadWideU(d l64, a, b l32, c l64)

//go:noescape
func laneShl64(d, a l64, b l32)

//go:noescape
func laneShrU64(d, a l64, b l32)

//go:noescape
func laneShrS64(d, a l64, b l32)

//go:noescape
func laneExtend(d, a l32, shift, cut uint32)

//go:noescape
func laneMask(d, a l32, cut uint32)

//go:noescape
func laneSelect32(d, a, b l32, m uint32)

//go:noescape
func laneSelect64(d, a, b l64, m uint32)

//go:noescape
func laneShape64(reg l64, s *shape) bool

//go:noescape
func laneShape32(reg l32, s *shape) bool

//go:noescape
func laneLoadWords(d l32, a *[4 * lanes]byte)

//go:noescape
func laneStoreWords(b *[4 * lanes]byte, d l32)

//go:noescape
func laneLoadBytes(d l32, a *[lanes]byte)

//go:noescape
func laneLoadSigned(d l32, a *[lanes]byte)

//go:noescape
func laneLoadRows(d l32, mem []byte, at *[8]uint32)
