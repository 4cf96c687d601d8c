// Command situ compiles ONNX models for processing-in-memory accelerators, runs
// them on an emulator, and says what each choice costs in time and energy.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() { os.Exit(Main()) }

// Weights are most of what situ holds, in a few large pieces that live for one
// stage of the compiler; collecting earlier than Go's default costs nothing
// measurable and keeps the peak near what is alive.
const gcPercent = 10

// Those who evaluate design after design hold the same models all along and make and drop
// much beside it, so that collecting rarely costs little memory and saves time.
const gcPercentMany = 100

// Main runs the command line and returns the exit status.
func Main() int {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := newRoot()
	if err := root.ExecuteContext(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(root.ErrOrStderr(), "situ:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "situ",
		Short: "Compile neural networks for processing-in-memory chips, and see what moving the data costs",
		Long: `situ takes an ONNX model, turns it into fixed point, compiles it for a
processing-in-memory chip, emulates the compiled program bit for bit, and says
where time and energy go: in the arithmetic, in SRAM, on the chip's network, in
DRAM, or between chips. Try: situ compare digits`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().Bool("json", false, "print results as JSON")
	root.AddCommand(compareCmd(), compileCmd(), runCmd(), checkCmd(), dumpCmd(), quantiseCmd(), accuracyCmd(), disCmd(), asmCmd(), archCmd(), modelCmd(), deviceCmd(),
		exploreCmd(), workerCmd(), runsCmd(), reportCmd())
	root.SetFlagErrorFunc(flagError)
	explainArgs(root)
	return root
}

// wanted says what values flags take, by their types.
var wanted = map[string]string{
	"int": "a whole number", "uint64": "a whole number that is not negative", "intSlice": "whole numbers, separated by commas",
	"float64Slice": "numbers, separated by commas", "duration": "a duration such as 90s or 10m", "bool": "true or false", "stringToString": "NAME=VALUE",
}

// flagError says what a flag wants that was given something else.
func flagError(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		if want := wanted[bad.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s %s: want %s", bad.GetFlag().Name, bad.GetValue(), want)
		}
	}
	return err
}

// explainArgs makes commands that get another number of arguments than they take say
// which those are.
func explainArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) != nil {
				return fmt.Errorf("wrong number of arguments, %d; usage: %s", len(args), c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		explainArgs(sub)
	}
}

// wantJSON reports whether --json was given.
func wantJSON(cmd *cobra.Command) bool {
	b, _ := cmd.Flags().GetBool("json")
	return b
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
