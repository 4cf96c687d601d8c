package runtime

import (
	"fmt"
	"strings"
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

// weightFormat finds a format by name; "" is the first.
func weightFormat(name string) (format, error) {
	for _, f := range formats {
		if f.name == name || name == "" {
			return f, nil
		}
	}
	return format{}, fmt.Errorf("no weight precision %q; there are %s", name, strings.Join(WeightFormats(), ", "))
}
