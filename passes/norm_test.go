package passes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"situ/ir"
)

// TestNormaliseKeepsMeaning runs the graphs of testdata/normalise.txtar before and
// after the pass, and with what it found spelt out again.
func TestNormaliseKeepsMeaning(t *testing.T) {
	ar, err := txtar.ParseFile(filepath.Join("testdata", "normalise.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		if !strings.HasSuffix(f.Name, ".ir") {
			continue
		}
		g, err := ir.Parse(string(f.Data), nil)
		if err != nil {
			t.Fatal(err)
		}
		var in []*ir.Tensor
		for _, id := range g.Inputs {
			in = append(in, ramp(g.Type(id)))
		}
		found, err := normalise(g, &State{})
		if err != nil {
			t.Fatal(err)
		}
		spelt, err := legalise(found, &State{ctx: t.Context()})
		if err != nil {
			t.Fatal(err)
		}
		want, a, b := runGraph(t, g, in), runGraph(t, found, in), runGraph(t, spelt, in)
		for i := range want {
			if x, y := relative(a[i], want[i]), relative(b[i], want[i]); !(x < 1e-6) || !(y < 1e-6) {
				t.Errorf("%s: output %d differs by %g of its magnitude as one operator, by %g spelt out", f.Name, i, x, y)
			}
		}
		for i := range spelt.Ops {
			if spelt.Ops[i].Kind == ir.LayerNorm {
				t.Errorf("%s: a normalisation in float32 is left", f.Name)
			}
		}
	}
}
