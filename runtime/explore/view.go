package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"situ/runtime/explore/store"
)

// Row is one point of a run, as the store has it.
type Row struct {
	Point, Stage, Fate, Reason string
	Settings                   []Setting
	PointResult
}

// Summary returns the report of a run, as far as it got.
func Summary(run *store.Run) (*Report, error) {
	var r Report
	if err := json.Unmarshal(run.Summary, &r); err != nil {
		return nil, fmt.Errorf("store: run %d: %w", run.ID, err)
	}
	return &r, nil
}

// Rows calls f for every point of a run.
func Rows(st *store.Store, run int64, f func(*Row) error) error {
	return st.Points(run, func(p store.Point) error {
		r := Row{Point: p.Point, Stage: p.Stage, Fate: p.Fate, Reason: p.Reason}
		if err := json.Unmarshal(p.Settings, &r.Settings); err != nil {
			return fmt.Errorf("store: point %s of run %d: %w", p.Point, run, err)
		}
		if err := json.Unmarshal(p.Result, &r.PointResult); err != nil {
			return fmt.Errorf("store: point %s of run %d: %w", p.Point, run, err)
		}
		return f(&r)
	})
}

// Difference is what differs between two runs.
type Difference struct {
	Inputs     []Change `json:"inputs"`
	Space      []string `json:"space"`    // lines of the space file, with − or + before
	OnlyA      []string `json:"only_a"`   // designs on the front of A alone
	OnlyB      []string `json:"only_b"`   // and of B
	Changed    []Change `json:"changed"`  // values of designs emulated in both
	Compared   int      `json:"compared"` // designs emulated in both
	SameValues int      `json:"same_values"`
}

// Change is a quantity that two runs have differently.
type Change struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Diff says what differs between two runs, in inputs and in results. Designs are
// the same when all their parameters are.
func Diff(st *store.Store, a, b *store.Run) (*Difference, error) {
	d := &Difference{}
	note := func(what, x, y string) {
		if x != y {
			d.Inputs = append(d.Inputs, Change{what, x, y})
		}
	}
	var ia, ib Inputs
	if err := json.Unmarshal(a.Inputs, &ia); err != nil {
		return nil, fmt.Errorf("store: run %d: %w", a.ID, err)
	}
	if err := json.Unmarshal(b.Inputs, &ib); err != nil {
		return nil, fmt.Errorf("store: run %d: %w", b.ID, err)
	}
	note("version", a.Version, b.Version)
	note("seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed))
	note("space", ia.Space, ib.Space)
	note("base", ia.Base, ib.Base)
	note("architecture", ia.Arch, ib.Arch)
	for _, m := range slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(ia.Models), sortedKeys(ib.Models)...)))) {
		note("model "+m, ia.Models[m], ib.Models[m])
	}
	la, lb := strings.Split(string(a.Space), "\n"), strings.Split(string(b.Space), "\n")
	for _, l := range la {
		if !slices.Contains(lb, l) {
			d.Space = append(d.Space, "- "+l)
		}
	}
	for _, l := range lb {
		if !slices.Contains(la, l) {
			d.Space = append(d.Space, "+ "+l)
		}
	}
	ra, err := emulated(st, a.ID)
	if err != nil {
		return nil, err
	}
	rb, err := emulated(st, b.ID)
	if err != nil {
		return nil, err
	}
	for _, k := range sortedKeys(ra) {
		x, y := ra[k], rb[k]
		if x.Fate == Front && (y == nil || y.Fate != Front) {
			d.OnlyA = append(d.OnlyA, k)
		}
		if y == nil {
			continue
		}
		d.Compared++
		same := true
		for _, o := range sortedKeys(x.Values) {
			if v, ok := y.Values[o]; ok && v != x.Values[o] {
				same = false
				d.Changed = append(d.Changed, Change{o + " of " + k, fmt.Sprintf("%.6g", x.Values[o]), fmt.Sprintf("%.6g", v)})
			}
		}
		if same {
			d.SameValues++
		}
	}
	for _, k := range sortedKeys(rb) {
		if rb[k].Fate == Front && (ra[k] == nil || ra[k].Fate != Front) {
			d.OnlyB = append(d.OnlyB, k)
		}
	}
	return d, nil
}

// emulated returns the designs of a run that were emulated, by their settings.
func emulated(st *store.Store, run int64) (map[string]*Row, error) {
	m := map[string]*Row{}
	err := Rows(st, run, func(r *Row) error {
		if r.Fate != Front && r.Fate != Dominated {
			return nil
		}
		var parts []string
		for _, s := range r.Settings {
			parts = append(parts, s.Name+"="+s.Value)
		}
		slices.Sort(parts)
		m[strings.Join(parts, " ")] = r
		return nil
	})
	return m, err
}
