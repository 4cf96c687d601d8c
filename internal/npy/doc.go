// Package npy reads and writes NumPy's .npy array files, format versions 1 to 3.
//
// The header is a Python dictionary with three known keys; only those are
// understood and nothing is evaluated. Element types are plain numbers and
// booleans; structured, string and object arrays are refused. To add an element
// type, extend parseDescr. Read npy.go, then header.go.
package npy
