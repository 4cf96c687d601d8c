package runtime

import (
	"context"
	"testing"

	"situ/ir/irtest"
)

// TestBatchesGrow times batches of ResNet-18 on a card with half the scratchpad, dividing
// numbers of clusters and not: twice the batch takes at most twice the time, and where
// one no longer fits the scratchpads, needs no more energy an inference.
func TestBatchesGrow(t *testing.T) {
	ctx := context.Background()
	g, err := irtest.ResNet18(224)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(ctx, &Model{Name: "resnet18", Graph: g}, QuantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	target, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	target.Chip.Scratchpad.Bytes.Value = 512 << 10
	for _, first := range []int{1, 3} {
		last := Cost{}
		for n := first; n <= 256; n *= 2 {
			b, err := p.batch(n)
			if err != nil {
				t.Fatal(err)
			}
			pricer, err := NewPricer(b, target.Chip)
			if err != nil {
				t.Fatal(err)
			}
			c, err := pricer.Price(ctx, target.Chip, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("batch %d: %.1f µs, %.0f µJ each, %d clusters", n, c.LatencyS*1e6, c.Energy.Total/float64(n)*1e6, c.Clusters)
			if n > first && c.LatencyS > 2.02*last.LatencyS {
				t.Errorf("a batch of %d takes %.1f µs, one of %d %.1f µs", n, c.LatencyS*1e6, n/2, last.LatencyS*1e6)
			}
			if n >= 64 && c.Energy.Total > 2.02*last.Energy.Total {
				t.Errorf("a batch of %d needs %.3g J, one of %d %.3g J", n, c.Energy.Total, n/2, last.Energy.Total)
			}
			last = c
		}
	}
}
