// Package fixed is the arithmetic contract of the project: how real numbers
// become 8-bit codes, and what every integer operator does to the last bit. The
// evaluator and the emulator both call it, so they cannot differ.
//
// # Codes
//
// On chip every activation is an unsigned byte u with a zero point z in 0..255,
// standing for the real (u−z)·scale. A tensor of int8 is stored with 128 added
// to codes and zero point, a tensor of uint8 as it is.
//
// # Rounding
//
// There is one rounding: to the nearest integer, a tie to the even one, done
// once on the exact value. It is the rule of ONNX QuantizeLinear, so a
// requantised accumulator and a quantised float round alike; it has no bias, so
// long chains of layers do not drift; and as it is symmetric around zero a
// negated tensor gives negated results, whatever the order of the operations.
// Rounding in two steps, as the doubling high multiply of some integer kernels
// does, has none of the three.
//
// # Operators
//
//	requantise  clamp(z + round((acc+bias)·M / 2^Shift), lo, hi)      one Multiplier a channel or a tensor
//	add, sub    clamp(z + round(((a−za)·MA + (b−zb)·MB) / 2^Shift), lo, hi)
//	mul         clamp(z + round((a−za)(b−zb)·M / 2^Shift), lo, hi)
//	LUT         any function of one code, a table of 256
//	softmax     a table of exponentials, an integer sum, one division an element
//	layernorm   integer sums of codes and squares, an integer square root a row, two multiplications an element
//
// acc+bias wraps at 32 bits and so do the accumulators; all else is exact.
//
// Reading order: multiplier.go (requantisation), elementwise.go (add, mul, LUT,
// max, sum), depthwise.go, softmax.go, norm.go, convert.go (to and from float32),
// portable.go (the vector kernels in plain Go), run_amd64.go (which of them runs),
// avx512_amd64.s, depthwise_amd64.s and avx2_amd64.s.
//
// To add an operator: define it on one element in Go, test that against exact
// arithmetic, loop over it in portable.go; then, if a profile asks for it, add
// an assembly kernel, dispatch to it in run_amd64.go and compare the two over
// odd lengths in kernels_test.go.
package fixed
