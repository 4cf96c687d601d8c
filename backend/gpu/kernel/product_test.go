package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"situ/internal/fixed"
)

// TestFoldedTable: wherever a table is folded, its one product and shift give the code that
// internal/fixed defines, for the sums most likely to lie half-way as well.
func TestFoldedTable(t *testing.T) {
	folded := 0
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 1<<rapid.IntRange(1, 32).Draw(t, "bits")).Draw(t, "most")
		bias := int32(rapid.Int64Range(-min(most, math.MaxInt32), min(most, math.MaxInt32)).Draw(t, "bias"))
		zeros := rapid.IntRange(0, 30).Draw(t, "trailing zeros")
		m := (1<<30 | rapid.Int32Range(0, 1<<30-1).Draw(t, "m")) >> zeros << zeros
		s := Scale{M: max(m, 1<<30), Shift: rapid.IntRange(1, 62).Draw(t, "shift")}
		r := Range{Zero: rapid.Int32Range(-128, 255).Draw(t, "zero"), Lo: -128, Hi: 127}
		table, ok := foldedTable([]int32{bias}, []Scale{s}, r, most)
		if !ok {
			return
		}
		folded++
		start := int64(table[1])<<32 | int64(uint32(table[0]))
		check := func(total int64) { // a sum with its bias
			sum := total - int64(bias)
			if total < -most || total > most || sum < -most || sum > most {
				return
			}
			got := int32((sum*int64(table[2])+start)>>32) >> table[3]
			want := int64(r.Zero) + int64(fixed.Requantise(int32(total), fixed.Multiplier{M: s.M, Shift: uint8(s.Shift)}))
			if int64(got) != want {
				t.Errorf("sum %d: %d, want %d", sum, got, want)
			}
		}
		for i := range 32 {
			check(1 << i)
			check(-1 << i)
			check(3 << i)
		}
		for range 8 {
			check(rapid.Int64Range(-most, most).Draw(t, "total"))
		}
	})
	if folded == 0 {
		t.Error("no table was folded")
	}
}
