package gpu

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"situ/arch"
	gen "situ/backend/gpu/kernel"
	"situ/emulator/ptx"
	"situ/ir"
	"situ/ir/irtest"
	"situ/passes"
)

func h100(t testing.TB) *arch.GPU {
	t.Helper()
	a, err := arch.Load("h100")
	if err != nil {
		t.Fatal(err)
	}
	return a.GPU
}

// needLLC returns an llc for the default target, or skips.
func needLLC(t testing.TB) *LLC {
	t.Helper()
	c, err := FindLLC(context.Background(), DefaultSM)
	if errors.Is(err, ErrNoLLC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fixedGraph draws a float graph and takes it through the passes.
func fixedGraph(t *rapid.T, o irtest.Options) (g *ir.Graph, in []*ir.Tensor) {
	f := irtest.Graph(t, o)
	in = irtest.Inputs(t, f)
	q := passes.Quantisation{Inputs: [][]*ir.Tensor{in}, WeightBits: rapid.SampledFrom([]int{8, 4}).Draw(t, "weight bits")}
	q.Blocks = rapid.Bool().Draw(t, "blocks")
	q.Mixed = rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "mixed")
	res, err := passes.Run(f, passes.Config{Quant: q})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return res.Graph, in
}

// TestMain keeps property tests short unless -rapid.checks asks for more: most of
// their time goes into starting llc.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "30"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "rewrite testdata")

// TestGolden compares the kernels and the plan of a small graph with what they
// were; -update rewrites them.
func TestGolden(t *testing.T) {
	file := filepath.Join("testdata", "small.txtar")
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ir.Parse(string(a.Files[0].Data), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(g, h100(t))
	if err != nil {
		t.Fatal(err)
	}
	p.SM = DefaultSM
	dir := t.TempDir()
	if err := p.Write(filepath.Join(dir, "k"), false); err != nil {
		t.Fatal(err)
	}
	for i := range a.Files[1:] {
		f := &a.Files[1+i]
		got, err := os.ReadFile(filepath.Join(dir, "k", f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			f.Data = got
		} else if d := cmp.Diff(string(f.Data), string(got)); d != "" {
			t.Errorf("%s differs (-want +got; -update rewrites it):\n%s", f.Name, d)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefused: every operator without a kernel is named, with the reason.
func TestRefused(t *testing.T) {
	g := &ir.Graph{Name: "float"}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 2, 8))
	y, err := g.Add(ir.Sin, "e", nil, x)
	if err != nil {
		t.Fatal(err)
	}
	z, err := g.Add(ir.Pow, "p", nil, y, x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{z}
	_, err = Compile(g, h100(t))
	want := `graph float: no GPU kernel for 2 of 2 operators:
  sin "e": has no kernel in float32, and is not fixed point in this model
  pow "p": has no kernel in float32, and is not fixed point in this model`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestEmpty: an operator on nothing is refused, there being nothing to launch.
func TestEmpty(t *testing.T) {
	g := &ir.Graph{Name: "empty"}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 0, 8))
	y, err := g.AddTyped(ir.Quantize, "q", nil, ir.TypeOf(ir.I8, 0, 8).WithQuant(ir.PerTensor(1, 0)), x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	if _, err := Compile(g, h100(t)); err == nil || !strings.Contains(err.Error(), `"q": its operands or its result have no elements`) {
		t.Errorf("got %v", err)
	}
}

// TestTooSmallGPU: what a GPU cannot hold is refused.
func TestTooSmallGPU(t *testing.T) {
	g := &ir.Graph{Name: "big"}
	q := ir.PerTensor(0.1, 0)
	x := g.AddInput("x", ir.TypeOf(ir.I8, 1000, 1000).WithQuant(q))
	y, err := g.Add(ir.Transpose, "t", &ir.PermAttr{Perm: []int{1, 0}}, x)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []ir.ValueID{y}
	a := *h100(t)
	a.DRAM.Bytes.Value = 1 << 20
	if _, err := Compile(g, &a); err == nil || !strings.Contains(err.Error(), "bytes of device memory") {
		t.Errorf("1 MB of memory: %v", err)
	}
}

// TestPack: spans alive at once do not overlap, and the total is no larger than
// all together.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spans []*span
		sum := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "spans") {
			s := &span{bytes: rapid.Int64Range(1, 5000).Draw(t, "bytes"), first: rapid.IntRange(-1, 20).Draw(t, "first")}
			s.last = s.first + rapid.IntRange(0, 10).Draw(t, "length")
			sum += alignUp(s.bytes)
			spans = append(spans, s)
		}
		total := pack(spans)
		if total > sum {
			t.Fatalf("%d bytes for spans of %d", total, sum)
		}
		for i, a := range spans {
			if a.offset%align != 0 || a.offset+a.bytes > total {
				t.Fatalf("span %+v in %d bytes", *a, total)
			}
			for _, b := range spans[:i] {
				if a.first <= b.last && b.first <= a.last && a.offset < b.offset+b.bytes && b.offset < a.offset+a.bytes {
					t.Fatalf("%+v and %+v overlap", *a, *b)
				}
			}
		}
	})
}

// TestRegisters: no kernel of a tile spills, or needs more registers than an SM
// has for a thread block.
func TestRegisters(t *testing.T) {
	c, a := needLLC(t), h100(t)
	for _, tile := range tileShapes {
		g := &ir.Graph{Name: "gemm"}
		q := ir.PerTensor(0.1, 0)
		x := g.AddInput("x", ir.TypeOf(ir.I8, 1024, 512).WithQuant(q))
		w := g.AddConst("w", ir.Zeros(ir.I8, 512, 512), q)
		y, err := g.AddTyped(ir.MatMul, "m", nil, ir.TypeOf(ir.I8, 1024, 512).WithQuant(q), x, w)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y}
		p, err := compile(g, a, always(tile), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Assemble(context.Background(), c, DefaultSM); err != nil {
			t.Fatal(err)
		}
		m, err := ptx.Parse(p.PTX, PTXFile)
		if err != nil {
			t.Fatal(err)
		}
		k, err := m.Kernel("conv_mma_0")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d×%d: %d registers live, %d instructions, %d bytes of shared memory", tile.Rows(), tile.Cols(), k.LiveRegisters, k.Instructions, gen.ConvTensor{Tile: tile}.Shared())
		if k.LocalBytes > 0 || k.LiveRegisters > 255 || 4*k.LiveRegisters*tile.Threads() > int(a.Register.Bytes.Int()) {
			t.Errorf("%+v: %d registers, %d bytes of local memory", tile, k.LiveRegisters, k.LocalBytes)
		}
	}
}
