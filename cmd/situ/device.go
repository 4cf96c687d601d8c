package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"situ/runtime"
	"situ/runtime/report"
)

func deviceCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "device",
		Short: "GPUs of this machine that kernels can run on, or why there is none",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			d := runtime.FindDevices()
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), d)
			}
			return report.Devices(cmd.OutOrStdout(), d)
		},
	}
	c.AddCommand(deviceCheckCmd())
	return c
}

func deviceCheckCmd() *cobra.Command {
	var on, out string
	var force bool
	o := runtime.DeviceCheckOptions{}
	c := &cobra.Command{
		Use:   "check [DIR...]",
		Short: "Measure a GPU and hold every bit it computes against the evaluator",
		Long: `Times one large int8 product and runs models on a GPU of this machine: those of
the ONNX-style test folders below each DIR, or the one that ships. Every output is
held against the evaluator's. Everything measured goes into one JSON file.`,
		Example: `  situ device check -o device.json
  situ device check models/ --on cuda:1 -o device.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var ok bool
			if o.Ordinal, ok = runtime.CUDATarget(on); !ok {
				return fmt.Errorf("--on %s: the check runs on cuda or cuda:N", on)
			}
			if o.Size < 1 || o.Size > 1<<15 {
				return fmt.Errorf("--size %d: from 1 to %d", o.Size, 1<<15)
			}
			if o.Repeat < 1 {
				return fmt.Errorf("--repeat %d: at least 1", o.Repeat)
			}
			o.Tests = args
			if err := mayWrite(out, force); err != nil {
				return err
			}
			_, stop := spinner(cmd, "measuring")
			r, err := runtime.CheckDevice(cmd.Context(), o, func(string) {})
			stop()
			if err != nil {
				return err
			}
			if out != "" {
				if err := writeOut(cmd, out, force, func(w io.Writer) error { return printJSON(w, r) }); err != nil {
					return err
				}
			}
			switch {
			case out == "-": // it has been written
			case wantJSON(cmd):
				err = printJSON(cmd.OutOrStdout(), r)
			default:
				err = report.DeviceCheck(cmd.OutOrStdout(), r)
			}
			if err == nil && !r.Pass {
				err = errors.New("the device does not compute the evaluator's bits everywhere")
			}
			return err
		},
	}
	fs := c.Flags()
	fs.StringVar(&on, "on", "cuda", "device: cuda or cuda:N")
	fs.StringVarP(&out, "output", "o", "", "JSON file to write results to")
	fs.IntVar(&o.Size, "size", 8192, "rows and columns of the product's matrices")
	fs.IntVar(&o.Repeat, "repeat", 20, "measured runs of each, of which the median counts")
	fs.BoolVar(&force, "force", false, "replace a file that exists")
	return c
}

// runDevice is run on a GPU of this machine.
func runDevice(cmd *cobra.Command, model string, ordinal int, mo runtime.ModelOptions, q runtime.QuantOptions, o runtime.RunOptions, outputs string, force bool) error {
	_, stop := spinner(cmd, "running")
	r, err := runtime.RunCUDA(cmd.Context(), model, ordinal, mo, q, o)
	stop()
	if err != nil {
		return err
	}
	warn(cmd, r.Warnings)
	if outputs != "" {
		if err := runtime.WriteOutputs(outputs, r.Tensors, force); err != nil {
			return err
		}
	}
	if wantJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), r)
	}
	return report.DeviceRun(cmd.OutOrStdout(), r)
}
