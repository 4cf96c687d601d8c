package ir_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestRewriter drops one operator, replaces another by two, and leaves an
// unused constant behind.
func TestRewriter(t *testing.T) {
	g := parse(t, `graph "g" {
  %0 = input "x" : f32[2]
  %1 = input "unused" : f32[1]
  %2 = const "c" : f32[2] {1, 2}
  %3 = const "d" : f32[2] {3, 4}
  %4 = sub %0, %2 : f32[2] @ "s"
  %5 "t" = abs %4 : f32[2] @ "a"
  %6 = mul %5, %3 : f32[2] @ "dead"
  %7 = neg %5 : f32[2] @ "n"
  output %7, %5
}
`)
	before := g.String()
	r := ir.NewRewriter(g)
	for i := range g.Ops {
		op := &g.Ops[i]
		switch op.Kind {
		case ir.Sub:
			n, err := r.Dst.Add(ir.Neg, op.Name+"/neg", nil, r.Map(op.In[1]))
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Dst.Add(ir.Add, op.Name, nil, r.Map(op.In[0]), n)
			if err != nil {
				t.Fatal(err)
			}
			r.Set(op.Out, s)
		case ir.Neg:
			r.Set(op.Out, r.Map(op.In[0]))
		default:
			if r.Has(op.Out) {
				t.Errorf("%s is mapped before it is copied", op.Out)
			}
			r.Copy(op)
		}
	}
	h := r.Finish()
	want := `graph "g" {
  %0 = input "x" : f32[2]
  %1 = input "unused" : f32[1]
  %2 = const "c" : f32[2] {1, 2}
  %3 = neg %2 : f32[2] @ "s/neg"
  %4 = add %0, %3 : f32[2] @ "s"
  %5 "t" = abs %4 : f32[2] @ "a"
  output %5, %5
}
`
	if diff := cmp.Diff(want, h.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := ir.Verify(h); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, g.String()); diff != "" {
		t.Errorf("the old graph changed:\n%s", diff)
	}
	if h.Values[2].Const != g.Values[2].Const {
		t.Error("the constant was copied, not shared")
	}
}

func TestRewriterForgotten(t *testing.T) {
	g := parse(t, `graph "g" {
  %0 = input "x" : f32[2]
  %1 = abs %0 : f32[2] @ "a"
  output %1
}`)
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, `%1 "a" is used but was not copied`) {
			t.Errorf("panic says %q", s)
		}
	}()
	ir.NewRewriter(g).Finish()
}

func TestDCE(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{Plain: true})
		if ir.DCE(g) != g {
			t.Fatalf("a graph without dead values was changed:\n%v", g)
		}
		h := ir.Clone(g)
		h.Outputs = h.Outputs[:1]
		d := ir.DCE(h)
		if err := ir.Verify(d); err != nil {
			t.Fatal(err)
		}
		for id, n := range d.Uses() {
			if v := d.Value(ir.ValueID(id)); n == 0 && (v.Def >= 0 || v.Const != nil) {
				t.Fatalf("%%%d is dead in\n%v", id, d)
			}
		}
		if ir.DCE(d) != d || len(d.Inputs) != len(g.Inputs) {
			t.Fatalf("dead values or fewer inputs in\n%v", d)
		}
	})
}

func TestClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{Plain: true})
		before := g.String()
		h := ir.Clone(g)
		if !ir.Equal(g, h) {
			t.Fatalf("clone differs:\n%v%v", g, h)
		}
		for i := range h.Ops {
			op := &h.Ops[i]
			op.Name, op.In[0] = "changed", 0
			switch a := op.Attr.(type) {
			case *ir.ConvAttr:
				a.Groups = 77
			case *ir.ReduceAttr:
				a.Axes[0] = 77
			case *ir.BinaryAttr:
				if a.Act != nil {
					a.Act.Lo = -77
				}
			}
		}
		h.Outputs[0] = 0
		h.Values[0].Name = "changed"
		if g.String() != before {
			t.Fatalf("a change of the clone shows in the original:\n%v", g)
		}
	})
}
