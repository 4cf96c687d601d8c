package explore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"situ/arch"
	"situ/backend/pim"
	"situ/emulator/energy"
	"situ/emulator/timing"
	"situ/runtime"
	"situ/runtime/explore/store"
)

// ModelCost is what one model costs on one design.
type ModelCost struct {
	LatencyS      float64        `json:"latency_s"`       // of a batch
	ThroughputS   float64        `json:"throughput_s"`    // inferences a second; 0 when not asked for
	EnergyJ       float64        `json:"energy_j"`        // of one inference alone
	EnergySteadyJ float64        `json:"energy_steady_j"` // at steady state; 0 when not asked for
	Levels        runtime.Energy `json:"levels_j"`        // energy_j by level
	Clusters      int            `json:"clusters"`
	Streamed      bool           `json:"streamed"` // weights are read from DRAM in every inference
}

// metrics are the quantities of a design, each as far as it is known.
type metrics struct {
	obj          [numObjectives]span
	averagePower span
	area         arch.Band
	weightSRAM   float64
	scratchpads  float64
	cores        float64
	weights      float64
	streamed     span
}

// lookup returns a metric by name.
func (m *metrics) lookup(name string) (span, bool) {
	for o := range objectives {
		if objectives[o].metric == name {
			return m.obj[o], true
		}
	}
	switch name {
	case "average_power_w":
		return m.averagePower, true
	case "area_low_mm2":
		return exactly(m.area.Low), true
	case "area_high_mm2":
		return exactly(m.area.High), true
	case "weight_sram_total":
		return exactly(m.weightSRAM), true
	case "scratchpad_total":
		return exactly(m.scratchpads), true
	case "cores":
		return exactly(m.cores), true
	case "weights_bytes":
		return exactly(m.weights), true
	case "streamed":
		return m.streamed, true
	}
	return span{}, false
}

// cost returns the least an objective can be, such that less is better.
func (m *metrics) cost(o Objective) float64 {
	switch o {
	case Throughput:
		return 1 / m.obj[o].hi
	case Accuracy:
		return 1 - m.obj[o].hi
	}
	return m.obj[o].lo
}

// Value turns a cost back into the quantity people know.
func (o Objective) Value(cost float64) float64 {
	switch o {
	case Throughput:
		return 1 / cost
	case Accuracy:
		return 1 - cost
	}
	return cost
}

// costs returns the objectives of the space.
func (s *Space) costs(m *metrics) []float64 {
	v := make([]float64, len(s.Objectives))
	for i, o := range s.Objectives {
		v[i] = m.cost(o)
	}
	return v
}

// broken returns the first constraint that certainly does not hold, "" if none.
func (s *Space) broken(d *design, m *metrics) string {
	for i := range s.Constraints {
		v, err := s.Constraints[i].expr.eval(s.lookup(d, m.lookup))
		if err == nil && v == never {
			return fmt.Sprintf("constraint %q is not met", s.Constraints[i].Text)
		}
	}
	return ""
}

// asks reports whether an objective or a constraint needs one of the metrics.
func (s *Space) asks(of ...Objective) bool {
	found := false
	for _, o := range of {
		for _, p := range s.Objectives {
			found = found || p == o
		}
		for _, c := range s.Constraints {
			c.expr.names(func(e *expr) { found = found || e.name == objectives[o].metric })
		}
	}
	return found
}

// variant is a model at one precision and batch.
type variant struct {
	prepared *runtime.Prepared
	labels   sync.Mutex
	labelled *runtime.Labelled // nil without labelled inputs, or before they are needed
	top1     float64           // on the labelled inputs, when accuracy is asked for
	hash     string            // of the fixed-point graph
	batch    float64
	idle     chan *runtime.Pricer
}

type variantKey struct {
	model   int
	weights string
	batch   int64
}

// evaluator evaluates designs of a space. It is safe for concurrent use.
type evaluator struct {
	s        *Space
	steady   bool // figures at steady state are asked for
	accuracy bool
	st       *store.Store
	mu       sync.Mutex
	variants map[variantKey]*variant
	warnings []string
}

func newEvaluator(s *Space, st *store.Store) *evaluator {
	return &evaluator{
		s: s, st: st, steady: s.asks(Throughput, EnergySteady), accuracy: s.asks(Accuracy), variants: map[variantKey]*variant{},
	}
}

// idlePricers bounds the pricers of a variant that lie idle.
const idlePricers = 64

// variant prepares a model the first time it is needed.
func (ev *evaluator) variant(ctx context.Context, k variantKey) (*variant, error) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if v, ok := ev.variants[k]; ok {
		return v, nil
	}
	ref := &ev.s.Models[k.model]
	o := runtime.ModelOptions{Dims: map[string]int64{}, States: []string{runtime.AutoStates}}
	for d, n := range ref.Dims {
		o.Dims[d] = n
	}
	if ref.Batch != "" {
		o.Dims[ref.Batch] = k.batch
	}
	m, err := ev.s.open(ref, o)
	if err != nil {
		return nil, err
	}
	p, err := runtime.Prepare(ctx, m, runtime.QuantOptions{Weights: k.weights, Seed: ev.s.Seed})
	if err != nil {
		return nil, err
	}
	if err := p.LeaveFor(ev.s.Base); err != nil {
		return nil, err
	}
	v := &variant{prepared: p, batch: float64(k.batch), idle: make(chan *runtime.Pricer, idlePricers)}
	v.hash = hashOf([]byte(p.Fixed.String()))
	if p.Chip != p.Fixed { // what the host does is in no figure
		v.hash = hashOf([]byte(p.Chip.String()))
	}
	if ev.accuracy {
		if m.Ships == nil {
			return nil, fmt.Errorf("accuracy is asked for, but model %s ships no labelled inputs", ref.Name)
		}
		version, err := resultVersion()
		if err != nil {
			return nil, err
		}
		err = ev.once(ctx, StageFull, version+" top-1 "+v.hash, &v.top1, func() error {
			err := v.label(ctx)
			if err == nil && v.labelled == nil {
				err = fmt.Errorf("accuracy is asked for, but there are no labelled inputs of model %s with a batch of %d", ref.Name, k.batch)
			}
			if err == nil {
				v.top1 = v.labelled.Top1
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if m.Ships == nil {
		m.Graph = nil // the float weights are not needed again
	}
	if len(ev.variants) == 0 {
		ev.warnings = append(ev.warnings, p.Warnings...)
	}
	ev.variants[k] = v
	return v, nil
}

// label runs the reference evaluator on a variant's labelled inputs, if it has
// any.
func (v *variant) label(ctx context.Context) error {
	v.labels.Lock()
	defer v.labels.Unlock()
	if v.labelled != nil || v.batch != 1 {
		return nil
	}
	var err error
	v.labelled, err = runtime.NewLabelled(ctx, v.prepared)
	return err
}

// once fills a value from the store, or computes it and stores it.
func (ev *evaluator) once(ctx context.Context, stage, key string, value any, compute func() error) error {
	key = hashOf([]byte(key))
	b, ok, err := ev.st.Get(ctx, key)
	if err != nil {
		return err
	}
	if ok {
		return json.Unmarshal(b, value)
	}
	if err := compute(); err != nil {
		return err
	}
	if b, err = json.Marshal(value); err != nil {
		return err
	}
	return ev.st.Put(0, []store.Result{{Key: key, Stage: stage, Value: b}}, nil)
}

// of returns the variants that a design runs.
func (ev *evaluator) of(ctx context.Context, d *design) ([]*variant, error) {
	out := make([]*variant, len(ev.s.Models))
	for i := range out {
		var err error
		if out[i], err = ev.variant(ctx, variantKey{i, d.weights, d.batch}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pricer lends a pricer of a variant; give it back.
func (v *variant) pricer(c *arch.Chip) (*runtime.Pricer, error) {
	select {
	case p := <-v.idle:
		return p, nil
	default:
		return runtime.NewPricer(v.prepared, c)
	}
}

func (v *variant) back(p *runtime.Pricer) {
	select {
	case v.idle <- p:
	default:
	}
}

// counters returns work as the emulator counts it.
func counters(w *pim.Work) timing.Counters {
	return timing.Counters{
		MACs: w.MACs, MACsInt4: w.MACsInt4, BlockShifts: w.BlockShifts, VectorMACs: w.VectorMACs, VectorOps: w.VectorOps, FloatOps: w.FloatOps,
		ArrayWrite: w.ArrayWrite, InputLatch: w.InputLatch, AccRead: w.AccRead, AccWrite: w.AccWrite,
		WeightRead: w.WeightRead, WeightWrite: w.WeightWrite, SPRead: w.SPRead, SPWrite: w.SPWrite,
		NoCByteHops: w.NoCByteHops, Link: w.Link, DRAMRead: w.DRAMRead, DRAMWrite: w.DRAMWrite,
	}
}

// priced turns work into the cost of a model on a chip.
func priced(w *pim.Work, c *arch.Chip, v *variant) ModelCost {
	n := counters(w)
	ps := c.PeriodPS()
	e := energy.Of(&n, int64(w.Cycles*ps), c)
	m := ModelCost{LatencyS: w.Cycles * ps * 1e-12, EnergyJ: e.Total / v.batch, Levels: runtime.Energy(e), Streamed: w.Streamed}
	interval := w.Interval * ps * 1e-12
	m.ThroughputS = v.batch / interval
	m.EnergySteadyJ = (e.Total - e.Static + c.Power.StaticW.Value*interval) / v.batch
	return m
}

// roundingSlack is what the emulator's rounding of each time to picoseconds may
// take off a sum of times: half a picosecond of the shortest, a cycle at some
// hundred of them.
const roundingSlack = 0.998

// bound returns what no program on a design can do better than.
func (ev *evaluator) bound(ctx context.Context, d *design) (*metrics, []ModelCost, error) {
	vs, err := ev.of(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	costs := make([]ModelCost, len(vs))
	weights := int64(0)
	for i, v := range vs {
		p, err := v.pricer(d.chip)
		if err != nil {
			return nil, nil, err
		}
		w := p.Bound(d.chip)
		v.back(p)
		weights = max(weights, w.WeightBytes)
		w.Cycles *= roundingSlack
		w.Interval *= roundingSlack
		costs[i] = priced(&w, d.chip, v)
		// From one input to the next, arrays may keep their weights.
		w.WeightRead, w.ArrayWrite = 0, 0
		costs[i].EnergySteadyJ = priced(&w, d.chip, v).EnergySteadyJ
	}
	m, err := ev.combine(d, vs, costs)
	if err != nil {
		return nil, nil, err
	}
	m.weights = float64(weights)
	inf := math.Inf(1)
	for _, o := range []Objective{Latency, Energy, EnergySteady, EnergyDelay} {
		m.obj[o].hi = inf
	}
	m.obj[Throughput].lo = 0
	m.averagePower = span{d.chip.Power.StaticW.Value, inf}
	if m.streamed.lo == 0 {
		m.streamed = span{0, 1}
	}
	return m, costs, nil
}

// known keeps what the bound knew exactly when a better stage fills the rest.
func (m *metrics) known(bound *metrics) { m.weights = bound.weights }

// estimate plans the models for the design and runs the timing model: the same
// figures as emulate, without packing weights or proving placements.
func (ev *evaluator) estimate(ctx context.Context, d *design) ([]ModelCost, error) {
	return ev.price(ctx, d, func(v *variant) (runtime.Cost, error) {
		p, err := v.pricer(d.chip)
		if err != nil {
			return runtime.Cost{}, err
		}
		defer v.back(p)
		return p.Price(ctx, d.chip, d.clusters, ev.steady)
	})
}

// unfitError says that a model does not fit a design.
type unfitError struct{ err error }

func (e *unfitError) Error() string { return e.err.Error() }
func (e *unfitError) Unwrap() error { return e.err }

// emulate compiles the models for the design and runs the timing model.
func (ev *evaluator) emulate(ctx context.Context, d *design) ([]ModelCost, error) {
	return ev.price(ctx, d, func(v *variant) (runtime.Cost, error) {
		return runtime.Price(ctx, v.prepared, d.chip, d.clusters, ev.steady)
	})
}

// price asks for the cost of each model of a design. An unfitError says why one
// cannot run on it.
func (ev *evaluator) price(ctx context.Context, d *design, ask func(*variant) (runtime.Cost, error)) ([]ModelCost, error) {
	vs, err := ev.of(ctx, d)
	if err != nil {
		return nil, err
	}
	costs := make([]ModelCost, len(vs))
	for i, v := range vs {
		c, err := ask(v)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			return nil, &unfitError{err}
		}
		costs[i] = ModelCost{
			LatencyS: c.LatencyS, ThroughputS: c.ThroughputS * v.batch, EnergyJ: c.Energy.Total / v.batch,
			EnergySteadyJ: c.Steady.Total / v.batch, Levels: c.Energy, Clusters: c.Clusters, Streamed: c.Streamed,
		}
	}
	return costs, nil
}

// confirm runs the labelled inputs of all models of a design.
func (ev *evaluator) confirm(ctx context.Context, d *design) (*Confirmed, error) {
	vs, err := ev.of(ctx, d)
	if err != nil {
		return nil, err
	}
	c := &Confirmed{SameBits: true}
	for k, v := range vs {
		if err := v.label(ctx); err != nil {
			return nil, err
		}
		if v.labelled == nil {
			continue
		}
		top1, same, err := v.labelled.Emulate(ctx, d.chip, d.clusters)
		if err != nil {
			return nil, err
		}
		c.Models = append(c.Models, ev.s.Models[k].Name)
		c.Top1 = append(c.Top1, top1)
		c.SameBits = c.SameBits && same
	}
	return c, nil
}

// combine computes the metrics of a design from the costs of its models: the
// geometric mean over models of what scales with work, the worst power, the mean
// accuracy.
func (ev *evaluator) combine(d *design, vs []*variant, costs []ModelCost) (*metrics, error) {
	c := d.chip
	m := &metrics{cores: float64(c.Derived().Cores), weightSRAM: float64(c.Derived().WeightSRAMBytes), scratchpads: float64(c.Derived().ScratchpadBytes)}
	if c.NodeNM.Value > 0 {
		a, err := c.Area()
		if err != nil {
			return nil, err
		}
		m.area = a.Total()
	}
	mean := func(f func(*ModelCost) float64) span {
		if len(costs) == 1 {
			return exactly(f(&costs[0]))
		}
		sum := 0.0
		for i := range costs {
			sum += math.Log(f(&costs[i]))
		}
		return exactly(math.Exp(sum / float64(len(costs))))
	}
	m.obj[Latency] = mean(func(x *ModelCost) float64 { return x.LatencyS })
	m.obj[Throughput] = mean(func(x *ModelCost) float64 { return x.ThroughputS })
	m.obj[Energy] = mean(func(x *ModelCost) float64 { return x.EnergyJ })
	m.obj[EnergySteady] = mean(func(x *ModelCost) float64 { return x.EnergySteadyJ })
	m.obj[EnergyDelay] = mean(func(x *ModelCost) float64 { return x.EnergyJ * x.LatencyS })
	m.obj[Area] = exactly(m.area.Mid)
	m.obj[Power] = exactly(c.PeakPowerW())
	m.obj[Accuracy] = span{0, 1}
	if ev.accuracy {
		sum := 0.0
		for _, v := range vs {
			sum += v.top1
		}
		m.obj[Accuracy] = exactly(sum / float64(len(vs)))
	}
	power, streamed := 0.0, 0.0
	for i := range costs {
		power = max(power, costs[i].EnergyJ*vs[i].batch/costs[i].LatencyS)
		if costs[i].Streamed {
			streamed = 1
		}
	}
	m.averagePower, m.streamed = exactly(power), exactly(streamed)
	return m, nil
}

// metricsOf combines costs that were computed earlier, perhaps by another run.
func (ev *evaluator) metricsOf(ctx context.Context, d *design, costs []ModelCost, bound *metrics) (*metrics, error) {
	vs, err := ev.of(ctx, d)
	if err != nil {
		return nil, err
	}
	m, err := ev.combine(d, vs, costs)
	if err == nil {
		m.known(bound)
	}
	return m, err
}

// key identifies what a stage computes of a design, for the store.
func (ev *evaluator) key(ctx context.Context, stage string, d *design) (string, error) {
	vs, err := ev.of(ctx, d)
	if err != nil {
		return "", err
	}
	version, err := resultVersion()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s %d %v", version, stage, chipHash(d.chip), d.clusters, ev.steady)
	for _, v := range vs {
		fmt.Fprintf(h, " %s %g", v.hash, v.batch)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// resultVersion names what computes results: the hash of this program's own file.
// A change anywhere in cost model, compiler, emulator or energies is another
// program, so a store never answers with what an older one counted.
var resultVersion = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("naming the version of results: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("naming the version of results: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("naming the version of results: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
})
