package energy

import (
	"math"
	"reflect"
	"testing"

	"situ/emulator/internal/testchip"
	"situ/emulator/timing"
)

// TestEachCounter gives one counter at a time and looks where its energy goes.
func TestEachCounter(t *testing.T) {
	chip := testchip.New(1, 1)
	for _, c := range []struct {
		n     timing.Counters
		level string
		fj    float64 // of 1000
	}{
		{timing.Counters{MACs: 1000}, "Compute", 100},
		{timing.Counters{MACsInt4: 1000}, "Compute", 50},
		{timing.Counters{BlockShifts: 1000}, "Compute", 40},
		{timing.Counters{VectorMACs: 1000}, "Compute", 150},
		{timing.Counters{VectorOps: 1000}, "Compute", 200},
		{timing.Counters{FloatOps: 1000}, "Compute", 600},
		{timing.Counters{ArrayWrite: 1000}, "Register", 8 * 10},
		{timing.Counters{InputLatch: 1000}, "Register", 8 * 10},
		{timing.Counters{AccRead: 400, AccWrite: 600}, "Register", 8 * 5},
		{timing.Counters{WeightRead: 1000}, "SRAM", 8 * 20},
		{timing.Counters{WeightWrite: 1000}, "SRAM", 8 * 30},
		{timing.Counters{SPRead: 1000}, "SRAM", 8 * 40},
		{timing.Counters{SPWrite: 1000}, "SRAM", 8 * 50},
		{timing.Counters{NoCByteHops: 1000}, "NoC", 8 * 100},
		{timing.Counters{Link: 1000}, "Link", 8 * 500},
		{timing.Counters{DRAMRead: 300, DRAMWrite: 700}, "DRAM", 8 * 4000},
	} {
		j := reflect.ValueOf(Of(&c.n, 0, chip))
		want := c.fj * 1000 * 1e-15
		for i := range j.NumField() {
			name, got := j.Type().Field(i).Name, j.Field(i).Float()
			switch {
			case (name == c.level || name == "Total") && math.Abs(got-want) > 1e-6*want:
				t.Errorf("%+v: %s is %g J, want %g", c.n, name, got, want)
			case name != c.level && name != "Total" && got != 0:
				t.Errorf("%+v: %g J of %s", c.n, got, name)
			}
		}
	}
	if j := Of(&timing.Counters{}, 2e12, chip); math.Abs(j.Static-0.02) > 1e-12 || j.Total != j.Static {
		t.Errorf("two seconds at 10 mW are %+v", j)
	}
}
