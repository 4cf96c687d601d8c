// Package isa is the contract between the compiler and the machine: the
// instruction table, the program and its file format, and the assembler and
// disassembler. It knows neither the graph nor the cost of anything.
//
// Read inst.go (what an instruction is), table.go (all instructions),
// operands.go (positions of operands), program.go (what a file holds),
// validate.go (what a valid program is), then codec.go and sections.go (the
// .pim file), dis.go and asm.go (the text form) and reference.go (the page made
// from the table).
//
// To add an instruction: append its opcode, add its row to the table and its
// positions to operands.go, raise ISAVersion, and give it an effect in
// emulator/functional and a time in emulator/timing; tests fail until all are
// there.
package isa
