package pim

import (
	"flag"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir/irtest"
)

// shifters gives a chip a shifter for so many rows.
func shifters(c *arch.Chip, rows float64) *arch.Chip {
	c.Array.ShiftRows, c.Array.ShiftEnergyFJ = fig(rows), fig(1)
	return c
}

// TestBlocks compiles products of weights in blocks for chips with shifters for 32,
// 16 and 8 rows and without any, with weight SRAM from one tile on, and compares
// bits with the evaluator.
func TestBlocks(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", "400"); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", f.DefValue)
	}
	var spilled, streamed, split, fused int
	var led, shifted, parts, refused int
	chips := []func() *arch.Chip{
		tinyChip, manyChip,
		func() *arch.Chip { return shifters(tinyChip(), 16) },
		func() *arch.Chip { return shifters(manyChip(), 8) },
		func() *arch.Chip {
			c := shifters(manyChip(), 32)
			c.Array.Rows = fig(64)
			return c
		},
		func() *arch.Chip { // shifters for 16 of 48 rows
			c := shifters(manyChip(), 32)
			c.Array.Rows = fig(48)
			return c
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		g, in := irtest.Blocked(t)
		c := chips[rapid.IntRange(0, len(chips)-1).Draw(t, "chip")]()
		if rapid.Bool().Draw(t, "small weight SRAM") {
			tile := max(c.TileBytes(arch.Weights{Bits: 8, Blocks: c.ShiftRows() > 0}), c.TileBytes(arch.Weights{Bits: 4, Blocks: c.ShiftRows() > 0}))
			c.WeightSRAM.Bytes = fig(float64(tile * rapid.Int64Range(1, 5).Draw(t, "tiles")))
		}
		p, err := choose(g, c, Options{Clusters: rapid.IntRange(1, c.NumClusters()).Draw(t, "clusters")})
		if err != nil {
			refused++
			t.Logf("%v", err)
			return
		}
		count(p, &spilled, &streamed, &split, &fused)
		if err := p.check(); err != nil {
			t.Fatalf("%v\n%v", err, g)
		}
		prog, err := p.program(Options{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, s := range prog.Main {
			for _, x := range s.Insts {
				switch x.Op {
				case isa.OpMVM:
					led += int(min(x.Args[isa.MVMRow0], 1))
					shifted += int(x.Args[isa.MVMShifts])
				case isa.OpShlAcc:
					parts++
				}
			}
		}
		sameBits(t, g, c, prog, in)
	})
	t.Logf("%d spilled, %d streamed, %d split; products: %d from a row other than 0, %d with shifts, %d in two parts; %d refused", spilled, streamed, split, led, shifted, parts, refused)
	if streamed == 0 || split == 0 || led == 0 || shifted == 0 || parts == 0 {
		t.Error("some way of holding weights in blocks was never taken")
	}
}
