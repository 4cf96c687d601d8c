package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/functional"
	"situ/emulator/timing"
)

// ErrCapacity is wrapped by Load's error for a program that needs more of a
// memory, or more clusters, than the chip has.
var ErrCapacity = errors.New("program does not fit the chip")

// Mode says what a run computes.
type Mode uint8

// Modes. Full gives both what Functional and what Timing give.
const (
	Full       Mode = iota
	Functional      // outputs only
	Timing          // time, bytes and energy only; needs no inputs and no weights
)

var modeNames = [...]string{"full", "functional", "timing"}

// String returns the mode's name, such as "full".
func (m Mode) String() string { return modeNames[m] }

// Options are the choices of a run. The zero value is a full run of one input.
type Options struct {
	Mode   Mode
	Repeat int       // how often the input is run back to back, to find the steady state; 0 is 1
	Trace  io.Writer // receives a trace in Chrome's JSON format, unless nil
	// Observe, unless nil, is called with every instruction that takes time on a
	// unit, cluster by cluster, not in order of time. The calls come from one
	// goroutine, which need not be that of Run's caller.
	Observe func(timing.Event)
}

// Machine is a chip with a program loaded. It is safe for concurrent use;
// functional runs take turns.
type Machine struct {
	prog   *isa.Program
	chip   *arch.Chip
	limits effect.Limits

	mu   sync.Mutex
	core *functional.Machine // made by the first run that needs it
}

// Load prepares a program to be run. It is an error when the program is not
// valid (isa.ErrInvalid), was placed for another architecture (isa.ErrArch), or
// needs more than the chip has (ErrCapacity). The program and the chip must not
// be changed afterwards.
func Load(p *isa.Program, c *arch.Chip) (*Machine, error) {
	if err := isa.Validate(p); err != nil {
		return nil, err
	}
	if err := p.CheckArch(c.Name, c.Fingerprint()); err != nil {
		return nil, err
	}
	for _, need := range []struct {
		what       string
		have, want int64
	}{
		{"clusters", int64(c.NumClusters()), int64(len(p.Main))},
		{"bytes of scratchpad", c.Scratchpad.Bytes.Int(), p.ScratchpadBytes},
		{"bytes of accumulators", c.Accumulator.Bytes.Int() * c.CoresPerCluster.Int(), p.AccumulatorBytes},
		{"bytes of weight SRAM", c.WeightSRAM.Bytes.Int(), p.WeightSRAMBytes},
		{"bytes of DRAM", c.DRAM.Bytes.Int(), p.DRAMBytes},
	} {
		if need.want > need.have {
			return nil, fmt.Errorf("%w: it needs %d %s, %s has %d", ErrCapacity, need.want, need.what, c.Name, need.have)
		}
	}
	return LoadTrusted(p, c), nil
}

// LoadTrusted is Load for a program that the compiler just wrote for the chip,
// which it takes at its word. Runs still refuse what leaves a memory.
func LoadTrusted(p *isa.Program, c *arch.Chip) *Machine {
	return &Machine{prog: p, chip: c, limits: functional.LimitsOf(p)}
}

// Prepare makes the machine ready for functional runs: it allocates the
// memories and unpacks the weights. The first run does so otherwise.
func (m *Machine) Prepare() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prepare()
}

func (m *Machine) prepare() (err error) {
	if m.core == nil {
		m.core, err = functional.New(m.prog, m.chip)
	}
	return err
}

// Run executes one inference, on one tensor of bytes for each input of the
// program: little-endian elements of the input's type, row-major. A run that is
// given nil for all inputs of states goes on from the run before; one that is given
// them begins anew. It returns the report and the outputs in the same form; a timing-only run takes nil
// inputs and returns nil outputs. The report of a functional-only run holds the
// host's time only. Errors of the program's execution name cluster, instruction
// and layer.
func (m *Machine) Run(ctx context.Context, inputs [][]byte, o Options) (*Report, [][]byte, error) {
	if o.Repeat < 0 || o.Repeat > maxRepeat {
		return nil, nil, fmt.Errorf("repeat %d is not between 1 and %d", o.Repeat, maxRepeat)
	}
	begin := time.Now()
	r := &Report{Model: m.prog.Model, Arch: m.chip.Name, Quant: m.prog.Quant, Mode: o.Mode.String()}
	if o.Mode == Timing {
		if err := m.measure(ctx, r, &o); err != nil {
			return nil, nil, err
		}
		r.Host = time.Since(begin)
		return r, nil, nil
	}
	// Neither half needs the other, so they run side by side.
	measured := make(chan error, 1)
	if o.Mode != Functional {
		go func() { measured <- m.measure(ctx, r, &o) }()
	} else {
		measured <- nil
	}
	outputs, err := m.compute(ctx, inputs)
	if errTiming := <-measured; err == nil {
		err = errTiming
	}
	if err != nil {
		return nil, nil, err
	}
	r.Host = time.Since(begin)
	return r, outputs, nil
}

// maxRepeat bounds Options.Repeat.
const maxRepeat = 1 << 20

func (m *Machine) compute(ctx context.Context, inputs [][]byte) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.prepare(); err != nil {
		return nil, err
	}
	return m.core.Run(ctx, inputs)
}

// measure runs the timing model and fills the report.
func (m *Machine) measure(ctx context.Context, r *Report, o *Options) error {
	observe := o.Observe
	var tr *tracer
	if o.Trace != nil {
		tr = newTracer(o.Trace, m.prog)
		observe = func(e timing.Event) {
			tr.event(e)
			if o.Observe != nil {
				o.Observe(e)
			}
		}
	}
	res, err := timing.Run(ctx, m.prog, m.chip, &m.limits, max(o.Repeat, 1), observe)
	if err != nil {
		return err
	}
	r.fill(m.prog, m.chip, res)
	if tr != nil {
		return tr.close()
	}
	return nil
}
