#include "textflag.h"
#include "go_asm.h"

// Operations on all 32 lanes of a register: 4 vectors of 8 lanes of 32 bits, 8
// of 4 lanes of 64. A result may be the same register as an operand, as every
// vector is read before it is written and no lane looks at another.

#define ARGS2 MOVQ d+0(FP), DI; MOVQ a+8(FP), SI
#define ARGS3 ARGS2; MOVQ b+16(FP), DX
#define ARGS4 ARGS3; MOVQ c+24(FP), CX
#define END VZEROUPPER; RET

#define EACH4(M) M(0); M(32); M(64); M(96)
#define EACH8(M) EACH4(M); M(128); M(160); M(192); M(224)

// d = a OP b
#define BINARY(OP, O) VMOVDQU O(SI), Y0; OP O(DX), Y0, Y0; VMOVDQU Y0, O(DI)
#define BINARY32(NAME, OP) \
	TEXT NAME(SB), NOSPLIT, $0-32; ARGS3; \
	BINARY(OP, 0); BINARY(OP, 32); BINARY(OP, 64); BINARY(OP, 96); END
#define BINARY64(NAME, OP) \
	TEXT NAME(SB), NOSPLIT, $0-32; ARGS3; \
	BINARY(OP, 0); BINARY(OP, 32); BINARY(OP, 64); BINARY(OP, 96); \
	BINARY(OP, 128); BINARY(OP, 160); BINARY(OP, 192); BINARY(OP, 224); END

BINARY32(·laneAdd32, VPADDD)
BINARY32(·laneSub32, VPSUBD)
BINARY32(·laneMul32, VPMULLD)
BINARY32(·laneAnd32, VPAND)
BINARY32(·laneOr32, VPOR)
BINARY32(·laneXor32, VPXOR)
BINARY32(·laneMinS32, VPMINSD)
BINARY32(·laneMaxS32, VPMAXSD)
BINARY32(·laneMinU32, VPMINUD)
BINARY32(·laneMaxU32, VPMAXUD)
BINARY32(·laneShl32, VPSLLVD)
BINARY32(·laneShrU32, VPSRLVD)
BINARY32(·laneShrS32, VPSRAVD)
BINARY64(·laneAdd64, VPADDQ)
BINARY64(·laneSub64, VPSUBQ)
BINARY64(·laneAnd64, VPAND)
BINARY64(·laneOr64, VPOR)
BINARY64(·laneXor64, VPXOR)

#define MOVE(O) VMOVDQU O(SI), Y0; VMOVDQU Y0, O(DI)

TEXT ·laneMov32(SB), NOSPLIT, $0-32
	ARGS2
	EACH4(MOVE)
	END

TEXT ·laneMov64(SB), NOSPLIT, $0-32
	ARGS2
	EACH8(MOVE)
	END

#define NOT(O) VPXOR O(SI), Y7, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneNot32(SB), NOSPLIT, $0-32
	ARGS2
	VPCMPEQD Y7, Y7, Y7
	EACH4(NOT)
	END

#define NEG(O) VPSUBD O(SI), Y7, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneNeg32(SB), NOSPLIT, $0-32
	ARGS2
	VPXOR Y7, Y7, Y7
	EACH4(NEG)
	END

#define MAD(O) VMOVDQU O(SI), Y0; VPMULLD O(DX), Y0, Y0; VPADDD O(CX), Y0, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneMad32(SB), NOSPLIT, $0-32
	ARGS4
	EACH4(MAD)
	END

// The high words of products of even lanes, and of odd ones.
#define HIGH(MUL, O) \
	VMOVDQU  O(SI), Y0;          \
	VMOVDQU  O(DX), Y1;          \
	VPSRLQ   $32, Y0, Y2;        \
	VPSRLQ   $32, Y1, Y3;        \
	MUL      Y1, Y0, Y0;         \
	MUL      Y3, Y2, Y2;         \
	VPSRLQ   $32, Y0, Y0;        \
	VPBLENDD $0xaa, Y2, Y0, Y0;  \
	VMOVDQU  Y0, O(DI)

TEXT ·laneMulHiU32(SB), NOSPLIT, $0-32
	ARGS3
	HIGH(VPMULUDQ, 0)
	HIGH(VPMULUDQ, 32)
	HIGH(VPMULUDQ, 64)
	HIGH(VPMULUDQ, 96)
	END

TEXT ·laneMulHiS32(SB), NOSPLIT, $0-32
	ARGS3
	HIGH(VPMULDQ, 0)
	HIGH(VPMULDQ, 32)
	HIGH(VPMULDQ, 64)
	HIGH(VPMULDQ, 96)
	END

// bfe: position and length modulo 256 (Y7). Y6 is 1 or 32.
#define FIELD_U(O) \
	VPAND   O(DX), Y7, Y1; \
	VPAND   O(CX), Y7, Y2; \
	VMOVDQU O(SI), Y0;     \
	VPSRLVD Y1, Y0, Y0;    \
	VPSLLVD Y2, Y6, Y2;    \
	VPSUBD  Y6, Y2, Y2;    \
	VPAND   Y2, Y0, Y0;    \
	VMOVDQU Y0, O(DI)

TEXT ·laneFieldU32(SB), NOSPLIT, $0-32
	ARGS4
	VPCMPEQD Y7, Y7, Y7
	VPSRLD   $31, Y7, Y6
	VPSRLD   $24, Y7, Y7
	EACH4(FIELD_U)
	END

// Shifting by 32 - n, at least 0, brings the field's sign to the top and back.
#define FIELD_S(O) \
	VPAND   O(DX), Y7, Y1; \
	VPAND   O(CX), Y7, Y2; \
	VMOVDQU O(SI), Y0;     \
	VPSRAVD Y1, Y0, Y0;    \
	VPSUBD  Y2, Y6, Y2;    \
	VPMAXSD Y5, Y2, Y2;    \
	VPSLLVD Y2, Y0, Y0;    \
	VPSRAVD Y2, Y0, Y0;    \
	VMOVDQU Y0, O(DI)

TEXT ·laneFieldS32(SB), NOSPLIT, $0-32
	ARGS4
	VPCMPEQD Y7, Y7, Y7
	VPSRLD   $31, Y7, Y6
	VPSLLD   $5, Y6, Y6
	VPSRLD   $24, Y7, Y7
	VPXOR    Y5, Y5, Y5
	EACH4(FIELD_S)
	END

// dp4a: even and odd bytes as words.
#define EVEN_S(Y, E) VPSLLW $8, Y, E; VPSRAW $8, E, E
#define ODD_S(Y, E) VPSRAW $8, Y, E
#define EVEN_U(Y, E) VPAND Y7, Y, E
#define ODD_U(Y, E) VPSRLW $8, Y, E
#define DOT(EVEN_A, ODD_A, EVEN_B, ODD_B, O) \
	VMOVDQU  O(SI), Y0;     \
	VMOVDQU  O(DX), Y1;     \
	EVEN_A(Y0, Y2);         \
	EVEN_B(Y1, Y3);         \
	ODD_A(Y0, Y0);          \
	ODD_B(Y1, Y1);          \
	VPMADDWD Y3, Y2, Y2;    \
	VPMADDWD Y1, Y0, Y0;    \
	VPADDD   O(CX), Y2, Y2; \
	VPADDD   Y2, Y0, Y0;    \
	VMOVDQU  Y0, O(DI)

#define DOT32(NAME, EVEN_A, ODD_A, EVEN_B, ODD_B) \
	TEXT NAME(SB), NOSPLIT, $0-32; ARGS4; \
	VPCMPEQD Y7, Y7, Y7; \
	VPSRLW   $8, Y7, Y7; \
	DOT(EVEN_A, ODD_A, EVEN_B, ODD_B, 0);  \
	DOT(EVEN_A, ODD_A, EVEN_B, ODD_B, 32); \
	DOT(EVEN_A, ODD_A, EVEN_B, ODD_B, 64); \
	DOT(EVEN_A, ODD_A, EVEN_B, ODD_B, 96); \
	END

DOT32(·laneDotSS, EVEN_S, ODD_S, EVEN_S, ODD_S)
DOT32(·laneDotSU, EVEN_S, ODD_S, EVEN_U, ODD_U)
DOT32(·laneDotUS, EVEN_U, ODD_U, EVEN_S, ODD_S)
DOT32(·laneDotUU, EVEN_U, ODD_U, EVEN_U, ODD_U)

// The low 64 bits of a product: the low halves' and, shifted, both mixed ones.
#define MUL64(O) \
	VMOVDQU  O(SI), Y0;    \
	VMOVDQU  O(DX), Y1;    \
	VPSRLQ   $32, Y0, Y2;  \
	VPSRLQ   $32, Y1, Y3;  \
	VPMULUDQ Y1, Y2, Y2;   \
	VPMULUDQ Y0, Y3, Y3;   \
	VPMULUDQ Y1, Y0, Y0;   \
	VPADDQ   Y3, Y2, Y2;   \
	VPSLLQ   $32, Y2, Y2;  \
	VPADDQ   Y2, Y0, Y0;   \
	VMOVDQU  Y0, O(DI)

TEXT ·laneMul64(SB), NOSPLIT, $0-32
	ARGS3
	EACH8(MUL64)
	END

// Operations between lanes of 32 and of 64 bits: O of the wide ones.
#define WIDEN_S(O) VPMOVSXDQ (O/2)(SI), Y0; VMOVDQU Y0, O(DI)
#define WIDEN_U(O) VPMOVZXDQ (O/2)(SI), Y0; VMOVDQU Y0, O(DI)

TEXT ·laneWidenS(SB), NOSPLIT, $0-16
	ARGS2
	EACH8(WIDEN_S)
	END

TEXT ·laneWidenU(SB), NOSPLIT, $0-16
	ARGS2
	EACH8(WIDEN_U)
	END

// The low halves of two vectors.
#define NARROW(O) \
	VMOVDQU (2*O)(SI), Y0;     \
	VMOVDQU (2*O+32)(SI), Y1;  \
	VSHUFPS $0x88, Y1, Y0, Y0; \
	VPERMQ  $0xd8, Y0, Y0;     \
	VMOVDQU Y0, O(DI)

TEXT ·laneNarrow(SB), NOSPLIT, $0-16
	ARGS2
	EACH4(NARROW)
	END

#define MULWIDE_S(O) VPMOVSXDQ (O/2)(SI), Y0; VPMOVSXDQ (O/2)(DX), Y1; VPMULDQ Y1, Y0, Y0
#define MULWIDE_U(O) VPMOVZXDQ (O/2)(SI), Y0; VPMOVZXDQ (O/2)(DX), Y1; VPMULUDQ Y1, Y0, Y0
#define MULWIDE_SD(O) MULWIDE_S(O); VMOVDQU Y0, O(DI)
#define MULWIDE_UD(O) MULWIDE_U(O); VMOVDQU Y0, O(DI)
#define MADWIDE_SD(O) MULWIDE_S(O); VPADDQ O(CX), Y0, Y0; VMOVDQU Y0, O(DI)
#define MADWIDE_UD(O) MULWIDE_U(O); VPADDQ O(CX), Y0, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneMulWideS(SB), NOSPLIT, $0-24
	ARGS3
	EACH8(MULWIDE_SD)
	END

TEXT ·laneMulWideU(SB), NOSPLIT, $0-24
	ARGS3
	EACH8(MULWIDE_UD)
	END

TEXT ·laneMadWideS(SB), NOSPLIT, $0-32
	ARGS4
	EACH8(MADWIDE_SD)
	END

TEXT ·laneMadWideU(SB), NOSPLIT, $0-32
	ARGS4
	EACH8(MADWIDE_UD)
	END

#define SHL64(O) VPMOVZXDQ (O/2)(DX), Y1; VMOVDQU O(SI), Y0; VPSLLVQ Y1, Y0, Y0; VMOVDQU Y0, O(DI)
#define SHR64(O) VPMOVZXDQ (O/2)(DX), Y1; VMOVDQU O(SI), Y0; VPSRLVQ Y1, Y0, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneShl64(SB), NOSPLIT, $0-24
	ARGS3
	EACH8(SHL64)
	END

TEXT ·laneShrU64(SB), NOSPLIT, $0-24
	ARGS3
	EACH8(SHR64)
	END

// Where x is negative, the complement is shifted and complemented again.
#define SAR64(O) \
	VPMOVZXDQ (O/2)(DX), Y1; \
	VMOVDQU   O(SI), Y0;     \
	VPCMPGTQ  Y0, Y7, Y2;    \
	VPXOR     Y2, Y0, Y0;    \
	VPSRLVQ   Y1, Y0, Y0;    \
	VPXOR     Y2, Y0, Y0;    \
	VMOVDQU   Y0, O(DI)

TEXT ·laneShrS64(SB), NOSPLIT, $0-24
	ARGS3
	VPXOR Y7, Y7, Y7
	EACH8(SAR64)
	END

// func laneExtend(d, a l32, shift, cut uint32): the low bits with their sign, cut.
#define EXTEND(O) VMOVDQU O(SI), Y0; VPSLLD X6, Y0, Y0; VPSRAD X6, Y0, Y0; VPAND Y7, Y0, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneExtend(SB), NOSPLIT, $0-24
	ARGS2
	MOVL         shift+16(FP), AX
	MOVQ         AX, X6
	MOVL         cut+20(FP), AX
	MOVQ         AX, X7
	VPBROADCASTD X7, Y7
	EACH4(EXTEND)
	END

// func laneMask(d, a l32, cut uint32)
#define CUT(O) VPAND O(SI), Y7, Y0; VMOVDQU Y0, O(DI)

TEXT ·laneMask(SB), NOSPLIT, $0-20
	ARGS2
	MOVL         cut+16(FP), AX
	MOVQ         AX, X7
	VPBROADCASTD X7, Y7
	EACH4(CUT)
	END

DATA bits8<>+0(SB)/8, $0x0000000200000001
DATA bits8<>+8(SB)/8, $0x0000000800000004
DATA bits8<>+16(SB)/8, $0x0000002000000010
DATA bits8<>+24(SB)/8, $0x0000008000000040
GLOBL bits8<>(SB), RODATA|NOPTR, $32

DATA bits4<>+0(SB)/8, $1
DATA bits4<>+8(SB)/8, $2
DATA bits4<>+16(SB)/8, $4
DATA bits4<>+24(SB)/8, $8
GLOBL bits4<>(SB), RODATA|NOPTR, $32

// func laneSelect32(d, a, b l32, m uint32): a where a bit of m is set, else b.
#define SELECT32(O) \
	VPAND     Y6, Y7, Y1;        \
	VPCMPEQD  Y6, Y1, Y1;        \
	VMOVDQU   O(DX), Y0;         \
	VPBLENDVB Y1, O(SI), Y0, Y0; \
	VMOVDQU   Y0, O(DI);         \
	VPSRLD    $8, Y7, Y7

TEXT ·laneSelect32(SB), NOSPLIT, $0-28
	ARGS3
	MOVL         m+24(FP), AX
	MOVQ         AX, X7
	VPBROADCASTD X7, Y7
	VMOVDQU      bits8<>(SB), Y6
	EACH4(SELECT32)
	END

#define SELECT64(O) \
	VPAND     Y6, Y7, Y1;        \
	VPCMPEQQ  Y6, Y1, Y1;        \
	VMOVDQU   O(DX), Y0;         \
	VPBLENDVB Y1, O(SI), Y0, Y0; \
	VMOVDQU   Y0, O(DI);         \
	VPSRLQ    $4, Y7, Y7

TEXT ·laneSelect64(SB), NOSPLIT, $0-28
	ARGS3
	MOVL         m+24(FP), AX
	MOVQ         AX, X7
	VPBROADCASTQ X7, Y7
	VMOVDQU      bits4<>(SB), Y6
	EACH8(SELECT64)
	END

// Comparisons: a bit for each lane, lane 0 lowest. Y7 is what the operands of
// an unsigned comparison are changed by.
#define BITS32(O, R) VMOVMSKPS Y0, R; SHLL $(O/4), R; ORL R, AX
#define BITS64(O, R) VMOVMSKPD Y0, R; SHLL $(O/8), R; ORL R, AX
#define EQ32(O) VMOVDQU O(SI), Y0; VPCMPEQD O(DX), Y0, Y0; BITS32(O, BX)
#define GT32(O) VMOVDQU O(SI), Y0; VPCMPGTD O(DX), Y0, Y0; BITS32(O, BX)
#define GTU32(O) VPXOR O(SI), Y7, Y0; VPXOR O(DX), Y7, Y1; VPCMPGTD Y1, Y0, Y0; BITS32(O, BX)
#define EQ64(O) VMOVDQU O(SI), Y0; VPCMPEQQ O(DX), Y0, Y0; BITS64(O, BX)
#define GT64(O) VMOVDQU O(SI), Y0; VPCMPGTQ O(DX), Y0, Y0; BITS64(O, BX)
#define GTU64(O) VPXOR O(SI), Y7, Y0; VPXOR O(DX), Y7, Y1; VPCMPGTQ Y1, Y0, Y0; BITS64(O, BX)

#define COMPARE(NAME, EACH, M) \
	TEXT NAME(SB), NOSPLIT, $0-20; \
	MOVQ     a+0(FP), SI; \
	MOVQ     b+8(FP), DX; \
	VPCMPEQD Y7, Y7, Y7;  \
	SIGN;                 \
	XORL     AX, AX;      \
	EACH(M);              \
	MOVL     AX, ret+16(FP); \
	END

#define SIGN VPSLLD $31, Y7, Y7
COMPARE(·laneEq32, EACH4, EQ32)
COMPARE(·laneGtS32, EACH4, GT32)
COMPARE(·laneGtU32, EACH4, GTU32)
#undef SIGN
#define SIGN VPSLLQ $63, Y7, Y7
COMPARE(·laneEq64, EACH8, EQ64)
COMPARE(·laneGtS64, EACH8, GT64)
COMPARE(·laneGtU64, EACH8, GTU64)

// Whether lanes lie as a shape says: their differences from the first one against
// delta, where care is set. X6 is the first one, Y7 collects what differs.
#define LIE64(O) \
	VMOVDQU   O(SI), Y0;                      \
	VPSUBQ    Y6, Y0, Y0;                     \
	VPMOVSXDQ (shape_delta+O/2)(DX), Y1;      \
	VPMOVSXDQ (shape_care+O/2)(DX), Y2;       \
	VPXOR     Y1, Y0, Y0;                     \
	VPAND     Y2, Y0, Y0;                     \
	VPOR      Y0, Y7, Y7

#define LIE32(O) \
	VMOVDQU O(SI), Y0;                    \
	VPSUBD  Y6, Y0, Y0;                   \
	VPXOR   (shape_delta+O)(DX), Y0, Y0;  \
	VPAND   (shape_care+O)(DX), Y0, Y0;   \
	VPOR    Y0, Y7, Y7

// func laneShape64(reg l64, s *shape) bool
TEXT ·laneShape64(SB), NOSPLIT, $0-17
	MOVQ         reg+0(FP), SI
	MOVQ         s+8(FP), DX
	MOVBQZX      shape_first(DX), CX
	VPBROADCASTQ (SI)(CX*8), Y6
	VPXOR        Y7, Y7, Y7
	EACH8(LIE64)
	VPTEST       Y7, Y7
	SETEQ        ret+16(FP)
	END

// func laneShape32(reg l32, s *shape) bool
TEXT ·laneShape32(SB), NOSPLIT, $0-17
	MOVQ         reg+0(FP), SI
	MOVQ         s+8(FP), DX
	MOVBQZX      shape_first(DX), CX
	VPBROADCASTD (SI)(CX*4), Y6
	VPXOR        Y7, Y7, Y7
	EACH4(LIE32)
	VPTEST       Y7, Y7
	SETEQ        ret+16(FP)
	END

TEXT ·laneLoadWords(SB), NOSPLIT, $0-16
	ARGS2
	EACH4(MOVE)
	END

TEXT ·laneStoreWords(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), DI
	MOVQ d+8(FP), SI
	EACH4(MOVE)
	END

#define BYTES_U(O) VPMOVZXBD (O/4)(SI), Y0; VMOVDQU Y0, O(DI)
#define BYTES_S(O) VPMOVSXBD (O/4)(SI), Y0; VMOVDQU Y0, O(DI)

TEXT ·laneLoadBytes(SB), NOSPLIT, $0-16
	ARGS2
	EACH4(BYTES_U)
	END

TEXT ·laneLoadSigned(SB), NOSPLIT, $0-16
	ARGS2
	EACH4(BYTES_S)
	END

#define ROW(I) MOVL (4*I)(DX), AX; VMOVDQU (SI)(AX*1), X0; VMOVDQU X0, (16*I)(DI)

// func laneLoadRows(d l32, mem []byte, at *[8]uint32)
TEXT ·laneLoadRows(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ mem_base+8(FP), SI
	MOVQ at+32(FP), DX
	ROW(0)
	ROW(1)
	ROW(2)
	ROW(3)
	ROW(4)
	ROW(5)
	ROW(6)
	ROW(7)
	RET
