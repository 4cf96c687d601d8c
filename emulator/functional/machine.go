package functional

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/effect"
)

// Machine holds the memories of a chip and one program. It is not safe for
// concurrent use.
type Machine struct {
	prog     *isa.Program
	shape    effect.Shape
	limits   effect.Limits
	clusters []*cluster
	dram     []byte // behind the constants, which are read-only
	weights  weights
	ready    bool // Init has run
	sched    scheduler
}

// slack is the readable room behind a scratchpad: kernels read up to three
// bytes behind a K segment, which meet zero weights.
const slack = 64

// maxBytes bounds the memories the host holds for a machine: inputs, outputs
// and spilled tensors in DRAM, scratchpads and accumulators.
const maxBytes = 8 << 30

// New returns a machine for a program that is valid and fits the chip, with all
// memories zero and the weights unpacked. It is an error when the memories that
// the program declares to use exceed 8 GiB, or one scratchpad 2 GiB.
func New(p *isa.Program, c *arch.Chip) (*Machine, error) {
	if p.DescribedBytes > 0 {
		return nil, fmt.Errorf("%d bytes of the program's weights are described, not stored: there is nothing to compute with; run timing only", p.DescribedBytes)
	}
	m := &Machine{prog: p, shape: effect.ShapeOf(c), limits: LimitsOf(p)}
	dram := p.DRAMBytes - int64(len(p.Consts))
	if total := float64(dram) + float64(len(p.Main))*(float64(p.ScratchpadBytes)+float64(p.AccumulatorBytes)); total > maxBytes {
		return nil, fmt.Errorf("program uses %.3g bytes of DRAM, scratchpads and accumulators, functional emulation holds %d; run timing only", total, int64(maxBytes))
	}
	if p.ScratchpadBytes > math.MaxInt32-slack {
		return nil, fmt.Errorf("scratchpad of %d bytes is larger than 2 GiB; run timing only", p.ScratchpadBytes)
	}
	m.dram = make([]byte, dram)
	m.weights.init(p.Consts, &m.shape)
	m.clusters = make([]*cluster, len(p.Main))
	for i := range m.clusters {
		m.clusters[i] = &cluster{
			m: m, id: i,
			sp:  make([]byte, p.ScratchpadBytes+slack)[:p.ScratchpadBytes],
			acc: make([]int32, (p.AccumulatorBytes+3)/4),
		}
	}
	m.prepack()
	return m, nil
}

// LimitsOf returns the sizes of the memories a program may touch: what it
// declares to use.
func LimitsOf(p *isa.Program) effect.Limits {
	var l effect.Limits
	l[effect.SP], l[effect.RemoteSP] = p.ScratchpadBytes, p.ScratchpadBytes
	l[effect.WS], l[effect.RemoteWS] = p.WeightSRAMBytes, p.WeightSRAMBytes
	l[effect.Acc] = p.AccumulatorBytes
	l[effect.DRAM] = p.DRAMBytes
	return l
}

// Run executes one inference: it puts the inputs into DRAM, runs the main
// streams (before the first time also the init streams) and returns the
// outputs. Tensors are little-endian bytes of their element type, row-major.
// A run that is given the inputs of the program's states begins with these, by the
// init streams; one that is given nil for all of them goes on with what the run
// before left. The errors name the input, or the cluster and instruction at fault.
func (m *Machine) Run(ctx context.Context, inputs [][]byte) (outputs [][]byte, err error) {
	p := m.prog
	if len(inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("%d inputs given, the program has %d", len(inputs), len(p.Inputs))
	}
	begins, err := m.begins(inputs)
	if err != nil {
		return nil, err
	}
	for i := range p.Inputs {
		if inputs[i] == nil && !begins && m.isState(i) {
			continue
		}
		to, err := m.tensor(&p.Inputs[i])
		if err != nil {
			return nil, err
		}
		if len(inputs[i]) != len(to) {
			return nil, fmt.Errorf("input %s is %v %s, %d bytes; %d bytes given", p.Inputs[i].Name, p.Inputs[i].Shape, p.Inputs[i].DType, len(to), len(inputs[i]))
		}
		copyTensor(to, inputs[i], p.Inputs[i].DType)
	}
	if begins {
		m.ready = false
		for i := range m.sched.runs {
			m.sched.runs[i].cursor.Reset()
		}
		if err := m.runStreams(ctx, "init", p.Init); err != nil {
			return nil, err
		}
		m.ready = true
	}
	if err := m.runStreams(ctx, "main", p.Main); err != nil {
		m.ready = m.ready && len(p.States) == 0 // what they hold is not known
		return nil, err
	}
	outputs = make([][]byte, len(p.Outputs))
	for i := range p.Outputs {
		from, err := m.tensor(&p.Outputs[i])
		if err != nil {
			return nil, err
		}
		outputs[i] = make([]byte, len(from))
		copyTensor(outputs[i], from, p.Outputs[i].DType)
	}
	return outputs, nil
}

// begins reports whether a run starts with the init streams: the first one, and
// those that are given the tensors of states.
func (m *Machine) begins(inputs [][]byte) (bool, error) {
	given, first := 0, -1
	for _, s := range m.prog.States {
		switch {
		case inputs[s.Input] != nil:
			given++
		case first < 0:
			first = s.Input
		}
	}
	if first >= 0 && (given > 0 || !m.ready) {
		return false, fmt.Errorf("input %s is missing: a first run needs all %d tensors that the program keeps, a later one all of them or none", m.prog.Inputs[first].Name, len(m.prog.States))
	}
	return given > 0 || !m.ready, nil
}

// isState reports whether input i is where a state comes from.
func (m *Machine) isState(i int) bool {
	return slices.ContainsFunc(m.prog.States, func(s isa.State) bool { return s.Input == i })
}

// tensor returns the place of a tensor in DRAM.
func (m *Machine) tensor(io *isa.IO) ([]byte, error) {
	n, err := io.Bytes()
	if err != nil {
		return nil, err
	}
	lo := io.Addr - int64(len(m.prog.Consts))
	return m.dram[lo : lo+n : lo+n], nil
}

// copyTensor copies a tensor across the boundary of the machine, where int8
// codes are stored with 128 added.
func copyTensor(to, from []byte, t isa.DType) {
	if t != isa.I8 {
		copy(to, from)
		return
	}
	for i, x := range from {
		to[i] = x ^ 0x80
	}
}

// dramRange returns a checked DRAM range: all of it in the constants or all
// behind them.
func (m *Machine) dramRange(r effect.Region) ([]byte, error) {
	consts := int64(len(m.prog.Consts))
	switch {
	case r.Lo >= consts:
		return m.dram[r.Lo-consts : r.Hi-consts], nil
	case r.Hi > consts:
		return nil, fmt.Errorf("DRAM bytes %d to %d lie partly in the %d bytes of constants", r.Lo, r.Hi, consts)
	case r.Write:
		return nil, fmt.Errorf("writes DRAM bytes %d to %d, which are constants", r.Lo, r.Hi)
	}
	return m.prog.Consts[r.Lo:r.Hi], nil
}

// cluster is the state of one cluster and the buffers its instructions use.
type cluster struct {
	m   *Machine
	id  int
	sp  []byte // capacity has slack behind
	acc []int32

	resident residentWeights
	eff      effect.Effect

	rows, segs []int32 // offsets of a matrix product or a depthwise row
	job        job
	shifts     []uint8
	sums, bias []int32
	high       []int32   // sums of the high parts of shifted weights
	panel      []float32 // right operand of a float32 product
	keys       []int64   // of a lane of topk
	order      []int64
}

// words views n 32-bit words of a scratchpad. Memory is little endian, as the
// host is wherever the project runs (amd64, arm64).
func words[T int32 | float32 | uint32](sp []byte, off, n int64) []T {
	if n == 0 {
		return nil
	}
	b := sp[off : off+4*n]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// grow returns a slice of n elements, reusing buf.
func grow[T any](buf *[]T, n int64) []T {
	if int64(cap(*buf)) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}
