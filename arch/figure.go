package arch

// Figure is one number of a description with where it comes from. In YAML it is
// written as a mapping: {value: 64, source: "…", confidence: P}.
type Figure struct {
	Value      float64 `yaml:"value"`
	Source     string  `yaml:"source"`     // the publication, or the reasoning of an assumption
	Confidence string  `yaml:"confidence"` // a key of Confidences
}

// Int returns the value as an integer; descriptions are validated to hold whole
// numbers where the field counts things.
func (f Figure) Int() int64 { return int64(f.Value) }

// Text is a fact that is not a number.
type Text struct {
	Value      string `yaml:"value"`
	Source     string `yaml:"source"`
	Confidence string `yaml:"confidence"`
}

// Confidences says what the confidence of a figure means.
var Confidences = map[string]string{
	"P": "read in the primary source",
	"S": "read in a secondary source: press, a survey, a vendor's claim relayed",
	"D": "own arithmetic on figures of the other kinds",
	"M": "known from the literature, not looked up again",
	"A": "own assumption; the source text gives the reason",
}

// The struct tags of description fields:
//
//	yaml:"key"        key in the file
//	unit:"GB/s"       unit of the figure, for people
//	check:"count"     whole number of at least 1
//	check:"fraction"  above 0 and at most 1
//	                  (none: a positive number)
//	max:"4096"        largest accepted value; descriptions beyond it are absurd
//	optional:"yes"    may be left out, and then enters no fingerprint
//	energy:"yes"      energy or power: not part of the fingerprint
//	area:"yes"        only areas follow from it: not part of the fingerprint
