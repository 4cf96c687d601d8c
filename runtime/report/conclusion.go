package report

import (
	"fmt"
	"strings"

	"situ/runtime"
)

// Conclusion says in one sentence for each batch which target needs least energy and
// at which level most of its advantage over the most hungry one lies. It is empty
// with fewer than two targets.
func Conclusion(rs []*runtime.Result) string {
	var order []int
	of := map[int][]*runtime.Result{}
	for _, r := range rs {
		if of[r.Batch] == nil {
			order = append(order, r.Batch)
		}
		of[r.Batch] = append(of[r.Batch], r)
	}
	var out []string
	for _, b := range order {
		if s := conclude(of[b], len(order) == 1); s != "" {
			if len(order) > 1 {
				s = fmt.Sprintf("Batch %d: %s", b, s)
			}
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// conclude is the sentence on results of one batch, and of the steady state where
// that is not what batches are for.
func conclude(rs []*runtime.Result, steady bool) string {
	if len(rs) < 2 {
		return ""
	}
	best, worst := rs[0], rs[1]
	for _, r := range rs {
		if r.Energy.Total < best.Energy.Total {
			best = r
		}
		if r.Energy.Total > worst.Energy.Total {
			worst = r
		}
	}
	if best.Energy.Total <= 0 || worst.Energy.Total/best.Energy.Total < 1.005 {
		return fmt.Sprintf("%s and %s need about the same energy.", best.Target, worst.Target)
	}
	gap := worst.Energy.Total - best.Energy.Total
	var at level
	var most float64
	for _, l := range levels {
		if d := l.energy(&worst.Energy) - l.energy(&best.Energy); d > most {
			most, at = d, l
		}
	}
	s := fmt.Sprintf("%s needs %s less energy per inference than %s; ", best.Target, Times(worst.Energy.Total/best.Energy.Total), worst.Target)
	numbers := fmt.Sprintf("%s against %s", Unit(at.energy(&best.Energy), "J"), Unit(at.energy(&worst.Energy), "J"))
	if share := most / gap; share > 1.005 {
		s += fmt.Sprintf("the difference is %s (%s): %s; in the rest together %s needs more.", at.name, at.why, numbers, best.Target)
	} else {
		s += fmt.Sprintf("%.0f %% of the difference is %s (%s): %s.", 100*share, at.name, at.why, numbers)
	}
	what := "One input"
	if best.Batch > 1 {
		what = "The batch"
	}
	if b, w := best.Steady.Total, worst.Steady.Total; steady && b > 0 && w > 0 {
		if b <= w {
			s += fmt.Sprintf(" At steady state it is %s against %s, %s less", Unit(b, "J"), Unit(w, "J"), Times(w/b))
		} else {
			s += fmt.Sprintf(" At steady state the order turns: %s against %s", Unit(b, "J"), Unit(w, "J"))
		}
		for _, r := range []*runtime.Result{best, worst} {
			if r.SteadyAlone {
				s += fmt.Sprintf(", but %s runs one input after the other there", r.Target)
			}
		}
		s += "."
	}
	if best.LatencyS > 1.05*worst.LatencyS {
		s += fmt.Sprintf(" %s takes it %s longer.", what, Times(best.LatencyS/worst.LatencyS))
	} else if worst.LatencyS > 1.05*best.LatencyS {
		s += fmt.Sprintf(" %s is also %s faster%s.", what, Times(worst.LatencyS/best.LatencyS), launching(worst))
	}
	return s
}

// launching says how much of a run goes into kernels that take no longer than their
// launch, where it is half or more.
func launching(r *runtime.Result) string {
	t := 0.0
	for i := range r.Layers {
		if r.Layers[i].Bound == "launch" {
			t += r.Layers[i].TimeS
		}
	}
	if t < r.LatencyS/2 {
		return ""
	}
	return fmt.Sprintf("; %s of %s's %s are kernels that take no longer than their launch", Unit(t, "s"), r.Target, Unit(r.LatencyS, "s"))
}
