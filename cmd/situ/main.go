// Command situ compiles ONNX models for processing-in-memory accelerators, runs
// them on an emulator, and says what each choice costs in time and energy.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func main() { os.Exit(Main()) }

// Weights are most of what situ holds, in a few large pieces that live for one
// stage of the compiler; collecting earlier than Go's default costs nothing
// measurable and keeps the peak near what is alive.
const gcPercent = 20

// Main runs the command line and returns the exit status.
func Main() int {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := newRoot()
	if err := root.ExecuteContext(ctx); err != nil {
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
	root.AddCommand(compareCmd(), compileCmd(), runCmd(), checkCmd(), dumpCmd(), disCmd(), asmCmd(), archCmd(), modelCmd(),
		exploreCmd(), runsCmd(), reportCmd())
	return root
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

// create opens a new file for writing. It refuses to replace a file unless
// force is set, so that nothing the user made is lost by a slip of the flag.
func create(path string, force bool) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if os.IsExist(err) {
		return nil, fmt.Errorf("%s exists; give --force to replace it", path)
	}
	return f, err
}

// writeOut writes to a file made by create, or to standard output when path is
// "" or "-".
func writeOut(cmd *cobra.Command, path string, force bool, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(cmd.OutOrStdout())
	}
	f, err := create(path, force)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		os.Remove(path)
		return err
	}
	return f.Close()
}

// writeFile is writeOut for bytes; with --json it says what it wrote.
func writeFile(cmd *cobra.Command, path string, force bool, b []byte) error {
	if err := writeOut(cmd, path, force, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		return err
	}
	if wantJSON(cmd) && path != "-" {
		return printJSON(cmd.OutOrStdout(), map[string]any{"file": path, "bytes": len(b)})
	}
	return nil
}
