#include "textflag.h"
#include "go_asm.h"

// func mmaSigned(t *mmaTile)
//
// A register of a fragment is 8 rows of 16 bytes in memory: rows of A, columns
// of B. Columns of B are widened to words once. A row of A is widened, and
// VPMADDWD and VPADDD leave, for each column, eight partial sums in Y0 to Y7,
// which VPHADDD folds to eight sums in Y0, by column. C and D have even columns
// in one register and odd ones in the next.
//
// DI words of B, on the stack; R8, R9 low and high half of the rows of A; R10, R11 even and
// odd columns of C, R12, R13 of D; SI offset of the row.

#define WIDEN(I) \
	VPMOVSXBW (16*I)(BX), Y0;  \
	VPMOVSXBW (16*I)(CX), Y1;  \
	VMOVDQU   Y0, (32*I)(DI);  \
	VMOVDQU   Y1, (256+32*I)(DI)

#define COLUMN(I, Y) \
	VPMADDWD (32*I)(DI), Y8, Y;      \
	VPMADDWD (256+32*I)(DI), Y9, Y10; \
	VPADDD   Y10, Y, Y

#define ROW \
	VPMOVSXBW  (R8)(SI*1), Y8;  \
	VPMOVSXBW  (R9)(SI*1), Y9;  \
	COLUMN(0, Y0);              \
	COLUMN(1, Y1);              \
	COLUMN(2, Y2);              \
	COLUMN(3, Y3);              \
	COLUMN(4, Y4);              \
	COLUMN(5, Y5);              \
	COLUMN(6, Y6);              \
	COLUMN(7, Y7);              \
	VPHADDD    Y1, Y0, Y0;      \
	VPHADDD    Y3, Y2, Y2;      \
	VPHADDD    Y5, Y4, Y4;      \
	VPHADDD    Y7, Y6, Y6;      \
	VPHADDD    Y2, Y0, Y0;      \
	VPHADDD    Y6, Y4, Y4;      \
	VPERM2I128 $0x20, Y4, Y0, Y1; \
	VPERM2I128 $0x31, Y4, Y0, Y2; \
	VPADDD     Y2, Y1, Y0;      \
	VPSHUFD    $0xd8, Y0, Y0;   \
	VPERMQ     $0xd8, Y0, Y0;   \
	VEXTRACTI128 $1, Y0, X1;    \
	VPADDD     (R10)(SI*1), X0, X0; \
	VPADDD     (R11)(SI*1), X1, X1; \
	VMOVDQU    X0, (R12)(SI*1); \
	VMOVDQU    X1, (R13)(SI*1)

TEXT ·mmaSigned(SB), NOSPLIT, $512-8
	MOVQ t+0(FP), AX
	MOVQ (mmaTile_b+0)(AX), BX
	MOVQ (mmaTile_b+8)(AX), CX
	LEAQ words-512(SP), DI
	WIDEN(0)
	WIDEN(1)
	WIDEN(2)
	WIDEN(3)
	WIDEN(4)
	WIDEN(5)
	WIDEN(6)
	WIDEN(7)
	MOVQ (mmaTile_a+0)(AX), R8
	MOVQ (mmaTile_a+16)(AX), R9
	MOVQ (mmaTile_c+0)(AX), R10
	MOVQ (mmaTile_c+8)(AX), R11
	MOVQ (mmaTile_d+0)(AX), R12
	MOVQ (mmaTile_d+8)(AX), R13
	XORQ SI, SI

upper:
	ROW
	ADDQ $16, SI
	CMPQ SI, $128
	JLT  upper
	MOVQ (mmaTile_a+8)(AX), R8
	MOVQ (mmaTile_a+24)(AX), R9
	MOVQ (mmaTile_c+16)(AX), R10
	MOVQ (mmaTile_c+24)(AX), R11
	MOVQ (mmaTile_d+16)(AX), R12
	MOVQ (mmaTile_d+24)(AX), R13
	XORQ SI, SI

lower:
	ROW
	ADDQ $16, SI
	CMPQ SI, $128
	JLT  lower
	VZEROUPPER
	RET
