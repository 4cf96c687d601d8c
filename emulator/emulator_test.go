package emulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator"
	"situ/emulator/internal/testchip"
	"situ/emulator/timing"
)

// layered returns a chip of two dies of four clusters and a program that uses
// every kind of traffic: weights multicast across dies, inputs loaded by each
// cluster, a product and requantisation, an exchange within and across dies,
// and outputs stored.
func layered() (*isa.Program, *arch.Chip) {
	chip := testchip.New(2, 4)
	rng := rand.New(rand.NewPCG(3, 4))
	consts := make([]byte, 8192)
	for i := range consts {
		consts[i] = byte(rng.Uint32())
	}
	const params, n = 4096, 8
	for c := range n {
		copy(consts[params+4*c:], []byte{byte(c), 1, 0, 0})          // biases
		copy(consts[params+4*n+4*c:], []byte{0, 0, 0, 0x60})         // multipliers
		copy(consts[params+8*n+4*c:], []byte{byte(38 + c), 0, 0, 0}) // shifts
	}
	p := testchip.Program(chip, consts, 4096)
	p.WeightBytes = 2 * 16 * 8
	p.Layers = []isa.Layer{{Name: "conv", Op: "conv2d", MACs: 8 * 16 * 32 * 8}, {Name: "exchange", Op: "copy"}}
	p.Regions = []isa.Region{{Start: 0, End: 4096, Die: 0}, {Start: 4096, End: 8192, Die: 1}}
	p.Inputs = []isa.IO{{Name: "x", DType: isa.U8, Shape: []int{8, 16, 32}, Addr: 8192}}
	p.DRAMBytes += 4096
	p.Outputs = []isa.IO{{Name: "y", DType: isa.U8, Shape: []int{8, 16, 8}, Addr: 8192 + 4096}}
	load := func(s *isa.Stream, layer int32, to, from, size int64) {
		testchip.EmitLayer(s, layer, isa.OpLoad, to, from, 1, 0, 0, 1, 0, 0, size)
	}
	// Two tiles along K, split over two cores, two row parts.
	testchip.Emit(&p.Init[0], isa.OpLoadW, 0, 0, 2, 1, 2, 2, 8, 0, 8, 0)
	for i := range int64(8) {
		load(&p.Init[i], -1, 60000, params, 12*n)
		s := &p.Main[i]
		load(s, 0, 0, 8192+i*512, 512)
		testchip.EmitLayer(s, 0, isa.OpMVM, 0, 0, 0, 16, 32, 1, 0, 1, 0, 1, 0, 1, 0, 32, 1, 2, 2, 0, 8, 8, 0, 0, 0)
		testchip.EmitLayer(s, 0, isa.OpRequant, 1024+i*128, 0, 60000, 16, 8, 1, 0, 8, 32, 128, 0, 255)
		testchip.EmitLayer(s, 1, isa.OpSend, 1024+i*128, 1024+i*128, 1, 0, 0, 1, 0, 0, 128, 0, 8)
		testchip.EmitLayer(s, 1, isa.OpBarrier, 1, 0, 8)
		// Each stores the slice of its neighbour, doubled.
		j := (i + 3) % 8
		testchip.EmitLayer(s, 1, isa.OpAdd, 4096, 1024+j*128, 1024+j*128, 1, 0, 0, 0, 1, 0, 0, 0, 128, 128, 128, 128, 1, 1, 1, 0, 255, 1)
		testchip.EmitLayer(s, 1, isa.OpBarrier, 2, 0, 8)
		testchip.EmitLayer(s, 1, isa.OpStore, 8192+4096+j*128, 4096, 1, 0, 0, 1, 0, 0, 128)
		testchip.Emit(s, isa.OpHalt)
	}
	return p, chip
}

func input() [][]byte {
	x := make([]byte, 4096)
	for i := range x {
		x[i] = byte(i*i>>3 ^ i)
	}
	return [][]byte{x}
}

func run(t *testing.T, o emulator.Options) (*emulator.Report, [][]byte) {
	t.Helper()
	p, chip := layered()
	m, err := emulator.Load(p, chip)
	if err != nil {
		t.Fatal(err)
	}
	in := input()
	if o.Mode == emulator.Timing {
		in = nil
	}
	r, out, err := m.Run(context.Background(), in, o)
	if err != nil {
		t.Fatal(err)
	}
	return r, out
}

func TestModesAgree(t *testing.T) {
	full, fullOut := run(t, emulator.Options{})
	fn, fnOut := run(t, emulator.Options{Mode: emulator.Functional})
	tm, tmOut := run(t, emulator.Options{Mode: emulator.Timing})
	if !cmp.Equal(fullOut, fnOut) || len(fullOut[0]) != 1024 {
		t.Errorf("outputs of a full and of a functional run differ")
	}
	if tmOut != nil || fn.LatencyPS != 0 {
		t.Errorf("a timing run has outputs, or a functional one times")
	}
	tm.Mode = full.Mode
	if d := cmp.Diff(full, tm, cmpopts.IgnoreFields(emulator.Report{}, "Host")); d != "" {
		t.Errorf("reports of a full and of a timing run differ:\n%s", d)
	}
	if full.LatencyPS <= 0 || full.Init.PS <= 0 || full.Energy.Total <= 0 || full.Utilisation <= 0 || full.Utilisation > 1 {
		t.Errorf("latency %d, init %d, energy %v, utilisation %v", full.LatencyPS, full.Init.PS, full.Energy, full.Utilisation)
	}
}

// TestOutputs computes the program's result in plain Go.
func TestOutputs(t *testing.T) {
	p, _ := layered()
	_, out := run(t, emulator.Options{})
	x := input()[0]
	for row := range 128 {
		for c := range 8 {
			acc := int64(c + 256)
			for k := range 32 {
				acc += int64(x[row*32+k]) * int64(int8(p.Consts[k*8+c]))
			}
			// The multiplier is 0x60000000 = 3·2^29.
			num, den := acc*3, int64(1)<<(38+c-29)
			q := num / den
			if r := num - q*den; r < 0 {
				q--
			}
			if r := num - q*den; 2*r > den || 2*r == den && q&1 == 1 {
				q++
			}
			v := min(max(q+128, 0), 255)
			w := 2 * (v - 128) // added to itself, halved: back to v
			want := byte(min(max(128+w/2, 0), 255))
			if got := out[0][row*8+c]; got != want {
				t.Fatalf("output [%d, %d] is %d, want %d", row, c, got, want)
			}
		}
	}
}

func TestReportIsDeterministic(t *testing.T) {
	var texts, traces [2]bytes.Buffer
	for i := range texts {
		r, _ := run(t, emulator.Options{Repeat: 3, Trace: &traces[i]})
		if err := json.NewEncoder(&texts[i]).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() || traces[0].String() != traces[1].String() {
		t.Error("two runs of a program give different reports or traces")
	}
	var trace struct {
		TraceEvents []struct {
			Ph, Name string
			Dur      float64
			Pid, Tid int
		}
	}
	if err := json.Unmarshal(traces[0].Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range trace.TraceEvents {
		count[e.Name]++
	}
	if count["mvm"] != 3*8 || count["process_name"] != 8 || count["thread_name"] != 4*8 {
		t.Errorf("events in the trace: %v", count)
	}
}

// TestBooksBalance: what leaves a level arrives at the next.
func TestBooksBalance(t *testing.T) {
	r, _ := run(t, emulator.Options{Repeat: 2})
	for _, c := range []timing.Counters{r.Counters, r.Init.Counters} {
		for _, x := range []struct {
			what       string
			left, here int64
		}{
			{"into the network: by scratchpads and DRAM", c.NoCIn, c.SPSent + c.DRAMRead},
			{"through the network", c.NoCOut, c.NoCIn + c.NoCCopied},
			{"out of the network: to scratchpads, weight SRAMs and DRAM", c.NoCOut, c.SPReceived + c.WeightWrite - c.WeightStored + c.WeightFetched - c.WeightCopies + c.DRAMWrite},
			{"weight SRAM to arrays", c.WeightRead, c.ArrayWrite},
			{"sent is part of read", min(c.SPSent, c.SPRead), c.SPSent},
			{"received is part of written", min(c.SPReceived, c.SPWrite), c.SPReceived},
		} {
			if x.left != x.here {
				t.Errorf("%s: %d and %d bytes", x.what, x.left, x.here)
			}
		}
	}
	c := r.Counters
	for _, x := range []struct {
		what      string
		got, want int64
	}{
		{"DRAM read", c.DRAMRead, 8 * 512},
		{"DRAM written", c.DRAMWrite, 8 * 128},
		{"MACs", c.MACs, 8 * 16 * 32 * 8},
		{"array slots", c.ArraySlots, 8 * 16 * 32 * 8},
		{"accumulators written", c.AccWrite, 8 * 16 * 8 * 4},
		{"accumulators read", c.AccRead, 8 * 16 * 8 * 4},
		{"input latches", c.InputLatch, 8 * 16 * 32},
		{"scratchpad sent", c.SPSent, 8*128 + 8*128},
		{"scratchpad received", c.SPReceived, 8*7*128 + 8*512},
		// Cluster 4 to 7 read their inputs, and store, across the dies; each send
		// crosses once.
		{"die to die", c.Link, 4*512 + 4*128 + 8*128},
		{"weight SRAM written at init", r.Init.Counters.WeightWrite, 2 * 16 * 8 * 2 * 8},
		{"die to die at init", r.Init.Counters.Link, 2*16*8 + 4*96},
		// A product of one pass keeps its weights: the second input reuses them.
		{"loads or reuses", c.ArrayLoads + c.ArrayReuse, 8},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d, want %d", x.what, x.got, x.want)
		}
	}
	// Layers sum up to the whole but for static power.
	sum := r.Energy.Static
	for _, l := range r.Layer {
		sum += l.Energy.Total
	}
	if d := sum/r.Energy.Total - 1; d > 1e-3 || d < -1e-3 {
		t.Errorf("layers take %g J, all together %g J", sum, r.Energy.Total)
	}
}

// TestRepeatOverlaps: inputs back to back take less than one after the other.
func TestRepeatOverlaps(t *testing.T) {
	one, _ := run(t, emulator.Options{Mode: emulator.Timing})
	many, _ := run(t, emulator.Options{Mode: emulator.Timing, Repeat: 10})
	if many.LatencyPS != one.LatencyPS {
		t.Errorf("latency is %d alone and %d as the first of ten", one.LatencyPS, many.LatencyPS)
	}
	if many.IntervalPS >= one.LatencyPS || many.TotalPS >= 10*one.LatencyPS || many.IntervalPS <= 0 {
		t.Errorf("ten inputs take %d ps, %d apart; one takes %d", many.TotalPS, many.IntervalPS, one.LatencyPS)
	}
}

func TestLoadErrors(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *isa.Program, c *arch.Chip)
		want  error
	}{
		"invalid":           {func(p *isa.Program, _ *arch.Chip) { p.Main = nil }, isa.ErrInvalid},
		"other chip":        {func(_ *isa.Program, c *arch.Chip) { c.Name, c.ClockMHz.Value = "other", 5 }, isa.ErrArch},
		"big scratchpad":    {func(p *isa.Program, _ *arch.Chip) { p.ScratchpadBytes++ }, emulator.ErrCapacity},
		"many accumulators": {func(p *isa.Program, _ *arch.Chip) { p.AccumulatorBytes++ }, emulator.ErrCapacity},
		"big weight SRAM":   {func(p *isa.Program, _ *arch.Chip) { p.WeightSRAMBytes++ }, emulator.ErrCapacity},
		"big DRAM":          {func(p *isa.Program, _ *arch.Chip) { p.DRAMBytes = 1<<30 + 1 }, emulator.ErrCapacity},
	} {
		p, chip := layered()
		c.spoil(p, chip)
		if _, err := emulator.Load(p, chip); !errors.Is(err, c.want) {
			t.Errorf("%s: Load gives %v", name, err)
		}
	}
}

func TestRunErrors(t *testing.T) {
	p, chip := layered()
	m, err := emulator.Load(p, chip)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, _, err := m.Run(ctx, nil, emulator.Options{}); err == nil || !strings.Contains(err.Error(), "0 inputs given") {
		t.Errorf("without inputs: %v", err)
	}
	if _, _, err := m.Run(ctx, [][]byte{{1}}, emulator.Options{}); err == nil || !strings.Contains(err.Error(), "input x is [8 16 32] u8, 4096 bytes; 1 bytes given") {
		t.Errorf("short input: %v", err)
	}
	if _, _, err := m.Run(ctx, nil, emulator.Options{Mode: emulator.Timing, Repeat: -1}); err == nil {
		t.Error("negative repeat is taken")
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	for _, mode := range []emulator.Mode{emulator.Full, emulator.Timing} {
		if _, _, err := m.Run(stopped, input(), emulator.Options{Mode: mode}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled %s run: %v", mode, err)
		}
	}
}

// TestIntervalIsSustained: while the first of a few inputs waits long for DRAM,
// the vector unit does much of the others; the interval is still no shorter than
// the unit can keep up.
func TestIntervalIsSustained(t *testing.T) {
	chip := testchip.New(1, 2)
	p := testchip.Program(chip, make([]byte, 64), 64)
	testchip.Emit(&p.Main[0], isa.OpFill, 0, 1, 0, 1, 0, 448, 7)
	testchip.Emit(&p.Main[1], isa.OpStore, 64, 0, 1, 0, 0, 1, 0, 0, 4)
	m, err := emulator.Load(p, chip)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := m.Run(context.Background(), nil, emulator.Options{Mode: emulator.Timing, Repeat: 4})
	if err != nil {
		t.Fatal(err)
	}
	seen := (r.TotalPS - r.LatencyPS) / 3
	var busy int64
	for _, u := range r.Units {
		if u.Name == "vector" {
			busy = u.BusyPS
		}
	}
	if 2*seen >= busy {
		t.Fatalf("inputs end %d ps apart, the vector unit is busy for %d ps of each: the program does not show the case", seen, busy)
	}
	if want := (busy + 1) / 2; r.IntervalPS != want {
		t.Errorf("the interval is %d ps, want %d, the mean of two clusters", r.IntervalPS, want)
	}
}
