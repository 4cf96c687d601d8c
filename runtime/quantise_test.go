package runtime

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"situ/frontend/onnx"
	"situ/internal/mnist"
	"situ/internal/ort"
	"situ/ir"
)

// ortBatch runs a model on each row of X.npy and writes the rows of its first
// output, one after the other, to a file of float32 values.
const ortBatch = `
import fs from 'node:fs';
import { ort, readTensor } from './tensor.mjs';
const [model, x, out, opt] = process.argv.slice(1);
const s = await ort.InferenceSession.create(model, { graphOptimizationLevel: opt, intraOpNumThreads: 1, logSeverityLevel: 3 });
const X = readTensor(x), n = X.dims[0], per = X.data.length / n, parts = [];
for (let i = 0; i < n; i++) {
  const r = await s.run({ [s.inputNames[0]]: new ort.Tensor('float32', X.data.slice(i * per, (i + 1) * per), X.dims.slice(1)) });
  parts.push(Float32Array.from(r[s.outputNames[0]].data));
}
fs.writeFileSync(out, Buffer.concat(parts.map(p => Buffer.from(p.buffer))));
console.log(s.inputNames[0], s.outputNames[0]);
`

// ortSaturates reports whether ONNX Runtime's integer kernels, which it uses for
// quantised models when it may optimise them, saturate on this processor.
func ortSaturates() bool {
	x := &cpu.X86
	return x.HasAVX2 && !x.HasAVX512VNNI && !x.HasAVXVNNI
}

const saturation = "as without VNNI instructions, which this processor lacks, ONNX Runtime adds products in pairs of 16 bits, which saturate"

// ortOutputs runs a model in ONNX Runtime on inputs of one shape. It returns the
// first output for each, and the names of input and output.
func ortOutputs(t *testing.T, model []byte, inputs [][]*ir.Tensor, opt string) (rows [][]float64, names string) {
	dir, err := ort.Dir()
	if err != nil {
		t.Skipf("needs ONNX Runtime for node: %v", err)
	}
	tmp := t.TempDir()
	file := func(name string) string { return filepath.Join(tmp, name) }
	if err := os.WriteFile(file("model.onnx"), model, 0o644); err != nil {
		t.Fatal(err)
	}
	var all []float32
	for _, in := range inputs {
		all = append(all, ir.Data[float32](in[0])...)
	}
	x := ir.NewTensor(ir.F32, append([]int{len(inputs)}, inputs[0][0].Shape...), all)
	if err := onnx.WriteTensorFile(file("x.npy"), "", x); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "--input-type=module", "-e", ortBatch, file("model.onnx"), file("x.npy"), file("y.bin"), opt)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ONNX Runtime: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(file("y.bin"))
	if err != nil {
		t.Fatal(err)
	}
	per := len(raw) / 4 / len(inputs)
	y := make([]float32, per)
	for row := range slices.Chunk(raw, 4*per) {
		if _, err := binary.Decode(row, binary.LittleEndian, y); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, widen(y))
	}
	return rows, strings.TrimSpace(string(out))
}

// TestQuantiseORT holds the QDQ models that situ writes, run by ONNX Runtime,
// against the emulator on the same inputs.
func TestQuantiseORT(t *testing.T) {
	sharedDir(t, "tools", "ort")
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("needs node: %v", err)
	}
	train, test, err := mnist.Load()
	if err != nil {
		t.Fatal(err)
	}
	digits := func(f func(float32) float32) (data, calibration labelled) {
		return mnistData(&mnist.Set{Images: test.Images[:200], Labels: test.Labels[:200]}, f),
			mnistData(&mnist.Set{Images: train.Images[:32], Labels: train.Labels[:32]}, f)
	}
	unit := func(v float32) float32 { return v / 255 }
	norm := func(v float32) float32 { return (v/255 - .1307) / .3081 }
	cifar := func() (data, calibration labelled) {
		d := cifarData(t, chw)
		return d, labelled{d.x[:32], d.label[:32]}
	}
	target, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		model, weights string
		mixed          string
		data           func() (data, calibration labelled)
		dims           map[string]int64
		opt            []string // levels of ONNX Runtime's optimisation
	}{
		{"digits", "int8", "none", func() (labelled, labelled) { return digits(unit) }, nil, []string{"disabled", "all"}},
		{"digits", "int4", "none", func() (labelled, labelled) { return digits(unit) }, nil, []string{"all"}},
		{"digits", "mxint8", "none", func() (labelled, labelled) { return digits(unit) }, nil, []string{"disabled"}},
		{"digits", "mxint4", "none", func() (labelled, labelled) { return digits(unit) }, nil, []string{"disabled"}},
		{"mnist-cntk", "int8", "none", func() (labelled, labelled) { return digits(unit) }, nil, []string{"all"}},
		{"cnn-mnist-pytorch", "int8", "none", func() (labelled, labelled) { return digits(norm) }, nil, []string{"all"}},
		{"cifar10-resnet20-bn", "int8", "0.5", cifar, map[string]int64{"N": 1}, []string{"all"}},
		{"cifar10-resnet20-bn", "int8", "none", cifar, map[string]int64{"N": 1}, []string{"all"}},
	} {
		t.Run(tt.model+"/"+tt.weights+"/"+tt.mixed, func(t *testing.T) {
			path := tt.model
			if tt.model != "digits" {
				path = filepath.Join(sharedDir(t, "onnx", "models"), tt.model, "model.onnx")
			}
			m, err := OpenModel(path, ModelOptions{Dims: tt.dims})
			if err != nil {
				t.Fatal(err)
			}
			data, calibration := tt.data()
			if tt.model == "digits" { // those that ship too
				images, _, err := m.Ships.Test()
				if err != nil {
					t.Fatal(err)
				}
				data.x = append(data.x, images...)
			}
			q, given := QuantOptions{Weights: tt.weights, Mixed: tt.mixed}, inputsOf(m.Graph, calibration.x)
			r, err := quantise(context.Background(), m, q, given)
			if err != nil {
				t.Fatal(err)
			}
			p, err := prepare(context.Background(), m, q, given)
			if err != nil {
				t.Fatal(err)
			}
			inputs := inputsOf(m.Graph, data.x)
			var want []*ir.Tensor
			for _, in := range inputs {
				out, err := emulate(context.Background(), p, target, in)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, out[0])
			}
			opts := tt.opt
			if ortSaturates() {
				opts = []string{"disabled"}
				t.Log("only without optimisations, " + saturation)
			}
			for _, opt := range opts {
				got, names := ortOutputs(t, r.Encoded, inputs, opt)
				if w := m.Graph.Value(m.Graph.Inputs[0]).Name + " " + outputNames(m.Graph)[0]; names != w {
					t.Errorf("the file's input and output are %s, the model's %s", names, w)
				}
				sameOutputs(t, opt, got, want)
			}
		})
	}
}

// sameOutputs holds rows of outputs against tensors: the same class, and stepShare
// of the elements within one step. A step is what one of 8 bits would be, for
// these outputs are not rounded to 8 bits.
func sameOutputs(t *testing.T, what string, got [][]float64, want []*ir.Tensor) {
	t.Helper()
	lo, hi := 0.0, 0.0
	for _, r := range got {
		lo, hi = min(lo, slices.Min(r)), max(hi, slices.Max(r))
	}
	classes, d := 0, difference{}
	for i, w := range want {
		if argmax(got[i]) != argmax(reals(w)) {
			classes++
		}
		d.add(compare(ir.NewTensor(ir.F64, w.Shape, got[i]), w, (hi-lo)/255))
	}
	t.Logf("%s: %d inputs, %d of another class, %d of %d elements beyond one step, largest difference %.2g steps",
		what, len(want), classes, d.beyond, d.n, d.maxAbs/((hi-lo)/255))
	if classes > 0 || d.beyond > allowedBeyond(d.n) {
		t.Errorf("%s: %d of %d inputs have another class, %d of %d elements are beyond one step", what, classes, len(want), d.beyond, d.n)
	}
}

// inputsOf makes inputs of a graph's only input.
func inputsOf(g *ir.Graph, rows [][]float32) [][]*ir.Tensor {
	var out [][]*ir.Tensor
	for _, x := range rows {
		out = append(out, []*ir.Tensor{ir.NewTensor(ir.F32, g.Type(g.Inputs[0]).Shape, x)})
	}
	return out
}

// inBlocks counts the constants of a graph that are codes in blocks.
func inBlocks(g *ir.Graph) (n int) {
	for i := range g.Values {
		if q := g.Values[i].Type.Quant; g.IsConst(ir.ValueID(i)) && q != nil && q.Block > 0 {
			n++
		}
	}
	return n
}

// TestQuantiseReadBack reads the written file again: the same interface, hardly a
// Transpose, weights in the same form, and outputs that are those of the fixed-point
// graph.
func TestQuantiseReadBack(t *testing.T) {
	for _, weights := range []string{"int8", "int4", "mxint8", "mxint4"} {
		q := QuantOptions{Weights: weights}
		r, err := Quantise(context.Background(), "digits", ModelOptions{}, q)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "digits.onnx")
		if err := os.WriteFile(path, r.Encoded, 0o644); err != nil {
			t.Fatal(err)
		}
		parsed, err := onnx.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, n := range parsed.Proto.Graph.Node {
			count[n.OpType]++
		}
		if count["Conv"] != 3 || count["QuantizeLinear"] != r.Summary.Activations || count["Transpose"] > 1+count["Reshape"] {
			t.Errorf("%s: nodes are %v; one Transpose before Flatten, and one for each matrix of blocks, is all there should be", weights, count)
		}
		m, err := OpenModel("digits", ModelOptions{})
		if err != nil {
			t.Fatal(err)
		}
		back, err := OpenModel(path, ModelOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := describeInputs(m.Graph, len(m.Graph.Inputs)), describeInputs(back.Graph, len(back.Graph.Inputs)); a != b {
			t.Errorf("%s: inputs are %s, were %s", weights, b, a)
		}
		if a, b := outputNames(m.Graph), outputNames(back.Graph); !slices.Equal(a, b) {
			t.Errorf("%s: outputs are %q, were %q", weights, b, a)
		}
		p, err := Prepare(context.Background(), m, q)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Prepare(context.Background(), back, QuantOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := inBlocks(p.Fixed), inBlocks(again.Fixed); a != b || len(again.Fallback) > 0 {
			t.Errorf("%s: %d constants in blocks, were %d; in float32: %v", weights, b, a, again.Fallback)
		}
		images, _, err := m.Ships.Test()
		if err != nil {
			t.Fatal(err)
		}
		var got [][]float64
		var want []*ir.Tensor
		for _, in := range inputsOf(m.Graph, images[:50]) {
			a, err := evaluate(context.Background(), back.Graph, in)
			if err != nil {
				t.Fatal(err)
			}
			b, err := evaluate(context.Background(), p.Fixed, in)
			if err != nil {
				t.Fatal(err)
			}
			got, want = append(got, reals(a[0])), append(want, b[0])
		}
		sameOutputs(t, weights, got, want)
		if _, err := Quantise(context.Background(), path, ModelOptions{}, q); err == nil || !strings.Contains(err.Error(), "quantised already") {
			t.Errorf("quantised again: %v", err)
		}
	}
}
