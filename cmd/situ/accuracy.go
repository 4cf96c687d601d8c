package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"situ/runtime"
	"situ/runtime/report"
)

func accuracyCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var o runtime.DataOptions
	var scale string
	var shown int
	c := &cobra.Command{
		Use:   "accuracy MODEL",
		Short: "Float and each format of weights side by side on your data, and which layers lose most",
		Long: `Runs the model as given and with int8, int4, mxint8 and mxint4 weights on the same
inputs: top-1 where there are labels, and the ratio of signal to quantisation noise of
the first output. Each is measured once more with layers in higher precision where
--mixed gives some, and these are named. Then the same ratio after each layer of the int8 model, the worst first,
beside the worst ratio among what the layer reads: a layer hurts where the two are
far apart.

--data is mnist, a CSV file (rows of a label and the elements of an image), a pair
X.npy,Y.npy, a folder that holds x.npy and y.npy or one CSV file, or a folder of
inputs without labels as --calibration takes. An element v of labelled data becomes
(v·scale − mean) / std. A model that ships needs no --data. For a language model a
pair X.npy,Y.npy holds sequences of tokens and the token that follows each; the
cross-entropy is then printed too, the outputs being taken as logits.`,
		Example: `  situ accuracy digits
  situ accuracy mnist.onnx --data mnist --scale 1/255 --limit 1000
  situ accuracy cifar.onnx --dim N=1 --data test.csv --layout nhwc --scale 1/255 \
    --mean .4914,.4822,.4465 --std .2470,.2435,.2616
  situ accuracy gpt.onnx --dim batch=1 --dim seq=64 --data x.npy,y.npy`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			if o.Scale, err = parseRatio(scale); err != nil {
				return err
			}
			if o.Limit < 0 || shown < 0 {
				return fmt.Errorf("--limit %d, --layers %d: neither may be negative", o.Limit, shown)
			}
			_, stop := spinner(cmd, "measuring")
			r, err := runtime.MeasureAccuracy(cmd.Context(), args[0], mo, qf.o, o)
			stop()
			if err != nil {
				return err
			}
			warn(cmd, r.Warnings)
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return report.MeasuredAccuracy(cmd.OutOrStdout(), r, shown)
		},
	}
	mf.add(c.Flags())
	qf.addCalibration(c.Flags())
	fs := c.Flags()
	fs.StringVar(&o.Path, "data", "", "what to measure on: mnist, FILE.csv, X.npy,Y.npy or a folder")
	fs.StringVar(&scale, "scale", "1", "factor for every element, such as 1/255")
	fs.Float64SliceVar(&o.Mean, "mean", nil, "mean to subtract, one or one a channel")
	fs.Float64SliceVar(&o.Std, "std", nil, "standard deviation to divide by, one or one a channel")
	fs.StringVar(&o.Layout, "layout", "", "order of an image's elements in the data: nchw or nhwc; without it they are taken as they lie")
	fs.IntVar(&o.Limit, "limit", 0, "inputs to use at most, 0 for all")
	fs.IntVar(&shown, "layers", 10, "layers to print at most, 0 for all")
	return c
}

// parseRatio reads a number or a quotient of two.
func parseRatio(s string) (float64, error) {
	a, b, quotient := strings.Cut(s, "/")
	if !quotient {
		b = "1"
	}
	v, err1 := strconv.ParseFloat(a, 64)
	w, err2 := strconv.ParseFloat(b, 64)
	if err1 != nil || err2 != nil || !(v/w > 0) || math.IsInf(v/w, 0) {
		return 0, fmt.Errorf("--scale %s: a positive number or a quotient such as 1/255", s)
	}
	return v / w, nil
}
