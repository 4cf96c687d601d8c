package irtest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"situ/ir"
)

// Options bound what Graph generates. Zero values mean the defaults.
type Options struct {
	MaxOps   int         // operators drawn, default 8; some draw two (a flattening reshape first)
	MaxElems int         // elements of one value, default 4096
	MaxDim   int         // input height, width and channels, default 8
	Kinds    []ir.OpKind // operators to draw from, default all with a fixed-point form or a table for one
	Plain    bool        // draw from the operators without a fixed-point form, too
}

func (o Options) withDefaults() Options {
	if o.MaxOps == 0 {
		o.MaxOps = 8
	}
	if o.MaxElems == 0 {
		o.MaxElems = 4096
	}
	if o.MaxDim == 0 {
		o.MaxDim = 8
	}
	return o
}

// Graph draws a small valid float32 graph in the manner of a CNN or MLP: an
// image [N,H,W,C] or a matrix [N,K] goes through convolutions, products, pools,
// element-wise operators with broadcasting, and movements of all kinds, in a
// chain or with branches. Values that nothing uses are the outputs. Weights
// come from a drawn seed and are scaled so that values stay near 1. Shrinking
// drops operators, prefers chains, small shapes and plain attributes.
func Graph(t *rapid.T, opts Options) *ir.Graph {
	b := newBuilder(t, opts)
	if len(b.fitting(2)) == 0 || b.index("image", 4) > 0 {
		b.input(b.small("batch", 2), b.dim("height"), b.dim("width"), b.dim("channels"))
	} else {
		b.input(b.small("batch", 3), b.dim("features"))
	}
	n := rapid.IntRange(1, b.opts.MaxOps).Draw(t, "ops")
	for range n {
		b.step()
	}
	uses := b.g.Uses()
	for _, id := range b.values {
		if uses[id] == 0 && (id != b.g.Inputs[0] || len(b.g.Ops) == 0) {
			b.g.Outputs = append(b.g.Outputs, id)
		}
	}
	if err := ir.Verify(b.g); err != nil {
		t.Fatalf("irtest drew an invalid graph: %v\n%v", err, b.g)
	}
	return b.g
}

// Inputs returns a random tensor with values from −2 to 2 for each input of g,
// which must be float32.
func Inputs(t *rapid.T, g *ir.Graph) []*ir.Tensor {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "input seed"), 1))
	in := make([]*ir.Tensor, len(g.Inputs))
	for i, id := range g.Inputs {
		in[i] = Tensor(rng, 2, g.Type(id).Shape...)
	}
	return in
}

// Tensor returns a float32 tensor of values drawn evenly from −limit to limit.
func Tensor(rng *rand.Rand, limit float64, shape ...int) *ir.Tensor {
	data := make([]float32, ir.Numel(shape))
	for i := range data {
		data[i] = float32((2*rng.Float64() - 1) * limit)
	}
	return ir.NewTensor(ir.F32, shape, data)
}

// builder draws a graph.
type builder struct {
	t      *rapid.T
	opts   Options
	rng    *rand.Rand // contents of constants
	g      *ir.Graph
	values []ir.ValueID // inputs and results, the latest last
	makers []maker
}

func newBuilder(t *rapid.T, opts Options) *builder {
	b := &builder{
		t:    t,
		opts: opts.withDefaults(),
		g:    &ir.Graph{Name: "random"},
		rng:  rand.New(rand.NewPCG(rapid.Uint64Max(1<<20).Draw(t, "weight seed"), 0)),
	}
	for _, m := range makers {
		if b.allowed(m.kind) {
			b.makers = append(b.makers, m)
		}
	}
	for _, m := range plainMakers {
		if b.opts.Plain || slices.Contains(b.opts.Kinds, m.kind) {
			b.makers = append(b.makers, m)
		}
	}
	if len(b.makers) == 0 {
		t.Fatalf("irtest makes none of the operators %v", b.opts.Kinds)
	}
	return b
}

// allowed reports whether an operator with a fixed-point form may be drawn.
func (b *builder) allowed(k ir.OpKind) bool {
	return b.opts.Kinds == nil || slices.Contains(b.opts.Kinds, k)
}

// fitting lists the allowed operators that take values of a rank, each as often
// as its weight says.
func (b *builder) fitting(rank int) []maker {
	var fit []maker
	for _, m := range b.makers {
		if rank >= m.minRank && rank <= m.maxRank {
			for range m.weight {
				fit = append(fit, m)
			}
		}
	}
	return fit
}

// small draws an integer from 1 to n.
func (b *builder) small(label string, n int) int {
	return rapid.IntRange(1, max(n, 1)).Draw(b.t, label)
}

func (b *builder) dim(label string) int { return b.small(label, b.opts.MaxDim) }

// index draws an integer from 0 to n−1.
func (b *builder) index(label string, n int) int {
	return rapid.IntRange(0, n-1).Draw(b.t, label)
}

func (b *builder) flag(label string) bool { return rapid.Bool().Draw(b.t, label) }

func (b *builder) input(shape ...int) {
	id := b.g.AddInput("x", ir.TypeOf(ir.F32, shape...))
	b.values = append(b.values, id)
}

// weights adds a constant of values from −limit to limit.
func (b *builder) weights(name string, limit float64, shape ...int) ir.ValueID {
	return b.g.AddConst(name, Tensor(b.rng, limit, shape...), nil)
}

func (b *builder) shape(id ir.ValueID) []int { return b.g.Type(id).Shape }

// step adds one operator that fits a drawn value, if any of the allowed does.
func (b *builder) step() {
	// Index 0 is the latest value, so that shrinking leads to a chain.
	x := b.values[len(b.values)-1-b.index("operand", len(b.values))]
	fit := b.fitting(len(b.shape(x)))
	if len(fit) == 0 {
		return
	}
	m := fit[b.index("operator", len(fit))]
	before, ops := len(b.g.Values), len(b.g.Ops)
	attr, in := m.make(b, x)
	op := ir.Op{Kind: m.kind, In: in, Attr: attr}
	t, err := ir.InferType(b.g, &op)
	if err != nil {
		b.t.Fatalf("irtest drew an operator that does not fit: %v\n%v", err, b.g)
	}
	if t.Numel() > b.opts.MaxElems {
		b.g.Values, b.g.Ops = b.g.Values[:before], b.g.Ops[:ops] // and drop what was made for it
		return
	}
	b.values = append(b.values, b.add(m.kind, attr, in...))
}

// add appends an operator.
func (b *builder) add(k ir.OpKind, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
	id, err := b.g.Add(k, fmt.Sprintf("%s%d", k, len(b.g.Ops)), attr, in...)
	if err != nil {
		b.t.Fatalf("irtest: %v", err)
	}
	return id
}
