package runtime

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"situ/backend/gpu"
	"situ/backend/pim"
	"situ/frontend/onnx"
	"situ/ir"
)

var update = flag.Bool("update", false, "rewrite ../internal/gendocs/examples.tsv")

// TestOperatorExamples takes the standard's own tests of single operators on
// float32, calibrates each with its recorded inputs and compiles it for
// corsair-card and for h100. What docs/operators.md says of an operator is what is found here.
func TestOperatorExamples(t *testing.T) {
	dirs, err := findTests(sharedDir(t, "onnx", "backend", "node"))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		n, folded, pim, gpu int
		pimHost, gpuHost    int // with work for the host
		kinds               map[string]bool
	}
	card, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	h100, err := OpenTarget("h100")
	if err != nil {
		t.Fatal(err)
	}
	onPIM := func(g *ir.Graph) error { _, err := pim.Compile(g, card.Chip, pim.Options{Clusters: 1}); return err }
	onGPU := func(g *ir.Graph) error { _, err := gpu.Compile(g, h100.GPU); return err }
	rows := map[string]*row{}
	for _, dir := range dirs {
		op := exampleOf(dir)
		if op == "" {
			continue
		}
		in, err := readSet(filepath.Join(dir, "test_data_set_0"), "input")
		if err != nil {
			continue // element types beyond the importer
		}
		graphs := exampleGraphs(dir, in)
		if len(graphs) == 0 {
			continue // beyond the importer, whose own tests count these
		}
		r := rows[op]
		if r == nil {
			r = &row{kinds: map[string]bool{}}
			rows[op] = r
		}
		r.n++
		if graphs[0].Host == nil && !readsInputs(graphs[0].Graph) {
			r.folded++
			continue
		}
		for i := range graphs[0].Graph.Ops {
			r.kinds[graphs[0].Graph.Ops[i].Kind.String()] = true
		}
		switch compiles(t, graphs, onPIM) {
		case allOfIt:
			r.pim++
		case withHost:
			r.pimHost++
		}
		switch compiles(t, graphs, onGPU) {
		case allOfIt:
			r.gpu++
		case withHost:
			r.gpuHost++
		}
	}
	var b bytes.Buffer
	for _, op := range slices.Sorted(maps.Keys(rows)) {
		r := rows[op]
		fmt.Fprintf(&b, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", op, r.n, r.folded, r.pim, r.gpu, r.pimHost, r.gpuHost, strings.Join(slices.Sorted(maps.Keys(r.kinds)), " "))
	}
	path := filepath.Join("..", "internal", "gendocs", "examples.tsv")
	old, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(old), b.String()); d != "" {
		if !*update {
			t.Fatalf("%s is stale (-file +found); go test ./runtime -run OperatorExamples -update, then make generate:\n%s", path, d)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// exampleOf returns the operator that a test folder is an example of: its model
// has no other, and reads or writes float32. "" is none.
func exampleOf(dir string) string {
	m, err := onnx.Load(filepath.Join(dir, "model.onnx"))
	if err != nil || strings.Contains(filepath.Base(dir), "_expanded") {
		return ""
	}
	op, float := "", false
	for _, n := range m.Proto.Graph.Node {
		if op != "" && op != n.OpType {
			return ""
		}
		op = n.OpType
	}
	const float32Type = 1
	for _, v := range slices.Concat(m.Proto.Graph.Input, m.Proto.Graph.Output) {
		float = float || v.GetType().GetTensorType().GetElemType() == float32Type
	}
	if !float {
		return ""
	}
	return op
}

// exampleGraphs imports a model as check does and, as a second choice, with all
// inputs but the first constant, as weights are in the models that people have.
func exampleGraphs(dir string, in []named) []*Model {
	path := filepath.Join(dir, "model.onnx")
	m, err := OpenModel(path, ModelOptions{inputs: in})
	if err != nil {
		return nil
	}
	graphs := []*Model{m}
	parsed, err := onnx.Load(path)
	if err != nil || len(in) < 2 {
		return graphs
	}
	var names []string
	for _, i := range parsed.Inputs() {
		names = append(names, i.GetName())
	}
	set, err := match(names, in)
	if err != nil {
		return graphs
	}
	o := onnx.ImportOptions{InputShapes: map[string][]int{}, Values: map[string]*ir.Tensor{}}
	for i, n := range set {
		o.InputShapes[n.name] = n.tensor.Shape
		if i > 0 {
			o.Values[n.name] = n.tensor
		}
	}
	if g, err := onnx.Import(parsed, o); err == nil {
		graphs = append(graphs, &Model{Name: m.Name, Graph: g, given: set[:1]})
	}
	return graphs
}

// readsInputs reports whether an output of a graph follows from its inputs.
func readsInputs(g *ir.Graph) bool {
	follows := make([]bool, len(g.Values))
	for _, id := range g.Inputs {
		follows[id] = true
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		follows[op.Out] = slices.ContainsFunc(op.In, func(id ir.ValueID) bool { return id != ir.NoValue && follows[id] })
	}
	return slices.ContainsFunc(g.Outputs, func(id ir.ValueID) bool { return follows[id] })
}

// How a model compiles.
const (
	refused = iota
	withHost
	allOfIt
)

// compiles says how the best of some models compiles that are calibrated with their
// given inputs.
func compiles(t *testing.T, models []*Model, compile func(*ir.Graph) error) int {
	best := refused
	for _, m := range models {
		inputs, err := bind(m.Graph, m.given)
		if err != nil {
			t.Fatal(err)
		}
		p, err := prepare(context.Background(), m, QuantOptions{}, [][]*ir.Tensor{inputs})
		if err != nil {
			continue
		}
		switch err := p.trying(compile); {
		case err == nil && p.parts == nil:
			best = allOfIt
		case err == nil || errors.Is(err, errAllHost):
			best = max(best, withHost)
		}
	}
	return best
}
