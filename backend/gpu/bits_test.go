package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"situ/emulator/ptx"
	"situ/ir"
	"situ/ir/eval"
	"situ/ir/irtest"
)

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// emulate runs a program on the PTX emulator and returns its outputs, and what
// each launch did. The arena holds noise before, so that reading what was never
// written shows.
func emulate(t fataler, p *Program, in []*ir.Tensor) (out [][]byte, counts []*ptx.Counters) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	m, err := ptx.Parse(p.PTX, PTXFile)
	must(err)
	mem := ptx.NewMemory(1 << 30)
	base := map[string]uint64{}
	for _, b := range p.Buffers {
		base[b.Name], err = mem.Alloc(b.Name, int(max(b.Bytes, 1)))
		must(err)
	}
	noise := make([]byte, p.Buffers[0].Bytes)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	must(mem.Write(base[Arena], noise))
	must(mem.Write(base[Constants], p.Constants))
	for i, port := range p.Inputs {
		must(mem.Write(base[port.Buffer]+uint64(port.Offset), tensorBytes(in[i])))
	}
	for _, l := range p.Launches {
		cfg := ptx.LaunchConfig{Grid: l.Grid, Block: l.Block, SharedBytes: l.Shared, Memory: mem}
		for _, a := range l.Args {
			cfg.Args = append(cfg.Args, ptx.U64(base[a.Buffer]+uint64(a.Offset)))
		}
		c, err := m.Launch(context.Background(), l.Kernel, cfg)
		if err != nil {
			t.Fatalf("%s %q: %v", l.Op, l.Node, err)
		}
		counts = append(counts, c)
	}
	for _, port := range p.Outputs {
		b := make([]byte, port.Bytes)
		must(mem.Read(base[port.Buffer]+uint64(port.Offset), b))
		out = append(out, b)
	}
	return out, counts
}

// sameBits compares every output of a program with the evaluator's. Where float32
// functions were computed, float32 results may be neighbours.
func sameBits(t fataler, g *ir.Graph, p *Program, in []*ir.Tensor) {
	t.Helper()
	e, err := eval.New(g)
	if err != nil {
		t.Fatalf("%v", err)
	}
	want, err := e.Run(context.Background(), in, eval.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	got, _ := emulate(t, p, in)
	for i := range want {
		w := tensorBytes(want[i])
		if bytes.Equal(got[i], w) || want[i].DType == ir.F32 && inexact(g) && neighbours(got[i], ir.Data[float32](want[i])) {
			continue
		}
		at := 0
		for got[i][at] == w[at] {
			at++
		}
		t.Fatalf("output %d (%s %v): byte %d of %d differs\ngot  % x\nwant % x\n%v", i, want[i].DType, want[i].Shape, at, len(w),
			got[i][at:min(at+32, len(w))], w[at:min(at+32, len(w))], g)
	}
}

// neighbours reports whether float32 values are the same or next to each other.
func neighbours(got []byte, want []float32) bool {
	for i, w := range want {
		g := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:]))
		if g != w && g != math.Nextafter32(w, g) {
			return false
		}
	}
	return true
}

// inexact reports whether a graph computes float32 functions whose last bit may
// differ from the evaluator's.
func inexact(g *ir.Graph) bool {
	for i := range g.Ops {
		op := &g.Ops[i]
		if _, fn := floatFns[op.Kind]; fn || (op.Kind == ir.Softmax || op.Kind == ir.LogSoftmax) && g.Type(op.Out).DType == ir.F32 {
			return true
		}
	}
	return false
}

// TestBits compiles random fixed-point graphs and compares what the PTX computes
// with the evaluator, bit for bit.
func TestBits(t *testing.T) {
	c, a := needLLC(t), h100(t)
	ran, fused := 0, 0
	families := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		o := irtest.Options{}
		if rapid.Bool().Draw(t, "large") {
			o = irtest.Options{MaxDim: 24, MaxElems: 30000}
		}
		g, in := fixedGraph(t, o)
		p, err := Compile(g, a)
		if err != nil || inexact(g) {
			return
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatalf("%v", err)
		}
		sameBits(t, g, p, in)
		ran++
		for _, l := range p.Launches {
			families[l.Kernel[:len(l.Kernel)-2]]++
			fused += len(l.Fused)
		}
	})
	t.Logf("%d graphs ran, %d operators fused, launches %v", ran, fused, families)
	if ran == 0 {
		t.Error("nothing ran")
	}
}
