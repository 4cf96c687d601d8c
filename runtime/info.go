package runtime

import (
	"cmp"
	"slices"

	"situ/ir"
	"situ/models"
)

// TensorInfo is the name and type of an input or output.
type TensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

// DataDecides is the type of an output whose shape is known only after a run.
const DataDecides = "as data decide"

// OperatorCount says how often an IR operator occurs.
type OperatorCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// ModelInfo is what is in a model.
type ModelInfo struct {
	Name       string          `json:"name"`
	Opset      int64           `json:"opset,omitempty"`
	FileBytes  int64           `json:"file_bytes,omitempty"`
	Parameters int64           `json:"parameters"`
	MACs       int64           `json:"macs"`
	Quantised  bool            `json:"quantised"`
	Inputs     []TensorInfo    `json:"inputs"`
	Outputs    []TensorInfo    `json:"outputs"`
	Dims       []models.Dim    `json:"dims,omitempty"` // sizes that a model which is built takes
	Operators  []OperatorCount `json:"operators"`
	Host       []OperatorCount `json:"host,omitempty"` // of ONNX, in the end of the model that depends on data
}

// Info opens a model and describes it.
func Info(name string, o ModelOptions) (*ModelInfo, error) {
	m, err := OpenModel(name, o)
	if err != nil {
		return nil, err
	}
	i := &ModelInfo{Name: m.Name, Opset: m.Opset, FileBytes: m.Bytes}
	if p := m.Program; p != nil {
		i.Quantised = true
		i.Parameters = p.WeightBytes
		for _, l := range p.Layers {
			i.MACs += l.MACs
		}
		for _, t := range p.Inputs {
			i.Inputs = append(i.Inputs, TensorInfo{t.Name, ioType(t.DType).String(), t.Shape})
		}
		for _, t := range p.Outputs {
			i.Outputs = append(i.Outputs, TensorInfo{t.Name, ioType(t.DType).String(), t.Shape})
		}
		return i, nil
	}
	g := m.Graph
	i.MACs = MACs(g)
	i.Quantised = cameQuantised(g)
	i.Parameters, i.Dims = m.Parameters, m.Dims
	for v := range g.Values {
		if m.Parameters == 0 && g.Values[v].Const != nil {
			i.Parameters += int64(g.Values[v].Const.Numel())
		}
	}
	for _, id := range g.Inputs {
		i.Inputs = append(i.Inputs, tensorInfo(g, id))
	}
	for k, name := range m.outputs() {
		switch {
		case m.Host == nil:
			i.Outputs = append(i.Outputs, tensorInfo(g, g.Outputs[k]))
		case m.Host.From(k) >= 0:
			i.Outputs = append(i.Outputs, tensorInfo(g, g.Outputs[m.Host.From(k)]))
		default:
			i.Outputs = append(i.Outputs, TensorInfo{Name: name, Type: DataDecides})
		}
	}
	counts := map[string]int{}
	for k := range g.Ops {
		counts[g.Ops[k].Kind.String()]++
	}
	i.Operators = counted(counts)
	if m.Host != nil {
		clear(counts)
		for _, n := range m.Host.Nodes {
			counts[n.Op]++
		}
		i.Host = counted(counts)
	}
	return i, nil
}

// counted lists operators, the most frequent first.
func counted(counts map[string]int) []OperatorCount {
	var list []OperatorCount
	for name, n := range counts {
		list = append(list, OperatorCount{name, n})
	}
	slices.SortFunc(list, func(a, b OperatorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func tensorInfo(g *ir.Graph, id ir.ValueID) TensorInfo {
	v := g.Value(id)
	return TensorInfo{v.Name, v.Type.DType.String(), v.Type.Shape}
}

// MACs counts the multiply-accumulates of the convolutions and matrix products
// of one inference.
func MACs(g *ir.Graph) int64 {
	var n int64
	for i := range g.Ops {
		op := &g.Ops[i]
		switch op.Kind {
		case ir.Conv2D:
			w := g.Type(op.In[1]).Shape // OHWI
			n += int64(g.Type(op.Out).Numel()) * int64(w[1]) * int64(w[2]) * int64(w[3])
		case ir.MatMul:
			a := g.Type(op.In[0]).Shape
			n += int64(g.Type(op.Out).Numel()) * int64(a[len(a)-1])
		}
	}
	return n
}
