package ir_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

func TestTable(t *testing.T) {
	for _, k := range ir.Kinds() {
		o := ir.Info(k)
		if o.Name == "" || o.Doc == "" || len(o.Operands) == 0 {
			t.Errorf("operator %d (%q): its row lacks name, meaning or operands", k, o.Name)
		}
		if got, ok := ir.ParseOpKind(o.Name); !ok || got != k {
			t.Errorf("ParseOpKind(%q) = %v, %v", o.Name, got, ok)
		}
		if o.Is(ir.MovesCodes) && !o.Is(ir.FixedPoint) || o.Is(ir.FloatOnly) && o.Is(ir.FixedPoint) {
			t.Errorf("%s: classes %v contradict each other", k, o.Flags)
		}
		if o.Attr == nil {
			continue
		}
		v := reflect.TypeOf(o.Attr)
		if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
			t.Errorf("%s: attributes are %v, want a pointer to a struct", k, v)
			continue
		}
		for i := range v.Elem().NumField() {
			if f := v.Elem().Field(i); f.Tag.Get("ir") == "" {
				t.Errorf("%s: attribute %s has no ir tag", k, f.Name)
			}
		}
	}
	if ir.OpKind(255).String() != "op(255)" || ir.Info(255).Name != "invalid" {
		t.Error("an unknown kind is not reported as such")
	}
}

func TestReference(t *testing.T) {
	var b strings.Builder
	if err := ir.Reference(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "reference.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("differs from %s (-want +got; go test -update rewrites it):\n%s", path, diff)
	}
}

// TestInferAgreesWithVerify checks inference against the text goldens: what the
// rules infer is what the files state, wherever the type need not be stated.
func TestInferAgreesWithVerify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{Plain: true})
		for i := range g.Ops {
			got, err := ir.InferType(g, &g.Ops[i])
			if err != nil || !got.Equal(g.Type(g.Ops[i].Out)) {
				t.Fatalf("op %d: inferred %v (error %v) in\n%v", i, got, err, g)
			}
		}
	})
}

// TestWindow counts window positions by walking, against the shape rule.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		n, k, s, d := draw("n", 1, 12), draw("kernel", 1, 5), draw("stride", 1, 4), draw("dilation", 1, 3)
		begin, end := draw("begin", 0, 6), draw("end", 0, 6)
		want, empty := 0, false
		for at := -begin; at+d*(k-1) < n+end; at += s {
			want++
			inside := false
			for i := range k {
				p := at + i*d
				inside = inside || p >= 0 && p < n
			}
			empty = empty || !inside
		}
		g := &ir.Graph{}
		x := g.AddInput("x", ir.TypeOf(ir.F32, 1, n, 1, 1))
		w := g.AddInput("w", ir.TypeOf(ir.F32, 1, k, 1, 1))
		c, err := g.Add(ir.Conv2D, "c", &ir.ConvAttr{
			Strides: [2]int{s, 1}, Dilations: [2]int{d, 1}, Pads: [4]int{begin, 0, end, 0}, Groups: 1}, x, w)
		if (err == nil) != (want > 0) || err == nil && g.Type(c).Shape[1] != want {
			t.Fatalf("conv2d: %v, error %v, want %d positions", g, err, want)
		}
		p, err := g.Add(ir.MaxPool, "p", &ir.PoolAttr{
			Kernel: [2]int{k, 1}, Strides: [2]int{s, 1}, Dilations: [2]int{d, 1}, Pads: [4]int{begin, 0, end, 0}}, x)
		if (err == nil) != (want > 0 && !empty) || err == nil && g.Type(p).Shape[1] != want {
			t.Fatalf("maxpool: %v, error %v, want %d positions, one empty: %v", g, err, want, empty)
		}
	})
}

// TestAddErrors covers what the textual form cannot express.
func TestAddErrors(t *testing.T) {
	g := &ir.Graph{}
	x := g.AddInput("x", ir.TypeOf(ir.F32, 2, 2))
	q := g.AddInput("q", ir.Type{DType: ir.I8, Shape: []int{2, 2}, Quant: ir.PerTensor(1, 0)})
	for _, test := range []struct {
		kind ir.OpKind
		attr ir.Attr
		in   []ir.ValueID
		want string
	}{
		{ir.OpInvalid, nil, nil, `invalid "n": no such operator`},
		{ir.OpKind(200), nil, nil, `op(200) "n": no such operator`},
		{ir.Relu, nil, []ir.ValueID{7}, `relu "n": operand 0 is no value of the graph (%7)`},
		{ir.Relu, nil, []ir.ValueID{-5}, `relu "n": operand 0 is no value of the graph (%-5)`},
		{ir.Relu, nil, []ir.ValueID{ir.NoValue}, `relu "n": operand 0 is missing`},
		{ir.Relu, &ir.Act{}, []ir.ValueID{x}, `relu "n": takes no attributes, got *ir.Act`},
		{ir.Clip, nil, []ir.ValueID{x}, `clip "n": needs attributes of type *ir.ClipAttr`},
		{ir.Clip, (*ir.ClipAttr)(nil), []ir.ValueID{x}, `clip "n": needs attributes of type *ir.ClipAttr`},
		{ir.Clip, ir.ClipAttr{}, []ir.ValueID{x}, `clip "n": attributes are of type ir.ClipAttr, want *ir.ClipAttr`},
		{ir.Clip, 7, []ir.ValueID{x}, `clip "n": attributes are of type int, want *ir.ClipAttr`},
		{ir.Pad, &ir.PadAttr{Begin: []int{0, 0}, End: []int{0, 0}, Mode: 9}, []ir.ValueID{x}, `pad "n": mode 9 does not exist`},
		{ir.Quantize, nil, []ir.ValueID{x}, `quantize "n": its result type does not follow from the operands: state it (Graph.AddTyped)`},
		{ir.Add, nil, []ir.ValueID{q, q}, `add "n": its operands are quantised: state the result type (Graph.AddTyped)`},
	} {
		_, err := g.Add(test.kind, "n", test.attr, test.in...)
		if err == nil || err.Error() != test.want {
			t.Errorf("Add(%v, %v, %v): error %v, want %s", test.kind, test.attr, test.in, err, test.want)
		}
	}
	if _, err := g.AddTyped(ir.Relu, "n", nil, ir.TypeOf(ir.Invalid, 2, 2), x); err == nil {
		t.Error("a result without element type was accepted")
	}
	id, err := g.Add(ir.Add, "n", nil, x, x)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := g.DefOp(id).Attr.(*ir.BinaryAttr); !ok {
		t.Errorf("Add did not fill in default attributes, but %T", g.DefOp(id).Attr)
	}
}

// TestVerifyStructure breaks a sound graph in ways that the textual form cannot
// express.
func TestVerifyStructure(t *testing.T) {
	build := func() *ir.Graph {
		g := &ir.Graph{Name: "g"}
		x := g.AddInput("x", ir.TypeOf(ir.F32, 2))
		c := g.AddConst("c", ir.Zeros(ir.F32, 2), nil)
		y, err := g.Add(ir.Add, "a", nil, x, c)
		if err != nil {
			t.Fatal(err)
		}
		z, err := g.Add(ir.Relu, "r", nil, y)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{z}
		return g
	}
	if err := ir.Verify(build()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(g *ir.Graph)
		want  string
	}{
		{"input out of range", func(g *ir.Graph) { g.Inputs = append(g.Inputs, 9) }, "input %9: is no value of the graph"},
		{"input twice", func(g *ir.Graph) { g.Inputs = append(g.Inputs, 0) }, `input %0 "x": is listed twice`},
		{"input is constant", func(g *ir.Graph) { g.Inputs = append(g.Inputs, 1) }, `input %1 "c": is a constant, too`},
		{"input has operator", func(g *ir.Graph) { g.Values[0].Def = 1 }, `input %0 "x": says that operator 1 defines it`},
		{"constant has operator", func(g *ir.Graph) { g.Values[1].Def = 0 }, `const %1 "c": says that operator 0 defines it`},
		{"tensor shape", func(g *ir.Graph) { g.Values[1].Const = ir.Zeros(ir.F32, 3) }, `const %1 "c": its tensor is f32[3], its type is f32[2]`},
		{"tensor type", func(g *ir.Graph) { g.Values[1].Const = ir.Zeros(ir.I8, 2) }, `const %1 "c": its tensor is i8[2], its type is f32[2]`},
		{"tensor data", func(g *ir.Graph) {
			c := ir.Zeros(ir.F32, 3)
			c.Shape = []int{2}
			g.Values[1].Const = c
		}, `const %1 "c": its tensor holds 3 elements, its shape has 2`},
		{"tensor without data", func(g *ir.Graph) { g.Values[1].Const = &ir.Tensor{DType: ir.F32, Shape: []int{2}} }, `const %1 "c": its tensor holds <nil>, f32 is held as []float32`},
		{"operand out of range", func(g *ir.Graph) { g.Ops[1].In[0] = 44 }, `%3 = relu "r" (%44): operand 0, %44, is no value of the graph`},
		{"operand negative", func(g *ir.Graph) { g.Ops[1].In[0] = -7 }, `%3 = relu "r" (%-7): operand 0, %-7, is no value of the graph`},
		{"result out of range", func(g *ir.Graph) { g.Ops[1].Out = 44 }, `%44 = relu "r" (%2): result %44 is no value of the graph`},
		{"result is constant", func(g *ir.Graph) { g.Ops[1].Out = 1 }, `%1 = relu "r" (%2): result %1 is defined already`},
		{"wrong operator index", func(g *ir.Graph) { g.Values[3].Def = 0 }, `%3 = relu "r" (%2): is operator 1, but its result says that operator 0 defines it`},
		{"nobody defines", func(g *ir.Graph) { g.Values = append(g.Values, ir.Value{Name: "lost", Def: -1}) }, `%4 "lost": is not an input, a constant or the result of an operator`},
		{"output out of range", func(g *ir.Graph) { g.Outputs[0] = 99 }, "output %99: is no value of the graph"},
		{"no output value", func(g *ir.Graph) { g.Outputs[0] = ir.NoValue }, "output _: is no value of the graph"},
		{"attribute type", func(g *ir.Graph) { g.Ops[0].Attr = nil }, `%2 = add "a" (%0, %1): needs attributes of type *ir.BinaryAttr`},
		{"unknown kind", func(g *ir.Graph) { g.Ops[0].Kind = 99 }, `%2 = op(99) "a" (%0, %1): no such operator`},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := build()
			test.spoil(g)
			err := ir.Verify(g)
			if err == nil || !strings.Contains("\n"+err.Error()+"\n", "\n"+test.want+"\n") {
				t.Errorf("violations:\n%v\nwant among them:\n%s", err, test.want)
			}
			if !strings.HasPrefix(g.String(), "graph \"g\" {\n") { // printing must not fail
				t.Errorf("printed form:\n%v", g)
			}
		})
	}
}

func TestEqual(t *testing.T) {
	build := func(change func(g *ir.Graph)) *ir.Graph {
		g := &ir.Graph{Name: "g"}
		x := g.AddInput("x", ir.Type{DType: ir.I8, Shape: []int{2, 1}, Quant: &ir.Quant{Scale: []float32{1, 2}, Zero: []int32{0, 1}, Axis: 0}})
		c := g.AddConst("c", ir.NewTensor(ir.F32, []int{2}, []float32{float32(math.NaN()), 0}), nil)
		y, err := g.Add(ir.Reshape, "r", &ir.ShapeAttr{Shape: []int{2}}, x)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []ir.ValueID{y, c}
		change(g)
		return g
	}
	g := build(func(*ir.Graph) {})
	if !ir.Equal(g, build(func(*ir.Graph) {})) {
		t.Fatal("a graph differs from its like")
	}
	for name, change := range map[string]func(g *ir.Graph){
		"name":        func(g *ir.Graph) { g.Name = "h" },
		"value name":  func(g *ir.Graph) { g.Values[2].Name = "s" },
		"op name":     func(g *ir.Graph) { g.Ops[0].Name = "s" },
		"scale":       func(g *ir.Graph) { g.Values[0].Type.Quant.Scale[1] = 3 },
		"zero":        func(g *ir.Graph) { g.Values[0].Type.Quant.Zero[1] = 3 },
		"no quant":    func(g *ir.Graph) { g.Values[0].Type.Quant = nil },
		"dtype":       func(g *ir.Graph) { g.Values[0].Type.DType = ir.U8 },
		"shape":       func(g *ir.Graph) { g.Values[0].Type.Shape[1] = 2 },
		"minus zero":  func(g *ir.Graph) { ir.Data[float32](g.Values[1].Const)[1] = float32(math.Copysign(0, -1)) },
		"no constant": func(g *ir.Graph) { g.Values[1].Const = nil },
		"attribute":   func(g *ir.Graph) { g.Ops[0].Attr.(*ir.ShapeAttr).Shape[0] = 3 },
		"attr type":   func(g *ir.Graph) { g.Ops[0].Attr = &ir.PermAttr{} },
		"kind":        func(g *ir.Graph) { g.Ops[0].Kind = ir.Expand },
		"operand":     func(g *ir.Graph) { g.Ops[0].In[0] = 1 },
		"outputs":     func(g *ir.Graph) { g.Outputs = g.Outputs[:1] },
		"inputs":      func(g *ir.Graph) { g.Inputs = nil },
	} {
		if ir.Equal(g, build(change)) {
			t.Errorf("%s: a changed graph counts as equal", name)
		}
	}
}
