package passes

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

// stack joins tensors along dimension 0.
func stack(t interface{ Fatalf(string, ...any) }, ts []*ir.Tensor) *ir.Tensor {
	shape := append([]int{len(ts)}, ts[0].Shape[1:]...)
	out := ir.Zeros(ts[0].DType, shape...)
	var b []byte
	for _, x := range ts {
		b = append(b, bits(t, x)...)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, out.Any()); err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// bits returns the elements of a tensor, little-endian.
func bits(t interface{ Fatalf(string, ...any) }, x *ir.Tensor) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, x.Any())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

// TestBatchIsEachEntry runs random graphs, in floating and in fixed point, on a
// batch and on each of its entries.
func TestBatchIsEachEntry(t *testing.T) {
	ran, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{MaxOps: 4})
		n := rapid.IntRange(1, 4).Draw(t, "n")
		entries := make([][]*ir.Tensor, n)
		for i := range entries {
			entries[i] = irtest.Inputs(t, g)
		}
		if g.Type(g.Inputs[0]).Shape[0] != 1 {
			if _, err := Batch(g, n); err == nil {
				t.Fatalf("batched a graph of inputs %v", g.Type(g.Inputs[0]).Shape)
			}
			return
		}
		if rapid.Bool().Draw(t, "fixed") {
			r, err := RunContext(context.Background(), g, Config{Quant: Quantisation{WeightBits: 8, Inputs: entries[:1]}})
			if err != nil {
				t.Fatalf("%v", err)
			}
			g = r.Graph
		}
		b, err := Batch(g, n)
		if err != nil {
			refused++
			return
		}
		ran++
		var in []*ir.Tensor
		for k := range g.Inputs {
			var ts []*ir.Tensor
			for i := range entries {
				ts = append(ts, entries[i][k])
			}
			in = append(in, stack(t, ts))
		}
		got := runGraph(t, b, in)
		want := make([][]*ir.Tensor, len(got))
		for i := range entries {
			for k, x := range runGraph(t, g, entries[i]) {
				want[k] = append(want[k], x)
			}
		}
		for k := range got {
			if w := stack(t, want[k]); !bytes.Equal(bits(t, got[k]), bits(t, w)) {
				t.Fatalf("output %d of a batch of %d differs\n%v", k, n, b)
			}
		}
	})
	t.Logf("%d graphs ran, %d cannot take a batch", ran, refused)
	least := 20
	if testing.Short() { // a fifth of the trials
		least = 1
	}
	if ran < least {
		t.Errorf("only %d graphs ran", ran)
	}
}

func TestBatchRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"transpose", `graph "g" { %0 = input "x" : f32[1,3] %1 = transpose %0 {perm=[1,0]} : f32[3,1] output %1 }`, "its result has shape [3 1]"},
		{"softmax", `graph "g" { %0 = input "x" : f32[1,3] %1 = softmax %0 {axis=0} : f32[1,3] output %1 }`, "works along dimension 0"},
		{"reshape", `graph "g" { %0 = input "x" : f32[1,3] %1 = reshape %0 {shape=[3]} : f32[3] output %1 }`, "its result has shape [3]"},
		{"concat", `graph "g" { %0 = input "x" : f32[1,3] %1 = const "c" : f32[1,1] {1} %2 = concat %0, %1 {axis=1} : f32[1,4] output %2 }`, "not all of its operands"},
		{"rank", `graph "g" { %0 = input "x" : f32[1] %1 = const "c" : f32[1,1] {1} %2 = add %0, %1 : f32[1,1] output %2 }`, "operand 0 has rank 1"},
		{"two inputs", `graph "g" { %0 = input "x" : f32[2,3] %1 = relu %0 : f32[2,3] output %1 }`, "needs dimension 0 to be 1"},
		{"constant", `graph "g" { %0 = input "x" : f32[1,3] %1 = const "c" : f32[1] {1} %2 = relu %1 : f32[1] output %2 }`, "does not depend on the input"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := ir.Parse(strings.NewReplacer(" %", "\n%", " output", "\noutput", " }", "\n}").Replace(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Batch(g, 4); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	g := &ir.Graph{}
	if _, err := Batch(g, 0); err == nil {
		t.Error("accepted a batch of 0")
	}
}

// TestRebatch makes a batch of another: it is that of the single inputs.
func TestRebatch(t *testing.T) {
	g, err := irtest.ResNet18(32)
	if err != nil {
		t.Fatal(err)
	}
	six, err := Batch(g, 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 4, 7} {
		want, err := Batch(g, n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Rebatch(six, 6, n)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("a batch of 6 made one of %d is not that", n)
		}
	}
	if _, err := Rebatch(six, 5, 2); err == nil || !strings.Contains(err.Error(), "dimension 0 to be 5") {
		t.Errorf("a batch of 6 taken for one of 5: %v", err)
	}
}
