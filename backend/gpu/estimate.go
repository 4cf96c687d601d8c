package gpu

import (
	"errors"
	"fmt"
	"math"

	"situ/arch"
	"situ/ir"
)

// MaxBatch is the largest batch that Estimate accepts.
const MaxBatch = 1 << 20

// Options of Estimate.
type Options struct {
	Batch  int  // inputs a run; 0 means 1
	Stream bool // kernels are launched one by one rather than as a captured graph
}

// Energy in joules by what it is spent on. Register is the register files; SRAM is
// shared memory with its path to the registers and the L2 arrays; NoC is the wires
// between L2 and the SMs and between the DRAM controllers and L2; DRAM is the
// device alone; Static is idle and activation power times time.
type Energy struct {
	Compute  float64 `json:"compute"`
	Register float64 `json:"register"`
	SRAM     float64 `json:"sram"`
	NoC      float64 `json:"noc"`
	DRAM     float64 `json:"dram"`
	Link     float64 `json:"link"`
	Network  float64 `json:"network"`
	Static   float64 `json:"static"`
}

// Total is the sum of all parts.
func (e Energy) Total() float64 {
	return e.Compute + e.Register + e.SRAM + e.NoC + e.DRAM + e.Link + e.Network + e.Static
}

func (e *Energy) add(f Energy) {
	e.Compute += f.Compute
	e.Register += f.Register
	e.SRAM += f.SRAM
	e.NoC += f.NoC
	e.DRAM += f.DRAM
	e.Static += f.Static
}

// Bytes moved, by level: into and out of register files, of shared memory and L2
// together, through the network between L2 and the SMs, across the DRAM pins.
type Bytes struct {
	Register int64 `json:"register"`
	SRAM     int64 `json:"sram"`
	NoC      int64 `json:"noc"`
	DRAM     int64 `json:"dram"`
	Link     int64 `json:"link"`
	Network  int64 `json:"network"`
}

// Layer is one kernel.
type Layer struct {
	Name    string  `json:"name"`    // of the leading operator
	Op      string  `json:"op"`      // leading operator and those fused behind it
	Mapping string  `json:"mapping"` // how the work is split
	Bound   string  `json:"bound"`   // the resource it waits for
	MACs    int64   `json:"macs"`
	TimeS   float64 `json:"time_s"`
	Energy  Energy  `json:"energy_j"`
	Bytes   Bytes   `json:"bytes"`
}

// Report is what one run of Batch inputs costs, in a steady state of runs that
// follow each other. Energies, bytes and multiply-accumulates are of the whole run.
type Report struct {
	Target          string   `json:"target"`
	Batch           int      `json:"batch"`
	LatencyS        float64  `json:"latency_s"`
	ThroughputPerS  float64  `json:"throughput_per_s"` // inputs
	Cycles          int64    `json:"cycles"`           // at the stated clock
	MACs            int64    `json:"macs"`
	Utilisation     float64  `json:"utilisation"` // of the peak rate of the products' element types
	Energy          Energy   `json:"energy_j"`
	Bytes           Bytes    `json:"bytes"`
	CompulsoryBytes int64    `json:"compulsory_bytes"` // constants once, inputs and outputs of the batch once
	PowerW          float64  `json:"power_w"`
	PowerLimited    bool     `json:"power_limited"` // time was stretched to stay within the board's limit
	Layers          []Layer  `json:"layers"`
	Notes           []string `json:"notes"` // assumptions that matter for this run
}

// Estimate predicts the time, traffic and energy of running g on gpu. It returns
// an error when the batch is out of range or the graph does not fit in the
// device's memory.
func Estimate(g *ir.Graph, gpu *arch.GPU, opt Options) (*Report, error) {
	switch {
	case g == nil || gpu == nil:
		return nil, errors.New("gpu: no graph or no description of a GPU")
	case opt.Batch < 0 || opt.Batch > MaxBatch:
		return nil, fmt.Errorf("gpu: batch %d, want 1 to %d", opt.Batch, MaxBatch)
	}
	batch := max(opt.Batch, 1)
	p := newPlan(g, batch)
	if need := p.needsBytes(); need > gpu.DRAM.Bytes.Value {
		return nil, fmt.Errorf("gpu: %s at batch %d needs %.3g GB, %s has %.3g GB: use a smaller batch",
			g.Name, batch, need/1e9, gpu.Name, gpu.DRAM.Bytes.Value/1e9)
	}
	m, res := newMachine(gpu, opt.Stream), newResidency(p, gpu)

	r := &Report{Target: gpu.Name, Batch: batch, CompulsoryBytes: count(p.compulsory())}
	var total cost
	var peakS float64 // time of the products at the tensor cores' peak rate
	for i := range p.kernels {
		k := &p.kernels[i]
		c := m.estimate(p, k, res.dram(i))
		if c.issued > 0 {
			peakS += c.macs / (c.peakRate * m.sms * m.hz)
		}
		total.add(&c)
		r.LatencyS += c.seconds()
		r.Layers = append(r.Layers, m.layer(p, k, &c))
		r.Energy.add(r.Layers[i].Energy)
	}
	r.limitPower(gpu)
	if r.LatencyS > 0 {
		r.ThroughputPerS = float64(batch) / r.LatencyS
		r.Utilisation = peakS / r.LatencyS
		r.PowerW = r.Energy.Total() / r.LatencyS
	}
	r.Cycles = count(r.LatencyS * m.hz)
	r.MACs, r.Bytes = count(total.macs), total.bytes()
	r.Notes = notes(p, res, opt)
	if r.PowerLimited {
		r.Notes = append(r.Notes, fmt.Sprintf("the board's limit of %g W sets the clock", gpu.Power.TDPW.Value))
	}
	return r, nil
}

// BestBatch returns the report of the batch, a power of two up to limit, with the
// highest throughput: what a server with a queue of inputs can reach. Batches that
// do not fit in the device's memory are left out.
func BestBatch(g *ir.Graph, gpu *arch.GPU, limit int, opt Options) (*Report, error) {
	opt.Batch = 1
	best, err := Estimate(g, gpu, opt)
	if err != nil {
		return nil, err
	}
	for opt.Batch = 2; opt.Batch <= min(limit, MaxBatch); opt.Batch *= 2 {
		r, err := Estimate(g, gpu, opt)
		if err != nil {
			break // larger ones do not fit either
		}
		if r.ThroughputPerS > best.ThroughputPerS {
			best = r
		}
	}
	return best, nil
}

// layer is the row of one kernel.
func (m *machine) layer(p *plan, k *kernel, c *cost) Layer {
	lead := &p.g.Ops[k.lead]
	l := Layer{Name: lead.Name, Op: lead.Kind.String(), Mapping: c.mapping, Bound: c.bound(),
		MACs: count(c.macs), TimeS: c.seconds(), Bytes: c.bytes(), Energy: m.energy(c)}
	for _, i := range k.fused {
		l.Op += "+" + p.g.Ops[i].Kind.String()
	}
	return l
}

// energy is what one kernel spends: counts times figures of the description.
func (m *machine) energy(c *cost) Energy {
	const fj, bits = 1e-15, 8
	var e Energy
	insts := c.insts
	if !c.counted {
		insts += c.ops / 32
	}
	e.Compute = fj * (c.ops*m.Cores.OpEnergyFJ.Value + insts*m.Cores.InstEnergyFJ.Value)
	if c.issued > 0 {
		e.Compute += fj * c.macs * c.macFJ
	}
	e.Register = fj * bits * c.register * m.Register.EnergyFJBit.Value
	// The figure of the path from L2 ends in the SM's memory: filling it is included.
	e.SRAM = fj * bits * (c.sharedRead*m.Shared.EnergyFJBit.Value + c.l2*m.L2.EnergyFJBit.Value)
	e.NoC = fj * bits * (c.l2*m.L2.PathEnergyFJBit.Value + c.dram*m.DRAM.PathEnergyFJBit.Value)
	e.DRAM = fj * bits * c.dram * m.DRAM.DeviceEnergyFJBit.Value
	e.Static = m.Power.IdleW.Value*c.seconds() + m.Power.ActiveW.Value*c.sms*(c.seconds()-m.launch)
	return e
}

// limitPower stretches time until the board's power limit is met, as the firmware
// does by lowering the clock. Switching energy stays, static energy grows with time.
func (r *Report) limitPower(gpu *arch.GPU) {
	limit := gpu.Power.TDPW.Value
	if r.LatencyS == 0 || r.Energy.Total() <= limit*r.LatencyS {
		return
	}
	switching := r.Energy.Total() - r.Energy.Static
	stretch := switching / (limit*r.LatencyS - r.Energy.Static)
	r.PowerLimited = true
	r.LatencyS *= stretch
	r.Energy.Static *= stretch
	for i := range r.Layers {
		r.Layers[i].TimeS *= stretch
		r.Layers[i].Energy.Static *= stretch
	}
}

// notes states what was assumed about data that stays on chip.
func notes(p *plan, res *residency, opt Options) []string {
	ns := []string{keepsNote(res.keeps)}
	if opt.Stream {
		ns = append(ns, fmt.Sprintf("%d kernels launched one by one", len(p.kernels)))
	} else {
		ns = append(ns, fmt.Sprintf("%d kernels launched as a captured graph", len(p.kernels)))
	}
	return ns
}

// keepsNote says what share of the weights a run finds in L2.
func keepsNote(keeps float64) string {
	switch {
	case keeps > 0.995:
		return "weights stay in L2 from run to run"
	case keeps > 0.005:
		return fmt.Sprintf("%.0f %% of the weights stay in L2 from run to run", 100*keeps)
	}
	return "weights come from DRAM in every run"
}

func (c *cost) add(d *cost) {
	c.macs += d.macs
	c.register += d.register
	c.sharedRead += d.sharedRead
	c.sharedFill += d.sharedFill
	c.l2 += d.l2
	c.dram += d.dram
}

func (c *cost) bytes() Bytes {
	return Bytes{
		Register: count(c.register),
		SRAM:     count(c.sharedRead + c.sharedFill + c.l2),
		NoC:      count(c.l2),
		DRAM:     count(c.dram),
	}
}

// count turns a count into an integer, saturating.
func count(x float64) int64 {
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(x))
}
