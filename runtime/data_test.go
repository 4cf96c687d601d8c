package runtime

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/ir"
)

// pixels is a graph that takes an image.
func pixels(shape ...int) *ir.Graph {
	g := &ir.Graph{Name: "pixels"}
	g.Outputs = []ir.ValueID{g.AddInput("x", ir.TypeOf(ir.F32, shape...))}
	return g
}

func writeTestFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDataLayouts reads an image of 1 × 5 pixels and 3 channels, element
// pixel + 10·channel, in both layouts for models of both. Scale and means take the
// channel away again.
func TestDataLayouts(t *testing.T) {
	const hwc = "2, 0,10,20, 1,11,21, 2,12,22, 3,13,23, 4,14,24,\n"
	const chw = "2, 0,1,2,3,4, 10,11,12,13,14, 20,21,22,23,24\n"
	planes := []float32{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}
	points := []float32{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}
	for _, tt := range []struct {
		text, layout string
		shape        []int
		want         []float32
	}{
		{hwc, "nhwc", []int{1, 3, 1, 5}, planes}, {chw, "nchw", []int{1, 3, 1, 5}, planes}, {chw, "", []int{1, 3, 1, 5}, planes},
		{hwc, "nhwc", []int{1, 5, 1, 3}, points}, {chw, "nchw", []int{1, 5, 1, 3}, points}, {hwc, "", []int{1, 5, 1, 3}, points},
	} {
		o := DataOptions{Path: writeTestFile(t, "d.csv", tt.text), Layout: tt.layout, Scale: 0.5, Mean: []float64{0, 5, 10}, Std: []float64{0.5}}
		d, err := readData(&Model{Graph: pixels(tt.shape...)}, o)
		if err != nil {
			t.Errorf("%q for %v: %v", tt.layout, tt.shape, err)
			continue
		}
		if got := ir.Data[float32](d.inputs[0][0]); !slices.Equal(got, tt.want) || d.labels[0] != 2 {
			t.Errorf("%q for %v: %v label %d, want %v label 2", tt.layout, tt.shape, got, d.labels[0], tt.want)
		}
	}
}

// TestDataPairs reads a folder of x.npy and y.npy and the same pair by name.
func TestDataPairs(t *testing.T) {
	dir := t.TempDir()
	x, y := filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npy")
	if err := onnx.WriteTensorFile(x, "", ir.NewTensor(ir.U8, []int{3, 2}, []uint8{0, 255, 51, 102, 1, 2})); err != nil {
		t.Fatal(err)
	}
	if err := onnx.WriteTensorFile(y, "", ir.NewTensor(ir.I64, []int{3}, []int64{1, 0, 1})); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, x + "," + y} {
		d, err := readData(&Model{Graph: pixels(1, 2)}, DataOptions{Path: path, Scale: 1.0 / 255, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.inputs) != 2 || !slices.Equal(ir.Data[float32](d.inputs[1][0]), []float32{0.2, 0.4}) || !slices.Equal(d.labels, []int{1, 0}) {
			t.Errorf("%s: %d inputs, the second %v, labels %v", path, len(d.inputs), d.inputs[1][0].Any(), d.labels)
		}
	}
}

func TestDataRefuses(t *testing.T) {
	for _, tt := range []struct {
		text string
		o    DataOptions
		want string
	}{
		{"1,2,3\n1,2\n", DataOptions{}, "d.csv:2: 1 elements"},
		{"label,a,b\n", DataOptions{}, `d.csv:1: field 1 is "label"`},
		{"0.5,1,2\n", DataOptions{}, "label 0.5 is no class"},
		{"-1,1,2\n", DataOptions{}, "label -1 is no class"},
		{"", DataOptions{}, "no inputs"},
		{"1,2,3\n", DataOptions{Layout: "hwc"}, `no layout "hwc"`},
		{"1,2,3\n", DataOptions{Layout: "nhwc"}, "cannot tell which dimension"},
		{"1,2,3\n", DataOptions{Mean: []float64{1, 2, 3}}, "cannot tell which dimension"},
		{"1,2,3\n", DataOptions{Std: []float64{0}}, "is positive"},
		{"1,2,3\n", DataOptions{Std: []float64{math.NaN()}}, "is positive"},
	} {
		tt.o.Path = writeTestFile(t, "d.csv", tt.text)
		if _, err := readData(&Model{Graph: pixels(1, 2)}, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %+v: %v, want %q", tt.text, tt.o, err, tt.want)
		}
	}
}

// TestMeasureAccuracy holds the report on the model that ships against what is
// known of it, and a layer's ratio against one computed from the definition.
func TestMeasureAccuracy(t *testing.T) {
	r, err := MeasureAccuracy(context.Background(), "digits", ModelOptions{}, QuantOptions{}, DataOptions{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Precisions) != 5 || r.Inputs != 100 || len(r.Layers) != 4 || r.LayerRuns != layerRuns {
		t.Fatalf("%d precisions, %d inputs, %d layers on %d inputs", len(r.Precisions), r.Inputs, len(r.Layers), r.LayerRuns)
	}
	for i, p := range r.Precisions {
		if *p.Right < 97 || i > 0 && (*p.SQNRdB < 20 || *p.SQNRdB > 60) {
			t.Errorf("%s: %d of 100 right, %v dB", p.Name, *p.Right, p.SQNRdB)
		}
	}
	if a, b := *r.Precisions[1].SQNRdB, *r.Precisions[2].SQNRdB; a < b+6 {
		t.Errorf("int8 has %.1f dB, int4 weights %.1f: four bits fewer should cost more", a, b)
	}
	if !slices.IsSortedFunc(r.Layers, func(a, b LayerNoise) int { return int(math.Copysign(1, *a.SQNRdB-*b.SQNRdB)) }) {
		t.Error("layers are not sorted")
	}
	m, err := OpenModel("digits", ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(context.Background(), m, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := shippedData(m, layerRuns)
	if err != nil {
		t.Fatal(err)
	}
	var signal, noise float64 // after the last layer, which is the output
	for _, in := range d.inputs {
		want, err := evaluate(context.Background(), m.Graph, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := evaluate(context.Background(), p.Fixed, in)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range reals(want[0]) {
			e := reals(got[0])[i] - w
			signal, noise = signal+w*w, noise+e*e
		}
	}
	k := slices.IndexFunc(r.Layers, func(l LayerNoise) bool { return l.Op == "matmul" })
	if k < 0 || math.Abs(*r.Layers[k].SQNRdB-10*math.Log10(signal/noise)) > 0.01 {
		t.Errorf("layers %+v; the last has %.2f dB by definition", r.Layers, 10*math.Log10(signal/noise))
	}
}

// TestMeaning turns codes of a channel in the middle into numbers.
func TestMeaning(t *testing.T) {
	ty := ir.TypeOf(ir.I8, 1, 2, 2).WithQuant(&ir.Quant{Axis: 1, Scale: []float32{1, 0.5}, Zero: []int32{0, 2}})
	got := reals(meaning(ir.NewTensor(ir.I8, ty.Shape, []int8{1, 2, 3, 4}), ty))
	if want := []float64{1, 2, 0.5, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
