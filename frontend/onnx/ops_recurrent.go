package onnx

import (
	"slices"
	"strings"

	"situ/ir"
)

// Recurrent layers are unrolled: the products with the inputs of all steps are
// one matrix product, each step then adds that of the state before it.

// recurrent is what RNN, GRU and LSTM share. Sizes are in ONNX's terms.
type recurrent struct {
	*call
	gates                       int
	steps, batch, width, hidden int
	directions                  []bool // whether each runs backwards
	batchFirst                  bool   // layout = 1
	clip                        float32
	activations                 []activation // of each direction in turn
	lens                        *value       // sequence_lens, nil when all are steps
	x                           ir.ValueID   // [steps, batch, width]
	w, r, b, state              *value
}

// activation is a function of a gate with its parameters.
type activation struct {
	name        string
	alpha, beta float32
}

// activationDefaults are the parameters of those functions that have any; has
// tells which of alpha and beta are consumed from the attributes.
var activationDefaults = map[string]struct {
	alpha, beta       float32
	hasAlpha, hasBeta bool
}{
	"relu": {}, "tanh": {}, "sigmoid": {}, "softsign": {}, "softplus": {},
	"affine":          {1, 0, true, true},
	"leakyrelu":       {0.01, 0, true, false},
	"thresholdedrelu": {1, 0, true, false},
	"scaledtanh":      {1, 1, true, true},
	"hardsigmoid":     {0.2, 0.5, true, true},
	"elu":             {1, 0, true, false},
}

// recurrent reads operands and attributes of a layer with the given number of
// gates; functions are the default activations of one direction.
func (c *call) recurrent(gates int, functions ...string) *recurrent {
	r := &recurrent{call: c, gates: gates, clip: c.float("clip", 0)}
	switch d := c.str("direction", "forward"); d {
	case "forward":
		r.directions = []bool{false}
	case "reverse":
		r.directions = []bool{true}
	case "bidirectional":
		r.directions = []bool{false, true}
	default:
		c.failf("direction %q", d)
	}
	r.batchFirst = c.bool("layout", false)
	r.readActivations(functions)
	x := c.id(0)
	r.w, r.r, r.b, r.state = c.in[1], c.in[2], c.operand(3), c.operand(5)
	s, sw, sr := c.typ(x).Shape, c.typeOf(r.w).Shape, c.typeOf(r.r).Shape
	if c.err == nil && (len(s) != 3 || len(sw) != 3 || len(sr) != 3) {
		c.failf("operands of shapes %v, %v and %v, want three dimensions each", s, sw, sr)
	}
	hidden := c.smallInt("hidden_size", c.int("hidden_size", 0))
	if c.err != nil {
		return r
	}
	r.hidden = sr[2]
	if hidden != 0 && hidden != r.hidden {
		c.failf("hidden_size is %d, the recurrent weights have %d columns", hidden, r.hidden)
	}
	if r.batchFirst {
		x = c.transpose(x, 1, 0, 2)
		s = []int{s[1], s[0], s[2]}
	}
	r.x, r.steps, r.batch, r.width = x, s[0], s[1], s[2]
	dirs := len(r.directions)
	r.want("W", r.w, dirs, gates*r.hidden, r.width)
	r.want("R", r.r, dirs, gates*r.hidden, r.hidden)
	r.want("B", r.b, dirs, 2*gates*r.hidden)
	r.state = r.initial("initial_h", r.state)
	if v := c.operand(4); v != nil {
		r.want("sequence_lens", v, r.batch)
		r.lens = v
		if v.isConst() && !slices.ContainsFunc(int64s(v.tensor), func(n int64) bool { return n < int64(r.steps) }) {
			r.lens = nil
		}
	}
	if r.steps < 1 || r.batch < 1 {
		c.unsupportedf("empty sequences, of shape %v", s)
	}
	const nodes = 8 // that a step would be in ONNX, about
	c.unroll(nodes * r.steps * dirs)
	return r
}

// want checks the shape of an operand that may be absent.
func (r *recurrent) want(what string, v *value, shape ...int) {
	if v != nil && r.err == nil && !slices.Equal(r.typeOf(v).Shape, shape) {
		r.failf("%s has shape %v, want %v", what, r.typeOf(v).Shape, shape)
	}
}

// initial checks an initial state and brings it to [directions, batch, hidden].
func (r *recurrent) initial(what string, v *value) *value {
	if v == nil || r.err != nil {
		return v
	}
	if r.batchFirst {
		r.want(what, v, r.batch, len(r.directions), r.hidden)
		return r.permuted(v, 1, 0, 2)
	}
	r.want(what, v, len(r.directions), r.batch, r.hidden)
	return v
}

func (r *recurrent) readActivations(functions []string) {
	names := r.strings("activations")
	alphas, betas := r.floats("activation_alpha"), r.floats("activation_beta")
	if names == nil {
		names = slices.Repeat(functions, len(r.directions))
	}
	if r.err == nil && len(names) != len(functions)*len(r.directions) {
		r.failf("%d activations, want %d", len(names), len(functions)*len(r.directions))
	}
	take := func(list *[]float32, def float32) float32 {
		if len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return v
	}
	for _, n := range names {
		a := activation{name: strings.ToLower(n)}
		def, known := activationDefaults[a.name]
		if !known {
			r.unsupportedf("activation %s", n)
		}
		if def.hasAlpha {
			a.alpha = take(&alphas, def.alpha)
		}
		if def.hasBeta {
			a.beta = take(&betas, def.beta)
		}
		r.activations = append(r.activations, a)
	}
}

// apply computes an activation.
func (r *recurrent) apply(a activation, x ir.ValueID) ir.ValueID {
	d := r.typ(x).DType
	k := func(v float32) ir.ValueID { return r.scalar(d, float64(v)) }
	switch a.name {
	case "relu":
		return r.add(ir.Relu, nil, x)
	case "tanh":
		return r.add(ir.Tanh, nil, x)
	case "sigmoid":
		return r.add(ir.Sigmoid, nil, x)
	case "softplus":
		return r.add(ir.Softplus, nil, x)
	case "softsign":
		return r.add(ir.Div, nil, x, r.add(ir.Add, nil, r.add(ir.Abs, nil, x), k(1)))
	case "affine":
		return r.add(ir.Add, nil, r.add(ir.Mul, nil, x, k(a.alpha)), k(a.beta))
	case "leakyrelu":
		return r.add(ir.LeakyRelu, &ir.AlphaBetaAttr{Alpha: a.alpha}, x)
	case "thresholdedrelu":
		return r.add(ir.Where, nil, r.add(ir.Less, nil, k(a.alpha), x), x, k(0))
	case "scaledtanh":
		return r.add(ir.Mul, nil, r.add(ir.Tanh, nil, r.add(ir.Mul, nil, x, k(a.beta))), k(a.alpha))
	case "hardsigmoid":
		return r.add(ir.HardSigmoid, &ir.AlphaBetaAttr{Alpha: a.alpha, Beta: a.beta}, x)
	}
	return r.add(ir.Elu, &ir.AlphaBetaAttr{Alpha: a.alpha}, x)
}

// gate clips and applies activation i of direction dir.
func (r *recurrent) gate(dir, i int, x ir.ValueID) ir.ValueID {
	if r.clip > 0 {
		x = r.add(ir.Clip, &ir.ClipAttr{Lo: -r.clip, Hi: r.clip}, x)
	}
	per := len(r.activations) / len(r.directions)
	if r.err != nil {
		return ir.NoValue
	}
	return r.apply(r.activations[dir*per+i], x)
}

// rows returns elements [from, from+n) of entry dir of weights [directions, m, …].
func (r *recurrent) rows(v *value, dir, from, n int) *value {
	if r.err != nil {
		return v
	}
	s := r.typeOf(v).Shape
	starts, steps, sizes := make([]int, len(s)), slices.Repeat([]int{1}, len(s)), slices.Clone(s)
	starts[0], sizes[0], starts[1], sizes[1] = dir, 1, from, n
	return r.shaped(r.extract(v, starts, steps, sizes), append([]int{n}, s[2:]...))
}

// weights returns rows of W or R as the right operand of a product.
func (r *recurrent) weights(v *value, dir, from, n int) ir.ValueID {
	return r.use(r.permuted(r.rows(v, dir, from, n), 1, 0))
}

// zeros is a constant of the layer's type.
func (r *recurrent) zeros(shape ...int) *value {
	return &value{id: ir.NoValue, tensor: ir.Zeros(r.typ(r.x).DType, shape...)}
}

// biases returns the biases of the input (W) and of the state (R).
func (r *recurrent) biases(dir int) (w, rec *value) {
	n := r.gates * r.hidden
	if r.b == nil || r.err != nil {
		return r.zeros(n), r.zeros(n)
	}
	return r.rows(r.b, dir, 0, n), r.rows(r.b, dir, n, n)
}

// start returns the initial state of a direction, [batch, hidden].
func (r *recurrent) start(v *value, dir int) ir.ValueID {
	if v == nil || r.err != nil {
		return r.use(r.zeros(r.batch, r.hidden))
	}
	return r.use(r.rows(v, dir, 0, r.batch))
}

// inputs returns the products of all steps' inputs with W, plus bias, as
// [steps, batch, gates·hidden].
func (r *recurrent) inputs(dir int, bias ir.ValueID) ir.ValueID {
	n := r.gates * r.hidden
	x := r.reshape(r.x, r.steps*r.batch, r.width)
	y := r.add(ir.MatMul, nil, x, r.weights(r.w, dir, 0, n), bias)
	return r.reshape(y, r.steps, r.batch, n)
}

// columns returns a gate's columns of a value [batch, gates·hidden].
func (r *recurrent) columns(x ir.ValueID, gate, gates int) ir.ValueID {
	return r.add(ir.Slice, &ir.SliceAttr{Starts: []int{0, gate * r.hidden}, Steps: []int{1, 1}, Sizes: []int{r.batch, gates * r.hidden}}, x)
}

// step returns step t of [steps, batch, n].
func (r *recurrent) step(x ir.ValueID, t int) ir.ValueID {
	if r.err != nil {
		return ir.NoValue
	}
	n := r.typ(x).Shape[2]
	y := r.add(ir.Slice, &ir.SliceAttr{Starts: []int{t, 0, 0}, Steps: []int{1, 1, 1}, Sizes: []int{1, r.batch, n}}, x)
	return r.reshape(y, r.batch, n)
}

// running returns whether step t is within each sequence, [batch, 1] booleans;
// NoValue when it is within all.
func (r *recurrent) running(t int) ir.ValueID {
	if r.lens == nil || r.err != nil {
		return ir.NoValue
	}
	if !r.lens.isConst() {
		d := r.typeOf(r.lens).DType
		return r.reshape(r.add(ir.Less, nil, r.scalar(d, float64(t)), r.use(r.lens)), r.batch, 1)
	}
	mask := make([]int64, r.batch)
	all := true
	for i, n := range int64s(r.lens.tensor) {
		if int64(t) < n {
			mask[i] = 1
		} else {
			all = false
		}
	}
	if all {
		return ir.NoValue
	}
	return r.constant("", fromInts(ir.Bool, []int{r.batch, 1}, mask), nil)
}

// choose is a where mask holds, else b; a where there is no mask.
func (r *recurrent) choose(mask, a, b ir.ValueID) ir.ValueID {
	if mask == ir.NoValue || r.err != nil {
		return a
	}
	return r.add(ir.Where, nil, mask, a, b)
}

// run unrolls all directions. cell prepares a direction and returns what
// computes the states after a step from those before it; the first state is the
// result of the step.
func (r *recurrent) run(initial []*value, cell func(dir int) func(t int, state []ir.ValueID) []ir.ValueID) {
	if r.err != nil {
		return
	}
	var all []ir.ValueID                       // of each direction: [steps, 1, batch, hidden]
	last := make([][]ir.ValueID, len(initial)) // of each state and direction
	for dir, backwards := range r.directions {
		state := make([]ir.ValueID, len(initial))
		for i, v := range initial {
			state[i] = r.start(v, dir)
		}
		next := cell(dir)
		results := make([]ir.ValueID, r.steps)
		for i := range r.steps {
			t := i
			if backwards {
				t = r.steps - 1 - i
			}
			mask := r.running(t)
			after := next(t, state)
			if r.err != nil {
				return
			}
			y := after[0]
			if mask != ir.NoValue {
				y = r.choose(mask, y, r.use(r.zeros(r.batch, r.hidden)))
			}
			results[t] = r.reshape(y, 1, 1, r.batch, r.hidden)
			for j := range state {
				state[j] = r.choose(mask, after[j], state[j])
			}
		}
		all = append(all, r.join(results, 0))
		for j, s := range state {
			last[j] = append(last[j], r.reshape(s, 1, r.batch, r.hidden))
		}
	}
	y := r.join(all, 1)
	if r.batchFirst {
		y = r.transpose(y, 2, 0, 1, 3)
	}
	r.set(y)
	for j := range last {
		s := r.join(last[j], 0)
		if r.batchFirst {
			s = r.transpose(s, 1, 0, 2)
		}
		r.setN(1+j, s)
	}
}

// rnn: h' = f(x·Wᵀ + h·Rᵀ + b).
func rnn(c *call) {
	r := c.recurrent(1, "Tanh")
	r.run([]*value{r.state}, func(dir int) func(int, []ir.ValueID) []ir.ValueID {
		wb, rb := r.biases(dir)
		x := r.inputs(dir, r.use(r.pair(ir.Add, wb, rb)))
		weights := r.weights(r.r, dir, 0, r.hidden)
		return func(t int, s []ir.ValueID) []ir.ValueID {
			sum := r.add(ir.Add, nil, r.step(x, t), r.add(ir.MatMul, nil, s[0], weights))
			return []ir.ValueID{r.gate(dir, 0, sum)}
		}
	})
}

// gru: gates z and r are f(x·Wᵀ + h·Rᵀ + b), the candidate is
// g(x·Wᵀ + (r∘h)·Rᵀ + b), or g(x·Wᵀ + r∘(h·Rᵀ + rb) + wb) with
// linear_before_reset; h' = (1 − z)∘candidate + z∘h.
func gru(c *call) {
	r := c.recurrent(3, "Sigmoid", "Tanh")
	linear := c.bool("linear_before_reset", false)
	r.run([]*value{r.state}, func(dir int) func(int, []ir.ValueID) []ir.ValueID {
		h := r.hidden
		wb, rb := r.biases(dir)
		x := r.inputs(dir, r.use(r.pair(ir.Add, wb, r.recurrentBias(rb, linear))))
		one := r.scalar(r.typ(r.x).DType, 1)
		zr, cand, candBias := r.weights(r.r, dir, 0, 2*h), r.weights(r.r, dir, 2*h, h), ir.NoValue
		if linear {
			candBias = r.use(r.part(rb, 2*h, h))
		}
		return func(t int, s []ir.ValueID) []ir.ValueID {
			xt := r.step(x, t)
			gates := r.gate(dir, 0, r.add(ir.Add, nil, r.columns(xt, 0, 2), r.add(ir.MatMul, nil, s[0], zr)))
			z, reset := r.columns(gates, 0, 1), r.columns(gates, 1, 1)
			var state ir.ValueID
			if linear {
				state = r.add(ir.Mul, nil, reset, r.add(ir.MatMul, nil, s[0], cand, candBias))
			} else {
				state = r.add(ir.MatMul, nil, r.add(ir.Mul, nil, reset, s[0]), cand)
			}
			candidate := r.gate(dir, 1, r.add(ir.Add, nil, r.columns(xt, 2, 1), state))
			fresh := r.add(ir.Mul, nil, r.add(ir.Sub, nil, one, z), candidate)
			return []ir.ValueID{r.add(ir.Add, nil, fresh, r.add(ir.Mul, nil, z, s[0]))}
		}
	})
}

// part returns elements [from, from+n) of a vector.
func (r *recurrent) part(v *value, from, n int) *value {
	return r.extract(v, []int{from}, []int{1}, []int{n})
}

// recurrentBias is what of the state's bias can be added to the inputs: with
// linear, not that of the candidate.
func (r *recurrent) recurrentBias(v *value, linear bool) *value {
	if !linear || r.err != nil {
		return v
	}
	mask := make([]float64, r.gates*r.hidden)
	for i := range 2 * r.hidden {
		mask[i] = 1
	}
	return r.pair(ir.Mul, v, r.made(fromFloats(r.typeOf(v).DType, []int{len(mask)}, mask)))
}

// lstm: gates i, o, f and the candidate g, with peepholes p:
// i = f(x·Wᵀ + h·Rᵀ + pᵢ∘c + b), f likewise, c' = f∘c + i∘g,
// o = f(… + pₒ∘c'), h' = o∘h(c').
func lstm(c *call) {
	r := c.recurrent(4, "Sigmoid", "Tanh", "Tanh")
	coupled := c.bool("input_forget", false)
	cell := r.initial("initial_c", c.operand(6))
	peep := c.operand(7)
	r.want("P", peep, len(r.directions), 3*r.hidden)
	r.run([]*value{r.state, cell}, func(dir int) func(int, []ir.ValueID) []ir.ValueID {
		h := r.hidden
		wb, rb := r.biases(dir)
		x := r.inputs(dir, r.use(r.pair(ir.Add, wb, rb)))
		weights := r.weights(r.r, dir, 0, 4*h)
		one := ir.NoValue
		if coupled {
			one = r.scalar(r.typ(r.x).DType, 1)
		}
		look := func(gate int, sum, c ir.ValueID) ir.ValueID {
			if peep == nil || r.err != nil {
				return sum
			}
			p := r.use(r.rows(peep, dir, gate*h, h))
			return r.add(ir.Add, nil, sum, r.add(ir.Mul, nil, p, c))
		}
		return func(t int, s []ir.ValueID) []ir.ValueID {
			sum := r.add(ir.Add, nil, r.step(x, t), r.add(ir.MatMul, nil, s[0], weights))
			in := r.gate(dir, 0, look(0, r.columns(sum, 0, 1), s[1]))
			var forget ir.ValueID
			if coupled {
				forget = r.add(ir.Sub, nil, one, in)
			} else {
				forget = r.gate(dir, 0, look(2, r.columns(sum, 2, 1), s[1]))
			}
			candidate := r.gate(dir, 1, r.columns(sum, 3, 1))
			cell := r.add(ir.Add, nil, r.add(ir.Mul, nil, forget, s[1]), r.add(ir.Mul, nil, in, candidate))
			out := r.gate(dir, 0, look(1, r.columns(sum, 1, 1), cell))
			if r.err != nil {
				return nil
			}
			per := len(r.activations) / len(r.directions)
			return []ir.ValueID{r.add(ir.Mul, nil, out, r.apply(r.activations[dir*per+2], cell)), cell}
		}
	})
}
