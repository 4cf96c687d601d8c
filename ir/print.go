package ir

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// inlineElems is the largest number of elements a constant has that is written
// in the text itself; larger ones are written as a hash (see Side).
const inlineElems = 32

// Print writes the textual form of g, one line a value:
//
//	graph "digits" {
//	  %0 = input "image" : f32[1,28,28,1]
//	  %1 = const "w" : i8[2,1,1,1] scale=[0.5, 0.25] zero=0 axis=0 {1, -3}
//	  %2 = const "fc" : f32[1024,10] sha256:9f86d0…
//	  %3 "relu_out" = relu %0 : f32[1,28,28,1] @ "layer1/relu"
//	  output %3
//	}
//
// A described constant has "described std=0.02" in place of its elements.
//
// The name after @ is the operator's; a result has the same name unless one
// stands before "=". Absent operands are "_". Attributes equal to the defaults
// of the operator table are left out. Constants stand before the first
// operator that follows them in id order. Print works on graphs that Verify
// refuses, too, which then need not parse.
func Print(w io.Writer, g *Graph) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "graph %s {\n", strconv.Quote(g.Name))
	done := make([]bool, len(g.Values)) // printed, or printed later by its operator
	for _, id := range g.Inputs {
		if int(id) < len(done) && id >= 0 {
			done[id] = true
		}
		fmt.Fprintf(b, "  %%%d = input %s\n", id, g.describeValue(id))
	}
	for i := range g.Ops {
		if o := g.Ops[i].Out; int(o) < len(done) && o >= 0 {
			done[o] = true
		}
	}
	next := 0
	rest := func(end int) {
		for ; next < end && next < len(done); next++ {
			if !done[next] {
				g.printConst(b, ValueID(next))
			}
		}
	}
	for i := range g.Ops {
		rest(int(g.Ops[i].Out))
		g.printOp(b, &g.Ops[i])
	}
	rest(len(done))
	for i, id := range g.Outputs {
		if i == 0 {
			b.WriteString("  output ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(id.String())
	}
	if len(g.Outputs) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Flush()
}

// String returns the textual form of g; see Print.
func (g *Graph) String() string {
	var b strings.Builder
	Print(&b, g) // a strings.Builder does not fail
	return b.String()
}

// String returns the form used in text: "%3", or "_" for NoValue.
func (id ValueID) String() string {
	if id == NoValue {
		return "_"
	}
	return "%" + strconv.Itoa(int(id))
}

// describeValue returns name and type of a value that may not exist.
func (g *Graph) describeValue(id ValueID) string {
	if id < 0 || int(id) >= len(g.Values) {
		return `"" : invalid[]`
	}
	return strconv.Quote(g.Values[id].Name) + " : " + g.Values[id].Type.String()
}

func (g *Graph) printConst(b *bufio.Writer, id ValueID) {
	c := g.Values[id].Const
	if c == nil {
		fmt.Fprintf(b, "  // %s %s is not defined\n", id, g.describeValue(id))
		return
	}
	fmt.Fprintf(b, "  %s = const %s ", id, g.describeValue(id))
	if c.described {
		fmt.Fprintf(b, "described std=%s\n", formatF32(c.std))
		return
	}
	if c.Numel() > inlineElems {
		fmt.Fprintf(b, "sha256:%s\n", c.sum())
		return
	}
	b.WriteByte('{')
	writeElems(b, c)
	b.WriteString("}\n")
}

// writeElems writes the elements of a small constant. F16 and BF16 are written
// as bit patterns.
func writeElems(b *bufio.Writer, t *Tensor) {
	switch s := t.data.(type) {
	case []float32:
		writeEach(b, s, formatF32)
	case []float64:
		writeEach(b, s, formatF64)
	case []uint16:
		if t.DType.IsFloat() {
			writeEach(b, s, func(v uint16) string { return fmt.Sprintf("%#04x", v) })
		} else {
			writeEach(b, s, formatInt)
		}
	case []int8:
		writeEach(b, s, formatInt)
	case []uint8:
		writeEach(b, s, formatInt)
	case []int16:
		writeEach(b, s, formatInt)
	case []int32:
		writeEach(b, s, formatInt)
	case []uint32:
		writeEach(b, s, formatInt)
	case []int64:
		writeEach(b, s, formatInt)
	case []uint64:
		writeEach(b, s, formatInt)
	}
}

func formatInt[T Elem](v T) string { return fmt.Sprint(v) }

func writeEach[T Elem](b *bufio.Writer, s []T, format func(T) string) {
	for i, v := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(format(v))
	}
}

func (g *Graph) printOp(b *bufio.Writer, op *Op) {
	t, name := Type{}, op.Name
	if op.Out >= 0 && int(op.Out) < len(g.Values) {
		t, name = g.Values[op.Out].Type, g.Values[op.Out].Name
	}
	fmt.Fprintf(b, "  %s ", op.Out)
	if name != op.Name {
		fmt.Fprintf(b, "%s ", strconv.Quote(name))
	}
	fmt.Fprintf(b, "= %s %s%s : %s", op.Kind, idList(op.In), formatAttr(op.Kind, op.Attr), t)
	if op.Name != "" {
		fmt.Fprintf(b, " @ %s", strconv.Quote(op.Name))
	}
	b.WriteByte('\n')
}

func idList(ids []ValueID) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = id.String()
	}
	return strings.Join(s, ", ")
}

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
		b.WriteString(t.Quant.String())
	}
	return b.String()
}

// String returns the quantisation in the textual form: "scale=0.5 zero=-3", or
// "scale=[0.5, 0.25] zero=0 axis=0", where a zero point shared by all is
// written once, as is a shift of all. Blocks follow: "block=32 shift=[0, 3]".
func (q *Quant) String() string {
	var b strings.Builder
	b.WriteString("scale=")
	writeList(&b, q.Scale, q.Axis == -1, formatF32)
	zero, bare := q.Zero, q.Axis == -1
	if !bare && len(zero) == len(q.Scale) && allEqual(zero) {
		zero, bare = zero[:1], true
	}
	b.WriteString(" zero=")
	writeList(&b, zero, bare, formatInt)
	if q.Axis != -1 {
		fmt.Fprintf(&b, " axis=%d", q.Axis)
	}
	if q.Block > 0 {
		fmt.Fprintf(&b, " block=%d shift=", q.Block)
		if shift := q.Shift; allEqual(shift) {
			writeList(&b, shift[:1], true, formatInt)
		} else {
			writeList(&b, shift, false, formatInt)
		}
	}
	return b.String()
}

func allEqual[T comparable](s []T) bool {
	for _, v := range s {
		if v != s[0] {
			return false
		}
	}
	return len(s) > 0
}

// writeList writes "[a, b]", or "a" for a single item when bare is set.
func writeList[T Elem](b *strings.Builder, s []T, bare bool, format func(T) string) {
	if len(s) == 1 && bare {
		b.WriteString(format(s[0]))
		return
	}
	b.WriteByte('[')
	for i, v := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(format(v))
	}
	b.WriteByte(']')
}
