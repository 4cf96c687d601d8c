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

// TestFloatAroundCodes checks that codes which no input decides, or on which no
// output depends, leave a model one in floating point.
func TestFloatAroundCodes(t *testing.T) {
	for name, graph := range map[string]string{
		"constant": `graph "g" {
			%0 = input "x" : f32[4]
			%1 = const "c" : f32[4] {1, 2, 3, 4}
			%2 = quantize %1 : i8[4] scale=1 zero=0 @ "q"
			%3 = dequantize %2 : f32[4] @ "dq"
			%4 = add %0, %3 : f32[4] @ "s"
			output %4
		}`,
		"unused": `graph "g" {
			%0 = input "x" : f32[4]
			%1 = quantize %0 : i8[4] scale=1 zero=0 @ "q"
			%2 = dequantize %1 : f32[4] @ "dq"
			%3 = relu %0 : f32[4] @ "s"
			output %3
		}`,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := RunModel(context.Background(), writeModel(t, graph), "edge-dimc", ModelOptions{}, QuantOptions{}, RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Result.Agreement.BitExact || r.Result.Quant != "int8" {
				t.Errorf("bit exact %v, quantised %q", r.Result.Agreement.BitExact, r.Result.Quant)
			}
		})
	}
}
