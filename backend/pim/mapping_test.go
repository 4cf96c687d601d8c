package pim

import (
	"testing"

	"pgregory.net/rapid"

	"situ/arch"
)

func mapperOf(c *arch.Chip) *mapper {
	mp := &mapper{}
	mp.on(c)
	return mp
}

// TestMap checks that a mapping stays within the machine and covers the problem.
func TestMap(t *testing.T) {
	c := manyChip()
	cores := c.CoresPerCluster.Int()
	rapid.Check(t, func(t *rapid.T) {
		p := Problem{
			M: rapid.Int64Range(1, 500).Draw(t, "M"), K: rapid.Int64Range(1, 600).Draw(t, "K"), N: rapid.Int64Range(1, 300).Draw(t, "N"),
			Groups: 1, Weights: arch.Weights{Bits: rapid.SampledFrom([]int{4, 8}).Draw(t, "bits")}, Slices: 1,
			Streamed: rapid.Bool().Draw(t, "streamed"), UnitTiles: rapid.Int64Range(1, 9).Draw(t, "unit"), Lean: rapid.Bool().Draw(t, "lean"),
		}
		m, ok := mapperOf(c).best(p)
		if !ok {
			t.Fatalf("%+v has no mapping", p)
		}
		if n := m.NTiles * m.KSplit * m.RSplit; n > cores || n < 1 {
			t.Fatalf("%+v: %+v uses %d of %d cores", p, m, n, cores)
		}
		if tiles := ceilDiv(p.N, c.Cols(p.Weights.Bits)); m.Chunks*m.NTiles < tiles || (m.Chunks-1)*m.NTiles >= tiles {
			t.Fatalf("%+v: %+v covers %d column tiles", p, m, tiles)
		}
		n := min(m.NTiles*c.Cols(p.Weights.Bits), p.N)
		if sums := 4 * n * ceilDiv(p.M, m.Strips); sums > accumulators(c) {
			t.Fatalf("%+v: %+v needs %d bytes of accumulators", p, m, sums)
		}
		if p.Streamed && m.CoreBytes > p.UnitTiles*c.TileBytes(p.Weights) {
			t.Fatalf("%+v: %+v holds more than a unit", p, m)
		}
		if m.Cycles < p.M*p.K*p.N/(cores*c.Array.Rows.Int()*c.Cols(p.Weights.Bits)) {
			t.Fatalf("%+v: %d cycles are fewer than the arrays need", p, m.Cycles)
		}
	})
}

// TestMoreCoresNoSlower checks that the estimate never grows with the machine.
func TestMoreCoresNoSlower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Problem{M: rapid.Int64Range(1, 200).Draw(t, "M"), K: rapid.Int64Range(1, 300).Draw(t, "K"),
			N: rapid.Int64Range(1, 100).Draw(t, "N"), Groups: 1, Weights: arch.Weights{Bits: 8}, Slices: 1}
		small, large := manyChip(), manyChip()
		n := rapid.Int64Range(1, 16).Draw(t, "cores")
		small.CoresPerCluster, large.CoresPerCluster = fig(float64(n)), fig(float64(2*n))
		// The accumulators belong to the cores; keep their sum.
		small.Accumulator.Bytes, large.Accumulator.Bytes = fig(4096), fig(2048)
		a, _ := mapperOf(small).best(p)
		b, _ := mapperOf(large).best(p)
		if b.Cycles > a.Cycles {
			t.Fatalf("%+v: %d cores %+v, %d cores %+v", p, n, a, 2*n, b)
		}
	})
}

// TestBestOfAll holds the mapping that is found with most others left out against
// the best of all.
func TestBestOfAll(t *testing.T) {
	mp := mapperOf(manyChip())
	rapid.Check(t, func(t *rapid.T) {
		p := Problem{
			M: rapid.Int64Range(1, 5000).Draw(t, "M"), K: rapid.Int64Range(1, 3000).Draw(t, "K"), N: rapid.Int64Range(1, 600).Draw(t, "N"),
			Groups: 1, Weights: arch.Weights{Bits: rapid.SampledFrom([]int{4, 8}).Draw(t, "bits")}, Slices: rapid.Int64Range(1, 2).Draw(t, "slices"),
			Streamed: rapid.Bool().Draw(t, "streamed"), UnitTiles: rapid.Int64Range(1, 9).Draw(t, "unit"), Lean: rapid.Bool().Draw(t, "lean"),
		}
		var want choice
		mp.each(p, func(m *Mapping) {
			if !want.ok || better(&p, m, &want.m) {
				want = choice{*m, true}
			}
		})
		if got, ok := mp.best(p); got != want.m || ok != want.ok {
			t.Fatalf("%+v: found %+v, the best is %+v", p, got, want.m)
		}
	})
}
