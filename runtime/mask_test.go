package runtime

import (
	"context"
	"path/filepath"
	"testing"

	"situ/ir"
)

// TestMaskedTokensWeighNothing runs a transformer whose attention mask is an input
// twice, with other tokens where the mask is 0: what the others give is the same to
// the last bit.
func TestMaskedTokensWeighNothing(t *testing.T) {
	dir := filepath.Join(sharedDir(t, "onnx", "models"), "bert-toy-6l")
	given, err := readSet(filepath.Join(dir, "test_data_set_0"), "input")
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenModel(filepath.Join(dir, "model.onnx"), ModelOptions{inputs: given})
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := bind(m.Graph, m.given)
	if err != nil {
		t.Fatal(err)
	}
	const masked = 3 // tokens at the end of the last sequence
	ids, mask := ir.Data[int64](inputs[0]), ir.Data[int64](inputs[2])
	if name := m.Graph.Value(m.Graph.Inputs[2]).Name; name != "input_mask" {
		t.Fatalf("input 2 is %q", name)
	}
	clear(mask[len(mask)-masked:])
	p, err := prepare(context.Background(), m, QuantOptions{}, [][]*ir.Tensor{inputs})
	if err != nil {
		t.Fatal(err)
	}
	target, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	run := func() []float32 {
		t.Helper()
		out, err := emulate(context.Background(), p, target, inputs)
		if err != nil {
			t.Fatal(err)
		}
		return ir.Data[float32](out[0])
	}
	before := run()
	for i := len(ids) - masked; i < len(ids); i++ {
		ids[i] = (ids[i] + 17) % 90
	}
	after := run()
	shape := m.Graph.Type(m.Graph.Outputs[0]).Shape
	if len(shape) != 3 || shape[0]*shape[1] != len(ids) {
		t.Fatalf("output of shape %v", shape)
	}
	kept, changed := (len(ids)-masked)*shape[2], 0
	for i := range before {
		switch same := before[i] == after[i]; {
		case i < kept && !same:
			t.Fatalf("position %d, channel %d: %v becomes %v with other tokens behind the mask", i/shape[2], i%shape[2], before[i], after[i])
		case i >= kept && !same:
			changed++
		}
	}
	if changed == 0 {
		t.Error("other tokens change nothing: the test sees nothing")
	}
}
