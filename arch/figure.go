package arch

// Figure is one number of a description with where it comes from. In YAML it is
// written as a mapping: {value: 64, source: "…", confidence: P}.
type Figure struct {
	Value      float64 `yaml:"value"`
	Source     string  `yaml:"source"`
	Confidence string  `yaml:"confidence"` // P, S, D or M: primary, secondary, derived, from memory; A: own assumption
}

// Int returns the value as an integer; descriptions are validated to hold whole
// numbers where the field counts things.
func (f Figure) Int() int64 { return int64(f.Value) }
