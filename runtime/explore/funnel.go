package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"situ/runtime/explore/store"
)

// Stages of the funnel, from cheap to dear.
const (
	StageSpace    = "space"    // a valid chip that meets the constraints on parameters
	StageBound    = "bound"    // closed-form bounds
	StageEstimate = "estimate" // planned without weights, and run in the timing model
	StageEmulate  = "emulate"  // compiled, and run in the timing model
	StageFull     = "full"     // every labelled input, bit for bit
)

// Stages lists the stages in order.
var Stages = []string{StageSpace, StageBound, StageEstimate, StageEmulate, StageFull}

// Fates of a point.
const (
	Dropped   = "dropped"   // by a bound, a constraint or an estimate
	Dominated = "dominated" // emulated, and beaten by another
	Front     = "front"     // emulated, and beaten by none
	Failed    = "failed"    // a model does not fit
)

// candidate is a design that was neither dropped nor emulated yet.
type candidate struct {
	point Point
	bound *metrics
	lower []float64 // costs by the bound
	est   []float64 // costs by the estimate; nil before
	cost  []ModelCost
}

// engine runs one exploration.
type engine struct {
	s       *Space
	version string // of the results: resultVersion
	ev      *evaluator
	st      *store.Store
	run     int64
	uid     string // of the run
	opts    Options

	began    time.Time
	stats    map[string]*StageStats
	archive  archive              // emulated costs
	measured map[string]*Measured // of emulated designs
	pool     []candidate
	pairs    pairs
	halves   bool // successive halving: bounds and estimates keep a share instead of a margin
	stopped  string
	proposed uint64
	seen     atomic.Uint64 // points looked at so far, for those who watch
	total    uint64
	last     struct{ done, total uint64 } // of the designs that finish emulates
}

// pairs are costs of the same designs at successive stages, for rank
// correlations.
type pairs struct {
	bound, est        [][]float64 // of designs that were estimated, a sample
	estAt, emulatedAt [][]float64 // of designs that were emulated
	seen              uint64
}

// mostPairs bounds the sample of bounds and estimates that is kept.
const mostPairs = 20000

// Sizes of batches. They do not depend on the number of workers, so that a run
// makes the same decisions on any machine.
const (
	pointBatch   = 256
	emulateBatch = 16
	firstPilots  = 8 // of the first batch that are emulated at once
	pilots       = 2 // and of each later one
	mostPool     = 20000
)

func (e *engine) stage(name string) *StageStats { return e.stats[name] }

func (o *Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// verdict is what a stage says of one point.
type verdict struct {
	c      candidate
	stage  string
	fate   string // "" when it goes on
	kind   string // of the reason, for the report
	reason string
}

func (v *verdict) drop(stage, fate, kind, reason string) {
	v.stage, v.fate, v.kind, v.reason = stage, fate, kind, reason
}

// late reports whether a share of the time budget is used up.
func (e *engine) late(share float64) bool {
	t := e.s.Budget.Time
	return t > 0 && time.Since(e.began) > time.Duration(share*float64(t))
}

// explore proposes points and takes them through bounds and estimates, emulating
// a few of each batch so that bounds have something to lose against.
func (e *engine) explore(ctx context.Context) error {
	search, total := newProposer(e.s)
	e.total = total
	e.halves = e.s.Search.Method == "halving"
	for first := true; ; first = false {
		if e.late(0.6) {
			e.stopped = "the time budget's share for proposing was used up"
			break
		}
		points := search.next(pointBatch)
		if len(points) == 0 {
			break
		}
		begin := len(e.pool)
		told, err := e.look(ctx, points)
		if err != nil {
			return err
		}
		search.tell(told)
		if !e.halves {
			n := pilots
			if first {
				n = firstPilots
			}
			if err := e.pilot(ctx, begin, n); err != nil {
				return err
			}
		}
		if len(e.pool) > mostPool {
			if err := e.prune(); err != nil {
				return err
			}
		}
	}
	return nil
}

// look takes a batch through the space's constraints, bounds and, but for
// halving, estimates. Survivors go to the pool.
func (e *engine) look(ctx context.Context, points []Point) ([]scored, error) {
	vs := make([]verdict, len(points))
	ds := make([]*design, len(points))
	var ns atomic.Int64
	err := e.parallel(ctx, len(points), func(i int) error {
		v, d := &vs[i], e.s.design(points[i])
		v.c.point, ds[i] = points[i], d
		if d.err != nil {
			kind := "no valid chip"
			var broken *brokenError
			if errors.As(d.err, &broken) {
				kind = "breaks a constraint"
			}
			v.drop(StageSpace, Dropped, kind, d.err.Error())
			return nil
		}
		t := time.Now()
		err := e.look1(ctx, d, v)
		ns.Add(int64(time.Since(t)))
		return err
	})
	if err != nil {
		return nil, err
	}
	e.stage(StageBound).Seconds += float64(ns.Load()) * 1e-9
	var fresh []store.Result
	if !e.halves {
		if fresh, err = e.estimate(ctx, ds, vs); err != nil {
			return nil, err
		}
	}
	told := make([]scored, len(vs))
	for i := range vs {
		told[i] = scored{vs[i].c.point, vs[i].c.est}
		e.stage(StageSpace).Seen++
		if vs[i].stage != StageSpace {
			e.stage(StageBound).Seen++
			if vs[i].stage != StageBound && !e.halves {
				e.stage(StageEstimate).Seen++
			}
		}
		if vs[i].c.est != nil {
			e.pairs.sample(&vs[i].c)
		}
	}
	e.proposed += uint64(len(points))
	e.seen.Store(e.proposed)
	e.progress("looking", e.proposed, e.total)
	return told, e.settle(vs, fresh)
}

// look1 computes the bound.
func (e *engine) look1(ctx context.Context, d *design, v *verdict) error {
	m, _, err := e.ev.bound(ctx, d)
	if err != nil {
		return err
	}
	v.c.bound, v.c.lower = m, e.s.costs(m)
	v.stage = StageBound
	if why := e.s.broken(d, m); why != "" {
		v.drop(StageBound, Dropped, "breaks a constraint", why)
		return nil
	}
	if by := e.archive.beats(v.c.lower); by != "" {
		v.drop(StageBound, Dropped, "cannot beat an emulated design", "its bounds are dominated by what "+by+" measured")
		return nil
	}
	v.stage = ""
	return nil
}

// estimate estimates the designs whose verdicts have no fate yet.
func (e *engine) estimate(ctx context.Context, ds []*design, vs []verdict) ([]store.Result, error) {
	var at []int
	var left []*design
	for i := range vs {
		if vs[i].fate == "" {
			at, left = append(at, i), append(left, ds[i])
		}
	}
	answers, fresh, err := e.answers(ctx, StageEstimate, left)
	if err != nil {
		return nil, err
	}
	return fresh, e.parallel(ctx, len(at), func(k int) error {
		return e.estimated(ctx, left[k], &answers[k], &vs[at[k]])
	})
}

// estimated enters what the estimate of a design says into its verdict.
func (e *engine) estimated(ctx context.Context, d *design, a *answer, v *verdict) error {
	if a.Unfit != "" {
		v.drop(StageEstimate, Failed, "does not fit", a.Unfit)
		return nil
	}
	m, err := e.ev.metricsOf(ctx, d, a.Costs, v.c.bound)
	if err != nil {
		return err
	}
	v.c.cost, v.c.est = a.Costs, e.s.costs(m)
	if why := e.s.broken(d, m.widened(e.s.Funnel.Margin)); why != "" && !e.halves {
		v.drop(StageEstimate, Dropped, "breaks a constraint", "by its estimate, "+why)
	}
	return nil
}

// widened returns estimated metrics with a margin on both sides.
func (m *metrics) widened(margin float64) *metrics {
	w := *m
	for _, o := range []Objective{Latency, Throughput, Energy, EnergySteady, EnergyDelay} {
		w.obj[o] = span{m.obj[o].lo * (1 - margin), m.obj[o].hi * (1 + margin)}
	}
	w.averagePower = span{m.averagePower.lo * (1 - margin), m.averagePower.hi * (1 + margin)}
	return &w
}

// settle enters verdicts into the statistics and, with the results they follow
// from, into the store; survivors go to the pool.
func (e *engine) settle(vs []verdict, fresh []store.Result) error {
	var points []store.Point
	for i := range vs {
		v := &vs[i]
		if v.fate == "" {
			e.pool = append(e.pool, v.c)
			continue
		}
		e.stage(v.stage).dropped(v)
		p, err := e.record(v, v.c.est)
		if err != nil {
			return err
		}
		points = append(points, p)
	}
	return e.st.Put(e.run, fresh, points)
}

// record is the row of a point that reached its fate.
func (e *engine) record(v *verdict, costs []float64) (store.Point, error) {
	settings, err := json.Marshal(e.s.describe(v.c.point))
	if err != nil {
		return store.Point{}, err
	}
	result := []byte("{}")
	if costs != nil {
		if result, err = json.Marshal(PointResult{Values: e.s.values(costs), Models: v.c.cost}); err != nil {
			return store.Point{}, err
		}
	}
	return store.Point{Point: v.c.point.String(), Stage: v.stage, Fate: v.fate, Reason: v.reason, Settings: settings, Result: result}, nil
}

// values names costs as people know them.
func (s *Space) values(costs []float64) map[string]float64 {
	m := map[string]float64{}
	for i, o := range s.Objectives {
		if v := o.Value(costs[i]); !math.IsInf(v, 0) && !math.IsNaN(v) {
			m[o.String()] = v
		}
	}
	return m
}

func (p *pairs) sample(c *candidate) {
	if p.seen++; len(p.bound) < mostPairs {
		p.bound, p.est = append(p.bound, c.lower), append(p.est, c.est)
	}
}

// pilot emulates up to n of the pool from index begin on: those that no estimate
// of the batch beats and whose bounds are not beaten.
func (e *engine) pilot(ctx context.Context, begin, n int) error {
	batch := e.pool[begin:]
	costs := make([][]float64, len(batch))
	for i := range batch {
		costs[i] = batch[i].est
	}
	chosen := map[int]bool{}
	for _, i := range bestFirst(costs) {
		if len(chosen) == n {
			break
		}
		if e.archive.beats(batch[i].est) == "" {
			chosen[i] = true
		}
	}
	var chosenNow []candidate
	var stay []candidate
	for i := range batch {
		if chosen[i] {
			chosenNow = append(chosenNow, batch[i])
		} else {
			stay = append(stay, batch[i])
		}
	}
	e.pool = append(e.pool[:begin], stay...)
	return e.emulate(ctx, chosenNow)
}

// exact reports whether an objective is known before emulation.
func (o Objective) exact() bool { return o == Area || o == Power || o == Accuracy }

// worse reports whether estimated costs are beyond the margin behind others that
// are estimated too, or measured.
func (s *Space) worse(est, other []float64, measured bool) bool {
	below := false
	for i, o := range s.Objectives {
		a, b := est[i], other[i]
		if !o.exact() {
			a *= 1 - s.Funnel.Margin
			if !measured {
				b *= 1 + s.Funnel.Margin
			}
		}
		if b > a {
			return false
		}
		below = below || b < a
	}
	return below
}

// prune drops from the pool what estimates say is beaten.
func (e *engine) prune() error {
	var best archive
	for i := range e.pool {
		best.add(e.pool[i].est, e.pool[i].point.String())
	}
	vs := make([]verdict, len(e.pool))
	for i := range e.pool {
		v := &vs[i]
		v.c = e.pool[i]
		for j, c := range e.archive.costs {
			if e.s.worse(v.c.est, c, true) {
				v.drop(StageEstimate, Dropped, "beaten by its estimate", "its estimate is dominated by what "+e.archive.owners[j]+" measured")
				break
			}
		}
		for j, c := range best.costs {
			if v.fate != "" {
				break
			}
			if e.s.worse(v.c.est, c, false) {
				v.drop(StageEstimate, Dropped, "beaten by its estimate", "its estimate is dominated by that of "+best.owners[j])
			}
		}
	}
	e.pool = e.pool[:0]
	return e.settle(vs, nil)
}

// cut keeps the best share of the pool by costs, for successive halving.
func (e *engine) cut(stage string, costs func(*candidate) []float64) error {
	all := make([][]float64, len(e.pool))
	for i := range e.pool {
		all[i] = costs(&e.pool[i])
	}
	keep := int(math.Ceil(e.s.Search.Keep * float64(len(e.pool))))
	vs := make([]verdict, len(e.pool))
	for at, i := range bestFirst(all) {
		vs[i].c = e.pool[i]
		if at >= keep {
			vs[i].drop(stage, Dropped, "not in the share that halving keeps", fmt.Sprintf("place %d of %d by its %s", at+1, len(all), stage))
		}
	}
	e.pool = e.pool[:0]
	return e.settle(vs, nil)
}

// halve is the funnel of successive halving, after every point has its bound.
func (e *engine) halve(ctx context.Context) error {
	if err := e.cut(StageBound, func(c *candidate) []float64 { return c.lower }); err != nil {
		return err
	}
	vs := make([]verdict, len(e.pool))
	ds := make([]*design, len(e.pool))
	for i := range vs {
		vs[i].c, ds[i] = e.pool[i], e.s.design(e.pool[i].point)
	}
	fresh, err := e.estimate(ctx, ds, vs)
	if err != nil {
		return err
	}
	for i := range vs {
		e.stage(StageEstimate).Seen++
		if vs[i].c.est != nil {
			e.pairs.sample(&vs[i].c)
		}
	}
	e.pool = e.pool[:0]
	if err := e.settle(vs, fresh); err != nil {
		return err
	}
	return e.cut(StageEstimate, func(c *candidate) []float64 { return c.est })
}

// finish emulates what is left of the pool, the most promising first, and drops
// on the way what bounds show to be beaten.
func (e *engine) finish(ctx context.Context) error {
	var err error
	if e.halves {
		err = e.halve(ctx)
	} else {
		err = e.prune()
	}
	if err != nil {
		return err
	}
	costs := make([][]float64, len(e.pool))
	for i := range costs {
		costs[i] = e.pool[i].est
	}
	order := bestFirst(costs)
	queue := make([]candidate, len(order))
	for at, i := range order {
		queue[at] = e.pool[i]
	}
	e.pool = nil
	e.last.total = uint64(len(queue))
	for len(queue) > 0 {
		n := min(emulateBatch, len(queue))
		batch := queue[:n]
		queue = queue[n:]
		var vs []verdict
		var left []candidate
		for _, c := range batch {
			v := verdict{c: c}
			switch by := e.archive.beats(c.lower); {
			case by != "":
				v.drop(StageEstimate, Dropped, "cannot beat an emulated design", "its bounds are dominated by what "+by+" measured")
			case e.late(1):
				e.stopped = "the time budget was used up"
				v.drop(StageEstimate, Dropped, "budget used up", e.stopped)
			case e.stage(StageEmulate).Seen+len(left) >= e.s.Funnel.Emulate:
				v.drop(StageEstimate, Dropped, "beyond the number to emulate", fmt.Sprintf("%d designs were emulated before it", e.s.Funnel.Emulate))
			default:
				left = append(left, c)
				continue
			}
			vs = append(vs, v)
		}
		if err := e.settle(vs, nil); err != nil {
			return err
		}
		e.last.done = e.last.total - uint64(len(queue)+len(left))
		if err := e.emulate(ctx, left); err != nil {
			return err
		}
		e.progress("emulating", e.last.total-uint64(len(queue)), e.last.total)
	}
	return nil
}

// emulate runs designs in the timing model and enters them into the archive.
func (e *engine) emulate(ctx context.Context, cs []candidate) error {
	ds := make([]*design, len(cs))
	for i := range ds {
		ds[i] = e.s.design(cs[i].point)
	}
	answers, fresh, err := e.answers(ctx, StageEmulate, ds)
	if err != nil {
		return err
	}
	vs := make([]verdict, len(cs))
	costs := make([][]float64, len(cs))
	err = e.parallel(ctx, len(cs), func(i int) (err error) {
		vs[i].c = cs[i]
		costs[i], err = e.emulated(ctx, ds[i], &answers[i], &vs[i])
		return err
	})
	if err != nil {
		return err
	}
	st := e.stage(StageEmulate)
	var points []store.Point
	for i := range vs {
		v := &vs[i]
		st.Seen++
		if costs[i] != nil {
			e.pairs.estAt, e.pairs.emulatedAt = append(e.pairs.estAt, v.c.est), append(e.pairs.emulatedAt, costs[i])
		}
		if v.fate == "" {
			// Whether it stays on the front shows at the end.
			id := v.c.point.String()
			e.archive.add(costs[i], id)
			e.measured[id] = &Measured{point: v.c.point, costs: costs[i], models: v.c.cost}
			continue
		}
		st.dropped(v)
		p, err := e.record(v, costs[i])
		if err != nil {
			return err
		}
		points = append(points, p)
	}
	return e.st.Put(e.run, fresh, points)
}

// emulated enters what the emulation of a design says into its verdict, and
// returns its costs, nil where a model does not fit.
func (e *engine) emulated(ctx context.Context, d *design, a *answer, v *verdict) ([]float64, error) {
	if a.Unfit != "" {
		v.drop(StageEmulate, Failed, "does not fit", a.Unfit)
		return nil, nil
	}
	m, err := e.ev.metricsOf(ctx, d, a.Costs, v.c.bound)
	if err != nil {
		return nil, err
	}
	v.c.cost = a.Costs
	if why := e.s.broken(d, m); why != "" {
		v.drop(StageEmulate, Dropped, "breaks a constraint", why)
	}
	return e.s.costs(m), nil
}

// Measured is an emulated design that meets the constraints.
type Measured struct {
	point  Point
	costs  []float64
	models []ModelCost
}

// judge gives every emulated design its fate.
func (e *engine) judge() ([]string, error) {
	var front []string
	var points []store.Point
	for _, id := range sortedKeys(e.measured) {
		m := e.measured[id]
		v := verdict{c: candidate{point: m.point, cost: m.models}, stage: StageEmulate, fate: Front}
		if by := e.archive.beats(m.costs); by != "" {
			v.drop(StageEmulate, Dominated, "dominated", "by "+by)
			e.stage(StageEmulate).dropped(&v)
		} else {
			front = append(front, id)
		}
		p, err := e.record(&v, m.costs)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	slices.SortFunc(front, func(a, b string) int { return slices.Compare(e.measured[a].costs, e.measured[b].costs) })
	return front, e.st.Put(e.run, nil, points)
}

// confirm runs all labelled inputs on the finalists: the best of each objective,
// and others of the front.
func (e *engine) confirm(ctx context.Context, front []string) ([]Confirmed, error) {
	var chosen []string
	take := func(id string) {
		if len(chosen) < e.s.Funnel.Finalists && !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	for k := range e.s.Objectives {
		if len(front) > 0 {
			take(slices.MinFunc(front, func(a, b string) int { return compareFloat(e.measured[a].costs[k], e.measured[b].costs[k]) }))
		}
	}
	for _, id := range front {
		take(id)
	}
	e.progress("confirming", 0, uint64(len(chosen)))
	ds := make([]*design, len(chosen))
	for i := range chosen {
		ds[i] = e.s.design(e.measured[chosen[i]].point)
	}
	answers, fresh, err := e.answers(ctx, StageFull, ds)
	if err != nil {
		return nil, err
	}
	if err := e.st.Put(e.run, fresh, nil); err != nil {
		return nil, err
	}
	var out []Confirmed
	for i := range answers {
		switch a := &answers[i]; {
		case a.Unfit != "":
			return nil, fmt.Errorf("point %s: %s", chosen[i], a.Unfit)
		case a.Full.Models != nil: // some model ships labelled inputs
			a.Full.Point = chosen[i]
			out = append(out, *a.Full)
		}
	}
	full := e.stage(StageFull)
	full.Seen = len(chosen)
	if n := len(chosen) - len(out); n > 0 {
		full.Dropped["without labelled inputs"] = n
	}
	return out, nil
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
