package gpu

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/emulator/ptx"
	"situ/ir"
	"situ/ir/irtest"
)

// TestNumbers compiles random graphs of plain numbers and compares what the
// kernels compute with the evaluator, bit for bit.
func TestNumbers(t *testing.T) {
	c, a := needLLC(t), h100(t)
	rapid.Check(t, func(t *rapid.T) {
		g, in := irtest.Numbers(t)
		p, err := Compile(g, a)
		if err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatalf("%v", err)
		}
		sameBits(t, g, p, in)
	})
}

// TestFloatProducts compares convolutions and matrix products in float32 with the
// evaluator.
func TestFloatProducts(t *testing.T) {
	c, a := needLLC(t), h100(t)
	g, err := ir.Parse(`graph "products" {
		%0 = input "x" : f32[2,6,7,8]
		%1 = input "w" : f32[16,3,2,8]
		%2 = input "b" : f32[16]
		%3 = conv2d %0, %1, %2 {strides=[2,1], pads=[1,1,1,0], act={lo=0, hi=+Inf}} : f32[2,3,7,16]
		%4 = input "narrow" : f32[16,2,2,2]
		%5 = conv2d %0, %4 {groups=4, dilations=[2,1]} : f32[2,4,6,16]
		%6 = input "depthwise" : f32[8,3,3,1]
		%7 = conv2d %0, %6 {groups=8, pads=[1,1,1,1]} : f32[2,6,7,8]
		%8 = input "m" : f32[6,8,9]
		%9 = input "c" : f32[9]
		%10 = matmul %0, %8, %9 {act={lo=-1, hi=1}} : f32[2,6,7,9]
		output %3, %5, %7, %10
	}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(g, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) { sameBits(t, g, p, irtest.Inputs(t, g)) })
}

// TestIndexOutside: a look-up with an index outside the table is an error.
func TestIndexOutside(t *testing.T) {
	c, a := needLLC(t), h100(t)
	g, err := ir.Parse(`graph "g" {
		%0 = input "ids" : i64[2]
		%1 = const "table" : i8[5,2] scale=0.5 zero=0 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
		%2 = gather %1, %0 {axis=0} : i8[2,2] scale=0.5 zero=0 @ "embed"
		output %2
	}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(g, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{-5, -1, 4} {
		sameBits(t, g, p, []*ir.Tensor{ir.NewTensor(ir.I64, []int{2}, []int64{0, id})})
	}
	m, err := ptx.Parse(p.PTX, PTXFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{-6, 5, 1 << 32} {
		mem := ptx.NewMemory(1 << 20)
		arena, err := mem.Alloc(Arena, int(p.Buffers[0].Bytes))
		if err != nil {
			t.Fatal(err)
		}
		constants, err := mem.Alloc(Constants, len(p.Constants))
		if err != nil {
			t.Fatal(err)
		}
		ids := tensorBytes(ir.NewTensor(ir.I64, []int{2}, []int64{0, id}))
		if err := mem.Write(arena+uint64(p.Inputs[0].Offset), ids); err != nil {
			t.Fatal(err)
		}
		l := p.Launches[0]
		cfg := ptx.LaunchConfig{Grid: l.Grid, Block: l.Block, SharedBytes: l.Shared, Memory: mem}
		for _, arg := range l.Args {
			base := arena
			if arg.Buffer == Constants {
				base = constants
			}
			cfg.Args = append(cfg.Args, ptx.U64(base+uint64(arg.Offset)))
		}
		if _, err := m.Launch(context.Background(), l.Kernel, cfg); err == nil || !strings.Contains(err.Error(), "traps") {
			t.Errorf("index %d of 5: %v", id, err)
		}
	}
}
