package kernel

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	i8     = Codes{1, true}
	u8     = Codes{1, false}
	window = Window{N: 1, H: 5, W: 6, C: 8, OH: 5, OW: 6, Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Pad: [2]int{1, 1}}
	flat   = NewNest([]int{4, 6}, []int{0, 0, 0}, []int{6, 1}, []int{6, 1}, []int{0, 1})
	codes8 = Range{Lo: -128, Hi: 127}
	half   = Scale{M: 1 << 30, Shift: 31}
	chain  = Chain{{Kind: Lookup, In: i8, Out: u8}, {Kind: Combine, Arith: Arith{A: u8, B: i8, MA: 3, MB: 5, Shift: 4, Out: codes8}}, {Kind: Rescale, Scale: half, Range: codes8}}
	small4 = Tile{WarpsM: 2, WarpsN: 2, M16: 1, N8: 2, Stages: 2}
	matmul = MatMul{Batch: NewNest([]int{2}, []int{0, 0, 0}, []int{96}, []int{80}, []int{120}), M: 8, K: 10, N: 12, A: u8, B: i8, ZA: 3, ZB: -4, Out: Epilogue{Range: codes8},
		PitchA: 10, PitchB: 12, PitchY: 12, BytesA: 160, BytesB: 240}
	columns = MatMul{Batch: NewNest([]int{2}, []int{0, 0, 0}, []int{96}, []int{80}, []int{120}), M: 8, K: 10, N: 12, A: u8, B: i8, ZA: 3, Out: Epilogue{Range: codes8, Same: true, Scale: half},
		PitchA: 10, PitchB: 10, PitchY: 12, Turned: true, BytesA: 160, BytesB: 240}
)

// samples has a Spec of every generator.
var samples = []Spec{
	Binary{Nest: flat, Arith: Arith{A: i8, B: u8, MA: 1, MB: 2, Shift: 3, Out: codes8}, Then: chain},
	Binary{Nest: flat, Arith: Arith{A: i8, B: u8, Mul: true, Scale: half, Out: codes8}},
	Table{Nest: NewNest([]int{24}, []int{0, 0}, []int{1}, []int{1}), In: i8, Out: u8, Then: chain},
	Requantize{N: 24, In: Codes{4, true}, Out: i8, Channels: Channels(4, 6), Range: codes8},
	Quantize{N: 24, Out: i8, Channels: Channels(1, 1), Scale: 0.1, Range: codes8},
	Dequantize{N: 24, In: Codes{4, true}, Channels: Channels(4, 6)},
	Copy{Nest: NewNest([]int{4, 6}, []int{0, 0}, []int{6, 1}, []int{1, 4}), Elem: 1},
	Pad{Elem: 1, Shape: []int{3, 4}, Begin: []int{1, 0}, End: []int{0, 2}, Value: 7},
	Pad{Elem: 4, Shape: []int{3, 4}, Begin: []int{1, 0}, End: []int{0, 2}, Mode: PadReflect},
	Gather{Elem: 1, Outer: 2, Axis: 5, Inner: 12, Count: 3, IndexBytes: 8},
	Gather{Elem: 1, Outer: 2, Axis: 5, Inner: 12, Count: 3, IndexBytes: 4, Checked: true},
	Pool{Window: window, Codes: i8, Range: codes8},
	Pool{Window: window, Codes: u8, Mean: true, Varies: true, Count: [4]int{0, 5, 0, 6}, Range: codes8},
	Reduce{Op: Sum, Kept: NewNest([]int{4}, []int{0}, []int{70}), Over: NewNest([]int{70}, []int{0}, []int{1}), Codes: i8, Scale: half, Range: codes8},
	Reduce{Op: Max, Kept: NewNest([]int{4}, []int{0}, []int{1}), Over: NewNest([]int{6}, []int{0}, []int{4}), Codes: i8, Range: codes8},
	Softmax{Rows: 3, N: 40, In: i8, C: 1 << 22, Range: Range{Hi: 255}, Warps: 1},
	MulAdd{Nest: NewNest([]int{4, 6}, make([]int, 5), []int{6, 1}, []int{6, 1}, []int{0, 1}, []int{1, 0}, []int{6, 1}), In: [4]Codes{i8, u8, i8, u8}, MAB: 1 << 29, MCD: -3, Shift: 40, Range: codes8},
	Norm{Rows: 3, N: 40, In: i8, OutSigned: true, Zero: -3, Eps: 1 << 20, Shift: 45, Range: Range{Zero: 128, Hi: 255}, Warps: 2},
	Conv{Window: window, O: 6, Groups: 2, X: i8, Out: Epilogue{Range: codes8, Then: chain}},
	Conv{Window: window, O: 6, Groups: 1, X: u8, Out: Epilogue{Sums: true}, ZeroPoints: true},
	Conv{Window: window, O: 6, Groups: 1, X: u8, Out: Epilogue{Sums: true}, Form: Form{Nibbles: true, Blocks: true}},
	Depthwise{Window: window, X: i8, Out: Epilogue{Range: codes8, High: true}},
	Depthwise{Window: window, X: i8, Out: Epilogue{Range: codes8}, Form: Form{Blocks: true}},
	ConvTensor{Window: window, O: 16, Groups: 1, X: i8, Out: Epilogue{Range: codes8, Then: chain}, Tile: small4},
	ConvTensor{Window: window, O: 16, Groups: 1, X: i8, Out: Epilogue{Range: codes8}, Form: Form{Nibbles: true, Blocks: true}, Tile: small4},
	matmul,
	MatMulTensor{MatMul: matmul, Tile: small4},
	MatMulTensor{MatMul: columns, Tile: small4},
	MatMulFew{MatMul: matmul, Warps: 2, Wide: 4},
	MatMulFew{MatMul: columns, Warps: 4, Groups: 2},
	Cast{N: 24, From: Number{Bytes: 8, Signed: true}, To: Number{Bytes: 4, Float: true}},
	IntBinary{Nest: flat, Op: IntMul, Type: Number{Bytes: 8, Signed: true}},
	IntReduce{Op: Max, Kept: NewNest([]int{4}, []int{0}, []int{6}), Over: NewNest([]int{6}, []int{0}, []int{1}), Type: Number{Bytes: 2}},
	Compare{Nest: flat, Op: Less, Type: Number{Bytes: 4, Float: true}},
	Select{Nest: NewNest([]int{24}, []int{0, 0, 0, 0}, []int{1}, []int{0}, []int{1}, []int{1}), Elem: 8},
	FloatMatMul{Batch: NewNest([]int{2}, []int{0, 0, 0}, []int{96}, []int{80}, []int{0}), M: 8, K: 10, N: 12, Bias: true, Hi: 6},
	FloatConv{Window: window, O: 6, Groups: 2, Narrow: true, Hi: 6},
	Unary{N: 24, Fn: Tanh},
	Unary{N: 24, Fn: Round},
	FloatBinary{Nest: flat, Op: FloatMax, Hi: 6},
	FloatReduce{Op: Sum, Kept: NewNest([]int{4}, []int{0}, []int{6}), Over: NewNest([]int{6}, []int{0}, []int{1}), Mean: true},
	LRN{Outer: 2, N: 5, Inner: 3, Size: 5, Alpha: 1e-4, Beta: 0.75, Bias: 1},
	FloatSoftmax{Outer: 2, N: 5, Inner: 3, Log: true},
}

// TestSamples generates every kind of kernel into one module: each is there with
// its parameters, once, and llc takes them all.
func TestSamples(t *testing.T) {
	m := NewModule("samples")
	var names []string
	for _, s := range samples {
		name := m.Add(s)
		if slices.Contains(names, name) {
			t.Errorf("%s: two kernels of that name", name)
		}
		names = append(names, name)
		if again := m.Add(s); again != name {
			t.Errorf("%s: the same kernel again is %s", name, again)
		}
		if l := s.Launch(); l.Threads() < 32 || l.Threads() > 1024 || l.Threads()%32 != 0 || l.Grid[0] < 1 || l.Grid[1] < 1 {
			t.Errorf("%s: launch %+v", name, l)
		}
	}
	text := m.String()
	for i, s := range samples {
		var params []string
		for _, p := range s.Params() {
			access := " readonly"
			if p == "y" {
				access = ""
			}
			params = append(params, fmt.Sprintf("i8 addrspace(1)* noalias align 16%s %%%s", access, p))
		}
		if want := fmt.Sprintf("define void @%s(%s) {", names[i], strings.Join(params, ", ")); !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
		if want := fmt.Sprintf("@%s, !\"kernel\", i32 1}", names[i]); !strings.Contains(text, want) {
			t.Errorf("%s is not marked as a kernel", names[i])
		}
	}
	llc, err := exec.LookPath("llc")
	if err != nil {
		t.Skip("llc is not installed: apt-get install llvm")
	}
	cmd := exec.Command(llc, "-march=nvptx64", "-mcpu=sm_80", "-o", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), ".extern .func") {
		t.Errorf("llc: %v\n%.2000s", err, out)
	}
}

// TestNest: merging dimensions and grouping elements visits the same places.
func TestNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "dims")
		dense := RowMajor(dims)
		other := slices.Clone(dense)
		for i := range other {
			other[i] *= rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "factor")
		}
		base := []int{rapid.IntRange(0, 2).Draw(t, "base") * 4, 8}
		want := places(Nest{Dims: dims, Base: base, Stride: [][]int{dense, other}}, 1)
		n := NewNest(dims, base, dense, other)
		if got := places(n, 1); !slices.Equal(got, want) {
			t.Fatalf("merged %+v visits %v, want %v", n, got, want)
		}
		if g, ok := n.grouped(4); ok {
			if got := places(g, 4); !slices.Equal(got, want) {
				t.Fatalf("grouped %+v visits %v, want %v", g, got, want)
			}
		}
	})
}

// places lists where the elements of a nest over groups lie, for two operands.
func places(n Nest, group int) []int {
	var out []int
	last := len(n.Dims) - 1
	for i := range n.Size() {
		at := slices.Clone(n.Base)
		for d := last; d >= 0; d-- {
			c := i % n.Dims[d]
			i /= n.Dims[d]
			at[0] += c * n.Stride[0][d]
			at[1] += c * n.Stride[1][d]
		}
		for j := range group {
			moves := min(1, n.Stride[1][last])
			if group == 1 {
				moves = 0
			}
			out = append(out, at[0]+j, at[1]+j*moves)
		}
	}
	return out
}

// TestWindowCounts: the taps inside an image, by position.
func TestWindowCounts(t *testing.T) {
	if got := window.Counts(0, 0, 5); !slices.Equal(got, []int{2, 3, 3, 3, 2}) {
		t.Errorf("rows %v", got)
	}
	if !window.checked(0) || (Window{H: 4, OH: 2, Kernel: [2]int{2, 1}, Stride: [2]int{2, 1}, Dilation: [2]int{1, 1}}).checked(0) {
		t.Error("checked is wrong")
	}
}
