package explore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"situ/runtime/explore/store"
)

// Options are choices of a run that do not change its outcome.
type Options struct {
	Workers  int            // 0 for all cores
	Resume   bool           // continue the latest run of the same space that was not finished
	Pool     Pool           // computes estimates and emulations on other machines; nil for this one
	Progress func(Progress) // called now and then, never twice at once; may be nil
}

// Progress says how far a run is.
type Progress struct {
	Doing       string // "looking", "estimating", "emulating" or "confirming"
	Done, Total uint64
	Front       int
}

// StageStats is what a stage saw and did.
type StageStats struct {
	Stage      string         `json:"stage"`
	Seen       int            `json:"seen"`
	Dropped    map[string]int `json:"dropped"`    // by kind of reason
	First      string         `json:"first"`      // reason, in full
	Remembered int            `json:"remembered"` // answered from the store
	Seconds    float64        `json:"seconds"`    // of all workers together
}

func (s *StageStats) dropped(v *verdict) {
	if s.First == "" {
		s.First = v.reason
	}
	s.Dropped[v.kind]++
}

// Kept returns how many went on.
func (s *StageStats) Kept() int {
	n := s.Seen
	for _, d := range s.Dropped {
		n -= d
	}
	return n
}

// PointResult is what is known of a point, as the store keeps it.
type PointResult struct {
	Values map[string]float64 `json:"values"` // by objective
	Models []ModelCost        `json:"models"`
}

// Design is a design of the front.
type Design struct {
	Point    string             `json:"point"`
	Settings []Setting          `json:"settings"`
	Values   map[string]float64 `json:"values"`
	Models   []ModelCost        `json:"models"`
}

// Confirmed is a finalist on which every labelled input was emulated.
type Confirmed struct {
	Point    string    `json:"point"`
	Models   []string  `json:"models"`
	Top1     []float64 `json:"top1"`
	SameBits bool      `json:"same_bits"` // as the reference evaluator, every output
}

// Correlation says how well a stage orders designs as the next one does.
type Correlation struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Objective string   `json:"objective"`
	Designs   int      `json:"designs"`
	Kendall   *float64 `json:"kendall"`  // nil when it is not defined
	Spearman  *float64 `json:"spearman"` // nil when it is not defined
	// Ratio of the later stage's value to the earlier one's.
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
}

// Report is the outcome of a run.
type Report struct {
	Run          int64         `json:"run"`
	Name         string        `json:"name"`
	Objectives   []string      `json:"objectives"`
	Size         string        `json:"size"` // points of the space
	Proposed     uint64        `json:"proposed"`
	Search       string        `json:"search"`
	Stages       []*StageStats `json:"stages"`
	Correlations []Correlation `json:"correlations"`
	Front        []Design      `json:"front"`
	Confirmed    []Confirmed   `json:"confirmed"`
	Stopped      string        `json:"stopped,omitempty"` // by the budget, and how
	Seconds      float64       `json:"seconds"`
	Warnings     []string      `json:"warnings,omitempty"`
	Resumed      bool          `json:"resumed"`
}

// Inputs are the hashes of what a run follows from.
type Inputs struct {
	Space  string            `json:"space"`
	Models map[string]string `json:"models"`
	Base   string            `json:"base"`
	Arch   string            `json:"architecture"`
}

// inputs hashes what a run follows from.
func (s *Space) inputs() (Inputs, error) {
	in := Inputs{Space: hashOf(s.Text), Models: map[string]string{}, Base: s.Base.Name, Arch: chipHash(s.Base)}
	for _, m := range s.Models {
		b, err := s.modelBytes(m)
		if err != nil {
			return in, err
		}
		in.Models[m.Name] = hashOf(b)
	}
	return in, nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Run explores a space and keeps everything in the store. When the context is
// cancelled it returns an error that wraps the context's; what was computed stays
// in the store, and a run with Resume goes on from there.
func Run(ctx context.Context, s *Space, st *store.Store, o Options) (*Report, error) {
	return newEvaluator(s, st).run(ctx, o)
}

// run explores the evaluator's space.
func (ev *evaluator) run(ctx context.Context, o Options) (*Report, error) {
	s, st := ev.s, ev.st
	in, err := s.inputs()
	if err != nil {
		return nil, err
	}
	inputs, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	version, err := resultVersion()
	if err != nil {
		return nil, err
	}
	e := &engine{s: s, version: version, ev: ev, st: st, opts: o, began: time.Now(), measured: map[string]*Measured{}, stats: map[string]*StageStats{}}
	for _, name := range Stages {
		e.stats[name] = &StageStats{Stage: name, Dropped: map[string]int{}}
	}
	identity := hashOf(fmt.Appendf(inputs, " %d %s", s.Seed, version))
	resumed, done, err := e.begin(identity, inputs)
	if err != nil || done != nil {
		return done, err
	}
	ended := e.beats()
	front, confirmed, err := e.pooled(ctx)
	ended()
	if err != nil {
		return nil, errors.Join(err, e.beat(store.Stopped))
	}
	r := e.report(front, confirmed)
	r.Resumed = resumed
	summary, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return r, st.Update(e.run, store.Done, r.Seconds, summary)
}

// beat tells the store how far the run is.
func (e *engine) beat(status string) error {
	summary, err := json.Marshal(&Report{Run: e.run, Name: e.s.Name, Proposed: e.seen.Load(), Search: e.s.Search.Method})
	if err != nil {
		return err
	}
	return e.st.Update(e.run, status, time.Since(e.began).Seconds(), summary)
}

// beats tells the store now and then that somebody works on the run, until stop is
// called.
func (e *engine) beats() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(store.BeatEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = e.beat(store.Running) // what matters is stored by others, who report errors
			}
		}
	}()
	return func() { close(done); <-ended }
}

// begin enters a run into the store, or finds the one to go on with; done is set
// when there is nothing left of it.
func (e *engine) begin(identity string, inputs []byte) (resumed bool, done *Report, err error) {
	if e.opts.Resume {
		runs, err := e.st.Runs(identity)
		if err != nil {
			return false, nil, err
		}
		if n := len(runs); n > 0 {
			last := &runs[n-1]
			if last.Status == store.Done {
				var r Report
				if err := json.Unmarshal(last.Summary, &r); err != nil {
					return false, nil, fmt.Errorf("store: run %d: %w", last.ID, err)
				}
				return true, &r, nil
			}
			e.run, e.uid = last.ID, last.UID
			e.began = e.began.Add(-time.Duration(last.Seconds * float64(time.Second))) // budgets are of the whole run
			return true, nil, e.st.Update(last.ID, store.Running, last.Seconds, last.Summary)
		}
	}
	r := store.Run{Identity: identity, Name: e.s.Name, Space: e.s.Text, Inputs: inputs, Seed: e.s.Seed, Version: e.version, Started: e.began}
	err = e.st.Begin(&r)
	e.run, e.uid = r.ID, r.UID
	return false, nil, err
}

// pooled runs the stages on the pool, if there is one.
func (e *engine) pooled(ctx context.Context) ([]string, []Confirmed, error) {
	pool := e.opts.Pool
	if pool == nil {
		return e.all(ctx)
	}
	job, err := e.s.job()
	if err != nil {
		return nil, nil, err
	}
	if err := pool.Begin(ctx, e.uid, job); err != nil {
		return nil, nil, err
	}
	front, confirmed, err := e.all(ctx)
	// The pool is told also when the run was interrupted.
	return front, confirmed, errors.Join(err, pool.End(context.WithoutCancel(ctx), err == nil))
}

// all runs the stages.
func (e *engine) all(ctx context.Context) ([]string, []Confirmed, error) {
	if err := e.explore(ctx); err != nil {
		return nil, nil, err
	}
	if err := e.finish(ctx); err != nil {
		return nil, nil, err
	}
	front, err := e.judge()
	if err != nil {
		return nil, nil, err
	}
	confirmed, err := e.confirm(ctx, front)
	return front, confirmed, err
}

func (e *engine) progress(doing string, done, total uint64) {
	if e.opts.Progress != nil {
		e.opts.Progress(Progress{doing, done, total, len(e.archive.costs)})
	}
}

// step tells of answered designs of a task, which may take long each.
func (e *engine) step(stage string, answered, of uint64) {
	switch {
	case stage == StageEstimate && e.halves:
		e.progress("estimating", answered, of)
	case stage == StageEstimate:
		e.seen.Store(min(e.proposed+answered, e.total))
		e.progress("looking", min(e.proposed+answered, e.total), e.total)
	case stage == StageEmulate && e.last.total > 0:
		e.progress("emulating", e.last.done+answered, e.last.total)
	case stage == StageFull:
		e.progress("confirming", answered, of)
	}
}

func (e *engine) report(front []string, confirmed []Confirmed) *Report {
	r := &Report{
		Run: e.run, Name: e.s.Name, Proposed: e.proposed, Search: e.s.Search.Method, Confirmed: confirmed,
		Stopped: e.stopped, Seconds: time.Since(e.began).Seconds(), Warnings: e.ev.warnings,
	}
	size, exact := e.s.Size()
	r.Size = fmt.Sprint(size)
	if !exact {
		r.Size = "more than " + r.Size
	}
	for _, o := range e.s.Objectives {
		r.Objectives = append(r.Objectives, o.String())
	}
	for _, name := range Stages {
		r.Stages = append(r.Stages, e.stats[name])
	}
	for _, id := range front {
		m := e.measured[id]
		r.Front = append(r.Front, Design{id, e.s.describe(m.point), e.s.values(m.costs), m.models})
	}
	correlated := func(from, to string, o Objective, a, b [][]float64, k int) {
		if len(a) > 0 {
			r.Correlations = append(r.Correlations, correlate(from, to, o, a, b, k))
		}
	}
	for k, o := range e.s.Objectives {
		if !o.exact() {
			correlated(StageBound, StageEstimate, o, e.pairs.bound, e.pairs.est, k)
			correlated(StageEstimate, StageEmulate, o, e.pairs.estAt, e.pairs.emulatedAt, k)
		}
	}
	return r
}

// correlate compares objective k of the same designs at two stages.
func correlate(from, to string, o Objective, a, b [][]float64, k int) Correlation {
	c := Correlation{From: from, To: to, Objective: o.String(), Designs: len(a)}
	x, y := make([]float64, len(a)), make([]float64, len(a))
	for i := range a {
		x[i], y[i] = a[i][k], b[i][k]
		q := y[i] / x[i]
		if i == 0 {
			c.RatioMin, c.RatioMax = q, q
		}
		c.RatioMin, c.RatioMax = min(c.RatioMin, q), max(c.RatioMax, q)
	}
	c.Kendall, c.Spearman = defined(Kendall(x, y)), defined(Spearman(x, y))
	return c
}

func defined(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
