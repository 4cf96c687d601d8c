package onnx

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// Pack returns a model file as one piece: tensors that are stored in files beside
// it are taken in. A model without such is returned as it is. Errors name the
// file.
func Pack(path string) ([]byte, error) {
	b, err := readFile(path, maxModelBytes)
	if err != nil {
		return nil, err
	}
	m, err := Load(path)
	if err != nil {
		return nil, err
	}
	taken, err := (&dataFiles{dir: m.Dir}).takeIn(m.Proto.Graph)
	if err == nil && taken > 0 {
		if size := proto.Size(m.Proto); size >= maxModelBytes {
			return nil, fmt.Errorf("%s: %d bytes with its external data; one ONNX file holds less than %d", path, size, maxModelBytes)
		}
		b, err = proto.Marshal(m.Proto)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// takeIn reads the external tensors of a graph and of the graphs in it, and
// returns how many there were.
func (files *dataFiles) takeIn(g *onnxpb.GraphProto) (int, error) {
	tensors, graphs := g.Initializer, []*onnxpb.GraphProto(nil)
	for _, n := range g.Node {
		for _, a := range n.Attribute {
			tensors = append(tensors, a.Tensors...)
			graphs = append(graphs, a.Graphs...)
			if a.T != nil {
				tensors = append(tensors, a.T)
			}
			if a.G != nil {
				graphs = append(graphs, a.G)
			}
		}
	}
	taken := 0
	for _, t := range tensors {
		if t.DataLocation != onnxpb.TensorProto_EXTERNAL {
			continue
		}
		shape, err := shapeOf(t.Dims)
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		d, err := dtypeOf(t.DataType)
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if t.RawData, err = files.read(t, storedBytes(d, ir.Numel(shape))); err != nil {
			return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		t.DataLocation, t.ExternalData = onnxpb.TensorProto_DEFAULT, nil
		taken++
	}
	for _, sub := range graphs {
		n, err := files.takeIn(sub)
		if err != nil {
			return 0, err
		}
		taken += n
	}
	return taken, nil
}
