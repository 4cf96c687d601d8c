package main

import (
	"io"

	"github.com/spf13/cobra"

	"situ/runtime"
	"situ/runtime/report"
)

func compareCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var on, html string
	var force bool
	var co runtime.CompareOptions
	c := &cobra.Command{
		Use:   "compare MODEL",
		Short: "Time, energy and data movement of a model on several targets, side by side",
		Example: `  situ compare digits
  situ compare model.onnx --on corsair-card,edge-dimc,h100,l4 --html report.html
  situ compare model.onnx --on corsair-card,h100 --batch 1,8,64`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			if err := mayWrite(html, force); err != nil {
				return err
			}
			var stop func()
			co.Progress, stop = spinner(cmd, "reading "+args[0])
			cmp, err := runtime.Compare(cmd.Context(), args[0], split(on), mo, qf.o, co)
			stop()
			if err != nil {
				return err
			}
			warn(cmd, cmp.Warnings)
			var acc *report.Accuracy
			if cmp.Accuracy != nil {
				a := report.Accuracy(*cmp.Accuracy)
				acc = &a
			}
			if html != "" {
				if err := writeOut(cmd, html, force, func(w io.Writer) error { return report.HTML(w, cmp.Title, cmp.Results, acc) }); err != nil {
					return err
				}
			}
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), cmp.Results)
			}
			return report.Compare(cmd.OutOrStdout(), cmp.Title, cmp.Results, acc)
		},
	}
	mf.add(c.Flags())
	mf.addStates(c.Flags())
	qf.add(c.Flags())
	c.Flags().StringVar(&on, "on", "corsair-card,h100", "targets: names of presets or architecture files, separated by commas")
	c.Flags().StringVar(&html, "html", "", "also write a self-contained page to this file")
	c.Flags().IntSliceVar(&co.Batches, "batch", nil, "inputs of one run, a column for each on every target, as in --batch 1,8,64")
	c.Flags().BoolVar(&co.Exact, "exact", false, "run every thread block of GPU kernels and compute outputs of large batches, however long it takes")
	c.Flags().BoolVar(&force, "force", false, "replace the --html file if it exists")
	return c
}
