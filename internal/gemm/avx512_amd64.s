#include "textflag.h"
#include "go_asm.h"

// Micro-kernels for AVX-512: R rows (1..6) by W×16 columns (1..4), for
//	VPDPBUSD     u8 × s8 → s32, one K step is 4 bytes
//	VFMADD231PS  f32, one K step is one float
// Both broadcast 4 bytes of each row, load W vectors of the panel, and keep
// R×W accumulators in registers over all segments. See type tile.
//
// Registers: AX tile, R8..R13 start of each row, BX..DX segment list,
// SI byte offset of the K step from the row's start, R15 its end,
// DI panel cursor, CX panel stride.
// Row r accumulates in Z(4r)..Z(4r+3); Z24..Z27 hold the panel, Z28 the row.
// K1: lanes of the last vector that exist; K2: all lanes when accumulating,
// else none; K3 = K1 & K2.

#define ROWPTR(OFF, SH, R) \
	MOVLQSX OFF(BX), R; \
	SHLQ    $SH, R;     \
	ADDQ    SI, R

#define ROWS1(SH) ROWPTR(0, SH, R8)
#define ROWS2(SH) ROWS1(SH); ROWPTR(4, SH, R9)
#define ROWS3(SH) ROWS2(SH); ROWPTR(8, SH, R10)
#define ROWS4(SH) ROWS3(SH); ROWPTR(12, SH, R11)
#define ROWS5(SH) ROWS4(SH); ROWPTR(16, SH, R12)
#define ROWS6(SH) ROWS5(SH); ROWPTR(20, SH, R13)

// 16 columns.
#define PANEL1 \
	VMOVDQU32 (DI), Z24
#define MAC1(OP, R, A) \
	VPBROADCASTD (R)(SI*1), Z28; \
	OP           Z24, Z28, A
#define INIT1(A) \
	VMOVDQU32.Z (SI), K3, A; \
	ADDQ        R15, SI
#define STORE1(A) \
	VMOVDQU32 A, K1, (SI); \
	ADDQ      R15, SI
#define MACS1x1(OP) PANEL1; MAC1(OP, R8, Z0)
#define MACS2x1(OP) MACS1x1(OP); MAC1(OP, R9, Z4)
#define MACS3x1(OP) MACS2x1(OP); MAC1(OP, R10, Z8)
#define MACS4x1(OP) MACS3x1(OP); MAC1(OP, R11, Z12)
#define MACS5x1(OP) MACS4x1(OP); MAC1(OP, R12, Z16)
#define MACS6x1(OP) MACS5x1(OP); MAC1(OP, R13, Z20)
#define INIT1x1 INIT1(Z0)
#define INIT2x1 INIT1x1; INIT1(Z4)
#define INIT3x1 INIT2x1; INIT1(Z8)
#define INIT4x1 INIT3x1; INIT1(Z12)
#define INIT5x1 INIT4x1; INIT1(Z16)
#define INIT6x1 INIT5x1; INIT1(Z20)
#define STORE1x1 STORE1(Z0)
#define STORE2x1 STORE1x1; STORE1(Z4)
#define STORE3x1 STORE2x1; STORE1(Z8)
#define STORE4x1 STORE3x1; STORE1(Z12)
#define STORE5x1 STORE4x1; STORE1(Z16)
#define STORE6x1 STORE5x1; STORE1(Z20)

// 32 columns.
#define PANEL2 \
	VMOVDQU32 (DI), Z24; \
	VMOVDQU32 64(DI), Z25
#define MAC2(OP, R, A, B) \
	VPBROADCASTD (R)(SI*1), Z28; \
	OP           Z24, Z28, A; \
	OP           Z25, Z28, B
#define INIT2(A, B) \
	VMOVDQU32.Z (SI), K2, A; \
	VMOVDQU32.Z 64(SI), K3, B; \
	ADDQ        R15, SI
#define STORE2(A, B) \
	VMOVDQU32 A, (SI); \
	VMOVDQU32 B, K1, 64(SI); \
	ADDQ      R15, SI
#define MACS1x2(OP) PANEL2; MAC2(OP, R8, Z0, Z1)
#define MACS2x2(OP) MACS1x2(OP); MAC2(OP, R9, Z4, Z5)
#define MACS3x2(OP) MACS2x2(OP); MAC2(OP, R10, Z8, Z9)
#define MACS4x2(OP) MACS3x2(OP); MAC2(OP, R11, Z12, Z13)
#define MACS5x2(OP) MACS4x2(OP); MAC2(OP, R12, Z16, Z17)
#define MACS6x2(OP) MACS5x2(OP); MAC2(OP, R13, Z20, Z21)
#define INIT1x2 INIT2(Z0, Z1)
#define INIT2x2 INIT1x2; INIT2(Z4, Z5)
#define INIT3x2 INIT2x2; INIT2(Z8, Z9)
#define INIT4x2 INIT3x2; INIT2(Z12, Z13)
#define INIT5x2 INIT4x2; INIT2(Z16, Z17)
#define INIT6x2 INIT5x2; INIT2(Z20, Z21)
#define STORE1x2 STORE2(Z0, Z1)
#define STORE2x2 STORE1x2; STORE2(Z4, Z5)
#define STORE3x2 STORE2x2; STORE2(Z8, Z9)
#define STORE4x2 STORE3x2; STORE2(Z12, Z13)
#define STORE5x2 STORE4x2; STORE2(Z16, Z17)
#define STORE6x2 STORE5x2; STORE2(Z20, Z21)

// 48 columns.
#define PANEL3 \
	VMOVDQU32 (DI), Z24; \
	VMOVDQU32 64(DI), Z25; \
	VMOVDQU32 128(DI), Z26
#define MAC3(OP, R, A, B, C) \
	VPBROADCASTD (R)(SI*1), Z28; \
	OP           Z24, Z28, A; \
	OP           Z25, Z28, B; \
	OP           Z26, Z28, C
#define INIT3(A, B, C) \
	VMOVDQU32.Z (SI), K2, A; \
	VMOVDQU32.Z 64(SI), K2, B; \
	VMOVDQU32.Z 128(SI), K3, C; \
	ADDQ        R15, SI
#define STORE3(A, B, C) \
	VMOVDQU32 A, (SI); \
	VMOVDQU32 B, 64(SI); \
	VMOVDQU32 C, K1, 128(SI); \
	ADDQ      R15, SI
#define MACS1x3(OP) PANEL3; MAC3(OP, R8, Z0, Z1, Z2)
#define MACS2x3(OP) MACS1x3(OP); MAC3(OP, R9, Z4, Z5, Z6)
#define MACS3x3(OP) MACS2x3(OP); MAC3(OP, R10, Z8, Z9, Z10)
#define MACS4x3(OP) MACS3x3(OP); MAC3(OP, R11, Z12, Z13, Z14)
#define MACS5x3(OP) MACS4x3(OP); MAC3(OP, R12, Z16, Z17, Z18)
#define MACS6x3(OP) MACS5x3(OP); MAC3(OP, R13, Z20, Z21, Z22)
#define INIT1x3 INIT3(Z0, Z1, Z2)
#define INIT2x3 INIT1x3; INIT3(Z4, Z5, Z6)
#define INIT3x3 INIT2x3; INIT3(Z8, Z9, Z10)
#define INIT4x3 INIT3x3; INIT3(Z12, Z13, Z14)
#define INIT5x3 INIT4x3; INIT3(Z16, Z17, Z18)
#define INIT6x3 INIT5x3; INIT3(Z20, Z21, Z22)
#define STORE1x3 STORE3(Z0, Z1, Z2)
#define STORE2x3 STORE1x3; STORE3(Z4, Z5, Z6)
#define STORE3x3 STORE2x3; STORE3(Z8, Z9, Z10)
#define STORE4x3 STORE3x3; STORE3(Z12, Z13, Z14)
#define STORE5x3 STORE4x3; STORE3(Z16, Z17, Z18)
#define STORE6x3 STORE5x3; STORE3(Z20, Z21, Z22)

// 64 columns.
#define PANEL4 \
	VMOVDQU32 (DI), Z24; \
	VMOVDQU32 64(DI), Z25; \
	VMOVDQU32 128(DI), Z26; \
	VMOVDQU32 192(DI), Z27
#define MAC4(OP, R, A, B, C, D) \
	VPBROADCASTD (R)(SI*1), Z28; \
	OP           Z24, Z28, A; \
	OP           Z25, Z28, B; \
	OP           Z26, Z28, C; \
	OP           Z27, Z28, D
#define INIT4(A, B, C, D) \
	VMOVDQU32.Z (SI), K2, A; \
	VMOVDQU32.Z 64(SI), K2, B; \
	VMOVDQU32.Z 128(SI), K2, C; \
	VMOVDQU32.Z 192(SI), K3, D; \
	ADDQ        R15, SI
#define STORE4(A, B, C, D) \
	VMOVDQU32 A, (SI); \
	VMOVDQU32 B, 64(SI); \
	VMOVDQU32 C, 128(SI); \
	VMOVDQU32 D, K1, 192(SI); \
	ADDQ      R15, SI
#define MACS1x4(OP) PANEL4; MAC4(OP, R8, Z0, Z1, Z2, Z3)
#define MACS2x4(OP) MACS1x4(OP); MAC4(OP, R9, Z4, Z5, Z6, Z7)
#define MACS3x4(OP) MACS2x4(OP); MAC4(OP, R10, Z8, Z9, Z10, Z11)
#define MACS4x4(OP) MACS3x4(OP); MAC4(OP, R11, Z12, Z13, Z14, Z15)
#define MACS5x4(OP) MACS4x4(OP); MAC4(OP, R12, Z16, Z17, Z18, Z19)
#define MACS6x4(OP) MACS5x4(OP); MAC4(OP, R13, Z20, Z21, Z22, Z23)
#define INIT1x4 INIT4(Z0, Z1, Z2, Z3)
#define INIT2x4 INIT1x4; INIT4(Z4, Z5, Z6, Z7)
#define INIT3x4 INIT2x4; INIT4(Z8, Z9, Z10, Z11)
#define INIT4x4 INIT3x4; INIT4(Z12, Z13, Z14, Z15)
#define INIT5x4 INIT4x4; INIT4(Z16, Z17, Z18, Z19)
#define INIT6x4 INIT5x4; INIT4(Z20, Z21, Z22, Z23)
#define STORE1x4 STORE4(Z0, Z1, Z2, Z3)
#define STORE2x4 STORE1x4; STORE4(Z4, Z5, Z6, Z7)
#define STORE3x4 STORE2x4; STORE4(Z8, Z9, Z10, Z11)
#define STORE4x4 STORE3x4; STORE4(Z12, Z13, Z14, Z15)
#define STORE5x4 STORE4x4; STORE4(Z16, Z17, Z18, Z19)
#define STORE6x4 STORE5x4; STORE4(Z20, Z21, Z22, Z23)

// CROW sets SI to the next row of c and R15 to the distance of rows.
#define CROW \
	MOVQ  tile_ldc(AX), R15; \
	MOVQ  tile_done(AX), SI; \
	IMULQ R15, SI;           \
	ADDQ  tile_c(AX), SI

// KERNEL defines func NAME(t *tile). SH is log2 of the bytes of one element of
// a; R is the number of rows.
#define KERNEL(NAME, OP, SH, R, ROWS, INIT, MACS, STORE) \
TEXT NAME(SB), NOSPLIT, $0-8;                    \
	MOVQ    t+0(FP), AX;                     \
	MOVQ    tile_mask(AX), CX;               \
	KMOVW   CX, K1;                          \
	MOVQ    tile_accumulate(AX), CX;         \
	KMOVW   CX, K2;                          \
	KANDW   K1, K2, K3;                      \
	MOVQ    tile_stride(AX), CX;             \
group:                                           \
	CROW;                                    \
	INIT;                                    \
	MOVQ    tile_done(AX), DX;               \
	MOVQ    tile_rows(AX), BX;               \
	LEAQ    (BX)(DX*4), BX;                  \
	MOVQ    tile_a(AX), SI;                  \
	ROWS(SH);                                \
	MOVQ    tile_panel(AX), DI;              \
	MOVQ    tile_segs(AX), BX;               \
	MOVQ    tile_nsegs(AX), DX;              \
	LEAQ    (BX)(DX*4), DX;                  \
segment:                                         \
	MOVLQSX (BX), SI;                        \
	SHLQ    $SH, SI;                         \
	MOVQ    tile_segBytes(AX), R15;          \
	ADDQ    SI, R15;                         \
step:                                            \
	MACS(OP);                                \
	ADDQ    CX, DI;                          \
	ADDQ    $4, SI;                          \
	CMPQ    SI, R15;                         \
	JLT     step;                            \
	ADDQ    $4, BX;                          \
	CMPQ    BX, DX;                          \
	JLT     segment;                         \
	CROW;                                    \
	STORE;                                   \
	ADDQ    $R, tile_done(AX);               \
	DECQ    tile_groups(AX);                 \
	JNZ     group;                           \
	VZEROUPPER;                              \
	RET

// Tiles of few accumulators wait for the latency of VPDPBUSD. Theirs are
// doubled: odd K steps sum into a second set, added to the first at the end,
// which integers allow and the fixed order of the float sums does not.

#define ADD2(B, A) VPADDD B, A, A
#define CLEAR(A) VPXORD A, A, A
#define MACODD(R, B) \
	VPBROADCASTD 4(R)(SI*1), Z28; \
	VPDPBUSD     Z24, Z28, B

#define ODD1x1 VMOVDQU32 (DI)(CX*1), Z24; MACODD(R8, Z2)
#define CLEAR1x1 CLEAR(Z2)
#define MERGE1x1 ADD2(Z2, Z0)
#define ODD2x1 ODD1x1; MACODD(R9, Z6)
#define CLEAR2x1 CLEAR1x1; CLEAR(Z6)
#define MERGE2x1 MERGE1x1; ADD2(Z6, Z4)
#define ODD3x1 ODD2x1; MACODD(R10, Z10)
#define CLEAR3x1 CLEAR2x1; CLEAR(Z10)
#define MERGE3x1 MERGE2x1; ADD2(Z10, Z8)
#define ODD4x1 ODD3x1; MACODD(R11, Z14)
#define CLEAR4x1 CLEAR3x1; CLEAR(Z14)
#define MERGE4x1 MERGE3x1; ADD2(Z14, Z12)
#define ODD5x1 ODD4x1; MACODD(R12, Z18)
#define CLEAR5x1 CLEAR4x1; CLEAR(Z18)
#define MERGE5x1 MERGE4x1; ADD2(Z18, Z16)
#define ODD6x1 ODD5x1; MACODD(R13, Z22)
#define CLEAR6x1 CLEAR5x1; CLEAR(Z22)
#define MERGE6x1 MERGE5x1; ADD2(Z22, Z20)
#define ODD1x2 \
	VMOVDQU32    (DI)(CX*1), Z24; \
	VMOVDQU32    64(DI)(CX*1), Z25; \
	VPBROADCASTD 4(R8)(SI*1), Z28; \
	VPDPBUSD     Z24, Z28, Z4; \
	VPDPBUSD     Z25, Z28, Z5
#define CLEAR1x2 CLEAR(Z4); CLEAR(Z5)
#define MERGE1x2 ADD2(Z4, Z0); ADD2(Z5, Z1)
#define ODD1x3 \
	VMOVDQU32    (DI)(CX*1), Z24; \
	VMOVDQU32    64(DI)(CX*1), Z25; \
	VMOVDQU32    128(DI)(CX*1), Z26; \
	VPBROADCASTD 4(R8)(SI*1), Z28; \
	VPDPBUSD     Z24, Z28, Z4; \
	VPDPBUSD     Z25, Z28, Z5; \
	VPDPBUSD     Z26, Z28, Z6
#define CLEAR1x3 CLEAR(Z4); CLEAR(Z5); CLEAR(Z6)
#define MERGE1x3 ADD2(Z4, Z0); ADD2(Z5, Z1); ADD2(Z6, Z2)
#define ODD1x4 \
	VMOVDQU32    (DI)(CX*1), Z24; \
	VMOVDQU32    64(DI)(CX*1), Z25; \
	VMOVDQU32    128(DI)(CX*1), Z26; \
	VMOVDQU32    192(DI)(CX*1), Z27; \
	VPBROADCASTD 4(R8)(SI*1), Z28; \
	VPDPBUSD     Z24, Z28, Z4; \
	VPDPBUSD     Z25, Z28, Z5; \
	VPDPBUSD     Z26, Z28, Z6; \
	VPDPBUSD     Z27, Z28, Z7
#define CLEAR1x4 CLEAR(Z4); CLEAR(Z5); CLEAR(Z6); CLEAR(Z7)
#define MERGE1x4 ADD2(Z4, Z0); ADD2(Z5, Z1); ADD2(Z6, Z2); ADD2(Z7, Z3)

// KERNEL2 is KERNEL for VPDPBUSD with two sets of accumulators.
#define KERNEL2(NAME, R, ROWS, INIT, CLEAR2, MACS, ODD, MERGE, STORE) \
TEXT NAME(SB), NOSPLIT, $0-8;                    \
	MOVQ    t+0(FP), AX;                     \
	MOVQ    tile_mask(AX), CX;               \
	KMOVW   CX, K1;                          \
	MOVQ    tile_accumulate(AX), CX;         \
	KMOVW   CX, K2;                          \
	KANDW   K1, K2, K3;                      \
	MOVQ    tile_stride(AX), CX;             \
group:                                           \
	CROW;                                    \
	INIT;                                    \
	CLEAR2;                                  \
	MOVQ    tile_done(AX), DX;               \
	MOVQ    tile_rows(AX), BX;               \
	LEAQ    (BX)(DX*4), BX;                  \
	MOVQ    tile_a(AX), SI;                  \
	ROWS(0);                                 \
	MOVQ    tile_panel(AX), DI;              \
	MOVQ    tile_segs(AX), BX;               \
	MOVQ    tile_nsegs(AX), DX;              \
	LEAQ    (BX)(DX*4), DX;                  \
segment:                                         \
	MOVLQSX (BX), SI;                        \
	MOVQ    tile_segBytes(AX), R15;          \
	LEAQ    -4(SI)(R15*1), R15;              \
	CMPQ    SI, R15;                         \
	JGE     last;                            \
pair:                                            \
	MACS(VPDPBUSD);                          \
	ODD;                                     \
	LEAQ    (DI)(CX*2), DI;                  \
	ADDQ    $8, SI;                          \
	CMPQ    SI, R15;                         \
	JLT     pair;                            \
	JGT     next;                            \
last:                                            \
	MACS(VPDPBUSD);                          \
	ADDQ    CX, DI;                          \
next:                                            \
	ADDQ    $4, BX;                          \
	CMPQ    BX, DX;                          \
	JLT     segment;                         \
	MERGE;                                   \
	CROW;                                    \
	STORE;                                   \
	ADDQ    $R, tile_done(AX);               \
	DECQ    tile_groups(AX);                 \
	JNZ     group;                           \
	VZEROUPPER;                              \
	RET

KERNEL2(·vnni1x1, 1, ROWS1, INIT1x1, CLEAR1x1, MACS1x1, ODD1x1, MERGE1x1, STORE1x1)
KERNEL2(·vnni2x1, 2, ROWS2, INIT2x1, CLEAR2x1, MACS2x1, ODD2x1, MERGE2x1, STORE2x1)
KERNEL2(·vnni3x1, 3, ROWS3, INIT3x1, CLEAR3x1, MACS3x1, ODD3x1, MERGE3x1, STORE3x1)
KERNEL2(·vnni4x1, 4, ROWS4, INIT4x1, CLEAR4x1, MACS4x1, ODD4x1, MERGE4x1, STORE4x1)
KERNEL2(·vnni5x1, 5, ROWS5, INIT5x1, CLEAR5x1, MACS5x1, ODD5x1, MERGE5x1, STORE5x1)
KERNEL2(·vnni6x1, 6, ROWS6, INIT6x1, CLEAR6x1, MACS6x1, ODD6x1, MERGE6x1, STORE6x1)
KERNEL2(·vnni1x2, 1, ROWS1, INIT1x2, CLEAR1x2, MACS1x2, ODD1x2, MERGE1x2, STORE1x2)
KERNEL(·vnni2x2, VPDPBUSD, 0, 2, ROWS2, INIT2x2, MACS2x2, STORE2x2)
KERNEL(·vnni3x2, VPDPBUSD, 0, 3, ROWS3, INIT3x2, MACS3x2, STORE3x2)
KERNEL(·vnni4x2, VPDPBUSD, 0, 4, ROWS4, INIT4x2, MACS4x2, STORE4x2)
KERNEL(·vnni5x2, VPDPBUSD, 0, 5, ROWS5, INIT5x2, MACS5x2, STORE5x2)
KERNEL(·vnni6x2, VPDPBUSD, 0, 6, ROWS6, INIT6x2, MACS6x2, STORE6x2)
KERNEL2(·vnni1x3, 1, ROWS1, INIT1x3, CLEAR1x3, MACS1x3, ODD1x3, MERGE1x3, STORE1x3)
KERNEL(·vnni2x3, VPDPBUSD, 0, 2, ROWS2, INIT2x3, MACS2x3, STORE2x3)
KERNEL(·vnni3x3, VPDPBUSD, 0, 3, ROWS3, INIT3x3, MACS3x3, STORE3x3)
KERNEL(·vnni4x3, VPDPBUSD, 0, 4, ROWS4, INIT4x3, MACS4x3, STORE4x3)
KERNEL(·vnni5x3, VPDPBUSD, 0, 5, ROWS5, INIT5x3, MACS5x3, STORE5x3)
KERNEL(·vnni6x3, VPDPBUSD, 0, 6, ROWS6, INIT6x3, MACS6x3, STORE6x3)
KERNEL2(·vnni1x4, 1, ROWS1, INIT1x4, CLEAR1x4, MACS1x4, ODD1x4, MERGE1x4, STORE1x4)
KERNEL(·vnni2x4, VPDPBUSD, 0, 2, ROWS2, INIT2x4, MACS2x4, STORE2x4)
KERNEL(·vnni3x4, VPDPBUSD, 0, 3, ROWS3, INIT3x4, MACS3x4, STORE3x4)
KERNEL(·vnni4x4, VPDPBUSD, 0, 4, ROWS4, INIT4x4, MACS4x4, STORE4x4)
KERNEL(·vnni5x4, VPDPBUSD, 0, 5, ROWS5, INIT5x4, MACS5x4, STORE5x4)
KERNEL(·vnni6x4, VPDPBUSD, 0, 6, ROWS6, INIT6x4, MACS6x4, STORE6x4)

KERNEL(·fma1x1, VFMADD231PS, 2, 1, ROWS1, INIT1x1, MACS1x1, STORE1x1)
KERNEL(·fma2x1, VFMADD231PS, 2, 2, ROWS2, INIT2x1, MACS2x1, STORE2x1)
KERNEL(·fma3x1, VFMADD231PS, 2, 3, ROWS3, INIT3x1, MACS3x1, STORE3x1)
KERNEL(·fma4x1, VFMADD231PS, 2, 4, ROWS4, INIT4x1, MACS4x1, STORE4x1)
KERNEL(·fma5x1, VFMADD231PS, 2, 5, ROWS5, INIT5x1, MACS5x1, STORE5x1)
KERNEL(·fma6x1, VFMADD231PS, 2, 6, ROWS6, INIT6x1, MACS6x1, STORE6x1)
KERNEL(·fma1x2, VFMADD231PS, 2, 1, ROWS1, INIT1x2, MACS1x2, STORE1x2)
KERNEL(·fma2x2, VFMADD231PS, 2, 2, ROWS2, INIT2x2, MACS2x2, STORE2x2)
KERNEL(·fma3x2, VFMADD231PS, 2, 3, ROWS3, INIT3x2, MACS3x2, STORE3x2)
KERNEL(·fma4x2, VFMADD231PS, 2, 4, ROWS4, INIT4x2, MACS4x2, STORE4x2)
KERNEL(·fma5x2, VFMADD231PS, 2, 5, ROWS5, INIT5x2, MACS5x2, STORE5x2)
KERNEL(·fma6x2, VFMADD231PS, 2, 6, ROWS6, INIT6x2, MACS6x2, STORE6x2)
KERNEL(·fma1x3, VFMADD231PS, 2, 1, ROWS1, INIT1x3, MACS1x3, STORE1x3)
KERNEL(·fma2x3, VFMADD231PS, 2, 2, ROWS2, INIT2x3, MACS2x3, STORE2x3)
KERNEL(·fma3x3, VFMADD231PS, 2, 3, ROWS3, INIT3x3, MACS3x3, STORE3x3)
KERNEL(·fma4x3, VFMADD231PS, 2, 4, ROWS4, INIT4x3, MACS4x3, STORE4x3)
KERNEL(·fma5x3, VFMADD231PS, 2, 5, ROWS5, INIT5x3, MACS5x3, STORE5x3)
KERNEL(·fma6x3, VFMADD231PS, 2, 6, ROWS6, INIT6x3, MACS6x3, STORE6x3)
KERNEL(·fma1x4, VFMADD231PS, 2, 1, ROWS1, INIT1x4, MACS1x4, STORE1x4)
KERNEL(·fma2x4, VFMADD231PS, 2, 2, ROWS2, INIT2x4, MACS2x4, STORE2x4)
KERNEL(·fma3x4, VFMADD231PS, 2, 3, ROWS3, INIT3x4, MACS3x4, STORE3x4)
KERNEL(·fma4x4, VFMADD231PS, 2, 4, ROWS4, INIT4x4, MACS4x4, STORE4x4)
KERNEL(·fma5x4, VFMADD231PS, 2, 5, ROWS5, INIT5x4, MACS5x4, STORE5x4)
KERNEL(·fma6x4, VFMADD231PS, 2, 6, ROWS6, INIT6x4, MACS6x4, STORE6x4)

// func vnniPeak(n int): n rounds of 16 independent VPDPBUSD.
TEXT ·vnniPeak(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
round:
	VPDPBUSD Z30, Z31, Z0
	VPDPBUSD Z30, Z31, Z1
	VPDPBUSD Z30, Z31, Z2
	VPDPBUSD Z30, Z31, Z3
	VPDPBUSD Z30, Z31, Z4
	VPDPBUSD Z30, Z31, Z5
	VPDPBUSD Z30, Z31, Z6
	VPDPBUSD Z30, Z31, Z7
	VPDPBUSD Z30, Z31, Z8
	VPDPBUSD Z30, Z31, Z9
	VPDPBUSD Z30, Z31, Z10
	VPDPBUSD Z30, Z31, Z11
	VPDPBUSD Z30, Z31, Z12
	VPDPBUSD Z30, Z31, Z13
	VPDPBUSD Z30, Z31, Z14
	VPDPBUSD Z30, Z31, Z15
	DECQ CX
	JNZ  round
	VZEROUPPER
	RET

// func fmaPeak(n int): n rounds of 16 independent VFMADD231PS.
TEXT ·fmaPeak(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXORD Z30, Z30, Z30
	VPXORD Z31, Z31, Z31
round:
	VFMADD231PS Z30, Z31, Z0
	VFMADD231PS Z30, Z31, Z1
	VFMADD231PS Z30, Z31, Z2
	VFMADD231PS Z30, Z31, Z3
	VFMADD231PS Z30, Z31, Z4
	VFMADD231PS Z30, Z31, Z5
	VFMADD231PS Z30, Z31, Z6
	VFMADD231PS Z30, Z31, Z7
	VFMADD231PS Z30, Z31, Z8
	VFMADD231PS Z30, Z31, Z9
	VFMADD231PS Z30, Z31, Z10
	VFMADD231PS Z30, Z31, Z11
	VFMADD231PS Z30, Z31, Z12
	VFMADD231PS Z30, Z31, Z13
	VFMADD231PS Z30, Z31, Z14
	VFMADD231PS Z30, Z31, Z15
	DECQ CX
	JNZ  round
	VZEROUPPER
	RET
