package runtime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"situ/backend/pim"
	"situ/backend/pim/isa"
	"situ/frontend/onnx"
	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// TestSteps runs decoding steps of an attention block whose cache is kept, as exporters
// write it, past the point where its oldest entries are replaced: every bit of every
// step is that of the evaluator with the cache passed from step to step. The program
// may go through a file. A step moves less of DRAM than one that is given the cache, by
// all of it.
func TestSteps(t *testing.T) {
	ctx := context.Background()
	for _, a := range []attention{{1, 1, 6, 4, 4, 16}, {2, 2, 8, 4, 2, 16}, {1, 1, 300, 4, 1, 64}} {
		g, in := a.graph(t)
		cache := int64(0)
		for _, x := range in[1:] {
			cache += 4 * int64(x.Numel())
		}
		given, err := prepare(ctx, &Model{Name: "attention", Graph: g}, QuantOptions{}, [][]*ir.Tensor{in})
		if err != nil {
			t.Fatal(err)
		}
		p, err := prepare(ctx, &Model{Name: "attention", Graph: g, States: ir.StatesByName(g)}, QuantOptions{}, [][]*ir.Tensor{in})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.States) != 2 {
			t.Fatalf("states %+v, warnings %v", p.States, p.Warnings)
		}
		steps, err := p.stepInputs(in, [][]named{nil}, RunOptions{Steps: a.past/a.positions%20 + 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, on := range []string{"edge-dimc", "corsair-card"} {
			target, err := OpenTarget(on)
			if err != nil {
				t.Fatal(err)
			}
			res, _, err := runPIM(ctx, p, target, in, RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := p.compile(target, pim.Latency)
			if err != nil {
				t.Fatal(err)
			}
			file, err := isa.Encode(c.program)
			if err != nil {
				t.Fatal(err)
			}
			prog, err := isa.Decode(file)
			if err != nil || !reflect.DeepEqual(prog.States, c.program.States) {
				t.Fatalf("states %+v became %+v in a file: %v", c.program.States, prog.States, err)
			}
			if c, err = load(prog, target.Chip); err != nil {
				t.Fatal(err)
			}
			_, first, err := c.run(ctx, in, FunctionalOnly, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			all, err := c.goOn(ctx, steps, first)
			if err != nil {
				t.Fatal(err)
			}
			if agree, err := p.stepsAgree(ctx, steps, all); err != nil || !agree.BitExact {
				t.Errorf("%s, %+v: %d steps give other bits than the evaluator (%v)", on, a, len(steps), err)
			}
			before, _, err := runPIM(ctx, given, target, in, RunOptions{Mode: TimingOnly})
			if err != nil {
				t.Fatal(err)
			}
			codes := cache / 4
			if s := res.State; s == nil || s.ResidentBytes != codes || s.SpilledBytes != 0 || s.NewBytes != codes/int64(a.past)*int64(a.positions) {
				t.Errorf("%s, %+v: state %+v, the cache has %d codes", on, a, s, codes)
			}
			if saved := before.Bytes.DRAM - res.Bytes.DRAM; saved < cache {
				t.Errorf("%s, %+v: a step moves %d bytes of DRAM, one that is given the cache %d; the cache has %d", on, a, res.Bytes.DRAM, before.Bytes.DRAM, cache)
			}
			t.Logf("%s, %+v: %d bytes of DRAM a step, %d where the cache is given; %.3g and %.3g s", on, a, res.Bytes.DRAM, before.Bytes.DRAM, res.LatencyS, before.LatencyS)
			pricer, err := NewPricer(p, target.Chip)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Price(ctx, p, target.Chip, 0, true)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := pricer.Price(ctx, target.Chip, 0, true); err != nil || got != want {
				t.Errorf("%s: priced as %+v, %v; emulated %+v", on, got, err, want)
			}
		}
	}
}

// TestStepsOfModels runs steps of published models that keep a state.
func TestStepsOfModels(t *testing.T) {
	models := sharedDir(t, "onnx", "models")
	for name, pair := range map[string]string{"silero-vad-16k": AutoStates, "dtln-2": "input_5=tf_op_layer_stack_5"} {
		dir := filepath.Join(models, name)
		mo := ModelOptions{States: []string{pair}}
		for _, on := range []string{"edge-dimc", "corsair-card"} {
			r, err := RunModel(context.Background(), filepath.Join(dir, "model.onnx"), on, mo, QuantOptions{},
				RunOptions{Inputs: filepath.Join(dir, "test_data_set_0"), Steps: 4})
			if err != nil {
				t.Fatal(err)
			}
			if s := r.Result.State; !r.Result.Agreement.BitExact || s == nil || s.Tensors != 1 || s.SpilledBytes > 0 || len(r.Outputs) != 1 {
				t.Errorf("%s on %s: bits equal: %v, state %+v, %d outputs", name, on, r.Result.Agreement.BitExact, s, len(r.Outputs))
			}
		}
	}
}

// TestStepsOfSets takes the inputs of steps from folders in the order of their numbers,
// for a model of which one input became a constant.
func TestStepsOfSets(t *testing.T) {
	g := newGraph()
	g.p.Input = append(g.p.Input, infoOf("n", int64s), infoOf("x", float, 4), infoOf("h_in", float, 1, 4))
	g.list("first", 0)
	g.list("one", 1)
	g.node("Unsqueeze(n, first) width", nil)
	g.node("Concat(one, width) shape", map[string]any{"axis": 0})
	g.node("Reshape(x, shape) row", nil)
	g.node("Add(row, h_in) h_out", nil)
	g.node("Relu(h_out) y", nil)
	g.p.Output = append(g.p.Output, infoOf("y", float, 1, 4), infoOf("h_out", float, 1, 4))
	dir := t.TempDir()
	write := func(path string, m proto.Message) {
		t.Helper()
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	model := filepath.Join(dir, "model.onnx")
	write(model, &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g.p})
	const steps = 12
	set := func(k int, n int64) {
		in := []*ir.Tensor{ir.NewTensor(ir.I64, nil, []int64{n}), ir.NewTensor(ir.F32, []int{4}, []float32{1, 0, 0, float32(k)}), ir.Zeros(ir.F32, 1, 4)}
		for i, name := range []string{"n", "x", "h_in"} {
			write(filepath.Join(dir, fmt.Sprintf("test_data_set_%d", k), fmt.Sprintf("input_%d.pb", i)), onnx.EncodeTensor(name, in[i]))
		}
	}
	for k := range steps {
		set(k, 4)
	}
	sets, err := readInputs(dir)
	if err != nil || len(sets) != steps {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	for k, s := range sets {
		if ir.Data[float32](s[1].tensor)[3] != float32(k) {
			t.Errorf("set %d is %s", k, s[1].path)
		}
	}
	run := func() (*RunReport, error) {
		return RunModel(context.Background(), model, "edge-dimc", ModelOptions{States: []string{AutoStates}}, QuantOptions{Disable: []string{"quantise"}}, RunOptions{Inputs: dir, Steps: steps})
	}
	r, err := run()
	if err != nil {
		t.Fatal(err)
	}
	if !r.Result.Agreement.BitExact || len(r.Outputs) != 1 {
		t.Fatalf("%+v, %d outputs", r.Result.Agreement, len(r.Outputs))
	}
	if got, want := ir.Data[float32](r.Outputs[0]), []float32{steps, 0, 0, steps * (steps - 1) / 2}; !slices.Equal(got, want) {
		t.Errorf("after %d steps %v, want %v", steps, got, want)
	}
	set(5, 2)
	if _, err := run(); err == nil || !strings.Contains(err.Error(), `step 6: `) || !strings.Contains(err.Error(), `input "n" of model`) {
		t.Errorf("another constant in step 6: %v", err)
	}
}

func TestStateErrors(t *testing.T) {
	run := func(states []string, o RunOptions) error {
		_, err := RunModel(context.Background(), "digits", "edge-dimc", ModelOptions{States: states}, QuantOptions{}, o)
		return err
	}
	for want, err := range map[string]error{
		"keeps no state for 2 steps":   run([]string{AutoStates}, RunOptions{Steps: 2}),
		`no input "a"; there is image`: run([]string{"a=b"}, RunOptions{}),
		"are no state":                 run([]string{"image=logits"}, RunOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	g, _ := attention{1, 1, 6, 4, 4, 16}.graph(t)
	if _, err := statesOf(g, []string{"past_k=present_k", "past_k=present_k"}); err == nil || !strings.Contains(err.Error(), "another state already") {
		t.Errorf("one input in two states: %v", err)
	}
	for _, tt := range []struct {
		words []string
		n     int
	}{{nil, 0}, {[]string{AutoStates}, 2}, {[]string{AutoStates, NoStates}, 0}, {[]string{AutoStates, NoStates, "past_k=present_k"}, 1}, {[]string{AutoStates, "past_k=present_k"}, 2}} {
		if s, err := statesOf(g, tt.words); err != nil || len(s) != tt.n {
			t.Errorf("%v: %+v, %v; want %d", tt.words, s, err, tt.n)
		}
	}
}

// TestStepsWithHost says why a model of which the host runs part keeps no state.
func TestStepsWithHost(t *testing.T) {
	g := newGraph()
	g.p.Input = append(g.p.Input, infoOf("x", float, 1, 4), infoOf("h_in", float, 1, 4))
	g.weights("w", 4, 4)
	g.node("MatMul(x, w) xw", nil)
	g.node("Add(xw, h_in) h_out", nil)
	g.node("Sin(h_out) y", nil)
	g.p.Output = append(g.p.Output, infoOf("y", float, 1, 4), infoOf("h_out", float, 1, 4))
	b, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g.p})
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(model, b, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(steps int) (*RunReport, error) {
		return RunModel(context.Background(), model, "edge-dimc", ModelOptions{States: []string{AutoStates}}, QuantOptions{}, RunOptions{Steps: steps})
	}
	r, err := run(1)
	if err != nil || len(r.Outputs) != 2 || r.Result.State != nil || r.Result.Host == nil || !r.Result.Agreement.BitExact {
		t.Fatalf("one step gives %+v, %v", r, err)
	}
	if _, err := run(2); err == nil || !strings.Contains(err.Error(), "the host runs part of the model") {
		t.Errorf("two steps: %v", err)
	}
}
