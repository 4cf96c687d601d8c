// Package emulator runs a compiled program on a described chip: bits, time,
// bytes and energy. It knows programs and architectures and nothing of graphs.
//
//	m, err := emulator.Load(program, chip)
//	report, outputs, err := m.Run(ctx, inputs, emulator.Options{})
//
// The functional core (emulator/functional) and the timing model
// (emulator/timing) walk the same instruction streams (emulator/sequence) with
// the same idea of what an instruction touches (emulator/effect), each without
// the other: outputs do not depend on the mode, cycles do not depend on data.
// emulator/energy prices the counters.
//
// Read machine.go, report.go, trace.go, then effect, functional and timing. To
// add an instruction, see the doc.go of those three.
package emulator
