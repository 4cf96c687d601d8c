package passes

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"situ/ir"
)

var update = flag.Bool("update", false, "rewrite the expected graphs in testdata")

// ramp returns a tensor of values from −1 to 1 in even steps.
func ramp(t ir.Type) *ir.Tensor {
	data := make([]float32, t.Numel())
	for i := range data {
		data[i] = 2*float32(i)/float32(max(len(data)-1, 1)) - 1
	}
	return ir.NewTensor(ir.F32, t.Shape, data)
}

// TestGolden runs each pass on the graphs of testdata/PASS.txtar: NAME.ir is what
// the pass is given and NAME.want what it must make of it. Float models are
// calibrated with a ramp from −1 to 1. The property tests in semantics_test.go
// say that the results mean the same; here one sees what they look like.
func TestGolden(t *testing.T) {
	for _, p := range Passes {
		if p.Name == "tidy" || p.Name == "calibrate" {
			continue // canonicalise again; no change of the graph
		}
		t.Run(p.Name, func(t *testing.T) {
			path := filepath.Join("testdata", p.Name+".txtar")
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]byte{}
			for _, f := range ar.Files {
				want[f.Name] = f.Data
			}
			out := &txtar.Archive{Comment: ar.Comment}
			for _, f := range ar.Files {
				name, ok := strings.CutSuffix(f.Name, ".ir")
				if !ok {
					continue
				}
				got := runGolden(t, &p, name, string(f.Data))
				out.Files = append(out.Files, f, txtar.File{Name: name + ".want", Data: []byte(got)})
				if w := want[name+".want"]; !*update && !bytes.Equal([]byte(got), w) {
					t.Errorf("%s: got\n%swant\n%s(go test ./passes -run Golden -update accepts the new graphs)", name, got, w)
				}
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func runGolden(t *testing.T, p *Pass, name, text string) string {
	g, err := ir.Parse(text, nil)
	if err == nil {
		err = ir.Verify(g)
	}
	if err != nil {
		t.Fatalf("%s.ir: %v", name, err)
	}
	s := &State{ctx: context.Background()}
	in := []*ir.Tensor{}
	for _, id := range g.Inputs {
		in = append(in, ramp(g.Type(id)))
	}
	s.quant.Inputs = [][]*ir.Tensor{in}
	if p.Name == "quantise" {
		if _, err := calibrate(g, s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	got, err := runOne(p, g, s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return got.String()
}
