// Package effect says which bytes of which memories an instruction reads and
// writes, from its operands alone. The functional core checks these regions
// against the memories' sizes before it executes; the timing model finds
// hazards with them. So the two cannot disagree.
//
// Read region.go, then of.go. To add an instruction, add its case to Of.
package effect
