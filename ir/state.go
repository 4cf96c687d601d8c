package ir

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// State pairs an input of a graph with the output that becomes it in the next run:
// the cache of a decoder, the hidden state of a recurrent network. Both are named by
// their position, which passes keep.
//
// With Axis −1 the output replaces the input as a whole. Otherwise the input holds
// Rows entries along Axis, and a run replaces the New oldest of them, in place, by
// entries From, From+1, … of the output: run t, counted from 0, those from t·New mod
// Rows on (a rolling buffer cache, Jiang et al. 2023, Mistral 7B). Entries are so not
// in the order of their age; attention does not depend on it.
type State struct {
	In, Out   int // positions in Graph.Inputs and Graph.Outputs
	Axis      int
	Rows, New int
	From      int
}

// StateOf returns the state of input in and output out of g, which are of one type
// and have one shape, or differ along one axis: there the output holds fewer entries,
// the new ones, or all of the input with new ones behind, as concat joins them. It
// returns an error that says why the two are no state.
func StateOf(g *Graph, in, out int) (State, error) {
	x, y := g.Value(g.Inputs[in]), g.Value(g.Outputs[out])
	s := State{In: in, Out: out, Axis: -1}
	fault := func(format string, args ...any) (State, error) {
		return s, fmt.Errorf("input %q (%s%v) and output %q (%s%v) are no state: %s", x.Name, x.Type.DType, x.Type.Shape, y.Name, y.Type.DType, y.Type.Shape,
			fmt.Sprintf(format, args...))
	}
	if x.Type.DType != y.Type.DType || len(x.Type.Shape) != len(y.Type.Shape) || len(x.Type.Shape) == 0 {
		return fault("they need the same type and as many dimensions, one at least")
	}
	if slices.Equal(x.Type.Shape, y.Type.Shape) {
		return s, nil
	}
	for i, n := range x.Type.Shape {
		if n == y.Type.Shape[i] {
			continue
		}
		if s.Axis >= 0 {
			return fault("they differ along more than one dimension")
		}
		s.Axis = i
	}
	s.Rows, s.New = x.Type.Shape[s.Axis], y.Type.Shape[s.Axis]
	if s.New > s.Rows {
		op := g.DefOp(g.Outputs[out])
		if op == nil || op.Kind != Concat || op.Attr.(*AxisAttr).Axis != s.Axis || op.In[0] != g.Inputs[in] {
			return fault("the output is longer and does not begin with the input")
		}
		s.New, s.From = s.New-s.Rows, s.Rows
	}
	if s.Rows == 0 {
		return fault("it holds no entries that a run could replace: give dimension %d of the input the size of the cache", s.Axis)
	}
	if s.New == 0 || s.Rows%s.New != 0 {
		return fault("its %d entries are no multiple of the %d that a run replaces", s.Rows, s.New)
	}
	return s, nil
}

// StatesByName finds the states of g whose names follow the habits of exporters, such
// as past_key_values.0.key and present.0.key, or h and hn. Pairs that are no state by
// their types are left out.
func StatesByName(g *Graph) []State {
	outputs := map[string]int{}
	for i, id := range g.Outputs {
		if name := g.Value(id).Name; name != "" {
			outputs[name] = i
		}
	}
	var states []State
	for i, id := range g.Inputs {
		for _, name := range nextNames(g.Value(id).Name) {
			out, ok := outputs[name]
			if !ok || slices.ContainsFunc(states, func(s State) bool { return s.Out == out }) {
				continue
			}
			if s, err := StateOf(g, i, out); err == nil {
				states = append(states, s)
				break
			}
		}
	}
	return states
}

// nextNames lists what the output may be called that becomes an input of some name.
func nextNames(in string) []string {
	var names []string
	for _, r := range [][2]string{
		{"past_key_values", "present"}, {"past_key_values", "present_key_values"}, // Optimum, ONNX Runtime GenAI
		{"past", "present"}, {"past_", ""}, {"cache_in", "cache_out"}, {"prev", "next"}, {"state_in", "state_out"}, {"_in", "_out"}, {"in_", "out_"},
	} {
		if name := strings.Replace(in, r[0], r[1], 1); name != in && name != "" {
			names = append(names, name)
		}
	}
	switch in { // recurrent networks; any other name with n behind it may be anything
	case "h", "c", "h0", "c0", "state", "hidden", "cell", "hidden_state", "cell_state":
		stem := strings.TrimSuffix(in, "0")
		names = append(names, stem+"n", stem+"N", in+"_out", "new_"+in)
	}
	return names
}

// StateNamed returns the state of the input and output that a text IN=OUT names.
func StateNamed(g *Graph, pair string) (State, error) {
	find := func(what string, ids []ValueID, name string) (int, error) {
		var names []string
		for i, id := range ids {
			if g.Value(id).Name == name {
				return i, nil
			}
			names = append(names, g.Value(id).Name)
		}
		return 0, fmt.Errorf("there is no %s %q; there is %s", what, name, strings.Join(names, ", "))
	}
	from, to, ok := strings.Cut(pair, "=")
	if !ok {
		return State{}, fmt.Errorf("%q is not of the form IN=OUT", pair)
	}
	in, err := find("input", g.Inputs, from)
	if err != nil {
		return State{}, err
	}
	out, err := find("output", g.Outputs, to)
	if err != nil {
		return State{}, err
	}
	return StateOf(g, in, out)
}

// Next returns what the input of s holds in run step+1, when it held in in run step,
// which gave out. The tensors are not changed.
func (s State) Next(in, out *Tensor, step int) *Tensor {
	if s.Axis < 0 {
		return out
	}
	next := Zeros(in.DType, in.Shape...)
	CopyElements(next, 0, in, 0, in.Numel())
	inner := Numel(in.Shape[s.Axis+1:])
	at := step % (s.Rows / s.New) * s.New
	for i := range Numel(in.Shape[:s.Axis]) {
		CopyElements(next, (i*s.Rows+at)*inner, out, (i*out.Shape[s.Axis]+s.From)*inner, s.New*inner)
	}
	return next
}

// CopyElements copies n elements between tensors of one type, of from those from start
// on to those of to from at on.
func CopyElements(to *Tensor, at int, from *Tensor, start, n int) {
	reflect.Copy(reflect.ValueOf(to.data).Slice(at, at+n), reflect.ValueOf(from.data).Slice(start, start+n))
}
