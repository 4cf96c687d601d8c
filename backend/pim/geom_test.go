package pim

import (
	"testing"

	"pgregory.net/rapid"
)

func drawBox(t *rapid.T, label string) box {
	var b box
	for i := range b.lo {
		b.lo[i] = rapid.IntRange(-3, 3).Draw(t, label)
		b.hi[i] = b.lo[i] + rapid.IntRange(0, 4).Draw(t, label)
	}
	return b
}

func (b box) contains(p dims) bool {
	for i := range p {
		if p[i] < b.lo[i] || p[i] >= b.hi[i] {
			return false
		}
	}
	return true
}

// points yields every element of a box.
func (b box) points() []dims {
	var out []dims
	for n := b.lo[0]; n < b.hi[0]; n++ {
		for y := b.lo[1]; y < b.hi[1]; y++ {
			for x := b.lo[2]; x < b.hi[2]; x++ {
				for c := b.lo[3]; c < b.hi[3]; c++ {
					out = append(out, dims{n, y, x, c})
				}
			}
		}
	}
	return out
}

// TestMinus checks that what minus returns covers exactly the difference, each
// element once.
func TestMinus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, c := drawBox(t, "b"), drawBox(t, "c")
		parts := b.minus(c)
		for _, p := range b.points() {
			n := 0
			for _, part := range parts {
				if part.contains(p) {
					n++
				}
			}
			want := 1
			if c.contains(p) {
				want = 0
			}
			if n != want {
				t.Fatalf("%v minus %v = %v holds %v %d times, want %d", b, c, parts, p, n, want)
			}
		}
		for _, part := range parts {
			if !b.holds(part) {
				t.Fatalf("%v minus %v gives %v", b, c, part)
			}
		}
	})
}

// TestPieces checks that pieces cover a box in order, nearly equal, cut at
// multiples of the grain.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, n, grain := rapid.IntRange(1, 40).Draw(t, "size"), rapid.IntRange(1, 12).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "grain")
		parts := whole(dims{1, size, 1, 1}).pieces(1, n, grain)
		at, least, most := 0, size, 0
		for _, b := range parts {
			if b.lo[1] != at || b.empty() || b.lo[1]%grain != 0 {
				t.Fatalf("%v", parts)
			}
			at = b.hi[1]
			least, most = min(least, b.ext(1)), max(most, b.ext(1))
		}
		if at != size || len(parts) > n || most-least >= 2*grain {
			t.Fatalf("%d in %d by %d: %v", size, n, grain, parts)
		}
	})
}

// TestRuns checks that the runs of a strided access touch exactly the elements
// of the box, each once.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBox(t, "box")
		outer := drawBox(t, "outer").hull(b)
		elem := rapid.SampledFrom([]int{1, 4}).Draw(t, "element")
		depth := rapid.IntRange(0, 3).Draw(t, "depth")
		if b.empty() {
			return
		}
		v := dense(100, outer, elem)
		seen := map[int64]int{}
		runs(b.dims(), [3][4]int64{v.st}, [3]int64{int64(elem)}, 1, depth, [3]bool{}, func(off [3]int64, l [mostLoops]level, n int64, _ [3]bool) {
			for _, beyond := range l[depth:] {
				if beyond != (level{}) {
					t.Fatalf("loops %v, want %d", l, depth)
				}
			}
			var walk func(k int, at int64)
			walk = func(k int, at int64) {
				if k == depth {
					for i := range n {
						seen[at+i*int64(elem)]++
					}
					return
				}
				for i := range l[k].n {
					walk(k+1, at+i*l[k].st[0])
				}
			}
			walk(0, v.at(b.lo)+off[0])
		})
		for _, p := range b.points() {
			if seen[v.at(p)] != 1 {
				t.Fatalf("element %v at %d touched %d times", p, v.at(p), seen[v.at(p)])
			}
		}
		if len(seen) != len(b.points()) {
			t.Fatalf("%d places touched, the box has %d elements", len(seen), len(b.points()))
		}
	})
}
