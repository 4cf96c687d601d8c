#include "textflag.h"
#include "go_asm.h"

// Vector kernels for AVX2. They take whole vectors only (the caller computes
// the tail in Go): 8 channels or elements, max256 32. Each comment names the Go
// function the kernel equals.

// Stores the eight 32-bit lanes of Y, each 0..255, as 8 bytes at DST; X is the
// low half of Y. Clobbers X13.
#define STORE8(Y, X, DST) \
	VEXTRACTI128 $1, Y, X13;  \
	VPACKUSDW    X13, X, X;   \
	VPACKUSWB    X, X, X;     \
	VMOVQ        X, DST

// Multiplies, rounds and clamps the even lanes of V. There is no arithmetic
// shift of 64-bit lanes, so HALF also adds 2^63, which makes the logical shift
// by S right, and ADD takes 2^(63−Shift) back as it adds the zero point.
// A sum whose LOW bits are all 0 was a tie and loses the last bit.
#define SCALE(V, M, HALF, LOW, S, ADD) \
	VPMULDQ   M, V, V;           \
	VPADDQ    HALF, V, V;        \
	VPANDN    LOW, V, Y13;       \
	VPCMPEQQ  LOW, Y13, Y13;     \
	VPSRLQ    $63, Y13, Y13;     \
	VPSRLVQ   S, V, V;           \
	VPANDN    V, Y13, V;         \
	VPADDQ    ADD, V, V;         \
	VPCMPGTQ  V, Y14, Y13;       \
	VPBLENDVB Y13, Y14, V, V;    \
	VPCMPGTQ  Y15, V, Y13;       \
	VPBLENDVB Y13, Y15, V, V

// Derives HALF, LOW and ADD of SCALE from the shifts S; clobbers Y12, Y13.
#define SHIFTS(S, HALF, LOW, ADD) \
	VPCMPEQQ Y13, Y13, Y13;        \
	VPSRLQ   $63, Y13, Y12;        \
	VPSLLVQ  S, Y12, HALF;         \
	VPADDQ   Y13, HALF, LOW;       \
	VPSRLQ   $1, HALF, HALF;       \
	VPSLLQ   $63, Y13, Y13;        \
	VPADDQ   Y13, HALF, HALF;      \
	VPSRLVQ  S, Y13, Y13;          \
	VPBROADCASTQ reqArgs_zp(AX), ADD; \
	VPSUBQ   Y13, ADD, ADD

// SCALE32 multiplies and rounds the even lanes of V by a shift of 32 or more, for
// which the result fits 32 bits: it adds one half less one unit, and another unit
// where the last bit that stays is 1. HALF also adds 2^63, as above; the result has
// to be moved right by DOWN, which is S, or S−32 to leave it in the odd lane.
#define SCALE32(V, T, M, HALF, S, DOWN) \
	VPMULDQ M, V, V;    \
	VPSRLVQ S, V, T;    \
	VPAND   Y7, T, T;   \
	VPADDQ  HALF, V, V; \
	VPADDQ  T, V, V;    \
	VPSRLVQ DOWN, V, V

// func requantise256(p *reqArgs), requantisePortable. Even lanes: multiplier,
// shift, half, low bits and addend in Y1, Y3, Y5, Y7, Y9; odd lanes in the
// registers behind. Eight channels with shifts of 32 and more take the loop row32,
// where Y7 is 1 in every lane, Y8 the shift of the odd ones less 32 and Y9 the
// addend of all.
TEXT ·requantise256(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	MOVQ reqArgs_dst(AX), DI
	MOVQ reqArgs_acc(AX), SI
	MOVQ reqArgs_cols(AX), DX
	MOVQ reqArgs_bias(AX), R8
	MOVQ reqArgs_mult(AX), R9
	MOVQ reqArgs_shift(AX), R10
	MOVQ reqArgs_dstStride(AX), R11
	MOVQ reqArgs_accStride(AX), R12

block:
	VMOVDQU   (R8), Y0
	VMOVDQU   (R9), Y1
	VPMOVZXBD (R10), Y4
	VPCMPEQD  Y13, Y13, Y13
	VPSRLD    $27, Y13, Y13
	VPCMPGTD  Y13, Y4, Y13
	VPMOVMSKB Y13, CX
	VPSRLQ    $32, Y1, Y2
	VPSLLQ    $32, Y4, Y3
	VPSRLQ    $32, Y3, Y3
	VPSRLQ    $32, Y4, Y4
	SHIFTS(Y3, Y5, Y7, Y9)
	SHIFTS(Y4, Y6, Y8, Y10)
	MOVQ      reqArgs_rows(AX), BX
	MOVQ      DI, R13
	MOVQ      SI, R15
	CMPL      CX, $-1
	JEQ       high
	VPBROADCASTQ reqArgs_lo(AX), Y14
	VPBROADCASTQ reqArgs_hi(AX), Y15

row:
	VPADDD (R15), Y0, Y11
	VPSRLQ $32, Y11, Y12
	SCALE(Y11, Y1, Y5, Y7, Y3, Y9)
	SCALE(Y12, Y2, Y6, Y8, Y4, Y10)
	VPSLLQ $32, Y12, Y12
	VPOR   Y12, Y11, Y11
	STORE8(Y11, X11, (R13))
	ADDQ   R11, R13
	ADDQ   R12, R15
	DECQ   BX
	JNZ    row
	JMP    next

high:
	VPCMPEQQ Y13, Y13, Y13
	VPADDQ   Y13, Y5, Y5
	VPADDQ   Y13, Y6, Y6
	VPSRLQ   $63, Y13, Y7
	VPSLLQ   $5, Y7, Y8
	VPSUBQ   Y8, Y4, Y8
	VPSLLQ   $32, Y10, Y10
	VPBLENDD $0xaa, Y10, Y9, Y9
	VPBROADCASTD reqArgs_lo(AX), Y14
	VPBROADCASTD reqArgs_hi(AX), Y15

row32:
	VPADDD   (R15), Y0, Y11
	VPSRLQ   $32, Y11, Y12
	SCALE32(Y11, Y13, Y1, Y5, Y3, Y3)
	SCALE32(Y12, Y10, Y2, Y6, Y4, Y8)
	VPBLENDD $0xaa, Y12, Y11, Y11
	VPADDD   Y9, Y11, Y11
	VPMAXSD  Y14, Y11, Y11
	VPMINSD  Y15, Y11, Y11
	STORE8(Y11, X11, (R13))
	ADDQ     R11, R13
	ADDQ     R12, R15
	DECQ     BX
	JNZ      row32

next:
	ADDQ $8, DI
	ADDQ $32, SI
	ADDQ reqArgs_biasStep(AX), R8
	ADDQ reqArgs_multStep(AX), R9
	ADDQ reqArgs_shiftStep(AX), R10
	SUBQ $8, DX
	JG   block
	VZEROUPPER
	RET

// func add256(dst, a, b *byte, n int, p *addArgs), addPortable.
TEXT ·add256(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         b+16(FP), BX
	MOVQ         n+24(FP), DX
	MOVQ         p+32(FP), AX
	VPBROADCASTD addArgs_ma(AX), Y0
	VPBROADCASTD addArgs_mb(AX), Y1
	VPBROADCASTD addArgs_offset(AX), Y2
	VMOVD        addArgs_shift(AX), X3
	VPBROADCASTD addArgs_low(AX), Y4
	VPBROADCASTD addArgs_zy(AX), Y5
	VPBROADCASTD addArgs_lo(AX), Y6
	VPBROADCASTD addArgs_hi(AX), Y7

loop:
	VPMOVZXBD (SI), Y10
	VPMOVZXBD (BX), Y11
	VPMULLD   Y0, Y10, Y10
	VPMULLD   Y1, Y11, Y11
	VPADDD    Y2, Y10, Y10
	VPADDD    Y11, Y10, Y10
	VPANDN    Y4, Y10, Y11       // all low bits where the sum was a tie
	VPCMPEQD  Y4, Y11, Y11
	VPSRLD    $31, Y11, Y11
	VPSRAD    X3, Y10, Y10
	VPANDN    Y10, Y11, Y10
	VPADDD    Y5, Y10, Y10
	VPMAXSD   Y6, Y10, Y10
	VPMINSD   Y7, Y10, Y10
	STORE8(Y10, X10, (DI))
	ADDQ      $8, DI
	ADDQ      $8, SI
	ADDQ      $8, BX
	SUBQ      $8, DX
	JG        loop
	VZEROUPPER
	RET

// func max256(dst, src *byte, n int), maxPortable.
TEXT ·max256(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX

loop:
	VMOVDQU (SI), Y0
	VPMAXUB (DI), Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	SUBQ    $32, DX
	JG      loop
	VZEROUPPER
	RET

// func sum256(acc *int32, src *byte, n int), sumPortable.
TEXT ·sum256(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX

loop:
	VPMOVZXBD (SI), Y0
	VPADDD    (DI), Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $32, DI
	ADDQ      $8, SI
	SUBQ      $8, DX
	JG        loop
	VZEROUPPER
	RET

// func depthwise256(p *dwArgs), depthwisePortable for p.channels channels, a
// multiple of 8.
TEXT ·depthwise256(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	MOVQ dwArgs_acc(AX), DI
	MOVQ dwArgs_rows(AX), SI
	MOVQ dwArgs_nrows(AX), CX
	MOVQ dwArgs_wStride(AX), BX

row:
	MOVLQSX (SI), R9
	ADDQ    dwArgs_a(AX), R9
	MOVQ    dwArgs_w(AX), R8
	MOVQ    DI, R14
	MOVQ    dwArgs_channels(AX), R13

block:
	VPXOR Y0, Y0, Y0
	MOVQ  dwArgs_taps(AX), R10
	MOVQ  dwArgs_live(AX), R12
	MOVQ  R8, R15

tap:
	MOVLQSX   (R10), R11
	VPMOVZXBD (R9)(R11*1), Y1
	VPMOVSXBD (R15), Y2
	VPMULLD   Y2, Y1, Y1
	VPADDD    Y1, Y0, Y0
	ADDQ      $4, R10
	ADDQ      BX, R15
	DECQ      R12
	JNZ       tap

	VMOVDQU Y0, (R14)
	ADDQ    $32, R14
	ADDQ    $8, R8
	ADDQ    $8, R9
	SUBQ    $8, R13
	JG      block
	ADDQ    dwArgs_accStride(AX), DI
	ADDQ    $4, SI
	DECQ    CX
	JNZ     row
	VZEROUPPER
	RET
