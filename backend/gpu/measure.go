package gpu

import (
	"fmt"
	"math"

	"situ/arch"
)

// Measure predicts time and energy of a program from what its launches did, one
// entry of counts a launch. batch is the inputs of one run, compulsory the bytes
// that must cross the edge of the chip. It returns an error when a kernel does not
// fit on an SM.
//
// A launch takes as long as its slowest resource needs on the SM with the most
// thread blocks, and what does not overlap: launch, ramp and the wait between
// waves. Energy is counts times the figures of the architecture, and power times
// time. docs/counting.md has the formulas.
func Measure(p *Program, a *arch.GPU, counts []Counts, batch int, compulsory int64) (*Report, error) {
	if len(counts) != len(p.Launches) {
		return nil, fmt.Errorf("gpu: counts of %d launches for a program of %d", len(counts), len(p.Launches))
	}
	m := newMachine(a, false)
	r := &Report{Target: a.Name, Batch: batch, CompulsoryBytes: compulsory}
	between, keeps := p.crossings(counts, float64(L2Usable(a)))
	var total cost
	var macs float64
	for i := range counts {
		l, n := &p.Launches[i], &counts[i]
		c, err := m.counted(l, n, between[i]+n.beyondFirst())
		if err != nil {
			return nil, fmt.Errorf("kernel %s of %s %q: %w", l.Kernel, l.Op, l.Node, err)
		}
		total.add(&c)
		macs += c.macs
		r.LatencyS += c.seconds()
		layer := Layer{Name: l.Node, Op: l.Op, Mapping: c.mapping, Bound: c.bound(), MACs: count(c.macs), TimeS: c.seconds(), Bytes: c.bytes(), Energy: m.energy(&c)}
		for _, f := range l.Fused {
			layer.Op += "+" + firstWord(f)
		}
		r.Layers = append(r.Layers, layer)
		r.Energy.add(layer.Energy)
	}
	r.limitPower(a)
	if r.LatencyS > 0 {
		r.ThroughputPerS = float64(batch) / r.LatencyS
		r.Utilisation = macs / (a.Tensor.Int8MACs.Value * m.sms * m.hz * r.LatencyS)
		r.PowerW = r.Energy.Total() / r.LatencyS
	}
	r.Cycles = count(r.LatencyS * m.hz)
	r.MACs, r.Bytes = count(total.macs), total.bytes()
	r.Notes = append(r.Notes, keepsNote(keeps), fmt.Sprintf("%d kernels launched as a captured graph", len(counts)))
	if r.PowerLimited {
		r.Notes = append(r.Notes, fmt.Sprintf("the board's limit of %g W sets the clock", a.Power.TDPW.Value))
	}
	return r, nil
}

// counted is the cost of a launch. dram is the bytes it moves across the DRAM pins.
func (m *machine) counted(l *Launch, n *Counts, dram float64) (cost, error) {
	threads := l.Block[0] * l.Block[1] * l.Block[2]
	resident, err := Resident(m.GPU, threads, n.Registers, n.Shared)
	if err != nil {
		return cost{}, err
	}
	blocks := float64(l.Grid[0]) * float64(l.Grid[1]) * float64(l.Grid[2])
	perSM := math.Ceil(blocks / m.sms) // thread blocks of the busiest SM
	together := math.Min(float64(resident), perSM)
	share := perSM / blocks // of the work, on that SM
	used := math.Min(blocks, m.sms)

	c := cost{
		macs: float64(l.MACs), issued: n.TensorMACs, insts: n.Warps, macFJ: m.Tensor.Int8EnergyFJ.Value,
		ops:      n.Integer + n.Products + n.Float,
		register: n.RegisterBytes, sharedRead: n.SharedRead + n.SharedWritten + n.Loaded, sharedFill: n.FromL2,
		l2: n.FromL2 + n.ToL2, dram: dram,
		sms:     used / m.sms,
		mapping: fmt.Sprintf("%.0f blocks of %d threads, %d an SM", blocks, threads, resident),
		counted: true,
	}
	c.tensorS = share * n.TensorMACs / (m.Tensor.Int8MACs.Value * math.Min(m.Ceiling.Tensor.Value, m.Ceiling.MMASync.Value) * m.hz)
	// A warp issues an instruction when those that it takes results of have them; an SM
	// issues one a scheduler and cycle at most.
	warps := together * math.Ceil(float64(threads)/32)
	issue := max(n.Warps/m.Cores.Schedulers.Value, n.Chain*m.Cores.Latency.Value/warps)
	// Integer products run in lanes that also do half or all of the float32 ones, beside
	// those for the rest of integer arithmetic (Nsight Compute's guide: pipelines alu,
	// fma, fmaheavy). Assemblers put sums and left shifts in either (IMAD.IADD, IMAD.SHL).
	bound := n.Integer - n.Movable
	integer := max(bound, n.Products, (n.Integer+n.Products)/2)
	c.lanesS = share / m.hz * max(issue, integer/m.Cores.IntLanes.Value, (n.Products+n.Float)/m.Cores.Lanes.Value)
	// One wavefront a cycle, and sectors from L1 at the same width.
	c.sharedS = share / m.hz * (n.Wavefronts + n.Loaded/m.Shared.BytesPerCycle.Value)
	c.l2S = max(c.l2/m.l2, share*c.l2/m.port)
	c.dramS = dram / m.dram
	// A block waits for its first operands while the others of its SM work: so many blocks
	// that each wait and work keep their slowest resource busy, or take their turns
	// (Little's law; a single one waits every time).
	busy := max(c.tensorS, c.lanesS, c.sharedS, c.l2S, c.dramS)
	c.fixedS = m.launch + m.ramp + max(0, (busy+(perSM-together)*m.wave)/together-busy)
	return c, nil
}

func firstWord(s string) string {
	for i, r := range s {
		if r == ' ' {
			return s[:i]
		}
	}
	return s
}
