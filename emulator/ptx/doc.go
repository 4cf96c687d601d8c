// Package ptx runs PTX text, the assembly language of NVIDIA GPUs, and counts
// what it does: the same text that a driver would load, without a device.
//
//	m, err := ptx.Parse(text, "kernels.ptx")
//	mem := ptx.NewMemory(1 << 30)
//	a, err := mem.Alloc("a", 4096)
//	counters, err := m.Launch(ctx, "gemm", ptx.LaunchConfig{
//		Grid: [3]int{8, 8}, Block: [3]int{128},
//		Args: []ptx.Arg{ptx.U64(a), ptx.S32(64)}, Memory: mem,
//	})
//
// Text is parsed once (lex.go, parse.go, parse_kernel.go). Each entry point is
// then compiled (compile.go): every instruction is selected to a function and
// register indices (select.go and the files of its operations), branches get
// the place where a warp's lanes meet again (flow.go), and registers that are
// never alive together share a place (allocate.go). A launch (launch.go) runs
// blocks on several goroutines (worker.go), warps of 32 threads in lock step
// (warp.go). Global accesses become sectors (traffic.go) that go through an L1
// of the block and, in the order of the grid (order.go), through one L2
// (cache.go, footprint.go). What is modelled and what is not is on
// docs/ptx.md.
//
// What makes it fast: operations on all lanes in a machine's vectors (lanes.go and
// the files of a machine), the shapes of accesses, which are worked out once
// (shape.go), and what one launch leaves for the next (spare.go).
//
// To add an operation on single lanes, add a row in alu32.go, alu64.go or
// float.go, and a line to the table of ops_test.go that says in Go what it
// does; a form for vectors is another row in the tables of lanes.go. To add another
// instruction, add a case in compiler.sel (select.go) with a function that reads the
// operands by src and dst, which also tell the register allocator what is read and
// written.
package ptx
