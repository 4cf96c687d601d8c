// Package kernel generates GPU kernels as LLVM IR for the NVPTX target.
//
// A kernel is described by a Spec: a small struct of numbers that says all about
// it, so that two layers with equal numbers share one kernel. Module.Add turns a
// Spec into a function of the module and returns its name; Module.String is the
// text that llc takes. Every size and zero point is a constant of the kernel:
// divisions become multiplications, and nothing but addresses is passed at launch.
//
// Arithmetic is that of internal/fixed, to the bit: one multiplication to 64
// bits, one rounding half to even (arith.go). Codes lie in memory as bytes, signed
// or not as their tensor says.
//
// builder.go is the layer over llir/llvm that generators are written in; a
// generator is a struct with its numbers, a Launch method (grid, block, dynamic
// shared bytes) and an emit method. To add a kernel: one such struct with a row in
// the test's list of samples, and the operator's case in backend/gpu that fills it.
//
// Read module.go, builder.go, arith.go, nest.go; then elementwise.go as the
// plainest generator, and product.go and tensor.go as the most elaborate.
package kernel
