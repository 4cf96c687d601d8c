// Package functional computes what a program computes: the bytes in every
// memory, exactly, and nothing about time. Arithmetic comes from internal/gemm,
// internal/fixed and internal/vecf32, which the reference evaluator uses too.
//
// Clusters run independently between barriers, on as many workers as there are
// processors; when fewer clusters are runnable, a large mvm is split over the
// idle ones. Weights are unpacked from the DRAM image once, in the order the
// kernels want, and shared by all clusters that use them.
//
// Read machine.go (memories, running a program), schedule.go (workers and
// barriers), exec.go (one instruction), then move.go, mvm.go, weights.go,
// codes.go, window.go and float.go (what each does).
//
// To add an instruction: add its regions in emulator/effect, its function to
// the table in exec.go, and a case with an independent definition to the tests.
package functional
