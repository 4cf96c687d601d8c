// Package isa is the contract between the compiler and the machine: the
// instruction table, the program and its file format, and the assembler and
// disassembler. It knows neither the graph nor the cost of anything.
//
// Read inst.go (what an instruction is), table.go (all instructions),
// program.go (what a file holds). To add an instruction: append its opcode, add
// its row and its operand positions, then its effect in emulator/functional and
// its time in emulator/timing; tests fail until all are there.
package isa
