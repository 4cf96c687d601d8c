package onnx

import (
	"slices"

	"situ/frontend/onnx/onnxpb"
)

// Cache is an input that a model returns with new entries behind, present = Concat(past,
// new), where how many entries there are is a symbolic dimension: keys or values of the
// tokens that a decoder has seen, as Hugging Face Optimum and ONNX Runtime GenAI write
// it.
type Cache struct {
	Input, Output string
	Axis          int
	Symbol        string // the dimension of Input at Axis
}

// Caches returns the model's caches in the order of its inputs.
func (m *Model) Caches() []Cache {
	g := m.Proto.Graph
	var list []Cache
	for _, v := range m.Inputs() {
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		for _, n := range g.Node {
			if n.OpType != "Concat" || canonicalDomain(n.Domain) != canonicalDomain("") || len(n.Input) < 2 || len(n.Output) != 1 || n.Input[0] != v.Name ||
				!slices.ContainsFunc(g.Output, func(o *onnxpb.ValueInfoProto) bool { return o.Name == n.Output[0] }) {
				continue
			}
			axis := 0
			for _, a := range n.Attribute {
				if a.Name == "axis" {
					axis = int(a.I)
				}
			}
			if axis < 0 {
				axis += len(dims)
			}
			if axis < 0 || axis >= len(dims) {
				continue
			}
			if s := symbol(v, axis, dims[axis]); s != "" {
				list = append(list, Cache{v.Name, n.Output[0], axis, s})
			}
			break
		}
	}
	return list
}

// Symbol returns the name of dimension i of an input, "" when it is a number or there is
// no such dimension.
func (m *Model) Symbol(input string, i int) string {
	for _, v := range m.Inputs() {
		if dims := v.GetType().GetTensorType().GetShape().GetDim(); v.Name == input && i < len(dims) {
			return symbol(v, i, dims[i])
		}
	}
	return ""
}

// Bind returns the values of all symbolic dimensions that opt gives, be it by sums.
func (m *Model) Bind(opt ImportOptions) (map[string]int64, error) { return m.bind(opt) }
