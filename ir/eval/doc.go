// Package eval is the reference evaluator: the written meaning of every operator
// of the IR, in floating point and in fixed point.
//
// The other executors must agree with it to the last bit on integer tensors, so
// it is kept plain: operators are definitions, in integer arithmetic where the
// types are quantised. Only convolution and matrix product also have a fast
// form, on the kernels of internal/gemm; Options.Plain switches it off, and a
// test compares the two.
//
// New prepares a graph once (geometry, packed weights, requantisation
// multipliers); Run evaluates it for one set of inputs and may be called from
// several goroutines. An intermediate tensor is dropped after its last use.
//
// To add an operator: write a function of type prepare and put it in the table
// of table.go. Read eval.go, table.go, then the operators: elementwise.go,
// integers.go, compare.go, numbers.go, move.go, strided.go, indexed.go,
// cumulate.go, window.go, product.go (floating point), and fixed.go,
// fixedproduct.go.
package eval
