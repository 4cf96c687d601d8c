// Package runtime is what a user of situ calls: open a model, quantise it, run
// it on a target, compare targets, check conformance folders.
//
// Read model.go (what a model is), prepare.go (from ONNX to a fixed-point
// graph), run.go (one model on one target), compare.go and check.go. To add a
// kind of target: give it a case in Open of target.go and a runner that fills a
// Result.
package runtime
