package runtime

import (
	"math"
	"strings"
	"testing"

	"situ/ir"
)

// TestKernelsAgainstRecording gives GPU kernels an input of which they make NaN, whose
// bits are not those of the evaluator's NaN, and a recording without: kernels that are
// as good as the evaluator's bits must still meet what was recorded.
func TestKernelsAgainstRecording(t *testing.T) {
	needLLC(t)
	dir := sharedDir(t, "onnx", "models", "ort-dynamic-quantize-matmul")
	sets, err := readSets(dir)
	if err != nil {
		t.Fatal(err)
	}
	target, err := OpenTarget("a100")
	if err != nil {
		t.Fatal(err)
	}
	s := sets[0]
	for _, tt := range []struct {
		x    float32
		want string
	}{{1, "one step"}, {float32(math.Inf(1)), nanReason}} {
		for _, x := range s.in {
			if x.tensor.DType == ir.F32 {
				data := ir.Data[float32](x.tensor)
				for i := range data[1:] {
					data[1+i] = tt.x
				}
			}
		}
		_, reason := checkSet(t.Context(), dir, s, CheckOptions{Executor: "gpu"}, target)
		if !strings.Contains(reason, tt.want) {
			t.Errorf("inputs of %v: reason %q, want one with %q", tt.x, reason, tt.want)
		}
	}
}
