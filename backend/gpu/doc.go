// Package gpu compiles graphs to GPU kernels, says what they cost from what an
// emulator counted of them, and what a graph costs by an analytic model where there
// are no kernels.
//
// Compile (compile.go) lowers each operator of a fixed-point graph to a launch of
// a kernel of package kernel (lower_product.go, lower_code.go, lower_move.go,
// lower_float.go), with the element-wise operators that follow it in the same
// kernel (chain.go), operands and results where transposes, slices and
// concatenations leave them (views.go) and, for products, the tile that is expected to
// be fastest (tile.go). Tensors get places in one arena by live range (arena.go). The result
// is a Program (program.go): launches, constants, LLVM IR; llc makes PTX of it
// (llc.go), and it is written as files (files.go). docs/gpu.md has the format.
//
// To add an operator: its case in lowering.lower, and a generator in package
// kernel when none there does it; the tests compare its bits with ir/eval's on
// the PTX emulator.
//
// Measure (measure.go) prices a program: counts.go has what it takes of each launch
// and how many blocks an SM holds, reuse.go what stays in L2 between launches.
// prebuilt.go has the PTX that comes with situ.
//
// The analytic model is an estimate of tensor-core kernels with traffic counted at
// registers, shared memory, L2 and DRAM. It does not look at the kernels above.
//
// A graph becomes a list of kernels (plan.go): a product with its requantisation,
// activation and residual addition is one; so is any other operator with the
// element-wise operators that follow it. The data that kernels hand to each other
// stays in L2 as far as the reuse distance allows (residency.go). A product is an
// implicit matrix product whose tile is chosen by cost (product.go); everything
// else is bound by its bytes or its lane operations (other.go). A kernel takes as
// long as its slowest resource, and a fixed cost for launch and ramp; energy is
// bytes and operations times the figures of arch.GPU, and power times time
// (estimate.go).
//
// What is taken in the GPU's favour: reshapes, concatenations and plain slices are
// views, element-wise operators fuse wherever they can, kernels are launched as a
// captured graph, runs follow each other without a gap and tiles are chosen with
// knowledge of the cost. What is not modelled: kernels running side by side,
// sparsity, transfers from and to the host.
//
// To add an operator to the model: if it is not bound by its bytes alone, give its lane
// operations in laneOps. Read estimate.go, plan.go, residency.go, product.go,
// other.go, in this order.
package gpu
