package functional

import (
	"math/rand/v2"
	"testing"

	"situ/backend/pim/isa"
	"situ/emulator/internal/testchip"
)

func (s *state) dot(g arg) {
	for y := range g("rows_y") {
		for x := range g("rows_x") {
			for c := range g("n") {
				sum := int64(0)
				for i := range g("k") {
					u := int64(s.sp[g("a")+y*g("row_sy")+x*g("row_sx")+i])
					v := int64(s.sp[g("b")+i*g("k_step")+c*g("n_step")])
					sum += (u - g("za")) * (v - g("zb"))
				}
				s.acc[g("acc")/4+(y*g("rows_x")+x)*g("n")+c] = int32(sum)
			}
		}
	}
}

// matrix draws the steps of a k × n matrix: by rows, by columns, or neither.
func (v *values) matrix(k, n int64) (kStep, nStep int64) {
	switch v.n(0, 2) {
	case 0:
		return n + v.n(0, 3), 1
	case 1:
		return 1, k + v.n(0, 3)
	}
	return v.n(0, 9), v.n(-9, 40)
}

func (v *values) dot(a map[string]int64) {
	a["rows_y"], a["row_sy"], a["rows_x"], a["row_sx"] = v.n(1, 4), v.n(-9, 300), v.n(1, 5), v.n(0, 30)
	a["k"], a["n"] = v.n(1, 70), v.n(1, 40)
	a["a"], a["b"], a["acc"] = testSrc+v.n(0, 9), testSrc+4096+v.n(0, 9), 4*v.n(0, 20)
	a["k_step"], a["n_step"] = v.matrix(a["k"], a["n"])
}

// TestStoredWeights writes activations as weights, several times to overlapping
// places, and compares products with the definition.
func TestStoredWeights(t *testing.T) {
	chip := testchip.New(1, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	m, err := New(testchip.Program(chip, nil, 8192), chip)
	if err != nil {
		t.Fatal(err)
	}
	c := m.clusters[0]
	v := &values{rng: rng, m: m}
	for range 2000 {
		for i := range c.sp {
			c.sp[i] = byte(rng.Uint32())
		}
		planes, zero := int64(1), int64(128)
		if v.n(0, 1) == 1 {
			zero = v.n(0, 255)
			planes = 2
			if zero == 0 {
				planes = 3
			}
		}
		k := v.n(1, 70)
		ksplit := v.n(1, 4)
		ntiles := v.n(1, 4/ksplit)
		rsplit := v.n(1, 4/ksplit/ntiles)
		n := v.n((ntiles-1)*8+1, ntiles*8)
		kStep, nStep := v.matrix(k, n)
		ws, src := 128*v.n(0, 9), testSrc+v.n(0, 40)
		must := func(op isa.Op, args ...int64) {
			t.Helper()
			if err := c.exec(op, args); err != nil {
				t.Fatalf("%s: %v", isa.AppendInst(nil, &isa.Inst{Op: op, Args: args}), err)
			}
		}
		op := isa.OpStoreW
		if v.n(0, 1) == 1 {
			op = isa.OpLoadA
			copy(m.dram, c.sp)
		}
		must(op, ws, src, k, kStep, n, nStep, planes, zero, ksplit, rsplit)
		rows, step, x := v.n(1, 9), v.n(0, 90), v.n(0, 99)
		must(isa.OpMVM, 0, ws, x, rows, step, 1, 0, planes, 0, 1, 0, 1, 0, k, ntiles, ksplit, rsplit, 0, n, 8, 0, 0, 0)
		for r := range rows {
			for j := range n {
				want := int32(0)
				for i := range k {
					want += int32(c.sp[x+r*step+i]) * (int32(c.sp[src+i*kStep+j*nStep]) - int32(zero))
				}
				if got := c.acc[r*n+j]; got != want {
					t.Fatalf("%d planes, zero %d, k %d (step %d), n %d (step %d): sum %d,%d is %d, want %d", planes, zero, k, kStep, n, nStep, r, j, got, want)
				}
			}
		}
	}
}

// TestStoreWAllocates: a warm storew and the product on it allocate nothing.
func TestStoreWAllocates(t *testing.T) {
	chip := testchip.New(1, 1)
	m, err := New(testchip.Program(chip, nil, 64), chip)
	if err != nil {
		t.Fatal(err)
	}
	c := m.clusters[0]
	store := []int64{0, testSrc, 40, 16, 16, 1, 1, 128, 1, 1}
	mvm := []int64{0, 0, 0, 9, 64, 1, 0, 1, 0, 1, 0, 1, 0, 40, 2, 1, 1, 0, 16, 8, 0, 0, 0}
	if n := testing.AllocsPerRun(100, func() {
		if err := c.exec(isa.OpStoreW, store); err != nil {
			t.Fatal(err)
		}
		if err := c.exec(isa.OpMVM, mvm); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
