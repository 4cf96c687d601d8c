// Package gpu says what a graph costs on a GPU: an analytic model of tensor-core
// kernels with traffic counted at registers, shared memory, L2 and DRAM.
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
// To add an operator: if it is not bound by its bytes alone, give its lane
// operations in laneOps. Read estimate.go, plan.go, residency.go, product.go,
// other.go, in this order.
package gpu
