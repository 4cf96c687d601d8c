// Package timing says how long a program takes and what it moves, from its
// instructions and the architecture alone: no data is needed, so a model need
// not be held to be timed.
//
// Each cluster's sequencer issues its stream in order to four units, each of
// which works in order. An instruction starts when it has been issued, its unit
// is free, and the scoreboard says that what it reads is written and what it
// writes is no longer needed. Clusters run on time lines of their own; where
// they meet (DRAM, network, barriers) the earliest goes first. Time is integer
// picoseconds; nothing depends on map order or on the host, so the same program
// always gives the same figures.
//
// Read counters.go (what is counted), rates.go (the chip in picoseconds),
// cost.go (cycles and bytes of each instruction), array.go (the arrays),
// scoreboard.go (hazards), booking.go and network.go (mesh, die links, DRAM),
// run.go (the event loop) and execute.go (one instruction).
//
// To add an instruction: its regions come from emulator/effect; add its case to
// cost.go. A test fails when an instruction has none.
package timing
