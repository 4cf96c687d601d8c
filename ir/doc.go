// Package ir holds the graph that every stage of situ reads and writes: values,
// operators, types, and their textual form.
//
// A Graph is in single-assignment form; value ids are dense and operators stand
// in topological order. The operator table (table.go) is the one place that
// says what an operator is called, what it takes, which attributes it has, how
// its result type follows and what it means; printing, parsing, verification
// and the reference page follow from it.
//
// To add an operator: add its constant in op.go (and an attribute struct, if it
// needs a new one), its row in table.go and its shape rule in shapes.go; give it
// a case in numbers.go when its element types or its fixed-point form do not
// follow from its flags (in plain.go when it has no fixed-point form); then a meaning in ir/eval and a conformance case. A
// maker in ir/irtest brings it into the random graphs of the property tests.
//
// Read type.go, op.go, graph.go, table.go, in this order; then infer.go,
// shapes.go and numbers.go for the type rules, verify.go for what a valid graph
// is, print.go and parse.go for the textual form, side.go for large constants
// in it, and rewrite.go for how passes change graphs.
package ir
