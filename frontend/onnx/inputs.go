package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// Inputs returns the graph inputs a caller has to give: those without an
// initialiser, in the model's order.
func (m *Model) Inputs() []*onnxpb.ValueInfoProto {
	constant := map[string]bool{}
	for _, t := range m.Proto.Graph.Initializer {
		constant[t.Name] = true
	}
	var in []*onnxpb.ValueInfoProto
	for _, v := range m.Proto.Graph.Input {
		if !constant[v.Name] {
			in = append(in, v)
		}
	}
	return in
}

// Symbols returns the names of the inputs' symbolic dimensions in order of
// appearance; see ImportOptions.Dims for dimensions without a name.
func (m *Model) Symbols() []string {
	var names []string
	for _, v := range m.Inputs() {
		for i, d := range v.GetType().GetTensorType().GetShape().GetDim() {
			if s := symbol(v, i, d); s != "" && !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
	}
	return names
}

// BatchSymbol returns the name of the dimension that is the batch: the symbolic
// dimension 0 of every input, called as exporters call a batch. It is "" where there
// is none.
func (m *Model) BatchSymbol() string {
	name := ""
	for k, v := range m.Inputs() {
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		if len(dims) == 0 {
			return ""
		}
		s := dims[0].GetDimParam()
		if k > 0 && s != name || !strings.Contains(strings.ToLower(s), "batch") {
			return ""
		}
		name = s
	}
	return name
}

// symbol returns the name of a symbolic dimension, "" for a number.
func symbol(v *onnxpb.ValueInfoProto, i int, d *onnxpb.TensorShapeProto_Dimension) string {
	switch x := d.Value.(type) {
	case *onnxpb.TensorShapeProto_Dimension_DimValue:
		return ""
	case *onnxpb.TensorShapeProto_Dimension_DimParam:
		if x.DimParam != "" {
			return x.DimParam
		}
	}
	return fmt.Sprintf("%s.%d", v.Name, i)
}

// inputTypes binds all symbolic dimensions and returns the types of the inputs.
func (m *Model) inputTypes(opt ImportOptions) (map[string]ir.Type, error) {
	bound, err := m.bind(opt)
	if err != nil {
		return nil, err
	}
	types := map[string]ir.Type{}
	var f faults
	open := map[string]bool{}
	for _, v := range m.Inputs() {
		tt := v.GetType().GetTensorType()
		if tt == nil {
			f.addf("input %q is not a tensor", v.Name)
			continue
		}
		d, err := dtypeOf(tt.ElemType)
		if err != nil {
			f.addf("input %q: %v", v.Name, err)
			continue
		}
		given, ok := opt.InputShapes[v.Name]
		t := ir.TypeOf(d, given...)
		if !ok {
			if tt.Shape == nil {
				f.addf("input %q has no stated shape: give it one", v.Name)
				continue
			}
			for i, dim := range tt.Shape.Dim {
				size := dim.GetDimValue()
				if s := symbol(v, i, dim); s != "" {
					var known bool
					if size, known = bound[s]; !known && i == 0 && opt.DefaultDim > 0 {
						size, known = opt.DefaultDim, true
						bound[s] = size
					}
					if !known {
						if !open[s] {
							f.addf("input %q: dimension %d, %q, is symbolic: bind it, for example with --dim %s=1", v.Name, i, s, s)
						}
						open[s] = true
						size = 1
					}
				}
				t.Shape = append(t.Shape, int(size))
			}
		}
		if err := ir.ValidType(t); err != nil {
			f.addf("input %q: %v", v.Name, err)
		} else if t.Numel() > maxElements {
			f.addf("input %q: shape %v has more than %d elements", v.Name, t.Shape, int64(maxElements))
		}
		types[v.Name] = t
	}
	return types, f.err()
}

// mayBeEmpty reports whether an input is of no use but to be joined by Concat, so that
// it may have no elements: a cache before the first token.
func (m *Model) mayBeEmpty(input string) bool {
	return !slices.ContainsFunc(m.Proto.Graph.Node, func(n *onnxpb.NodeProto) bool {
		return slices.Contains(n.Input, input) && n.OpType != "Concat" && n.OpType != "Shape"
	})
}

// mayBeZero reports whether a symbol is but in the shapes of inputs that may be empty.
func (m *Model) mayBeZero(s string) bool {
	for _, v := range m.Inputs() {
		for i, d := range v.GetType().GetTensorType().GetShape().GetDim() {
			if symbol(v, i, d) == s && !m.mayBeEmpty(v.Name) {
				return false
			}
		}
	}
	return true
}

// bind collects the values of symbols from opt and checks that they agree with
// the model and with each other. A symbol that exporters call after a sum of others,
// such as past_sequence_length + sequence_length, has the value of the sum.
func (m *Model) bind(opt ImportOptions) (map[string]int64, error) {
	var f faults
	known := m.Symbols()
	bound := map[string]int64{}
	for _, s := range slices.Sorted(maps.Keys(opt.Dims)) {
		switch n := opt.Dims[s]; {
		case !slices.Contains(known, s):
			f.addf("there is no symbolic dimension %q; the model has %s", s, quotedList(known))
		case n < 0 || n > maxElements || n == 0 && !m.mayBeZero(s):
			f.addf("symbolic dimension %q cannot be %d", s, n)
		default:
			bound[s] = n
		}
	}
	if opt.DefaultDim < 0 || opt.DefaultDim > maxElements {
		f.addf("the default for symbolic dimensions cannot be %d", opt.DefaultDim)
	}
	inputs := map[string]bool{}
	for _, v := range m.Inputs() {
		inputs[v.Name] = true
		shape, given := opt.InputShapes[v.Name]
		stated := v.GetType().GetTensorType().GetShape()
		if !given || stated == nil {
			continue
		}
		if len(shape) != len(stated.Dim) {
			f.addf("input %q has %d dimensions, the given shape %v has %d", v.Name, len(stated.Dim), shape, len(shape))
			continue
		}
		for i, d := range stated.Dim {
			size := int64(shape[i])
			if s := symbol(v, i, d); s == "" {
				if size != d.GetDimValue() {
					f.addf("input %q: dimension %d is %d in the model and %d in the given shape", v.Name, i, d.GetDimValue(), size)
				}
			} else if old, ok := bound[s]; ok && old != size {
				f.addf("input %q: dimension %d, %q, is given as both %d and %d", v.Name, i, s, old, size)
			} else {
				bound[s] = size
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opt.InputShapes)) {
		if !inputs[name] {
			f.addf("a shape is given for %q, which is no input of the model", name)
		}
	}
	for _, s := range known {
		n, ok := sumOf(s, bound)
		if old, given := bound[s]; ok && given && old != n {
			f.addf("symbolic dimension %q is %d by its terms and given as %d", s, n, old)
		} else if ok {
			bound[s] = n
		}
	}
	return bound, f.err()
}

// sumOf returns the value of a symbol that is a sum of bound ones and numbers.
func sumOf(s string, bound map[string]int64) (sum int64, ok bool) {
	terms := strings.Split(s, "+")
	if len(terms) < 2 {
		return 0, false
	}
	for _, t := range terms {
		t = strings.TrimSpace(t)
		n, known := bound[t]
		if !known {
			var err error
			if n, err = strconv.ParseInt(t, 10, 64); err != nil || n < 0 || n > maxElements {
				return 0, false
			}
		}
		sum += n
	}
	return sum, true
}

func quotedList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return `"` + strings.Join(names, `", "`) + `"`
}
