package pim

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
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
	"situ/passes"
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
	}
	b, err := binary.Append(nil, binary.LittleEndian, t.Any())
	if err != nil {
		panic(err)
	}
	return b
}

// sameBits runs a program, which must be valid, and the evaluator and compares
// every output.
func sameBits(t fataler, g *ir.Graph, c *arch.Chip, p *isa.Program, in []*ir.Tensor) {
	t.Helper()
	if err := isa.Validate(p); err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
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
	// A thousand graphs, unless -rapid.checks says otherwise.
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", f.DefValue)
	}
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
			sameBits(t, g, c, prog, in)
		}
	})
	t.Logf("%d programs ran, %d spilled, %d streamed weights, %d split over clusters, %d fused, %d refused", ran, spilled, streamed, split, fused, len(refused))
	for k, n := range refused {
		t.Logf("%d × %s", n, k)
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
		return ok && k.different[0].streamed
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
			case isa.OpLoadA:
				n += a[isa.LoadAK] * a[isa.LoadAN]
			case isa.OpLoadW:
				n += a[isa.LoadWKtiles] * a[isa.LoadWNtiles] * c.TileBytes(arch.Weights{Bits: int(a[isa.LoadWWbits]), Blocks: a[isa.LoadWShifts] != 0})
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

// network is a small residual network with every kind of layer that is treated
// in a way of its own: strided, depthwise, grouped and dilated convolutions, a
// join, a concatenation, pools and a classifier.
func network(t *testing.T, q passes.Quantisation) (*ir.Graph, []*ir.Tensor) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	g := &ir.Graph{Name: "network"}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 1, 24, 24, 3))
	do := func(kind ir.OpKind, name string, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
		id, err := g.Add(kind, name, attr, in...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	conv := func(name string, x ir.ValueID, out, kernel, stride, dilation, groups int) ir.ValueID {
		in := g.Type(x).Shape[3]
		w := irtest.Tensor(rng, 2/math.Sqrt(float64(kernel*kernel*in/groups)), out, kernel, kernel, in/groups)
		pad := dilation * (kernel - 1) / 2
		return do(ir.Conv2D, name, &ir.ConvAttr{Strides: [2]int{stride, stride}, Pads: [4]int{pad, pad, pad, pad},
			Dilations: [2]int{dilation, dilation}, Groups: groups}, x, g.AddConst(name+"/w", w, nil))
	}
	relu := func(x ir.ValueID) ir.ValueID { return do(ir.Relu, "relu", nil, x) }
	stem := relu(conv("stem", x, 16, 3, 1, 1, 1))
	wide := relu(conv("expand", stem, 48, 1, 1, 1, 1))
	deep := relu(conv("depthwise", wide, 48, 3, 1, 1, 48))
	join := do(ir.Add, "join", nil, conv("project", deep, 16, 1, 1, 1, 1), stem)
	half := relu(conv("half", join, 32, 3, 2, 1, 1))
	both := do(ir.Concat, "both", &ir.AxisAttr{Axis: 3}, relu(conv("grouped", half, 24, 3, 1, 1, 4)), relu(conv("dilated", half, 8, 3, 1, 2, 1)))
	pool := do(ir.MaxPool, "pool", &ir.PoolAttr{Kernel: [2]int{3, 3}, Strides: [2]int{2, 2}, Pads: [4]int{1, 1, 1, 1}, Dilations: [2]int{1, 1}}, both)
	mean := do(ir.ReduceMean, "mean", &ir.ReduceAttr{Axes: []int{1, 2}}, pool)
	fc := do(ir.MatMul, "fc", nil, mean, g.AddConst("fc/w", irtest.Tensor(rng, 0.3, 32, 10), nil))
	g.Outputs = []ir.ValueID{do(ir.Softmax, "softmax", &ir.AxisAttr{Axis: 1}, fc)}
	in := []*ir.Tensor{irtest.Tensor(rng, 1, 1, 24, 24, 3)}
	q.Inputs = [][]*ir.Tensor{in}
	res, err := passes.Run(g, passes.Config{Quant: q})
	if err != nil {
		t.Fatal(err)
	}
	return res.Graph, in
}

// TestNetwork runs one network, in each kind of weights and with layers in two
// parts and float32, on chips from ample to hardly sufficient, and
// checks that each forces what it is meant to force.
func TestNetwork(t *testing.T) {
	for _, q := range []passes.Quantisation{{WeightBits: 8}, {WeightBits: 4}, {WeightBits: 4, Blocks: true}, {WeightBits: 8, Blocks: true}, {WeightBits: 8, Mixed: 1}} {
		g, in := network(t, q)
		var spilled, streamed, split, fused int
		sizes, tiles := []int{8, 12, 16, 24, 32, 64}, []int{2, 8, 256}
		if q.Blocks || q.Mixed > 0 {
			sizes, tiles = []int{8, 24, 64}, []int{2, 256}
		}
		for _, kB := range sizes {
			for _, ws := range tiles { // of a core
				c := tinyChip()
				c.Scratchpad.Bytes, c.WeightSRAM.Bytes = fig(float64(kB<<10)), fig(float64(ws*8*16))
				runPlan(t, g, c, 1, in, &spilled, &streamed, &split, &fused)
			}
			c := manyChip()
			c.Scratchpad.Bytes = fig(float64(kB << 10))
			for n := 1; n <= len(sizes); n++ {
				runPlan(t, g, c, n, in, &spilled, &streamed, &split, &fused)
			}
		}
		t.Logf("%d-bit weights, blocks %t, mixed %v: %d spilled, %d streamed, %d split, %d fused", q.WeightBits, q.Blocks, q.Mixed, spilled, streamed, split, fused)
		if spilled == 0 || streamed == 0 || split == 0 || fused == 0 {
			t.Errorf("%d-bit weights, blocks %t, mixed %v: some way of running a program was never taken", q.WeightBits, q.Blocks, q.Mixed)
		}
	}
}

func runPlan(t *testing.T, g *ir.Graph, c *arch.Chip, clusters int, in []*ir.Tensor, spilled, streamed, split, fused *int) {
	t.Helper()
	p, err := choose(g, c, Options{Clusters: clusters})
	if err != nil {
		t.Fatalf("%d kB, %d clusters: %v", c.Scratchpad.Bytes.Int()>>10, clusters, err)
	}
	count(p, spilled, streamed, split, fused)
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	prog, err := p.program(Options{})
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, g, c, prog, in)
}
