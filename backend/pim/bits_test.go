package pim

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/functional"
	"situ/ir"
	"situ/ir/eval"
	"situ/ir/irtest"
)

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// tensorBytes returns a tensor as the machine exchanges it.
func tensorBytes(t *ir.Tensor) []byte {
	switch d := t.Any().(type) {
	case []int8:
		b := make([]byte, len(d))
		for i, v := range d {
			b[i] = byte(v)
		}
		return b
	case []uint8:
		return d
	case []float32:
		var b []byte
		for _, v := range d {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	panic("no bytes of " + t.DType.String())
}

// sameBits runs a program and the evaluator and compares every output.
func sameBits(t fataler, g *ir.Graph, c *arch.Chip, p *isa.Program, in []*ir.Tensor) {
	t.Helper()
	e, err := eval.New(g)
	if err != nil {
		t.Fatalf("%v", err)
	}
	want, err := e.Run(context.Background(), in, eval.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	m, err := functional.New(p, c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var raw [][]byte
	for _, x := range in {
		raw = append(raw, tensorBytes(x))
	}
	for range 2 { // memories are not as new the second time
		got, err := m.Run(context.Background(), raw)
		if err != nil {
			t.Fatalf("%s, %d clusters: %v\n%v", c.Name, len(p.Main), err, g)
		}
		for i := range want {
			w := tensorBytes(want[i])
			if k := firstDifference(got[i], w); k >= 0 {
				t.Fatalf("%s, %d clusters, output %d (%v): byte %d of %d differs\ngot  % x\nwant % x\n%v\n%s", c.Name, len(p.Main), i, want[i].Shape, k, len(w),
					clip(got[i], k), clip(w, k), g, listing(p))
			}
		}
	}
}

func clip(b []byte, at int) []byte { return b[at:min(at+32, len(b))] }

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// listing is a program in short, for failures.
func listing(p *isa.Program) string {
	var b strings.Builder
	for j, s := range p.Main {
		if len(s.Insts) > 200 {
			continue
		}
		b.WriteString("cluster " + string(rune('0'+j)) + "\n")
		for _, in := range s.Insts {
			b.WriteString("  " + in.Op.String())
			for i, o := range in.Op.Info().Operands {
				b.WriteString(" " + o.Name + "=")
				b.WriteString(itoa(in.Args[i]))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func itoa(v int64) string { return strings.TrimSpace(strings.Join([]string{formatInt(v)}, "")) }

func formatInt(v int64) string {
	if v < 0 {
		return "-" + formatInt(-v)
	}
	if v < 10 {
		return string(rune('0' + v))
	}
	return formatInt(v/10) + string(rune('0'+v%10))
}

// TestBits compiles random fixed-point graphs for several chips and numbers of
// clusters and compares what the programs compute with the evaluator, bit for bit.
func TestBits(t *testing.T) {
	chips := []*arch.Chip{tinyChip(), manyChip()}
	failed := map[string]int{}
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		g, in := fixedGraph(t, irtest.Options{})
		for _, c := range chips {
			o := Options{Clusters: rapid.IntRange(1, c.NumClusters()).Draw(t, "clusters")}
			p, err := Compile(g, c, o)
			if err != nil {
				failed[err.Error()]++
				continue
			}
			ran++
			sameBits(t, g, c, p, in)
		}
	})
	t.Logf("%d ran", ran)
	for k, n := range failed {
		t.Logf("%d × %s", n, k)
	}
}
