#include "textflag.h"
#include "go_asm.h"

// func mmaSigned(t *mmaTile, words *[mmaWords]int16)
//
// A register of a fragment is 8 rows of 16 bytes in memory: rows of A, columns of B.
// B is brought to one vector for each pair of k, with a pair of words for each
// column, even columns before odd ones as C has them; A to rows of 32 words. Then,
// for eight rows at a time, each pair of k of a row is spread over a vector,
// multiplied and added to the row's eight sums.
//
// DI is words: B, 16 vectors, then A, 16 rows of 64 bytes.

// Transposes eight columns of eight pairs of bytes, at B, and widens them to the eight
// vectors from D on.
#define PAIRS(B, D) \
	VMOVDQU    (16*0)(B), X8;        \
	VMOVDQU    (16*4)(B), X9;        \
	VMOVDQU    (16*1)(B), X10;       \
	VMOVDQU    (16*5)(B), X11;       \
	VPUNPCKLWD (16*2)(B), X8, X0;    \
	VPUNPCKHWD (16*2)(B), X8, X1;    \
	VPUNPCKLWD (16*6)(B), X9, X2;    \
	VPUNPCKHWD (16*6)(B), X9, X3;    \
	VPUNPCKLWD (16*3)(B), X10, X4;   \
	VPUNPCKHWD (16*3)(B), X10, X5;   \
	VPUNPCKLWD (16*7)(B), X11, X6;   \
	VPUNPCKHWD (16*7)(B), X11, X7;   \
	VPUNPCKLDQ X2, X0, X8;           \
	VPUNPCKHDQ X2, X0, X9;           \
	VPUNPCKLDQ X3, X1, X10;          \
	VPUNPCKHDQ X3, X1, X11;          \
	VPUNPCKLDQ X6, X4, X12;          \
	VPUNPCKHDQ X6, X4, X13;          \
	VPUNPCKLDQ X7, X5, X14;          \
	VPUNPCKHDQ X7, X5, X15;          \
	PAIR(X12, X8, D+0);              \
	PAIR(X13, X9, D+64);             \
	PAIR(X14, X10, D+128);           \
	PAIR(X15, X11, D+192)

#define PAIR(H, L, D) \
	VPUNPCKLQDQ H, L, X0;     \
	VPUNPCKHQDQ H, L, X1;     \
	VPMOVSXBW   X0, Y0;       \
	VPMOVSXBW   X1, Y1;       \
	VMOVDQU     Y0, (D)(DI);  \
	VMOVDQU     Y1, (D+32)(DI)

#define WIDEN(I) \
	VPMOVSXBW (16*I)(R8), Y0;        \
	VPMOVSXBW (16*I)(R9), Y1;        \
	VMOVDQU   Y0, (64*I)(SI);        \
	VMOVDQU   Y1, (64*I+32)(SI)

// Sums of a row begin as C: even columns, then odd ones.
#define BEGIN(I, Y, X) \
	VMOVDQU     (16*I)(R10), X;          \
	VINSERTI128 $1, (16*I)(R11), Y, Y

#define STEP(I, Y, T) \
	VPBROADCASTD (64*I)(SI), T;    \
	VPMADDWD     Y8, T, T;         \
	VPADDD       T, Y, Y

#define FINISH(I, Y, X) \
	VMOVDQU      X, (16*I)(R12);         \
	VEXTRACTI128 $1, Y, (16*I)(R13)

// Eight rows, those of registers 0 and 2 of A and 0 and 1 of C and D, or where O is 8
// those of 1 and 3, and 2 and 3.
#define ROWS(O, LOOP) \
	MOVQ (mmaTile_a+O)(AX), R8;       \
	MOVQ (mmaTile_a+O+16)(AX), R9;    \
	MOVQ (mmaTile_c+O*2)(AX), R10;    \
	MOVQ (mmaTile_c+O*2+8)(AX), R11;  \
	MOVQ (mmaTile_d+O*2)(AX), R12;    \
	MOVQ (mmaTile_d+O*2+8)(AX), R13;  \
	LEAQ 512(DI), SI;  \
	WIDEN(0); WIDEN(1); WIDEN(2); WIDEN(3); WIDEN(4); WIDEN(5); WIDEN(6); WIDEN(7); \
	BEGIN(0, Y0, X0);  \
	BEGIN(1, Y1, X1);  \
	BEGIN(2, Y2, X2);  \
	BEGIN(3, Y3, X3);  \
	BEGIN(4, Y4, X4);  \
	BEGIN(5, Y5, X5);  \
	BEGIN(6, Y6, X6);  \
	BEGIN(7, Y7, X7);  \
	MOVQ DI, DX;       \
	LEAQ 512(DI), CX;  \
LOOP: \
	VMOVDQU (DX), Y8;  \
	STEP(0, Y0, Y9);   \
	STEP(1, Y1, Y10);  \
	STEP(2, Y2, Y11);  \
	STEP(3, Y3, Y12);  \
	STEP(4, Y4, Y13);  \
	STEP(5, Y5, Y14);  \
	STEP(6, Y6, Y15);  \
	STEP(7, Y7, Y9);   \
	ADDQ $32, DX;      \
	ADDQ $4, SI;       \
	CMPQ DX, CX;       \
	JLT  LOOP;         \
	FINISH(0, Y0, X0); \
	FINISH(1, Y1, X1); \
	FINISH(2, Y2, X2); \
	FINISH(3, Y3, X3); \
	FINISH(4, Y4, X4); \
	FINISH(5, Y5, X5); \
	FINISH(6, Y6, X6); \
	FINISH(7, Y7, X7)

TEXT ·mmaSigned(SB), NOSPLIT, $0-16
	MOVQ t+0(FP), AX
	MOVQ words+8(FP), DI
	MOVQ (mmaTile_b+0)(AX), BX
	PAIRS(BX, 0)
	MOVQ (mmaTile_b+8)(AX), BX
	PAIRS(BX, 256)
	ROWS(0, upper)
	ROWS(8, lower)
	VZEROUPPER
	RET
