// Package report draws results for people: tables for a terminal and a
// self-contained HTML page.
package report

import (
	"fmt"
	"math"
)

// Unit formats v with three significant digits and an SI prefix: 0.00123 s is
// "1.23 ms".
func Unit(v float64, unit string) string {
	if v == 0 {
		return "0 " + unit
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	prefixes := []string{"f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"}
	e := int(math.Floor(math.Log10(math.Abs(v)) / 3))
	// Rounding to three digits may carry into the next prefix: 999.6 is "1.00 k".
	if math.Abs(v)/math.Pow(1000, float64(e)) >= 999.5 {
		e++
	}
	e = max(-5, min(e, len(prefixes)-6))
	return digits(v/math.Pow(1000, float64(e))) + " " + prefixes[e+5] + unit
}

// digits formats with three significant digits, without an exponent.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Bytes formats a number of bytes: 1,500 is "1.50 kB".
func Bytes(n int64) string { return Unit(float64(n), "B") }

// Times formats a ratio for a sentence: "3.2×", "140×".
func Times(r float64) string { return digits(r) + "×" }
