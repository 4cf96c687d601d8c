package irtest

import (
	"fmt"
	"math"
	"testing"

	"situ/ir"
)

// Net makes int8 networks for tests: NHWC activations, zero weights.
type Net struct {
	G *ir.Graph // as far as it is built
	t testing.TB
	n int
}

// NewNet starts a network; errors end the test.
func NewNet(t testing.TB, name string) *Net {
	return &Net{t: t, G: &ir.Graph{Name: name}}
}

// Code is the type of every activation: int8 codes of scale 0.1.
func (b *Net) Code(shape ...int) ir.Type {
	return ir.TypeOf(ir.I8, shape...).WithQuant(ir.PerTensor(0.1, 0))
}

// Input adds an input of codes.
func (b *Net) Input(shape ...int) ir.ValueID { return b.G.AddInput("input", b.Code(shape...)) }

// Must returns v, the result of adding an operator.
func (b *Net) Must(v ir.ValueID, err error) ir.ValueID {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// Name returns a new name for an operator.
func (b *Net) Name(op string) string {
	b.n++
	return fmt.Sprintf("%s%d", op, b.n)
}

// Conv adds a convolution with bias, same padding and, if relu, a ReLU.
func (b *Net) Conv(x ir.ValueID, out, kernel, stride, groups int, relu bool) ir.ValueID {
	b.t.Helper()
	in := b.G.Type(x).Shape
	w := b.G.AddConst("", ir.Zeros(ir.I8, out, kernel, kernel, in[3]/groups), ir.PerTensor(0.01, 0))
	bias := b.G.AddConst("", ir.Zeros(ir.I32, out), ir.PerTensor(0.001, 0))
	pad := kernel / 2
	attr := &ir.ConvAttr{Strides: [2]int{stride, stride}, Pads: [4]int{pad, pad, pad, pad}, Dilations: [2]int{1, 1}, Groups: groups}
	if relu {
		attr.Act = &ir.Act{Lo: 0, Hi: float32(math.Inf(1))}
	}
	size := func(n int) int { return (n+2*pad-kernel)/stride + 1 }
	return b.Must(b.G.AddTyped(ir.Conv2D, b.Name("conv"), attr, b.Code(in[0], size(in[1]), size(in[2]), out), x, w, bias))
}

// Add adds a sum with a ReLU.
func (b *Net) Add(x, y ir.ValueID) ir.ValueID {
	b.t.Helper()
	return b.Must(b.G.AddTyped(ir.Add, b.Name("add"), &ir.BinaryAttr{Act: &ir.Act{Lo: 0, Hi: float32(math.Inf(1))}},
		b.Code(b.G.Type(x).Shape...), x, y))
}

// Dense adds a product with constant weights.
func (b *Net) Dense(x ir.ValueID, out int) ir.ValueID {
	b.t.Helper()
	in := b.G.Type(x).Shape
	w := b.G.AddConst("", ir.Zeros(ir.I8, in[len(in)-1], out), ir.PerTensor(0.01, 0))
	shape := append(append([]int(nil), in[:len(in)-1]...), out)
	return b.Must(b.G.AddTyped(ir.MatMul, b.Name("dense"), nil, b.Code(shape...), x, w))
}

// Done makes out an output and returns the graph.
func (b *Net) Done(out ir.ValueID) *ir.Graph {
	b.G.Outputs = append(b.G.Outputs, out)
	return b.G
}

// ResNet50 is ResNet-50 v1.5 (stride in the 3×3) at 224×224.
func ResNet50(t testing.TB) *ir.Graph {
	b := NewNet(t, "resnet50")
	x := b.Conv(b.Input(1, 224, 224, 3), 64, 7, 2, 1, true)
	x = b.Must(b.G.Add(ir.MaxPool, "pool", &ir.PoolAttr{Kernel: [2]int{3, 3}, Strides: [2]int{2, 2}, Pads: [4]int{1, 1, 1, 1}, Dilations: [2]int{1, 1}}, x))
	width := 64
	for stage, blocks := range []int{3, 4, 6, 3} {
		for i := range blocks {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			short := x
			y := b.Conv(x, width, 1, 1, 1, true)
			y = b.Conv(y, width, 3, stride, 1, true)
			if i == 0 {
				short = b.Conv(x, 4*width, 1, stride, 1, false)
			}
			y = b.Conv(y, 4*width, 1, 1, 1, false)
			x = b.Add(y, short)
		}
		width *= 2
	}
	x = b.Must(b.G.AddTyped(ir.ReduceMean, "mean", &ir.ReduceAttr{Axes: []int{1, 2}}, b.Code(1, 2048), x))
	return b.Done(b.Dense(x, 1000))
}
