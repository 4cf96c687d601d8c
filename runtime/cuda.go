package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"situ/backend/gpu"
	"situ/backend/gpu/cuda"
	"situ/ir"
)

// Devices is what `situ device` found.
type Devices struct {
	Driver  int           `json:"driver"` // version, 1000·major + 10·minor; 0 where there is none
	Devices []cuda.Device `json:"devices"`
	Reason  string        `json:"reason,omitempty"` // why there is none
}

// openDriver is cuda.Open; tests put another driver in its place.
var openDriver = cuda.Open

// FindDevices looks for GPUs that kernels can run on. That there is none is no
// error.
func FindDevices() *Devices {
	d, err := openDriver()
	if err != nil {
		return &Devices{Devices: []cuda.Device{}, Reason: err.Error()}
	}
	out := &Devices{Driver: d.Version}
	if out.Devices, err = d.Devices(); err != nil {
		out.Reason = err.Error()
	} else if len(out.Devices) == 0 {
		out.Reason = "the driver sees no GPU"
	}
	return out
}

// CUDATarget returns the ordinal of the device that a target names, cuda or
// cuda:N, and whether it names one.
func CUDATarget(on string) (ordinal int, ok bool) {
	rest, ok := strings.CutPrefix(on, "cuda")
	if !ok || rest == "" {
		return 0, ok
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(rest, ":"), 10, 16)
	return int(n), err == nil && rest[0] == ':'
}

// cards are the architectures that stand for devices, by a word of their names.
// The H200 has the H100's SMs, at the same clock.
var cards = []struct{ word, arch string }{{"H100", "h100"}, {"H200", "h100"}, {"A100", "a100"}, {"L4", "l4"}}

// cardOf returns the architecture that describes a device. Of one that has none
// it returns that of the A100, whose kernels every newer card runs, and false.
func cardOf(d cuda.Device) (t *Target, known bool, err error) {
	name := "a100"
	words := strings.FieldsFunc(d.Name, func(r rune) bool { return r == ' ' || r == '-' })
	for _, c := range cards {
		if slices.Contains(words, c.word) {
			name, known = c.arch, true
			break
		}
	}
	t, err = OpenTarget(name)
	return t, known, err
}

// KernelTime is one launch on a device.
type KernelTime struct {
	Kernel     string  `json:"kernel"`
	Op         string  `json:"op"`
	Node       string  `json:"node"`
	MeasuredS  float64 `json:"measured_s"`
	PredictedS float64 `json:"predicted_s"` // by the cost model, from counts of the PTX emulator
	Registers  int     `json:"registers"`   // of a thread
	LocalBytes int     `json:"local_bytes"` // of a thread: registers that did not fit
}

// DeviceRun is a model's kernels run on a device.
type DeviceRun struct {
	Model     string       `json:"model"`
	Quant     string       `json:"quant"`
	Device    cuda.Device  `json:"device"`
	Arch      string       `json:"arch"`      // architecture that tiles were chosen for
	LatencyS  float64      `json:"latency_s"` // of all launches on the device, median of the runs
	Predicted float64      `json:"predicted_s"`
	Runs      int          `json:"runs"`
	Kernels   []KernelTime `json:"kernels"`
	BitExact  bool         `json:"bit_exact"` // all outputs equal the evaluator's
	Different int          `json:"different"` // elements of outputs that do not
	Elements  int          `json:"elements"`
	MaxError  float64      `json:"max_error"` // largest difference from the evaluator

	Outputs  []Output     `json:"outputs"`
	Tensors  []*ir.Tensor `json:"-"`
	Warnings []string     `json:"-"`
}

// RunCUDA compiles a model to kernels and runs them on a device of this machine,
// o.Repeat times with events around each launch, beside what the cost model predicts,
// and compares the outputs with the evaluator's.
func RunCUDA(ctx context.Context, name string, ordinal int, mo ModelOptions, q QuantOptions, o RunOptions) (*DeviceRun, error) {
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	given, err := givenInputs(o.Inputs)
	if err != nil {
		return nil, err
	}
	mo.inputs = given[0]
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	if m.Program != nil {
		return nil, fmt.Errorf("%s is a program for a processing-in-memory chip; a GPU runs the model it came from", name)
	}
	if err := m.computable(); err != nil {
		return nil, err
	}
	inputs, warnings, err := chooseInputs(m, m.given, q, FunctionalOnly)
	if err != nil {
		return nil, err
	}
	p, err := Prepare(ctx, m, q)
	if err != nil {
		return nil, err
	}
	r := &DeviceRun{Model: m.Name, Quant: p.Quant, Warnings: append(p.Warnings, warnings...)}
	sets := [][]*ir.Tensor{inputs}
	got, err := r.runPrepared(ctx, d, ordinal, p, sets, o.Repeat)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	want, err := evaluate(ctx, p.Fixed, inputs)
	if err != nil {
		return nil, err
	}
	r.Tensors = got[0]
	r.compare(want)
	outputs, err := p.finish(ctx, sets, got)
	if err != nil {
		return nil, err
	}
	r.Tensors = outputs[0]
	r.Outputs = describe(m.outputs(), r.Tensors)
	if nodes := p.hostNodes(); nodes != "" {
		r.Warnings = append(r.Warnings, "the host runs "+nodes+", which is not part of the measured time")
	}
	return r, nil
}

// runPrepared runs on a device what it takes of a model, and the rest on the host. It
// returns the outputs of the model's graph.
func (r *DeviceRun) runPrepared(ctx context.Context, d *cuda.Driver, ordinal int, p *Prepared, sets [][]*ir.Tensor, repeat int) (got [][]*ir.Tensor, err error) {
	err = p.trying(func(g *ir.Graph) error {
		got, err = p.through(ctx, sets, func(in []*ir.Tensor) ([]*ir.Tensor, error) {
			err := r.run(ctx, d, ordinal, g, in, repeat)
			return r.Tensors, err
		})
		return err
	})
	return got, err
}

// compare notes how the outputs differ from those of the evaluator.
func (r *DeviceRun) compare(want []*ir.Tensor) {
	r.BitExact = true
	for i, w := range want {
		if sameBits(r.Tensors[i], w) {
			r.Elements += w.Numel()
			continue
		}
		d := compare(r.Tensors[i], w, 0)
		r.BitExact = false
		r.Different, r.Elements, r.MaxError = r.Different+d.beyond, r.Elements+d.n, max(r.MaxError, d.maxAbs)
	}
}

// run executes a fixed-point graph on a device: once for its outputs, then repeat
// times with events around the launches.
func (r *DeviceRun) run(ctx context.Context, d *cuda.Driver, ordinal int, g *ir.Graph, inputs []*ir.Tensor, repeat int) error {
	devices, err := d.Devices()
	if err != nil {
		return err
	}
	if ordinal >= len(devices) {
		return fmt.Errorf("there is no device cuda:%d: the driver sees %d", ordinal, len(devices))
	}
	r.Device = devices[ordinal]
	if r.Device.SM < gpu.DefaultSM {
		return fmt.Errorf("device %s has compute capability %d.%d; the kernels need %d.%d", r.Device.Name, r.Device.SM/10, r.Device.SM%10, gpu.DefaultSM/10, gpu.DefaultSM%10)
	}
	card, known, err := cardOf(r.Device)
	if err != nil {
		return err
	}
	if !known {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no architecture describes %s: tiles are chosen as for %s", r.Device.Name, card.Name))
	}
	r.Arch, r.Runs = card.Name, repeat
	prog, err := kernelsOf(ctx, g, card.GPU)
	if err != nil {
		return err
	}
	predicted, _, err := measureKernels(ctx, prog, card.GPU, g, inputs, wholeBudget, 1, 0)
	if err != nil {
		return err
	}
	r.Predicted = predicted.LatencyS
	for i, l := range prog.Launches {
		r.Kernels = append(r.Kernels, KernelTime{Kernel: l.Kernel, Op: l.Op, Node: l.Node, PredictedS: predicted.Layers[i].TimeS})
	}
	return d.Run(ctx, ordinal, func(c *cuda.Context) error {
		base, err := fill(c, prog, inputs)
		if err != nil {
			return err
		}
		steps, err := loadKernels(c, prog, base)
		if err != nil {
			return err
		}
		for i, s := range steps {
			r.Kernels[i].Registers, r.Kernels[i].LocalBytes = s.f.Registers, s.f.LocalBytes
		}
		// Outputs are those of a first run: the inputs' memory is used again once
		// they have been read, so that later runs see other inputs.
		for i := range steps {
			if err := steps[i].launch(); err != nil {
				return err
			}
		}
		if err := c.Wait(); err != nil {
			return err
		}
		if r.Tensors, err = fetch(c, prog, g, base); err != nil {
			return err
		}
		return r.measure(c, steps, repeat)
	})
}

// A step is a launch made ready for a device.
type step struct {
	l    *gpu.Launch
	f    *cuda.Function
	args []uint64
}

func (s *step) launch() error {
	if err := s.f.Launch(s.l.Grid, s.l.Block, s.l.Shared, s.args); err != nil {
		return fmt.Errorf("%s %q: %w", s.l.Op, s.l.Node, err)
	}
	return nil
}

// loadKernels has the driver compile a program's kernels and resolves its launches.
func loadKernels(c *cuda.Context, prog *gpu.Program, base map[string]uint64) ([]step, error) {
	m, err := c.Load(prog.PTX)
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(prog.Launches))
	for i := range prog.Launches {
		s := &steps[i]
		s.l = &prog.Launches[i]
		if s.f, err = m.Function(s.l.Kernel); err != nil {
			return nil, err
		}
		for _, a := range s.l.Args {
			s.args = append(s.args, base[a.Buffer]+uint64(a.Offset))
		}
	}
	return steps, nil
}

// measure runs the launches repeat times, with an event before the first one and
// after each.
func (r *DeviceRun) measure(c *cuda.Context, steps []step, repeat int) error {
	events := make([]*cuda.Event, len(steps)+1)
	for i := range events {
		var err error
		if events[i], err = c.NewEvent(); err != nil {
			return err
		}
	}
	total := make([]time.Duration, repeat)
	each := make([][]time.Duration, len(steps))
	for n := range repeat {
		if err := events[0].Record(); err != nil {
			return err
		}
		for i := range steps {
			if err := errors.Join(steps[i].launch(), events[i+1].Record()); err != nil {
				return err
			}
		}
		if err := c.Wait(); err != nil {
			return err
		}
		var err error
		if total[n], err = events[len(steps)].Since(events[0]); err != nil {
			return err
		}
		for i := range steps {
			t, err := events[i+1].Since(events[i])
			if err != nil {
				return err
			}
			each[i] = append(each[i], t)
		}
	}
	r.LatencyS = median(total).Seconds()
	for i := range each {
		r.Kernels[i].MeasuredS = median(each[i]).Seconds()
	}
	return nil
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
