package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"situ/runtime/explore/store"
)

// Stages of the funnel, from cheap to dear.
const (
	StageSpace    = "space"    // a valid chip that meets the constraints on parameters
	StageBound    = "bound"    // closed-form bounds
	StageEstimate = "estimate" // the compiler's cost model
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
	total    uint64
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

// parallel calls f for 0 … n−1 on all workers and returns the first error.
func (e *engine) parallel(ctx context.Context, n int, f func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(e.opts.workers(), max(n, 1)))
	var failed atomic.Bool
	for w := range errs {
		wg.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = ctx.Err(); errs[w] == nil {
					errs[w] = f(i)
				}
				if errs[w] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

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
	fresh  []store.Result
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
	var boundNS, estNS atomic.Int64
	err := e.parallel(ctx, len(points), func(i int) error {
		v := &vs[i]
		v.c.point = points[i]
		d := e.s.design(points[i])
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
		boundNS.Add(int64(time.Since(t)))
		if err != nil || v.fate != "" || e.halves {
			return err
		}
		t = time.Now()
		err = e.estimate(ctx, d, v)
		estNS.Add(int64(time.Since(t)))
		return err
	})
	if err != nil {
		return nil, err
	}
	e.stage(StageBound).Seconds += float64(boundNS.Load()) * 1e-9
	e.stage(StageEstimate).Seconds += float64(estNS.Load()) * 1e-9
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
	e.progress("looking", e.proposed, e.total)
	return told, e.settle(vs)
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

// estimate computes the estimate, or takes it from the store.
func (e *engine) estimate(ctx context.Context, d *design, v *verdict) error {
	costs, err := e.remembered(ctx, StageEstimate, d, v, e.ev.estimate)
	var unfit *unfitError
	if errors.As(err, &unfit) {
		v.drop(StageEstimate, Failed, "does not fit", unfit.Error())
		return nil
	}
	if err != nil {
		return err
	}
	m, err := e.ev.metricsOf(ctx, d, costs, v.c.bound)
	if err != nil {
		return err
	}
	v.c.cost, v.c.est = costs, e.s.costs(m)
	if why := e.s.broken(d, m.widened(e.s.Funnel.Margin)); why != "" && !e.halves {
		v.drop(StageEstimate, Dropped, "breaks a constraint", "by its estimate and beyond the margin, "+why)
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

// remembered answers a stage from the store, or computes it.
func (e *engine) remembered(ctx context.Context, stage string, d *design, v *verdict, compute func(context.Context, *design) ([]ModelCost, error)) ([]ModelCost, error) {
	key, err := e.ev.key(ctx, stage, d)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Costs []ModelCost `json:"costs,omitempty"`
		Unfit string      `json:"unfit,omitempty"`
	}
	b, ok, err := e.st.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if ok {
		if err := json.Unmarshal(b, &answer); err != nil {
			return nil, fmt.Errorf("store: result %s: %w", key, err)
		}
		e.stage(stage).remember()
		if answer.Unfit != "" {
			return nil, &unfitError{errors.New(answer.Unfit)}
		}
		return answer.Costs, nil
	}
	costs, err := compute(ctx, d)
	var unfit *unfitError
	if err != nil && !errors.As(err, &unfit) {
		return nil, err
	}
	answer.Costs = costs
	if unfit != nil {
		answer.Unfit = unfit.Error()
	}
	b, err2 := json.Marshal(answer)
	if err2 != nil {
		return nil, err2
	}
	v.fresh = append(v.fresh, store.Result{Key: key, Stage: stage, Value: b})
	return costs, err
}

// settle enters verdicts into the statistics and the store; survivors go to the
// pool.
func (e *engine) settle(vs []verdict) error {
	var results []store.Result
	var points []store.Point
	for i := range vs {
		v := &vs[i]
		results = append(results, v.fresh...)
		if v.fate == "" {
			e.pool = append(e.pool, v.c)
			continue
		}
		e.stage(v.stage).dropped(v.kind)
		p, err := e.record(v, v.c.est)
		if err != nil {
			return err
		}
		points = append(points, p)
	}
	return e.st.Put(e.run, results, points)
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

// prune drops from the pool what estimates say is beaten by more than the margin.
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
				v.drop(StageEstimate, Dropped, "estimated beyond the margin", "its estimate is beyond the margin behind what "+e.archive.owners[j]+" measured")
				break
			}
		}
		for j, c := range best.costs {
			if v.fate != "" {
				break
			}
			if e.s.worse(v.c.est, c, false) {
				v.drop(StageEstimate, Dropped, "estimated beyond the margin", "its estimate is beyond the margin behind that of "+best.owners[j])
			}
		}
	}
	e.pool = e.pool[:0]
	return e.settle(vs)
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
	return e.settle(vs)
}

// halve is the funnel of successive halving, after every point has its bound.
func (e *engine) halve(ctx context.Context) error {
	if err := e.cut(StageBound, func(c *candidate) []float64 { return c.lower }); err != nil {
		return err
	}
	vs := make([]verdict, len(e.pool))
	err := e.parallel(ctx, len(vs), func(i int) error {
		vs[i].c = e.pool[i]
		return e.estimate(ctx, e.s.design(vs[i].c.point), &vs[i])
	})
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
	if err := e.settle(vs); err != nil {
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
	total := uint64(len(queue))
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
		if err := e.settle(vs); err != nil {
			return err
		}
		if err := e.emulate(ctx, left); err != nil {
			return err
		}
		e.progress("emulating", total-uint64(len(queue)), total)
	}
	return nil
}

// emulate runs designs in the timing model and enters them into the archive.
func (e *engine) emulate(ctx context.Context, cs []candidate) error {
	vs := make([]verdict, len(cs))
	costs := make([][]float64, len(cs))
	var ns atomic.Int64
	err := e.parallel(ctx, len(cs), func(i int) error {
		v := &vs[i]
		v.c = cs[i]
		d := e.s.design(v.c.point)
		t := time.Now()
		models, err := e.remembered(ctx, StageEmulate, d, v, e.ev.emulate)
		ns.Add(int64(time.Since(t)))
		var unfit *unfitError
		if errors.As(err, &unfit) {
			v.drop(StageEmulate, Failed, "does not fit", unfit.Error())
			return nil
		}
		if err != nil {
			return err
		}
		for k := range models {
			models[k].Streamed, models[k].Clusters = v.c.cost[k].Streamed, v.c.cost[k].Clusters
		}
		m, err := e.ev.metricsOf(ctx, d, models, v.c.bound)
		if err != nil {
			return err
		}
		v.c.cost, costs[i] = models, e.s.costs(m)
		if why := e.s.broken(d, m); why != "" {
			v.drop(StageEmulate, Dropped, "breaks a constraint", why)
		}
		return nil
	})
	if err != nil {
		return err
	}
	st := e.stage(StageEmulate)
	st.Seconds += float64(ns.Load()) * 1e-9
	var results []store.Result
	var points []store.Point
	for i := range vs {
		v := &vs[i]
		st.Seen++
		results = append(results, v.fresh...)
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
		st.dropped(v.kind)
		p, err := e.record(v, costs[i])
		if err != nil {
			return err
		}
		points = append(points, p)
	}
	return e.st.Put(e.run, results, points)
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
			e.stage(StageEmulate).dropped(v.kind)
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
	out := make([]Confirmed, len(chosen))
	began := time.Now()
	for i := range chosen {
		d := e.s.design(e.measured[chosen[i]].point)
		vs, err := e.ev.of(ctx, d)
		if err != nil {
			return nil, err
		}
		key, err := e.ev.key(ctx, StageFull, d)
		if err != nil {
			return nil, err
		}
		if err := e.ev.once(ctx, StageFull, key, &out[i], func() (err error) {
			out[i], err = e.confirmOne(ctx, d, vs)
			return err
		}); err != nil {
			return nil, err
		}
		out[i].Point = chosen[i]
		e.progress("confirming", uint64(i+1), uint64(len(chosen)))
	}
	out = slices.DeleteFunc(out, func(c Confirmed) bool { return c.Models == nil })
	st := e.stage(StageFull)
	st.Seen, st.Seconds = len(out), time.Since(began).Seconds()
	return out, nil
}

// confirmOne runs the labelled inputs of all models of a design.
func (e *engine) confirmOne(ctx context.Context, d *design, vs []*variant) (Confirmed, error) {
	c := Confirmed{SameBits: true}
	for k, v := range vs {
		if err := v.label(ctx); err != nil {
			return c, err
		}
		if v.labelled == nil {
			continue
		}
		top1, same, err := v.labelled.Emulate(ctx, d.chip, d.clusters)
		if err != nil {
			return c, err
		}
		c.Models = append(c.Models, e.s.Models[k].Name)
		c.Top1 = append(c.Top1, top1)
		c.SameBits = c.SameBits && same
	}
	return c, nil
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
