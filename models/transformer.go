package models

import (
	"fmt"
	"math"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// span is what one run of a language model sees: seq new tokens of batch
// sequences, which follow past others whose keys and values are inputs.
type span struct{ batch, seq, past int }

// attend is multi-head attention between projections. q is [batch, seq,
// heads·dim], k and v are [batch, seq, kv·dim]; heads/kv heads share a key. The
// result has the shape of q.
//
// The cache is not concatenated with the new keys and values: that would copy all
// of it at every token, where implementations append in place. The products with
// both are computed apart, joined for the softmax, and the two halves of the
// weighted sum are added. New keys and values are results of the model.
type attend struct {
	span
	heads, kv, dim int
	causal         bool
	turn           func(name, x string) string // rotary embedding of [batch, heads, seq, dim], or nil
}

func (b *builder) attend(name string, a attend, q, k, v string) string {
	at := func(part string) string { return name + "." + part }
	split := func(part, x string, heads int) string {
		x = b.reshape(at(part+".heads"), x, a.batch, a.seq, heads, a.dim)
		return b.transpose(at(part+".split"), x, 0, 2, 1, 3)
	}
	q, k, v = split("q", q, a.heads), split("k", k, a.kv), split("v", v, a.kv)
	if a.turn != nil {
		q, k = a.turn(at("q.rope"), q), a.turn(at("k.rope"), k)
	}
	q = b.add("Mul", at("q.scale"), []string{q, b.scalar(at("scale"), float32(1/math.Sqrt(float64(a.dim))))}, nil)
	group := a.heads / a.kv
	if group > 1 { // the queries of a group are rows of one product
		q = b.reshape(at("q.group"), q, a.batch, a.kv, group*a.seq, a.dim)
	}
	scores := b.add("MatMul", at("scores"), []string{q, b.transpose(at("k.turned"), k, 0, 1, 3, 2)}, nil)
	var past struct{ k, v string }
	if a.past > 0 {
		shape := []int{a.batch, a.kv, a.past, a.dim}
		past.k = b.input(at("past_key"), onnxpb.TensorProto_FLOAT, shape...)
		past.v = b.input(at("past_value"), onnxpb.TensorProto_FLOAT, shape...)
		before := b.add("MatMul", at("past_scores"), []string{q, b.transpose(at("past_key.turned"), past.k, 0, 1, 3, 2)}, nil)
		scores = b.add("Concat", at("all_scores"), []string{before, scores}, attrs{"axis": 3})
	}
	context := a.past + a.seq
	rows := []int{a.batch, a.kv, group * a.seq, context}
	if a.causal && a.seq > 1 {
		if group > 1 {
			scores = b.reshape(at("scores.heads"), scores, a.batch, a.heads, a.seq, context)
		}
		scores = b.add("Add", at("mask"), []string{scores, b.causal(a.span)}, nil)
		if group > 1 {
			scores = b.reshape(at("scores.group"), scores, rows...)
		}
	}
	p := b.add("Softmax", at("softmax"), []string{scores}, attrs{"axis": -1})
	var y string
	if a.past > 0 {
		y = b.add("Add", at("sum"), []string{
			b.add("MatMul", at("past_values"), []string{b.slice(at("p.past"), p, 3, 0, a.past), past.v}, nil),
			b.add("MatMul", at("values"), []string{b.slice(at("p.new"), p, 3, a.past, context), v}, nil)}, nil)
	} else {
		y = b.add("MatMul", at("values"), []string{p, v}, nil)
	}
	if a.causal {
		b.output(at("key"), k, a.batch, a.kv, a.seq, a.dim)
		b.output(at("value"), v, a.batch, a.kv, a.seq, a.dim)
	}
	if group > 1 {
		y = b.reshape(at("y.heads"), y, a.batch, a.heads, a.seq, a.dim)
	}
	y = b.transpose(at("y.merge"), y, 0, 2, 1, 3)
	return b.reshape(at("y.flat"), y, a.batch, a.seq, a.heads*a.dim)
}

// causal returns the mask [seq, past+seq] that hides later tokens, one for all
// layers.
func (b *builder) causal(s span) string {
	const name = "causal_mask"
	for i := range b.inits {
		if b.inits[i].name == name {
			return name
		}
	}
	context := s.past + s.seq
	m := make([]float32, s.seq*context)
	hidden := float32(math.Inf(-1))
	for i := range s.seq {
		for j := s.past + i + 1; j < context; j++ {
			m[i*context+j] = hidden
		}
	}
	return b.constant(name, ir.NewTensor(ir.F32, []int{s.seq, context}, m))
}

// layerNorm is layer normalisation of the last dimension, n long.
func (b *builder) layerNorm(name, x string, n int, epsilon float32) string {
	return b.add("LayerNormalization", name, []string{x,
		b.parameter(name+".weight", uniform(0.9, 1.1), n), b.parameter(name+".bias", normal(0.02), n)}, attrs{"epsilon": epsilon})
}

// embed looks tokens up in a table of trained rows.
func (b *builder) embed(name, ids string, rows, n int, std float32) string {
	return b.add("Gather", name, []string{b.parameter(name+".weight", normal(std), rows, n), ids}, nil)
}

// classicStd is the standard deviation that BERT and GPT-2 initialise with.
const classicStd = 0.02

// classicConfig is the shape of BERT and GPT-2: layer normalisation, trained
// positions, a feed-forward layer four times as wide.
type classicConfig struct {
	layers, hidden, heads int
	vocab, positions      int
	epsilon               float32
}

var (
	bertBase  = classicConfig{layers: 12, hidden: 768, heads: 12, vocab: 30522, positions: 512, epsilon: 1e-12}
	bertLarge = classicConfig{layers: 24, hidden: 1024, heads: 16, vocab: 30522, positions: 512, epsilon: 1e-12}
	gpt2Small = classicConfig{layers: 12, hidden: 768, heads: 12, vocab: 50257, positions: 1024, epsilon: 1e-5}
)

// bert is BERT (Devlin et al. 2019) with its pooler, for seq tokens.
func (c classicConfig) bert(d Dims) (*builder, error) {
	const segments = 2
	hidden, ffn, heads := c.hidden, 4*c.hidden, c.heads
	s := span{batch: d["batch"], seq: d["seq"]}
	if s.seq > c.positions {
		return nil, fmt.Errorf("seq is %d, the model has %d positions", s.seq, c.positions)
	}
	b := newBuilder("bert", 20)
	ids := b.input("input_ids", onnxpb.TensorProto_INT64, s.batch, s.seq)
	kinds := b.input("token_type_ids", onnxpb.TensorProto_INT64, s.batch, s.seq)
	x := b.embed("embeddings.word_embeddings", ids, c.vocab, hidden, classicStd)
	place := b.slice("embeddings.position", b.parameter("embeddings.position_embeddings.weight", normal(classicStd), c.positions, hidden), 0, 0, s.seq)
	x = b.add("Add", "embeddings.add", []string{x, b.embed("embeddings.token_type_embeddings", kinds, segments, hidden, classicStd)}, nil)
	x = b.add("Add", "embeddings.add_position", []string{x, place}, nil)
	x = b.layerNorm("embeddings.LayerNorm", x, hidden, c.epsilon)
	for i := range c.layers {
		at := func(part string) string { return fmt.Sprintf("encoder.layer.%d.%s", i, part) }
		project := func(part string) string {
			return b.linear(at("attention.self."+part), x, hidden, hidden, classicStd, true)
		}
		y := b.attend(at("attention.self"), attend{span: s, heads: heads, kv: heads, dim: hidden / heads}, project("query"), project("key"), project("value"))
		y = b.linear(at("attention.output.dense"), y, hidden, hidden, classicStd, true)
		x = b.layerNorm(at("attention.output.LayerNorm"), b.add("Add", at("attention.output.add"), []string{x, y}, nil), hidden, c.epsilon)
		y = b.add("Gelu", at("intermediate.gelu"), []string{b.linear(at("intermediate.dense"), x, hidden, ffn, classicStd, true)}, nil)
		y = b.linear(at("output.dense"), y, ffn, hidden, classicStd, true)
		x = b.layerNorm(at("output.LayerNorm"), b.add("Add", at("output.add"), []string{x, y}, nil), hidden, c.epsilon)
	}
	b.output("last_hidden_state", x, s.batch, s.seq, hidden)
	first := b.reshape("pooler.first", b.slice("pooler.token", x, 1, 0, 1), s.batch, hidden)
	b.output("pooler_output", b.add("Tanh", "pooler.tanh", []string{b.linear("pooler.dense", first, hidden, hidden, classicStd, true)}, nil), s.batch, hidden)
	return b, nil
}

// spanOf reads the dimensions of a language model: seq new tokens, the last of
// context tokens. Given one of them alone, seq means a prompt with nothing
// before, and context one new token.
func spanOf(d Dims, most int) (span, error) {
	s := span{batch: d["batch"]}
	switch seq, context := d["seq"], d["context"]; {
	case seq == 0 && context == 0:
		s.seq, s.past = 1, min(defaultContext, most)-1
	case seq == 0:
		s.seq, s.past = 1, context-1
	case context == 0:
		s.seq = seq
	case seq > context:
		return s, fmt.Errorf("seq=%d new tokens are part of context, which is %d", seq, context)
	default:
		s.seq, s.past = seq, context-seq
	}
	if n := s.past + s.seq; n > most {
		return s, fmt.Errorf("%d tokens; the model takes at most %d", n, most)
	}
	return s, nil
}

const defaultContext = 2048

// gpt2 is GPT-2 (Radford et al. 2019). Its output matrix is its table of tokens,
// turned. Only the last token's logits are computed, as generation needs.
func (c classicConfig) gpt2(d Dims) (*builder, error) {
	hidden, heads := c.hidden, c.heads
	s, err := spanOf(d, c.positions)
	if err != nil {
		return nil, err
	}
	b := newBuilder("gpt2", 20)
	ids := b.input("input_ids", onnxpb.TensorProto_INT64, s.batch, s.seq)
	x := b.embed("wte", ids, c.vocab, hidden, classicStd)
	place := b.slice("wpe", b.parameter("wpe.weight", normal(classicStd), c.positions, hidden), 0, s.past, s.past+s.seq)
	x = b.add("Add", "embed", []string{x, place}, nil)
	residualStd := classicStd / float32(math.Sqrt(float64(2*c.layers))) // of layers whose results are added up
	for i := range c.layers {
		at := func(part string) string { return fmt.Sprintf("h.%d.%s", i, part) }
		y := b.layerNorm(at("ln_1"), x, hidden, c.epsilon)
		qkv := b.linear(at("attn.c_attn"), y, hidden, 3*hidden, classicStd, true)
		part := func(name string, k int) string { return b.slice(at("attn."+name), qkv, 2, k*hidden, (k+1)*hidden) }
		y = b.attend(at("attn"), attend{span: s, heads: heads, kv: heads, dim: hidden / heads, causal: true}, part("q", 0), part("k", 1), part("v", 2))
		y = b.linear(at("attn.c_proj"), y, hidden, hidden, residualStd, true)
		x = b.add("Add", at("attn.add"), []string{x, y}, nil)
		y = b.linear(at("mlp.c_fc"), b.layerNorm(at("ln_2"), x, hidden, c.epsilon), hidden, 4*hidden, classicStd, true)
		y = b.add("Gelu", at("mlp.gelu"), []string{y}, attrs{"approximate": "tanh"})
		y = b.linear(at("mlp.c_proj"), y, 4*hidden, hidden, residualStd, true)
		x = b.add("Add", at("mlp.add"), []string{x, y}, nil)
	}
	x = b.layerNorm("ln_f", b.last(x, s), hidden, c.epsilon)
	b.output("logits", b.add("MatMul", "lm_head", []string{x, b.transpose("wte.turned", "wte.weight", 1, 0)}, nil), s.batch, 1, c.vocab)
	return b, nil
}

// last keeps the last token of [batch, seq, …].
func (b *builder) last(x string, s span) string {
	if s.seq == 1 {
		return x
	}
	return b.slice("last", x, 1, s.seq-1, s.seq)
}
