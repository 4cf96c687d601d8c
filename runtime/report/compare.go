package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"situ/runtime"
)

// level is one row of the energy split, from the inside out.
type level struct {
	name   string
	energy func(*runtime.Energy) float64
	why    string // why energy goes there, for the conclusion
}

var levels = []level{
	{"computing", func(e *runtime.Energy) float64 { return e.Compute }, "the arithmetic itself"},
	{"register and array", func(e *runtime.Energy) float64 { return e.Register }, "operands and partial sums beside the arithmetic"},
	{"SRAM", func(e *runtime.Energy) float64 { return e.SRAM }, "on-chip memory"},
	{"network-on-chip", func(e *runtime.Energy) float64 { return e.NoC }, "wires across the chip"},
	{"DRAM", func(e *runtime.Energy) float64 { return e.DRAM }, "memory outside the chip"},
	{"links between chips", func(e *runtime.Energy) float64 { return e.Link }, "links between chips"},
	{"network between nodes", func(e *runtime.Energy) float64 { return e.Network }, "the network between nodes"},
	{"standing still", func(e *runtime.Energy) float64 { return e.Static }, "power drawn for as long as the inference takes, whatever is computed"},
}

// Accuracy is a line about top-1 on labelled data, shown under the table.
type Accuracy struct {
	Images       int
	Float, Fixed float64 // shares of right answers
	SameBits     bool    // the executors compared agree
}

// Compare writes the table of one model on several targets and the sentence
// that says where the difference lies. acc may be nil.
func Compare(w io.Writer, title string, rs []*runtime.Result, acc *Accuracy) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", title); err != nil {
		return err
	}
	var g grid
	row := func(name string, f func(*runtime.Result) string) {
		cells := []string{name}
		any := false
		for _, r := range rs {
			c := f(r)
			any = any || c != ""
			cells = append(cells, c)
		}
		if any {
			g.add(cells...)
		}
	}
	row("", func(r *runtime.Result) string { return r.Target })
	row("latency", func(r *runtime.Result) string { return Unit(r.LatencyS, "s") })
	row("throughput, steady", func(r *runtime.Result) string { return Unit(r.ThroughputS, "/s") })
	row("energy per inference", func(r *runtime.Result) string { return Unit(r.Energy.Total, "J") })
	for _, l := range levels {
		if !anyEnergy(rs, l) {
			continue
		}
		row("  "+l.name, func(r *runtime.Result) string { return Unit(l.energy(&r.Energy), "J") })
	}
	row("energy per inference, steady", func(r *runtime.Result) string { return Unit(r.Steady.Total, "J") })
	row("  of that standing still", func(r *runtime.Result) string { return Unit(r.Steady.Static, "J") })
	g.add("bytes moved per inference")
	row("  register and array", func(r *runtime.Result) string { return Bytes(r.Bytes.Register) })
	row("  SRAM", func(r *runtime.Result) string { return Bytes(r.Bytes.SRAM) })
	row("  network-on-chip, × hops", func(r *runtime.Result) string { return Bytes(r.Bytes.NoC) })
	row("  DRAM", func(r *runtime.Result) string { return Bytes(r.Bytes.DRAM) })
	row("  DRAM × compulsory", func(r *runtime.Result) string {
		return fmt.Sprintf("%.2f", float64(r.Bytes.DRAM)/float64(max(1, r.Compulsory)))
	})
	row("resident weights, loaded once", func(r *runtime.Result) string {
		if r.Load == nil {
			return ""
		}
		return Bytes(r.Load.DRAMBytes) + ", " + Unit(r.Load.TimeS, "s") + ", " + Unit(r.Load.EnergyJ, "J")
	})
	row("utilisation, one input", func(r *runtime.Result) string { return percent(r.Utilisation) })
	row("utilisation, steady", func(r *runtime.Result) string { return percent(r.UtilisationTP) })
	if err := g.write(w); err != nil {
		return err
	}
	var b strings.Builder
	if acc != nil {
		fmt.Fprintf(&b, "\ntop-1 on %d test images: %s (float %s)", acc.Images, percent(acc.Fixed), percent(acc.Float))
		if acc.SameBits {
			b.WriteString("; emulator and reference evaluator agree on every bit")
		}
		b.WriteString("\n")
	}
	for _, n := range notes(rs) {
		b.WriteString("\n" + wrap(n))
	}
	if c := Conclusion(rs); c != "" {
		fmt.Fprintf(&b, "\n\n%s", wrap(c))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// notes lists what a reader must know of each target; what holds for all is said
// once.
func notes(rs []*runtime.Result) []string {
	var order []string
	of := map[string][]string{}
	for _, r := range rs {
		ns := r.Notes
		if len(r.Fallback) > 0 {
			ns = append([]string{"in float32: " + fallbacks(r.Fallback)}, ns...)
		}
		for _, n := range ns {
			if of[n] == nil {
				order = append(order, n)
			}
			of[n] = append(of[n], r.Target)
		}
	}
	for i, n := range order {
		if len(of[n]) < len(rs) || len(rs) == 1 {
			order[i] = strings.Join(of[n], ", ") + ": " + n
		} else {
			order[i] = "all: " + n
		}
	}
	return order
}

// wrap breaks a text into lines of at most 96 characters.
func wrap(s string) string {
	const width = 96
	var b strings.Builder
	n := 0
	for i, word := range strings.Split(s, " ") {
		l := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case n+1+l > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += l
	}
	return b.String()
}

func anyEnergy(rs []*runtime.Result, l level) bool {
	for _, r := range rs {
		if l.energy(&r.Energy) != 0 {
			return true
		}
	}
	return false
}

func percent(x float64) string {
	switch p := 100 * x; {
	case p == 0:
		return "0 %"
	case p < 0.1:
		return fmt.Sprintf("%.2g %%", p)
	case p < 10:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

func fallbacks(fs []runtime.Fallback) string {
	var parts []string
	for i, f := range fs {
		if i == 4 {
			parts = append(parts, fmt.Sprintf("and %d more", len(fs)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %q (%s of the element operations)", f.Op, f.Node, percent(f.Share)))
	}
	return strings.Join(parts, ", ")
}

// Conclusion says in one sentence which target needs least energy and at which
// level most of its advantage over the most hungry one lies. It is empty with
// fewer than two targets.
func Conclusion(rs []*runtime.Result) string {
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
	if b, w := best.Steady.Total, worst.Steady.Total; b > 0 && w > 0 {
		if b <= w {
			s += fmt.Sprintf(" At steady state it is %s against %s, %s less.", Unit(b, "J"), Unit(w, "J"), Times(w/b))
		} else {
			s += fmt.Sprintf(" At steady state the order turns: %s against %s.", Unit(b, "J"), Unit(w, "J"))
		}
	}
	if best.LatencyS > 1.05*worst.LatencyS {
		s += fmt.Sprintf(" One input takes it %s longer.", Times(best.LatencyS/worst.LatencyS))
	} else if worst.LatencyS > 1.05*best.LatencyS {
		s += fmt.Sprintf(" One input is also %s faster.", Times(worst.LatencyS/best.LatencyS))
	}
	return s
}
