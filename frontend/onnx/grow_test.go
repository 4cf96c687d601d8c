package onnx_test

import (
	"slices"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/internal/decodertest"
)

// TestCaches: inputs that come back longer are found, sums of dimensions have values, and
// a cache may be empty, when it is no input.
func TestCaches(t *testing.T) {
	m, err := onnx.Parse(decodertest.Small.ONNX(), "")
	if err != nil {
		t.Fatal(err)
	}
	caches := m.Caches()
	if len(caches) != 4 || caches[2] != (onnx.Cache{Input: "past_key_values.1.key", Output: "present.1.key", Axis: 2, Symbol: "past_sequence_length"}) {
		t.Errorf("caches %+v", caches)
	}
	if a, b, c := m.Symbol("input_ids", 1), m.Symbol("input_ids", 2), m.Symbol("none", 0); a != "sequence_length" || b != "" || c != "" {
		t.Errorf("symbols %q, %q, %q", a, b, c)
	}
	for _, tt := range []struct {
		past, seq, total int64 // total 0 is not given
		inputs           int
		mask             []int
		fault            string
	}{
		{5, 1, 0, 7, []int{2, 6}, ""},
		{5, 3, 8, 7, []int{2, 8}, ""},
		{0, 3, 0, 3, []int{2, 3}, ""},
		{5, 3, 9, 0, nil, `is 8 by its terms and given as 9`},
		{5, 0, 0, 0, nil, `"sequence_length" cannot be 0`},
		{-1, 1, 0, 0, nil, `"past_sequence_length" cannot be -1`},
	} {
		dims := map[string]int64{"batch_size": 2, "past_sequence_length": tt.past, "sequence_length": tt.seq}
		if tt.total > 0 {
			dims["past_sequence_length + sequence_length"] = tt.total
		}
		g, err := onnx.Import(m, onnx.ImportOptions{Dims: dims})
		switch {
		case tt.fault != "":
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%+v: %v", tt, err)
			}
		case err != nil:
			t.Errorf("%+v: %v", tt, err)
		case len(g.Inputs) != tt.inputs || !slices.Equal(g.Type(g.Inputs[1]).Shape, tt.mask):
			t.Errorf("%+v: %d inputs, the mask has shape %v", tt, len(g.Inputs), g.Type(g.Inputs[1]).Shape)
		}
	}
}
