package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"situ/backend/gpu"
	"situ/runtime"
	"situ/runtime/report"
)

func runCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var on, inputs, outputs, trace string
	var functional, timing, force bool
	var repeat, steps int
	c := &cobra.Command{
		Use:   "run MODEL",
		Short: "Run a model or a compiled program on one target",
		Long: `Compiles MODEL (an ONNX file, a compiled .pim program, or the name of a model
that ships) and runs it: on the emulator of a processing-in-memory target, or with
--on cuda on a GPU of this machine (cuda:N the Nth), where each launch is timed and
the outputs are held against the evaluator's. Without --inputs, seeded synthetic
inputs are used.`,
		Example: `  situ run model.onnx --on corsair-card --inputs image.npy --outputs out/
  situ run digits --on edge-dimc --timing-only --trace digits.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			if functional && timing {
				return errors.New("--functional-only and --timing-only exclude each other")
			}
			if functional && trace != "" {
				return errors.New("--trace shows time, which --functional-only leaves out")
			}
			if repeat < 1 {
				return fmt.Errorf("--repeat %d: at least 1", repeat)
			}
			if outputs != "" {
				if err := mayFill(outputs); err != nil {
					return err
				}
				if err := mayReplace(filepath.Join(outputs, "output_0.npy"), force); err != nil {
					return err
				}
			}
			if steps < 1 {
				return fmt.Errorf("--steps %d: at least 1", steps)
			}
			o := runtime.RunOptions{Inputs: inputs, Repeat: repeat, Steps: steps}
			if n, ok := runtime.CUDATarget(on); ok {
				if functional || timing || trace != "" || steps > 1 {
					return fmt.Errorf("--functional-only, --timing-only, --trace and --steps are of the emulator; %s is a device", on)
				}
				return runDevice(cmd, args[0], n, mo, qf.o, o, outputs, force)
			}
			switch {
			case functional:
				o.Mode = runtime.FunctionalOnly
			case timing:
				o.Mode = runtime.TimingOnly
			}
			var traceFile *output
			if trace != "" {
				if traceFile, err = create(trace, force); err != nil {
					return err
				}
				o.Trace = traceFile
			}
			_, stop := spinner(cmd, "running")
			r, err := runtime.RunModel(cmd.Context(), args[0], on, mo, qf.o, o)
			stop()
			if err != nil {
				if traceFile != nil {
					traceFile.abandon()
				}
				return err
			}
			if traceFile != nil {
				if err := traceFile.commit(); err != nil {
					return err
				}
			}
			warn(cmd, r.Warnings)
			if outputs != "" {
				if err := runtime.WriteOutputs(outputs, r.Outputs, force); err != nil {
					return err
				}
			}
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), r.Result)
			}
			return report.Run(cmd.OutOrStdout(), r.Title, r.Result)
		},
	}
	mf.add(c.Flags())
	mf.addStates(c.Flags())
	qf.add(c.Flags())
	fs := c.Flags()
	fs.StringVar(&on, "on", "corsair-card", "target: a preset, an architecture file, or cuda for a GPU of this machine")
	fs.StringVar(&inputs, "inputs", "", "folder, .npy or .pb file with the inputs")
	fs.StringVar(&outputs, "outputs", "", "folder to write output_K.npy to")
	fs.StringVar(&trace, "trace", "", "write a Chrome/Perfetto trace of the units to this file")
	fs.BoolVar(&functional, "functional-only", false, "compute outputs only, no time or energy")
	fs.BoolVar(&timing, "timing-only", false, "time and energy only: needs no inputs and no weights")
	fs.IntVar(&repeat, "repeat", 1, "run the inputs this often, one after the other")
	fs.IntVar(&steps, "steps", 1, "run this many steps, each going on with the state that the one before left; inputs of later steps come from further test_data_set_* folders, or repeat; outputs are the last step's")
	fs.BoolVar(&force, "force", false, "replace files that exist")
	return c
}

func compileCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var on, out string
	var force bool
	var sm int
	c := &cobra.Command{
		Use:   "compile MODEL",
		Short: "Compile a model to a program, or to GPU kernels, for one target",
		Long: `Compiles MODEL (an ONNX file or the name of a model that ships). For a
processing-in-memory target -o names the program file. For a GPU it names a
folder, which receives kernels.ll (LLVM IR), kernels.ptx (by llc, from Debian's
package llvm), plan.json (buffers and launches) and constants.bin.`,
		Example: `  situ compile model.onnx --on corsair-card -o model.pim
  situ compile model.onnx --on h100 -o kernels/`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			if out == "" {
				return errors.New("compile needs -o FILE for the program, or -o DIR for a GPU's kernels")
			}
			t, err := runtime.OpenTarget(on)
			if err != nil {
				return err
			}
			if t.GPU != nil {
				if out == "-" {
					return errors.New("kernels are several files: give a folder with -o DIR")
				}
				return compileKernels(cmd, args[0], t, out, mo, qf.o, runtime.KernelOptions{SM: sm, Force: force})
			}
			if cmd.Flags().Changed("sm") {
				return fmt.Errorf("--sm is for GPUs; %s is none", t.Name)
			}
			if err := mayWrite(out, force); err != nil {
				return err
			}
			_, stop := spinner(cmd, "compiling")
			r, err := runtime.Compile(cmd.Context(), args[0], t, mo, qf.o)
			stop()
			if err != nil {
				return err
			}
			warn(cmd, r.Warnings)
			if err := writeOut(cmd, out, force, func(w io.Writer) error { _, err := w.Write(r.Encoded); return err }); err != nil {
				return err
			}
			if out == "-" {
				return nil
			}
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), r.Summary)
			}
			return report.Compiled(cmd.OutOrStdout(), out, &r.Summary)
		},
	}
	mf.add(c.Flags())
	mf.addStates(c.Flags())
	qf.add(c.Flags())
	fs := c.Flags()
	fs.StringVar(&on, "on", "corsair-card", "target: a preset or an architecture file")
	fs.StringVarP(&out, "output", "o", "", "program file to write; for a GPU a folder")
	fs.BoolVar(&force, "force", false, "replace files that exist")
	fs.IntVar(&sm, "sm", gpu.DefaultSM, "compute capability ×10 that PTX is made for; newer cards run it too")
	return c
}

// compileKernels is compile for a GPU.
func compileKernels(cmd *cobra.Command, model string, t *runtime.Target, dir string, mo runtime.ModelOptions, q runtime.QuantOptions, o runtime.KernelOptions) error {
	if err := mayFill(dir); err != nil {
		return err
	}
	_, stop := spinner(cmd, "compiling")
	r, err := runtime.CompileKernels(cmd.Context(), model, t, dir, mo, q, o)
	stop()
	if err != nil {
		return err
	}
	warn(cmd, r.Warnings)
	if wantJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), r.Summary)
	}
	return report.Kernels(cmd.OutOrStdout(), dir, &r.Summary)
}
