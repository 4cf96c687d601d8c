// Package passes turns an imported graph into the fixed-point graph that every
// back end executes.
//
// Passes is the literal list, in order. A pass is a function from graph to graph:
// it never changes the graph it is given but builds a new one with a rewriter
// (rewrite.go), so that a rule may look at the old graph while it writes the new.
// Run times each pass, verifies the graph after each and can print it. All but
// quantise and fix may be left out and what comes out means the same.
//
// The road of a float model: canonicalise and fold make the graph small, layout
// removes the NCHW↔NHWC transposes, fuse puts batch normalisation, bias and
// activation into the products, equalise makes channels alike in range, calibrate
// watches the values of sample inputs, and quantise writes its choice of scales into
// the graph as quantize/dequantize pairs. A model that came quantised has such pairs
// already and skips the last three. From there on the road is one: fix turns every "dequantize, operator,
// quantize" into the operator on codes, and legalise tidies the codes for
// hardware. What has no fixed-point form stays in float32 between a dequantize
// and a quantize, and Fallbacks names it and its share of the work.
//
// What may remain after legalise: conv2d, matmul, add, sub, mul, avgpool,
// reducemean, reducesum and softmax on codes, with int32 results where float32
// follows a product; maxpool, reducemax, reducemin, reshape, transpose, concat,
// slice, pad, expand and gather, which move codes; lut and requantize; quantize
// and dequantize at the borders; and the float32 operators that Fallbacks lists.
// Constant weights are int8 or int4, nearly always with zero point 0.
//
// The quality of a float model's codes rests on six things: channels alike in range
// (equalise.go), the ranges (calibrate.go), the choice of values that have codes at all (quantise.go), the
// bias correction (correct.go), for int4 weights rounding with error feedback
// (feedback.go), and more bits for the layers that lose most (precision.go, with
// noise.go and parts.go).
//
// To add a pass: one file with one function, one row in Passes with its reasons
// for standing where it stands, one txtar file in testdata. Read pass.go,
// rewrite.go, then the passes in the order of the list.
package passes
