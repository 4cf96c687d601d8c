package runtime

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"situ/arch"
	"situ/backend/pim"
	"situ/backend/pim/isa"
	"situ/emulator"
	"situ/ir"
)

// Mode says what a run computes.
type Mode uint8

// Modes of a run. Full gives outputs, time, bytes and energy.
const (
	Full           Mode = iota
	FunctionalOnly      // outputs only
	TimingOnly          // time, bytes and energy only
)

func (m Mode) emulator() emulator.Mode {
	return [...]emulator.Mode{Full: emulator.Full, FunctionalOnly: emulator.Functional, TimingOnly: emulator.Timing}[m]
}

// compiled is a program with the machine it is loaded on.
type compiled struct {
	program *isa.Program
	machine *emulator.Machine
}

// load puts a program on a chip.
func load(p *isa.Program, c *arch.Chip) (*compiled, error) {
	m, err := emulator.Load(p, c)
	if err != nil {
		return nil, err
	}
	return &compiled{p, m}, nil
}

// programKey names a program of a prepared model. Targets are told apart by
// identity: two that a program fits alike may still differ in their energies.
type programKey struct {
	target    *Target
	objective pim.Objective
}

// compile compiles a prepared model for a chip, once for each objective.
func (p *Prepared) compile(t *Target, objective pim.Objective) (*compiled, error) {
	if t.Chip == nil {
		return nil, fmt.Errorf("%s is a GPU; programs are compiled for processing-in-memory architectures", t.Name)
	}
	key := programKey{t, objective}
	if c, ok := p.programs[key]; ok {
		return c, nil
	}
	var prog *isa.Program
	err := p.trying(func(g *ir.Graph) (err error) {
		prog, err = pim.Compile(g, t.Chip, pim.Options{Objective: objective, Quant: p.Quant, States: p.chipStates()})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", p.Model.Name, t.Name, err)
	}
	c, err := load(prog, t.Chip)
	if err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", p.Model.Name, t.Name, err)
	}
	p.programs[key] = c
	return c, nil
}

// run executes one inference, repeat times in the timing model. An input that is nil
// is a state, with which the run goes on from the one before.
func (c *compiled) run(ctx context.Context, inputs []*ir.Tensor, mode Mode, repeat int, trace io.Writer) (*emulator.Report, []*ir.Tensor, error) {
	var in [][]byte
	if mode != TimingOnly {
		for _, t := range inputs {
			if t == nil {
				in = append(in, nil)
				continue
			}
			b, err := binary.Append(nil, binary.LittleEndian, t.Any())
			if err != nil {
				return nil, nil, err
			}
			in = append(in, b)
		}
	}
	r, out, err := c.machine.Run(ctx, in, emulator.Options{Mode: mode.emulator(), Repeat: repeat, Trace: trace})
	if err != nil {
		return nil, nil, err
	}
	var outputs []*ir.Tensor
	for i, b := range out {
		io := &c.program.Outputs[i]
		t := ir.Zeros(ioType(io.DType), io.Shape...)
		if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, t.Any()); err != nil {
			return nil, nil, fmt.Errorf("output %s: %w", io.Name, err)
		}
		outputs = append(outputs, t)
	}
	return r, outputs, nil
}

// ioType returns the element type of a program's input or output.
func ioType(d isa.DType) ir.DType {
	return [...]ir.DType{isa.F32: ir.F32, isa.I8: ir.I8, isa.U8: ir.U8, isa.I32: ir.I32, isa.I64: ir.I64,
		isa.Bool: ir.Bool, isa.I16: ir.I16, isa.U16: ir.U16, isa.U32: ir.U32, isa.U64: ir.U64}[d]
}

// emulate returns the outputs of a prepared model's graph on a chip.
func emulate(ctx context.Context, p *Prepared, t *Target, inputs []*ir.Tensor) ([]*ir.Tensor, error) {
	c, err := p.compile(t, pim.Latency)
	if err != nil && !errors.Is(err, errAllHost) {
		return nil, err
	}
	outs, err := p.through(ctx, [][]*ir.Tensor{inputs}, func(in []*ir.Tensor) ([]*ir.Tensor, error) {
		_, out, err := c.run(ctx, in, FunctionalOnly, 1, nil)
		return out, err
	})
	if err != nil {
		return nil, err
	}
	return outs[0], nil
}

// measured fills a Result from the report of one inference on a chip.
func measured(r *emulator.Report, p *isa.Program, t *Target) *Result {
	res := &Result{
		Model: p.Model, Target: t.Name, Quant: p.Quant, Batch: 1, Method: Emulated,
		LatencyS: seconds(r.LatencyPS), Cycles: r.Cycles, MACs: r.MACs,
		Utilisation: r.Utilisation,
		Energy:      Energy(r.Energy), Bytes: Bytes(r.Bytes), Compulsory: r.Compulsory,
		Peak: t.Peak(), HostSPerRun: r.Host.Seconds(),
		Fallback: []Fallback{}, Outputs: []Output{},
		Load:  &Load{TimeS: seconds(r.Init.PS), EnergyJ: r.Init.Energy.Total, DRAMBytes: r.Init.Bytes.DRAM},
		State: stateOf(p),
	}
	res.slowDown(t.Chip)
	if n := explain(r, p, t, res.Utilisation); n != "" {
		res.Notes = append(res.Notes, n)
	}
	for _, f := range p.Fallbacks {
		res.Fallback = append(res.Fallback, Fallback{Node: f.Node, Op: f.Op, Share: f.Share})
	}
	for _, l := range r.Layer {
		res.Layers = append(res.Layers, LayerCost{
			Name: l.Name, Op: l.Op, MACs: l.MACs, Mapping: l.Mapping,
			TimeS: seconds(l.SpanPS), Energy: Energy(l.Energy), Bytes: Bytes(l.Bytes),
		})
	}
	return res
}

// lowUtilisation is the share of the arrays' peak below which a report says why.
const lowUtilisation = 0.2

// explain says in a line what one run waits for when the arrays are mostly
// idle: how busy each kind of unit is, and the layer that takes longest.
func explain(r *emulator.Report, p *isa.Program, t *Target, utilisation float64) string {
	if utilisation >= lowUtilisation || r.LatencyPS == 0 {
		return ""
	}
	var s strings.Builder
	fmt.Fprintf(&s, "one run uses %s of the arrays' peak:", Percent(utilisation))
	if used, all := len(p.Main), t.Chip.NumClusters(); used < all {
		fmt.Fprintf(&s, " on %d of %d clusters,", used, all)
	}
	sep := ""
	for _, u := range r.Units {
		if u.Share > 0 { // others did nothing, as noc, which sends between clusters, on a chip of one
			fmt.Fprintf(&s, "%s %s busy %s", sep, u.Name, Percent(u.Share))
			sep = ","
		}
	}
	s.WriteString(" of the time")
	var longest *emulator.Layer
	for i := range r.Layer {
		if l := &r.Layer[i]; longest == nil || l.SpanPS > longest.SpanPS {
			longest = l
		}
	}
	if longest != nil {
		fmt.Fprintf(&s, "; layers overlap, the longest, %s %q, lasts %s of it", longest.Op, longest.Name, Percent(float64(longest.SpanPS)/float64(r.LatencyPS)))
	}
	return s.String()
}

func seconds(ps int64) float64 { return float64(ps) * 1e-12 }

// steadyInputs is how many inputs are run back to back to find the interval
// between them; the first fills the pipeline.
const steadyInputs = 4

// steadyState is a chip filled with copies of a program.
type steadyState struct {
	perS        float64 // inferences a second
	utilisation float64 // of the arrays' peak
	energy      Energy  // of one inference
	replicas    int
	limited     bool // by the power that the chip may draw
}

// steady measures a program at steady state. Copies share the card's DRAM; the
// program's own traffic to it bounds how many inputs a second fit.
func (c *compiled) steady(ctx context.Context, t *Target) (steadyState, error) {
	r, _, err := c.run(ctx, nil, TimingOnly, steadyInputs, nil)
	if err != nil {
		return steadyState{}, err
	}
	interval := seconds(max(1, r.IntervalPS))
	s := steadyState{replicas: max(1, c.program.Replicas), energy: Energy(r.Energy)}
	s.perS = float64(s.replicas) / interval
	if r.Bytes.DRAM > 0 {
		s.perS = min(s.perS, t.Chip.DRAM.Sustained()*1e9/float64(r.Bytes.DRAM))
	}
	// The report charges one copy with the whole card's static power.
	s.energy.setStatic(t.Chip.Power.StaticW.Value / s.perS)
	if slower := s.energy.limit(1/s.perS, t.Chip); slower > 1 {
		s.perS /= slower
		s.limited = true
	}
	s.utilisation = r.Utilisation * s.perS * interval
	return s, nil
}

// setSteady enters a steady state into a result.
func (r *Result) setSteady(s steadyState) {
	r.ThroughputS, r.UtilisationTP, r.Steady, r.steadyLimited = s.perS, s.utilisation, s.energy, s.limited
}

// runPIM runs a prepared model on a chip: outputs, time, bytes, energy, and the
// throughput of the whole chip.
func runPIM(ctx context.Context, p *Prepared, t *Target, inputs []*ir.Tensor, o RunOptions) (*Result, []*ir.Tensor, error) {
	c, err := p.compile(t, pim.Latency)
	if err != nil {
		return nil, nil, err
	}
	res, outputs, err := runProgram(ctx, c, t, inputs, o)
	if err != nil || o.Mode == FunctionalOnly {
		return res, outputs, err
	}
	many, err := p.compile(t, pim.Throughput)
	if err != nil {
		return nil, nil, err
	}
	s, err := many.steady(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if s.perS > res.ThroughputS {
		res.setSteady(s)
		res.Mapping = mapping(c.program, many.program, s.replicas, t)
	}
	if res.steadyLimited {
		res.Notes = append(res.Notes, powerNote(t.Chip))
	}
	return res, outputs, nil
}

// steadyBatch enters the figures of a batch as those at steady state where they are
// better, as for a GPU: a batch shares what each input alone would wait for, weights
// from DRAM. Where DRAM is not what a chip waits for it is not tried.
func (r *Result) steadyBatch(ctx context.Context, p *Prepared, t *Target) error {
	const n = throughputBatch
	if float64(r.Bytes.DRAM)*r.ThroughputS < t.Chip.DRAM.Sustained()*1e9/2 {
		return nil
	}
	b, err := p.batch(n)
	if err != nil {
		return nil // a model that takes no batch
	}
	many, err := b.compile(t, pim.Throughput)
	if err != nil {
		return ctx.Err() // a batch for which there is no room
	}
	s, err := many.steady(ctx, t)
	if err != nil || s.perS*n <= r.ThroughputS {
		return err
	}
	s.energy = s.energy.scaled(1. / n)
	s.perS *= n
	r.setSteady(s)
	r.Mapping = mapping(many.program, many.program, s.replicas, t)
	r.Notes = append(r.Notes, fmt.Sprintf("steady figures are at batch %d, which shares what comes from DRAM", n*p.Model.batch()))
	return nil
}

// runProgram runs a loaded program and measures it.
func runProgram(ctx context.Context, c *compiled, t *Target, inputs []*ir.Tensor, o RunOptions) (*Result, []*ir.Tensor, error) {
	r, outputs, err := c.run(ctx, inputs, o.Mode, max(1, o.Repeat), o.Trace)
	if err != nil {
		return nil, nil, err
	}
	if o.Mode == FunctionalOnly {
		return &Result{Model: c.program.Model, Target: t.Name, Quant: c.program.Quant, Batch: 1, Method: Emulated, Peak: t.Peak(), HostSPerRun: r.Host.Seconds(),
			Fallback: []Fallback{}, Outputs: []Output{}}, outputs, nil
	}
	res := measured(r, c.program, t)
	s, err := c.steady(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	res.setSteady(s)
	res.Mapping = mapping(c.program, c.program, s.replicas, t)
	return res, outputs, nil
}

// mapping says in words how a chip is used for one run and at steady state.
func mapping(one, many *isa.Program, replicas int, t *Target) string {
	s := fmt.Sprintf("one run uses %d of %d clusters", len(one.Main), t.Chip.NumClusters())
	if n := one.NumRounds(); n > 1 {
		s += fmt.Sprintf(" in %d rounds", n)
	}
	if t.Chip.NumClusters() == 1 {
		return "one cluster; consecutive inputs overlap"
	}
	return s + fmt.Sprintf("; steady state runs %s of %s side by side", plural(replicas, "copy", "copies"), plural(len(many.Main), "cluster", "clusters"))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
