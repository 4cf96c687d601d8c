// Package gemm holds the matrix kernels of the emulator and of the reference
// evaluator: exact u8×s8 → s32 products and float32 products.
//
// Both come in one shape, the indirect product: every row of the left operand
// is a list of segments found by offsets into one buffer, so a convolution
// needs no im2col copy, and the right operand is panels of up to 64 columns.
// Dense products (Mul, F32) are loops over it.
//
//	int8   c[i][j] (+)= Σ_s Σ_x a[rows[i]+segs[s]+x] · panel[s·segLen+x][j]   (wraps at 32 bits)
//	float  the same, summed strictly in the order of k with fused multiply-add
//
// Activations are unsigned codes and weights signed, as VPDPBUSD wants them; a
// caller with a zero point z adds −z·Σ_k b[k][j] to its bias.
//
// The results do not depend on the instruction set: integers are exact, and a
// float element is one chain of fused multiply-adds in the order of k at every
// level (the portable one computes them with correct rounding). Nor do they
// depend on m, n, blocking or the number of workers.
//
// Reading order: pack.go (operand layouts), int8.go and f32.go (the interface
// and the checks), tile.go (how rows are cut and what a kernel is given),
// portable.go (what the kernels mean), avx512_amd64.s, avx2_amd64.s (float32) and
// wide_amd64.go and .s (int8 without VPDPBUSD).
//
// To add an instruction set: a level in isa.go, its detection in
// isa_amd64.go, kernels, and a case in indirectInt8 and runF32; the tests run every
// level the machine has.
package gemm
