// Package explore finds the designs of a space that no other design beats: it
// reads a space of architectures, proposes points, discards most of them by
// bounds and estimates, emulates the rest, and keeps everything it learnt in a
// store.
//
// Read space.go and parse.go (what a space is), expr.go, design.go (a point made
// into a chip), evaluate.go (the stages), pareto.go, search.go, funnel.go (how
// stages discard), run.go. Package store is the SQLite file; package page draws
// a run.
//
// To add an objective: its row in space.go and its value in evaluate.go. To add a
// way of searching: its name in space.go and a proposer in search.go.
package explore
