package runtime

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"situ/frontend/onnx"
	"situ/ir"
)

// writeModel exports a graph in IR text to an ONNX file.
func writeModel(t *testing.T, text string) string {
	t.Helper()
	g, err := ir.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Export(g)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteModel(path, m); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAbsurdShapes checks that a small file that states a large shape gives an
// error instead of gigabytes.
func TestAbsurdShapes(t *testing.T) {
	for _, test := range []struct{ name, graph, want string }{
		{"input", `graph "g" {
			%0 = input "x" : f32[2000000000]
			%1 "y" = relu %0 : f32[2000000000]
			output %1
		}`, "2e+09 elements"},
		{"intermediate", `graph "g" {
			%0 = input "x" : f32[1,20000]
			%1 = transpose %0 {perm=[1,0]} : f32[20000,1] @ "t"
			%2 = add %0, %1 : f32[20000,20000] @ "outer"
			%3 "y" = reducesum %2 {axes=[0,1], keepdims=true} : f32[1,1]
			output %3
		}`, "intermediate tensors take 1600000004 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := writeModel(t, test.graph)
			_, err := RunModel(context.Background(), path, "edge-dimc", ModelOptions{}, QuantOptions{}, RunOptions{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %s", err, test.want)
			}
		})
	}
}
