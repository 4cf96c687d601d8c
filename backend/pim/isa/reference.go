package isa

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Reference writes the instruction set as Markdown, generated from the table.
// The error is the writer's.
func Reference(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `# Instruction set, version %d

Generated from the table in backend/pim/isa/table.go. Each cluster executes one
stream of instructions, issued in order to its units: control, dma, noc, array
and vector. Each unit works in order; instructions on different units overlap
unless one needs what another writes. Times and energies are not part of the
instruction set: they come from the architecture.

An operand is one integer. Addresses are an immediate plus an address register
r1 to r15 (r0 is zero) and count bytes, as steps do. Registers are 0
before the init streams and keep their values from there to the main streams and
from run to run. Operands left out in text are 1 for a count and 0 otherwise. An instruction that moves n2 × n1 runs walks
the outer count first, then the inner one, then len contiguous bytes.
Activations are unsigned 8-bit codes, accumulators 32-bit integers that wrap.
Plain numbers have the width of their type, little endian; a bool is a byte, 0 or
1, and int8 is stored with 128 added, as its codes are.
`, ISAVersion)
	for u := UnitCtrl; u < NumUnits; u++ {
		fmt.Fprintf(b, "\n## Unit %s\n", u)
		for op := OpInvalid + 1; op < numOps; op++ {
			if row := &table[op]; row.Unit == u {
				row.reference(b, op)
			}
		}
	}
	return b.Flush()
}

func (row *Info) reference(b *bufio.Writer, op Op) {
	fmt.Fprintf(b, "\n### %s\n\nOpcode %d. %s.\n", row.Mnemonic, op, upperFirst(row.Doc))
	if row.Reads != "" {
		fmt.Fprintf(b, "Reads: %s.\n", row.Reads)
	}
	if row.Writes != "" {
		fmt.Fprintf(b, "Writes: %s.\n", row.Writes)
	}
	if len(row.Operands) == 0 {
		return
	}
	fmt.Fprint(b, "\n| operand | holds | meaning |\n|---|---|---|\n")
	for _, o := range row.Operands {
		fmt.Fprintf(b, "| %s | %s | %s |\n", o.Name, o.Kind, o.Doc)
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
