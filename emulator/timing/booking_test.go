package timing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainResource is a resource that looks at all gaps all the time.
type plainResource struct {
	free int64
	gaps []gap
}

func (r *plainResource) book(at, dur int64) int64 {
	for i := range r.gaps {
		g := &r.gaps[i]
		start := max(at, g.start)
		if start+dur > g.end {
			continue
		}
		if start-g.start >= g.end-start-dur {
			g.end = start
		} else {
			g.start = start + dur
		}
		return start
	}
	if at <= r.free {
		at = r.free
	} else if g := (gap{r.free, at}); len(r.gaps) < maxGaps {
		r.gaps = append(r.gaps, g)
	} else if least := slices.MinFunc(r.gaps, func(a, b gap) int { return int(a.length() - b.length()) }); least.length() < g.length() {
		r.gaps[slices.Index(r.gaps, least)] = g
	}
	r.free = at + dur
	return at
}

// TestBook holds bookings against those of a plain resource.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got resource
		var want plainResource
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "bookings") {
			now += rapid.Int64Range(0, 30).Draw(t, "later")
			at, dur := now+rapid.Int64Range(0, 300).Draw(t, "ahead"), rapid.Int64Range(0, 40).Draw(t, "time")
			if g, w := got.book(at, dur), want.book(at, dur); g != w {
				t.Fatalf("%d from %d on begins at %d, want %d", dur, at, g, w)
			}
		}
	})
}

// TestQueue holds the order of a queue against that of a sorted list; what is taken
// mostly comes back.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []entry
		push := func(e entry) {
			q.push(e)
			want = append(want, e)
			slices.SortFunc(want, func(a, b entry) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
		}
		for c := range rapid.IntRange(1, 40).Draw(t, "clusters") {
			push(entry{rapid.Int64Range(0, 20).Draw(t, "at"), c})
		}
		for len(want) > 0 {
			id, ok := q.take()
			if !ok || id != want[0].cluster {
				t.Fatalf("took %d, %v, want %v", id, ok, want[0])
			}
			at := want[0].at
			want = want[1:]
			if rapid.IntRange(0, 3).Draw(t, "back") > 0 && at < 200 {
				push(entry{at + rapid.Int64Range(0, 50).Draw(t, "later"), id})
			}
		}
		if _, ok := q.take(); ok {
			t.Fatal("an empty queue gave something")
		}
	})
}
