package onnx

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSuites runs the standard's other collections of tests, but for the
// light-tests, which TestGolden runs. What fails has to be refused by name; least
// is how many pass.
func TestSuites(t *testing.T) {
	for _, suite := range []struct {
		dir   string
		least int
	}{{"simple", 7}, {"pytorch-operator", 35}, {"pytorch-converted", 82}} {
		t.Run(suite.dir, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(shared(t, "onnx", "backend", suite.dir), "*", "model.onnx"))
			if err != nil {
				t.Fatal(err)
			}
			passed := 0
			for _, f := range files {
				name := filepath.Base(filepath.Dir(f))
				ds, err := runNode(f)
				if err != nil {
					if !slices.ContainsFunc(beyond, func(s string) bool { return strings.Contains(err.Error(), s) }) {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if i := slices.IndexFunc(ds, func(d difference) bool { return d.relative > 1e-3 }); i >= 0 {
					t.Errorf("%s: output %d: relative error %.3g", name, i, ds[i].relative)
					continue
				}
				passed++
			}
			t.Logf("%d of %d pass", passed, len(files))
			if passed < suite.least {
				t.Errorf("only %d tests pass, want %d", passed, suite.least)
			}
		})
	}
}
