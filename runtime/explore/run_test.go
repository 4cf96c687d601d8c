package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"situ/runtime/explore/store"
)

func openStore(t testing.TB, path string) *store.Store {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "runs.db")
	}
	st, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func parse(t testing.TB, text string) *Space {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mixed is a space with every kind of parameter, constraints on metrics, and
// designs that are no valid chips.
const mixed = `
models: [digits]
base: edge-dimc
parameters:
  array.rows: [48, 64, 128]
  array.cols: [32, 64]
  clusters_per_die: [1, 2]
  scratchpad.bytes: [4096, 32768]
  quant.weights: [int8, int4]
  speed:
    choose:
      slow: {clock_mhz: 150, power.static_w: 0.015}
      fast: {clock_mhz: 300, array.mac_energy_fj: 150, power.static_w: 0.03}
  weight_sram.bytes: 32768 * ceil(array.rows / 64)
constraints:
  - average_power_w <= 0.14
  - accuracy >= 0.9
  - streamed == 0
objectives: [latency, energy, throughput, accuracy]
`

// plain is mixed without what takes long. Its margin leaves many designs to
// emulate.
var plain = strings.NewReplacer("  - accuracy >= 0.9\n", "", "throughput, accuracy", "area").Replace(mixed) + "funnel: {finalists: 0, margin: 0.3}\n"

// everything emulates every valid design of a space.
func everything(t testing.TB, s *Space) (ev *evaluator, costs map[string][]float64, bounds map[string][]float64) {
	t.Helper()
	ctx := context.Background()
	ev = newEvaluator(s, openStore(t, ""))
	costs, bounds = map[string][]float64{}, map[string][]float64{}
	n, _ := s.Size()
	for i := range n {
		d := s.design(s.PointAt(i))
		if d.err != nil {
			continue
		}
		b, _, err := ev.bound(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ev.emulate(ctx, d)
		var unfit *unfitError
		if errors.As(err, &unfit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		est, err := ev.estimate(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(est, c) {
			t.Errorf("point %s: estimated %+v, emulated %+v", d.point, est, c)
		}
		m, err := ev.metricsOf(ctx, d, c, b)
		if err != nil {
			t.Fatal(err)
		}
		if broken := s.broken(d, m) != ""; s.broken(d, b) != "" && !broken {
			t.Errorf("point %s: its bound breaks a constraint that it meets", d.point)
		} else if broken {
			continue
		}
		costs[d.point.String()], bounds[d.point.String()] = s.costs(m), s.costs(b)
		for k, o := range s.Objectives {
			if low, real := s.costs(b)[k], s.costs(m)[k]; low > real*(1+1e-12) {
				t.Errorf("point %s: the bound of %s is %g, the emulator finds %g", d.point, o, low, real)
			}
		}
	}
	return ev, costs, bounds
}

func frontOf(costs map[string][]float64) []string {
	var a archive
	for _, id := range sortedKeys(costs) {
		a.add(costs[id], id)
	}
	return slices.Sorted(slices.Values(a.owners))
}

// Bounds are never above what the emulator finds, and estimates are what it finds,
// so no point of the front is ever dropped by one.
func TestNothingOfTheFrontIsDropped(t *testing.T) {
	example, err := Load(filepath.Join("..", "..", "docs", "examples", "digits.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sustained := strings.NewReplacer("  - accuracy >= 0.9\n", "", "latency, energy, throughput, accuracy", "throughput, energy_steady, area").Replace(mixed)
	for name, s := range map[string]*Space{"mixed": parse(t, mixed), "sustained": parse(t, sustained), "digits": example} {
		_, costs, _ := everything(t, s)
		if len(costs) < 10 {
			t.Fatalf("%s: only %d designs are valid", name, len(costs))
		}
		want := frontOf(costs)
		st := openStore(t, "")
		r, err := Run(context.Background(), s, st, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range r.Front {
			got = append(got, d.Point)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the funnel finds the front\n%v, exhaustive emulation\n%v", name, got, want)
		}
		byBound := 0
		err = st.Points(r.Run, func(p store.Point) error {
			if p.Stage == StageBound && p.Fate == Dropped {
				byBound++
				if slices.Contains(want, p.Point) {
					t.Errorf("%s: point %s of the front was dropped: %s", name, p.Point, p.Reason)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d valid designs, front of %d, %d dropped by bounds", name, len(costs), len(want), byBound)
		for _, c := range r.Confirmed {
			if !c.SameBits || c.Top1[0] < 0.9 {
				t.Errorf("%s: finalist %+v", name, c)
			}
		}
	}
}

// contents lists what a run left in a store.
func contents(t *testing.T, st *store.Store, run int64) string {
	t.Helper()
	var b strings.Builder
	if err := st.Points(run, func(p store.Point) error {
		fmt.Fprintln(&b, p.Point, p.Stage, p.Fate, p.Reason, string(p.Settings), string(p.Result))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The number of workers changes nothing, a second run computes nothing, and every
// point has one fate.
func TestReproducible(t *testing.T) {
	for _, method := range []string{"exhaustive", "random", "lhs", "nsga2", "halving"} {
		s := parse(t, plain+"search: {method: "+method+", population: 12}\nbudget: {points: 60}\n")
		var first string
		for _, workers := range []int{1, 5} {
			st := openStore(t, "")
			r, err := Run(context.Background(), s, st, Options{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			got := contents(t, st, r.Run)
			if n := strings.Count(got, "\n"); n != int(r.Proposed) || n > 60 || n < 30 {
				t.Errorf("%s: %d points proposed, %d have a fate", method, r.Proposed, n)
			}
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s: one worker and five differ", method)
			}
			_, times, err := st.Counts(StageEmulate)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Run(context.Background(), s, st, Options{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			if _, now, err := st.Counts(StageEmulate); err != nil || now != times {
				t.Errorf("%s: the second run emulated %d designs again (%v)", method, now-times, err)
			}
			if contents(t, st, again.Run) != first {
				t.Errorf("%s: the second run differs", method)
			}
			for _, stage := range r.Stages {
				if stage.Kept() < 0 {
					t.Errorf("%s: stage %s keeps %d", method, stage.Stage, stage.Kept())
				}
			}
		}
	}
}

// Other seeds propose other points.
func TestSeeds(t *testing.T) {
	for _, method := range []string{"random", "lhs", "nsga2"} {
		var all []string
		for _, seed := range []string{"1", "1", "2"} {
			p, _ := newProposer(parse(t, mixed+"search: {method: "+method+"}\nbudget: {points: 20}\nseed: "+seed+"\n"))
			all = append(all, fmt.Sprint(p.next(20)))
		}
		if all[0] != all[1] || all[0] == all[2] {
			t.Errorf("%s: seeds 1, 1 and 2 propose\n%s", method, strings.Join(all, "\n"))
		}
	}
}

// A Latin hypercube of n points takes each value of a parameter of n values once.
func TestHypercube(t *testing.T) {
	s := parse(t, "models: [digits]\nbase: edge-dimc\nobjectives: [latency]\nsearch: {method: lhs}\nbudget: {points: 16}\nparameters:\n  array.rows: {from: 8, to: 128, step: 8}\n  vector.lanes: {from: 1, to: 16, step: 1}\n")
	p, n := newProposer(s)
	points := p.next(100)
	if n != 16 || len(points) != 16 {
		t.Fatalf("%d points of %d", len(points), n)
	}
	for k := range s.Params {
		seen := map[uint16]bool{}
		for _, x := range points {
			seen[x[k]] = true
		}
		if len(seen) != 16 {
			t.Errorf("parameter %s takes %d of 16 values", s.Params[k].Name, len(seen))
		}
	}
}

// A run that is cancelled goes on where it was.
func TestResume(t *testing.T) {
	s := parse(t, plain)
	whole := openStore(t, "")
	r, err := Run(context.Background(), s, whole, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, whole, r.Run)
	st := openStore(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	_, err = Run(ctx, s, st, Options{Progress: func(p Progress) {
		if p.Doing == "emulating" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run gives %v", err)
	}
	runs, err := st.Runs("")
	if err != nil || len(runs) != 1 || runs[0].Status != store.Stopped {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	if sum, err := Summary(&runs[0]); err != nil || sum.Proposed == 0 || runs[0].Seconds == 0 {
		t.Errorf("the stopped run is said to have looked at nothing: %+v, %v", sum, err)
	}
	_, before, _ := st.Counts(StageEmulate)
	r2, err := Run(context.Background(), s, st, Options{Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	if r2.Run != runs[0].ID || !r2.Resumed {
		t.Errorf("run %d was not resumed but %d begun", runs[0].ID, r2.Run)
	}
	if got := contents(t, st, r2.Run); got != want {
		t.Error("a resumed run differs from an uninterrupted one")
	}
	results, times, _ := st.Counts(StageEmulate)
	if before == 0 || results != times {
		t.Errorf("%d emulations before the cancel, %d results emulated %d times", before, results, times)
	}
	// Resuming what is done answers at once.
	r3, err := Run(context.Background(), s, st, Options{Resume: true})
	if err != nil || r3.Run != r2.Run || len(r3.Front) != len(r2.Front) {
		t.Errorf("resuming a finished run: %v, %v", r3, err)
	}
}

// A run that is cancelled in the middle of a batch keeps what it has, and does only
// the rest again.
func TestCancelAmid(t *testing.T) {
	s := parse(t, plain)
	st := openStore(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, s, st, Options{Workers: 1, Progress: func(p Progress) {
		if p.Done >= 20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run gives %v", err)
	}
	if n, times, err := st.Counts(StageEstimate); err != nil || n != 20 || times != 20 {
		t.Errorf("cancelled at 20 designs: %d are kept, stored %d times (%v)", n, times, err)
	}
	r, err := Run(t.Context(), s, st, Options{Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Stages[2].Remembered; got != 20 {
		t.Errorf("%d estimates came from the store, want 20", got)
	}
	for _, stage := range []string{StageEstimate, StageEmulate} {
		if n, times, err := st.Counts(stage); err != nil || n != times || n == 0 {
			t.Errorf("%s: %d results, stored %d times (%v)", stage, n, times, err)
		}
	}
}

// Hypervolume against sums that can be done by hand, and against sampling.
func TestHypervolume(t *testing.T) {
	if v := Hypervolume([][]float64{{1, 3}, {2, 2}, {3, 1}, {3, 3}, {5, 0}}, []float64{4, 4}); v != 6 {
		t.Errorf("hypervolume %g, want 6", v)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 4; n++ {
		var costs [][]float64
		ref := slices.Repeat([]float64{1}, n)
		for range 12 {
			c := make([]float64, n)
			for k := range c {
				c[k] = rng.Float64()
			}
			costs = append(costs, c)
		}
		hits, tries := 0, 40000
		for range tries {
			x := make([]float64, n)
			for k := range x {
				x[k] = rng.Float64()
			}
			if slices.ContainsFunc(costs, func(c []float64) bool { return dominates(c, x) }) {
				hits++
			}
		}
		if got, want := Hypervolume(costs, ref), float64(hits)/float64(tries); math.Abs(got-want) > 0.01 {
			t.Errorf("%d objectives: %g, by sampling %g", n, got, want)
		}
	}
}

func TestRanksAndCorrelation(t *testing.T) {
	costs := [][]float64{{1, 4}, {4, 1}, {2, 5}, {2, 2}, {5, 5}, {2, 2}}
	if got := ranks(costs); !slices.Equal(got, []int{0, 0, 1, 0, 2, 0}) {
		t.Errorf("ranks %v", got)
	}
	if got := bestFirst(costs); got[len(got)-1] != 4 || got[len(got)-2] != 2 {
		t.Errorf("order %v", got)
	}
	x := []float64{1, 2, 3, 4, 5}
	if k, s := Kendall(x, []float64{2, 3, 5, 8, 9}), Spearman(x, []float64{1, 4, 9, 16, 25}); k != 1 || math.Abs(s-1) > 1e-12 {
		t.Errorf("same order: τ %g, ρ %g", k, s)
	}
	// By hand: pairs (1,2) reversed of ten.
	if k := Kendall(x, []float64{2, 1, 3, 4, 5}); math.Abs(k-0.8) > 1e-12 {
		t.Errorf("τ %g, want 0.8", k)
	}
	if s := Spearman(x, []float64{1, 1, 2, 2, 3}); math.Abs(s-0.94868329805) > 1e-9 {
		t.Errorf("ρ with ties %g", s)
	}
	if !math.IsNaN(Kendall(x[:2], x[:2])) {
		t.Error("a correlation of two")
	}
}

// Every search against exhaustive search by hypervolume; the numbers are in
// docs/exploring.md.
func TestSearches(t *testing.T) {
	load := func(extra string) *Space {
		path := filepath.Join("..", "..", "docs", "examples", "digits.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(path, append(text, extra...))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	st := openStore(t, "")
	front := func(s *Space) [][]float64 {
		r, err := Run(context.Background(), s, st, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var costs [][]float64
		for _, d := range r.Front {
			var c []float64
			for _, o := range s.Objectives {
				c = append(c, math.Log(d.Values[o.String()]))
			}
			costs = append(costs, c)
		}
		return costs
	}
	best := front(load(""))
	ref := slices.Clone(best[0])
	for _, c := range best {
		for k := range ref {
			ref[k] = max(ref[k], c[k])
		}
	}
	for k := range ref {
		ref[k] += 0.1
	}
	whole := Hypervolume(best, ref)
	least := map[string]float64{"random": 0.75, "lhs": 0.75, "nsga2": 0.9, "halving": 0.75}
	for _, method := range slices.Sorted(maps.Keys(least)) {
		var shares []float64
		for seed := 1; seed <= 5; seed++ {
			got := front(load(fmt.Sprintf("search: {method: %s, population: 24}\nfunnel: {finalists: 0}\nbudget: {points: 144}\nseed: %d\n", method, seed)))
			shares = append(shares, Hypervolume(got, ref)/whole)
		}
		slices.Sort(shares)
		t.Logf("%s: a quarter of the points reaches %.3f of the hypervolume (median of 5 seeds; %.3f … %.3f)", method, shares[2], shares[0], shares[4])
		if shares[2] < least[method] || shares[4] > 1+1e-9 {
			t.Errorf("%s: shares of the hypervolume %v", method, shares)
		}
	}
}

// A space of designs that are no chips says why the first is none.
func TestNoChip(t *testing.T) {
	r, err := Run(t.Context(), parse(t, "models: [digits]\nbase: edge-dimc\nobjectives: [latency]\nparameters: {array.rows: [-5, -6]}\n"), openStore(t, ""), Options{})
	if err != nil || len(r.Front) > 0 || len(r.Correlations) > 0 || r.Stages[0].Dropped["no valid chip"] != 2 || !strings.Contains(r.Stages[0].First, "array.rows") {
		t.Errorf("%+v, %+v, %v", r, r.Stages[0], err)
	}
}

// Budgets end a run, and the report says so.
func TestBudget(t *testing.T) {
	r, err := Run(context.Background(), parse(t, plain+"budget: {time: 1ns}\n"), openStore(t, ""), Options{})
	if err != nil || r.Stopped == "" || r.Proposed != 0 {
		t.Errorf("a nanosecond: %+v, %v", r, err)
	}
	// The time of a run that was interrupted counts.
	s, st := parse(t, plain+"budget: {time: 50s}\n"), openStore(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, s, st, Options{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	run, err := st.Find(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Update(run.ID, store.Stopped, 100, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if r, err = Run(t.Context(), s, st, Options{Resume: true}); err != nil || !r.Resumed || r.Stopped == "" || r.Seconds < 100 {
		t.Errorf("resumed after 100 s of 50: %+v, %v", r, err)
	}
	r, err = Run(context.Background(), parse(t, strings.Replace(plain, "finalists: 0", "finalists: 0, emulate: 12", 1)), openStore(t, ""), Options{})
	if err != nil || r.Stages[3].Seen > 12 || r.Stages[2].Dropped["beyond the number to emulate"] == 0 {
		t.Errorf("twelve emulations: %+v, %v", r.Stages, err)
	}
}
