package passes

import (
	"errors"
	"strings"
	"testing"

	"situ/ir"
)

// TestOrder checks the list against the reasons it states.
func TestOrder(t *testing.T) {
	at := map[string]int{}
	for i, p := range Passes {
		if p.Name == "" || p.Doc == "" || p.Run == nil {
			t.Errorf("pass %d (%q) is not complete", i, p.Name)
		}
		if _, ok := at[p.Name]; ok {
			t.Errorf("two passes are called %q", p.Name)
		}
		at[p.Name] = i
	}
	for i, p := range Passes {
		for _, c := range p.After {
			if j, ok := at[c.Pass]; !ok || j >= i {
				t.Errorf("%s must come after %q: %s", p.Name, c.Pass, c.Reason)
			}
			if c.Reason == "" {
				t.Errorf("%s after %s: no reason given", p.Name, c.Pass)
			}
		}
	}
}

func reluGraph(t *testing.T) *ir.Graph {
	t.Helper()
	g := &ir.Graph{Name: "g"}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 2, 3))
	y, err := g.Add(ir.Relu, "r", nil, x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	return g
}

// withPasses replaces the list for one test.
func withPasses(t *testing.T, p ...Pass) {
	saved := Passes
	t.Cleanup(func() { Passes = saved })
	Passes = p
}

func TestRunFailures(t *testing.T) {
	boom := Pass{Name: "boom", Doc: "d", Run: func(*ir.Graph, *State) (*ir.Graph, error) { panic("index out of sight") }}
	fails := Pass{Name: "fails", Doc: "d", Run: func(*ir.Graph, *State) (*ir.Graph, error) { return nil, errors.New("no can do") }}
	wrong := Pass{Name: "wrong", Doc: "d", Run: func(g *ir.Graph, _ *State) (*ir.Graph, error) {
		g = ir.Clone(g)
		g.Values[g.Outputs[0]].Type.Shape = []int{7}
		return g, nil
	}}
	for _, tc := range []struct {
		pass Pass
		cfg  Config
		want []string
	}{
		{boom, Config{}, []string{"pass boom", "index out of sight", "relu"}},
		{fails, Config{}, []string{"pass fails", "no can do"}},
		{wrong, Config{}, []string{"pass wrong left a wrong graph", "relu"}},
		{boom, Config{StopAfter: "later"}, []string{`stop after: no pass "later"`, "boom"}},
		{boom, Config{Disable: []string{"y"}}, []string{`disable: no pass "y"`}},
	} {
		withPasses(t, tc.pass)
		_, err := Run(reluGraph(t), tc.cfg)
		if err == nil {
			t.Errorf("%s: no error", tc.pass.Name)
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q lacks %q", tc.pass.Name, err, w)
			}
		}
	}
}

func TestRunControls(t *testing.T) {
	var seen []string
	res, err := Run(reluGraph(t), Config{StopAfter: "fuse", Disable: []string{"layout"},
		After: func(p string, g *ir.Graph) {
			if err := ir.Verify(g); err != nil {
				t.Errorf("after %s: %v", p, err)
			}
			seen = append(seen, p)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(seen, " "), "canonicalise fold tidy normalise fuse"; got != want {
		t.Errorf("passes run: %s, want %s", got, want)
	}
	if len(res.Timings) != 5 {
		t.Errorf("%d timings, want 5", len(res.Timings))
	}
}

func TestFloatModelNeedsInputs(t *testing.T) {
	_, err := Run(reluGraph(t), Config{})
	if err == nil || !strings.Contains(err.Error(), "calibration inputs") {
		t.Errorf("error %v, want one about calibration inputs", err)
	}
}

func TestQuantiseNeedsCalibrate(t *testing.T) {
	_, err := Run(reluGraph(t), Config{Disable: []string{"calibrate"}})
	if err == nil || !strings.Contains(err.Error(), "calibrate is disabled") {
		t.Errorf("error %v, want one about the disabled pass", err)
	}
}
