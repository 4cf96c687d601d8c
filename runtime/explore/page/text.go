// Package page shows explorations: text for a terminal, and a self-contained HTML
// page with plots that it draws itself as SVG.
//
// To add a plot: a function that returns SVG in plots.go, and its place in
// page.html.
package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"situ/runtime/explore"
	"situ/runtime/explore/store"
	"situ/runtime/report"
)

// mostShown is how many designs of a front a terminal gets.
const mostShown = 20

// stageMeaning says what a stage is, for people.
var stageMeaning = map[string]string{
	explore.StageSpace:    "valid chips that meet constraints on parameters",
	explore.StageBound:    "closed-form bounds",
	explore.StageEstimate: "the compiler's cost model",
	explore.StageEmulate:  "compiled and run in the timing model",
	explore.StageFull:     "every labelled input, bit for bit",
}

// Text writes the report of a run.
func Text(w io.Writer, r *explore.Report) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s   %d of %s points   %s search   run %d   %.3g s\n\n", r.Name, r.Proposed, r.Size, r.Search, r.Run, r.Seconds)
	fmt.Fprintf(tw, "stage\tseen\tkept\tfrom the store\tdropped\n")
	for _, s := range r.Stages {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%s\n", s.Stage, s.Seen, s.Kept(), s.Remembered, reasons(s))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(r.Correlations) > 0 {
		fmt.Fprintf(w, "\nhow well a stage orders designs as the next one does (1: always)\n")
		for _, c := range r.Correlations {
			fmt.Fprintf(tw, "%s → %s\t%s\tKendall %s\tSpearman %s\t%d designs\tratio %.2f … %.2f\n",
				c.From, c.To, c.Objective, number(c.Kendall), number(c.Spearman), c.Designs, c.RatioMin, c.RatioMax)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	if len(r.Front) == 0 {
		fmt.Fprintf(w, "\nno design is left\n")
		for _, s := range r.Stages {
			if s.First != "" {
				fmt.Fprintf(w, "first dropped at stage %s: %s\n", s.Stage, s.First)
			}
		}
	} else {
		fmt.Fprintf(w, "\nfront: %d designs that no other beats in %s\n", len(r.Front), strings.Join(r.Objectives, ", "))
		if err := frontTable(tw, r); err != nil {
			return err
		}
	}
	for _, c := range r.Confirmed {
		for i, m := range c.Models {
			same := "the same bits as the reference evaluator"
			if !c.SameBits {
				same = "NOT the same bits as the reference evaluator"
			}
			fmt.Fprintf(w, "%s emulated in full: %s top-1 %.1f %%, %s\n", c.Point, m, 100*c.Top1[i], same)
		}
	}
	if r.Stopped != "" {
		fmt.Fprintf(w, "stopped early: %s\n", r.Stopped)
	}
	return nil
}

func number(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f", *v)
}

// reasons lists what a stage dropped, the most frequent reason first.
func reasons(s *explore.StageStats) string {
	kinds := make([]string, 0, len(s.Dropped))
	for k := range s.Dropped {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(cmp.Compare(s.Dropped[b], s.Dropped[a]), cmp.Compare(a, b)) })
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", s.Dropped[k], k)
	}
	return strings.Join(kinds, ", ")
}

func frontTable(tw *tabwriter.Writer, r *explore.Report) error {
	fmt.Fprint(tw, "point")
	for _, s := range r.Front[0].Settings {
		fmt.Fprintf(tw, "\t%s", s.Name)
	}
	for _, o := range r.Objectives {
		fmt.Fprintf(tw, "\t%s", o)
	}
	fmt.Fprintln(tw)
	for _, d := range r.Front[:min(mostShown, len(r.Front))] {
		fmt.Fprint(tw, d.Point)
		for _, s := range d.Settings {
			fmt.Fprintf(tw, "\t%s", s.Value)
		}
		for _, o := range r.Objectives {
			fmt.Fprintf(tw, "\t%s", value(o, d.Values[o]))
		}
		fmt.Fprintln(tw)
	}
	if n := len(r.Front) - mostShown; n > 0 {
		fmt.Fprintf(tw, "and %d more\n", n)
	}
	return tw.Flush()
}

// value writes an objective's value with its unit.
func value(objective string, v float64) string {
	o, ok := explore.ObjectiveNamed(objective)
	switch {
	case !ok:
		return fmt.Sprintf("%.4g", v)
	case o == explore.Accuracy:
		return fmt.Sprintf("%.2f %%", 100*v)
	case o == explore.Area && v >= 1000:
		return fmt.Sprintf("%.0f mm²", v)
	case o == explore.Area:
		return fmt.Sprintf("%.3g mm²", v)
	}
	return report.Unit(v, o.Unit())
}

// Inputs writes what a run followed from.
func Inputs(w io.Writer, run *store.Run) error {
	var in explore.Inputs
	if err := json.Unmarshal(run.Inputs, &in); err != nil {
		return fmt.Errorf("store: run %d: %w", run.ID, err)
	}
	fmt.Fprintf(w, "started %s, %s, seed %d, space %s, %s %s", run.Started.Format(time.DateTime), run.Version, run.Seed, in.Space, in.Base, in.Arch)
	for _, m := range slices.Sorted(maps.Keys(in.Models)) {
		fmt.Fprintf(w, ", %s %s", m, in.Models[m])
	}
	_, err := fmt.Fprint(w, "\n\n")
	return err
}

// Difference writes what differs between runs a and b.
func Difference(w io.Writer, a, b *store.Run, d *explore.Difference) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(d.Inputs) == 0 {
		fmt.Fprintf(w, "runs %d and %d follow from the same inputs\n", a.ID, b.ID)
	} else {
		fmt.Fprintf(tw, "input\trun %d\trun %d\n", a.ID, b.ID)
		for _, c := range d.Inputs {
			fmt.Fprintf(tw, "%s\t%s\t%s\n", c.What, c.A, c.B)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, l := range d.Space {
		fmt.Fprintf(w, "  %s\n", l)
	}
	fmt.Fprintf(w, "%d designs were emulated in both, %d with the same values\n", d.Compared, d.SameValues)
	for i, c := range d.Changed {
		if i == mostShown {
			fmt.Fprintf(tw, "and %d more\n", len(d.Changed)-mostShown)
			break
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", c.What, c.A, c.B)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, side := range []struct {
		run  int64
		only []string
	}{{a.ID, d.OnlyA}, {b.ID, d.OnlyB}} {
		fmt.Fprintf(w, "%d designs are on the front of run %d alone\n", len(side.only), side.run)
		for _, x := range side.only[:min(mostShown, len(side.only))] {
			fmt.Fprintf(w, "  %s\n", x)
		}
	}
	return nil
}
