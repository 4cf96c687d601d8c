// Package ir holds the graph that every stage of situ reads and writes: values,
// operators, types, and their textual form.
//
// A Graph is in single-assignment form; value ids are dense and operators stand
// in topological order. The operator table (table.go) is the one place that
// says what an operator is called, what it takes, which attributes it has, how
// its result type follows and what it means; printing, parsing, verification
// and the reference page follow from it.
//
// To add an operator: add its constant in op.go and its row in table.go, give it
// a meaning in ir/eval, and a conformance case. Read type.go, op.go, graph.go,
// table.go, in this order.
package ir
