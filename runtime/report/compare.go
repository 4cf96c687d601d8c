package report

import (
	"fmt"
	"io"
	"slices"
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
	row("figures", func(r *runtime.Result) string { return r.Method })
	if severalBatches(rs) || rs[0].Batch > 1 {
		row("batch", func(r *runtime.Result) string { return fmt.Sprint(r.Batch) })
	}
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
	kept := slices.ContainsFunc(rs, func(r *runtime.Result) bool { return r.State != nil })
	keptRow := func(name string, f func(*runtime.KeptState) int64) {
		row(name, func(r *runtime.Result) string {
			if r.State == nil {
				return ""
			}
			return Bytes(f(r.State))
		})
	}
	keptRow("state kept from run to run", func(s *runtime.KeptState) int64 { return s.ResidentBytes + s.SpilledBytes })
	keptRow("  of that in DRAM", func(s *runtime.KeptState) int64 { return s.SpilledBytes })
	keptRow("  replaced by a run", func(s *runtime.KeptState) int64 { return s.NewBytes })
	load := "resident weights, loaded once"
	if kept {
		load = "weights and state, loaded once"
	}
	row(load, func(r *runtime.Result) string {
		if r.Load == nil {
			return ""
		}
		return Bytes(r.Load.DRAMBytes)
	})
	row("  time to load them", func(r *runtime.Result) string {
		if r.Load == nil {
			return ""
		}
		return Unit(r.Load.TimeS, "s")
	})
	row("  energy to load them", func(r *runtime.Result) string {
		if r.Load == nil {
			return ""
		}
		return Unit(r.Load.EnergyJ, "J")
	})
	row("utilisation, one run", func(r *runtime.Result) string { return runtime.Percent(r.Utilisation) })
	row("utilisation, steady", func(r *runtime.Result) string { return runtime.Percent(r.UtilisationTP) })
	if err := g.write(w); err != nil {
		return err
	}
	var b strings.Builder
	if s := sameBits(rs); s != "" {
		b.WriteString("\n" + wrap(s) + "\n")
	}
	if acc != nil {
		fmt.Fprintf(&b, "\ntop-1 on %d test images: %s (float %s)", acc.Images, runtime.Percent(acc.Fixed), runtime.Percent(acc.Float))
		if acc.SameBits {
			b.WriteString("; emulator and reference evaluator agree on every bit of these, too")
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

// severalBatches reports whether results are told apart by their batch.
func severalBatches(rs []*runtime.Result) bool {
	return slices.ContainsFunc(rs, func(r *runtime.Result) bool { return r.Batch != rs[0].Batch })
}

// label names a result.
func label(r *runtime.Result, several bool) string {
	if several {
		return fmt.Sprintf("%s at batch %d", r.Target, r.Batch)
	}
	return r.Target
}

// sameBits says whose outputs have been compared with the reference evaluator's.
func sameBits(rs []*runtime.Result) string {
	var same, differ []string
	for _, r := range rs {
		switch {
		case r.Agreement == nil:
		case r.Agreement.BitExact:
			same = append(same, label(r, severalBatches(rs)))
		default:
			differ = append(differ, label(r, severalBatches(rs)))
		}
	}
	var parts []string
	switch {
	case len(same) == len(rs) && len(rs) > 2:
		parts = append(parts, "the same bits as the reference evaluator in every column")
	case same != nil:
		parts = append(parts, fmt.Sprintf("the same bits as the reference evaluator on %s", strings.Join(same, ", ")))
	}
	if differ != nil {
		parts = append(parts, fmt.Sprintf("other bits on %s", strings.Join(differ, ", ")))
	}
	if parts == nil {
		return ""
	}
	return "outputs: " + strings.Join(parts, "; ")
}

// notes lists what a reader must know of each target; what holds for all is said
// once.
func notes(rs []*runtime.Result) []string {
	var order []string
	of := map[string][]string{}
	for _, r := range rs {
		ns := r.Notes
		var host, float []runtime.Fallback
		for _, f := range r.Fallback {
			if f.On == runtime.OnHost {
				host = append(host, f)
			} else {
				float = append(float, f)
			}
		}
		if len(float) > 0 {
			ns = append([]string{"in float32: " + fallbacks(float)}, ns...)
		}
		if h := r.Host; h != nil {
			ns = append([]string{onHost(h, host)}, ns...)
		}
		if len(r.Raised) > 0 {
			ns = append([]string{"higher precision: " + raised(r.Raised, 4) + "; --mixed none shows time and energy without"}, ns...)
		}
		for _, n := range ns {
			if of[n] == nil {
				order = append(order, n)
			}
			of[n] = append(of[n], label(r, severalBatches(rs)))
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

func fallbacks(fs []runtime.Fallback) string {
	var parts []string
	for i, f := range fs {
		if i == 4 {
			parts = append(parts, fmt.Sprintf("and %d more", len(fs)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %q (%s of the element operations)", f.Op, f.Node, runtime.Percent(f.Share)))
	}
	return strings.Join(parts, ", ")
}

// onHost says what the host runs: its operators with their shares of the element
// operations, where those were counted.
func onHost(h *runtime.Host, fs []runtime.Fallback) string {
	const most = 6
	var parts []string
	for i, f := range fs {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(fs)-i))
			break
		}
		s := fmt.Sprintf("%s %q", f.Op, f.Node)
		if f.Share > 0 {
			s += fmt.Sprintf(" (%s)", runtime.Percent(f.Share))
		}
		parts = append(parts, s)
	}
	share := runtime.Percent(h.Share) + " of the element operations"
	if h.Uncounted {
		share = "how much is not counted without a run"
	}
	return fmt.Sprintf("on the host, whose time and energy are in none of the figures, %s: %s; %s go to it and %s come from it",
		share, strings.Join(parts, ", "), Bytes(h.BytesTo), Bytes(h.BytesFrom))
}

// raised lists at most most layers in higher precision.
func raised(rs []runtime.Raised, most int) string {
	var parts []string
	for i, r := range rs {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(rs)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %q (%s)", r.Op, r.Node, r.What))
	}
	return strings.Join(parts, ", ")
}
