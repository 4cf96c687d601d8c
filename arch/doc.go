// Package arch describes hardware: processing-in-memory cards (Chip) and GPUs
// (GPU), each figure with where it comes from.
//
// A description is a YAML file. Every number is a mapping of value, source and
// confidence, so that a result can be traced to the figures it rests on:
//
//	clock_mhz: {value: 1144, source: "2400 TOPS / (2048 cores × …)", confidence: D}
//
// Units are part of the key. Unknown keys are refused with line and column. A
// variant names a preset in based_on and states only what differs; a figure is
// replaced as a whole, so a changed value never keeps the old source.
//
// To add an architecture: write presets/NAME.yaml (start from the nearest one
// with based_on), run `go test ./arch -update` to record its table, and add its
// published peaks to derived_test.go. To add a figure: add the field with its
// yaml, unit and check tags in chip.go or gpu.go, and a value in each preset;
// parsing, validation, the printed table and the fingerprint follow from the
// tags.
//
// Read figure.go, chip.go, gpu.go, parse.go, validate.go, derived.go, in this
// order.
package arch
