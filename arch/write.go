package arch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
)

// WriteYAML writes the whole description, every figure with its source, so that
// Parse reads the same one, to the last bit of each figure, whatever presets say.
func (c *Chip) WriteYAML(w io.Writer) error {
	full := *c
	full.BasedOn = ""
	b := bufio.NewWriter(w)
	writeFields(b, reflect.ValueOf(full), "")
	return b.Flush()
}

// writeFields writes the fields of a description struct that are not empty.
func writeFields(w *bufio.Writer, v reflect.Value, indent string) {
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		if key == "" || v.Field(i).IsZero() {
			continue
		}
		fmt.Fprintf(w, "%s%s:", indent, key)
		switch x := v.Field(i).Interface().(type) {
		case string:
			fmt.Fprintf(w, " %s\n", quoted(x))
		case Figure:
			fmt.Fprintf(w, " {value: %s, source: %s, confidence: %s}\n", decimal(x.Value), quoted(x.Source), x.Confidence)
		case Text:
			fmt.Fprintf(w, " {value: %s, source: %s, confidence: %s}\n", quoted(x.Value), quoted(x.Source), x.Confidence)
		default:
			fmt.Fprintln(w)
			writeFields(w, v.Field(i), indent+"  ")
		}
	}
}

// decimal writes a number so that it is read back the same, whole ones in full.
func decimal(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// quoted writes text as JSON does, which YAML reads.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("arch: text that JSON cannot hold: " + err.Error()) // it holds every string
	}
	return string(bytes.TrimRight(b.Bytes(), "\n"))
}
