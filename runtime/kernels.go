package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"situ/backend/gpu"
	"situ/emulator/ptx"
	"situ/ir"
)

// KernelSummary describes a model compiled to GPU kernels.
type KernelSummary struct {
	Model     string  `json:"model"`
	Target    string  `json:"target"`
	Quant     string  `json:"quant"`
	SM        int     `json:"sm"`      // compute capability ×10
	Kernels   int     `json:"kernels"` // different ones
	Launches  int     `json:"launches"`
	Arena     int64   `json:"arena_bytes"`     // inputs, outputs and everything between
	Constants int64   `json:"constants_bytes"` // weights and tables
	PTX       bool    `json:"ptx"`
	CompileS  float64 `json:"compile_s"`
}

// KernelOptions say how CompileKernels works.
type KernelOptions struct {
	SM    int  // compute capability ×10, 0 for the default
	Force bool // replace files that exist
}

// KernelReport is the outcome of CompileKernels.
type KernelReport struct {
	Summary  KernelSummary
	Warnings []string
}

// CompileKernels compiles a model for a GPU and writes kernels, plan and
// constants into a folder. Where llc is missing the PTX is left out, with a
// warning.
func CompileKernels(ctx context.Context, name string, t *Target, dir string, mo ModelOptions, q QuantOptions, o KernelOptions) (*KernelReport, error) {
	start := time.Now()
	if t.GPU == nil {
		return nil, fmt.Errorf("%s is no GPU", t.Name)
	}
	if o.SM == 0 {
		o.SM = gpu.DefaultSM
	}
	llc, missing := gpu.FindLLC(ctx, o.SM)
	if missing != nil && !errors.Is(missing, gpu.ErrNoLLC) {
		return nil, missing
	}
	if err := gpu.Runs(t.GPU, o.SM); err != nil {
		return nil, err
	}
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	p, err := Prepare(ctx, m, q)
	if err != nil {
		return nil, err
	}
	m.Graph = nil // the float weights are several times the size of the program
	var prog *gpu.Program
	err = p.trying(func(g *ir.Graph) (err error) {
		prog, err = gpu.Compile(g, t.GPU)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &KernelReport{Warnings: append(p.Warnings, p.hostWarnings()...)}
	if missing != nil {
		r.Warnings = append(r.Warnings, missing.Error()+"; kernels.ptx is not written")
		prog.SM = o.SM
	} else if err := prog.Assemble(ctx, llc, o.SM); err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", m.Name, t.Name, err)
	} else if err := fits(prog, t); err != nil {
		return nil, fmt.Errorf("model %s on %s: %w", m.Name, t.Name, err)
	}
	if err := prog.Write(dir, o.Force); err != nil {
		return nil, err
	}
	different := map[string]bool{}
	for i := range prog.Launches {
		different[prog.Launches[i].Kernel] = true
	}
	r.Summary = KernelSummary{
		Model: m.Name, Target: t.Name, Quant: p.Quant, SM: o.SM, Kernels: len(different), Launches: len(prog.Launches),
		Arena: prog.Buffers[0].Bytes, Constants: prog.Buffers[1].Bytes, PTX: prog.PTX != "", CompileS: time.Since(start).Seconds(),
	}
	return r, nil
}

// fits reports the first kernel of which not one thread block fits on an SM. PTX of
// which the emulator knows an instruction not is let pass.
func fits(prog *gpu.Program, t *Target) error {
	mod, err := ptx.Parse(prog.PTX, gpu.PTXFile)
	if err != nil {
		return nil
	}
	d := &emulation{program: prog, card: t.GPU, module: mod}
	for i := range prog.Launches {
		if _, err := d.caches(&prog.Launches[i]); err != nil {
			return err
		}
	}
	return nil
}
