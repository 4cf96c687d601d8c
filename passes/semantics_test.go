package passes

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/eval"
	"situ/ir/irtest"
)

func runGraph(t interface{ Fatalf(string, ...any) }, g *ir.Graph, in []*ir.Tensor) []*ir.Tensor {
	e, err := eval.New(g)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	out, err := e.Run(context.Background(), in, eval.Options{})
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	return out
}

// relative returns the largest difference between two tensors, relative to the
// largest magnitude in want.
func relative(got, want *ir.Tensor) float64 {
	g, w := ir.Data[float32](got), ir.Data[float32](want)
	top, diff := 0.0, 0.0
	for i := range w {
		top = max(top, math.Abs(float64(w[i])))
		if d := math.Abs(float64(g[i]) - float64(w[i])); !(d <= diff) {
			diff = d
		}
	}
	if diff == 0 {
		return 0
	}
	return diff / max(top, 1e-3)
}

// sqnr returns the signal-to-noise ratio of got against want in dB.
func sqnr(got, want *ir.Tensor) float64 {
	g, w := ir.Data[float32](got), ir.Data[float32](want)
	signal, noise := 0.0, 0.0
	for i := range w {
		signal += float64(w[i]) * float64(w[i])
		noise += (float64(g[i]) - float64(w[i])) * (float64(g[i]) - float64(w[i]))
	}
	if noise == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(signal/noise)
}

// TestFloatPassesKeepMeaning runs random graphs before and after the passes that
// work in floating point.
func TestFloatPassesKeepMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{})
		in := irtest.Inputs(t, g)
		want := runGraph(t, g, in)
		for _, stop := range []string{"canonicalise", "tidy", "fuse"} {
			res, err := Run(g, Config{StopAfter: stop})
			if err != nil {
				t.Fatalf("%v\n%v", err, g)
			}
			for i, got := range runGraph(t, res.Graph, in) {
				if r := relative(got, want[i]); !(r < 1e-5) {
					t.Fatalf("after %s, output %d differs by %g of its magnitude\nbefore:\n%v\nafter:\n%v", stop, i, r, g, res.Graph)
				}
			}
		}
	})
}

// TestFixedPointGraphs takes random graphs all the way, with any optional passes
// left out. Random graphs amplify
// rounding in ways that trained ones do not, so the bound on the noise is wide;
// what it catches is a wrong scale, zero point or operand.
func TestFixedPointGraphs(t *testing.T) {
	kinds := []ir.OpKind{ir.Conv2D, ir.MatMul, ir.MaxPool, ir.AvgPool, ir.ReduceMean, ir.Add, ir.Mul, ir.Relu, ir.Clip,
		ir.Sigmoid, ir.HardSwish, ir.Reshape, ir.Transpose, ir.Concat, ir.Slice, ir.Pad}
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{Kinds: kinds, MaxOps: 5})
		in := irtest.Inputs(t, g)
		want := runGraph(t, g, in)
		method := rapid.SampledFrom([]Method{MinMax, MSE, Percentile}).Draw(t, "method")
		disable := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"canonicalise", "fold", "layout", "tidy", "fuse", "legalise"}), 0, 6, rapid.ID).Draw(t, "disable")
		res, err := Run(g, Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}, Method: method}, Disable: disable})
		if err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		for i, got := range runGraph(t, res.Graph, in) {
			if db := sqnr(got, want[i]); !(db > 12) && got.Numel() > 16 && energy(want[i]) > 1e-6 {
				t.Fatalf("output %d has %.1f dB\nfloat:\n%v\nfixed:\n%v", i, db, g, res.Graph)
			}
		}
		if len(res.Fallback) > 0 {
			t.Logf("in float32: %v", res.Fallback)
		}
	})
}

// energy returns the mean square of a tensor.
func energy(t *ir.Tensor) float64 {
	sum := 0.0
	for _, x := range ir.Data[float32](t) {
		sum += float64(x) * float64(x)
	}
	return sum / float64(t.Numel())
}

// channelsFirst rewrites a graph the way importers do: element-wise operators and
// concat on images work on NCHW, with transposes around what needs NHWC.
func channelsFirst(g *ir.Graph) (*ir.Graph, error) {
	first, last := []int{0, 3, 1, 2}, []int{0, 2, 3, 1}
	return rewrite(g, func(r *rewriter, op *ir.Op, in []ir.ValueID) (ir.ValueID, error) {
		t := r.old.Type(op.Out)
		if len(t.Shape) != 4 {
			return ir.NoValue, nil
		}
		turn := func(id ir.ValueID, perm []int) (ir.ValueID, error) {
			return r.g.Add(ir.Transpose, "turn", &ir.PermAttr{Perm: perm}, id)
		}
		attr := op.Attr
		switch {
		case isUnary(op.Kind) || isBinary(op.Kind):
		case op.Kind == ir.Concat:
			attr = &ir.AxisAttr{Axis: inverse(first)[op.Attr.(*ir.AxisAttr).Axis]}
		default:
			return ir.NoValue, nil
		}
		for i, id := range in {
			if len(r.g.Type(id).Shape) != 4 {
				return ir.NoValue, nil
			}
			var err error
			if in[i], err = turn(id, first); err != nil {
				return ir.NoValue, err
			}
		}
		out, err := r.g.Add(op.Kind, op.Name, attr, in...)
		if err != nil {
			return ir.NoValue, err
		}
		return turn(out, last)
	})
}

func transposes(g *ir.Graph) int {
	n := 0
	for i := range g.Ops {
		if g.Ops[i].Kind == ir.Transpose {
			n++
		}
	}
	return n
}

// TestLayoutUndoesChannelsFirst turns random NHWC graphs into what an importer
// makes of NCHW models; after layout nothing of that may be left.
func TestLayoutUndoesChannelsFirst(t *testing.T) {
	kinds := []ir.OpKind{ir.Conv2D, ir.MaxPool, ir.Add, ir.Relu, ir.Concat, ir.Clip, ir.ReduceMean, ir.MatMul}
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{Kinds: kinds})
		turned, err := channelsFirst(g)
		if err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		res, err := Run(turned, Config{StopAfter: "tidy"})
		if err != nil {
			t.Fatalf("%v\n%v", err, turned)
		}
		if n := transposes(res.Graph); n > 0 {
			t.Fatalf("%d transposes are left\nbefore:\n%v\nafter:\n%v", n, turned, res.Graph)
		}
		in := irtest.Inputs(t, g)
		want := runGraph(t, g, in)
		for i, got := range runGraph(t, res.Graph, in) {
			if r := relative(got, want[i]); !(r < 1e-5) {
				t.Fatalf("output %d differs by %g of its magnitude\nbefore:\n%v\nafter:\n%v", i, r, turned, res.Graph)
			}
		}
	})
}

// TestFixFollowsPairs compares the fixed-point graph with the quantize/dequantize
// graph it comes from, computed in floating point as ONNX defines it: the codes
// of outputs differ where a sum is close to a tie, which is rare, and by a little,
// unless the scales downstream magnify a step.
func TestFixFollowsPairs(t *testing.T) {
	elements, off := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{MaxOps: 3})
		in := irtest.Inputs(t, g)
		cfg := Config{Quant: Quantisation{Inputs: [][]*ir.Tensor{in}}, StopAfter: "quantise"}
		pairs, err := Run(g, cfg)
		if err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		cfg.StopAfter = ""
		fixed, err := Run(g, cfg)
		if err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		want := runGraph(t, pairs.Graph, in)
		for i, got := range runGraph(t, fixed.Graph, in) {
			dq := producer(pairs.Graph, pairs.Graph.Outputs[i], ir.Dequantize)
			if dq == nil {
				continue
			}
			step := pairs.Graph.Type(dq.In[0]).Quant.Scale[0]
			a, b := ir.Data[float32](got), ir.Data[float32](want[i])
			for j := range a {
				d := math.Abs(float64(a[j]-b[j])) / float64(step)
				elements++
				if d > 0.01 {
					off++
				}
				if d > 32 {
					t.Fatalf("output %d, element %d: %v instead of %v, %.1f steps\npairs:\n%v\nfixed:\n%v", i, j, a[j], b[j], d, pairs.Graph, fixed.Graph)
				}
			}
		}
	})
	if off*200 > elements {
		t.Errorf("%d of %d codes differ, more than one in 200", off, elements)
	}
}
