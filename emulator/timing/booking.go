package timing

// maxGaps is how many idle intervals a resource remembers.
const maxGaps = 8

// resource is a link or a channel that serves one transfer at a time. Transfers
// are booked in the order of the model, which is that of their start and not of
// their arrival here; a later booking may therefore fill a gap before an
// earlier one.
type resource struct {
	free  int64 // end of the last booking
	until int64 // no gap ends later
	short int64 // while there are as many gaps as there can be, none is shorter
	n     int
	gaps  [maxGaps]gap
}

// gap is an idle interval.
type gap struct{ start, end int64 }

// book reserves the resource for dur from at on, at the earliest, and returns
// the start.
func (r *resource) book(at, dur int64) int64 {
	if at+dur <= r.until {
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
			r.short = min(r.short, g.length())
			return start
		}
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
	length := g.length()
	if r.n < maxGaps {
		if r.n == 0 || length < r.short {
			r.short = length
		}
		r.gaps[r.n] = g
		r.n++
		r.until = g.end
		return
	}
	if length <= r.short {
		return
	}
	least := 0
	for i := range r.gaps {
		if r.gaps[i].length() < r.gaps[least].length() {
			least = i
		}
	}
	if r.gaps[least].length() < length {
		r.gaps[least] = g
		r.until = g.end
	}
	r.short = length
	for i := range r.gaps {
		r.short = min(r.short, r.gaps[i].length())
	}
}

func (g gap) length() int64 { return g.end - g.start }
