package onnx

import (
	"testing"

	"situ/ir"
)

// TestExportSample compares but for the rounding of scaled coordinates.
func TestExportSample(t *testing.T) {
	g := &ir.Graph{}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 2, 5, 6, 3))
	places := g.AddConst("places", fromFloats(ir.F32, []int{2, 2, 2, 2},
		[]float64{0.1, 0.2, 3.3, 4.1, -1.2, 7, 2, 2, 0, 5, 1, -3, 9, 9.1, 0.6, 0.7}), nil)
	for edge := ir.SampleZeros; edge <= ir.SampleMirrorEdges; edge++ {
		for mode := ir.SampleLinear; mode <= ir.SampleCubic; mode++ {
			id, err := g.Add(ir.Sample, mode.String()+" "+edge.String(), &ir.SampleAttr{Mode: mode, Edge: edge}, x, places)
			if err != nil {
				t.Fatal(err)
			}
			g.Outputs = append(g.Outputs, id)
		}
	}
	h := roundTrip(t, g)
	in := randomInputs(g)
	want, got := evaluate(t, g, in), evaluate(t, h, in)
	for i := range want {
		if d, err := compareTensors(got[i], want[i], 0); err != nil || d.relative > 1e-5 {
			t.Errorf("%s changed by %v (%v)", g.Value(g.Outputs[i]).Name, d.relative, err)
		}
	}
}
