package runtime

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/internal/decodertest"
	"situ/internal/ort"
	"situ/ir"
)

// decoderFile writes a decoder and returns its file and the sizes of a first step.
func decoderFile(t *testing.T, d decodertest.Decoder, batch, past, tokens int) (string, ModelOptions) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "decoder.onnx")
	if err := os.WriteFile(file, d.ONNX(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, ModelOptions{States: []string{AutoStates}, Dims: map[string]int64{"batch_size": int64(batch), "past_sequence_length": int64(past), "sequence_length": int64(tokens)}}
}

// TestGrowingSteps runs steps of a decoder whose cache grows, from nothing and from some
// entries, by a prompt or token by token: every bit of the outputs is the evaluator's,
// and they are near those of the model at the true length of each step. No step of one
// token moves the cache to or from DRAM, and the sums are those of the steps.
func TestGrowingSteps(t *testing.T) {
	named := decodertest.Small
	named.Total = "total_sequence_length"
	many := decodertest.Decoder{Layers: 2, Heads: 4, KV: 4, Dim: 16, Vocabulary: 32}
	for _, tt := range []struct {
		d                          decodertest.Decoder
		batch, past, tokens, steps int
		on                         string
	}{
		{decodertest.Small, 1, 128, 1, 4, "corsair-card"}, {decodertest.Small, 1, 0, 1, 5, "edge-dimc"}, {decodertest.Small, 2, 0, 7, 5, "corsair-card"},
		{decodertest.Small, 1, 10, 3, 6, "edge-dimc"}, {many, 1, 5, 1, 9, "corsair-card"}, {named, 1, 6, 1, 3, "corsair-card"}, {many, 2, 0, 4, 3, "corsair-card"},
	} {
		t.Run(fmt.Sprintf("%d heads, batch %d, past %d, %d tokens, %d steps on %s", tt.d.Heads, tt.batch, tt.past, tt.tokens, tt.steps, tt.on), func(t *testing.T) {
			file, mo := decoderFile(t, tt.d, tt.batch, tt.past, tt.tokens)
			if tt.d.Total != "" {
				mo.Dims[tt.d.Total] = int64(tt.past + tt.tokens)
			}
			o := RunOptions{Steps: tt.steps}
			r, err := RunModel(context.Background(), file, tt.on, mo, QuantOptions{}, o)
			if err != nil {
				t.Fatal(err)
			}
			if a := r.Result.Agreement; !a.BitExact || a.SQNRdB == nil || *a.SQNRdB < 20 {
				t.Errorf("agreement %+v", a)
			}
			if len(r.Outputs) != 1 || r.Outputs[0].Shape[1] != 1 {
				t.Errorf("%d outputs", len(r.Outputs))
			}
			s := r.Result.Sequence
			one := s.Runs[len(s.Runs)-1]
			rows, later := tt.past+tt.steps, tt.steps
			if tt.tokens > 1 {
				rows, later = tt.past+tt.tokens+tt.steps-1, tt.steps-1
			}
			if one.Steps != later || one.Cache != rows || one.Tokens != 1 || len(s.Runs) != 1+tt.steps-later {
				t.Errorf("sequence %+v", s)
			}
			row := int64(2 * tt.d.Layers * tt.batch * tt.d.KV * tt.d.Dim) // of all caches, in codes
			if k := one.State; k == nil || k.ResidentBytes != row*int64(rows) || k.SpilledBytes != 0 || k.NewBytes != row {
				t.Errorf("state %+v, an entry of the caches has %d bytes", k, row)
			}
			// A token, the mask, cosines and sines of its position; logits.
			moved := int64(8*tt.batch + 8*tt.batch*(rows+1) + 2*4*tt.batch*tt.d.Dim + 4*tt.batch*tt.d.Vocabulary)
			if tt.on == "corsair-card" && one.DRAMBytes != moved { // where weights stay
				t.Errorf("a step moves %d bytes of DRAM, inputs and outputs but the cache have %d", one.DRAMBytes, moved)
			}
			time, energy := float64(later)*one.TimeS, float64(later)*one.EnergyJ
			if later < tt.steps {
				time += s.Runs[0].TimeS + one.Load.TimeS
				energy += s.Runs[0].EnergyJ + one.Load.EnergyJ
				if least := 4 * row * int64(tt.past+tt.tokens); s.Runs[0].DRAMBytes < least || s.Runs[0].State != nil {
					t.Errorf("the prompt moves %d bytes of DRAM, the cache behind it has %d", s.Runs[0].DRAMBytes, least)
				}
			}
			if math.Abs(s.TimeS/time-1) > 1e-9 || math.Abs(s.EnergyJ/energy-1) > 1e-9 {
				t.Errorf("%v s and %v J, the parts add up to %v and %v", s.TimeS, s.EnergyJ, time, energy)
			}
			o.Mode = TimingOnly
			again, err := RunModel(context.Background(), file, tt.on, mo, QuantOptions{}, o)
			if err != nil || again.Result.Sequence.TimeS != s.TimeS || again.Result.Sequence.DRAMBytes != s.DRAMBytes {
				t.Errorf("timing alone says %+v, %v; with outputs it was %+v", again.Result.Sequence, err, s)
			}
		})
	}
}

// TestGrowingInputs gives inputs for each step, with tokens that the mask hides, and
// holds the model at its true lengths against ONNX Runtime, step by step.
func TestGrowingInputs(t *testing.T) {
	const batch, past, tokens, n = 2, 3, 4, 4
	file, mo := decoderFile(t, decodertest.Small, batch, past, tokens)
	_, ortErr := ort.Dir()
	dir := t.TempDir()
	m, err := OpenModel(file, mo)
	if err != nil {
		t.Fatal(err)
	}
	first, err := synthetic(m.Graph, 7)
	if err != nil {
		t.Fatal(err)
	}
	caches := tensors{}
	for i, id := range m.Graph.Inputs {
		if name := m.Graph.Value(id).Name; strings.HasPrefix(name, "past") {
			caches[name] = first[i]
		}
	}
	var want [][]float32
	for k := range n {
		before, fresh := past, tokens
		if k > 0 {
			before, fresh = past+tokens+k-1, 1
		}
		ids, positions, mask := ir.Zeros(ir.I64, batch, fresh), ir.Zeros(ir.I64, batch, fresh), ir.Zeros(ir.I64, batch, before+fresh)
		for i := range batch * fresh {
			ir.Data[int64](ids)[i] = int64((5*k + 3*i) % 32)
			ir.Data[int64](positions)[i] = int64(before + i%fresh)
		}
		for i := range ir.Data[int64](mask) {
			if j := i % (before + fresh); j != 1 && (j != past+tokens || i < before+fresh) {
				ir.Data[int64](mask)[i] = 1
			}
		}
		set := filepath.Join(dir, fmt.Sprintf("test_data_set_%d", k))
		if err := os.Mkdir(set, 0o755); err != nil {
			t.Fatal(err)
		}
		all := tensors{"input_ids": ids, "attention_mask": mask, "position_ids": positions}
		for i, in := range m.growth.parsed.Inputs() {
			x := all[in.Name]
			if x == nil {
				x = caches[in.Name]
			}
			if err := onnx.WriteTensorFile(filepath.Join(set, fmt.Sprintf("input_%d.pb", i)), in.Name, x); err != nil {
				t.Fatal(err)
			}
		}
		if ortErr != nil {
			continue
		}
		if err := ort.Run(file, set); err != nil {
			t.Fatal(err)
		}
		for i, o := range m.growth.parsed.Proto.Graph.Output {
			_, y, err := onnx.ReadTensorFile(filepath.Join(set, fmt.Sprintf("output_%d.pb", i)))
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				want = append(want, ir.Data[float32](y))
				continue
			}
			caches[strings.Replace(o.Name, "present", "past_key_values", 1)] = y
		}
	}
	mo.Dims = nil // the inputs say them
	r, err := RunModel(context.Background(), file, "corsair-card", mo, QuantOptions{}, RunOptions{Inputs: dir, Steps: n})
	if err != nil {
		t.Fatal(err)
	}
	if a := r.Result.Agreement; !a.BitExact || *a.SQNRdB < 20 {
		t.Errorf("agreement %+v", a)
	}
	if _, err := RunModel(context.Background(), file, "corsair-card", mo, QuantOptions{CalibrationDir: dir}, RunOptions{Inputs: dir, Steps: n, Mode: FunctionalOnly}); err != nil {
		t.Error(err)
	}
	if ortErr != nil {
		t.Skipf("needs ONNX Runtime for node: %v", ortErr)
	}
	g, err := newGrowing(file, m, mo, QuantOptions{}, RunOptions{Steps: n})
	if err != nil {
		t.Fatal(err)
	}
	sets, err := readInputs(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := g.sequence(context.Background(), sets, n)
	if err != nil {
		t.Fatal(err)
	}
	for k, s := range steps {
		for i, y := range ir.Data[float32](s.outputs[0]) {
			if math.Abs(float64(y-want[k][i])) > 1e-4 {
				t.Fatalf("step %d: logit %d is %v, ONNX Runtime says %v", k+1, i, y, want[k][i])
			}
		}
	}
}

// TestGrowingErrors: what cannot be run so is refused.
func TestGrowingErrors(t *testing.T) {
	ordered := decodertest.Small
	ordered.ByOrder = true
	for _, tt := range []struct {
		d    decodertest.Decoder
		o    RunOptions
		want string
	}{
		{ordered, RunOptions{Steps: 4}, `"logits" of step 4 differs by`},
		{decodertest.Small, RunOptions{Steps: maxSteps + 1}, "65537 steps"},
		{decodertest.Small, RunOptions{Steps: 2, Trace: os.Stderr}, "--trace shows one program"},
	} {
		file, mo := decoderFile(t, tt.d, 1, 6, 1)
		if _, err := RunModel(context.Background(), file, "corsair-card", mo, QuantOptions{}, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
