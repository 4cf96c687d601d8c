package runtime

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/ir"
)

// tokenGraph looks tokens [1,3] up in a table of logits.
func tokenGraph(t *testing.T) *ir.Graph {
	g := &ir.Graph{Name: "tokens"}
	x := g.AddInput("x", ir.TypeOf(ir.I64, 1, 3))
	table := g.AddConst("table", ir.NewTensor(ir.F32, []int{2, 2}, []float32{0, 0, 1, 3}), nil)
	y, err := g.Add(ir.Gather, "y", &ir.AxisAttr{Axis: 0}, table, x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	return g
}

func writePair(t *testing.T, x, y *ir.Tensor) string {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npy")}
	for i, v := range []*ir.Tensor{x, y} {
		if err := onnx.WriteTensorFile(paths[i], "", v); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(paths, ",")
}

func TestTokenData(t *testing.T) {
	g := tokenGraph(t)
	path := writePair(t, ir.NewTensor(ir.I32, []int{2, 3}, []int32{0, 1, 1, 0, 0, 0}), ir.NewTensor(ir.I64, []int{2, 3}, []int64{0, 1, 0, 1, 1, 1}))
	d, err := readData(&Model{Graph: g}, DataOptions{Path: path, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	out, err := outputsOf(context.Background(), g, d.inputs)
	if err != nil {
		t.Fatal(err)
	}
	s := score("float", d, out, out)
	// ln 2, then ln(1 + e⁻²) and that plus 2.
	if want := (math.Ln2 + 2*math.Log1p(math.Exp(-2)) + 2) / 3; math.Abs(*s.Nats-want) > 1e-6 || *s.Right != 2 || s.Same != 3 {
		t.Errorf("%v nat, %d right, %d same; want %v, 2 and 3", *s.Nats, *s.Right, s.Same, want)
	}
	for want, path := range map[string]string{
		"sequences of 2":      writePair(t, ir.NewTensor(ir.I32, []int{1, 2}, []int32{0, 1}), ir.NewTensor(ir.I32, []int{1, 2}, []int32{0, 1})),
		"a label for each":    writePair(t, ir.NewTensor(ir.I32, []int{1, 3}, []int32{0, 1, 1}), ir.NewTensor(ir.I32, []int{1}, []int32{0})),
		"want integers":       writePair(t, ir.NewTensor(ir.F32, []int{1, 3}, []float32{0, 1, 1}), ir.NewTensor(ir.I32, []int{1, 3}, []int32{0, 1, 1})),
		"label -1 of":         writePair(t, ir.NewTensor(ir.I32, []int{1, 3}, []int32{0, 1, 1}), ir.NewTensor(ir.I32, []int{1, 3}, []int32{0, 1, -1})),
		"no such file or dir": "none.npy,none.npy",
	} {
		if _, err := readData(&Model{Graph: g}, DataOptions{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestLanguageModel: a transformer in W8A8 loses next to nothing, calibrated with
// inputs that are not measured.
func TestLanguageModel(t *testing.T) {
	dir := sharedDir(t, "onnx", "models", "self-char-gpt-4l")
	data := sharedDir(t, "datasets")
	calibration := t.TempDir() // the other recorded input is of another length
	b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", "input_0.pb"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(calibration, "input_0.pb"), b, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := MeasureAccuracy(context.Background(), filepath.Join(dir, "model.onnx"), ModelOptions{Dims: map[string]int64{"batch": 1, "seq": 64}},
		QuantOptions{CalibrationDir: calibration}, DataOptions{Path: filepath.Join(data, "char_gpt_val_x.npy") + "," + filepath.Join(data, "char_gpt_val_y.npy"), Limit: 16})
	if err != nil {
		t.Fatal(err)
	}
	float, int8 := r.Precisions[0], r.Precisions[1]
	t.Logf("float %.4f nat, int8 %.4f nat, %.1f dB", *float.Nats, *int8.Nats, *int8.SQNRdB)
	if loss := *int8.Nats - *float.Nats; loss > 0.01 || *int8.SQNRdB < 28 {
		t.Errorf("int8 loses %.4f nat and has %.1f dB", loss, *int8.SQNRdB)
	}
}
