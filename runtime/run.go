package runtime

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"situ/arch"
	"situ/backend/pim"
	"situ/backend/pim/isa"
	"situ/ir"
)

// RunOptions say what a run does.
type RunOptions struct {
	Inputs string // file or folder, "" for synthetic inputs
	Mode   Mode
	Repeat int // inputs run back to back in the timing model
	Steps  int // runs whose outputs are computed, each going on from the state the one before left; 0 is 1
	Trace  io.Writer
}

// RunReport is the outcome of RunModel.
type RunReport struct {
	Title    string
	Result   *Result
	Outputs  []*ir.Tensor
	Warnings []string
}

// RunModel runs a model, or a program compiled earlier, on one
// processing-in-memory target.
func RunModel(ctx context.Context, name, on string, mo ModelOptions, q QuantOptions, o RunOptions) (*RunReport, error) {
	t, err := OpenTarget(on)
	if err != nil {
		return nil, err
	}
	if t.Chip == nil {
		return nil, fmt.Errorf("%s is a GPU: situ compare --on %s counts what it costs, situ check --executor gpu --on %s compares outputs, and --on cuda runs a model on a GPU of this machine", t.Name, on, on)
	}
	sets, err := givenInputs(o.Inputs)
	if err != nil {
		return nil, err
	}
	mo.inputs = sets[0]
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	if m.Program != nil {
		return runFile(ctx, m.Program, t, sets, q, o)
	}
	if o.Mode != TimingOnly {
		if err := m.computable(); err != nil {
			return nil, fmt.Errorf("%w; --timing-only needs none", err)
		}
	}
	if m.growth != nil && o.Steps > 1 {
		g, err := newGrowing(name, m, mo, q, o)
		if err != nil {
			return nil, err
		}
		return g.run(ctx, t, sets, o)
	}
	inputs, warnings, err := chooseInputs(m, m.given, q, o.Mode)
	if err != nil {
		return nil, err
	}
	p, err := Prepare(ctx, m, q)
	if err != nil {
		return nil, err
	}
	if _, err := p.compile(t, pim.Latency); err != nil { // first: it says what there is for the host
		return nil, err
	}
	steps, err := p.stepInputs(inputs, sets, o)
	if err != nil {
		return nil, err
	}
	var res *Result
	got, err := p.through(ctx, steps[:1], func(in []*ir.Tensor) (outputs []*ir.Tensor, err error) {
		res, outputs, err = runPIM(ctx, p, t, in, o)
		return outputs, err
	})
	if err != nil {
		return nil, err
	}
	r := &RunReport{Title: title(p, true), Result: res, Warnings: append(p.Warnings, warnings...)}
	if o.Mode != TimingOnly {
		if len(steps) > 1 {
			c, err := p.compile(t, pim.Latency)
			if err != nil {
				return nil, err
			}
			if got, err = p.goOn(ctx, c, steps, got[0]); err != nil {
				return nil, err
			}
		}
		outputs, err := p.finish(ctx, steps, got)
		if err != nil {
			return nil, err
		}
		r.Outputs = outputs[len(outputs)-1]
		res.Outputs = describe(p.outputs(), r.Outputs)
		if res.Agreement, err = p.stepsAgree(ctx, steps, got); err != nil {
			return nil, err
		}
	}
	p.describe(res)
	res.perInference(m.batch())
	return r, nil
}

// givenInputs reads the sets of inputs of a file or folder, at least one; "" names
// one that is nil.
func givenInputs(path string) ([][]named, error) {
	if path == "" {
		return [][]named{nil}, nil
	}
	return readInputs(path)
}

// runFile runs a compiled program, which has no graph to compare with.
func runFile(ctx context.Context, p *isa.Program, t *Target, sets [][]named, q QuantOptions, o RunOptions) (*RunReport, error) {
	c, err := load(p, t.Chip)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", p.Model, err)
	}
	g := &ir.Graph{Name: p.Model}
	var names []string
	for i := range p.Inputs {
		g.AddInput(p.Inputs[i].Name, ir.TypeOf(ioType(p.Inputs[i].DType), p.Inputs[i].Shape...))
	}
	for i := range p.Outputs {
		names = append(names, p.Outputs[i].Name)
	}
	m := &Model{Name: p.Model, Graph: g}
	inputs, warnings, err := chooseInputs(m, sets[0], q, o.Mode)
	if err != nil {
		return nil, err
	}
	kept := map[int]bool{}
	for _, s := range p.States {
		kept[s.Input] = true
	}
	steps, err := stepInputs(m, kept, inputs, sets, o)
	if err != nil {
		return nil, err
	}
	res, outputs, err := runProgram(ctx, c, t, inputs, o)
	if err != nil {
		return nil, err
	}
	if len(steps) > 1 {
		all, err := c.goOn(ctx, steps, outputs)
		if err != nil {
			return nil, err
		}
		outputs = all[len(all)-1]
	}
	if o.Mode != TimingOnly {
		res.Outputs = describe(names, outputs)
	}
	if o.Mode != FunctionalOnly {
		if res.steadyLimited {
			res.Notes = append(res.Notes, powerNote(t.Chip))
		}
		res.Notes = append(res.Notes, "steady figures are of copies of this program; a model given as ONNX is compiled once more for throughput")
	}
	return &RunReport{Title: fmt.Sprintf("%s   compiled program   %s   batch 1", p.Model, p.Quant), Result: res, Outputs: outputs, Warnings: warnings}, nil
}

// chooseInputs takes given inputs, a test input that ships with the model, or
// seeded synthetic ones; a run of time and energy alone needs none.
func chooseInputs(m *Model, given []named, q QuantOptions, mode Mode) ([]*ir.Tensor, []string, error) {
	switch {
	case given != nil:
		in, err := bind(m.Graph, given)
		return in, nil, err
	case mode == TimingOnly:
		return nil, nil, nil
	}
	sets, err := ownInputs(m, q, 1)
	if err != nil {
		return nil, nil, err
	}
	return sets[0], nil, nil
}

// ownInputs takes n test inputs that ship with the model, again from the first when
// there are fewer, or makes seeded synthetic ones, which repeat.
func ownInputs(m *Model, q QuantOptions, n int) ([][]*ir.Tensor, error) {
	sets := make([][]*ir.Tensor, n)
	if m.Ships != nil {
		images, _, err := m.Ships.Test()
		if err != nil {
			return nil, err
		}
		for i := range sets {
			sets[i] = []*ir.Tensor{ir.NewTensor(ir.F32, m.Graph.Type(m.Graph.Inputs[0]).Shape, images[i%len(images)])}
		}
		return sets, nil
	}
	const different = 8 // as many as tell entries of a batch apart
	for i := range sets {
		if i >= different {
			sets[i] = sets[i%different]
			continue
		}
		var err error
		if sets[i], err = synthetic(m.Graph, q.Seed+uint64(i)); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// agreement compares what a target and its host computed of a model's graph for a
// batch of inputs with the evaluator's for each of them on the fixed-point graph, and
// with those of the model as it came. got are the outputs at the given positions.
func agreement(ctx context.Context, p *Prepared, inputs, got [][]*ir.Tensor, positions []int) (*Agreement, error) {
	a := agreeing{exact: true, d: difference{exact: true}}
	for k, in := range inputs {
		fixed, err := evaluate(ctx, p.Fixed, in)
		if err != nil {
			return nil, err
		}
		float, err := evaluate(ctx, p.Model.Graph, in)
		if err != nil {
			return nil, err
		}
		a.add(got[k], fixed, float, positions)
	}
	return a.result(), nil
}

// agreeing is an Agreement in the making.
type agreeing struct {
	exact bool
	d     difference
}

// add compares outputs with those of the evaluator at their positions.
func (a *agreeing) add(got, fixed, float []*ir.Tensor, positions []int) {
	for k, i := range positions {
		a.exact = a.exact && sameBits(got[k], fixed[i])
		a.d.add(compare(got[k], float[i], 0))
	}
}

func (a *agreeing) result() *Agreement {
	r := &Agreement{BitExact: a.exact, MaxAbsError: a.d.maxAbs}
	if s := a.d.sqnr(); !math.IsInf(s, 0) && !math.IsNaN(s) {
		r.SQNRdB = &s
	}
	return r
}

func outputNames(g *ir.Graph) []string {
	var names []string
	for _, id := range g.Outputs {
		names = append(names, g.Value(id).Name)
	}
	return names
}

// title names a model, what one inference takes, and the sizes that were chosen for
// it; batch says whether the inputs of a run are among them.
func title(p *Prepared, batch bool) string {
	m := p.Model
	what := m.Name
	if m.Description != "" {
		what += "   " + m.Description
	}
	what = fmt.Sprintf("%s   %s MACs   %s", what, count(p.MACs/int64(m.batch())), p.Quant)
	if batch && (m.Batch > 1 || len(m.bound) == 0 || m.Dims != nil) {
		what += fmt.Sprintf("   batch %d", m.batch())
	}
	for _, d := range slices.Sorted(maps.Keys(m.bound)) {
		what += fmt.Sprintf("   %s=%d", d, m.bound[d])
	}
	return what
}

// count formats a large number: 1,480,000 is "1.48 M".
func count(n int64) string {
	switch v := float64(n); {
	case n >= 1e9:
		return fmt.Sprintf("%.3g G", v/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3g M", v/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3g k", v/1e3)
	}
	return fmt.Sprint(n)
}

// ProgramSummary describes a compiled program.
type ProgramSummary struct {
	Model           string  `json:"model"`
	Target          string  `json:"target"`
	Quant           string  `json:"quant"`
	Clusters        int     `json:"clusters"`
	ClustersTotal   int     `json:"clusters_total"`
	Instructions    int     `json:"instructions"`
	WeightBytes     int64   `json:"weight_bytes"`
	WeightSRAM      int64   `json:"weight_sram_bytes"` // used of each core
	WeightSRAMTotal int64   `json:"weight_sram_bytes_total"`
	Scratchpad      int64   `json:"scratchpad_bytes"` // used of each cluster
	ScratchpadTotal int64   `json:"scratchpad_bytes_total"`
	FileBytes       int64   `json:"file_bytes"`
	CompileS        float64 `json:"compile_s"`
}

// CompileReport is the outcome of Compile.
type CompileReport struct {
	Encoded  []byte // the .pim file
	Summary  ProgramSummary
	Warnings []string
}

// Compile compiles a model for one processing-in-memory target.
func Compile(ctx context.Context, name string, t *Target, mo ModelOptions, q QuantOptions) (*CompileReport, error) {
	start := time.Now()
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	p, err := Prepare(ctx, m, q)
	if err != nil {
		return nil, err
	}
	m.Graph = nil // the float weights are several times the size of the program
	c, err := p.compile(t, pim.Latency)
	if err != nil {
		return nil, err
	}
	b, err := isa.Encode(c.program)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, streams := range [][]isa.Stream{c.program.Init, c.program.Main} {
		for _, s := range streams {
			n += len(s.Insts)
		}
	}
	return &CompileReport{Encoded: b, Warnings: append(p.Warnings, p.hostWarnings()...), Summary: ProgramSummary{
		Model: m.Name, Target: t.Name, Quant: p.Quant,
		Clusters: len(c.program.Main), ClustersTotal: t.Chip.NumClusters(), Instructions: n,
		WeightBytes: c.program.WeightBytes, WeightSRAM: c.program.WeightSRAMBytes, WeightSRAMTotal: t.Chip.WeightSRAM.Bytes.Int(),
		Scratchpad: c.program.ScratchpadBytes, ScratchpadTotal: t.Chip.Scratchpad.Bytes.Int(),
		FileBytes: int64(len(b)), CompileS: time.Since(start).Seconds(),
	}}, nil
}

// Disassemble writes the program of a .pim file as text.
func Disassemble(w io.Writer, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p, err := isa.Decode(b)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return isa.Disassemble(w, p)
}

// Assemble returns the .pim file of a program in text form.
func Assemble(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := isa.Assemble(f, path)
	if err != nil {
		return nil, err
	}
	if slices.Contains(arch.Presets(), p.Arch) {
		t, err := OpenTarget(p.Arch)
		if err != nil {
			return nil, err
		}
		if t.Chip == nil || t.Chip.Fingerprint() != p.Fingerprint {
			return nil, fmt.Errorf("%s: .arch: the fingerprint is not that of %s; the program is of another architecture, or of other figures of it", path, p.Arch)
		}
	}
	return isa.Encode(p)
}
