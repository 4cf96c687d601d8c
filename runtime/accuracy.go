package runtime

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"situ/ir"
	"situ/ir/eval"
	"situ/passes"
)

// AccuracyReport compares precisions of one model on the same inputs.
type AccuracyReport struct {
	Model      string           `json:"model"`
	Data       string           `json:"data"`
	Inputs     int              `json:"inputs"`
	Positions  int              `json:"positions,omitempty"` // of each input with a class of its own; 0 when an input has one class
	Precisions []PrecisionScore `json:"precisions"`          // the model as given first
	Layers     []LayerNoise     `json:"layers"`              // of the int8 model, the worst first
	LayerRuns  int              `json:"layer_inputs"`
	Warnings   []string         `json:"warnings,omitempty"`
}

// PrecisionScore is how well one precision does.
type PrecisionScore struct {
	Name   string   `json:"name"`
	Right  *int     `json:"right,omitempty"`             // inputs or positions whose class is the label; absent without labels
	Same   int      `json:"same_as_first"`               // inputs or positions whose class is that of the model as given
	Nats   *float64 `json:"cross_entropy_nat,omitempty"` // mean over positions, outputs taken as logits; absent without positions
	SQNRdB *float64 `json:"sqnr_db,omitempty"`           // of the first output against the model as given; absent when equal
	Raised []Raised `json:"raised,omitempty"`            // layers in higher precision than the rest
}

// LayerNoise is the signal-to-quantisation-noise ratio after one operator, over
// all elements of its result and all inputs.
type LayerNoise struct {
	Node     string   `json:"node"`
	Op       string   `json:"op"`
	SQNRdB   *float64 `json:"sqnr_db,omitempty"`          // absent when the values are equal
	Operands *float64 `json:"operands_sqnr_db,omitempty"` // the worst among what the operator reads; absent for the model's inputs
}

// layerRuns is how many inputs the layers are compared on.
const layerRuns = 32

// MeasureAccuracy runs a model as given and with each format of weights on the same
// inputs, each also with layers in higher precision where QuantOptions.Mixed
// gives some. Fixed-point graphs run on the evaluator, whose bits are the
// emulator's. A model that came quantised has no other precision.
func MeasureAccuracy(ctx context.Context, name string, mo ModelOptions, q QuantOptions, do DataOptions) (*AccuracyReport, error) {
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	if m.Graph == nil {
		return nil, fmt.Errorf("%s is a compiled program; this needs the model it was made from", name)
	}
	d, err := readData(m, do)
	if err != nil {
		return nil, fmt.Errorf("data for accuracy: %w", err)
	}
	if m.Host != nil && d.labels != nil {
		return nil, fmt.Errorf("model %s: %s; without its outputs labels say nothing: give inputs without labels, and what the host reads is measured", m.Name, m.leftToHost())
	}
	if len(m.Graph.Outputs) == 0 {
		return nil, fmt.Errorf("model %s: %w: %s", m.Name, errAllHost, m.leftToHost())
	}
	r := &AccuracyReport{Model: m.Name, Data: d.what, Inputs: len(d.inputs), Positions: d.positions, Layers: []LayerNoise{}}
	float, err := outputsOf(ctx, m.Graph, d.inputs)
	if err != nil {
		return nil, err
	}
	for i, l := range d.labels {
		if n := float[0].Numel() / max(d.positions, 1); l >= n {
			return nil, fmt.Errorf("%s: label %d (index %d), but the model's first output has %d elements for it", d.what, l, i, n)
		}
	}
	calibration, first := d.calibration, "float"
	switch {
	case cameQuantised(m.Graph):
		first = "as given"
	case calibration == nil && q.CalibrationDir == "" && m.Ships == nil:
		n := q.Samples
		if n <= 0 {
			n = 16
		}
		calibration = d.inputs[:min(n, len(d.inputs))]
		r.Warnings = append(r.Warnings, fmt.Sprintf("calibrated with the first %d of the inputs that are measured; give --calibration DIR with others", len(calibration)))
	}
	if m.Host != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s; measured is %q, which comes before it", m.leftToHost(), outputNames(m.Graph)[0]))
	}
	r.Precisions = append(r.Precisions, score(first, d, float, float))
	var reference *ir.Graph // in float, with the layers of the fixed-point graph
	mixed := q.Mixed
	measure := func() (*Prepared, error) {
		p, err := prepare(ctx, m, q, calibration)
		if err != nil {
			return nil, err
		}
		if q.Mixed != "none" && len(p.Raised) == 0 && !p.CameQuantised {
			return p, nil // the precision as measured already
		}
		out, err := outputsOf(ctx, p.Fixed, d.inputs)
		if err != nil {
			return nil, err
		}
		s := score(p.Quant, d, out, float)
		s.Raised = p.Raised
		r.Precisions = append(r.Precisions, s)
		return p, nil
	}
	for _, weights := range WeightFormats() {
		q.Weights, q.Mixed = weights, "none"
		if reference == nil {
			q.dump = func(pass string, g *ir.Graph) {
				if !slices.Contains([]string{"calibrate", "quantise", "fix", "legalise"}, pass) {
					reference = g
				}
			}
		}
		p, err := measure()
		if err != nil {
			return nil, err
		}
		q.dump = nil
		if weights == "int8" {
			r.LayerRuns = min(layerRuns, len(d.inputs))
			if reference == nil {
				reference = m.Graph
			}
			if r.Layers, err = layers(ctx, reference, p.Fixed, d.inputs[:r.LayerRuns]); err != nil {
				return nil, err
			}
		}
		if p.CameQuantised {
			r.Precisions[1].Name = "int8, " + p.Quant
			break
		}
		if q.Mixed = mixed; mixed != "none" {
			if _, err := measure(); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// outputsOf returns the first output for each input.
func outputsOf(ctx context.Context, g *ir.Graph, inputs [][]*ir.Tensor) ([]*ir.Tensor, error) {
	e, err := eval.New(g)
	if err != nil {
		return nil, err
	}
	out := make([]*ir.Tensor, len(inputs))
	var next atomic.Int64
	var once sync.Once
	var failed error
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(inputs) {
					return
				}
				r, err := e.Run(ctx, inputs[i], eval.Options{MemoryLimit: passes.MemoryLimit})
				if err != nil {
					once.Do(func() { failed = err })
					return
				}
				out[i] = r[0]
			}
		})
	}
	wg.Wait()
	return out, failed
}

// score holds outputs against labels and against the model as given.
func score(name string, in *data, out, given []*ir.Tensor) PrecisionScore {
	s := PrecisionScore{Name: name}
	right, nats := 0, 0.0
	d := difference{exact: true}
	for i := range out {
		got, want := reals(out[i]), reals(given[i])
		rows := max(in.positions, 1)
		n := len(got) / rows
		for r := range rows {
			row := got[r*n : (r+1)*n]
			class := argmax(row)
			if class == argmax(want[r*n:(r+1)*n]) {
				s.Same++
			}
			if in.labels == nil {
				continue
			}
			label := in.labels[i*rows+r]
			if class == label {
				right++
			}
			if in.positions > 0 {
				nats += crossEntropy(row, label)
			}
		}
		d.add(compare(out[i], given[i], 0))
	}
	if in.labels != nil {
		s.Right = &right
	}
	if in.positions > 0 {
		nats /= float64(len(in.labels))
		s.Nats = &nats
	}
	s.SQNRdB = decibels(d)
	return s
}

// leastDB is the ratio given where there is noise and no signal at all.
const leastDB = -100

// decibels returns the ratio of a difference, nil when there is none.
func decibels(d difference) *float64 {
	if d.exact {
		return nil
	}
	v := max(d.sqnr(), leastDB)
	return &v
}

// layers measures every operator that both graphs have, known by its name.
func layers(ctx context.Context, float, fixed *ir.Graph, inputs [][]*ir.Tensor) ([]LayerNoise, error) {
	pair := pairs(float, fixed)
	noise := make([]difference, len(float.Ops))
	for i := range noise {
		noise[i].exact = true
	}
	a, err := eval.New(float)
	if err != nil {
		return nil, err
	}
	b, err := eval.New(fixed)
	if err != nil {
		return nil, err
	}
	for _, in := range inputs {
		want := make([]*ir.Tensor, len(float.Ops))
		_, err := a.Run(ctx, in, eval.Options{MemoryLimit: passes.MemoryLimit, Observe: func(id ir.ValueID, t *ir.Tensor) {
			if def := float.Value(id).Def; def >= 0 {
				want[def] = t
			}
		}})
		if err != nil {
			return nil, err
		}
		_, err = b.Run(ctx, in, eval.Options{MemoryLimit: passes.MemoryLimit, Observe: func(id ir.ValueID, t *ir.Tensor) {
			if i, ok := pair[id]; ok {
				noise[i].add(compareUnmasked(t, want[i], fixed.Type(id)))
			}
		}})
		if err != nil {
			return nil, err
		}
	}
	return ranked(float, pair, noise), nil
}

// compareUnmasked compares what codes of type of stand for with the reference, but
// for masked scores: those further below the least code than the codes reach.
func compareUnmasked(codes, want *ir.Tensor, of ir.Type) difference {
	g, w := reals(meaning(codes, of)), reals(want)
	floor := math.Inf(-1)
	if of.IsQuantised() && of.Quant.IsPerTensor() {
		lo, hi := of.DType.IntRange()
		floor = float64(2*lo-hi-int64(of.Quant.Zero[0])) * float64(of.Quant.Scale[0])
	}
	var a, b []float64
	for i, v := range w {
		if v >= floor && !math.IsInf(v, -1) || v != v {
			a, b = append(a, g[i]), append(b, v)
		}
	}
	return compare(ir.NewTensor(ir.F64, []int{len(a)}, a), ir.NewTensor(ir.F64, []int{len(b)}, b), 0)
}

// pairs finds for values of the fixed-point graph the operator of the float graph
// that computes the same: of the same name and shape. Of several operators that
// one has become the last counts.
func pairs(float, fixed *ir.Graph) map[ir.ValueID]int {
	last := map[string]ir.ValueID{}
	for i := range fixed.Ops {
		op := &fixed.Ops[i]
		if t := fixed.Type(op.Out); t.DType == ir.F32 || t.IsQuantised() {
			last[op.Name] = op.Out
		}
	}
	pair := map[ir.ValueID]int{}
	for i := range float.Ops {
		op := &float.Ops[i]
		id, ok := last[op.Name]
		if !ok || op.Kind.Is(ir.MovesCodes) && op.Kind != ir.Concat || op.Kind == ir.Quantize || op.Kind == ir.Dequantize ||
			float.Type(op.Out).DType != ir.F32 || !slices.Equal(float.Type(op.Out).Shape, fixed.Type(id).Shape) {
			continue
		}
		pair[id] = i // the last of its name
	}
	return pair
}

// meaning returns the numbers that codes stand for.
func meaning(t *ir.Tensor, of ir.Type) *ir.Tensor {
	if !of.IsQuantised() {
		return t
	}
	q, v := of.Quant, reals(t)
	out := make([]float64, len(v))
	inner := len(v)
	if !q.IsPerTensor() {
		inner = ir.Numel(of.Shape[q.Axis+1:])
	}
	for i := range v {
		c := i / max(inner, 1) % len(q.Scale)
		out[i] = (v[i] - float64(q.Zero[c])) * float64(q.Scale[c])
	}
	return ir.NewTensor(ir.F64, t.Shape, out)
}

// ranked lists the paired operators, the least ratio first.
func ranked(g *ir.Graph, pair map[ir.ValueID]int, noise []difference) []LayerNoise {
	measured := make([]bool, len(g.Ops))
	for _, i := range pair {
		measured[i] = true
	}
	list := []LayerNoise{}
	at := make([]*float64, len(g.Values)) // the ratio of each value, or of what it follows from
	for i := range g.Ops {
		op := &g.Ops[i]
		var worst *float64
		for _, id := range op.In {
			if id != ir.NoValue && at[id] != nil && (worst == nil || *at[id] < *worst) {
				worst = at[id]
			}
		}
		at[op.Out] = worst
		if measured[i] {
			at[op.Out] = decibels(noise[i])
			list = append(list, LayerNoise{Node: op.Name, Op: op.Kind.String(), SQNRdB: at[op.Out], Operands: worst})
		}
	}
	key := func(l LayerNoise) float64 {
		if l.SQNRdB == nil {
			return math.Inf(1)
		}
		return *l.SQNRdB
	}
	slices.SortStableFunc(list, func(a, b LayerNoise) int { return cmp.Compare(key(a), key(b)) })
	return list
}
