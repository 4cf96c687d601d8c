package functional

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/internal/testchip"
	"situ/emulator/timing"
)

// TestHostileOperands executes valid instructions of random operands, most of
// which make no sense, in the functional core and in the timing model: an error
// is fine, a panic or a long time is not.
func TestHostileOperands(t *testing.T) {
	chip := testchip.New(2, 1)
	rng := rand.New(rand.NewPCG(11, 12))
	consts := make([]byte, 4096)
	for i := range consts {
		consts[i] = byte(rng.Uint32())
	}
	p := testchip.Program(chip, consts, 4096)
	m, err := New(p, chip)
	if err != nil {
		t.Fatal(err)
	}
	loaded := [][]int64{{0, 0, 2, 2, 1, 1, 8, 0, 2, 0}, {1024, 0, 2, 1, 2, 2, 8, 0, 2, 1}, {4096, 0, 2, 1, 2, 2, 4, 0, 2, 0}}
	pick := func(list ...int64) int64 { return list[rng.IntN(len(list))] }
	tame := false // operands that may make sense
	operand := func(o isa.Operand) int64 {
		switch {
		case o.Name == "planes":
			return pick(1, 2, 3)
		case o.Name == "wbits":
			return pick(4, 8)
		case o.Name == "accumulate" || o.Name == "b_step" || o.Name == "log" || o.Name == "per_count" || o.Name == "first" || o.Name == "smallest":
			return pick(0, 1)
		case tame && (o.Name == "shifts" || o.Name == "row0"):
			return pick(0, 0, 0, 1)
		case o.Name == "row0":
			return pick(0, 0, 0, 15, 16)
		case o.Name == "shifts":
			return pick(0, 1)
		case o.Name == "by":
			return rng.Int64N(31) + 1
		case o.Name == "shift":
			return rng.Int64N(62) + 1
		case o.Name == "y0" || o.Name == "x0" || o.Name == "pad_t" || o.Name == "pad_l" || o.Name == "pad_b" || o.Name == "pad_r":
			return pick(0, 0, 1, 2, 1<<24)
		case o.Name == "type" || o.Name == "itype" || o.Name == "to" || o.Name == "from":
			return rng.Int64N(isa.NumDTypes)
		case o.Name == "size":
			return pick(1, 2, 3, 4, 8)
		case o.Name == "offset":
			return pick(0, -32768, 65535)
		case o.Name == "count":
			return 1
		case tame && o.Kind == isa.KCount:
			return pick(1, 1, 1, 2, 3, 4, 8)
		case tame && o.Kind == isa.KStep:
			return pick(0, 4, 8, 64)
		case tame && o.Kind != isa.KFloat && o.Kind != isa.KImm:
			return pick(0, 0, 1024, 4096)
		case o.Kind == isa.KCount:
			return pick(1, 1, 1, 1, 2, 3, 4, 8, 16, 17, 100, 1<<12, 1<<20, 1<<31, 1<<40)
		case o.Kind == isa.KStep:
			return pick(0, 0, 1, 4, 4, 8, -1, -4, 64, 300, -300, 1<<20, 1<<47, -1<<47)
		case o.Kind == isa.KFloat:
			return pick(0, 0x3f800000, 0x7f800000, 0x7fc00000, 0xbf800000)
		case o.Kind == isa.KImm:
			return pick(0, 1, 2, 3, 128, 255)
		}
		return pick(0, 0, 4, 64, 128, 1024, 4096, 16384, 65535, 65536, 1<<47)
	}
	ran := map[isa.Op]int{}
	start := time.Now()
	// rare returns the operations that have run too seldom.
	rare := func() (ops []isa.Op) {
		for op := isa.OpInvalid + 1; op.Known(); op++ {
			if functions[op] != nil && ran[op] < 3 {
				ops = append(ops, op)
			}
		}
		return ops
	}
	const wild = 30_000 // trials of any operation; those that then lack some get more
	for trial := 0; trial < 10*wild && time.Since(start) < time.Minute; trial++ {
		op := isa.Op(1 + rng.IntN(isa.NumOps-1))
		tame = trial%3 == 0
		if trial >= wild {
			left := rare()
			if len(left) == 0 {
				break
			}
			op, tame = left[rng.IntN(len(left))], true
		}
		if functions[op] == nil {
			continue
		}
		if tame {
			for i, w := 0, words[int32](m.clusters[0].sp, 0, 1<<14); i < len(w); i++ {
				w[i] = 7 // can be a shift
			}
			for _, block := range []int{0, 1024, 4096} { // can be softmax parameters
				words[int32](m.clusters[0].sp, int64(block), 260)[257] = 0
			}
		}
		if op == isa.OpMVM {
			for _, a := range loaded {
				if err := m.clusters[0].exec(isa.OpLoadW, a); err != nil {
					t.Fatal(err)
				}
			}
		}
		var args []int64
		for _, o := range op.Info().Operands {
			args = append(args, operand(o))
		}
		in := isa.Inst{Op: op, Args: args}
		p.Main[0] = isa.Stream{Insts: []isa.Inst{in}, Layer: []int32{-1}}
		if err := isa.Validate(p); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("%s: panic: %v", isa.AppendInst(nil, &in), r)
				}
			}()
			begin := processorTime(t)
			if m.clusters[0].exec(op, args) == nil {
				ran[op]++
			}
			limits := m.limits
			if _, err := timing.Run(context.Background(), p, chip, &limits, 1, nil); err != nil {
				var e effect.Effect
				if e.Of(op, args, &m.shape); e.Check(&limits) == nil {
					t.Fatalf("%s: %v", isa.AppendInst(nil, &in), err)
				}
			}
			if took := processorTime(t) - begin; took > 2*time.Second {
				t.Errorf("%s takes %v of a processor", isa.AppendInst(nil, &in), took)
			}
		}()
	}
	for _, op := range rare() {
		t.Errorf("%s ran %d times only: the operands are too wild", op, ran[op])
	}
}

// processorTime returns what this process has used, which unlike the time that
// passed does not depend on what else the machine does.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
