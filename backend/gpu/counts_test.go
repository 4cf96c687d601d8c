package gpu

import (
	"math"
	"strings"
	"testing"

	"situ/ir"
)

func TestResident(t *testing.T) {
	// By hand from the occupancy rules of CUDA: 65536 registers an SM, given to a warp
	// in units of 256; H100 has 227 KiB of shared memory and 64 warps, L4 48 warps.
	for _, tt := range []struct {
		gpu                        string
		threads, registers, shared int
		want                       int
		err                        string
	}{
		{"h100", 256, 32, 0, 8, ""},         // 64 warps
		{"h100", 32, 16, 0, 32, ""},         // blocks
		{"l4", 256, 32, 0, 6, ""},           // 48 warps
		{"h100", 256, 128, 0, 2, ""},        // registers: 8 warps × 32 × 128 = 32768 of 65536
		{"h100", 256, 129, 0, 1, ""},        // given in eights: 136
		{"h100", 256, 300, 0, 1, ""},        // what does not fit 255 is kept in memory
		{"h100", 128, 32, 100 << 10, 2, ""}, // shared memory
		{"h100", 128, 32, 227 << 10, 1, ""}, // all of it
		{"l4", 128, 32, 60 << 10, 1, ""},    // 99 KiB
		{"l4", 128, 32, 100 << 10, 0, "shared memory"},
		{"h100", 1024, 128, 0, 0, "registers"},
		{"l4", 2048, 16, 0, 0, "64 warps"},
	} {
		got, err := Resident(device(t, tt.gpu), tt.threads, tt.registers, tt.shared)
		if got != tt.want || (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s, %d threads of %d registers, %d bytes: %d, %v; want %d, %q", tt.gpu, tt.threads, tt.registers, tt.shared, got, err, tt.want, tt.err)
		}
	}
}

// chain is a program of three launches: x → a → b → y, each with its weights, of
// 1000 bytes apiece.
func chain() (*Program, []Counts) {
	p := &Program{
		Buffers: []Buffer{{Name: Arena, Bytes: 4000}, {Name: Constants, Bytes: 3000}},
		Inputs:  []Port{{Place: Place{Arena, 0, 1000}}},
		Outputs: []Port{{Place: Place{Arena, 3000, 1000}}},
	}
	var counts []Counts
	for i := range int64(3) {
		p.Launches = append(p.Launches, Launch{Grid: [3]int{1, 1, 1}, Block: [3]int{32, 1, 1}})
		counts = append(counts, Counts{Registers: 32, FromDRAM: 2000, ToDRAM: 1000, Touched: []Touch{
			{Place{Arena, 1000 * i, 1000}, 1000, 0},
			{Place{Constants, 1000 * i, 1000}, 1000, 0},
			{Place{Arena, 1000 * (i + 1), 1000}, 0, 1000},
		}})
	}
	return p, counts
}

func TestCrossings(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity float64
		want     [3]float64
		keeps    float64
	}{
		// Only what comes from outside and goes there.
		{"all fits", 1e6, [3]float64{1000, 0, 1000}, 1},
		// From one launch to the next lie 3000 bytes, half of what either touches: that
		// stays. Until the next run lie 6000 or more: weights go, and so do results.
		{"neighbours stay", 3000, [3]float64{3000, 2000, 2000}, 0},
		{"nothing stays", 1, [3]float64{3000, 3000, 3000}, 0},
	} {
		p, counts := chain()
		got, keeps := p.crossings(counts, tt.capacity)
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 1e-6 {
				t.Errorf("%s: launch %d crosses %g bytes, want %g", tt.name, i, got[i], tt.want[i])
			}
		}
		if math.Abs(keeps-tt.keeps) > 1e-9 {
			t.Errorf("%s: %g of the weights stay, want %g", tt.name, keeps, tt.keeps)
		}
	}
}

// TestMeasureFormulas prices launches that wait for one resource each, whose time
// follows by hand from the figures of the architecture.
func TestMeasureFormulas(t *testing.T) {
	a := device(t, "a100")
	hz, sms := a.ClockMHz.Value*1e6, a.SMs.Value
	const n = 1 << 40
	for _, tt := range []struct {
		bound string
		c     Counts
		want  float64 // seconds beyond launch and ramp
	}{
		{"tensor cores", Counts{TensorMACs: n}, n / (a.Tensor.Int8MACs.Value * a.Ceiling.Tensor.Value * sms * hz)},
		{"lanes", Counts{Integer: n}, n / (a.Cores.IntLanes.Value * sms * hz)},
		// 8 blocks of 8 warps run on an SM: enough for all four schedulers.
		{"lanes", Counts{Warps: n}, n / (4 * sms * hz)},
		{"shared memory", Counts{Wavefronts: n}, n / (sms * hz)},
		{"L2", Counts{FromL2: n}, n / min(a.L2.BytesPerCycle.Value*a.Ceiling.L2.Value*hz, sms*a.L2.PortBytes.Value*hz)},
		{"DRAM", Counts{FromDRAM: n}, n / (a.DRAM.GBs.Value * 1e9 * a.Ceiling.DRAM.Value)},
		{"launch", Counts{}, 0},
	} {
		p := &Program{Launches: []Launch{{Grid: [3]int{int(8 * sms), 1, 1}, Block: [3]int{256, 1, 1}}}}
		tt.c.Registers = 32
		r, err := Measure(p, a, []Counts{tt.c}, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Layers[0].TimeS - (a.Launch.GraphUS.Value+a.Launch.RampUS.Value)*1e-6
		if r.PowerLimited || r.Layers[0].Bound != tt.bound || math.Abs(got-tt.want) > 1e-9*(1+tt.want) {
			t.Errorf("%+v: %g s, bound by %s; want %g, %s", tt.c, got, r.Layers[0].Bound, tt.want, tt.bound)
		}
	}
	// A wave of which only one SM has a block takes as long as a full one.
	launch := func(blocks int) float64 {
		p := &Program{Launches: []Launch{{Grid: [3]int{blocks, 1, 1}, Block: [3]int{1024, 1, 1}}}}
		r, err := Measure(p, a, []Counts{{Registers: 64, Integer: 1e6 * float64(blocks)}}, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		return r.LatencyS
	}
	one, two := launch(int(sms)), launch(int(sms)+1)
	if wave := two - one; math.Abs(wave-(1e6/a.Cores.IntLanes.Value/hz+a.DRAM.LatencyNS.Value*1e-9)) > 1e-9 {
		t.Errorf("a second wave takes %g s", wave)
	}
}

func TestMeasureRefuses(t *testing.T) {
	a := device(t, "a100")
	p := &Program{Launches: []Launch{{Kernel: "k", Op: "conv2d", Node: "c1", Grid: [3]int{1, 1, 1}, Block: [3]int{1024, 1, 1}}}}
	if _, err := Measure(p, a, nil, 1, 1); err == nil {
		t.Error("accepted counts of no launch")
	}
	_, err := Measure(p, a, []Counts{{Registers: 200}}, 1, 1)
	if err == nil || !strings.Contains(err.Error(), `kernel k of conv2d "c1"`) || !strings.Contains(err.Error(), "bytes of registers") {
		t.Errorf("too many registers: %v", err)
	}
}

// TestOldCard: a card without the instructions of the kernels is refused before
// anything is made.
func TestOldCard(t *testing.T) {
	old := *h100(t)
	old.Name, old.Capability.Value = "v100", 70
	_, err := Compile(&ir.Graph{Name: "g"}, &old)
	if err == nil || !strings.Contains(err.Error(), "v100 has compute capability 7.0") || !strings.Contains(err.Error(), "cp.async") {
		t.Errorf("got %v", err)
	}
}
