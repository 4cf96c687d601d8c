// Package irtest generates random graphs and inputs for property tests.
//
// To have it generate one more operator, add a maker to the list in makers.go;
// graph.go holds the loop that applies them. Read graph.go, then makers.go.
package irtest
