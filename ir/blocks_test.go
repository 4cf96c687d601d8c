package ir_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"situ/ir"
	"situ/ir/eval"
)

const blocked = `graph "blocks" {
  %0 = input "x" : i8[1,5] scale=0.5 zero=-3
  %1 = const "w" : i4[5,2] scale=[0.25, 2] zero=0 axis=1 block=2 shift=[4, 0, 1, 2, 0, 3] {7, -8, 1, 2, 3, -4, 5, 6, -7, 0}
  %2 = matmul %0, %1 : i32[1,2] @ "fc"
  output %2
}
`

// TestBlocks: blocks survive printing and parsing, are counted in the size of a
// tensor, and are those of a channel.
func TestBlocks(t *testing.T) {
	g, err := ir.Parse(blocked, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	if got := g.String(); got != blocked {
		t.Errorf("printed as\n%s", got)
	}
	if n := g.Type(1).Bytes(); n != 5+6 {
		t.Errorf("10 codes of 4 bits in 6 blocks take %d bytes, want 11", n)
	}
	one := strings.Replace(blocked, "shift=[4, 0, 1, 2, 0, 3]", "shift=3", 1)
	if h, err := ir.Parse(one, nil); err != nil || len(h.Type(1).Quant.Shift) != 6 || h.String() != one {
		t.Errorf("one shift for all: %v\n%v", err, h)
	}
	q := g.Type(1).Quant
	for _, at := range []struct{ channel, k, want int }{{0, 0, 4}, {0, 1, 4}, {0, 2, 0}, {0, 4, 1}, {1, 1, 2}, {1, 4, 3}} {
		if s := q.ShiftOf(at.channel, at.k, 5); int(s) != at.want {
			t.Errorf("shift of code %d of channel %d is %d, want %d", at.k, at.channel, s, at.want)
		}
	}
}

// TestUnblocked: weights without blocks are the same numbers; codes of 8 bits that do
// not fit are refused by name.
func TestUnblocked(t *testing.T) {
	g, err := ir.Parse(blocked, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ir.Unblocked(g.Value(1))
	if err != nil {
		t.Fatal(err)
	}
	if v.Type.DType != ir.I8 || v.Type.Quant.Block != 0 || !ir.HasBlocks(g) {
		t.Errorf("weights are %s, those of the graph in blocks %t", v.Type, ir.HasBlocks(g))
	}
	want := []int8{7 << 4, -8 << 2, 1 << 4, 2 << 2, 3, -4, 5, 6, -7 << 1, 0}
	if got := ir.Data[int8](v.Const); !slices.Equal(got, want) {
		t.Errorf("weights %v, want %v", got, want)
	}
	e, err := eval.New(g)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(context.Background(), []*ir.Tensor{ir.NewTensor(ir.I8, []int{1, 5}, []int8{9, -100, 4, 127, -3})}, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Σ (x + 3)·w by hand: 12·112 − 97·16 + 7·3 + 130·5 + 0 and 12·(−32) − 97·8 + 7·(−4) + 130·6 + 0.
	if got, want := ir.Data[int32](out[0]), []int32{463, -408}; !slices.Equal(got, want) {
		t.Errorf("sums %v, want %v", got, want)
	}

	wide := strings.Replace(blocked, "i4[5,2]", "i8[5,2]", 1)
	wide = strings.Replace(wide, "{7,", "{9,", 1) // 9 << 4 is 144
	if g, err = ir.Parse(wide, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ir.Unblocked(g.Value(1)); err == nil || !strings.Contains(err.Error(), `weights "w" come in blocks of 2`) {
		t.Errorf("error %v, want one that names the weights", err)
	}
}

// TestBlockErrors: malformed blocks are refused.
func TestBlockErrors(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"a shift of all of no channel", "scale=[0.25, 2] zero=0 axis=1 block=2 shift=[4, 0, 1, 2, 0, 3]", "scale=[0.25, 2] zero=0 axis=2 block=2 shift=1", "an axis of channels"},
		{"too few shifts", "shift=[4, 0, 1, 2, 0, 3]", "shift=[4, 0, 1]", "3 shifts for blocks of 2, want 6"},
		{"large shift", "shift=[4,", "shift=[16,", "shift 16, want 0 to 7"},
		{"zero block", "block=2", "block=0", "blocks hold at least one code"},
		{"zero point", "zero=0", "zero=1", "zero point 1 (index 0) of codes in blocks"},
		{"one scale", "scale=[0.25, 2] zero=0 axis=1", "scale=1 zero=0", "of a channel"},
		{"no shift", " shift=[4, 0, 1, 2, 0, 3]", "", `"shift"`},
	} {
		g, err := ir.Parse(strings.Replace(blocked, tt.old, tt.new, 1), nil)
		if err == nil {
			err = ir.Verify(g)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestMovedBlocks: blocks survive what keeps the order of each channel's codes.
func TestMovedBlocks(t *testing.T) {
	product := `%2 = matmul %0, %1 : i32[1,2] @ "fc"`
	for _, tt := range []struct{ name, op, want string }{
		{"turned", `%2 = transpose %1 {perm=[1,0]} : i4[2,5] scale=[0.25, 2] zero=0 axis=0 block=2 shift=[4, 0, 1, 2, 0, 3]`, ""},
		{"without blocks", `%2 = transpose %1 {perm=[1,0]} : i4[2,5] scale=[0.25, 2] zero=0 axis=0`, "result"},
		{"another shape", `%2 = reshape %1 {shape=[1,5,1,2]} : i4[1,5,1,2] scale=[0.25, 2] zero=0 axis=3 block=2 shift=[4, 0, 1, 2, 0, 3]`, ""},
		{"channels lost", `%2 = reshape %1 {shape=[10]} : i4[10]`, "do not survive"},
		{"cut", `%2 = slice %1 {starts=[0,0], sizes=[4,2], steps=[1,1]} : i4[4,2]`, "do not survive"},
	} {
		text := strings.Replace(blocked, product, tt.op, 1)
		g, err := ir.Parse(text, nil)
		if err == nil {
			err = ir.Verify(g)
		}
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	x := ir.TypeOf(ir.I8, 2, 3, 4).WithQuant(&ir.Quant{Axis: 1, Block: 4, Scale: []float32{1, 1, 1}, Zero: make([]int32, 3), Shift: make([]uint8, 6)})
	for _, perm := range [][]int{{0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}} {
		g := &ir.Graph{Name: "moved"}
		id := g.AddConst("w", ir.Zeros(ir.I8, x.Shape...), x.Quant)
		_, err := g.Add(ir.Transpose, "t", &ir.PermAttr{Perm: perm}, id)
		if kept := perm[0] != 2; (err == nil) != kept {
			t.Errorf("perm %v: error %v", perm, err)
		}
	}
}
