package timing

// maxGaps is how many idle intervals a resource remembers.
const maxGaps = 8

// resource is a link or a channel that serves one transfer at a time. Transfers
// are booked in the order of the model, which is that of their start and not of
// their arrival here; a later booking may therefore fill a gap before an
// earlier one.
type resource struct {
	free int64 // end of the last booking
	gaps [maxGaps]gap
	n    int
}

// gap is an idle interval.
type gap struct{ start, end int64 }

// book reserves the resource for dur from at on, at the earliest, and returns
// the start.
func (r *resource) book(at, dur int64) int64 {
	for i := range r.gaps[:r.n] {
		g := &r.gaps[i]
		start := max(at, g.start)
		if start+dur > g.end {
			continue
		}
		// The longer rest of the gap stays, the other one is given up.
		if start-g.start >= g.end-start-dur {
			g.end = start
		} else {
			g.start = start + dur
		}
		return start
	}
	if at <= r.free {
		at = r.free
	} else {
		r.remember(gap{r.free, at})
	}
	r.free = at + dur
	return at
}

// remember keeps a gap, in place of the shortest when there are many.
func (r *resource) remember(g gap) {
	if r.n < maxGaps {
		r.gaps[r.n] = g
		r.n++
		return
	}
	least := 0
	for i := range r.gaps {
		if r.gaps[i].length() < r.gaps[least].length() {
			least = i
		}
	}
	if r.gaps[least].length() < g.length() {
		r.gaps[least] = g
	}
}

func (g gap) length() int64 { return g.end - g.start }
