package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// String returns the type in the textual form, such as
// "i8[1,28,28,8] scale=0.0413 zero=-3".
func (t Type) String() string {
	var b strings.Builder
	b.WriteString(t.DType.String())
	b.WriteByte('[')
	for i, d := range t.Shape {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	if t.Quant != nil {
		b.WriteByte(' ')
		b.WriteString(quantString(t.Quant))
	}
	return b.String()
}

// quantString is the textual form of a quantisation; a zero point that is the
// same for all of several scales is written once.
func quantString(q *Quant) string {
	if q == nil {
		return "none"
	}
	var b strings.Builder
	b.WriteString("scale=")
	writeList(&b, len(q.Scale), q.Axis == -1, func(i int) string { return formatFloat(float64(q.Scale[i]), 32) })
	b.WriteString(" zero=")
	zero := q.Zero
	if len(zero) == len(q.Scale) && q.Axis != -1 && len(zero) > 0 && allEqual(zero) {
		zero = zero[:1]
	}
	writeList(&b, len(zero), true, func(i int) string { return strconv.Itoa(int(zero[i])) })
	if q.Axis != -1 {
		fmt.Fprintf(&b, " axis=%d", q.Axis)
	}
	return b.String()
}

func allEqual(s []int32) bool {
	for _, v := range s {
		if v != s[0] {
			return false
		}
	}
	return true
}

// writeList writes "[a, b]", or "a" for a single item when bare is set.
func writeList(b *strings.Builder, n int, bare bool, item func(i int) string) {
	if n == 1 && bare {
		b.WriteString(item(0))
		return
	}
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(item(i))
	}
	b.WriteByte(']')
}

// formatFloat writes the shortest text that reads back as the same float of the
// given width; NaN carries its bits, as in nan(0x7fc00000).
func formatFloat(v float64, bits int) string {
	if math.IsNaN(v) {
		if bits == 32 {
			return fmt.Sprintf("nan(%#x)", math.Float32bits(float32(v)))
		}
		return fmt.Sprintf("nan(%#x)", math.Float64bits(v))
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}
