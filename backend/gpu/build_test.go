package gpu

import (
	"fmt"
	"math"
	"testing"

	"situ/ir"
)

// netBuilder makes int8 networks for tests: NHWC activations, zero weights.
type netBuilder struct {
	t testing.TB
	g *ir.Graph
	n int
}

func newNet(t testing.TB, name string) *netBuilder {
	return &netBuilder{t: t, g: &ir.Graph{Name: name}}
}

func (b *netBuilder) code(shape ...int) ir.Type {
	return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(0.1, 0))
}

func (b *netBuilder) input(shape ...int) ir.ValueID { return b.g.AddInput("input", b.code(shape...)) }

func (b *netBuilder) must(v ir.ValueID, err error) ir.ValueID {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *netBuilder) name(op string) string {
	b.n++
	return fmt.Sprintf("%s%d", op, b.n)
}

// conv adds a convolution with bias, same padding and, if relu, a ReLU.
func (b *netBuilder) conv(x ir.ValueID, out, kernel, stride, groups int, relu bool) ir.ValueID {
	b.t.Helper()
	in := b.g.Type(x).Shape
	w := b.g.AddConst("", ir.Zeros(ir.I8, out, kernel, kernel, in[3]/groups), ir.PerTensor(0.01, 0))
	bias := b.g.AddConst("", ir.Zeros(ir.I32, out), ir.PerTensor(0.001, 0))
	pad := kernel / 2
	attr := &ir.ConvAttr{Strides: [2]int{stride, stride}, Pads: [4]int{pad, pad, pad, pad}, Dilations: [2]int{1, 1}, Groups: groups}
	if relu {
		attr.Act = &ir.Act{Lo: 0, Hi: float32(math.Inf(1))}
	}
	size := func(n int) int { return (n+2*pad-kernel)/stride + 1 }
	return b.must(b.g.AddTyped(ir.Conv2D, b.name("conv"), attr, b.code(in[0], size(in[1]), size(in[2]), out), x, w, bias))
}

func (b *netBuilder) add(x, y ir.ValueID) ir.ValueID {
	b.t.Helper()
	return b.must(b.g.AddTyped(ir.Add, b.name("add"), &ir.BinaryAttr{Act: &ir.Act{Lo: 0, Hi: float32(math.Inf(1))}},
		b.code(b.g.Type(x).Shape...), x, y))
}

func (b *netBuilder) dense(x ir.ValueID, out int) ir.ValueID {
	b.t.Helper()
	in := b.g.Type(x).Shape
	w := b.g.AddConst("", ir.Zeros(ir.I8, in[len(in)-1], out), ir.PerTensor(0.01, 0))
	shape := append(append([]int(nil), in[:len(in)-1]...), out)
	return b.must(b.g.AddTyped(ir.MatMul, b.name("dense"), nil, b.code(shape...), x, w))
}

func (b *netBuilder) done(out ir.ValueID) *ir.Graph {
	b.g.Outputs = append(b.g.Outputs, out)
	return b.g
}

// resnet50 is ResNet-50 v1.5 (stride in the 3×3) at 224×224.
func resnet50(t testing.TB) *ir.Graph {
	b := newNet(t, "resnet50")
	x := b.conv(b.input(1, 224, 224, 3), 64, 7, 2, 1, true)
	x = b.must(b.g.Add(ir.MaxPool, "pool", &ir.PoolAttr{Kernel: [2]int{3, 3}, Strides: [2]int{2, 2}, Pads: [4]int{1, 1, 1, 1}, Dilations: [2]int{1, 1}}, x))
	width := 64
	for stage, blocks := range []int{3, 4, 6, 3} {
		for i := range blocks {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			short := x
			y := b.conv(x, width, 1, 1, 1, true)
			y = b.conv(y, width, 3, stride, 1, true)
			if i == 0 {
				short = b.conv(x, 4*width, 1, stride, 1, false)
			}
			y = b.conv(y, 4*width, 1, 1, 1, false)
			x = b.add(y, short)
		}
		width *= 2
	}
	x = b.must(b.g.AddTyped(ir.ReduceMean, "mean", &ir.ReduceAttr{Axes: []int{1, 2}}, b.code(1, 2048), x))
	return b.done(b.dense(x, 1000))
}

// matmul16 is one fp16 product [m,k] × [k,n] of two inputs.
func matmul16(t testing.TB, m, k, n int) *ir.Graph {
	b := newNet(t, "gemm")
	x := b.g.AddInput("a", ir.TypeOf(ir.F16, m, k))
	y := b.g.AddInput("b", ir.TypeOf(ir.F16, k, n))
	return b.done(b.must(b.g.Add(ir.MatMul, "gemm", nil, x, y)))
}
