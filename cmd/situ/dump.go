package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"situ/runtime"
)

func dumpCmd() *cobra.Command {
	var mf modelFlags
	var qf quantFlags
	var after, out string
	var force bool
	c := &cobra.Command{
		Use:   "dump MODEL",
		Short: "Print the intermediate representation after a pass",
		Long: "Prints the IR after the pass named with --after, or after every pass with\n--after all. Passes, in order: " +
			strings.Join(runtime.PassNames(), ", ") + ".",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			if err := mayWrite(out, force); err != nil {
				return err
			}
			_, stop := spinner(cmd, "preparing")
			stages, err := runtime.Dump(cmd.Context(), args[0], after, mo, qf.o)
			stop()
			if err != nil {
				return err
			}
			return writeOut(cmd, out, force, func(w io.Writer) error {
				if wantJSON(cmd) {
					return printJSON(w, stages)
				}
				for _, s := range stages {
					if _, err := fmt.Fprintf(w, "# after %s\n%s\n", s.Pass, s.IR); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	mf.add(c.Flags())
	qf.add(c.Flags())
	fs := c.Flags()
	fs.StringVar(&after, "after", "all", "pass to print after; all prints after each; import prints the graph before any pass")
	fs.StringVar(&qf.o.StopAfter, "stop-after", "", "stop after this pass")
	fs.StringVarP(&out, "output", "o", "", "file to write instead of standard output")
	fs.BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}
