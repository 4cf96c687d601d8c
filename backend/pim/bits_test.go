package pim

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
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
				b.WriteString(strconv.FormatInt(in.Args[i], 10))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestBits compiles random fixed-point graphs for several chips and numbers of
// clusters and compares what the programs compute with the evaluator, bit for bit.
func TestBits(t *testing.T) {
	refused := map[string]int{}
	var ran, spilled, streamed, split, fused int
	rapid.Check(t, func(t *rapid.T) {
		o := irtest.Options{}
		if rapid.Bool().Draw(t, "large") {
			o = irtest.Options{MaxDim: 24, MaxElems: 30000}
		}
		g, in := fixedGraph(t, o)
		for _, c := range []*arch.Chip{tinyChip(), manyChip()} {
			c.Scratchpad.Bytes = fig(float64(int(1024) << rapid.IntRange(2, 8).Draw(t, "scratchpad")))
			p, err := choose(g, c, Options{Clusters: rapid.IntRange(1, c.NumClusters()).Draw(t, "clusters")})
			if err != nil {
				refused[err.Error()]++
				continue
			}
			ran++
			count(p, &spilled, &streamed, &split, &fused)
			if err := p.check(); err != nil {
				t.Fatalf("%v\n%v", err, g)
			}
			prog, err := p.program(Options{})
			if err != nil {
				t.Fatalf("%v", err)
			}
			if err := isa.Validate(prog); err != nil {
				t.Fatalf("%v\n%v", err, g)
			}
			sameBits(t, g, c, prog, in)
		}
	})
	t.Logf("%d programs ran, %d spilled, %d streamed weights, %d split over clusters, %d fused, %d refused", ran, spilled, streamed, split, fused, len(refused))
	for k, n := range refused {
		t.Logf("%d × %s", n, k)
	}
	if ran == 0 || spilled == 0 || streamed == 0 || split == 0 || fused == 0 {
		t.Error("some way of running a program was never taken")
	}
}

func count(p *plan, spilled, streamed, split, fused *int) {
	some := func(n *int, ok bool) {
		if ok {
			*n++
		}
	}
	some(fused, slices.ContainsFunc(p.stores, func(s *store) bool { return s.inner }))
	some(spilled, slices.ContainsFunc(p.stores, func(s *store) bool { return s.spilled }))
	some(streamed, slices.ContainsFunc(p.steps, func(s *step) bool {
		k, ok := s.kernel.(*product)
		return ok && different(k.parts)[0].streamed
	}))
	some(split, slices.ContainsFunc(p.steps, func(s *step) bool { return len(s.parts) > 1 && !s.parts[1].empty() }))
}

// dramTraffic counts the bytes that one run of the streams moves between DRAM
// and the chip.
func dramTraffic(c *arch.Chip, streams []isa.Stream) (n int64) {
	for _, s := range streams {
		for _, in := range s.Insts {
			a := in.Args
			switch in.Op {
			case isa.OpLoad, isa.OpStore:
				n += a[isa.LoadN2] * a[isa.LoadN1] * a[isa.LoadLen]
			case isa.OpLoadW:
				n += a[isa.LoadWKtiles] * a[isa.LoadWNtiles] * c.TileBytes(int(a[isa.LoadWWbits]))
			}
		}
	}
	return n
}

// ioBytes returns the size of a program's inputs and outputs.
func ioBytes(p *isa.Program) (n int64) {
	for _, ios := range [][]isa.IO{p.Inputs, p.Outputs} {
		for i := range ios {
			b, err := ios[i].Bytes()
			if err != nil {
				panic(err)
			}
			n += b
		}
	}
	return n
}
