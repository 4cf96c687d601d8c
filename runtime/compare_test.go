package runtime

import (
	"context"
	"os"
	"path/filepath"
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
