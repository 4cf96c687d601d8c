package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"situ/runtime"
	"situ/runtime/report"
)

func quantiseCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "quantise MODEL",
		Short: "Write a float model as a quantised ONNX model (QDQ) that other tools run too",
		Long: `Chooses scales and zero points as the other commands do and writes the model with
QuantizeLinear/DequantizeLinear pairs (opset 20, or 21 with codes of 4 or 16 bits):
uint8 activations, int8 or int4 weights with a scale per channel or, as mxint8 and
mxint4, in blocks (opset 21), int32 biases of convolutions. Inputs and outputs keep their names, types and layouts; symbolic
dimensions get the sizes of --dim.`,
		Example: "  situ quantise model.onnx -o model.int8.onnx --calibration images/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			if out == "" {
				return errors.New("quantise needs -o FILE for the model")
			}
			if err := mayWrite(out, force); err != nil {
				return err
			}
			_, stop := spinner(cmd, "quantising")
			r, err := runtime.Quantise(cmd.Context(), args[0], mo, qf.o)
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
			return report.Quantised(cmd.OutOrStdout(), out, &r.Summary)
		},
	}
	mf.add(c.Flags())
	qf.add(c.Flags())
	fs := c.Flags()
	fs.Lookup("weights").Usage = "weights: int8, int4, mxint8 or mxint4"
	fs.StringVarP(&out, "output", "o", "", "ONNX file to write")
	fs.BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}
