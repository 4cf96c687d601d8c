package runtime

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"situ/backend/gpu"
	"situ/ir"
	"situ/ir/irtest"
)

// attention is the block sizes of a transformer: batch, positions, past positions
// that come from a cache, heads, heads of keys and values, and channels of a head.
type attention struct {
	batch, positions, past, heads, shared, dim int
}

// graph returns a float attention block, from x [batch, positions, heads·dim] to
// the same, with a residual sum: projections, scores, softmax, shares times
// values, projection. With a past it takes keys and values so far and returns
// those with the new ones. A shared head of keys and values serves several heads.
func (a attention) graph(t testing.TB) (*ir.Graph, []*ir.Tensor) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	g := &ir.Graph{Name: "attention"}
	do := func(kind ir.OpKind, name string, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
		t.Helper()
		id, err := g.Add(kind, name, attr, in...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	width := a.heads * a.dim
	x := g.AddInput("x", ir.TypeOf(ir.F32, a.batch, a.positions, width))
	in := []*ir.Tensor{irtest.Tensor(r, 1, a.batch, a.positions, width)}
	project := func(name string, x ir.ValueID, to int) ir.ValueID {
		from := g.Type(x).Shape[2]
		return do(ir.MatMul, name, nil, x, g.AddConst(name+"/w", irtest.Tensor(r, math.Sqrt(6/float64(from)), from, to), nil),
			g.AddConst(name+"/b", irtest.Tensor(r, 0.1, to), nil))
	}
	heads := func(name string, x ir.ValueID, n int) ir.ValueID {
		s := do(ir.Reshape, name+"/split", &ir.ShapeAttr{Shape: []int{a.batch, a.positions, n, a.dim}}, x)
		return do(ir.Transpose, name+"/heads", &ir.PermAttr{Perm: []int{0, 2, 1, 3}}, s)
	}
	q := heads("q", project("q", x, width), a.heads)
	k := heads("k", project("k", x, a.shared*a.dim), a.shared)
	v := heads("v", project("v", x, a.shared*a.dim), a.shared)
	if a.past > 0 {
		cache := func(name string, new ir.ValueID) ir.ValueID {
			past := g.AddInput("past_"+name, ir.TypeOf(ir.F32, a.batch, a.shared, a.past, a.dim))
			in = append(in, irtest.Tensor(r, 1.5, a.batch, a.shared, a.past, a.dim))
			present := do(ir.Concat, "present_"+name, &ir.AxisAttr{Axis: 2}, past, new)
			g.Outputs = append(g.Outputs, present)
			return present
		}
		k, v = cache("k", k), cache("v", v)
	}
	all := a.past + a.positions
	if group := a.heads / a.shared; group > 1 {
		q = do(ir.Reshape, "q/groups", &ir.ShapeAttr{Shape: []int{a.batch * a.shared, group, a.positions, a.dim}}, q)
		k = do(ir.Reshape, "k/groups", &ir.ShapeAttr{Shape: []int{a.batch * a.shared, 1, all, a.dim}}, k)
		v = do(ir.Reshape, "v/groups", &ir.ShapeAttr{Shape: []int{a.batch * a.shared, 1, all, a.dim}}, v)
	}
	kt := do(ir.Transpose, "k/transpose", &ir.PermAttr{Perm: []int{0, 1, 3, 2}}, k)
	scores := do(ir.MatMul, "scores", nil, q, kt)
	scale := g.AddConst("scale", ir.NewTensor(ir.F32, []int{1}, []float32{float32(1 / math.Sqrt(float64(a.dim)))}), nil)
	shares := do(ir.Softmax, "shares", &ir.AxisAttr{Axis: 3}, do(ir.Mul, "scaled", nil, scores, scale))
	y := do(ir.MatMul, "mixed", nil, shares, v)
	y = do(ir.Reshape, "ungroup", &ir.ShapeAttr{Shape: []int{a.batch, a.heads, a.positions, a.dim}}, y)
	y = do(ir.Transpose, "merge", &ir.PermAttr{Perm: []int{0, 2, 1, 3}}, y)
	y = do(ir.Reshape, "flat", &ir.ShapeAttr{Shape: []int{a.batch, a.positions, width}}, y)
	g.Outputs = append([]ir.ValueID{do(ir.Add, "residual", nil, project("out", y, width), x)}, g.Outputs...)
	return g, in
}

// TestAttention holds an attention block on two chips and a GPU to the evaluator,
// bit for bit, and the evaluator to the float model.
func TestAttention(t *testing.T) {
	for name, a := range map[string]attention{
		"self":    {batch: 1, positions: 48, heads: 4, shared: 4, dim: 16},
		"batch":   {batch: 2, positions: 33, heads: 3, shared: 3, dim: 20},
		"shared":  {batch: 1, positions: 24, heads: 8, shared: 2, dim: 16},
		"decode":  {batch: 1, positions: 1, past: 63, heads: 4, shared: 4, dim: 32},
		"prefill": {batch: 1, positions: 16, past: 50, heads: 4, shared: 2, dim: 16},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			g, in := a.graph(t)
			p, err := prepare(ctx, &Model{Name: g.Name, Graph: g}, QuantOptions{}, [][]*ir.Tensor{in})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Fallback) > 0 {
				t.Errorf("stays in float32: %v", p.Fallback)
			}
			want, err := evaluate(ctx, p.Fixed, in)
			if err != nil {
				t.Fatal(err)
			}
			float, err := evaluate(ctx, g, in)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if d := compare(want[i], float[i], 0); d.sqnr() < 25 {
					t.Errorf("output %d: %.1f dB between signal and quantisation noise", i, d.sqnr())
				} else {
					t.Logf("output %d: %.1f dB", i, d.sqnr())
				}
			}
			for _, on := range []string{"corsair-card", "edge-dimc", "h100"} {
				target, err := OpenTarget(on)
				if err != nil {
					t.Fatal(err)
				}
				var got []*ir.Tensor
				if target.GPU != nil {
					if _, err := gpu.FindLLC(ctx, gpu.DefaultSM); err != nil {
						t.Logf("no GPU kernels: %v", err)
						continue
					}
					got, err = emulateKernels(ctx, p, target, in)
				} else {
					got, err = emulate(ctx, p, target, in)
				}
				if err != nil {
					t.Errorf("%s: %v", on, err)
					continue
				}
				for i := range want {
					if !sameBits(got[i], want[i]) {
						d := compare(got[i], want[i], 0)
						t.Errorf("%s: output %d differs in %d of %d elements", on, i, d.beyond, d.n)
					}
				}
			}
		})
	}
}
