package models

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/internal/ort"
	"situ/ir"
	"situ/ir/eval"
)

// open builds and imports a model.
func open(t *testing.T, m *Model, dims map[string]int64) (*ir.Graph, int64) {
	t.Helper()
	p, params, err := m.Open(dims)
	if err != nil {
		t.Fatal(err)
	}
	g, err := onnx.Import(p, onnx.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g, params
}

// macs counts multiply-accumulates of products with constant weights, and of
// products of two activations.
func macs(g *ir.Graph) (weights, activations int64) {
	for i := range g.Ops {
		op := &g.Ops[i]
		n := int64(g.Type(op.Out).Numel())
		switch op.Kind {
		case ir.Conv2D:
			weights += n * int64(ir.Numel(g.Type(op.In[1]).Shape[1:]))
		case ir.MatMul:
			k := g.Type(op.In[0]).Shape
			n *= int64(k[len(k)-1])
			if g.IsConst(op.In[1]) {
				weights += n
			} else {
				activations += n
			}
		}
	}
	return weights, activations
}

// TestPublished compares the models with the totals that are published: the
// parameters and multiply-accumulates that torchvision states for the networks on
// images, the parameters of the transformers' checkpoints, and their products
// counted by hand from the configurations: for each layer of a decoder
// h·h·2 + 2·h·kv + 3·h·ffn, and h·vocab once.
func TestPublished(t *testing.T) {
	for _, tt := range []struct {
		name                         string
		dims                         map[string]int64
		params, weights, activations int64
	}{
		{"resnet18", nil, 11689512, 1814073344, 0},
		{"resnet50", nil, 25557032, 4089184256, 0},
		{"mobilenetv2", nil, 3504872, 300774272, 0},
		{"vgg16", nil, 138357544, 15470264320, 0},
		{"bert-base", map[string]int64{"seq": 64}, 109482240, 64*12*7077888 + 768*768, 2 * 12 * 768 * 64 * 64},
		{"bert-large", nil, 335141888, 384*24*12582912 + 1024*1024, 2 * 24 * 1024 * 384 * 384},
		{"gpt2", map[string]int64{"context": 100}, 124439808, 12*7077888 + 768*50257, 2 * 12 * 768 * 100},
		{"llama3-8b", nil, 8030261248, 7504658432, 2 * 32 * 4096 * 2048},
		{"llama3-8b", map[string]int64{"seq": 16}, 8030261248, 16*(7504658432-4096*128256) + 4096*128256, 2 * 32 * 4096 * 16 * 16},
		{"llama3-8b", map[string]int64{"seq": 4, "context": 100, "batch": 3}, 8030261248, 3 * (4*(7504658432-4096*128256) + 4096*128256), 3 * 2 * 32 * 4096 * 4 * 100},
		{"llama3-70b", map[string]int64{"context": 512}, 70553706496, 69501714432, 2 * 80 * 8192 * 512},
		{"mixtral-8x7b", nil, 46702792704, 12748587008, 2 * 32 * 4096 * 2048},
		{"mixtral-8x7b", map[string]int64{"batch": 8}, 46702792704, 8 * 12748587008, 8 * 2 * 32 * 4096 * 2048},
	} {
		t.Run(fmt.Sprint(tt.name, tt.dims), func(t *testing.T) {
			m, ok := Find(tt.name)
			if !ok {
				t.Fatal("does not ship")
			}
			g, params := open(t, m, tt.dims)
			if params != tt.params {
				t.Errorf("%d parameters, published are %d", params, tt.params)
			}
			weights, activations := macs(g)
			if weights != tt.weights || activations != tt.activations {
				t.Errorf("%d multiply-accumulates with weights and %d of activations, want %d and %d", weights, activations, tt.weights, tt.activations)
			}
			if described := g.Described() != ir.NoValue; described != m.Described {
				t.Errorf("weights described: %v, the table says %v", described, m.Described)
			}
		})
	}
}

// TestExperts checks the expected number of distinct experts against a
// simulation.
func TestExperts(t *testing.T) {
	for _, tt := range []struct{ tokens, want int }{{1, 2}, {2, 4}, {4, 5}, {8, 7}, {16, 8}, {1000, 8}} {
		if got := distinctExperts(8, 2, tt.tokens); got != tt.want {
			t.Errorf("%d tokens reach %d experts, want %d", tt.tokens, got, tt.want)
		}
		r := rand.New(rand.NewPCG(1, uint64(tt.tokens)))
		const runs = 2000
		sum := 0
		for range runs {
			seen := map[int]bool{}
			for range tt.tokens {
				for _, e := range r.Perm(8)[:2] {
					seen[e] = true
				}
			}
			sum += len(seen)
		}
		if mean := float64(sum) / runs; math.Abs(mean-float64(tt.want)) > 0.6 {
			t.Errorf("%d tokens reach %d experts, a simulation %.2f", tt.tokens, tt.want, mean)
		}
	}
}

// small are the transformers with few and narrow layers, so that they can be
// computed in a test: all that the large ones have is in them.
var small = []Model{
	{Name: "small-bert", Dims: bertDims, build: classicConfig{layers: 2, hidden: 32, heads: 4, vocab: 50, positions: 16, epsilon: 1e-12}.bert},
	{Name: "small-gpt2", Dims: decoderDims, build: classicConfig{layers: 2, hidden: 32, heads: 4, vocab: 50, positions: 16, epsilon: 1e-5}.gpt2},
	{Name: "small-llama", Dims: decoderDims, build: llamaConfig{layers: 2, hidden: 32, heads: 4, kv: 2, dim: 8, ffn: 48, vocab: 50, theta: 10000, epsilon: 1e-5, maxContext: 16}.build},
	{Name: "small-mixtral", Dims: decoderDims, build: llamaConfig{layers: 2, hidden: 32, heads: 4, kv: 2, dim: 8, ffn: 48, vocab: 50, theta: 10000, epsilon: 1e-5, maxContext: 16, experts: 8, chosen: 2}.build},
}

// inputsOf draws inputs for a graph: tokens below limit, standard normal floats.
func inputsOf(g *ir.Graph, limit int) []*ir.Tensor {
	r := rand.New(rand.NewPCG(7, 7))
	var in []*ir.Tensor
	for _, id := range g.Inputs {
		t := ir.Zeros(g.Type(id).DType, g.Type(id).Shape...)
		switch d := t.Any().(type) {
		case []float32:
			for i := range d {
				d[i] = float32(r.NormFloat64())
			}
		case []int64:
			for i := range d {
				d[i] = r.Int64N(int64(limit))
			}
		}
		in = append(in, t)
	}
	return in
}

func run(t *testing.T, g *ir.Graph, in []*ir.Tensor) []*ir.Tensor {
	t.Helper()
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(context.Background(), in, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDecodeContinuesPrefill runs a prompt at once, and its last tokens after a
// cache that a shorter prompt has filled: the logits must be the same.
func TestDecodeContinuesPrefill(t *testing.T) {
	const context = 9
	for _, m := range small[1:3] { // a mixture's stated routing depends on the number of tokens
		for _, seq := range []int{1, 3} {
			t.Run(fmt.Sprint(m.Name, seq), func(t *testing.T) {
				whole, _ := open(t, &m, map[string]int64{"seq": context})
				ids := inputsOf(whole, 50)
				tokens := ir.Data[int64](ids[0])
				want := run(t, whole, ids)[len(whole.Outputs)-1]

				before, _ := open(t, &m, map[string]int64{"seq": context - int64(seq)})
				cache := run(t, before, []*ir.Tensor{ir.NewTensor(ir.I64, []int{1, context - seq}, tokens[:context-seq])})
				after, _ := open(t, &m, map[string]int64{"seq": int64(seq), "context": context})
				in := []*ir.Tensor{ir.NewTensor(ir.I64, []int{1, seq}, tokens[context-seq:])}
				in = append(in, cache[:len(cache)-1]...) // keys and values come in the order of the inputs
				got := run(t, after, in)[len(after.Outputs)-1]
				near(t, got, want, 1e-5)
			})
		}
	}
}

// near compares with the largest value as the measure.
func near(t *testing.T, got, want *ir.Tensor, tolerance float64) {
	t.Helper()
	if !slices.Equal(got.Shape, want.Shape) {
		t.Fatalf("shape %v, want %v", got.Shape, want.Shape)
	}
	most, off := 0.0, 0.0
	for i, w := range ir.Data[float32](want) {
		most = max(most, math.Abs(float64(w)))
		if d := math.Abs(float64(ir.Data[float32](got)[i] - w)); !(d <= off) {
			off = d
		}
	}
	if most == 0 || most > 1e4 {
		t.Errorf("the largest value is %g: activations of an untrained model are to stay sane", most)
	}
	if !(off <= tolerance*most) {
		t.Errorf("differs by %g, the largest value is %g", off, most)
	}
}

// TestORT exports models, has ONNX Runtime run them, and compares the results
// with the evaluator's.
func TestORT(t *testing.T) {
	if _, err := ort.Dir(); err != nil {
		t.Skipf("needs ONNX Runtime for node: %v", err)
	}
	type export struct {
		m    Model
		dims map[string]int64
	}
	var exports []export
	for _, name := range []string{"mobilenetv2", "resnet18"} {
		m, _ := Find(name)
		exports = append(exports, export{*m, map[string]int64{"batch": 2}})
	}
	if os.Getenv("SITU_LARGE") != "" { // 100 to 560 MB each
		for _, name := range []string{"resnet50", "vgg16", "bert-base", "gpt2"} {
			m, _ := Find(name)
			exports = append(exports, export{*m, nil})
		}
	}
	exports = append(exports, export{small[0], map[string]int64{"batch": 2, "seq": 7}})
	for _, m := range small[1:] {
		exports = append(exports, export{m, nil}, export{m, map[string]int64{"batch": 2, "seq": 3, "context": 8}}, export{m, map[string]int64{"seq": 5}})
	}
	for _, e := range exports {
		t.Run(fmt.Sprint(e.m.Name, e.dims), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "model.onnx")
			b, err := e.m.ONNX(e.dims)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
			p, err := onnx.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			g, err := onnx.Import(p, onnx.ImportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			in := inputsOf(g, 2)
			for i, x := range in {
				if err := onnx.WriteTensorFile(filepath.Join(dir, fmt.Sprintf("input_%d.pb", i)), g.Value(g.Inputs[i]).Name, x); err != nil {
					t.Fatal(err)
				}
			}
			if err := ort.Run(file, dir); err != nil {
				t.Fatal(err)
			}
			for i, got := range run(t, g, in) {
				_, want, err := onnx.ReadTensorFile(filepath.Join(dir, fmt.Sprintf("output_%d.pb", i)))
				if err != nil {
					t.Fatal(err)
				}
				near(t, got, want, 1e-4)
			}
		})
	}
}

func TestBuildErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		dims map[string]int64
		want string
	}{
		{"resnet50", map[string]int64{"seq": 3}, `no dimension "seq"; it has batch`},
		{"resnet50", map[string]int64{"batch": 0}, "dimension batch is 0"},
		{"llama3-8b", map[string]int64{"batch": 1 << 40}, "dimension batch is"},
		{"bert-base", map[string]int64{"seq": 513}, "512 positions"},
		{"gpt2", map[string]int64{"context": 1025}, "at most 1024"},
		{"llama3-8b", map[string]int64{"context": 5, "seq": 6}, "seq=6"},
	} {
		m, _ := Find(tt.name)
		if _, _, err := m.Open(tt.dims); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %v: error %v, want one with %q", tt.name, tt.dims, err, tt.want)
		}
	}
	m, _ := Find("llama3-8b")
	if _, err := m.ONNX(nil); !errors.Is(err, ErrDescribed) {
		t.Errorf("exporting a described model gives %v", err)
	}
	g, _ := open(t, m, nil)
	if _, err := eval.New(g); err == nil || !strings.Contains(err.Error(), "described") {
		t.Errorf("evaluating a described model gives %v", err)
	}
}

// TestIdentity checks that what tells models apart depends on the sizes and is
// the same every time.
func TestIdentity(t *testing.T) {
	m, _ := Find("llama3-8b")
	id := func(dims map[string]int64) string {
		b, err := m.Identity(dims)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first, again := id(nil), id(nil)
	if first != again || first == id(map[string]int64{"context": 100}) {
		t.Error("identities do not tell models apart")
	}
}
