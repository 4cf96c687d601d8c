package onnx

import (
	"fmt"

	"situ/ir"
)

// sample writes GridSample: coordinates from −1 to 1, the last dimension's first,
// as many dimensions of places as x has spatial ones.
func (e *exporter) sample(op *ir.Op, a *ir.SampleAttr, in []string, out string) error {
	t, at := e.g.Type(op.In[0]), e.g.Type(op.In[1]).Shape
	rank := len(t.Shape)
	n := rank - 2
	edge := map[ir.SampleEdge]string{ir.SampleZeros: "zeros", ir.SampleBorder: "border",
		ir.SampleMirrorCentres: "reflection", ir.SampleMirrorEdges: "reflection"}[a.Edge]
	align := 0
	if a.Edge == ir.SampleMirrorCentres {
		align = 1
	}
	places := []int{at[0], ir.Numel(at[1 : len(at)-1])}
	scale, shift, order := make([]float64, n), make([]float64, n), make([]int, n)
	for i := range n {
		d := n - 1 - i // coordinates are reversed before they are scaled
		size := t.Shape[1+d]
		if align == 1 && size == 1 {
			return fmt.Errorf("mirrors about the centres of a dimension of 1, which has no ONNX form")
		}
		order[i], scale[i], shift[i] = d, 2/float64(size), 1/float64(size)-1
		if align == 1 {
			scale[i], shift[i] = 2/float64(size-1), -1
		}
		if i > 0 {
			places = append(places, 1)
		}
	}
	grid := e.node("Gather", "", []string{in[1], e.ints(order)}, attrInt("axis", -1))
	grid = e.node("Reshape", "", []string{grid, e.ints(append(places, n))})
	grid = e.node("Mul", "", []string{grid, e.tensor(fromFloats(t.DType, []int{n}, scale))})
	grid = e.node("Add", "", []string{grid, e.tensor(fromFloats(t.DType, []int{n}, shift))})
	x := e.node("Transpose", "", in[:1], attrInts("perm", channelsFirst(rank)...))
	y := e.node("GridSample", "", []string{x, grid}, attrString("mode", a.Mode.String()),
		attrString("padding_mode", edge), attrInt("align_corners", align))
	y = e.node("Transpose", "", []string{y}, attrInts("perm", channelsLast(rank)...))
	e.node("Reshape", out, []string{y, e.ints(e.g.Type(op.Out).Shape)})
	return nil
}
