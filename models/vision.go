package models

import (
	"fmt"

	"situ/frontend/onnx/onnxpb"
)

// visionOpset is the operator set of the convolutional networks.
const visionOpset = 17

// images adds the input of a network for 224×224 colour images.
func (b *builder) images(batch int) string {
	return b.input("image", onnxpb.TensorProto_FLOAT, batch, 3, 224, 224)
}

// conv is a convolution with a square kernel, padded by half of it.
func (b *builder) conv(name, x string, in, out, kernel, stride, groups int) string {
	std := he(in / groups * kernel * kernel)
	w := b.parameter(name+".weight", normal(std), out, in/groups, kernel, kernel)
	p := kernel / 2
	return b.add("Conv", name, []string{x, w}, attrs{
		"kernel_shape": []int{kernel, kernel}, "strides": []int{stride, stride}, "pads": []int{p, p, p, p}, "group": groups})
}

// norm is a batch normalisation whose factors lie around gain.
func (b *builder) norm(name, x string, channels int, gain float32) string {
	return b.add("BatchNormalization", name, []string{x,
		b.parameter(name+".weight", uniform(0.8*gain, 1.2*gain), channels), b.parameter(name+".bias", normal(0.1), channels),
		b.buffer(name+".running_mean", normal(0.1), channels), b.buffer(name+".running_var", uniform(0.8, 1.2), channels)}, nil)
}

// convNorm is a convolution and its normalisation.
func (b *builder) convNorm(conv, norm, x string, in, out, kernel, stride, groups int, gain float32) string {
	return b.norm(norm, b.conv(conv, x, in, out, kernel, stride, groups), out, gain)
}

func (b *builder) relu(name, x string) string { return b.add("Relu", name, []string{x}, nil) }

// dense is a fully connected layer on [N, in].
func (b *builder) dense(name, x string, in, out int, std float32) string {
	return b.add("Gemm", name, []string{x, b.parameter(name+".weight", normal(std), out, in), b.parameter(name+".bias", normal(0.02), out)}, attrs{"transB": 1})
}

// head averages over positions and classifies.
func (b *builder) head(fc, x string, batch, channels int) {
	x = b.add("GlobalAveragePool", "avgpool", []string{x}, nil)
	x = b.add("Flatten", "flatten", []string{x}, attrs{"axis": 1})
	b.output("logits", b.dense(fc, x, channels, 1000, xavier(channels)), batch, 1000)
}

// branchGain is the factor of the last normalisation of a residual branch. With 1
// the variance of untrained networks would double at every block.
const branchGain = 0.3

// resnet is torchvision's ResNet: basic blocks, or bottlenecks with the stride in
// the 3×3 convolution (v1.5) (He et al. 2016).
func resnet(blocks [4]int, bottleneck bool) func(d Dims) (*builder, error) {
	return func(d Dims) (*builder, error) {
		batch := d["batch"]
		b := newBuilder("resnet", visionOpset)
		x := b.relu("relu", b.convNorm("conv1", "bn1", b.images(batch), 3, 64, 7, 2, 1, 1))
		x = b.add("MaxPool", "maxpool", []string{x}, attrs{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}})
		in := 64
		for stage, n := range blocks {
			width := 64 << stage
			for i := range n {
				stride := 1
				if stage > 0 && i == 0 {
					stride = 2
				}
				name := fmt.Sprintf("layer%d.%d", stage+1, i)
				x, in = b.residual(name, x, in, width, stride, bottleneck)
			}
		}
		b.head("fc", x, batch, in)
		return b, nil
	}
}

// residual is one block of a ResNet; it returns the number of its channels, too.
func (b *builder) residual(name, x string, in, width, stride int, bottleneck bool) (string, int) {
	at := func(part string) string { return name + "." + part }
	out := width
	var y string
	if bottleneck {
		out = 4 * width
		y = b.relu(at("relu1"), b.convNorm(at("conv1"), at("bn1"), x, in, width, 1, 1, 1, 1))
		y = b.relu(at("relu2"), b.convNorm(at("conv2"), at("bn2"), y, width, width, 3, stride, 1, 1))
		y = b.convNorm(at("conv3"), at("bn3"), y, width, out, 1, 1, 1, branchGain)
	} else {
		y = b.relu(at("relu1"), b.convNorm(at("conv1"), at("bn1"), x, in, width, 3, stride, 1, 1))
		y = b.convNorm(at("conv2"), at("bn2"), y, width, width, 3, 1, 1, branchGain)
	}
	if stride > 1 || in != out {
		x = b.convNorm(at("downsample.0"), at("downsample.1"), x, in, out, 1, stride, 1, 1)
	}
	return b.relu(at("relu"), b.add("Add", at("add"), []string{x, y}, nil)), out
}

// mobilenetV2 is torchvision's MobileNetV2 of width 1 (Sandler et al. 2018,
// table 2).
func mobilenetV2(d Dims) (*builder, error) {
	batch := d["batch"]
	b := newBuilder("mobilenetv2", visionOpset)
	clip := func(name, x string) string {
		return b.add("Clip", name, []string{x, b.scalar(name+".min", 0), b.scalar(name+".max", 6)}, nil)
	}
	unit := func(name, x string, in, out, kernel, stride, groups int) string {
		return clip(name+".2", b.convNorm(name+".0", name+".1", x, in, out, kernel, stride, groups, 1))
	}
	x := unit("features.0", b.images(batch), 3, 32, 3, 2, 1)
	in, k := 32, 1
	for _, r := range []struct{ expand, channels, repeat, stride int }{
		{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
	} {
		for i := range r.repeat {
			stride := 1
			if i == 0 {
				stride = r.stride
			}
			name := fmt.Sprintf("features.%d.conv", k)
			hidden, part, y := in*r.expand, 0, x
			if r.expand > 1 {
				y = unit(fmt.Sprintf("%s.%d", name, part), y, in, hidden, 1, 1, 1)
				part++
			}
			y = unit(fmt.Sprintf("%s.%d", name, part), y, hidden, hidden, 3, stride, hidden)
			part++
			residual, gain := stride == 1 && in == r.channels, float32(1)
			if residual {
				gain = branchGain
			}
			y = b.convNorm(fmt.Sprintf("%s.%d", name, part), fmt.Sprintf("%s.%d", name, part+1), y, hidden, r.channels, 1, 1, 1, gain)
			if residual {
				y = b.add("Add", name+".add", []string{x, y}, nil)
			}
			x, in = y, r.channels
			k++
		}
	}
	x = unit(fmt.Sprintf("features.%d", k), x, in, 1280, 1, 1, 1)
	b.head("classifier.1", x, batch, 1280)
	return b, nil
}

// vgg16 is torchvision's VGG-16 without normalisation (Simonyan and Zisserman
// 2015, configuration D).
func vgg16(d Dims) (*builder, error) {
	batch := d["batch"]
	b := newBuilder("vgg16", visionOpset)
	x, in, k := b.images(batch), 3, 0
	at := func() string { k++; return fmt.Sprintf("features.%d", k-1) }
	for _, stage := range [][]int{{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}} {
		for _, out := range stage {
			name := at()
			x = b.conv(name, x, in, out, 3, 1, 1)
			n := b.graph.Node[len(b.graph.Node)-1]
			n.Input = append(n.Input, b.parameter(name+".bias", normal(0.02), out))
			x, in = b.relu(at(), x), out
		}
		x = b.add("MaxPool", at(), []string{x}, attrs{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}})
	}
	x = b.add("Flatten", "flatten", []string{x}, attrs{"axis": 1})
	x = b.relu("classifier.1", b.dense("classifier.0", x, 512*7*7, 4096, he(512*7*7)))
	x = b.relu("classifier.4", b.dense("classifier.3", x, 4096, 4096, he(4096)))
	b.output("logits", b.dense("classifier.6", x, 4096, 1000, xavier(4096)), batch, 1000)
	return b, nil
}
