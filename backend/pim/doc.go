// Package pim compiles fixed-point graphs for processing-in-memory chips: it
// decides what runs in the arrays and what on the vector unit, splits every
// layer over clusters and cores, finds a place for every byte, and writes the
// instruction streams.
//
// # The road of a graph
//
//	lower     operators become steps: a kernel, operands, a result (lower.go, rules*.go).
//	          Reshapes, slices and concatenations become windows on shared stores.
//	fold      products of two activations read and write across transposes (fold.go, access.go)
//	split     each step is split over clusters along one or two axes, whichever is
//	          fastest with what has to be fetched from others (split.go, fetch.go, cost.go)
//	weights   products are mapped on cores (mapping.go); weights stay in the weight SRAMs,
//	          or are streamed through a ring when they do not all fit (weights.go)
//	place     every store gets an address; when the scratchpad is too small, stores
//	          are spilled to DRAM and the steps around them run in strips (place.go, spill.go)
//	fuse      steps are joined into groups that run depth-first, so that what they
//	          spilled never leaves the chip (fuse.go, traffic.go)
//	generate  image.go packs the DRAM image, codegen.go and the kernels write instructions
//	check     check.go proves the placement sound, in every compilation
//
// A Planner (planner.go) goes the same road for many chips without packing weights,
// for the timing model alone; what it can keep from chip to chip it keeps
// (splits.go, cutting.go). bound.go says what no program can do better than.
//
// The number of clusters and the effort are chosen by estimate, then by what spilling
// costs where everything has its place (compile.go): an option is looked at more closely
// only while it may be the best. Efforts to keep all weights on the chip go from quick
// products over few copies to streaming, which is for where nothing else fits.
//
// A batch whose activations do not fit is cut into rounds (planner.go): the graph is
// lowered for fewer entries, and the main streams are written once for each round, on
// other entries of inputs and outputs. Weights are shared and stay.
//
// # Ideas
//
// Every tensor is seen under four dimensions, [batch, rows, columns, channels].
// A box is a region of them; a view says where elements lie in some memory. A
// kernel (model.go) can say which box of its operands a box of its result needs,
// and emit the instructions that compute a box from views. Splitting over
// clusters, borders of convolutions, halos between clusters, and strips of
// spilled tensors are all that one idea: a box may be any part of the result,
// and a view any buffer.
//
// A store holds the same box of a tensor at the same scratchpad address on each
// cluster that needs it; the boxes differ. What a cluster computes and another
// needs is sent as soon as the step is done, and clusters meet at a barrier
// before the first step that reads what was sent.
//
// A product of two activations (pair.go) is split by its matrices, the heads of an
// attention, wherever it can: a cluster then needs nothing of another's. Its second
// operand goes into the weight SRAMs while it runs, behind the weights, in two
// halves; what is spilled goes there from DRAM.
//
// A state, such as the cache of a decoder, is a store that lives from the first step
// to the last and on (state.go). Steps that take it from an input run once, in the
// init streams; the last steps of a run, updaters, put what is new into its place, which
// an address register moves on from run to run. keep.go says which states stay in the
// scratchpads, and on which clusters.
//
// A group is a row of steps cut into strips of its last result. A strip works
// its way back: each step computes what the next one needs and the strip before
// has not left behind. Single steps with spilled operands are groups of one.
//
// # Reading order
//
// geom.go, model.go, lower.go, rules.go, rules_move.go, rules_product.go,
// rules_pair.go; the kernels vector.go, window.go, product.go, pair.go with access.go
// and pair_map.go, move.go, float.go; state.go; fold.go; cost.go, mapping.go,
// split.go, fetch.go, splits.go, keep.go, weights.go, place.go, spill.go, cutting.go,
// traffic.go, fuse.go; image.go, emit.go,
// codegen.go; compile.go and check.go. The programs in
// testdata show what comes out.
//
// To add an operator: a rule in rules.go, and a kernel if no present one serves.
package pim
