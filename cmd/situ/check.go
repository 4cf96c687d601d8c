package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"situ/runtime"
	"situ/runtime/report"
)

func checkCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var o runtime.CheckOptions
	c := &cobra.Command{
		Use:   "check DIR...",
		Short: "Run ONNX-style test folders and say pass or fail, and by how much",
		Long: `Looks below each DIR for folders that hold model.onnx and test_data_set_*, runs
them, and compares with the recorded outputs.

On eval, outputs must meet the recorded ones within tolerance. On pim and gpu, the
emulator's bits must equal the evaluator's on the fixed-point graph; models that
came quantised must be within one output step of the recorded outputs on 99.9 %
of elements; float models must reach a signal-to-quantisation-noise ratio of 20 dB.
What the host runs because the target has no form for it is the evaluator's; each test
says how much that is.
A float model is calibrated with the recorded inputs; how many of its layers have
higher precision (--mixed) is said.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			o.Model, o.Quant = mo, qf.o
			asJSON := wantJSON(cmd)
			enc := json.NewEncoder(cmd.OutOrStdout())
			total, failed := 0, 0
			err = runtime.Check(cmd.Context(), args, o, func(r runtime.CheckResult) error {
				total++
				if !r.Pass {
					failed++
				}
				if asJSON {
					return enc.Encode(r)
				}
				return report.Check(cmd.OutOrStdout(), r)
			})
			if err != nil {
				return err
			}
			if !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%d passed, %d failed\n", total-failed, failed)
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d tests failed", failed, total)
			}
			return nil
		},
	}
	mf.add(c.Flags())
	qf.add(c.Flags())
	c.Flags().StringVar(&o.Executor, "executor", "eval", "eval (reference evaluator), pim (compiled program on the emulator) or gpu (kernels on the PTX emulator)")
	c.Flags().StringVar(&o.Target, "on", "", "architecture of the pim executor (default corsair-card) or the gpu executor (default a100)")
	return c
}
