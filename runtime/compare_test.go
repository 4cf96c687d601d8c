package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompulsory: what must cross the edge of a chip is of the model and the batch,
// whatever the target.
func TestCompulsory(t *testing.T) {
	c, err := Compare(context.Background(), filepath.Join(sharedDir(t, "onnx", "models"), "bert-toy-6l", "model.onnx"), []string{"edge-dimc", "corsair-card", "h100"},
		ModelOptions{Dims: map[string]int64{"batch": 1, "max_seq_len_in_batch": 4}}, QuantOptions{}, CompareOptions{Batches: []int{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	of := map[int]int64{}
	for _, r := range c.Results {
		if want, ok := of[r.Batch]; ok && r.Compulsory != want {
			t.Errorf("%s at batch %d: %d compulsory bytes, elsewhere %d", r.Target, r.Batch, r.Compulsory, want)
		}
		of[r.Batch] = r.Compulsory
	}
	if of[2] >= of[1] || of[2] <= of[1]/2 {
		t.Errorf("%d compulsory bytes an input at batch 2, %d at batch 1", of[2], of[1])
	}
}

// TestCompareVariants compares a card with variants of it that differ only in
// energies, to which every program fits alike: each must be charged its own.
func TestCompareVariants(t *testing.T) {
	variant := filepath.Join(t.TempDir(), "variant.yaml")
	text := `name: variant
kind: pim
based_on: edge-dimc
description: other energies
power:
  static_w: {value: 0.3, source: "test", confidence: A}
dram:
  energy_fj_per_bit: {value: 1000000, source: "test", confidence: A}
`
	if err := os.WriteFile(variant, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	energies := func(on ...string) map[string]Energy {
		c, err := Compare(context.Background(), "digits", on, ModelOptions{}, QuantOptions{}, CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]Energy{}
		for _, r := range c.Results {
			m[r.Target] = r.Energy
			if got := r.Energy.Static / r.LatencyS; r.Target == "variant" && (got < 0.2999 || got > 0.3001) {
				t.Errorf("variant of 0.3 W is charged %g W", got)
			}
		}
		return m
	}
	a, b := energies("edge-dimc", variant), energies(variant, "edge-dimc")
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s: %+v in one order, %+v in the other", name, a[name], b[name])
		}
	}
	if a["edge-dimc"].DRAM >= a["variant"].DRAM {
		t.Errorf("dearer DRAM costs %g J, cheaper %g J", a["variant"].DRAM, a["edge-dimc"].DRAM)
	}
}

// TestTitle: a title says for which sizes the figures are, and calls a dimension of
// a file the batch only where it is known to be.
func TestTitle(t *testing.T) {
	file := filepath.Join(sharedDir(t, "onnx", "models"), "cifar10-resnet20-bn", "model.onnx")
	for _, test := range []struct {
		model string
		dims  map[string]int64
		batch bool
		want  string
	}{
		{"digits", nil, true, "digits   CNN for 28×28 digits   1.48 M MACs   int8   batch 1"},
		{"digits", nil, false, "digits   CNN for 28×28 digits   1.48 M MACs   int8"},
		{"mobilenetv2", map[string]int64{"batch": 2}, true, "mobilenetv2   MobileNetV2 for 224×224 images   301 M MACs   int8   batch 2"},
		{"gpt2", map[string]int64{"context": 64, "batch": 2}, true, "   batch 2   context=64"},
		{"gpt2", map[string]int64{"context": 64}, false, "   int8   context=64"},
		{file, map[string]int64{"N": 4}, true, "   int8   N=4"},
	} {
		m, err := OpenModel(test.model, ModelOptions{Dims: test.dims})
		if err != nil {
			t.Fatal(err)
		}
		got := title(&Prepared{Model: m, MACs: MACs(m.Graph), Quant: "int8"}, test.batch)
		if !strings.HasSuffix(got, test.want) {
			t.Errorf("%s with %v: %q, want %q", test.model, test.dims, got, test.want)
		}
	}
}

// TestBatchOfModel: a model that is built for two inputs gives the figures of one
// inference, as a batch of two does.
func TestBatchOfModel(t *testing.T) {
	if testing.Short() {
		t.Skip("runs MobileNetV2")
	}
	of := func(dims map[string]int64, batches []int) *Result {
		c, err := Compare(context.Background(), "mobilenetv2", []string{"edge-dimc"}, ModelOptions{Dims: dims}, QuantOptions{}, CompareOptions{Batches: batches})
		if err != nil {
			t.Fatal(err)
		}
		return c.Results[0]
	}
	a, b := of(map[string]int64{"batch": 2}, nil), of(nil, []int{2})
	if a.Batch != 2 || a.LatencyS != b.LatencyS || a.ThroughputS != b.ThroughputS || a.Energy != b.Energy || a.Bytes != b.Bytes || a.MACs != b.MACs || a.Compulsory != b.Compulsory {
		t.Errorf("built for two inputs:\n%+v\na batch of two:\n%+v", a, b)
	}
}

// TestTwice: targets and batches that could not be told apart are refused.
func TestTwice(t *testing.T) {
	for _, test := range []struct {
		on      []string
		batches []int
		want    string
	}{
		{[]string{"edge-dimc", "h100", "edge-dimc"}, nil, "two targets are called edge-dimc"},
		{[]string{"edge-dimc"}, []int{1, 8, 1}, "batch 1 is given twice"},
	} {
		_, err := Compare(context.Background(), "digits", test.on, ModelOptions{}, QuantOptions{}, CompareOptions{Batches: test.batches})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v at %v: %v, want %q", test.on, test.batches, err, test.want)
		}
	}
}
