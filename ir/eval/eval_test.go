package eval

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"situ/ir"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

func TestTableIsComplete(t *testing.T) {
	for _, k := range ir.Kinds() {
		if int(k) >= len(table) || table[k] == nil {
			t.Errorf("%s has no meaning: add it to the table", k)
		}
	}
}

// TestOperators runs every graph of testdata/ops.txtar and compares its outputs,
// printed as constants, with what stands beside it. Every operator has a case.
func TestOperators(t *testing.T) {
	path := filepath.Join("testdata", "ops.txtar")
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[ir.OpKind]bool{}
	for i := 0; i+1 < len(ar.Files); i += 2 {
		src, want := &ar.Files[i], &ar.Files[i+1]
		name := strings.TrimSuffix(src.Name, ".ir")
		if want.Name != name+".want" {
			t.Fatalf("%s: %s follows %s", path, want.Name, src.Name)
		}
		t.Run(name, func(t *testing.T) {
			g, err := ir.Parse(string(src.Data), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range g.Ops {
				seen[g.Ops[i].Kind] = true
			}
			results := &ir.Graph{}
			for i, y := range run(t, g, nil, Options{Plain: true}) {
				results.AddConst("", y, g.Type(g.Outputs[i]).Quant)
			}
			got := results.String()
			if *update {
				want.Data = []byte(got)
				return
			}
			if d := cmp.Diff(string(want.Data), got); d != "" {
				t.Errorf("results differ (-want +got; -update rewrites them):\n%s", d)
			}
		})
	}
	for _, k := range ir.Kinds() {
		if !seen[k] {
			t.Errorf("%s has no case in %s", k, path)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const chain = `graph "chain" {
  %0 = input "x" : f32[4,8]
  %1 = relu %0 : f32[4,8] @ "a"
  %2 = reshape %1 {shape=[8,4]} : f32[8,4] @ "b"
  %3 = neg %2 : f32[8,4] @ "c"
  %4 = concat %2, %3 {axis=0} : f32[16,4] @ "d"
  %5 = reducesum %4 {axes=[0]} : f32[4] @ "e"
  output %5
}`

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMemory checks the peak of live bytes: a reshape takes none but keeps its
// operand alive.
func TestMemory(t *testing.T) {
	e, err := New(parse(t, chain))
	if err != nil {
		t.Fatal(err)
	}
	// relu and neg, 128 bytes each, live while concat writes 256.
	if want := int64(512); e.Peak() != want {
		t.Errorf("peak is %d bytes, want %d", e.Peak(), want)
	}
	in := []*ir.Tensor{ir.Zeros(ir.F32, 4, 8)}
	if _, err := e.Run(context.Background(), in, Options{MemoryLimit: 512}); err != nil {
		t.Error(err)
	}
	_, err = e.Run(context.Background(), in, Options{MemoryLimit: 511})
	checkError(t, err, `concat "d"`, "512 bytes", "limit is 511")
}

// TestMemoryOfReshape checks that a reshape counts as no memory of its own.
func TestMemoryOfReshape(t *testing.T) {
	e, err := New(parse(t, `graph "" {
  %0 = input "x" : f32[4,8]
  %1 = relu %0 : f32[4,8]
  %2 = reshape %1 {shape=[32]} : f32[32]
  %3 = slice %2 {starts=[3], steps=[1], sizes=[1]} : f32[1]
  output %3
}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(128 + 4); e.Peak() != want {
		t.Errorf("peak is %d bytes, want %d", e.Peak(), want)
	}
}

// TestEvalOp evaluates one operator of a graph by itself, as constant folding
// does.
func TestEvalOp(t *testing.T) {
	g := parse(t, chain)
	x := ir.NewTensor(ir.F32, []int{8, 4}, slices.Repeat([]float32{2}, 32))
	y, err := EvalOp(g, &g.Ops[2], []*ir.Tensor{x})
	if err != nil || !slices.Equal(y.Shape, []int{8, 4}) || ir.Data[float32](y)[31] != -2 {
		t.Errorf("neg of 2 is %v (%v)", y, err)
	}
}

func checkError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestInputErrors(t *testing.T) {
	e, err := New(parse(t, chain))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   []*ir.Tensor
		says []string
	}{
		{nil, []string{"takes 1 inputs, got 0"}},
		{[]*ir.Tensor{nil}, []string{`"x"`, "missing"}},
		{[]*ir.Tensor{ir.Zeros(ir.I8, 4, 8)}, []string{`"x"`, "i8", "f32"}},
		{[]*ir.Tensor{ir.Zeros(ir.F32, 8, 4)}, []string{`"x"`, "[8 4]", "[4 8]"}},
	} {
		_, err := e.Run(context.Background(), c.in, Options{})
		checkError(t, err, c.says...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Run(ctx, []*ir.Tensor{ir.Zeros(ir.F32, 4, 8)}, Options{}); err != context.Canceled {
		t.Errorf("cancelled run gives %v", err)
	}
}

// TestOperatorErrors checks what New and Run refuse, by the operator's name.
func TestOperatorErrors(t *testing.T) {
	for _, c := range []struct{ op, says string }{
		{`%1 = const "i" : i64[1] {3}
  %2 = gather %0, %1 {axis=0} : i32[1] @ "bad"`, `gather "bad": index 3`},
		{`%1 = const "z" : i32[3] {1, 0, 1}
  %2 = div %0, %1 : i32[3] @ "bad"`, `div "bad": integer division by zero`},
		{`%1 = cast %0 : f64[3]
  %2 = lrn %1 {axis=0, size=1, alpha=1, beta=1, bias=1} : f64[3] @ "bad"`, `lrn "bad": f64 arithmetic`},
		{`%1 = const "i" : i64[1] {-4}
  %2 = gatherelements %0, %1 {axis=0} : i32[1] @ "bad"`, `gatherelements "bad": index -4`},
		{`%1 = const "z" : i32[3] {1, 0, 1}
  %2 = mod %0, %1 : i32[3] @ "bad"`, `mod "bad": integer division by zero`},
		{`%1 = reshape %0 {shape=[1,3,1,1]} : i32[1,3,1,1]
  %2 = avgpool %1 {kernel=[1,1]} : i32[1,3,1,1] @ "bad"`, `avgpool "bad": has no meaning on plain i32`},
		{`%1 = reinterpret %0 : i32[3] scale=1e9 zero=0
  %2 = requantize %1 : i8[3] scale=1e-9 zero=0 @ "bad"`, `requantize "bad": fixed: multiplier`},
	} {
		g := parse(t, "graph \"\" {\n  %0 = const \"x\" : i32[3] {1, 2, 3}\n  "+c.op+"\n  output %2\n}")
		e, err := New(g)
		if err == nil {
			_, err = e.Run(context.Background(), nil, Options{})
		}
		checkError(t, err, c.says)
	}
}

// TestConcurrentRuns checks that one evaluator serves several goroutines, the
// first of which packs the weights.
func TestConcurrentRuns(t *testing.T) {
	g := parse(t, `graph "" {
  %0 = input "x" : f32[1,4,4,1]
  %1 = const "w" : f32[1,2,2,1] {1, 2, 3, 4}
  %2 = conv2d %0, %1 {} : f32[1,3,3,1]
  output %2
}`)
	e, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			x := ir.NewTensor(ir.F32, []int{1, 4, 4, 1}, slices.Repeat([]float32{float32(i)}, 16))
			y, err := e.Run(context.Background(), []*ir.Tensor{x}, Options{})
			if err != nil || !slices.Equal(ir.Data[float32](y[0]), slices.Repeat([]float32{float32(10 * i)}, 9)) {
				t.Errorf("run %d gives %v (%v)", i, y, err)
			}
		})
	}
	wg.Wait()
}

// TestObserve checks that every input and result is seen once, in order.
func TestObserve(t *testing.T) {
	g := parse(t, chain)
	var ids []ir.ValueID
	run(t, g, []*ir.Tensor{ir.Zeros(ir.F32, 4, 8)}, Options{Observe: func(id ir.ValueID, v *ir.Tensor) {
		ids = append(ids, id)
		if want := g.Type(id); !want.Equal(v.Type()) {
			t.Errorf("value %d observed as %v, want %v", id, v.Type(), want)
		}
	}})
	if d := cmp.Diff([]ir.ValueID{0, 1, 2, 3, 4, 5}, ids); d != "" {
		t.Error(d)
	}
}
