package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"situ/models"
	"situ/runtime"
)

// Run writes the result of one model on one target.
func Run(w io.Writer, title string, r *runtime.Result) error {
	if r.Cycles == 0 { // functional only: nothing was timed
		if _, err := fmt.Fprintf(w, "%s\n\noutputs only: neither time nor energy was measured\n", title); err != nil {
			return err
		}
	} else if err := Compare(w, title, []*runtime.Result{r}, nil); err != nil {
		return err
	}
	if r.Mapping != "" {
		fmt.Fprintf(w, "\n%s\n", r.Mapping)
	}
	if r.Sequence != nil {
		sequence(w, r.Sequence)
	}
	if a := r.Agreement; a != nil {
		bits := "the same bits as the reference evaluator"
		if !a.BitExact {
			bits = "bits differ from the reference evaluator"
		}
		fmt.Fprintf(w, "\noutputs: %s; against the model as given: %s\n", bits, noise(a))
	}
	for _, o := range r.Outputs {
		fmt.Fprintf(w, "output %q %s[%s] sha256 %s\n", o.Name, o.Type, dimensions(o.Shape), o.SHA256[:16])
	}
	_, err := fmt.Fprintf(w, "emulated in %s here\n", Unit(r.HostSPerRun, "s"))
	return err
}

// sequence writes what steps with a cache that grows take.
func sequence(w io.Writer, s *runtime.Sequence) {
	many := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	fmt.Fprintf(w, "\n%s behind a cache of %d: %s, %s and %s of DRAM", many(s.Steps, "step"), s.Past, Unit(s.TimeS, "s"), Unit(s.EnergyJ, "J"), Bytes(s.DRAMBytes))
	if len(s.Runs) > 1 {
		fmt.Fprint(w, ", loading the second program included")
	}
	fmt.Fprintln(w)
	for _, r := range s.Runs {
		fmt.Fprintf(w, "  %s of %s: %s, %s and %s of DRAM", many(r.Steps, "step"), many(r.Tokens, "token"), Unit(r.TimeS, "s"), Unit(r.EnergyJ, "J"), Bytes(r.DRAMBytes))
		if r.Steps > 1 {
			fmt.Fprint(w, " each")
		}
		if r.State != nil {
			fmt.Fprintf(w, "; the cache is kept, with room for %d, all of which a step reads", r.Cache)
		} else {
			fmt.Fprint(w, "; the cache is read from DRAM and written there")
		}
		fmt.Fprintln(w)
	}
	if last := s.Runs[len(s.Runs)-1]; last.State != nil {
		fmt.Fprintln(w, "the figures above are those of a step of one token")
	}
}

// noise says how far outputs are from those of the model as given.
func noise(a *runtime.Agreement) string {
	switch {
	case a.MaxAbsError == 0:
		return "equal"
	case a.MaxAbsError == math.MaxFloat64:
		return "NaN or infinity on one side only"
	case a.SQNRdB == nil:
		return fmt.Sprintf("largest error %.4g, no signal to compare with", a.MaxAbsError)
	}
	return fmt.Sprintf("largest error %.4g, signal to quantisation noise %.1f dB", a.MaxAbsError, *a.SQNRdB)
}

// Compiled writes what compiling produced.
func Compiled(w io.Writer, path string, s *runtime.ProgramSummary) error {
	var g grid
	g.add("program", path)
	g.add("model", s.Model)
	g.add("target", s.Target)
	g.add("quantisation", s.Quant)
	g.add("clusters used", fmt.Sprintf("%d of %d", s.Clusters, s.ClustersTotal))
	g.add("instructions", fmt.Sprint(s.Instructions))
	g.add("weights", Bytes(s.WeightBytes))
	g.add("weight SRAM, a core", fmt.Sprintf("%s of %s", Bytes(s.WeightSRAM), Bytes(s.WeightSRAMTotal)))
	g.add("scratchpad, a cluster", fmt.Sprintf("%s of %s", Bytes(s.Scratchpad), Bytes(s.ScratchpadTotal)))
	g.add("file", Bytes(s.FileBytes))
	g.add("compiled in", Unit(s.CompileS, "s"))
	return g.write(w)
}

// Kernels describes a model compiled to GPU kernels.
func Kernels(w io.Writer, dir string, s *runtime.KernelSummary) error {
	var g grid
	g.add("folder", dir)
	g.add("model", s.Model)
	g.add("target", fmt.Sprintf("%s, sm_%d", s.Target, s.SM))
	g.add("quantisation", s.Quant)
	g.add("launches", fmt.Sprintf("%d of %d kernels", s.Launches, s.Kernels))
	g.add("weights and tables", Bytes(s.Constants))
	g.add("activations", Bytes(s.Arena))
	g.add("compiled in", Unit(s.CompileS, "s"))
	return g.write(w)
}

// Quantised writes what quantising produced.
func Quantised(w io.Writer, path string, s *runtime.QuantiseSummary) error {
	var g grid
	g.add("file", path)
	g.add("model", s.Model)
	g.add("quantisation", s.Quant)
	g.add("opset", fmt.Sprint(s.Opset))
	g.add("quantised activations", fmt.Sprint(s.Activations))
	g.add("quantised constants", fmt.Sprint(s.Weights))
	g.add("size", fmt.Sprintf("%s, was %s", Bytes(s.FileBytes), Bytes(s.FloatBytes)))
	return g.write(w)
}

// dB formats a ratio in decibels, nil being no noise at all.
func dB(v *float64) string {
	if v == nil {
		return "∞ (equal)"
	}
	return fmt.Sprintf("%.1f dB", *v)
}

// MeasuredAccuracy writes precisions side by side and the worst layers, all of
// them when most is 0.
func MeasuredAccuracy(w io.Writer, r *runtime.AccuracyReport, most int) error {
	fmt.Fprintf(w, "%s on %d inputs (%s)\n\n", r.Model, r.Inputs, r.Data)
	share := func(n int) string {
		return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(r.Inputs*max(r.Positions, 1)))
	}
	var g grid
	head := []string{"", "same class", "SQNR of output"}
	if r.Precisions[0].Right != nil {
		head = append(head, "top-1")
	}
	if r.Positions > 0 {
		head = append(head, "cross-entropy")
	}
	g.add(head...)
	for i, p := range r.Precisions {
		row := []string{p.Name, share(p.Same), dB(p.SQNRdB)}
		if i == 0 {
			row = []string{p.Name, "", ""}
		}
		if p.Right != nil {
			row = append(row, share(*p.Right))
		}
		if p.Nats != nil {
			row = append(row, fmt.Sprintf("%.4f nat", *p.Nats))
		}
		g.add(row...)
	}
	if err := g.write(w); err != nil {
		return err
	}
	for _, p := range r.Precisions {
		if len(p.Raised) > 0 {
			n := most
			if n == 0 {
				n = len(p.Raised)
			}
			fmt.Fprintf(w, "\n%s\n", wrap("in higher precision in "+p.Name+": "+raised(p.Raised, n)))
		}
	}
	layers := r.Layers
	if most > 0 {
		layers = layers[:min(most, len(layers))]
	}
	fmt.Fprintf(w, "\nsignal to quantisation noise in int8, %d worst of %d layers, on %d inputs\n\n", len(layers), len(r.Layers), r.LayerRuns)
	var l grid
	l.add("layer", "after it", "of what it reads")
	for _, n := range layers {
		reads := "–"
		if n.Operands != nil {
			reads = dB(n.Operands)
		}
		l.add(fmt.Sprintf("%s %q", n.Op, n.Node), dB(n.SQNRdB), reads)
	}
	return l.write(w)
}

// Check writes one line a test.
func Check(w io.Writer, r runtime.CheckResult) error {
	mark := "pass"
	if !r.Pass {
		mark = "FAIL"
	}
	line := fmt.Sprintf("%s  %s", mark, r.Name)
	if r.MaxAbsError != nil && r.MaxRelError != nil {
		line = fmt.Sprintf("%s  %-44s max error %.3g (%.2g of magnitude)", mark, r.Name, *r.MaxAbsError, *r.MaxRelError)
	}
	if r.SQNRdB != nil && r.Executor != "eval" {
		line += fmt.Sprintf(", SQNR %.1f dB", *r.SQNRdB)
	}
	switch {
	case r.HostShare == 1:
		line += ", all of it on the host"
	case r.HostShare > 0:
		line += fmt.Sprintf(", %s on the host", runtime.Percent(r.HostShare))
	}
	switch r.Raised {
	case 0:
	case 1:
		line += ", 1 layer in higher precision"
	default:
		line += fmt.Sprintf(", %d layers in higher precision", r.Raised)
	}
	if r.Reason != "" {
		line += "\n      " + r.Reason
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// Models lists models that ship.
func Models(w io.Writer, ms []models.Model) error {
	for _, m := range ms {
		var dims []string
		for _, d := range m.Dims {
			dims = append(dims, d.Name)
		}
		what := m.Description
		if len(dims) > 0 {
			what += fmt.Sprintf(" (--dim %s)", strings.Join(dims, ", "))
		}
		if _, err := fmt.Fprintf(w, "%-12s  %s; %s\n", m.Name, what, m.Source); err != nil {
			return err
		}
	}
	return nil
}

// Info writes what is in a model.
func Info(w io.Writer, i *runtime.ModelInfo) error {
	var g grid
	g.add("model", i.Name)
	if i.Opset > 0 {
		g.add("opset", fmt.Sprint(i.Opset))
	}
	if i.FileBytes > 0 {
		g.add("file", Bytes(i.FileBytes))
	}
	g.add("parameters", fmt.Sprint(i.Parameters))
	g.add("multiply-accumulates", fmt.Sprint(i.MACs))
	for _, t := range i.Inputs {
		g.add("input", fmt.Sprintf("%q %s[%s]", t.Name, t.Type, dimensions(t.Shape)))
	}
	for _, t := range i.Outputs {
		if t.Type == runtime.DataDecides {
			g.add("output", fmt.Sprintf("%q %s", t.Name, t.Type))
			continue
		}
		g.add("output", fmt.Sprintf("%q %s[%s]", t.Name, t.Type, dimensions(t.Shape)))
	}
	for _, d := range i.Dims {
		g.add("--dim "+d.Name, d.Doc)
	}
	for _, o := range i.Host {
		g.add("on the host "+o.Name, fmt.Sprint(o.Count))
	}
	for _, o := range i.Operators {
		g.add("IR operator "+o.Name, fmt.Sprint(o.Count))
	}
	return g.write(w)
}

// Archs lists architectures with their peaks.
func Archs(w io.Writer, as []runtime.ArchInfo) error {
	var g grid
	g.add("name", "int8 peak", "on-chip memory", "DRAM", "")
	for _, a := range as {
		g.add(a.Name, Unit(a.Int8OpsPerS, "OP/s"), Bytes(a.SRAMBytes), Unit(a.DRAMBytesPerS, "B/s"), a.Description)
	}
	return g.write(w)
}
