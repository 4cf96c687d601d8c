package gpu

import (
	"slices"
	"strings"
	"testing"

	"situ/ir"
	"situ/ir/irtest"
)

// layers lists the kernels of a graph by their operators.
func layers(r *Report) []string {
	var ops []string
	for _, l := range r.Layers {
		ops = append(ops, l.Op)
	}
	return ops
}

func TestFusion(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(b *irtest.Net) ir.ValueID
		want  []string
	}{
		{"residual joins the later product", func(b *irtest.Net) ir.ValueID {
			x := b.Input(1, 8, 8, 16)
			return b.Add(b.Conv(x, 16, 3, 1, 1, true), b.Conv(x, 16, 1, 1, 1, false))
		}, []string{"conv2d", "conv2d+add"}},
		{"a value with two readers is written", func(b *irtest.Net) ir.ValueID {
			x := b.Conv(b.Input(1, 8, 8, 16), 16, 3, 1, 1, false)
			return b.Add(b.Add(x, x), x)
		}, []string{"conv2d", "add+add"}},
		{"graph input as residual", func(b *irtest.Net) ir.ValueID {
			x := b.Input(1, 8, 8, 16)
			return b.Add(b.Conv(x, 16, 3, 1, 1, false), x)
		}, []string{"conv2d+add"}},
		{"reshape is free and does not part a kernel", func(b *irtest.Net) ir.ValueID {
			x := b.Conv(b.Input(1, 8, 8, 16), 16, 1, 1, 1, false)
			x = b.Must(b.G.Add(ir.Reshape, "flat", &ir.ShapeAttr{Shape: []int{1, 1024}}, x))
			return b.Must(b.G.Add(ir.Dequantize, "real", nil, x))
		}, []string{"conv2d+dequantize"}},
		{"a broadcast operand is not the tile at hand", func(b *irtest.Net) ir.ValueID {
			x := b.Input(1, 8, 8, 16)
			gate := b.Conv(b.Must(b.G.AddTyped(ir.ReduceMean, "mean", &ir.ReduceAttr{Axes: []int{1, 2}, KeepDims: true}, b.Code(1, 1, 1, 16), x)), 16, 1, 1, 1, false)
			return b.Must(b.G.AddTyped(ir.Mul, "scale", nil, b.Code(1, 8, 8, 16), x, gate))
		}, []string{"reducemean", "conv2d", "mul"}},
		{"concatenation is written in place", func(b *irtest.Net) ir.ValueID {
			x := b.Input(1, 8, 8, 16)
			y := b.Must(b.G.Add(ir.Concat, "cat", &ir.AxisAttr{Axis: 3}, b.Conv(x, 16, 1, 1, 1, false), b.Conv(x, 16, 3, 1, 1, false)))
			return b.Conv(y, 8, 1, 1, 1, false)
		}, []string{"conv2d", "conv2d", "conv2d"}},
		{"products of activations read and write transposed", func(b *irtest.Net) ir.ValueID {
			turn := func(x ir.ValueID, perm ...int) ir.ValueID {
				return b.Must(b.G.Add(ir.Transpose, b.Name("turn"), &ir.PermAttr{Perm: perm}, x))
			}
			x := b.Input(1, 8, 4, 16)
			q, k := b.Conv(x, 16, 1, 1, 1, false), b.Conv(x, 16, 1, 1, 1, false)
			y := b.Must(b.G.AddTyped(ir.MatMul, "scores", nil, b.Code(1, 4, 8, 8), turn(q, 0, 2, 1, 3), turn(k, 0, 2, 3, 1)))
			return turn(y, 0, 2, 1, 3)
		}, []string{"conv2d", "conv2d", "matmul"}},
		{"others do not", func(b *irtest.Net) ir.ValueID {
			x := b.Conv(b.Input(1, 8, 4, 16), 16, 1, 1, 1, false)
			x = b.Must(b.G.Add(ir.Transpose, "turn", &ir.PermAttr{Perm: []int{0, 2, 1, 3}}, x))
			return b.Conv(x, 16, 3, 1, 1, false)
		}, []string{"conv2d", "transpose", "conv2d"}},
		{"constants are computed at load", func(b *irtest.Net) ir.ValueID {
			c := b.G.AddConst("c", ir.Zeros(ir.F32, 8), nil)
			c = b.Must(b.G.Add(ir.Exp, "e", nil, c))
			return b.Must(b.G.Add(ir.Add, "sum", nil, b.G.AddInput("x", ir.TypeOf(ir.F32, 8)), c))
		}, []string{"add"}},
	} {
		b := irtest.NewNet(t, tt.name)
		r := estimate(t, b.Done(tt.build(b)), device(t, "h100"), Options{})
		if got := layers(r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: kernels %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDepthwiseUsesLanes(t *testing.T) {
	b := irtest.NewNet(t, "depthwise")
	r := estimate(t, b.Done(b.Conv(b.Input(1, 56, 56, 144), 144, 3, 1, 144, true)), device(t, "h100"), Options{})
	if l := r.Layers[0]; l.Mapping != "lanes, direct convolution" || l.MACs != 56*56*144*9 {
		t.Errorf("depthwise: mapping %q, %d multiply-accumulates", l.Mapping, l.MACs)
	}
}

func TestResNet50Counts(t *testing.T) {
	g := irtest.ResNet50(t)
	for _, batch := range []int{1, 8} {
		r := estimate(t, g, device(t, "a100"), Options{Batch: batch})
		if want := int64(4_089_184_256 * batch); r.MACs != want {
			t.Errorf("batch %d: %d multiply-accumulates, want %d", batch, r.MACs, want)
		}
		// 53 convolutions, pooling, mean and the classifier.
		if len(r.Layers) != 56 {
			t.Errorf("%d kernels, want 56", len(r.Layers))
		}
		weights := 25_502_912 + 4*26_560 // int8 weights, int32 biases
		if want := int64(weights + batch*(224*224*3+1000)); r.CompulsoryBytes != want {
			t.Errorf("batch %d: compulsory %d B, want %d", batch, r.CompulsoryBytes, want)
		}
	}
}

func TestInt4WeightsMoveHalf(t *testing.T) {
	traffic := func(d ir.DType) int64 {
		b := irtest.NewNet(t, "gemv")
		w := b.G.AddConst("w", ir.Zeros(d, 16384, 16384), ir.PerTensor(0.01, 0))
		out := b.Must(b.G.AddTyped(ir.MatMul, "gemv", nil, b.Code(1, 16384), b.Input(1, 16384), w))
		return estimate(t, b.Done(out), device(t, "l4"), Options{}).Bytes.DRAM
	}
	full, half := traffic(ir.I8), traffic(ir.I4)
	if full < 1<<28 || half < 1<<27 || float64(half) > 0.51*float64(full) {
		t.Errorf("DRAM traffic %d B with int8 weights, %d B with int4", full, half)
	}
}

func TestWeightsThatFitStayInL2(t *testing.T) {
	dram := func(width int) (int64, []string) {
		b := irtest.NewNet(t, "mlp")
		r := estimate(t, b.Done(b.Dense(b.Input(1, width), width)), device(t, "l4"), Options{})
		return r.Bytes.DRAM, r.Notes
	}
	if n, notes := dram(4096); n > 4096*2 || !strings.Contains(notes[0], "stay in L2") {
		t.Errorf("16 MB of weights: %d B from DRAM, %q", n, notes)
	}
	if n, notes := dram(16384); n < 16384*16384 || !strings.Contains(notes[0], "from DRAM in every run") {
		t.Errorf("256 MB of weights: %d B from DRAM, %q", n, notes)
	}
}

// TestTablesAreReadByRows: an embedding reads the rows that are asked for.
func TestTablesAreReadByRows(t *testing.T) {
	const rows, width, tokens = 200_000, 1024, 4
	g := &ir.Graph{Name: "embedding"}
	table := g.AddConst("table", ir.Describe(ir.F32, 1, rows, width), nil)
	y, err := g.Add(ir.Gather, "rows", &ir.AxisAttr{Axis: 0}, table, g.AddInput("ids", ir.TypeOf(ir.I64, tokens)))
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	r := estimate(t, g, device(t, "h100"), Options{})
	if got, want := r.Layers[0].Bytes.DRAM, int64(tokens*width*4*2+tokens*8); got > want {
		t.Errorf("%d bytes of DRAM, the rows read and written and the indices are %d", got, want)
	}
}

func TestErrors(t *testing.T) {
	gpu := device(t, "l4")
	small := func() *ir.Graph { b := irtest.NewNet(t, "small"); return b.Done(b.Dense(b.Input(1, 8), 8)) }()
	huge := &ir.Graph{Name: "huge"}
	x := huge.AddInput("x", ir.TypeOf(ir.F32, 1<<20, 1<<20))
	y, err := huge.Add(ir.MatMul, "square", nil, x, x)
	if err != nil {
		t.Fatal(err)
	}
	huge.Outputs = append(huge.Outputs, y)
	for _, tt := range []struct {
		g     *ir.Graph
		batch int
		want  string
	}{
		{nil, 1, "no graph"},
		{small, -1, "batch -1"},
		{small, MaxBatch + 1, "want 1 to"},
		{huge, 1, "use a smaller batch"},
		{huge, MaxBatch, "huge at batch 1048576 needs"},
	} {
		if _, err := Estimate(tt.g, gpu, Options{Batch: tt.batch}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("batch %d: %v, want %q", tt.batch, err, tt.want)
		}
	}
	r := estimate(t, &ir.Graph{Name: "empty"}, gpu, Options{})
	if r.LatencyS != 0 || r.ThroughputPerS != 0 || r.Energy.Total() != 0 {
		t.Errorf("empty graph: %+v", r)
	}
}
