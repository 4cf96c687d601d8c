package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
)

// export writes the network as a standard ONNX model: NCHW convolutions, and a
// Gemm whose weights are permuted from this program's HWC features to CHW.
func export(n *net) []byte {
	g := &onnxpb.GraphProto{Name: "digits"}
	g.Input = []*onnxpb.ValueInfoProto{valueInfo("image", 1, 1, 28, 28)}
	g.Output = []*onnxpb.ValueInfoProto{valueInfo("logits", 1, 10)}
	x := "image"
	node := func(op string, in []string, attrs ...*onnxpb.AttributeProto) {
		out := fmt.Sprintf("t%d", len(g.Node))
		g.Node = append(g.Node, &onnxpb.NodeProto{OpType: op, Name: fmt.Sprintf("%s_%d", op, len(g.Node)), Input: in, Output: []string{out}, Attribute: attrs})
		x = out
	}
	for i, c := range n.convs {
		w := make([]float32, len(c.w.w)) // OIHW
		for t := range 9 {
			for ci := range c.in {
				for o := range c.out {
					w[(o*c.in+ci)*9+t] = c.w.w[(t*c.in+ci)*c.out+o]
				}
			}
		}
		wn, bn := fmt.Sprintf("conv%d.weight", i+1), fmt.Sprintf("conv%d.bias", i+1)
		g.Initializer = append(g.Initializer, tensor(wn, w, c.out, c.in, 3, 3), tensor(bn, c.b.w, c.out))
		node("Conv", []string{x, wn, bn}, ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1), ints("strides", 1, 1))
		node("Relu", []string{x})
		if c.pool {
			node("MaxPool", []string{x}, ints("kernel_shape", 2, 2), ints("strides", 2, 2))
		}
	}
	last := n.convs[len(n.convs)-1]
	h, ch := last.outH(), last.out
	fw := make([]float32, len(n.fw.w)) // [10, CHW]
	for p := range h * h {
		for c := range ch {
			for o := range 10 {
				fw[o*h*h*ch+c*h*h+p] = n.fw.w[(p*ch+c)*10+o]
			}
		}
	}
	g.Initializer = append(g.Initializer, tensor("fc.weight", fw, 10, h*h*ch), tensor("fc.bias", n.fb.w, 10))
	node("Flatten", []string{x})
	node("Gemm", []string{x, "fc.weight", "fc.bias"}, &onnxpb.AttributeProto{Name: "transB", Type: onnxpb.AttributeProto_INT, I: 1})
	g.Node[len(g.Node)-1].Output[0] = "logits"
	m := &onnxpb.ModelProto{IrVersion: 8, ProducerName: "situ", Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 13}}}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

func valueInfo(name string, dims ...int64) *onnxpb.ValueInfoProto {
	s := &onnxpb.TensorShapeProto{}
	for _, d := range dims {
		s.Dim = append(s.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d}})
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(onnxpb.TensorProto_FLOAT), Shape: s}}}}
}

func tensor(name string, data []float32, dims ...int) *onnxpb.TensorProto {
	t := &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT)}
	for _, d := range dims {
		t.Dims = append(t.Dims, int64(d))
	}
	for _, v := range data {
		t.RawData = binary.LittleEndian.AppendUint32(t.RawData, math.Float32bits(v))
	}
	return t
}

func ints(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}
