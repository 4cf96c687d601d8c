#include "textflag.h"
#include "go_asm.h"

// Depthwise convolution of 64 channels for AVX-512 VNNI. VPDPBUSD sums four
// bytes that lie together, so four taps are interleaved byte by byte, weights
// once a call and activations once a pixel.

// INTERLEAVE turns 64 channels of four taps, Z0..Z3, into Z4..Z7 whose 32-bit
// lanes hold the four taps of one channel. The 128-bit lane L of Z(4+i) holds
// channels 16L+4i to 16L+4i+3.
#define INTERLEAVE \
	VPUNPCKLBW Z1, Z0, Z8;   \
	VPUNPCKHBW Z1, Z0, Z9;   \
	VPUNPCKLBW Z3, Z2, Z10;  \
	VPUNPCKHBW Z3, Z2, Z11;  \
	VPUNPCKLWD Z10, Z8, Z4;  \
	VPUNPCKHWD Z10, Z8, Z5;  \
	VPUNPCKLWD Z11, Z9, Z6;  \
	VPUNPCKHWD Z11, Z9, Z7

// LOADTAP loads the channels of the tap whose offset is at OFF(R10).
#define LOADTAP(OFF, DST) \
	MOVLQSX    OFF(R10), R11; \
	VMOVDQU8.Z (R9)(R11*1), K1, DST

// func depthwise512(p *dwArgs). The frame holds the interleaved weights of
// dwTaps taps, 64 bytes each, and room to align them.
TEXT ·depthwise512(SB), 0, $4160-8
	MOVQ  p+0(FP), AX
	LEAQ  buf-4160(SP), R13
	ADDQ  $63, R13
	ANDQ  $~63, R13
	MOVQ  dwArgs_mask(AX), DX
	KMOVQ DX, K1

	// Interleave the weights; taps that do not exist get zero.
	MOVQ dwArgs_w(AX), SI
	MOVQ dwArgs_wStride(AX), BX
	MOVQ dwArgs_live(AX), CX
	MOVQ R13, DI

weights:
	KMOVQ      K1, K2
	KMOVQ      K1, K3
	KMOVQ      K1, K4
	CMPQ       CX, $4
	JGE        four
	KXORQ      K4, K4, K4
	CMPQ       CX, $3
	JGE        four
	KXORQ      K3, K3, K3
	CMPQ       CX, $2
	JGE        four
	KXORQ      K2, K2, K2

four:
	VMOVDQU8.Z (SI), K1, Z0
	ADDQ       BX, SI
	VMOVDQU8.Z (SI), K2, Z1
	ADDQ       BX, SI
	VMOVDQU8.Z (SI), K3, Z2
	ADDQ       BX, SI
	VMOVDQU8.Z (SI), K4, Z3
	ADDQ       BX, SI
	INTERLEAVE
	VMOVDQA64  Z4, (DI)
	VMOVDQA64  Z5, 64(DI)
	VMOVDQA64  Z6, 128(DI)
	VMOVDQA64  Z7, 192(DI)
	ADDQ       $256, DI
	SUBQ       $4, CX
	JG         weights
	MOVQ       DI, R14              // end of the weights

	// K2..K5: which of each 16 channels exist. R8: not 0 to add to acc.
	MOVQ  dwArgs_acc(AX), DI
	MOVQ  dwArgs_accStride(AX), BX
	MOVQ  dwArgs_rows(AX), SI
	MOVQ  dwArgs_nrows(AX), CX
	KMOVW DX, K2
	SHRQ  $16, DX
	KMOVW DX, K3
	SHRQ  $16, DX
	KMOVW DX, K4
	SHRQ  $16, DX
	KMOVW DX, K5
	MOVQ  dwArgs_accumulate(AX), R8

row:
	MOVLQSX (SI), R9
	ADDQ    dwArgs_a(AX), R9
	MOVQ    dwArgs_taps(AX), R10
	MOVQ    R13, R12
	VPXORD  Z12, Z12, Z12
	VPXORD  Z13, Z13, Z13
	VPXORD  Z14, Z14, Z14
	VPXORD  Z15, Z15, Z15

taps:
	LOADTAP(0, Z0)
	LOADTAP(4, Z1)
	LOADTAP(8, Z2)
	LOADTAP(12, Z3)
	INTERLEAVE
	VPDPBUSD (R12), Z4, Z12
	VPDPBUSD 64(R12), Z5, Z13
	VPDPBUSD 128(R12), Z6, Z14
	VPDPBUSD 192(R12), Z7, Z15
	ADDQ     $16, R10
	ADDQ     $256, R12
	CMPQ     R12, R14
	JLT      taps

	// Bring the channels in order: a 4×4 transposition of 128-bit lanes.
	VSHUFI32X4 $0x44, Z13, Z12, Z4
	VSHUFI32X4 $0xEE, Z13, Z12, Z5
	VSHUFI32X4 $0x44, Z15, Z14, Z6
	VSHUFI32X4 $0xEE, Z15, Z14, Z7
	VSHUFI32X4 $0x88, Z6, Z4, Z8
	VSHUFI32X4 $0xDD, Z6, Z4, Z9
	VSHUFI32X4 $0x88, Z7, Z5, Z10
	VSHUFI32X4 $0xDD, Z7, Z5, Z11
	TESTQ      R8, R8
	JZ         store
	VMOVDQU32.Z (DI), K2, Z0
	VMOVDQU32.Z 64(DI), K3, Z1
	VMOVDQU32.Z 128(DI), K4, Z2
	VMOVDQU32.Z 192(DI), K5, Z3
	VPADDD     Z0, Z8, Z8
	VPADDD     Z1, Z9, Z9
	VPADDD     Z2, Z10, Z10
	VPADDD     Z3, Z11, Z11

store:
	VMOVDQU32 Z8, K2, (DI)
	VMOVDQU32 Z9, K3, 64(DI)
	VMOVDQU32 Z10, K4, 128(DI)
	VMOVDQU32 Z11, K5, 192(DI)
	ADDQ      BX, DI
	ADDQ      $4, SI
	DECQ      CX
	JNZ       row
	VZEROUPPER
	RET
