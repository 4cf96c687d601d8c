package passes

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"situ/ir"
)

// Pass is one step from the imported graph to the fixed-point graph.
type Pass struct {
	Name string
	Doc  string // one line: what the graph looks like afterwards
	// Run returns the rewritten graph; it must not change g, but may return it.
	Run func(g *ir.Graph, s *State) (*ir.Graph, error)
	// After names passes that must stand earlier in the list, with the reason.
	After []Constraint
}

// Constraint says which pass must have run before, and why.
type Constraint struct {
	Pass, Reason string
}

// Passes is the list, in order.
var Passes = []Pass{
	{
		Name: "canonicalise",
		Doc:  "one spelling for each thing: no identities, no chains of movements, no common sub-expressions",
		Run:  canonicalise,
	},
	{
		Name: "fold",
		Doc:  "no operator on constants alone, but dequantize of a constant",
		Run:  fold,
		After: []Constraint{
			{"canonicalise", "it moves reshapes and transposes of weights above their dequantize, onto the constant"},
		},
	},
	{
		Name: "layout",
		Doc:  "images NHWC from end to end; transposes only where data truly changes order",
		Run:  layout,
		After: []Constraint{
			{"fold", "weights must be constants before their rows can be permuted"},
		},
	},
	{
		Name: "tidy",
		Doc:  "canonical form again, after layout; transposes that move no data are reshapes",
		Run:  tidy,
		After: []Constraint{
			{"layout", "it tidies what layout leaves"},
		},
	},
	{
		Name: "normalise",
		Doc:  "layer normalisations are one operator",
		Run:  normalise,
		After: []Constraint{
			{"tidy", "equal means have become one, and what was divided by a constant is multiplied"},
		},
	},
	{
		Name: "fuse",
		Doc:  "scale, bias, padding and clamp inside the product they follow",
		Run:  fuse,
		After: []Constraint{
			{"layout", "a transpose between a product and its bias or activation hides the pair; channels must be the last axis"},
			{"tidy", "division by a constant has become multiplication"},
			{"normalise", "of what it looks for, a mean may become part of a product"},
		},
	},
	{
		Name: "equalise",
		Doc:  "float models: channels between products alike in range, where one scale then loses less",
		Run:  equalise,
		After: []Constraint{
			{"fuse", "biases and activations must be inside the products they belong to"},
		},
	},
	{
		Name: "calibrate",
		Doc:  "float models: the range of every value over the calibration inputs is known",
		Run:  calibrate,
		After: []Constraint{
			{"fuse", "ranges are wanted of values that will exist on the hardware"},
			{"equalise", "it changes ranges"},
		},
	},
	{
		Name: "quantise",
		Doc:  "float models: quantize/dequantize pairs state the scales of activations and weights",
		Run:  quantise,
		After: []Constraint{
			{"calibrate", "scales follow from the ranges; value ids are those of the calibrated graph"},
		},
	},
	{
		Name: "fix",
		Doc:  "dequantize–operator–quantize has become the operator on codes",
		Run:  fix,
		After: []Constraint{
			{"quantise", "it reads the scales from quantize/dequantize pairs"},
			{"fuse", "a fused activation becomes a clamp of codes, and a bias an int32 operand"},
		},
	},
	{
		Name: "legalise",
		Doc:  "signed weights without zero points, tables composed, clamps inside their producer, float constants folded",
		Run:  legalise,
		After: []Constraint{
			{"fix", "it rewrites operators on codes"},
		},
	},
}

// Config says what Run should do. The zero value compiles quantised models and
// refuses float ones, which need calibration inputs.
type Config struct {
	Quant  Quantisation // for float models
	States []ir.State   // of the graph; each is given one quantisation, so that it can be kept in codes

	StopAfter string                         // name of the last pass to run
	Disable   []string                       // names of passes to skip
	After     func(pass string, g *ir.Graph) // unless nil, called with the graph after each pass
}

// Timing is how long one pass took.
type Timing struct {
	Pass     string
	Duration time.Duration
}

// Result is what Run returns.
type Result struct {
	Graph    *ir.Graph
	Timings  []Timing
	Fallback []Fallback // what stays in float32, the largest share first
	Raised   []Raised   // layers in higher precision than the rest, the worst first
}

// State is what passes hand on to later ones beside the graph.
type State struct {
	ctx    context.Context
	quant  Quantisation
	states []ir.State
	ranges []Range   // by value id, set by calibrate for quantise
	floors []float64 // by value id, set by calibrate: see masks; nil for none
	raised []Raised  // set by quantise
}

// Run takes an imported graph through Passes. See RunContext.
func Run(g *ir.Graph, cfg Config) (*Result, error) {
	return RunContext(context.Background(), g, cfg)
}

// RunContext takes an imported graph through Passes, verifying after each. The
// graph given is not changed. A pass that fails, panics or leaves a graph that
// does not verify gives an error with the pass's name.
func RunContext(ctx context.Context, g *ir.Graph, cfg Config) (*Result, error) {
	if err := checkNames(cfg); err != nil {
		return nil, err
	}
	if err := ir.Verify(g); err != nil {
		return nil, fmt.Errorf("graph %q before the first pass: %w", g.Name, err)
	}
	s := &State{ctx: ctx, quant: cfg.Quant, states: cfg.States}
	res := &Result{}
	for i := range Passes {
		p := &Passes[i]
		if slices.Contains(cfg.Disable, p.Name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		next, err := runOne(p, g, s)
		if err != nil {
			return nil, err
		}
		g = next
		res.Timings = append(res.Timings, Timing{p.Name, time.Since(start)})
		if cfg.After != nil {
			cfg.After(p.Name, g)
		}
		if cfg.StopAfter == p.Name {
			break
		}
	}
	res.Graph = g
	res.Fallback = Fallbacks(g)
	res.Raised = s.raised
	return res, nil
}

// runOne runs and verifies one pass; a panic becomes an error that carries the
// pass's name, the stack and, cut to a readable length, the graph it was given.
func runOne(p *Pass, g *ir.Graph, s *State) (next *ir.Graph, err error) {
	defer func() {
		if r := recover(); r != nil {
			text := g.String()
			if len(text) > 20000 {
				text = text[:20000] + "\n…"
			}
			err = fmt.Errorf("pass %s: internal error: %v\n%s\ngraph before the pass:\n%s", p.Name, r, debug.Stack(), text)
		}
	}()
	next, err = p.Run(g, s)
	if err != nil {
		return nil, fmt.Errorf("pass %s: %w", p.Name, err)
	}
	if next != g {
		if err := ir.Verify(next); err != nil {
			return nil, fmt.Errorf("pass %s left a wrong graph: %w", p.Name, err)
		}
	}
	return next, nil
}

// Names lists the passes in order.
func Names() []string {
	var names []string
	for _, p := range Passes {
		names = append(names, p.Name)
	}
	return names
}

func checkNames(cfg Config) error {
	known := Names()
	check := func(what, name string) error {
		if name == "" || slices.Contains(known, name) {
			return nil
		}
		return fmt.Errorf("%s: no pass %q; passes are %s", what, name, strings.Join(known, ", "))
	}
	if err := check("stop after", cfg.StopAfter); err != nil {
		return err
	}
	for _, name := range cfg.Disable {
		if err := check("disable", name); err != nil {
			return err
		}
	}
	return nil
}
