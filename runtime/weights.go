package runtime

import (
	"fmt"
	"strings"

	"situ/passes"
)

// format is a format of weights.
type format struct {
	name   string
	bits   int
	blocks bool
}

var formats = []format{{"int8", 8, false}, {"int4", 4, false}, {"mxint8", 8, true}, {"mxint4", 4, true}}

// WeightFormats lists what the weights of float models may become.
func WeightFormats() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// WeightBits returns the bits that a weight of a format takes in memory, its share of
// a block's exponent included, 0 when there is no such format.
func WeightBits(name string) float64 {
	for _, f := range formats {
		if f.name != name {
			continue
		}
		bits := float64(f.bits)
		if f.blocks {
			bits += 8.0 / passes.BlockSize
		}
		return bits
	}
	return 0
}

// weightFormat finds a format by name; "" is the first.
func weightFormat(name string) (format, error) {
	for _, f := range formats {
		if f.name == name || name == "" {
			return f, nil
		}
	}
	return format{}, fmt.Errorf("no weight precision %q; there are %s", name, strings.Join(WeightFormats(), ", "))
}
