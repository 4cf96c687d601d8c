package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"situ/runtime"
)

// modelFlags are the flags of every command that reads a model.
type modelFlags struct {
	dims   map[string]string
	keeps  bool // programs of the command keep state
	states []string
}

func (f *modelFlags) add(fs *pflag.FlagSet) {
	fs.StringToStringVar(&f.dims, "dim", nil, "bind a symbolic dimension, as in --dim N=1; repeatable")
}

// addStates adds the flag of the commands whose programs keep state.
func (f *modelFlags) addStates(fs *pflag.FlagSet) {
	f.keeps = true
	fs.StringSliceVar(&f.states, "state", nil, "keep a state from run to run: an input and the output that becomes it, IN=OUT; repeatable. Pairs named as exporters do are found; none keeps only those given")
}

func (f *modelFlags) options() (runtime.ModelOptions, error) {
	o := runtime.ModelOptions{Dims: map[string]int64{}}
	for name, v := range f.dims {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return o, fmt.Errorf("--dim %s=%s: the size of a dimension is a whole number", name, v)
		}
		o.Dims[name] = n
	}
	if f.keeps {
		o.States = append([]string{runtime.AutoStates}, f.states...)
	}
	return o, nil
}

// quantFlags say how a float model becomes fixed point.
type quantFlags struct {
	o runtime.QuantOptions
}

func (f *quantFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.o.Weights, "weights", "int8", "weights of float models: int8, int4, mxint8 or mxint4")
	f.addCalibration(fs)
}

// addCalibration adds the flags that hold for every weight precision.
func (f *quantFlags) addCalibration(fs *pflag.FlagSet) {
	fs.StringVar(&f.o.Method, "calibrate", "minmax", "range of activations: minmax, percentile or mse")
	fs.StringVar(&f.o.CalibrationDir, "calibration", "", "folder of calibration inputs (.npy or .pb, or test_data_set_* folders); without it seeded synthetic inputs are used")
	fs.StringVar(&f.o.Mixed, "mixed", "auto", "layers in higher precision: auto (as many as real calibration inputs need for 20 dB), none, or the share of multiply-accumulates and weight bytes that may be added, such as 0.1; time and energy may grow by more than that share, as what a layer reads then stays in float32 on the vector unit: compare with none")
	fs.IntVar(&f.o.Samples, "samples", 16, "calibration inputs to use at most")
	fs.Uint64Var(&f.o.Seed, "seed", 1, "seed of synthetic calibration inputs")
	fs.StringSliceVar(&f.o.Disable, "disable", nil, "passes to leave out")
}

// warn prints warnings to standard error.
func warn(cmd *cobra.Command, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "situ: warning:", w)
	}
}

// split splits a comma-separated list of names.
func split(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}
