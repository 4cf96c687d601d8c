package gpu

import "slices"

// reuse says what a program that runs again and again moves between L2 and DRAM
// because data does not stay in L2 from one launch to the next. The model is the
// reuse distance: what is touched between two uses of the same bytes, against the
// capacity. Inputs come from outside, so their first read in a run always goes to
// DRAM; outputs leave, so their last write does.
type reuse struct {
	capacity         float64
	constants, arena []float64 // bytes touched before each launch of two runs
	foot             []float64 // bytes touched by each launch
	arenaBytes       float64
	constantBytes    float64
}

// event is a launch touching a segment of a buffer.
type event struct {
	launch        int
	read, written float64
}

// segment is a piece of a buffer that launches touch in whole or not at all.
type segment struct {
	Place
	input, output bool
	events        []event
}

// crossings returns the bytes that each launch moves between L2 and DRAM, those
// that it moves more than once left out (see Counts.beyondFirst), and the share of
// the constants that stays in L2 from run to run.
func (p *Program) crossings(counts []Counts, capacity float64) (dram []float64, keeps float64) {
	n := len(counts)
	r := &reuse{capacity: capacity, foot: make([]float64, n), constants: make([]float64, 2*n+1), arena: make([]float64, 2*n+1)}
	for i := range 2 * n {
		var ofConstants, ofArena float64
		for _, t := range counts[i%n].Touched {
			if t.Buffer == Constants {
				ofConstants += t.Read
			} else {
				ofArena += max(t.Read, t.Written)
			}
		}
		r.foot[i%n] = ofConstants + ofArena
		r.constants[i+1], r.arena[i+1] = r.constants[i]+ofConstants, r.arena[i]+ofArena
	}
	for _, b := range p.Buffers {
		if b.Name == Constants {
			r.constantBytes = float64(b.Bytes)
		} else {
			r.arenaBytes = float64(b.Bytes)
		}
	}
	dram = make([]float64, n)
	var constants, missed float64
	for _, s := range p.segments(counts) {
		for k, e := range s.events {
			if e.read > 0 {
				miss := e.read * r.missed(&s, k)
				dram[e.launch] += miss
				if s.Buffer == Constants && k == 0 {
					constants += e.read
					missed += miss
				}
			}
			if e.written > 0 {
				dram[e.launch] += e.written * r.evicted(&s, k)
			}
		}
	}
	if constants > 0 {
		keeps = 1 - missed/constants
	}
	return dram, keeps
}

// missed is the share of the k-th event's bytes that L2 no longer has.
func (r *reuse) missed(s *segment, k int) float64 {
	switch {
	case k > 0:
		return 1 - r.kept(s.events[k-1].launch, s.events[k].launch)
	case s.input:
		return 1
	}
	return 1 - r.kept(s.events[len(s.events)-1].launch, s.events[0].launch+len(r.foot))
}

// evicted is the share of what the k-th event writes that L2 gives up before the
// bytes are written again.
func (r *reuse) evicted(s *segment, k int) float64 {
	share := 0.0
	for ; k+1 < len(s.events); k++ {
		share = max(share, 1-r.kept(s.events[k].launch, s.events[k+1].launch))
		if s.events[k+1].written > 0 {
			return share
		}
	}
	if s.output {
		return 1 // is read from outside when the run has ended
	}
	// The next run writes the bytes before it reads them.
	return max(share, 1-r.kept(s.events[k].launch, s.events[0].launch+len(r.foot)))
}

// kept is the share that stays in L2 from one launch to a later one, which may be
// of the next run. Elements are touched at the same relative place in both, so on
// average half of either's bytes lie between. Memory of activations is used again
// and again, and constants are the same in every run: neither counts twice.
func (r *reuse) kept(from, to int) float64 {
	n := len(r.foot)
	between := min(r.constants[to]-r.constants[from+1], r.constantBytes) + min(r.arena[to]-r.arena[from+1], r.arenaBytes)
	return hit((r.foot[from%n]+r.foot[to%n])/2+between, r.capacity)
}

// segments cuts buffers wherever a touch begins or ends.
func (p *Program) segments(counts []Counts) []segment {
	cuts := map[string][]int64{}
	cut := func(l Place) { cuts[l.Buffer] = append(cuts[l.Buffer], l.Offset, l.Offset+l.Bytes) }
	for i := range counts {
		for _, t := range counts[i].Touched {
			cut(t.Place)
		}
	}
	for _, ports := range [][]Port{p.Inputs, p.Outputs} {
		for _, port := range ports {
			cut(port.Place)
		}
	}
	var out []segment
	first := map[string]int{}
	for _, b := range p.Buffers {
		at := cuts[b.Name]
		slices.Sort(at)
		at = slices.Compact(at)
		cuts[b.Name], first[b.Name] = at, len(out)
		for i := 1; i < len(at); i++ {
			out = append(out, segment{Place: Place{Buffer: b.Name, Offset: at[i-1], Bytes: at[i] - at[i-1]}})
		}
	}
	within := func(l Place, f func(s *segment, share float64)) {
		at := cuts[l.Buffer]
		i, _ := slices.BinarySearch(at, l.Offset)
		for ; i+1 < len(at) && at[i] < l.Offset+l.Bytes; i++ {
			s := &out[first[l.Buffer]+i]
			f(s, float64(s.Bytes)/float64(l.Bytes))
		}
	}
	for i := range counts {
		for _, t := range counts[i].Touched {
			within(t.Place, func(s *segment, share float64) {
				if n := len(s.events); n == 0 || s.events[n-1].launch != i {
					s.events = append(s.events, event{launch: i})
				}
				e := &s.events[len(s.events)-1]
				e.read += share * t.Read
				e.written += share * t.Written
			})
		}
	}
	for _, port := range p.Inputs {
		within(port.Place, func(s *segment, _ float64) { s.input = true })
	}
	for _, port := range p.Outputs {
		within(port.Place, func(s *segment, _ float64) { s.output = true })
	}
	return out
}
