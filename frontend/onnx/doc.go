// Package onnx reads ONNX models and tensors, turns models into ir graphs and
// writes graphs as models.
//
// Load (or Parse) decodes the protobuf, checks everything that can be checked
// without knowing operators, and sorts the nodes; Import then translates each
// node to ir operators. Files are untrusted: sizes are compared with the bytes
// that are really there before anything is allocated, nesting and counts are
// limited, and external data cannot leave the model's folder.
//
// To add an ONNX operator, add its row to the table in ops.go (name, first and
// last opset, function) and the function to the ops_*.go file of its group; add
// a case to the import tests and, where it has a definition in a few lines, to
// the property tests. Translations use few ir operators: recurrent layers and
// loops are unrolled (ops_recurrent.go, ops_control.go), windows of other ranks
// become two-dimensional ones (ops_windownd.go, ops_transposed.go). Read wire.go, model.go, tensor.go, import.go,
// ops.go, call.go, export.go, in this order.
package onnx
