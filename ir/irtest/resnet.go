package irtest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"situ/ir"
)

// ResNet18 returns ResNet-18 (He et al., CVPR 2016) for size×size images of three
// channels in float32, NHWC, its normalisations folded into convolutions with
// random weights. It has 1.81 G multiply-accumulates and 11.7 M parameters at 224.
func ResNet18(size int) (*ir.Graph, error) {
	n := &network{g: &ir.Graph{Name: "resnet18"}, rng: rand.New(rand.NewPCG(18, 18))}
	x := n.g.AddInput("image", ir.TypeOf(ir.F32, 1, size, size, 3))
	x = n.relu(n.conv("conv1", x, 64, 7, 2))
	x = n.add(ir.MaxPool, "maxpool", &ir.PoolAttr{Kernel: [2]int{3, 3}, Strides: [2]int{2, 2}, Pads: [4]int{1, 1, 1, 1}, Dilations: [2]int{1, 1}}, x)
	for stage, channels := range []int{64, 128, 256, 512} {
		for block := range 2 {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			name := fmt.Sprintf("layer%d.%d", stage+1, block)
			y := n.relu(n.conv(name+".conv1", x, channels, 3, stride))
			y = n.conv(name+".conv2", y, channels, 3, 1)
			if stride > 1 {
				x = n.conv(name+".downsample", x, channels, 1, stride)
			}
			x = n.relu(n.add(ir.Add, name+".add", &ir.BinaryAttr{}, y, x))
		}
	}
	x = n.add(ir.ReduceMean, "avgpool", &ir.ReduceAttr{Axes: []int{1, 2}}, x)
	x = n.add(ir.MatMul, "fc", &ir.MatMulAttr{}, x, n.weights("fc.weight", 512, 512, 1000), n.weights("fc.bias", 1000, 1000))
	n.g.Outputs = []ir.ValueID{x}
	return n.g, n.err
}

// network appends operators to a graph until one fails.
type network struct {
	g   *ir.Graph
	rng *rand.Rand
	err error
}

func (n *network) add(kind ir.OpKind, name string, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
	if n.err != nil {
		return 0
	}
	var id ir.ValueID
	id, n.err = n.g.Add(kind, name, attr, in...)
	return id
}

// weights returns a constant of normal numbers of variance 2/fan.
func (n *network) weights(name string, fan int, shape ...int) ir.ValueID {
	t := ir.Zeros(ir.F32, shape...)
	scale := float32(math.Sqrt(2 / float64(fan)))
	data := ir.Data[float32](t)
	for i := range data {
		data[i] = scale * float32(n.rng.NormFloat64())
	}
	return n.g.AddConst(name, t, nil)
}

// conv appends a convolution that keeps the image's size but for its stride.
func (n *network) conv(name string, x ir.ValueID, channels, kernel, stride int) ir.ValueID {
	in := n.g.Type(x).Shape[3]
	p := kernel / 2
	return n.add(ir.Conv2D, name,
		&ir.ConvAttr{Strides: [2]int{stride, stride}, Pads: [4]int{p, p, p, p}, Dilations: [2]int{1, 1}, Groups: 1},
		x, n.weights(name+".weight", kernel*kernel*in, channels, kernel, kernel, in), n.weights(name+".bias", 1, channels))
}

func (n *network) relu(x ir.ValueID) ir.ValueID {
	return n.add(ir.Relu, "relu", nil, x)
}
