package timing

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"situ/emulator/effect"
)

// TestScoreboard compares the grouped pages with one time a byte page.
func TestScoreboard(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const size = 300_000
	var p pages
	p.reset(size, 64)
	n := (size-1)>>p.shift + 1
	written, read, left := make([]int64, n), make([]int64, n), make([]int64, n)
	for range 4000 {
		lo := rng.Int64N(size)
		hi := lo + rng.Int64N(size-lo)
		if rng.IntN(2) == 0 {
			hi = min(size, lo+rng.Int64N(500))
		}
		r := effect.Region{Lo: lo, Hi: hi, Write: rng.IntN(2) == 0}
		want, wantRemote := int64(5), int64(5)
		end := rng.Int64N(1000)
		departs := !r.Write && rng.IntN(2) == 0
		if hi > lo {
			for i := lo >> p.shift; i <= (hi-1)>>p.shift; i++ {
				want = max(want, written[i])
				wantRemote = max(wantRemote, read[i])
				if r.Write {
					want = max(want, read[i], left[i])
				}
			}
			for i := lo >> p.shift; i <= (hi-1)>>p.shift; i++ {
				switch {
				case departs:
					left[i] = max(left[i], end)
				case r.Write:
					written[i] = max(written[i], end)
				default:
					read[i] = max(read[i], end)
				}
			}
		}
		if got := p.ready(&r, 5); got != want {
			t.Fatalf("%+v is ready at %d, want %d", r, got, want)
		}
		if got := p.readyRemote(&r, 5); got != wantRemote {
			t.Fatalf("%+v is ready for a remote write at %d, want %d", r, got, wantRemote)
		}
		if departs {
			p.depart(&r, end)
		} else {
			p.set(&r, end)
		}
	}
}

// TestCountersFields: sums leave no counter out.
func TestCountersFields(t *testing.T) {
	var c Counters
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(10 * (i + 1)))
	}
	sum := c
	sum.Add(&c)
	sum.Div(4)
	for i := range v.NumField() {
		if got, want := reflect.ValueOf(sum).Field(i).Int(), int64(5*(i+1)); got != want {
			t.Errorf("%s: half of the double is %d, want %d", v.Type().Field(i).Name, got, want)
		}
	}
}
