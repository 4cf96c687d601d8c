package models

import (
	"fmt"
	"math"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// llamaConfig is the shape of a decoder with root-mean-square norms, rotary
// embeddings, grouped queries and gated feed-forward layers.
type llamaConfig struct {
	name            string
	layers, hidden  int
	heads, kv, dim  int
	ffn, vocab      int
	theta, epsilon  float64
	maxContext      int
	experts, chosen int // of a mixture; 0 for one feed-forward layer
}

// The published configurations: config.json of meta-llama/Meta-Llama-3-8B and
// -70B, and of mistralai/Mixtral-8x7B-v0.1.
var (
	llama3x8B = llamaConfig{name: "llama3-8b", layers: 32, hidden: 4096, heads: 32, kv: 8, dim: 128,
		ffn: 14336, vocab: 128256, theta: 500000, epsilon: 1e-5, maxContext: 8192}
	llama3x70B = llamaConfig{name: "llama3-70b", layers: 80, hidden: 8192, heads: 64, kv: 8, dim: 128,
		ffn: 28672, vocab: 128256, theta: 500000, epsilon: 1e-5, maxContext: 8192}
	mixtral8x7B = llamaConfig{name: "mixtral-8x7b", layers: 32, hidden: 4096, heads: 32, kv: 8, dim: 128,
		ffn: 14336, vocab: 32000, theta: 1e6, epsilon: 1e-5, maxContext: 32768, experts: 8, chosen: 2}
)

// build builds a decoder: seq new tokens after a cache of context−seq. Only the
// last token's logits are computed, as generation needs.
func (c llamaConfig) build(d Dims) (*builder, error) {
	s, err := spanOf(d, c.maxContext)
	if err != nil {
		return nil, err
	}
	b := newBuilder(c.name, 23)
	ids := b.input("input_ids", onnxpb.TensorProto_INT64, s.batch, s.seq)
	x := b.embed("model.embed_tokens", ids, c.vocab, c.hidden, classicStd)
	cos, sin := b.rotary(c, s)
	turn := func(name, x string) string { return b.add("RotaryEmbedding", name, []string{x, cos, sin}, nil) }
	std := xavier(c.hidden)
	for i := range c.layers {
		at := func(part string) string { return fmt.Sprintf("model.layers.%d.%s", i, part) }
		y := b.rmsNorm(at("input_layernorm"), x, c)
		project := func(part string, heads int) string {
			return b.linear(at("self_attn."+part), y, c.hidden, heads*c.dim, std, false)
		}
		y = b.attend(at("self_attn"), attend{span: s, heads: c.heads, kv: c.kv, dim: c.dim, causal: true, turn: turn},
			project("q_proj", c.heads), project("k_proj", c.kv), project("v_proj", c.kv))
		y = b.linear(at("self_attn.o_proj"), y, c.heads*c.dim, c.hidden, std, false)
		x = b.add("Add", at("self_attn.add"), []string{x, y}, nil)
		y = b.rmsNorm(at("post_attention_layernorm"), x, c)
		if c.experts > 0 {
			y = b.mixture(at("block_sparse_moe"), y, c, s)
		} else {
			y = b.gated(at("mlp"), [3]string{"gate_proj", "up_proj", "down_proj"}, y, c)
		}
		x = b.add("Add", at("mlp.add"), []string{x, y}, nil)
	}
	x = b.rmsNorm("model.norm", b.last(x, s), c)
	b.output("logits", b.linear("lm_head", x, c.hidden, c.vocab, std, false), s.batch, 1, c.vocab)
	return b, nil
}

func (b *builder) rmsNorm(name, x string, c llamaConfig) string {
	return b.add("RMSNormalization", name, []string{x, b.parameter(name+".weight", uniform(0.9, 1.1), c.hidden)}, attrs{"epsilon": float32(c.epsilon)})
}

// rotary returns the tables of cosines and sines for the places of the new
// tokens, [batch, seq, dim/2] (Su et al. 2021).
func (b *builder) rotary(c llamaConfig, s span) (cos, sin string) {
	half := c.dim / 2
	var t [2][]float32
	for p := s.past; p < s.past+s.seq; p++ {
		for i := range half {
			sin, cos := math.Sincos(float64(p) * math.Pow(c.theta, -float64(i)/float64(half)))
			t[0], t[1] = append(t[0], float32(cos)), append(t[1], float32(sin))
		}
	}
	table := func(name string, v []float32) string {
		return b.constant(name, ir.NewTensor(ir.F32, []int{s.batch, s.seq, half}, slices.Repeat(v, s.batch)))
	}
	return table("rope.cos", t[0]), table("rope.sin", t[1])
}

// gated is the feed-forward layer (silu(x·gate) ⊙ x·up)·down.
func (b *builder) gated(name string, parts [3]string, x string, c llamaConfig) string {
	at := func(part string) string { return name + "." + part }
	gate := b.linear(at(parts[0]), x, c.hidden, c.ffn, xavier(c.hidden), false)
	up := b.linear(at(parts[1]), x, c.hidden, c.ffn, xavier(c.hidden), false)
	gate = b.add("Mul", at("silu"), []string{gate, b.add("Sigmoid", at("sigmoid"), []string{gate}, nil)}, nil)
	return b.linear(at(parts[2]), b.add("Mul", at("mul"), []string{gate, up}, nil), c.ffn, c.hidden, xavier(c.ffn), false)
}

// distinctExperts is how many of n experts tokens reach together when each
// chooses k of them evenly: the expectation n·(1 − (1 − k/n)^tokens), rounded.
func distinctExperts(n, k, tokens int) int {
	e := float64(n) * (1 - math.Pow(1-float64(k)/float64(n), float64(tokens)))
	return max(int(math.Round(e)), k)
}

// mixture is a mixture of experts with a stated routing. Which experts a token
// takes depends on data, and with it which weights are read; a graph with fixed
// shapes has to choose. Here the tokens together use the expected number of
// distinct experts, each as many tokens as any other: token t takes experts
// chosen·t, chosen·t+1, … around the circle of those. The router is computed and
// weighs the experts' results, as published; experts that are not reached are
// parameters of the model that the graph does not read.
func (b *builder) mixture(name, x string, c llamaConfig, s span) string {
	at := func(part string) string { return name + "." + part }
	tokens := s.batch * s.seq
	reached := distinctExperts(c.experts, c.chosen, tokens)
	x = b.reshape(at("tokens"), x, tokens, c.hidden)
	logits := b.linear(at("gate"), x, c.hidden, c.experts, xavier(c.hidden), false)
	// Pair i is choice i%chosen of token i/chosen.
	var taken []int64 // pair -> element of logits
	rows, pairs := make([][]int64, reached), make([][]int64, reached)
	for i := range tokens * c.chosen {
		e := i % reached
		taken = append(taken, int64(i/c.chosen*c.experts+e))
		rows[e], pairs[e] = append(rows[e], int64(i/c.chosen)), append(pairs[e], int64(i))
	}
	logits = b.add("Gather", at("gate.taken"), []string{b.reshape(at("gate.flat"), logits, tokens*c.experts), b.int64s(at("gate.pairs"), taken...)}, nil)
	share := b.add("Softmax", at("gate.softmax"), []string{b.reshape(at("gate.choices"), logits, tokens, c.chosen)}, attrs{"axis": -1})
	var results []string
	place := make([]int64, tokens*c.chosen) // pair -> row of the results
	n := 0
	for e := range c.experts {
		expert := at(fmt.Sprintf("experts.%d", e))
		if e >= reached {
			b.params += int64(3 * c.hidden * c.ffn)
			continue
		}
		in := x
		if len(rows[e]) != tokens {
			in = b.add("Gather", expert+".tokens", []string{x, b.int64s(expert+".rows", rows[e]...)}, nil)
		}
		for _, p := range pairs[e] {
			place[p] = int64(n)
			n++
		}
		results = append(results, b.gated(expert, [3]string{"w1", "w3", "w2"}, in, c))
	}
	y := b.add("Concat", at("results"), results, attrs{"axis": 0})
	if tokens > 1 {
		y = b.add("Gather", at("back"), []string{y, b.int64s(at("places"), place...)}, nil)
	}
	y = b.reshape(at("results.choices"), y, tokens, c.chosen, c.hidden)
	y = b.add("Mul", at("weigh"), []string{y, b.reshape(at("shares"), share, tokens, c.chosen, 1)}, nil)
	y = b.add("ReduceSum", at("sum"), []string{y, b.int64s(at("sum.axis"), 1)}, attrs{"keepdims": 0})
	return b.reshape(at("out"), y, s.batch, s.seq, c.hidden)
}
