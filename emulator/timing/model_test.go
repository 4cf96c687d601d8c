package timing

import (
	"context"
	"testing"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/internal/testchip"
)

const ns = 1000 // ps; the test chip's cycle

// inst is an instruction of a cluster's main stream.
type inst struct {
	cluster int
	op      isa.Op
	args    []int64
}

// events times a program without constants in use and returns its events in
// the order of clusters and instructions.
func events(t *testing.T, chip *arch.Chip, spoil func(p *isa.Program), list ...inst) ([]Event, *Result) {
	t.Helper()
	p := testchip.Program(chip, make([]byte, 4096), 4096)
	if spoil != nil {
		spoil(p)
	}
	for _, in := range list {
		testchip.Emit(&p.Main[in.cluster], in.op, in.args...)
	}
	if err := isa.Validate(p); err != nil {
		t.Fatal(err)
	}
	limits := effect.Limits{effect.SP: 1 << 16, effect.RemoteSP: 1 << 16, effect.WS: 1 << 14, effect.RemoteWS: 1 << 14, effect.Acc: 1 << 14, effect.DRAM: 8192}
	perCluster := make([][]Event, len(p.Main))
	res, err := Run(context.Background(), p, chip, &limits, 1, func(e Event) {
		perCluster[e.Cluster] = append(perCluster[e.Cluster], e)
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []Event
	for _, e := range perCluster {
		all = append(all, e...)
	}
	return all, res
}

type when struct{ start, end int64 } // in cycles

func check(t *testing.T, got []Event, want ...when) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Start != w.start*ns || g.End != w.end*ns {
			t.Errorf("event %d, %s of cluster %d: cycles %g to %g, want %d to %d", i, g.Op, g.Cluster, float64(g.Start)/ns, float64(g.End)/ns, w.start, w.end)
		}
	}
}

func fill(cluster int, dst, bytes int64) inst {
	return inst{cluster, isa.OpFill, []int64{dst, 1, 0, 1, 0, bytes, 0}}
}

func load(cluster int, dst, bytes int64) inst {
	return inst{cluster, isa.OpLoad, []int64{dst, 0, 1, 0, 0, 1, 0, 0, bytes}}
}

func send(cluster int, dst, src, bytes, first, count int64) inst {
	return inst{cluster, isa.OpSend, []int64{dst, src, 1, 0, 0, 1, 0, 0, bytes, first, count}}
}

func copyTo(cluster int, dst, src, bytes int64) inst {
	return inst{cluster, isa.OpCopy, []int64{dst, src, 1, 0, 0, 1, 0, 0, 1, 0, 0, bytes}}
}

// product is an mvm of rows × k by 8 columns.
func product(acc, ws, src, rows, k, ksplit, rsplit int64) inst {
	return inst{0, isa.OpMVM, []int64{acc, ws, src, rows, 0, 1, 0, 1, 0, 1, 0, 1, 0, k, 1, ksplit, rsplit, 0, 8, 8, 0, 0, 0}}
}

func TestEveryInstructionHasCost(t *testing.T) {
	r := ratesOf(testchip.New(1, 1))
	for op := isa.OpInvalid + 1; op.Known(); op++ {
		args := make([]int64, len(op.Info().Operands))
		for i, o := range op.Info().Operands {
			if o.Kind == isa.KCount {
				args[i] = 1
			}
		}
		v, ok := r.vectorCostOf(op, args)
		if vector := op.Info().Unit == isa.UnitVector; ok != vector {
			t.Errorf("%s: cost %v, on the vector unit %v", op, ok, vector)
		} else if vector && (v.cycles(&r) <= r.start || v.spWrite+v.accWrite == 0) {
			t.Errorf("%s takes %d cycles and writes %d bytes", op, v.cycles(&r), v.spWrite+v.accWrite)
		}
	}
}

// TestIssueAndUnits: one issue a cycle, a unit works in order, 3 cycles to
// start a vector instruction, 16 bytes written a cycle.
func TestIssueAndUnits(t *testing.T) {
	got, _ := events(t, testchip.New(1, 1), nil, fill(0, 0, 160), fill(0, 1024, 161), fill(0, 2048, 1))
	check(t, got, when{1, 14}, when{14, 28}, when{28, 32})
}

// TestDRAM: 2 bytes a ns and channel, 100 ns latency, 1 port and no mesh link
// of 2 cycles to the cluster at the controller, 8 bytes a cycle on links.
func TestDRAM(t *testing.T) {
	got, res := events(t, testchip.New(1, 1), nil, load(0, 0, 200), load(0, 1024, 200), copyTo(0, 4096, 0, 32), copyTo(0, 8192, 1024, 32))
	// The channel is busy for 100 ns each; data are there 102 ns after its end.
	check(t, got, when{1, 101}, when{101, 201}, when{203, 208}, when{303, 308})
	if res.Main.PS != 308*ns {
		t.Errorf("the program takes %d ps", res.Main.PS)
	}
}

// TestHazards: a writer waits for a reader, a reader for a writer, others pass.
func TestHazards(t *testing.T) {
	store := inst{0, isa.OpStore, []int64{4096, 0, 1, 0, 0, 1, 0, 0, 800}}
	got, _ := events(t, testchip.New(1, 1), nil, store, fill(0, 0, 16), fill(0, 2048, 16))
	// The last byte leaves after 100 cycles.
	check(t, got, when{1, 101}, when{101, 105}, when{105, 109})
	got, _ = events(t, testchip.New(1, 1), nil, store, fill(0, 2048, 16))
	check(t, got, when{1, 101}, when{2, 6})
}

// TestArrays: 16 rows × 8 columns of a byte at 16 bytes a cycle load in 8
// cycles; an input vector takes 4; 32 bytes of input a cycle; 5 cycles of
// pipeline.
func TestArrays(t *testing.T) {
	requant := func(acc int64) inst {
		return inst{0, isa.OpRequant, []int64{4096, acc, 8192, 1, 0, 1, 0, 8, 32, 0, 0, 255}}
	}
	chip := testchip.New(1, 1)
	got, res := events(t, chip, nil, product(0, 0, 0, 10, 48, 1, 1), requant(0))
	// Three passes of load 8 and stream 40, one after the other.
	check(t, got, when{9, 145}, when{150, 156})
	if c := res.Main.Total(); c.ArrayLoads != 3 || c.ArrayWrite != 3*128 || c.AccWrite != 3*320 || c.AccRead != 2*320+32 || c.MACs != 10*48*8 {
		t.Errorf("counters %+v", c)
	}
	// With a second set of weights, loads hide under streaming.
	shadow := testchip.New(1, 1)
	shadow.Array.WeightSets.Value = 2
	got, _ = events(t, shadow, nil, product(0, 0, 0, 10, 48, 1, 1))
	check(t, got, when{9, 129})
	// Three cores along K need one pass, two along the rows half the time.
	got, _ = events(t, chip, nil, product(0, 0, 0, 10, 48, 3, 1))
	check(t, got, when{9, 49})
	got, _ = events(t, chip, nil, product(0, 0, 0, 10, 16, 1, 2))
	check(t, got, when{9, 29})
	// The same tiles again are not loaded again; others are.
	got, res = events(t, chip, nil, product(0, 0, 0, 10, 16, 1, 1), product(1024, 0, 512, 10, 16, 1, 1), product(2048, 128, 512, 10, 16, 1, 1))
	check(t, got, when{9, 49}, when{49, 89}, when{97, 137})
	if c := res.Main.Total(); c.ArrayLoads != 2 || c.ArrayReuse != 1 || c.WeightRead != 2*128 {
		t.Errorf("counters %+v", c)
	}
	// With shifts, a byte for each 8 rows of a column, a tile of 144 bytes loads in
	// 9 cycles. From row 12 on, 48 rows take four tiles and the shifters of rows 8
	// to 15, then of all.
	shifted := product(0, 0, 0, 10, 48, 1, 1)
	shifted.args[isa.MVMRow0], shifted.args[isa.MVMShifts] = 12, 1
	got, res = events(t, chip, nil, shifted)
	check(t, got, when{10, 197})
	if c := res.Main.Total(); c.BlockShifts != 10*8*7 || c.WeightRead != 4*144 || c.MACs != 10*48*8 {
		t.Errorf("counters %+v", c)
	}
	// Unless they have been overwritten in between: the load of 128 bytes is
	// there at 2 + 100 + 64 + 2.
	got, _ = events(t, chip, nil, product(0, 0, 0, 10, 16, 1, 1),
		inst{0, isa.OpLoadW, []int64{0, 0, 1, 1, 1, 1, 8, 0, 1, 0}}, product(0, 0, 0, 10, 16, 1, 1))
	if last := got[len(got)-1]; last.Op != isa.OpMVM || last.Start != (9+64+102+8)*ns {
		t.Errorf("product behind a loadw: %+v", last)
	}
}

// TestMesh: four clusters in a 2 × 2 mesh, 2 cycles a hop, 8 bytes a cycle.
func TestMesh(t *testing.T) {
	meet := func(c int) inst { return inst{c, isa.OpBarrier, []int64{1, 0, 4}} }
	all := func(list ...inst) []inst { return append(list, meet(0), meet(1), meet(2), meet(3)) }
	chip := testchip.New(1, 4)
	// 80 bytes two hops away are there at 1 + 2·2 + 10; the barrier's message
	// takes 2·2 hops.
	_, res := events(t, chip, nil, all(send(0, 0, 0, 80, 3, 1))...)
	if want := int64(15 + 8); res.Main.PS != want*ns {
		t.Errorf("two hops and a barrier: %d ps, want %d cycles", res.Main.PS, want)
	}
	if c := res.Main.Total(); c.NoCByteHops != 160 || c.SPReceived != 80 {
		t.Errorf("counters %+v", c)
	}
	// To all others: links 0→1, 1→3 and 0→2, each once.
	_, res = events(t, chip, nil, all(send(0, 0, 0, 80, 0, 4))...)
	if c := res.Main.Total(); c.NoCByteHops != 240 || c.SPReceived != 240 || c.SPSent != 80 || c.NoCCopied != 160 {
		t.Errorf("counters %+v", c)
	}
	// Clusters 0 and 1 both need the link from 1 to 3: the second comes 10 later.
	_, res = events(t, chip, nil, all(send(0, 0, 0, 80, 3, 1), send(1, 128, 0, 80, 3, 1))...)
	if want := int64(3 + 10 + 2 + 10 + 8); res.Main.PS != want*ns {
		t.Errorf("a shared link: %d ps, want %d cycles", res.Main.PS, want)
	}
}

// TestDies: a send to the other die goes out at router 0, takes 50 ns and 4
// bytes a ns, and comes in at router 0 there.
func TestDies(t *testing.T) {
	chip := testchip.New(2, 1)
	_, res := events(t, chip, nil, send(0, 0, 0, 80, 1, 1), inst{0, isa.OpBarrier, []int64{1, 0, 2}}, inst{1, isa.OpBarrier, []int64{1, 0, 2}})
	// Out 2, link 50, in 2, tail 20; then the barrier's message there and back.
	if want := int64(1 + 2 + 50 + 2 + 20 + 100); res.Main.PS != want*ns {
		t.Errorf("%d ps, want %d cycles", res.Main.PS, want)
	}
	if c := res.Main.Total(); c.Link != 80 || c.NoCByteHops != 160 {
		t.Errorf("counters %+v", c)
	}
	// DRAM of the other die: latency 100, channel 40 ns, link, port.
	_, res = events(t, chip, func(p *isa.Program) { p.Regions = []isa.Region{{Start: 0, End: 4096, Die: 1}} }, load(0, 0, 80))
	if want := int64(1 + 100 + 50 + 2 + 40); res.Main.PS != want*ns {
		t.Errorf("load across dies: %d ps, want %d cycles", res.Main.PS, want)
	}
}

// TestRemoteWriteWaits: a send waits for the receiver's reading.
func TestRemoteWriteWaits(t *testing.T) {
	chip := testchip.New(1, 2)
	meet := func(c int) inst { return inst{c, isa.OpBarrier, []int64{1, 0, 2}} }
	got, _ := events(t, chip, nil, meet(0), send(0, 0, 0, 80, 1, 1), copyTo(1, 4096, 0, 1600), meet(1))
	// The copy writes for 100 cycles from 1 on; both issue the barrier at 2.
	check(t, got, when{104, 114}, when{1, 104})
}

// TestContention: two units that want the scratchpad's ports share them.
func TestContention(t *testing.T) {
	chip := testchip.New(1, 1)
	chip.Scratchpad.ReadBytes.Value = 4
	alone, _ := events(t, chip, nil, product(0, 0, 0, 10, 16, 1, 1))
	check(t, alone, when{9, 49}) // 160 bytes at 4 a cycle, as long as streaming
	both, _ := events(t, chip, nil, copyTo(0, 4096, 2048, 160), product(0, 0, 0, 10, 16, 1, 1))
	if c := both[1]; c.Start != 10*ns || c.End <= 50*ns || c.End > 90*ns {
		t.Errorf("product beside a copy: %d to %d ps", c.Start, c.End)
	}
}

func TestDeadlockAndFaults(t *testing.T) {
	chip := testchip.New(1, 2)
	p := testchip.Program(chip, nil, 64)
	testchip.Emit(&p.Main[0], isa.OpBarrier, 1, 0, 2)
	limits := effect.Limits{effect.SP: 64}
	if _, err := Run(context.Background(), p, chip, &limits, 1, nil); err == nil {
		t.Error("a deadlock is not noticed")
	}
	p = testchip.Program(chip, nil, 64)
	testchip.Emit(&p.Main[0], isa.OpFill, 60, 1, 0, 1, 0, 8, 0)
	if _, err := Run(context.Background(), p, chip, &limits, 1, nil); err == nil {
		t.Error("a fill beyond the scratchpad is not noticed")
	}
}

func TestResourceFillsGaps(t *testing.T) {
	var r resource
	for _, b := range []struct{ at, dur, want int64 }{
		{100, 10, 100}, {0, 30, 0}, {0, 40, 30}, {0, 50, 110}, {50, 20, 70}, {70, 11, 160}, {90, 10, 90},
	} {
		if got := r.book(b.at, b.dur); got != b.want {
			t.Errorf("%d from %d on is booked at %d, want %d", b.dur, b.at, got, b.want)
		}
	}
}
