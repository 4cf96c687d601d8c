package arch

import (
	"math"
	"strings"
	"testing"
)

// Dies that are no source of a constant of the model lie within its band, and are
// at most twice the middle: control, I/O and what is between units are not counted.
func TestAreaOfPublishedDies(t *testing.T) {
	for _, die := range []struct {
		name                                  string
		node                                  float64 // nm
		clusters, cores, rows, cols           float64
		weights, scratch, lanes, link, memory float64 // B a core, B a cluster, lanes, B a cycle, GB/s
		mm2                                   float64
	}{
		// Science 382:329 (2023): 256 cores of 2048 8-bit operations a cycle, 192 MB in
		// cores and 32 MB of frame buffer, no DRAM. Lanes are assumed.
		{"NorthPole", 12, 256, 1, 32, 64, 768 << 10, 128 << 10, 64, 32, 0, 800},
		// 230 MB and matrix units of 320 × 320, of which 750 TOPS at 900 MHz need four; no
		// DRAM (chips/groq/hw-architecture.md in a survey). Lanes are assumed.
		{"Groq LPU", 14, 1, 4, 320, 320, 0, 230e6, 320, 320, 0, 725},
	} {
		c := *load(t, "corsair-chiplet").Chip
		set := func(f *Figure, v float64) { f.Value = v }
		set(&c.NodeNM, die.node)
		set(&c.Dies, 1)
		set(&c.ClustersPerDie, die.clusters)
		set(&c.CoresPerCluster, die.cores)
		set(&c.Array.Rows, die.rows)
		set(&c.Array.Cols, die.cols)
		set(&c.Array.WeightSets, 1)
		set(&c.WeightSRAM.Bytes, die.weights)
		set(&c.Accumulator.Bytes, 0)
		set(&c.Scratchpad.Bytes, die.scratch)
		set(&c.Vector.Lanes, die.lanes)
		set(&c.Vector.F32Lanes, 0)
		set(&c.NoC.LinkBytes, die.link)
		set(&c.DRAM.GBs, die.memory)
		r, err := c.Area()
		if err != nil {
			t.Fatal(err)
		}
		b := r.Total()
		t.Logf("%s: %.0f mm², modelled %.0f … %.0f … %.0f", die.name, die.mm2, b.Low, b.Mid, b.High)
		if b.Low > die.mm2 || b.High < die.mm2 || die.mm2 > 2*b.Mid || die.mm2 < b.Mid/2 {
			t.Errorf("%s: %.0f mm² are not in the band %+v, or not within a factor of two of its middle", die.name, die.mm2, b)
		}
	}
}

// The presets' areas hold what their descriptions follow.
func TestAreaOfPresets(t *testing.T) {
	edge := load(t, "edge-dimc").Chip
	r, err := edge.Area()
	if err != nil {
		t.Fatal(err)
	}
	// Four macros of ISSCC 2023 7.2 are 4 × 0.146 mm².
	if b := r[0].MM2; b.Low > 4*0.146*1.001 || b.High < 4*0.146 {
		t.Errorf("arrays %+v mm² do not hold the published 0.584", b)
	}
	// Corsair's chiplets are near the reticle's limit of some 800 mm² at most.
	c := load(t, "corsair-chiplet").Chip
	if r, err = c.Area(); err != nil {
		t.Fatal(err)
	}
	if b := r.Total(); b.Low > 800 || b.High < 300 || b.Low >= b.Mid || b.Mid >= b.High {
		t.Errorf("chiplet of %+v mm²", b)
	}
	card := load(t, "corsair-card").Chip
	whole, err := card.Area()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := whole[0].MM2.Mid, 8*r[0].MM2.Mid; math.Abs(got-want) > 1e-9*want {
		t.Errorf("arrays of the card %g mm², of eight chiplets %g", got, want)
	}
	bare := *c
	bare.NodeNM = Figure{}
	if _, err := bare.Area(); err == nil || !strings.Contains(err.Error(), "node_nm") {
		t.Errorf("area without a node: %v", err)
	}
	if err := bare.Validate(); err != nil {
		t.Errorf("a chip without node is refused: %v", err)
	}
}

func TestLogicRatio(t *testing.T) {
	for i, p := range logicArea {
		if got := logicRatio(p.node); math.Abs(got-p.ratio) > 1e-9 {
			t.Errorf("ratio at %g nm is %g, tabled %g", p.node, got, p.ratio)
		}
		if i > 0 && logicRatio(p.node) >= logicRatio(p.node+1) {
			t.Errorf("ratio does not fall at %g nm", p.node)
		}
	}
	if got := logicRatio(3.5); math.Abs(got-0.0295) > 1e-9 {
		t.Errorf("below 7 nm area goes as the node: %g at 3.5", got)
	}
}

// More of any unit never takes less area or power.
func TestAreaAndPowerGrow(t *testing.T) {
	base := load(t, "corsair-chiplet").Chip
	area := func(c *Chip) float64 {
		r, err := c.Area()
		if err != nil {
			t.Fatal(err)
		}
		return r.Total().Mid
	}
	for _, path := range []string{"cores_per_cluster", "array.rows", "weight_sram.bytes", "scratchpad.bytes", "vector.lanes", "dram.gigabytes_per_s"} {
		c := *base
		f := c.FigureAt(path)
		if f == nil {
			t.Fatalf("no figure %s", path)
		}
		f.Value *= 2
		if area(&c) <= area(base) {
			t.Errorf("twice %s takes no more area", path)
		}
		if c.PeakPowerW() < base.PeakPowerW() {
			t.Errorf("twice %s lowers peak power", path)
		}
	}
	if p, tdp := base.PeakPowerW(), base.Power.TDPW.Value; p < tdp/2 || p > 4*tdp {
		t.Errorf("peak power %g W, published limit %g W", p, tdp)
	}
	if got := len(FigurePaths()); got < 40 {
		t.Errorf("%d figures", got)
	}
}
