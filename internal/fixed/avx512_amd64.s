#include "textflag.h"
#include "go_asm.h"

// Vector kernels for AVX-512 (F, BW, DQ, VL, VBMI). Each comment names the Go
// function the kernel equals.

// Rounds Z10 and Z11 (64-bit, one half already added) by the shifts S0, S1:
// floor, then clear the last bit where the sum was a multiple of 2^shift.
// Z12 = not 1. Adds Z13 and clamps to Z14..Z15.
#define ROUND(LOW0, LOW1, S0, S1) \
	VPTESTNMQ LOW0, Z10, K2;     \
	VPTESTNMQ LOW1, Z11, K3;     \
	VPSRAVQ   S0, Z10, Z10;      \
	VPSRAVQ   S1, Z11, Z11;      \
	VPANDQ    Z12, Z10, K2, Z10; \
	VPANDQ    Z12, Z11, K3, Z11; \
	VPADDQ    Z13, Z10, Z10;     \
	VPADDQ    Z13, Z11, Z11;     \
	VPMAXSQ   Z14, Z10, Z10;     \
	VPMAXSQ   Z14, Z11, Z11;     \
	VPMINSQ   Z15, Z10, Z10;     \
	VPMINSQ   Z15, Z11, Z11

// Stores the even lanes Z10 and the odd lanes Z11 as 16 bytes under K1.
#define JOIN(DST) \
	VPSLLQ   $32, Z11, Z11; \
	VPORQ    Z11, Z10, Z10; \
	VPMOVDB  Z10, X10;      \
	VMOVDQU8 X10, K1, (DST)

// K1 = the first min(N, 16) lanes; clobbers CX and R15.
#define TAIL16(N) \
	MOVQ    $16, CX;      \
	CMPQ    N, CX;        \
	CMOVQLT N, CX;        \
	MOVQ    $0xFFFF, R15; \
	BZHIQ   CX, R15, R15; \
	KMOVW   R15, K1

// Z12 = not 1 in 64-bit lanes.
#define NOTONE \
	VPTERNLOGQ $0xFF, Z12, Z12, Z12; \
	VPADDQ     Z12, Z12, Z12

// func requantise512(p *reqArgs), requantisePortable. Blocks of 16 channels,
// whose parameters stay in registers while the rows pass: even lanes in Z1, Z4,
// Z6, Z8 (multiplier, shift, half, low bits), odd lanes in Z2, Z5, Z7, Z9.
TEXT ·requantise512(SB), NOSPLIT, $0-8
	MOVQ         p+0(FP), AX
	MOVQ         reqArgs_dst(AX), DI
	MOVQ         reqArgs_acc(AX), SI
	MOVQ         reqArgs_cols(AX), DX
	MOVQ         reqArgs_bias(AX), R8
	MOVQ         reqArgs_mult(AX), R9
	MOVQ         reqArgs_shift(AX), R10
	MOVQ         reqArgs_dstStride(AX), R11
	MOVQ         reqArgs_accStride(AX), R12
	VPBROADCASTQ reqArgs_zp(AX), Z13
	VPBROADCASTQ reqArgs_lo(AX), Z14
	VPBROADCASTQ reqArgs_hi(AX), Z15
	NOTONE
	MOVQ         $1, CX
	VPBROADCASTQ CX, Z16
	VPTERNLOGQ   $0xFF, Z17, Z17, Z17

block:
	TAIL16(DX)
	VMOVDQU32.Z (R8), K1, Z0
	VMOVDQU32.Z (R9), K1, Z1
	VMOVDQU8.Z  (R10), K1, X3
	VPMOVZXBD   X3, Z3
	VPSRLQ      $32, Z1, Z2
	VPSLLQ      $32, Z3, Z4
	VPSRLQ      $32, Z4, Z4
	VPSRLQ      $32, Z3, Z5
	VPSLLVQ     Z4, Z16, Z6
	VPSLLVQ     Z5, Z16, Z7
	VPADDQ      Z17, Z6, Z8
	VPADDQ      Z17, Z7, Z9
	VPSRLQ      $1, Z6, Z6
	VPSRLQ      $1, Z7, Z7
	MOVQ        reqArgs_rows(AX), BX
	MOVQ        DI, R13
	MOVQ        SI, R14

row:
	VMOVDQU32.Z (R14), K1, Z10
	VPADDD      Z0, Z10, Z10
	VPSRLQ      $32, Z10, Z11
	VPMULDQ     Z1, Z10, Z10
	VPMULDQ     Z2, Z11, Z11
	VPADDQ      Z6, Z10, Z10
	VPADDQ      Z7, Z11, Z11
	ROUND(Z8, Z9, Z4, Z5)
	JOIN(R13)
	ADDQ        R11, R13
	ADDQ        R12, R14
	DECQ        BX
	JNZ         row

	ADDQ $16, DI
	ADDQ $64, SI
	ADDQ reqArgs_biasStep(AX), R8
	ADDQ reqArgs_multStep(AX), R9
	ADDQ reqArgs_shiftStep(AX), R10
	SUBQ $16, DX
	JG   block
	VZEROUPPER
	RET

// func add512(dst, a, b *byte, n int, p *addArgs), addPortable.
TEXT ·add512(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         b+16(FP), BX
	MOVQ         n+24(FP), DX
	MOVQ         p+32(FP), AX
	VPBROADCASTD addArgs_ma(AX), Z0
	VPBROADCASTD addArgs_mb(AX), Z1
	VPBROADCASTD addArgs_offset(AX), Z2
	VPBROADCASTD addArgs_shift(AX), Z3
	VPBROADCASTD addArgs_low(AX), Z4
	VPBROADCASTD addArgs_zy(AX), Z5
	VPBROADCASTD addArgs_lo(AX), Z6
	VPBROADCASTD addArgs_hi(AX), Z7
	VPTERNLOGD   $0xFF, Z12, Z12, Z12
	VPADDD       Z12, Z12, Z12

loop:
	TAIL16(DX)
	VPMOVZXBD.Z (SI), K1, Z10
	VPMOVZXBD.Z (BX), K1, Z11
	VPMULLD     Z0, Z10, Z10
	VPMULLD     Z1, Z11, Z11
	VPADDD      Z2, Z10, Z10
	VPADDD      Z11, Z10, Z10
	VPTESTNMD   Z4, Z10, K2
	VPSRAVD     Z3, Z10, Z10
	VPANDD      Z12, Z10, K2, Z10
	VPADDD      Z5, Z10, Z10
	VPMAXSD     Z6, Z10, Z10
	VPMINSD     Z7, Z10, Z10
	VPMOVDB     Z10, X10
	VMOVDQU8    X10, K1, (DI)
	ADDQ        $16, DI
	ADDQ        $16, SI
	ADDQ        $16, BX
	SUBQ        $16, DX
	JG          loop
	VZEROUPPER
	RET

// func mul512(dst, a, b *byte, n int, p *mulArgs), mulPortable.
TEXT ·mul512(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         b+16(FP), BX
	MOVQ         n+24(FP), DX
	MOVQ         p+32(FP), AX
	VPBROADCASTD mulArgs_za(AX), Z0
	VPBROADCASTD mulArgs_zb(AX), Z1
	VPBROADCASTQ mulArgs_m(AX), Z2
	VPBROADCASTQ mulArgs_shift(AX), Z4
	VPBROADCASTQ mulArgs_half(AX), Z6
	VPBROADCASTQ mulArgs_low(AX), Z8
	VPBROADCASTQ mulArgs_zy(AX), Z13
	VPBROADCASTQ mulArgs_lo(AX), Z14
	VPBROADCASTQ mulArgs_hi(AX), Z15
	NOTONE

loop:
	TAIL16(DX)
	VPMOVZXBD.Z (SI), K1, Z10
	VPMOVZXBD.Z (BX), K1, Z11
	VPSUBD      Z0, Z10, Z10
	VPSUBD      Z1, Z11, Z11
	VPMULLD     Z11, Z10, Z10
	VPSRLQ      $32, Z10, Z11
	VPMULDQ     Z2, Z10, Z10
	VPMULDQ     Z2, Z11, Z11
	VPADDQ      Z6, Z10, Z10
	VPADDQ      Z6, Z11, Z11
	ROUND(Z8, Z8, Z4, Z4)
	JOIN(DI)
	ADDQ        $16, DI
	ADDQ        $16, SI
	ADDQ        $16, BX
	SUBQ        $16, DX
	JG          loop
	VZEROUPPER
	RET

// K1 = the first min(N, 64) bytes; clobbers CX and R15.
#define TAIL64(N) \
	MOVQ    $64, CX;      \
	CMPQ    N, CX;        \
	CMOVQLT N, CX;        \
	MOVQ    $-1, R15;     \
	BZHIQ   CX, R15, R15; \
	KMOVQ   R15, K1

// func lut512(dst, src *byte, n int, t *[256]byte), lutPortable: the table is
// four registers, each half of it one two-register permutation by the low seven
// bits, and the top bit chooses.
TEXT ·lut512(SB), NOSPLIT, $0-32
	MOVQ      dst+0(FP), DI
	MOVQ      src+8(FP), SI
	MOVQ      n+16(FP), DX
	MOVQ      t+24(FP), AX
	VMOVDQU64 (AX), Z0
	VMOVDQU64 64(AX), Z1
	VMOVDQU64 128(AX), Z2
	VMOVDQU64 192(AX), Z3

loop:
	TAIL64(DX)
	VMOVDQU8.Z (SI), K1, Z4
	VMOVDQA64  Z4, Z5
	VPMOVB2M   Z4, K2
	VPERMI2B   Z1, Z0, Z4
	VPERMI2B   Z3, Z2, Z5
	VMOVDQU8   Z5, K2, Z4
	VMOVDQU8   Z4, K1, (DI)
	ADDQ       $64, DI
	ADDQ       $64, SI
	SUBQ       $64, DX
	JG         loop
	VZEROUPPER
	RET

// func max512(dst, src *byte, n int), maxPortable.
TEXT ·max512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX

loop:
	TAIL64(DX)
	VMOVDQU8.Z (SI), K1, Z0
	VMOVDQU8.Z (DI), K1, Z1
	VPMAXUB    Z1, Z0, Z0
	VMOVDQU8   Z0, K1, (DI)
	ADDQ       $64, DI
	ADDQ       $64, SI
	SUBQ       $64, DX
	JG         loop
	VZEROUPPER
	RET

// func sum512(acc *int32, src *byte, n int), sumPortable.
TEXT ·sum512(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX

loop:
	TAIL16(DX)
	VPMOVZXBD.Z (SI), K1, Z0
	VMOVDQU32.Z (DI), K1, Z1
	VPADDD      Z1, Z0, Z0
	VMOVDQU32   Z0, K1, (DI)
	ADDQ        $64, DI
	ADDQ        $16, SI
	SUBQ        $16, DX
	JG          loop
	VZEROUPPER
	RET

// func quantise512(dst *byte, src *float32, n int, scale float32, zp int32),
// quantisePortable. Quotients are limited to ±1024 before they become integers,
// which any zero point then clamps; NaN lanes become 0.
TEXT ·quantise512(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), DX
	VBROADCASTSS scale+24(FP), Z0
	MOVL         zp+28(FP), AX
	VPBROADCASTD AX, Z1
	MOVL         $0x44800000, AX  // 1024
	VPBROADCASTD AX, Z2
	MOVL         $0xC4800000, AX  // -1024
	VPBROADCASTD AX, Z3
	MOVL         $255, AX
	VPBROADCASTD AX, Z4
	VPXORD       Z5, Z5, Z5

loop:
	TAIL16(DX)
	VMOVDQU32.Z  (SI), K1, Z10
	VDIVPS       Z0, Z10, Z10
	VCMPPS       $7, Z10, Z10, K2   // ordered: not NaN
	VMINPS.Z     Z2, Z10, K2, Z10
	VMAXPS       Z3, Z10, Z10
	VRNDSCALEPS  $0, Z10, Z10       // to nearest even
	VCVTTPS2DQ   Z10, Z10
	VPADDD       Z1, Z10, Z10
	VPMAXSD      Z5, Z10, Z10
	VPMINSD      Z4, Z10, Z10
	VPMOVDB      Z10, X10
	VMOVDQU8     X10, K1, (DI)
	ADDQ         $16, DI
	ADDQ         $64, SI
	SUBQ         $16, DX
	JG           loop
	VZEROUPPER
	RET
