#include "textflag.h"
#include "go_asm.h"

// float32 micro-kernels for AVX2: R rows by 16 columns, full vectors only. See
// type tile; mask is not used here.
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

// Y14 = all ones when accumulating, else 0.
#define ACCMASK \
	MOVQ         tile_accumulate(AX), SI; \
	NEGQ         SI;                      \
	MOVQ         SI, X14;                 \
	VPBROADCASTQ X14, Y14;                \
	CROW

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

// func fmaPeak256(n int): n rounds of 16 independent VFMADD231PS.
TEXT ·fmaPeak256(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VXORPS Y15, Y15, Y15

round:
	VFMADD231PS Y15, Y15, Y0
	VFMADD231PS Y15, Y15, Y1
	VFMADD231PS Y15, Y15, Y2
	VFMADD231PS Y15, Y15, Y3
	VFMADD231PS Y15, Y15, Y4
	VFMADD231PS Y15, Y15, Y5
	VFMADD231PS Y15, Y15, Y6
	VFMADD231PS Y15, Y15, Y7
	VFMADD231PS Y15, Y15, Y8
	VFMADD231PS Y15, Y15, Y9
	VFMADD231PS Y15, Y15, Y10
	VFMADD231PS Y15, Y15, Y11
	VFMADD231PS Y15, Y15, Y12
	VFMADD231PS Y15, Y15, Y13
	VFMADD231PS Y15, Y15, Y14
	VFMADD231PS Y15, Y15, Y0
	DECQ CX
	JNZ  round
	VZEROUPPER
	RET
