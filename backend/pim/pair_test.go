package pim

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/ir"
)

// randomCodes returns a tensor of any codes of a type.
func randomCodes(r *rand.Rand, t ir.Type) *ir.Tensor {
	out := ir.Zeros(t.DType, t.Shape...)
	var b bytes.Buffer
	for range out.Numel() {
		if t.DType == ir.I32 {
			_ = binary.Write(&b, binary.LittleEndian, int32(r.Uint32())>>16)
		} else {
			b.WriteByte(byte(r.Uint32()))
		}
	}
	if err := binary.Read(&b, binary.LittleEndian, out.Any()); err != nil {
		panic(err)
	}
	return out
}

// drawCode draws a type of 8-bit codes; half of the zero points are those that
// need no correction.
func drawCode(t *rapid.T, name string, shape ...int) ir.Type {
	d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(t, name)
	lo, hi := d.IntRange()
	zero := rapid.SampledFrom([]int32{int32(lo), int32(lo) + 128, rapid.Int32Range(int32(lo), int32(hi)).Draw(t, name+" zero")}).Draw(t, name+" which")
	return ir.TypeOf(d, shape...).WithQuant(ir.PerTensor(float32(rapid.Float64Range(0.01, 1).Draw(t, name+" scale")), zero))
}

// drawPair draws a product of two activations, or one of them and a batch of
// constant matrices, with operands transposed or not and broadcast or not.
func drawPair(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	most := rapid.SampledFrom([]int{8, 70}).Draw(t, "most")
	size := func(name string) int { return rapid.IntRange(1, most).Draw(t, name) }
	m, k, n := size("m"), size("k"), size("n")
	g := &ir.Graph{Name: "pair"}
	var in []*ir.Tensor
	must := func(v ir.ValueID, err error) ir.ValueID {
		if err != nil {
			t.Fatalf("%v", err)
		}
		return v
	}
	var la, lb, lead []int
	for range rapid.IntRange(0, 2).Draw(t, "leading dimensions") {
		d := rapid.IntRange(1, 4).Draw(t, "leading")
		pair := rapid.SampledFrom([][2]int{{d, d}, {1, d}, {d, 1}}).Draw(t, "broadcast")
		la, lb, lead = append(la, pair[0]), append(lb, pair[1]), append(lead, d)
	}
	// operand adds a matrix operand as it is, transposed, or as heads side by side.
	operand := func(name string, lead []int, rows, cols int) ir.ValueID {
		shape := append(append([]int{}, lead...), rows, cols)
		add := func(shape []int) ir.ValueID {
			ty := drawCode(t, name, shape...)
			v := randomCodes(r, ty)
			if rapid.IntRange(0, 5).Draw(t, name+" constant") == 0 && (name == "b" || len(g.Inputs) > 0) {
				return g.AddConst(name, v, ty.Quant)
			}
			in = append(in, v)
			return g.AddInput(name, ty)
		}
		perm := make([]int, len(shape))
		for i := range perm {
			perm[i] = i
		}
		last := len(shape) - 1
		switch how := rapid.IntRange(0, 3).Draw(t, name+" how"); {
		case how == 1:
			perm[last-1], perm[last] = last, last-1
			shape[last-1], shape[last] = cols, rows
			return must(g.Add(ir.Transpose, name+"T", &ir.PermAttr{Perm: perm}, add(shape)))
		case how >= 2 && len(lead) > 0:
			// [..., rows, heads·cols] → [..., rows, heads, cols] → [..., heads, rows, cols]
			heads := lead[len(lead)-1]
			flat := append(append([]int{}, lead[:len(lead)-1]...), rows, heads*cols)
			split := append(append([]int{}, lead[:len(lead)-1]...), rows, heads, cols)
			v := must(g.Add(ir.Reshape, name+"S", &ir.ShapeAttr{Shape: split}, add(flat)))
			if how == 2 {
				perm[last-2], perm[last-1] = last-1, last-2
				return must(g.Add(ir.Transpose, name+"H", &ir.PermAttr{Perm: perm}, v))
			}
			// The same with rows and columns exchanged, as keys are.
			flat = append(append([]int{}, lead[:len(lead)-1]...), cols, heads*rows)
			split = append(append([]int{}, lead[:len(lead)-1]...), cols, heads, rows)
			g.Values, g.Ops = g.Values[:v-1], g.Ops[:len(g.Ops)-1]
			if len(g.Inputs) > 0 && g.Inputs[len(g.Inputs)-1] == v-1 {
				g.Inputs, in = g.Inputs[:len(g.Inputs)-1], in[:len(in)-1]
			}
			v = must(g.Add(ir.Reshape, name+"S", &ir.ShapeAttr{Shape: split}, add(flat)))
			perm[last-2], perm[last-1], perm[last] = last-1, last, last-2
			return must(g.Add(ir.Transpose, name+"H", &ir.PermAttr{Perm: perm}, v))
		}
		return add(shape)
	}
	b := operand("b", lb, k, n)
	args := []ir.ValueID{operand("a", la, m, k), b}
	if len(g.Inputs) == 0 {
		t.Skip("all constant")
	}
	if rapid.Bool().Draw(t, "bias") {
		args = append(args, g.AddConst("bias", randomCodes(r, ir.TypeOf(ir.I32, n)), nil))
	}
	shape := append(append([]int{}, lead...), m, n)
	var y ir.ValueID
	if rapid.IntRange(0, 3).Draw(t, "sums") == 0 {
		q := ir.PerTensor(float32(float64(g.Type(args[0]).Quant.Scale[0])*float64(g.Type(b).Quant.Scale[0])), 0)
		sums := must(g.AddTyped(ir.MatMul, "p", &ir.MatMulAttr{}, ir.TypeOf(ir.I32, shape...).WithQuant(q), args...))
		y = must(g.Add(ir.Dequantize, "dq", nil, sums))
	} else {
		inf := float32(math.Inf(1))
		act := rapid.SampledFrom([]*ir.Act{nil, {Lo: 0, Hi: inf}}).Draw(t, "act")
		y = must(g.AddTyped(ir.MatMul, "p", &ir.MatMulAttr{Act: act}, drawCode(t, "y", shape...), args...))
	}
	if len(lead) > 0 && rapid.Bool().Draw(t, "merge") {
		// [..., heads, rows, cols] → [..., rows, heads, cols] → [..., rows, heads·cols]
		perm := make([]int, len(shape))
		for i := range perm {
			perm[i] = i
		}
		last := len(perm) - 1
		perm[last-2], perm[last-1] = last-1, last-2
		y = must(g.Add(ir.Transpose, "merge", &ir.PermAttr{Perm: perm}, y))
		y = must(g.Add(ir.Reshape, "flat", &ir.ShapeAttr{Shape: append(append([]int{}, lead[:len(lead)-1]...), m, lead[len(lead)-1]*n)}, y))
		if ty := g.Type(y); ty.DType != ir.F32 && rapid.Bool().Draw(t, "goes on") {
			y = must(g.AddTyped(ir.Requantize, "on", nil, drawCode(t, "z", ty.Shape...), y))
		}
	}
	g.Outputs = []ir.ValueID{y}
	return g, in
}

// TestPairs compiles products of two activations for small chips and compares
// bits; every way of computing one must occur.
func TestPairs(t *testing.T) {
	seen := map[string]int{}
	check := func(t *rapid.T) {
		g, in := drawPair(t)
		for _, c := range []*arch.Chip{tinyChip(), manyChip()} {
			c.Scratchpad.Bytes = fig(float64(int(1024) << rapid.IntRange(3, 8).Draw(t, "scratchpad")))
			if rapid.Bool().Draw(t, "slow vector unit") {
				c.Vector.Lanes, c.Vector.MACsPerLane = fig(4), fig(1)
			}
			if tile := c.TileBytes(arch.Weights{Bits: 8}); rapid.IntRange(0, 3).Draw(t, "small weight SRAM") == 0 {
				c.WeightSRAM.Bytes = fig(float64(2 * tile))
			}
			p, err := choose(g, c, Options{Clusters: rapid.IntRange(1, c.NumClusters()).Draw(t, "clusters")})
			if err != nil {
				seen["refused: "+err.Error()]++
				continue
			}
			if err := p.check(); err != nil {
				t.Fatalf("%v\n%v", err, g)
			}
			for _, s := range p.steps {
				k, ok := s.kernel.(*pair)
				if !ok {
					continue
				}
				note := func(what string, ok bool) {
					if ok {
						seen[what]++
					}
				}
				note("vector", k.m.vector)
				note("arrays", !k.m.vector)
				note("zero point", k.ref())
				note("planes", !k.m.vector && k.planes > 1)
				note("parts of K", !k.m.vector && k.m.unitK < k.k)
				note("parts of N", !k.m.vector && k.m.cols < k.size[3])
				note("spilled", s.group != nil)
				note("from DRAM", s.fromDRAM(s.group))
				note("split", len(s.parts) > 1 && !s.parts[1].empty())
				note("stacked", k.stacked() && k.size[1] > 1)
				plain := access{axis: [4]int{0, 1, 2, 3}}
				note("a elsewhere", k.a.axis != plain.axis)
				note("b elsewhere", k.b.axis != plain.axis)
				note("result elsewhere", k.out.axis != plain.axis)
				note("heads in channels", k.out.axis[1] == 3 && k.out.mult[1] > 1)
				note("one place", !k.m.vector && k.half == 0)
			}
			prog, err := p.program(Options{})
			if err != nil {
				t.Fatalf("%v", err)
			}
			sameBits(t, g, c, prog, in)
		}
	}
	for range 10 {
		rapid.Check(t, check)
	}
	for _, what := range []string{"vector", "arrays", "zero point", "planes", "parts of K", "parts of N", "spilled", "split", "stacked", "one place", "from DRAM", "a elsewhere", "b elsewhere", "result elsewhere", "heads in channels"} {
		if seen[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
	t.Logf("%v", seen)
}
