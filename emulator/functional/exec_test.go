package functional

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"situ/backend/pim/isa"
	"situ/emulator/internal/testchip"
)

// TestInstructions compares every instruction with its naive definition, over
// the whole of the memories.
func TestInstructions(t *testing.T) {
	chip := testchip.New(1, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	consts := make([]byte, 1<<16)
	for i := range consts {
		consts[i] = byte(rng.Uint32())
	}
	p := testchip.Program(chip, consts, 64)
	for op := isa.OpInvalid + 1; op.Known(); op++ {
		if functions[op] == nil {
			if op.Info().Unit != isa.UnitCtrl {
				t.Errorf("%s has no function", op)
			}
			continue
		}
		switch op {
		case isa.OpLoad, isa.OpStore, isa.OpSend, isa.OpLoadW, isa.OpStoreW, isa.OpLoadA:
			continue // see TestMoves and TestStoredWeights; mvm loads its weights
		}
		t.Run(op.String(), func(t *testing.T) {
			m, err := New(p, chip)
			if err != nil {
				t.Fatal(err)
			}
			c := m.clusters[0]
			for trial := range 120 {
				for i := range c.sp {
					c.sp[i] = byte(rng.Uint32())
				}
				for i := range c.acc {
					c.acc[i] = int32(rng.Uint32()) >> 8
				}
				v := &values{rng: rng, m: m}
				named := v.draw(op)
				var args []int64
				for _, o := range op.Info().Operands {
					args = append(args, named[o.Name])
				}
				want := state{slices.Clone(c.sp), slices.Clone(c.acc), consts}
				in := isa.Inst{Op: op, Args: args}
				if err := c.exec(op, args); err != nil {
					t.Fatalf("%s: %v", isa.AppendInst(nil, &in), err)
				}
				want.naive(op, args)
				if i := firstDiff(c.sp, want.sp); i >= 0 {
					t.Fatalf("trial %d: %s\nscratchpad byte %d is %d, want %d", trial, isa.AppendInst(nil, &in), i, c.sp[i], want.sp[i])
				}
				if !slices.Equal(c.acc, want.acc) {
					t.Fatalf("trial %d: %s\naccumulators differ", trial, isa.AppendInst(nil, &in))
				}
			}
		})
	}
}

func firstDiff(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestMoves runs load, send and store with strides through two clusters, with a
// loop over an address register.
func TestMoves(t *testing.T) {
	chip := testchip.New(1, 2)
	consts := []byte("0123456789abcdef")
	p := testchip.Program(chip, consts, 64)
	p.Inputs = []isa.IO{{Name: "x", DType: isa.I8, Shape: []int{4}, Addr: 16}}
	p.Outputs = []isa.IO{{Name: "y", DType: isa.U8, Shape: []int{16}, Addr: 32}, {Name: "z", DType: isa.I8, Shape: []int{4}, Addr: 48}}
	s0, s1 := &p.Main[0], &p.Main[1]
	testchip.Emit(s0, isa.OpSet, 1, 0)
	testchip.Emit(s0, isa.OpSet, 2, 0)
	testchip.Emit(s0, isa.OpLoop, 2)
	// rows of 2 bytes, 4 apart, from the constants: "01", "45", then "89", "cd"
	testchip.Emit(s0, isa.OpLoad, isa.Addr(100, 1), isa.Addr(0, 2), 1, 0, 0, 2, 2, 4, 2)
	testchip.Emit(s0, isa.OpAddi, 1, 4)
	testchip.Emit(s0, isa.OpAddi, 2, 8)
	testchip.Emit(s0, isa.OpNext)
	testchip.Emit(s0, isa.OpLoad, 200, 16, 1, 0, 0, 1, 0, 0, 4)
	testchip.Emit(s0, isa.OpSend, 300, 100, 1, 0, 0, 8, -1, 1, 1, 0, 2) // backwards
	testchip.Emit(s0, isa.OpSend, 400, 200, 1, 0, 0, 1, 0, 0, 4, 1, 1)
	testchip.Emit(s0, isa.OpBarrier, 1, 0, 2)
	testchip.Emit(s1, isa.OpFill, 280, 1, 0, 1, 0, 13, '.')
	testchip.Emit(s1, isa.OpBarrier, 1, 0, 2)
	testchip.Emit(s1, isa.OpStore, 32, 290, 1, 0, 0, 1, 0, 0, 16)
	testchip.Emit(s1, isa.OpStore, 48, 400, 1, 0, 0, 1, 0, 0, 4)
	if err := isa.Validate(p); err != nil {
		t.Fatal(err)
	}
	m, err := New(p, chip)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		out, err := m.Run(context.Background(), [][]byte{{1, 2, 0xff, 0x80}})
		if err != nil {
			t.Fatal(err)
		}
		if want := "...dc985410"; !strings.HasPrefix(string(out[0]), want) {
			t.Fatalf("output is %q, want %q", out[0], want)
		}
		if want := []byte{1, 2, 0xff, 0x80}; !bytes.Equal(out[1], want) {
			t.Fatalf("int8 codes come back as %v, want %v", out[1], want)
		}
	}
}

// TestFaults gives programs that err at run time.
func TestFaults(t *testing.T) {
	chip := testchip.New(1, 2)
	mvm := func(ws, rows, segLen, acc int64) []int64 {
		return []int64{acc, ws, 0, rows, 16, 1, 0, 1, 0, 1, 0, 1, 0, segLen, 1, 1, 1, 0, 8, 8, 0, 0, 0}
	}
	for _, c := range []struct {
		want string
		op   isa.Op
		args []int64
	}{
		{"scratchpad, which has 65536", isa.OpFill, []int64{65536, 1, 0, 1, 0, 1, 0}},
		{"scratchpad, which has 65536", isa.OpFill, []int64{0, 1 << 20, 1 << 40, 1, 0, 1, 0}},
		{"scratchpad, which has 65536", isa.OpFill, []int64{0, 1, 0, 2, -1, 1, 0}},
		{"asks for the work", isa.OpFill, []int64{0, 1 << 40, 0, 1 << 40, 0, 1, 0}},
		{"DRAM, which has", isa.OpLoad, []int64{0, 1 << 40, 1, 0, 0, 1, 0, 0, 4}},
		{"partly in the", isa.OpLoad, []int64{0, 1020, 1, 0, 0, 1, 0, 0, 8}},
		{"are constants", isa.OpStore, []int64{0, 0, 1, 0, 0, 1, 0, 0, 4}},
		{"receiving scratchpad", isa.OpSend, []int64{65535, 0, 1, 0, 0, 1, 0, 0, 2, 0, 2}},
		{"not all constants", isa.OpLoadW, []int64{0, 1024, 1, 1, 1, 1, 8, 0, 1, 0}},
		{"receiving weight SRAM", isa.OpLoadW, []int64{16384, 0, 1, 1, 1, 1, 8, 0, 1, 0}},
		{"multiple of 4", isa.OpShlAcc, []int64{2, 1, 4}},
		{"row0 = 16, an array has 16 rows", isa.OpMVM, append(mvm(0, 1, 16, 0)[:isa.MVMRow0], 16, 0)},
		{"needs 8 cores", isa.OpLoadW, []int64{0, 0, 1, 4, 1, 2, 8, 0, 1, 0}},
		{"no weights have been loaded", isa.OpMVM, mvm(0, 1, 16, 0)},
		{"weight SRAM, which has", isa.OpMVM, mvm(16384, 1, 16, 0)},
		{"accumulators, which has 16384", isa.OpMVM, mvm(0, 1, 16, 16384)},
		{"multiple of 4", isa.OpMVM, mvm(0, 1, 16, 2)},
		{"shift outside", isa.OpRequant, []int64{0, 0, 64, 1, 0, 1, 0, 4, 16, 0, 0, 255}},
		{"multiple of 4", isa.OpUnaryF, []int64{0, 0, 2, 1, 0, 0}},
		{"fn = 200", isa.OpUnaryF, []int64{200, 0, 4, 1, 0, 0}},
		{"table starts with 0", isa.OpSoftmax, []int64{0, 0, 1, 1, 64}},
		{"overlap", isa.OpLRNF, []int64{0, 4, 1, 4, 1, 1, 0, 0, 0}},
		{"above 2^24", isa.OpMaxPool, []int64{0, 0, 1 << 30, 1, 1, 0, 0, 0, 0, 1, 1, 1 << 40, 1, 1, 1, 0, 0, 1, 1}},
		{"wait for each other", isa.OpBarrier, []int64{1, 0, 2}},
		{"is not one of", isa.OpBarrier, []int64{1, 1, 1}},
		{"is -5", isa.OpFill, []int64{isa.Addr(0, 1), 1, 0, 1, 0, 1, 0}},
	} {
		p := testchip.Program(chip, make([]byte, 1024), 1024)
		p.Layers = []isa.Layer{{Name: "conv1"}}
		testchip.Emit(&p.Main[0], isa.OpSet, 1, -5)
		testchip.EmitLayer(&p.Main[0], 0, c.op, c.args...)
		if err := isa.Validate(p); err != nil {
			t.Errorf("%s: %v", c.op, err)
			continue
		}
		m, err := New(p, chip)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Run(context.Background(), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error is %v, want one with %q", c.op, c.args, err, c.want)
		} else if c.op != isa.OpBarrier && !strings.Contains(err.Error(), fmt.Sprintf("cluster 0, main instruction 1 (%s, layer conv1)", c.op)) {
			t.Errorf("%s: error %v does not name the place", c.op, err)
		}
	}
}

// TestMergedWeights checks a product that uses the second part of a loaded
// block.
func TestMergedWeights(t *testing.T) {
	chip := testchip.New(1, 1)
	consts := make([]byte, 1024)
	for i := range consts {
		consts[i] = byte(3 * i)
	}
	m, err := New(testchip.Program(chip, consts, 0), chip)
	if err != nil {
		t.Fatal(err)
	}
	c := m.clusters[0]
	for i := range 32 {
		c.sp[i] = byte(i * 7)
	}
	// Four tiles along K over two cores; the product takes the last two.
	if err := c.exec(isa.OpLoadW, []int64{256, 0, 4, 1, 2, 1, 8, 0, 1, 0}); err != nil {
		t.Fatal(err)
	}
	if err := c.exec(isa.OpMVM, []int64{0, 256 + 128, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 32, 1, 2, 1, 0, 8, 8, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	for col := range 8 {
		want := int32(0)
		for k := range 32 {
			want += int32(c.sp[k]) * int32(int8(consts[(32+k)*8+col]))
		}
		if c.acc[col] != want {
			t.Errorf("column %d is %d, want %d", col, c.acc[col], want)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	chip := testchip.New(1, 2)
	for want, spoil := range map[string]func(p *isa.Program){
		"functional emulation holds": func(p *isa.Program) { p.DRAMBytes = 1 << 40 },
		"larger than 2 GiB":          func(p *isa.Program) { p.ScratchpadBytes = 3 << 30 },
	} {
		p := testchip.Program(chip, nil, 64)
		spoil(p)
		if _, err := New(p, chip); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}
