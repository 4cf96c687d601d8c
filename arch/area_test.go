package arch

import (
	"math"
	"strings"
	"testing"
)

// Published dies lie within the band, or the test says by how much they do not.
func TestAreaMeetsPublished(t *testing.T) {
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
