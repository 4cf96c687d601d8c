#include "textflag.h"
#include "go_asm.h"

// Micro-kernels for AVX2: R rows by 16 columns, full vectors only. See type
// tile; mask is not used here.
//
// The int8 kernels widen to 16 bits and use VPMADDWD, which is exact;
// VPMADDUBSW would saturate. Each 4 columns of a K step widen to 16 words, and
// VPMADDWD leaves two partial sums for each column, (k0,k1) and (k2,k3), which
// are folded when the row is stored.
//
// Registers: AX tile, R8..R13 start of each row, BX..DX segment list,
// SI byte offset of the K step from the row's start, R15 its end,
// DI panel cursor, CX panel stride.

#define ROWPTR(OFF, SH, R) \
	MOVLQSX OFF(BX), R; \
	SHLQ    $SH, R;     \
	ADDQ    SI, R

// ROWPTR sets R to the start of the row whose offset is at OFF(BX); SH is log2 of
// the bytes of one element. START loads the arguments that stay.
#define START \
	MOVQ t+0(FP), AX; \
	MOVQ tile_stride(AX), CX

// CROW sets SI to the next row of c.
#define CROW \
	MOVQ  tile_done(AX), SI; \
	IMULQ tile_ldc(AX), SI;  \
	ADDQ  tile_c(AX), SI

// BEGIN readies a group of rows for ROWPTR, LOOP and NEXT enclose one K step,
// and FINISH counts the group and returns after the last.
#define BEGIN \
	MOVQ tile_done(AX), DX; \
	MOVQ tile_rows(AX), BX; \
	LEAQ (BX)(DX*4), BX;    \
	MOVQ tile_a(AX), SI

#define LOOP(SH) \
	MOVQ    tile_panel(AX), DI;    \
	MOVQ    tile_segs(AX), BX;     \
	MOVQ    tile_nsegs(AX), DX;    \
	LEAQ    (BX)(DX*4), DX;        \
segment:                               \
	MOVLQSX (BX), SI;              \
	SHLQ    $SH, SI;               \
	MOVQ    tile_segBytes(AX), R15; \
	ADDQ    SI, R15;               \
step:

#define NEXT \
	ADDQ CX, DI;  \
	ADDQ $4, SI;  \
	CMPQ SI, R15; \
	JLT  step;    \
	ADDQ $4, BX;  \
	CMPQ BX, DX;  \
	JLT  segment

#define FINISH(R) \
	ADDQ $R, tile_done(AX);      \
	DECQ tile_groups(AX);        \
	JNZ  group;                  \
	VZEROUPPER;                  \
	RET

// Four bytes of a row as 16 words, a0..a3 four times over.
#define ROWWORDS(R, A) \
	VPBROADCASTD (R)(SI*1), X14; \
	VPMOVZXBW    X14, A

#define MADD(W, A, ACC) \
	VPMADDWD W, A, Y15; \
	VPADDD   Y15, ACC, ACC

// FOLD adds the two partial sums of each column and stores 16 columns at (SI),
// adding what is there under the mask Y14.
#define FOLD(A, B, C, D) \
	VPHADDD B, A, A;      \
	VPERMQ  $0xD8, A, A;  \
	VPHADDD D, C, C;      \
	VPERMQ  $0xD8, C, C;  \
	VPAND   (SI), Y14, Y15;   \
	VPADDD  Y15, A, A;    \
	VPAND   32(SI), Y14, Y15; \
	VPADDD  Y15, C, C;    \
	VMOVDQU A, (SI);      \
	VMOVDQU C, 32(SI);    \
	ADDQ    tile_ldc(AX), SI

// Y14 = all ones when accumulating, else 0.
#define ACCMASK \
	MOVQ         tile_accumulate(AX), SI; \
	NEGQ         SI;                      \
	MOVQ         SI, X14;                 \
	VPBROADCASTQ X14, Y14;                \
	CROW

// func madd2(t *tile)
TEXT ·madd2(SB), NOSPLIT, $0-8
	START

group:
	BEGIN
	ROWPTR(0, 0, R8)
	ROWPTR(4, 0, R9)
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	LOOP(0)
	ROWWORDS(R8, Y12)
	ROWWORDS(R9, Y13)
	VPMOVSXBW (DI), Y8
	VPMOVSXBW 16(DI), Y9
	VPMOVSXBW 32(DI), Y10
	VPMOVSXBW 48(DI), Y11
	MADD(Y8, Y12, Y0)
	MADD(Y9, Y12, Y1)
	MADD(Y10, Y12, Y2)
	MADD(Y11, Y12, Y3)
	MADD(Y8, Y13, Y4)
	MADD(Y9, Y13, Y5)
	MADD(Y10, Y13, Y6)
	MADD(Y11, Y13, Y7)
	NEXT
	ACCMASK
	FOLD(Y0, Y1, Y2, Y3)
	FOLD(Y4, Y5, Y6, Y7)
	FINISH(2)

// func madd1(t *tile)
TEXT ·madd1(SB), NOSPLIT, $0-8
	START

group:
	BEGIN
	ROWPTR(0, 0, R8)
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	LOOP(0)
	ROWWORDS(R8, Y12)
	VPMOVSXBW (DI), Y8
	VPMOVSXBW 16(DI), Y9
	VPMOVSXBW 32(DI), Y10
	VPMOVSXBW 48(DI), Y11
	MADD(Y8, Y12, Y0)
	MADD(Y9, Y12, Y1)
	MADD(Y10, Y12, Y2)
	MADD(Y11, Y12, Y3)
	NEXT
	ACCMASK
	FOLD(Y0, Y1, Y2, Y3)
	FINISH(1)

#define FINIT(A, B) \
	VANDPS (SI), Y14, A;   \
	VANDPS 32(SI), Y14, B; \
	ADDQ   tile_ldc(AX), SI

#define FSTORE(A, B) \
	VMOVUPS A, (SI);   \
	VMOVUPS B, 32(SI); \
	ADDQ    tile_ldc(AX), SI

#define FMA(R, A, B) \
	VBROADCASTSS (R)(SI*1), Y14; \
	VFMADD231PS  Y12, Y14, A;    \
	VFMADD231PS  Y13, Y14, B

#define FPANEL \
	VMOVUPS (DI), Y12; \
	VMOVUPS 32(DI), Y13

// func fma256x6(t *tile)
TEXT ·fma256x6(SB), NOSPLIT, $0-8
	START

group:
	ACCMASK
	FINIT(Y0, Y1)
	FINIT(Y2, Y3)
	FINIT(Y4, Y5)
	FINIT(Y6, Y7)
	FINIT(Y8, Y9)
	FINIT(Y10, Y11)
	BEGIN
	ROWPTR(0, 2, R8)
	ROWPTR(4, 2, R9)
	ROWPTR(8, 2, R10)
	ROWPTR(12, 2, R11)
	ROWPTR(16, 2, R12)
	ROWPTR(20, 2, R13)
	LOOP(2)
	FPANEL
	FMA(R8, Y0, Y1)
	FMA(R9, Y2, Y3)
	FMA(R10, Y4, Y5)
	FMA(R11, Y6, Y7)
	FMA(R12, Y8, Y9)
	FMA(R13, Y10, Y11)
	NEXT
	CROW
	FSTORE(Y0, Y1)
	FSTORE(Y2, Y3)
	FSTORE(Y4, Y5)
	FSTORE(Y6, Y7)
	FSTORE(Y8, Y9)
	FSTORE(Y10, Y11)
	FINISH(6)

// func fma256x1(t *tile)
TEXT ·fma256x1(SB), NOSPLIT, $0-8
	START

group:
	ACCMASK
	FINIT(Y0, Y1)
	BEGIN
	ROWPTR(0, 2, R8)
	LOOP(2)
	FPANEL
	FMA(R8, Y0, Y1)
	NEXT
	CROW
	FSTORE(Y0, Y1)
	FINISH(1)
