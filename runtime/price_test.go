package runtime

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"situ/backend/pim"
)

// sameCost holds what a Pricer says of a prepared model against programs that were
// compiled whole and loaded with every check: cycles, and bytes and energy at
// every level. One Pricer serves all chips, the first of them twice.
func sameCost(t *testing.T, p *Prepared, steady bool) {
	t.Helper()
	ctx := context.Background()
	var pricer *Pricer
	for _, on := range []string{"corsair-card", "corsair-chiplet", "edge-dimc", "corsair-card"} {
		target, err := OpenTarget(on)
		if err != nil {
			t.Fatal(err)
		}
		if pricer == nil {
			if pricer, err = NewPricer(p, target.Chip); err != nil {
				t.Fatal(err)
			}
		}
		got, err := pricer.Price(ctx, target.Chip, 0, steady)
		if err != nil {
			t.Errorf("%s: %v", on, err)
			continue
		}
		want, err := price(ctx, target.Chip, 0, steady, func(o pim.Options) (*compiled, error) {
			return p.compile(target, o.Objective)
		})
		if err != nil {
			t.Errorf("%s: %v", on, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: the emulator (-) and the estimate (+) differ:\n%s", on, d)
		}
		t.Logf("%s on %s: estimated and emulated %d cycles, %d bytes of SRAM, %d of DRAM", p.Model.Name, on, got.Cycles, got.Bytes.SRAM, got.Bytes.DRAM)
	}
}
