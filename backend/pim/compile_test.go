package pim

import (
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
	"situ/ir/irtest"
	"situ/passes"
)

// fig is a figure without a source, for chips made in tests.
func fig(v float64) arch.Figure { return arch.Figure{Value: v, Source: "test", Confidence: "A"} }

// tinyChip has one cluster with memories so small that everything spills.
func tinyChip() *arch.Chip {
	c := manyChip()
	c.Name = "tiny"
	c.Dies, c.ClustersPerDie, c.MeshColumns = fig(1), fig(1), fig(1)
	c.CoresPerCluster = fig(3)
	c.WeightSRAM.Bytes = fig(4 * 8 * 16)
	c.Array.WeightSets = fig(1)
	c.Accumulator.Bytes = fig(256)
	c.Scratchpad.Bytes = fig(24 << 10)
	return c
}

// manyChip has two dies of three clusters each.
func manyChip() *arch.Chip {
	c := &arch.Chip{Name: "many", Kind: "pim",
		ClockMHz: fig(500), Dies: fig(2), ClustersPerDie: fig(3), MeshColumns: fig(2), IssueCycles: fig(1), CoresPerCluster: fig(8)}
	c.Array = arch.Array{Rows: fig(16), Cols: fig(8), ColsInt4: fig(16), InputBitsPerCycle: fig(1), WeightSets: fig(2), PipelineCycles: fig(4)}
	c.WeightSRAM = arch.WeightSRAM{Bytes: fig(64 << 10), PortBytes: fig(16)}
	c.Accumulator = arch.Accumulator{Bytes: fig(2048)}
	c.Scratchpad = arch.Scratchpad{Bytes: fig(256 << 10), ReadBytes: fig(32), WriteBytes: fig(32)}
	c.Vector = arch.Vector{Lanes: fig(16), F32Lanes: fig(8), StartCycles: fig(4), MACsPerLane: fig(4), F32OpsPerSpecial: fig(8)}
	c.NoC = arch.NoC{LinkBytes: fig(16), HopCycles: fig(2)}
	c.DieLink = arch.Link{GBs: fig(16), LatencyNS: fig(50)}
	c.DRAM = arch.DRAM{Kind: arch.Text{Value: "test"}, Bytes: fig(1 << 30), ChannelsPerDie: fig(1), GBs: fig(8), Ceiling: fig(1), LatencyNS: fig(100)}
	return c
}

// fixedGraph draws a float graph and takes it through the passes.
func fixedGraph(t *rapid.T, o irtest.Options) (g *ir.Graph, in []*ir.Tensor) {
	f := irtest.Graph(t, o)
	in = irtest.Inputs(t, f)
	q := passes.Quantisation{Inputs: [][]*ir.Tensor{in}, WeightBits: rapid.SampledFrom([]int{8, 4}).Draw(t, "weight bits")}
	q.Blocks = rapid.Bool().Draw(t, "blocks")
	q.Mixed = rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "mixed")
	res, err := passes.Run(f, passes.Config{Quant: q})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return res.Graph, in
}

// TestPlacement compiles random graphs for several chips; Compile proves each
// placement.
func TestPlacement(t *testing.T) {
	chips := []*arch.Chip{tinyChip(), manyChip()}
	failed := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		g, _ := fixedGraph(t, irtest.Options{})
		for _, c := range chips {
			p, err := Compile(g, c, Options{})
			if err != nil {
				failed[err.Error()]++
				continue
			}
			if err := isa.Validate(p); err != nil {
				t.Fatalf("%v\n%v", err, g)
			}
		}
	})
	for k, n := range failed {
		t.Logf("%d × %s", n, k)
	}
}
