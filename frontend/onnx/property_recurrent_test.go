package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

func strsAttr(name string, v ...string) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRINGS}
	for _, s := range v {
		a.Strings = append(a.Strings, []byte(s))
	}
	return a
}

func floatsAttr(name string, v ...float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOATS, Floats: v}
}

func graphAttr(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

// functions are the activations by their definitions, alpha and beta included.
var functions = map[string]func(x, alpha, beta float64) float64{
	"Relu":            func(x, _, _ float64) float64 { return max(x, 0) },
	"Tanh":            func(x, _, _ float64) float64 { return math.Tanh(x) },
	"Sigmoid":         func(x, _, _ float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"Softsign":        func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) },
	"Softplus":        func(x, _, _ float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
	"Affine":          func(x, a, b float64) float64 { return a*x + b },
	"ScaledTanh":      func(x, a, b float64) float64 { return a * math.Tanh(b*x) },
	"HardSigmoid":     func(x, a, b float64) float64 { return max(0, min(1, a*x+b)) },
	"LeakyRelu":       func(x, a, _ float64) float64 { return max(x, 0) + a*min(x, 0) },
	"Elu":             func(x, a, _ float64) float64 { return max(x, 0) + a*(math.Exp(min(x, 0))-1) },
	"ThresholdedRelu": func(x, a, _ float64) float64 { return map[bool]float64{true: x}[x > a] },
}

// A layer is a recurrent layer with its parameters as ONNX orders them.
type layer struct {
	op                       string
	t, b, in, h              int
	backwards                []bool
	x, w, r, bias, h0, c0, p []float64
	lens                     []int64
	names                    []string
	alpha, beta              []float64 // of each name
	clip                     float64
	linear, coupled          bool
	y, lastH, lastC          []float64
}

// dot is row i of a matrix of n columns times a vector.
func dot(m []float64, i, n int, v []float64) float64 {
	s := 0.0
	for j := range n {
		s += m[i*n+j] * v[j]
	}
	return s
}

// run is the standard's equations, element by element.
func (l *layer) run() {
	gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[l.op]
	dirs, h := len(l.backwards), l.h
	l.y = make([]float64, l.t*dirs*l.b*h)
	l.lastH, l.lastC = slices.Clone(l.h0), slices.Clone(l.c0)
	act := func(d, i int, x float64) float64 {
		if l.clip > 0 && !(l.op == "LSTM" && i == 2) {
			x = max(-l.clip, min(l.clip, x))
		}
		k := d*len(l.names)/dirs + i
		return functions[l.names[k]](x, l.alpha[k], l.beta[k])
	}
	for d, back := range l.backwards {
		w, r := l.w[d*gates*h*l.in:], l.r[d*gates*h*h:]
		wb, rb := l.bias[d*2*gates*h:], l.bias[d*2*gates*h+gates*h:]
		p := l.p[d*3*h:]
		for b := range l.b {
			hs, cs := l.lastH[(d*l.b+b)*h:][:h], l.lastC[(d*l.b+b)*h:][:h]
			n := int(l.lens[b])
			for i := range n {
				t := i
				if back {
					t = n - 1 - i
				}
				x := l.x[(t*l.b+b)*l.in:]
				old := slices.Clone(hs)
				in := func(g, j int) float64 { return dot(w, g*h+j, l.in, x) + wb[g*h+j] }
				rec := func(g, j int, v []float64) float64 { return dot(r, g*h+j, h, v) + rb[g*h+j] }
				switch l.op {
				case "RNN":
					for j := range h {
						hs[j] = act(d, 0, in(0, j)+rec(0, j, old))
					}
				case "GRU":
					reset := make([]float64, h)
					for j := range h {
						reset[j] = act(d, 0, in(1, j)+rec(1, j, old))
					}
					gated := make([]float64, h)
					for j := range h {
						gated[j] = reset[j] * old[j]
					}
					for j := range h {
						z := act(d, 0, in(0, j)+rec(0, j, old))
						s := in(2, j) + rec(2, j, gated)
						if l.linear {
							s = in(2, j) + reset[j]*rec(2, j, old)
						}
						hs[j] = (1-z)*act(d, 1, s) + z*old[j]
					}
				case "LSTM":
					for j := range h {
						input := act(d, 0, in(0, j)+rec(0, j, old)+p[j]*cs[j])
						forget := act(d, 0, in(2, j)+rec(2, j, old)+p[2*h+j]*cs[j])
						if l.coupled {
							forget = 1 - input
						}
						cs[j] = forget*cs[j] + input*act(d, 1, in(3, j)+rec(3, j, old))
						hs[j] = act(d, 0, in(1, j)+rec(1, j, old)+p[h+j]*cs[j]) * act(d, 2, cs[j])
					}
				}
				copy(l.y[((t*dirs+d)*l.b+b)*h:], hs)
			}
		}
	}
}

// swapped exchanges the first two of three dimensions, or moves the batch of
// [t,d,b,h] to the front.
func swapped(v []float64, shape []int) []float64 {
	perm := []int{1, 0, 2}
	if len(shape) == 4 {
		perm = []int{2, 0, 1, 3}
	}
	return float64s(permute(fromFloats(ir.F64, shape, v), perm, false))
}

// TestRecurrentProperty compares RNN, GRU and LSTM with their equations: every
// direction, activation, layout and optional operand, sequences that end early,
// with lengths and states known or not.
func TestRecurrentProperty(t *testing.T) {
	var names []string
	for n := range functions {
		names = append(names, n)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		l := &layer{op: rapid.SampledFrom([]string{"RNN", "GRU", "LSTM"}).Draw(t, "op")}
		dim := func(what string) int { return rapid.IntRange(1, 4).Draw(t, what) }
		l.t, l.b, l.in, l.h = dim("steps"), dim("batch"), dim("inputs"), dim("hidden")
		direction := rapid.SampledFrom([]string{"forward", "reverse", "bidirectional"}).Draw(t, "direction")
		l.backwards = map[string][]bool{"forward": {false}, "reverse": {true}, "bidirectional": {false, true}}[direction]
		dirs := len(l.backwards)
		gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[l.op]
		states := map[string]int{"RNN": 1, "GRU": 1, "LSTM": 2}[l.op]
		attrs := []*onnxpb.AttributeProto{strAttr("direction", direction), intAttr("hidden_size", int64(l.h))}
		batchFirst := rapid.Bool().Draw(t, "batch first")
		if batchFirst {
			attrs = append(attrs, intAttr("layout", 1))
		}
		draw := func(what string, n int) []float64 {
			v := make([]float64, n)
			for i := range v {
				v[i] = float64(rapid.IntRange(-8, 8).Draw(t, what)) / 8
			}
			return v
		}
		optional := func(what string, n int) ([]float64, bool) {
			if rapid.Bool().Draw(t, what+" given") {
				return draw(what, n), true
			}
			return make([]float64, n), false
		}
		l.x, l.w, l.r = draw("x", l.t*l.b*l.in), draw("w", dirs*gates*l.h*l.in), draw("r", dirs*gates*l.h*l.h)
		in := []*ir.Tensor{
			fromFloats(ir.F32, []int{l.t, l.b, l.in}, l.x),
			fromFloats(ir.F32, []int{dirs, gates * l.h, l.in}, l.w),
			fromFloats(ir.F32, []int{dirs, gates * l.h, l.h}, l.r), nil, nil, nil, nil, nil,
		}
		var given bool
		if l.bias, given = optional("b", dirs*2*gates*l.h); given {
			in[3] = fromFloats(ir.F32, []int{dirs, 2 * gates * l.h}, l.bias)
		}
		l.lens = slices.Repeat([]int64{int64(l.t)}, l.b)
		if rapid.Bool().Draw(t, "lengths given") {
			for i := range l.lens {
				l.lens[i] = int64(rapid.IntRange(0, l.t).Draw(t, "length"))
			}
			in[4] = fromInts(ir.I32, []int{l.b}, l.lens)
		}
		if l.h0, given = optional("h0", dirs*l.b*l.h); given {
			in[5] = fromFloats(ir.F32, []int{dirs, l.b, l.h}, l.h0)
		}
		l.c0, l.p = make([]float64, dirs*l.b*l.h), make([]float64, dirs*3*l.h)
		if l.op == "LSTM" {
			if l.c0, given = optional("c0", dirs*l.b*l.h); given {
				in[6] = fromFloats(ir.F32, []int{dirs, l.b, l.h}, l.c0)
			}
			if l.p, given = optional("p", dirs*3*l.h); given {
				in[7] = fromFloats(ir.F32, []int{dirs, 3 * l.h}, l.p)
			}
			if l.coupled = rapid.Bool().Draw(t, "coupled"); l.coupled {
				attrs = append(attrs, intAttr("input_forget", 1))
			}
		}
		if l.op == "GRU" && rapid.Bool().Draw(t, "linear") {
			l.linear = true
			attrs = append(attrs, intAttr("linear_before_reset", 1))
		}
		if rapid.Bool().Draw(t, "clipped") {
			l.clip = 0.75
			attrs = append(attrs, &onnxpb.AttributeProto{Name: "clip", Type: onnxpb.AttributeProto_FLOAT, F: 0.75})
		}
		l.activations(t, names, &attrs)
		l.run()

		shape, y := []int{l.t, dirs, l.b, l.h}, l.y
		last, lastH, lastC := []int{dirs, l.b, l.h}, l.lastH, l.lastC
		if batchFirst {
			in[0] = permute(in[0], []int{1, 0, 2}, false)
			for _, i := range []int{5, 6} {
				if in[i] != nil {
					in[i] = permute(in[i], []int{1, 0, 2}, false)
				}
			}
			y, lastH, lastC = swapped(y, shape), swapped(lastH, last), swapped(lastC, last)
			shape, last = []int{l.b, l.t, dirs, l.h}, []int{l.b, dirs, l.h}
		}
		for len(in) > 3 && in[len(in)-1] == nil {
			in = in[:len(in)-1]
		}
		out := nodeTest{op: l.op, opset: 14, attrs: attrs, in: in, fixed: drawFixed(t, len(in)), results: 1 + states}.must(t)
		what := fmt.Sprintf("%s %+v", l.op, attrs)
		same(t, what+": Y", out[0], ir.F32, shape, y, 1e-5)
		same(t, what+": Y_h", out[1], ir.F32, last, lastH, 1e-5)
		if states == 2 {
			same(t, what+": Y_c", out[2], ir.F32, last, lastC, 1e-5)
		}
	})
}

// activations draws functions, or takes the defaults, and their parameters.
func (l *layer) activations(t *rapid.T, names []string, attrs *[]*onnxpb.AttributeProto) {
	l.names = map[string][]string{"RNN": {"Tanh"}, "GRU": {"Sigmoid", "Tanh"}, "LSTM": {"Sigmoid", "Tanh", "Tanh"}}[l.op]
	l.names = slices.Repeat(l.names, len(l.backwards))
	if rapid.Bool().Draw(t, "activations given") {
		for i := range l.names {
			l.names[i] = rapid.SampledFrom(names).Draw(t, "activation")
		}
		*attrs = append(*attrs, strsAttr("activations", l.names...))
	}
	given := rapid.Bool().Draw(t, "parameters given")
	var alphas, betas []float32
	for _, n := range l.names {
		def := activationDefaults[strings.ToLower(n)]
		a, b := float64(def.alpha), float64(def.beta)
		if given && def.hasAlpha {
			a = float64(rapid.IntRange(1, 4).Draw(t, "alpha")) / 4
			alphas = append(alphas, float32(a))
		}
		if given && def.hasBeta {
			b = float64(rapid.IntRange(1, 4).Draw(t, "beta")) / 4
			betas = append(betas, float32(b))
		}
		l.alpha, l.beta = append(l.alpha, a), append(l.beta, b)
	}
	if alphas != nil {
		*attrs = append(*attrs, floatsAttr("activation_alpha", alphas...))
	}
	if betas != nil {
		*attrs = append(*attrs, floatsAttr("activation_beta", betas...))
	}
}
