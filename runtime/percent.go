package runtime

import (
	"math"
	"strconv"
)

// Percent formats a share for people: two decimals, one from 10 % on, and two
// significant digits below 0.1 %, never with an exponent: 0.000032 is "0.0032 %".
func Percent(share float64) string {
	p := 100 * share
	decimals := 2
	switch a := math.Abs(p); {
	case p == 0:
		return "0 %"
	case math.IsNaN(p) || math.IsInf(p, 0):
		return "–"
	case a >= 10:
		decimals = 1
	case a < 0.1:
		decimals = 1 - int(math.Floor(math.Log10(a)))
		// As few digits as say the same: 0.0004, not 0.00040.
		p, _ = strconv.ParseFloat(strconv.FormatFloat(p, 'f', decimals, 64), 64)
		return strconv.FormatFloat(p, 'f', -1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', decimals, 64) + " %"
}
