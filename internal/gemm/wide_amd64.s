#include "textflag.h"
#include "go_asm.h"

// int8 micro-kernels for AVX2: R rows by 16 columns over one block of K. See
// wide_amd64.go for the arithmetic and the fields.
//
// Registers: AX arguments, R8 widened rows, SI K step, CX steps, DI panel cursor,
// DX dots, R9 c, BX groups. Row r accumulates in Y(2r) and Y(2r+1); Y8..Y11 hold
// the weights of one step, w1·256 and w3·256 in Y8 and Y9, w0·256 and w2·256 in
// Y10 and Y11; Y12..Y15 are scratch.

#define ROW_BYTES 512

// OPEN readies a group of 16 columns, STEP the weights of a K step, NEXT ends it.
#define OPEN \
	MOVQ    t+0(FP), AX;          \
	MOVQ    wideTile_rows(AX), R8; \
	MOVQ    wideTile_dots(AX), DX; \
	MOVQ    wideTile_c(AX), R9;    \
	MOVQ    wideTile_groups(AX), BX; \
	MOVQ    wideTile_steps(AX), CX; \
	MOVQ    wideTile_panel(AX), DI; \
group:                               \
	VMOVDQU (DX), Y0;            \
	VMOVDQU 32(DX), Y1

#define STEP \
	XORL    SI, SI;               \
step:                                \
	VMOVDQU (DI), Y10;           \
	VMOVDQU 32(DI), Y11;         \
	VPAND   odd<>(SB), Y10, Y8;  \
	VPAND   odd<>(SB), Y11, Y9;  \
	VPSLLW  $8, Y10, Y10;        \
	VPSLLW  $8, Y11, Y11

#define NEXT \
	ADDQ $256, DI; \
	INCQ SI;       \
	CMPQ SI, CX;   \
	JLT  step

// ROW adds the products of one row: (a0 + 256·w1)·(a1 + 256·w0) and the same of
// k 2 and 3, for 16 columns.
#define ROW(R, A, B) \
	VPBROADCASTD (R*ROW_BYTES)(R8)(SI*8), Y12;   \
	VPBROADCASTD (R*ROW_BYTES+4)(R8)(SI*8), Y13; \
	VPOR         Y8, Y12, Y14;  \
	VPOR         Y10, Y13, Y15; \
	VPMADDWD     Y14, Y15, Y14; \
	VPOR         Y9, Y12, Y12;  \
	VPOR         Y11, Y13, Y13; \
	VPADDD       Y14, A, A;     \
	VPMADDWD     Y12, Y13, Y12; \
	VPADDD       Y12, B, B

// SUMS readies the accumulate mask in Y14, R11 at the sums of the rows and R10
// at the row of c. STORE ends a row and moves on to the next.
#define SUMS \
	VPBROADCASTD wideTile_accumulate(AX), Y14; \
	MOVQ         wideTile_sums(AX), R11;       \
	MOVQ         R9, R10

#define STORE(R, A, B) \
	VPBROADCASTD (4*R)(R11), Y15; \
	VPSUBD  Y15, A, A;        \
	VPSUBD  Y15, B, B;        \
	VPSRAD  $8, A, A;         \
	VPSRAD  $8, B, B;         \
	VPAND   (R10), Y14, Y12;   \
	VPAND   32(R10), Y14, Y13; \
	VPADDD  Y12, A, A;        \
	VPADDD  Y13, B, B;        \
	VMOVDQU A, (R10);          \
	VMOVDQU B, 32(R10);        \
	ADDQ    wideTile_ldc(AX), R10

// CLOSE moves on to the next 16 columns: the panel cursor goes back over the
// steps, 256 bytes each, and 64 ahead.
#define CLOSE \
	SHLQ $8, SI;   \
	SUBQ SI, DI;   \
	ADDQ $64, DI;  \
	ADDQ $64, DX;  \
	ADDQ $64, R9;  \
	DECQ BX;       \
	JNZ  group;    \
	VZEROUPPER;    \
	RET

DATA odd<>+0(SB)/8, $0xff00ff00ff00ff00
DATA odd<>+8(SB)/8, $0xff00ff00ff00ff00
DATA odd<>+16(SB)/8, $0xff00ff00ff00ff00
DATA odd<>+24(SB)/8, $0xff00ff00ff00ff00
GLOBL odd<>(SB), RODATA, $32

// func wide1(t *wideTile)
TEXT ·wide1(SB), NOSPLIT, $0-8
	OPEN
	STEP
	ROW(0, Y0, Y1)
	NEXT
	SUMS
	STORE(0, Y0, Y1)
	CLOSE

// func wide2(t *wideTile)
TEXT ·wide2(SB), NOSPLIT, $0-8
	OPEN
	VMOVDQA Y0, Y2
	VMOVDQA Y1, Y3
	STEP
	ROW(0, Y0, Y1)
	ROW(1, Y2, Y3)
	NEXT
	SUMS
	STORE(0, Y0, Y1)
	STORE(1, Y2, Y3)
	CLOSE

// func wide3(t *wideTile)
TEXT ·wide3(SB), NOSPLIT, $0-8
	OPEN
	VMOVDQA Y0, Y2
	VMOVDQA Y1, Y3
	VMOVDQA Y0, Y4
	VMOVDQA Y1, Y5
	STEP
	ROW(0, Y0, Y1)
	ROW(1, Y2, Y3)
	ROW(2, Y4, Y5)
	NEXT
	SUMS
	STORE(0, Y0, Y1)
	STORE(1, Y2, Y3)
	STORE(2, Y4, Y5)
	CLOSE

// func wide4(t *wideTile)
TEXT ·wide4(SB), NOSPLIT, $0-8
	OPEN
	VMOVDQA Y0, Y2
	VMOVDQA Y1, Y3
	VMOVDQA Y0, Y4
	VMOVDQA Y1, Y5
	VMOVDQA Y0, Y6
	VMOVDQA Y1, Y7
	STEP
	ROW(0, Y0, Y1)
	ROW(1, Y2, Y3)
	ROW(2, Y4, Y5)
	ROW(3, Y6, Y7)
	NEXT
	SUMS
	STORE(0, Y0, Y1)
	STORE(1, Y2, Y3)
	STORE(2, Y4, Y5)
	STORE(3, Y6, Y7)
	CLOSE

// func widenRows(t *wideRows)
//
// Registers: AX arguments, R8 row offsets, R9 rows left, R10 sums, DI widened
// row, R12 cursor in it, R11 row, BX segments, R13 bytes left, SI source, CX
// bytes of a piece, DX bytes to skip. X0 sums, X15 the even bytes.
TEXT ·widenRows(SB), NOSPLIT, $0-8
	MOVQ     t+0(FP), AX
	MOVQ     wideRows_rows(AX), R8
	MOVQ     wideRows_n(AX), R9
	MOVQ     wideRows_sums(AX), R10
	MOVQ     wideRows_to(AX), DI
	VPCMPEQW X15, X15, X15
	VPSRLW   $8, X15, X15

row:
	MOVLQSX (R8), R11
	ADDQ    wideRows_a(AX), R11
	MOVQ    DI, R12
	MOVQ    wideRows_segs(AX), BX
	MOVQ    wideRows_bytes(AX), R13
	MOVQ    wideRows_skip(AX), DX
	VPXOR   X0, X0, X0

segment:
	MOVLQSX (BX), SI
	ADDQ    R11, SI
	ADDQ    DX, SI
	MOVQ    wideRows_segBytes(AX), CX
	SUBQ    DX, CX
	CMPQ    CX, R13
	CMOVQGT R13, CX
	SUBQ    CX, R13
	XORL    DX, DX
	ADDQ    $4, BX
	SUBQ    $16, CX
	JLT     tail

sixteen:
	VMOVDQU    (SI), X1
	VPSRLW     $8, X1, X2
	VPAND      X15, X1, X1
	VPMADDWD   X1, X2, X3
	VPADDD     X3, X0, X0
	VPUNPCKLDQ X2, X1, X4
	VPUNPCKHDQ X2, X1, X5
	VMOVDQU    X4, (R12)
	VMOVDQU    X5, 16(R12)
	ADDQ       $16, SI
	ADDQ       $32, R12
	SUBQ       $16, CX
	JGE        sixteen

tail:
	ADDQ $16, CX
	JEQ  ended

four:
	VMOVD      (SI), X1
	VPSRLW     $8, X1, X2
	VPAND      X15, X1, X1
	VPMADDWD   X1, X2, X3
	VPADDD     X3, X0, X0
	VPUNPCKLDQ X2, X1, X4
	VMOVQ      X4, (R12)
	ADDQ       $4, SI
	ADDQ       $8, R12
	SUBQ       $4, CX
	JNE        four

ended:
	TESTQ   R13, R13
	JNE     segment
	VPSHUFD $0x4e, X0, X1
	VPADDD  X1, X0, X0
	VPSHUFD $0xb1, X0, X1
	VPADDD  X1, X0, X0
	VMOVD   X0, (R10)
	ADDQ    $4, R10
	ADDQ    $4, R8
	ADDQ    $ROW_BYTES, DI
	DECQ    R9
	JNZ     row
	RET

// func panelDots(dots *int32, panel *int8, steps int): dots of 64 columns of one
// block, −65536·Σ(w0·w1 + w2·w3).
TEXT ·panelDots(SB), NOSPLIT, $0-24
	MOVQ dots+0(FP), DI
	MOVQ panel+8(FP), R8
	MOVQ $8, BX

vector:
	MOVQ  R8, SI
	MOVQ  steps+16(FP), CX
	VPXOR Y0, Y0, Y0

add:
	VMOVDQU  (SI), Y1
	VPSRAW   $8, Y1, Y2
	VPSLLW   $8, Y1, Y1
	VPSRAW   $8, Y1, Y1
	VPMADDWD Y1, Y2, Y1
	VPSUBD   Y1, Y0, Y0
	ADDQ     $256, SI
	DECQ     CX
	JNZ      add
	VPSLLD   $16, Y0, Y0
	VMOVDQU  Y0, (DI)
	ADDQ     $32, DI
	ADDQ     $32, R8
	DECQ     BX
	JNZ      vector
	VZEROUPPER
	RET

#define MACS(T, U, ACC) \
	VPOR     Y12, Y13, T; \
	VPOR     Y12, Y13, U; \
	VPMADDWD T, U, T;     \
	VPADDD   T, ACC, ACC

// func widePeak(n int): n rounds of 16 independent sequences of a kernel's four
// instructions.
TEXT ·widePeak(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX

round:
	MACS(Y8, Y9, Y0)
	MACS(Y10, Y11, Y1)
	MACS(Y14, Y15, Y2)
	MACS(Y8, Y9, Y3)
	MACS(Y10, Y11, Y4)
	MACS(Y14, Y15, Y5)
	MACS(Y8, Y9, Y6)
	MACS(Y10, Y11, Y7)
	MACS(Y14, Y15, Y0)
	MACS(Y8, Y9, Y1)
	MACS(Y10, Y11, Y2)
	MACS(Y14, Y15, Y3)
	MACS(Y8, Y9, Y4)
	MACS(Y10, Y11, Y5)
	MACS(Y14, Y15, Y6)
	MACS(Y8, Y9, Y7)
	DECQ CX
	JNZ  round
	VZEROUPPER
	RET
