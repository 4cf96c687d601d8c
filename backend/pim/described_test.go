package pim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator"
	"situ/ir"
)

// chainOf is three products in a row with weights of a type, stored or described.
func chainOf(t *testing.T, d ir.DType, sizes []int, described bool) *ir.Graph {
	t.Helper()
	g := &ir.Graph{Name: "chain"}
	code := func(n int) ir.Type { return ir.TypeOf(ir.I8, 4, n).WithQuant(ir.PerTensor(0.05, 3)) }
	x := g.AddInput("x", code(sizes[0]))
	for i, n := range sizes[1:] {
		shape := []int{sizes[i], n}
		w := ir.Describe(d, 1, shape...)
		if !described {
			w = ir.Zeros(d, shape...)
			lo, hi := d.IntRange()
			codes, r := ir.Data[int8](w), rand.New(rand.NewPCG(1, uint64(i)))
			for k := range codes {
				codes[k] = int8(r.Int64N(hi-lo+1) + lo)
			}
		}
		q := &ir.Quant{Axis: 1, Scale: slices.Repeat([]float32{0.01}, n), Zero: make([]int32, n)}
		var err error
		if x, err = g.AddTyped(ir.MatMul, "m", nil, code(n), x, g.AddConst("w", w, q)); err != nil {
			t.Fatal(err)
		}
	}
	g.Outputs = []ir.ValueID{x}
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDescribed compiles a graph with weights that are described and the same with
// weights that are stored: instructions, addresses, time and energy must be the
// same, resident and streamed; only the elements are missing.
func TestDescribed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		chip  *arch.Chip
		dtype ir.DType
		sizes []int
	}{
		{"resident", manyChip(), ir.I8, []int{100, 200, 60, 10}},
		{"4 bits", manyChip(), ir.I4, []int{100, 200, 60, 10}},
		{"streamed", tinyChip(), ir.I8, []int{100, 200, 60, 10}},
		{"a die of corsair", preset(t, "corsair-chiplet"), ir.I4, []int{1024, 4096, 1024}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var programs [2]*isa.Program
			var reports [2]*emulator.Report
			for i := range programs {
				p, err := Compile(chainOf(t, tt.dtype, tt.sizes, i == 1), tt.chip, Options{})
				if err != nil {
					t.Fatal(err)
				}
				m, err := emulator.Load(p, tt.chip)
				if err != nil {
					t.Fatal(err)
				}
				r, _, err := m.Run(context.Background(), nil, emulator.Options{Mode: emulator.Timing})
				if err != nil {
					t.Fatal(err)
				}
				programs[i], reports[i] = p, r
			}
			stored, described := programs[0], programs[1]
			if d := cmp.Diff(stored, described, cmpopts.IgnoreFields(isa.Program{}, "Consts", "DescribedBytes")); d != "" {
				t.Errorf("other programs (-stored +described):\n%s", d)
			}
			if d := cmp.Diff(reports[0], reports[1], cmpopts.IgnoreFields(emulator.Report{}, "Host")); d != "" {
				t.Errorf("other reports (-stored +described):\n%s", d)
			}
			if described.ConstBytes() != int64(len(stored.Consts)) || described.DescribedBytes < described.WeightBytes/2 {
				t.Errorf("%d bytes stored and %d described, want %d in all", len(described.Consts), described.DescribedBytes, len(stored.Consts))
			}
			b, err := isa.Encode(described)
			if err != nil {
				t.Fatal(err)
			}
			again, err := isa.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if again.DescribedBytes != described.DescribedBytes {
				t.Errorf("a file holds %d described bytes, want %d", again.DescribedBytes, described.DescribedBytes)
			}
			m, err := emulator.Load(again, tt.chip)
			if err != nil {
				t.Fatal(err)
			}
			x := make([]byte, 4*tt.sizes[0])
			if _, _, err := m.Run(context.Background(), [][]byte{x}, emulator.Options{}); err == nil || !strings.Contains(err.Error(), "described") {
				t.Errorf("running without weights gives %v", err)
			}
		})
	}
}
