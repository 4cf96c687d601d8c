package ir

import (
	"slices"
	"strings"
	"testing"
)

// pairOf returns a graph of one input and one output; grown makes the output the
// input with new entries behind it.
func pairOf(t *testing.T, in, out string, x, y []int, grown bool) *Graph {
	t.Helper()
	g := &Graph{}
	id := g.AddInput(in, TypeOf(F32, x...))
	if grown {
		fresh, axis := slices.Clone(y), 0
		for i := range y {
			if x[i] != y[i] {
				fresh[i], axis = y[i]-x[i], i
			}
		}
		y, err := g.Add(Concat, "join", &AxisAttr{Axis: axis}, id, g.AddInput("new", TypeOf(F32, fresh...)))
		if err != nil {
			t.Fatal(err)
		}
		g.Value(y).Name = out
		g.Outputs = []ValueID{y}
		return g
	}
	g.Outputs = []ValueID{g.AddInput(out, TypeOf(F32, y...))}
	return g
}

func TestStateOf(t *testing.T) {
	for _, tt := range []struct {
		x, y  []int
		grown bool
		want  State
		fault string
	}{
		{[]int{2, 1, 128}, []int{2, 1, 128}, false, State{Axis: -1}, ""},
		{[]int{1, 8, 15, 64}, []int{1, 8, 3, 64}, false, State{Axis: 2, Rows: 15, New: 3}, ""},
		{[]int{1, 8, 15, 64}, []int{1, 8, 16, 64}, true, State{Axis: 2, Rows: 15, New: 1, From: 15}, ""},
		{[]int{1, 8, 15, 64}, []int{1, 8, 16, 64}, false, State{}, "does not begin with the input"},
		{[]int{1, 8, 15, 64}, []int{1, 8, 4, 64}, false, State{}, "15 entries are no multiple of the 4"},
		{[]int{1, 8, 15, 64}, []int{1, 4, 3, 64}, false, State{}, "more than one dimension"},
		{[]int{1, 8}, []int{8}, false, State{}, "as many dimensions"},
		{nil, nil, false, State{}, "one at least"},
		{[]int{1, 8, 0, 64}, []int{1, 8, 1, 64}, true, State{}, "holds no entries"},
	} {
		g := pairOf(t, "a", "b", tt.x, tt.y, tt.grown)
		s, err := StateOf(g, 0, 0)
		switch {
		case tt.fault == "" && (err != nil || s != tt.want):
			t.Errorf("%v, %v: %+v, %v; want %+v", tt.x, tt.y, s, err, tt.want)
		case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
			t.Errorf("%v, %v: error %v, want %q", tt.x, tt.y, err, tt.fault)
		}
	}
}

func TestStatesByName(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		found   bool
	}{
		{"past_key_values.3.key", "present.3.key", true}, {"past_key_values.0.decoder.value", "present.0.decoder.value", true},
		{"past_key_self_2", "present_key_self_2", true}, {"pastK", "presentK", true}, {"h.0.attn.past_key", "h.0.attn.key", true},
		{"state", "stateN", true}, {"h", "hn", true}, {"c0", "cn", true}, {"gru_state_in", "gru_state_out", true},
		{"image", "imaged", false}, {"h", "H", false}, {"input", "output", false}, {"past_key_values.3.key", "present.2.key", false},
	} {
		g := pairOf(t, tt.in, tt.out, []int{1, 4}, []int{1, 4}, false)
		if got := StatesByName(g); len(got) == 1 != tt.found {
			t.Errorf("%s and %s: %+v", tt.in, tt.out, got)
		}
		s, err := StateNamed(g, tt.in+"="+tt.out)
		if err != nil || s.Axis != -1 {
			t.Errorf("%s=%s: %+v, %v", tt.in, tt.out, s, err)
		}
	}
	g := pairOf(t, "a", "b", []int{1, 4}, []int{1, 4}, false)
	for pair, want := range map[string]string{"a": "IN=OUT", "x=b": `no input "x"; there is a`, "a=x": `no output "x"; there is b`} {
		if _, err := StateNamed(g, pair); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pair, err, want)
		}
	}
}

// TestNextState: the oldest entries are replaced in place, round and round.
func TestNextState(t *testing.T) {
	s := State{Axis: 1, Rows: 4, New: 2, From: 1}
	in := NewTensor(I32, []int{2, 4}, []int32{0, 1, 2, 3, 10, 11, 12, 13})
	for step, want := range [][]int32{
		{100, 200, 2, 3, 101, 201, 12, 13}, {100, 200, 102, 202, 101, 201, 103, 203}, {104, 204, 102, 202, 105, 205, 103, 203},
	} {
		k := int32(2 * step)
		out := NewTensor(I32, []int{2, 3}, []int32{-1, 100 + k, 200 + k, -1, 101 + k, 201 + k})
		in = s.Next(in, out, step)
		if !slices.Equal(Data[int32](in), want) {
			t.Errorf("after step %d: %v, want %v", step, in.Any(), want)
		}
	}
	whole := NewTensor(I32, []int{1}, []int32{7})
	if got := (State{Axis: -1}).Next(in, whole, 5); got != whole {
		t.Errorf("a state that is replaced as a whole becomes %v", got)
	}
}
