package pim

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
	"situ/emulator/functional"
	"situ/ir/irtest"
)

// TestNumbers compiles random graphs of plain numbers and compares what the
// programs compute with the evaluator, bit for bit.
func TestNumbers(t *testing.T) {
	refused := map[string]int{}
	var ran, spilled, streamed, split, fused int
	rapid.Check(t, func(t *rapid.T) {
		g, in := irtest.Numbers(t)
		for _, c := range []*arch.Chip{tinyChip(), manyChip()} {
			c.Scratchpad.Bytes = fig(float64(int(2048) << rapid.IntRange(1, 7).Draw(t, "scratchpad")))
			p, err := choose(g, c, Options{Clusters: rapid.IntRange(1, c.NumClusters()).Draw(t, "clusters")})
			if err != nil {
				refused[err.Error()]++
				continue
			}
			ran++
			count(p, &spilled, &streamed, &split, &fused)
			if err := p.check(); err != nil {
				t.Fatalf("%v\n%v", err, g)
			}
			prog, err := p.program(Options{})
			if err != nil {
				t.Fatalf("%v", err)
			}
			sameBits(t, g, c, prog, in)
		}
	})
	t.Logf("%d programs ran, %d spilled, %d split over clusters, %d refused", ran, spilled, split, len(refused))
	for k, n := range refused {
		t.Logf("%d × %s", n, k)
	}
	if ran == 0 || split == 0 || 4*len(refused) > ran {
		t.Errorf("%d programs ran, %d split, %d refused: the graphs are not what they should be", ran, split, len(refused))
	}
}

// embedding is a table that stays in DRAM, or in the scratchpad when it is large
// enough, and token ids.
const embedding = `graph "g" {
	%0 = input "ids" : i64[1,3]
	%1 = const "table" : i8[5,16] scale=0.5 zero=0 {ROWS}
	%2 = gather %1, %0 {axis=0} : i8[1,3,16] scale=0.5 zero=0 @ "embed"
	output %2
}`

// TestIndexOutside runs look-ups whose indices are outside the table.
func TestIndexOutside(t *testing.T) {
	g := parse(t, strings.Replace(embedding, "ROWS", strings.Repeat("1, 2, 3, 4, 5, ", 15)+"1, 2, 3, 4, 5", 1))
	for _, bytes := range []float64{2048, 65536} {
		c := tinyChip()
		c.Scratchpad.Bytes = fig(bytes)
		p, err := Compile(g, c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if inDRAM := strings.Contains(listing(p), "gatherd"); inDRAM != (bytes == 2048) {
			t.Errorf("scratchpad of %g bytes: table in DRAM is %v", bytes, inDRAM)
		}
		m, err := functional.New(p, c)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]byte, 24)
		ids[8] = 4
		if _, err := m.Run(context.Background(), [][]byte{ids}); err != nil {
			t.Errorf("index 4 of 5: %v", err)
		}
		ids[8] = 5
		_, err = m.Run(context.Background(), [][]byte{ids})
		if err == nil || !strings.Contains(err.Error(), "embed") || !strings.Contains(err.Error(), "index 5 is outside a dimension of 5") {
			t.Errorf("index 5 of 5: %v", err)
		}
	}
}
