package gpu

import (
	"situ/arch"
	"situ/ir"
)

// cost is what one kernel does and how long each resource needs for it. Counts
// are float64: graphs may be large enough to overflow an int64 times a batch, and
// all counts below 2^53 are exact.
type cost struct {
	macs     float64 // useful multiply-accumulates
	issued   float64 // multiply-accumulates the tensor cores execute, with padding
	insts    float64 // tensor-core instructions
	macFJ    float64 // energy of one multiply-accumulate
	peakRate float64 // multiply-accumulates a cycle and SM at the products' element type
	ops      float64 // 32-bit lane operations outside of the tensor cores

	register   float64 // bytes read from and written to register files
	sharedRead float64 // bytes from shared memory or L1 to registers
	sharedFill float64 // bytes from L2 into shared memory or L1
	l2         float64 // bytes between L2 and the SMs, both ways
	dram       float64 // bytes between DRAM and L2, both ways

	sms     float64 // share of the SMs that have work
	tensorS float64 // seconds the busiest tensor core needs
	sharedS float64
	l2S     float64
	dramS   float64
	lanesS  float64
	fixedS  float64 // launch, ramp, waves

	mapping string // how the work was split, for people
	counted bool   // insts are all warp instructions, ops do not come on top
}

// seconds is the time of the kernel: its slowest resource and what does not overlap.
func (c *cost) seconds() float64 {
	return max(c.tensorS, c.sharedS, c.l2S, c.dramS, c.lanesS) + c.fixedS
}

// bound names the resource that the kernel waits for.
func (c *cost) bound() string {
	name, most := "launch", c.fixedS
	for _, r := range []struct {
		name string
		s    float64
	}{{"tensor cores", c.tensorS}, {"shared memory", c.sharedS}, {"L2", c.l2S}, {"DRAM", c.dramS}, {"lanes", c.lanesS}} {
		if r.s > most {
			name, most = r.name, r.s
		}
	}
	return name
}

// machine holds the rates of a GPU in bytes or operations a second.
type machine struct {
	*arch.GPU
	hz     float64
	sms    float64
	l2     float64 // bytes/s, measured ceiling
	port   float64 // bytes/s between L2 and one SM
	dram   float64 // bytes/s, measured ceiling
	shared float64 // bytes/s of one SM
	lanes  float64 // operations/s of one SM
	launch float64 // s between kernels
	ramp   float64 // s
	wave   float64 // s from one wave of thread blocks to the next that is not hidden
}

func newMachine(g *arch.GPU, stream bool) *machine {
	hz := g.ClockMHz.Value * 1e6
	m := &machine{
		GPU: g, hz: hz, sms: g.SMs.Value,
		l2:     g.L2.BytesPerCycle.Value * hz * g.Ceiling.L2.Value,
		port:   g.L2.PortBytes.Value * hz,
		dram:   g.DRAM.GBs.Value * 1e9 * g.Ceiling.DRAM.Value,
		shared: g.Shared.BytesPerCycle.Value * hz,
		lanes:  g.Cores.Lanes.Value * hz,
		launch: g.Launch.GraphUS.Value * 1e-6,
		ramp:   g.Launch.RampUS.Value * 1e-6,
		wave:   g.DRAM.LatencyNS.Value * 1e-9,
	}
	if stream {
		m.launch = g.Launch.StreamUS.Value * 1e-6
	}
	return m
}

// estimate returns the cost of one kernel. dram is the bytes that cross the DRAM
// pins for it when nothing has to be fetched twice.
func (m *machine) estimate(p *plan, k *kernel, dram float64) cost {
	op := &p.g.Ops[k.lead]
	if op.Kind.Is(ir.Product) {
		if d := p.dims(op); d.kind != lanesOnly {
			return m.product(p, k, d, dram)
		}
	}
	return m.other(p, k, dram)
}

// other is the cost of a kernel without tensor cores: each operand moves once, the
// lanes do the rest.
func (m *machine) other(p *plan, k *kernel, dram float64) cost {
	in, out := p.sum(k.reads)+p.parmBytes(k), p.bytes(k.out)
	lead := &p.g.Ops[k.lead]
	c := cost{dram: dram, l2: in + out, sharedFill: in, mapping: "lanes"}
	c.ops = p.laneOps(lead) + p.fusedOps(k)
	c.sharedRead = in
	if t := taps(p.g, lead); t > 1 {
		c.sharedRead = t * p.bytes(lead.Out) // windows overlap in L1
	}
	if lead.Kind.Is(ir.Product) {
		c.macs = p.dims(lead).macs()
		c.mapping = "lanes, direct convolution"
	}
	c.register = 12 * c.ops // two operands and a result of four bytes
	const elemsPerBlock = 1024
	blocks := max(1, max(p.elems(k.out), p.elems(lead.Out))/elemsPerBlock)
	m.spread(&c, blocks)
	c.fixedS = m.launch + m.ramp
	return c
}

// spread sets the times of lanes and memories for work that a number of equal
// thread blocks share.
func (m *machine) spread(c *cost, blocks float64) {
	busy := min(blocks, m.sms)
	c.sms = busy / m.sms
	c.lanesS = c.ops / (busy * m.lanes)
	c.l2S = max(c.l2/m.l2, max(c.l2, c.sharedFill)/(busy*m.port))
	c.dramS = c.dram / m.dram
	c.sharedS = max(c.sharedS, (c.sharedRead+c.sharedFill)/(busy*m.shared))
}

// fusedOps is the lane operations of the operators fused behind a kernel's leader.
func (p *plan) fusedOps(k *kernel) float64 {
	var ops float64
	for _, i := range k.fused {
		ops += p.laneOps(&p.g.Ops[i])
	}
	return ops
}

// laneOps is the number of 32-bit lane operations of an operator. Products count
// what remains for the lanes: the requantisation of each result, and everything
// for those without tensor cores.
func (p *plan) laneOps(op *ir.Op) float64 {
	const (
		special   = 16 // exp, log, division: polynomial with range reduction
		requant   = 6  // multiply high, shift, round, add, clamp, pack
		integerIO = 2  // unpack and pack codes
	)
	n := p.elems(op.Out)
	var in float64
	if len(op.In) > 0 {
		in = p.elems(op.In[0])
	}
	quantised := p.g.Type(op.Out).IsQuantised()
	switch op.Kind {
	case ir.Conv2D, ir.MatMul:
		ops := 2 * n
		if quantised {
			ops = requant * n
		}
		if d := p.dims(op); d.kind == lanesOnly {
			ops += d.macs()
		}
		return ops
	case ir.MaxPool, ir.AvgPool:
		return n * (taps(p.g, op) + integerIO)
	case ir.ReduceSum, ir.ReduceMean, ir.ReduceMax, ir.ReduceMin:
		return in + requant*n
	case ir.Softmax, ir.LogSoftmax:
		return n * (special + 8) // maximum, subtraction, exp, sum, division
	case ir.MulAdd:
		return 2 * requant * n
	case ir.LayerNorm:
		return n * 12 // two sums, two 64-bit products, two roundings, factors
	case ir.LRN:
		return n * (float64(op.Attr.(*ir.LRNAttr).Size) + 2*special)
	case ir.Sigmoid, ir.Tanh, ir.Exp, ir.Log, ir.Sqrt, ir.Reciprocal, ir.Erf, ir.Softplus, ir.Elu, ir.Div, ir.Pow:
		return special * n
	case ir.HardSigmoid, ir.HardSwish:
		return 4 * n
	case ir.Add, ir.Sub, ir.Mul, ir.Quantize, ir.Dequantize, ir.Requantize:
		if quantised {
			return requant * n
		}
		return n
	case ir.LUT:
		return 2 * n
	}
	return n
}

// taps is the number of operand elements a window operator reads for one result
// element, 1 for others.
func taps(g *ir.Graph, op *ir.Op) float64 {
	switch a := op.Attr.(type) {
	case *ir.PoolAttr:
		return float64(a.Kernel[0]) * float64(a.Kernel[1])
	case *ir.ConvAttr:
		w := g.Type(op.In[1]).Shape
		return float64(w[1]) * float64(w[2]) * float64(w[3])
	}
	return 1
}
