package runtime

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"situ/ir"
)

// CheckOptions say what Check runs.
type CheckOptions struct {
	Executor string // "eval", "pim" (compiled program on the emulator) or "gpu" (kernels on the PTX emulator)
	Target   string // architecture of pim and gpu, "" for a default
	Model    ModelOptions
	Quant    QuantOptions
}

// CheckResult is the outcome of one test folder. The errors are nil when nothing
// could be compared, SQNRdB also when the outputs equal the recorded ones.
type CheckResult struct {
	Name        string   `json:"name"`
	Executor    string   `json:"executor"`
	Pass        bool     `json:"pass"`
	MaxAbsError *float64 `json:"max_abs_error"`
	MaxRelError *float64 `json:"max_rel_error"`
	SQNRdB      *float64 `json:"sqnr_db"`
	Raised      int      `json:"raised,omitempty"`     // layers in higher precision than the rest, of the set that has most
	HostShare   float64  `json:"host_share,omitempty"` // of the element operations, what the host ran instead of the target; 1 when nothing was left
	Reason      string   `json:"reason,omitempty"`
}

// Tolerances of Check.
const (
	floatTolerance = 1e-4  // of the output's magnitude, on eval
	halfTolerance  = 1e-3  // the same for float16 and bfloat16 outputs, whose last bit is 2⁻¹⁰ and more
	opRelative     = 1e-3  // of each element: the tolerance of the standard's own operator tests,
	opAbsolute     = 1e-7  // which record few digits
	stepShare      = 0.999 // of elements within one output step, quantised models on pim
	minSQNR        = 20    // dB, float models on pim
)

// executors names the executors that compile, with the target each takes when
// none is given.
var executors = map[string]string{"pim": "corsair-card", "gpu": "a100"}

// Check runs every test folder below the given ones and hands each result to
// yield as it is known. A folder is a test when it holds model.onnx and
// test_data_set_*. It returns an error when nothing was found, or as soon as
// yield or the context does.
func Check(ctx context.Context, dirs []string, o CheckOptions, yield func(CheckResult) error) error {
	var target *Target
	if o.Executor != "eval" {
		on, ok := executors[o.Executor]
		if !ok {
			return fmt.Errorf("no executor %q; there are eval, pim and gpu", o.Executor)
		}
		if o.Target != "" {
			on = o.Target
		}
		var err error
		if target, err = OpenTarget(on); err != nil {
			return err
		}
		if o.Executor == "pim" && target.Chip == nil {
			return fmt.Errorf("%s is not a processing-in-memory architecture, which executor pim needs", on)
		}
		if o.Executor == "gpu" && target.GPU == nil {
			return fmt.Errorf("%s is not a GPU, which executor gpu needs", on)
		}
	}
	found := 0
	for _, root := range dirs {
		tests, err := findTests(root)
		if err != nil {
			return err
		}
		found += len(tests)
		for _, dir := range tests {
			if err := ctx.Err(); err != nil {
				return err
			}
			r := CheckResult{Name: testName(root, dir), Executor: o.Executor}
			d, reason := checkFolder(ctx, dir, o, target)
			if err := ctx.Err(); err != nil {
				return err // what was interrupted did not fail
			}
			r.Pass, r.Reason, r.Raised, r.HostShare = reason == "", reason, d.raised, d.host
			if d.n > 0 || reason == "" {
				r.MaxAbsError, r.MaxRelError = &d.maxAbs, &d.maxRel
			}
			if s := d.sqnr(); d.n > 0 && !math.IsInf(s, 0) && !math.IsNaN(s) {
				r.SQNRdB = &s
			}
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	if found == 0 {
		return fmt.Errorf("no folder with model.onnx and test_data_set_* below %s", strings.Join(dirs, ", "))
	}
	return nil
}

// findTests returns the test folders below root, sorted.
func findTests(root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || e.Name() != "model.onnx" {
			return nil
		}
		dir := filepath.Dir(p)
		sets, err := setsIn(dir)
		if len(sets) > 0 {
			out = append(out, dir)
		}
		return err
	})
	slices.Sort(out)
	return out, err
}

func testName(root, dir string) string {
	if rel, err := filepath.Rel(root, dir); err == nil && rel != "." {
		return filepath.ToSlash(rel)
	}
	return filepath.Base(dir)
}

// dataSet is one recorded pair of inputs and outputs.
type dataSet struct {
	name    string
	in, out []named
}

func readSets(dir string) ([]dataSet, error) {
	dirs, err := setsIn(dir)
	if err != nil {
		return nil, err
	}
	var sets []dataSet
	for _, d := range dirs {
		s := dataSet{name: filepath.Base(d)}
		if s.in, err = readSet(d, "input"); err != nil {
			return nil, err
		}
		if s.out, err = readSet(d, "output"); err != nil {
			return nil, err
		}
		if len(s.out) == 0 {
			return nil, fmt.Errorf("%s: no recorded outputs", d)
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// checkFolder runs one folder and returns how far its outputs are from the
// recorded ones, and why it fails ("" when it passes).
func checkFolder(ctx context.Context, dir string, o CheckOptions, target *Target) (d difference, reason string) {
	d.exact = true
	sets, err := readSets(dir)
	if err != nil {
		return d, err.Error()
	}
	for _, s := range sets {
		e, reason := checkSet(ctx, dir, s, o, target)
		d.add(e)
		if reason != "" {
			return d, s.name + ": " + reason
		}
	}
	return d, ""
}

func checkSet(ctx context.Context, dir string, s dataSet, o CheckOptions, target *Target) (d difference, reason string) {
	mo := o.Model
	mo.inputs = s.in
	m, err := OpenModel(filepath.Join(dir, "model.onnx"), mo)
	if err != nil {
		return d, err.Error()
	}
	inputs, err := bind(m.Graph, m.given)
	if err != nil {
		return d, err.Error()
	}
	if n := len(m.outputs()); len(s.out) != n {
		return d, fmt.Sprintf("%d outputs recorded, the model has %d", len(s.out), n)
	}
	if o.Executor == "eval" {
		got, err := evaluate(ctx, m.Graph, inputs)
		if err != nil {
			return d, err.Error()
		}
		if got, err = m.finish(ctx, inputs, got, nil); err != nil {
			return d, err.Error()
		}
		return checkEval(m, got, s.out)
	}
	return checkCompiled(ctx, m, inputs, s.out, o, target)
}

// checkEval holds outputs against recorded ones: integers exactly, floats within
// floatTolerance of the output's magnitude. A quantised model may round a code
// the other way where the order of float32 sums differs from the recorder's;
// its outputs must be within one step on stepShare of the elements.
func checkEval(m *Model, got []*ir.Tensor, want []named) (d difference, reason string) {
	d.exact = true
	g := m.Graph
	quantised := cameQuantised(g) && m.Host == nil
	for i, w := range want {
		if reason := sameKind(got[i], w.tensor); reason != "" {
			return d, fmt.Sprintf("output %d: %s", i, reason)
		}
		step := 0.0
		if quantised {
			step = outputStep(g, g.Outputs[i])
		}
		e := compare(got[i], w.tensor, step)
		d.add(e)
		switch {
		case e.nanDiff:
			return d, fmt.Sprintf("output %d: %s", i, nanReason)
		case step > 0:
			if e.beyond > allowedBeyond(e.n) {
				return d, fmt.Sprintf("output %d: %s", i, beyondReason(e, step))
			}
		case w.tensor.DType.IsFloat() && e.maxRel > tolerance(w.tensor.DType) && !closeEach(got[i], w.tensor):
			return d, fmt.Sprintf("output %d: off by %.3g of its magnitude, more than %.0e", i, e.maxRel, tolerance(w.tensor.DType))
		case !w.tensor.DType.IsFloat() && !e.exact:
			return d, fmt.Sprintf("output %d: %d of %d integers differ", i, e.beyond, e.n)
		}
	}
	return d, ""
}

func tolerance(d ir.DType) float64 {
	if d == ir.F16 || d == ir.BF16 {
		return halfTolerance
	}
	return floatTolerance
}

// closeEach reports whether every element meets the standard's tolerance for
// operator tests.
func closeEach(got, want *ir.Tensor) bool {
	w := reals(want)
	for i, g := range reals(got) {
		if !(math.Abs(g-w[i]) <= opAbsolute+opRelative*math.Abs(w[i])) {
			return false
		}
	}
	return true
}

const nanReason = "NaN or infinity where the recorded output has none, or the other way round"

// allowedBeyond returns how many of n elements may be more than a step off.
func allowedBeyond(n int) int { return int(float64(n) * (1 - stepShare)) }

func beyondReason(e difference, step float64) string {
	return fmt.Sprintf("%d of %d elements are more than one step (%.4g) from the recorded output", e.beyond, e.n, step)
}

func sameKind(got, want *ir.Tensor) string {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("%s%v, recorded is %s%v", got.DType, got.Shape, want.DType, want.Shape)
	}
	return ""
}

// lastBits is how far, of its magnitude, a float32 output of GPU kernels may be
// from the evaluator's where the kernels compute exp, log and the like: their
// last bits are not the same on every machine. Everything else must be equal.
const lastBits = 1e-6

// checkCompiled compiles the model, emulates it, and holds the bits against the
// evaluator's and the values against the recorded ones.
func checkCompiled(ctx context.Context, m *Model, inputs []*ir.Tensor, want []named, o CheckOptions, target *Target) (d difference, reason string) {
	d.exact = true
	p, err := prepare(ctx, m, o.Quant, [][]*ir.Tensor{inputs})
	if err != nil {
		return d, err.Error()
	}
	ref, err := evaluate(ctx, p.Fixed, inputs)
	if err != nil {
		return d, err.Error()
	}
	run := emulate
	if target.GPU != nil {
		run = emulateKernels
	}
	got, err := run(ctx, p, target, inputs)
	if err != nil {
		return d, err.Error()
	}
	if m.Host != nil {
		d, reason = checkHost(ctx, p, inputs, got, ref, want)
		d.host = p.hostShare()
		return d, reason
	}
	d.host = p.hostShare()
	for i, w := range want {
		if reason := sameKind(got[i], w.tensor); reason != "" {
			return d, fmt.Sprintf("output %d: %s", i, reason)
		}
		if !sameBits(got[i], ref[i]) {
			e := compare(got[i], ref[i], 0)
			near := target.GPU != nil && len(p.Fallback) > 0 && w.tensor.DType.IsFloat() && e.maxRel <= lastBits
			if !near {
				return e, fmt.Sprintf("output %d: emulator and evaluator differ in %d of %d elements", i, e.beyond, e.n)
			}
		}
		step := outputStep(p.Fixed, p.Fixed.Outputs[i])
		e := compare(got[i], w.tensor, step)
		e.raised = len(p.Raised)
		d.add(e)
		if e.nanDiff {
			return d, fmt.Sprintf("output %d: %s", i, nanReason)
		}
		if p.CameQuantised && e.beyond > allowedBeyond(e.n) {
			return d, fmt.Sprintf("output %d: %s", i, beyondReason(e, step))
		}
	}
	if s := d.sqnr(); !p.CameQuantised && s < minSQNR {
		return d, fmt.Sprintf("signal-to-quantisation-noise ratio %.1f dB, less than %d", s, minSQNR)
	}
	return d, ""
}

// checkHost is the end of checkCompiled for a model of which the host runs an end
// that depends on data. What the host reads is compared instead of the outputs: a box
// more or less gives those another shape. Where nothing was lost before, the outputs
// must be the recorded ones.
func checkHost(ctx context.Context, p *Prepared, inputs, got, ref []*ir.Tensor, want []named) (d difference, reason string) {
	d.exact = true
	for i := range got {
		if !sameBits(got[i], ref[i]) {
			e := compare(got[i], ref[i], 0)
			return e, fmt.Sprintf("operand %d of the host: emulator and evaluator differ in %d of %d elements", i, e.beyond, e.n)
		}
	}
	float, err := evaluate(ctx, p.Model.Graph, inputs)
	if err != nil {
		return d, err.Error()
	}
	for i := range got {
		e := compare(got[i], float[i], 0)
		e.raised = len(p.Raised)
		d.add(e)
	}
	sets, err := p.finish(ctx, [][]*ir.Tensor{inputs}, [][]*ir.Tensor{got})
	if err != nil {
		return d, err.Error()
	}
	outputs := sets[0]
	if d.exact {
		return checkEval(p.Model, outputs, want)
	}
	for i, w := range want {
		if t := outputs[i]; t.DType != w.tensor.DType || len(t.Shape) != len(w.tensor.Shape) {
			return d, fmt.Sprintf("output %d: %s%v, recorded is %s%v", i, t.DType, t.Shape, w.tensor.DType, w.tensor.Shape)
		}
	}
	if s := d.sqnr(); !p.CameQuantised && s < minSQNR {
		return d, fmt.Sprintf("signal-to-quantisation-noise ratio of what the host reads %.1f dB, less than %d", s, minSQNR)
	}
	return d, ""
}

// outputStep returns the size of one quantisation step of a graph output: the
// largest scale among the codes it follows from most directly, or 1 when it is
// codes itself. It is 0 for an output that follows from no codes.
func outputStep(g *ir.Graph, output ir.ValueID) float64 {
	var step float64
	seen := map[ir.ValueID]bool{}
	todo := []ir.ValueID{output}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		op := g.DefOp(id)
		if seen[id] || op == nil {
			continue
		}
		seen[id] = true
		switch q := g.Type(op.In[0]).Quant; {
		case g.Type(id).DType.IsInt() && g.Type(id).Quant != nil:
			step = max(step, 1)
		case op.Kind == ir.Dequantize && q != nil:
			for _, s := range q.Scale {
				step = max(step, float64(s))
			}
		default:
			todo = append(todo, op.In...)
		}
	}
	return step
}
