// Package vecf32 is the float32 meaning of vector operations: element-wise
// functions, broadcasting binary operators, reductions, windows, softmax and
// local response normalisation, all on flat row-major []float32 with explicit
// shapes.
//
// The reference evaluator and the emulator's vector unit both call it, so their
// bits agree. The rules that make results reproducible:
//
//   - arithmetic operators (add, sub, mul, div, min, max) are the IEEE float32
//     operation;
//   - everything else is computed in float64 and rounded once to float32;
//   - sums run in row-major order of the elements summed.
//
// No function allocates anything of the size of the data, and all accept dst
// being the operand itself where the result has the operand's shape. Shapes are
// trusted: a slice that does not match its shape is a programming error.
//
// To add an element-wise function: add its constant and its row in fn.go. Read
// fn.go, binary.go, reduce.go, window.go.
package vecf32
