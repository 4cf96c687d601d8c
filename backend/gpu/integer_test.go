package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"situ/ir"
)

// noise returns a tensor of random bits, or of numbers that casts find hard.
func noise(r *rand.Rand, t ir.Type) *ir.Tensor {
	out := ir.Zeros(t.DType, t.Shape...)
	if f, ok := out.Any().([]float32); ok {
		hard := []float32{0, 0.5, -0.5, 1, -1.99, 127.9, 128, -129, 255.5, 256, 3e4, -4e4, 2147483520, 2147483648, -2147483648, 4294967040, 4294967296,
			9.2e18, 9.3e18, -9.3e18, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
		for i := range f {
			f[i] = hard[i%len(hard)]
		}
		return out
	}
	var b bytes.Buffer
	for range storedBytes(t) {
		b.WriteByte(byte(r.Uint32()))
	}
	if t.DType == ir.Bool {
		for i := range b.Bytes() {
			b.Bytes()[i] &= 1
		}
	}
	if err := binary.Read(&b, binary.LittleEndian, out.Any()); err != nil {
		panic(err)
	}
	return out
}

// TestIntegers compares casts between all types and operators on integers with
// the evaluator.
func TestIntegers(t *testing.T) {
	c, a := needLLC(t), h100(t)
	r := rand.New(rand.NewPCG(3, 4))
	g := &ir.Graph{Name: "integers"}
	var in []*ir.Tensor
	shape := []int{2, 35}
	plain := []ir.DType{ir.I8, ir.U8, ir.I16, ir.U16, ir.I32, ir.U32, ir.I64, ir.U64, ir.Bool, ir.F32}
	for _, d := range plain {
		xt, zt := ir.TypeOf(d, shape...), ir.TypeOf(d, 2, 1)
		x, z := g.AddInput("x"+d.String(), xt), g.AddInput("z"+d.String(), zt)
		in = append(in, noise(r, xt), noise(r, zt))
		for _, to := range plain {
			if d == ir.F32 && to == ir.U64 {
				continue
			}
			v, err := g.AddTyped(ir.Cast, d.String()+" to "+to.String(), nil, ir.TypeOf(to, shape...), x)
			if err != nil {
				t.Fatal(err)
			}
			g.Outputs = append(g.Outputs, v)
		}
		for k := range intOps {
			if d == ir.Bool || d == ir.F32 {
				continue
			}
			v, err := g.Add(k, k.String()+" "+d.String(), nil, x, z)
			if err != nil {
				t.Fatal(err)
			}
			g.Outputs = append(g.Outputs, v)
		}
	}
	p, err := Compile(g, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
		t.Fatal(err)
	}
	sameBits(t, g, p, in)
}
