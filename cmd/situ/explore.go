package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"situ/runtime/explore"
	"situ/runtime/explore/page"
	"situ/runtime/explore/queue"
	"situ/runtime/explore/store"
)

const defaultStore = "situ-runs.db"

func exploreCmd() *cobra.Command {
	var path string
	var o explore.Options
	var f queueFlags
	var po queue.PoolOptions
	c := &cobra.Command{
		Use:   "explore SPACE.yaml",
		Short: "Find the designs of a space that no other design beats",
		Long: `Explores the architectures that SPACE.yaml describes: bounds and estimates
discard most designs, the rest is compiled and emulated. Everything is kept in a
store; what a store knows is not computed again, and after Ctrl-C or a crash
--resume goes on where the run was. With --queue the designs are evaluated by
situ worker on other machines.`,
		Example: `  situ explore docs/examples/digits.yaml
  situ explore space.yaml --store runs.db --resume
  situ explore space.yaml --queue nats://host:4222
  situ report -o report.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.Workers < 0:
				return fmt.Errorf("--workers %d: at least 1, or 0 for all cores", o.Workers)
			case po.AckWait < time.Second:
				return fmt.Errorf("--ack-wait %v: at least 1s", po.AckWait)
			case po.Replicas < 0 || po.Replicas > 5:
				return fmt.Errorf("--replicas %d: 1 to 5, or 0", po.Replicas)
			}
			debug.SetGCPercent(gcPercentMany)
			s, err := explore.Load(args[0])
			if err != nil {
				return err
			}
			st, err := store.Open(path)
			if err != nil {
				return err
			}
			defer st.Close()
			again := fmt.Sprintf("situ explore %s --store %s --resume", args[0], path)
			if f.s.URL != "" {
				po.Server = f.server(cmd)
				pool, err := queue.NewPool(cmd.Context(), po)
				if err != nil {
					return err
				}
				defer pool.Close()
				o.Pool = pool
				again += " and the same --queue"
			}
			var stop func()
			o.Progress, stop = progress(cmd)
			r, err := explore.Run(cmd.Context(), s, st, o)
			stop()
			if err != nil {
				if errors.Is(err, cmd.Context().Err()) {
					return fmt.Errorf("interrupted; %s goes on", again)
				}
				return fmt.Errorf("%w; once that is mended, %s goes on", err, again)
			}
			warn(cmd, r.Warnings)
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return page.Text(cmd.OutOrStdout(), r)
		},
	}
	c.Flags().StringVar(&path, "store", defaultStore, "file that keeps runs and results")
	c.Flags().BoolVar(&o.Resume, "resume", false, "go on with the latest run of this space that was not finished")
	c.Flags().IntVar(&o.Workers, "workers", 0, "designs worked on at the same time; 0 for all cores")
	f.add(c.Flags())
	c.Flags().DurationVar(&po.AckWait, "ack-wait", time.Minute, "a worker on the queue that says nothing for so long loses its design to another")
	c.Flags().IntVar(&po.Replicas, "replicas", 0, "copies of the queue on a NATS cluster; 0 for three there and one on a single server")
	return c
}

// openRuns opens a store that must exist.
func openRuns(path string) (*store.Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("no store: %w; situ explore makes one, --store FILE names another", err)
	}
	return store.Open(path)
}

// findRun returns the run that an argument names, or the latest.
func findRun(st *store.Store, args []string) (*store.Run, error) {
	id := int64(0)
	if len(args) > 0 {
		var err error
		if id, err = strconv.ParseInt(args[0], 10, 64); err != nil || id < 1 {
			return nil, fmt.Errorf("run %q: want the number that situ runs list shows", args[0])
		}
	}
	return st.Find(id)
}

func runsCmd() *cobra.Command {
	var path string
	c := &cobra.Command{Use: "runs", Short: "List, show, compare and export explorations"}
	c.PersistentFlags().StringVar(&path, "store", defaultStore, "file that keeps runs and results")
	with := func(f func(cmd *cobra.Command, st *store.Store, args []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			st, err := openRuns(path)
			if err != nil {
				return err
			}
			defer st.Close()
			return f(cmd, st, args)
		}
	}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "All runs of a store", Args: cobra.NoArgs, RunE: with(listRuns)},
		&cobra.Command{Use: "show [RUN]", Short: "The report of a run, the latest by default", Args: cobra.MaximumNArgs(1), RunE: with(showRun)},
		&cobra.Command{Use: "diff A B", Short: "What changed between two runs, in inputs and in results", Args: cobra.ExactArgs(2), RunE: with(diffRuns)},
		exportCmd(with),
	)
	return c
}

func listRuns(cmd *cobra.Command, st *store.Store, _ []string) error {
	runs, err := st.Runs("")
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), runs)
	}
	tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "run\tname\tstarted\ttook\tstatus\tpoints\tfront")
	unfinished := false
	for i := range runs {
		r := &runs[i]
		sum, err := explore.Summary(r)
		if err != nil {
			return err
		}
		front := fmt.Sprint(len(sum.Front))
		if r.Status != store.Done {
			front, unfinished = "–", unfinished || r.Status != store.Running
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%.3g s\t%s\t%d\t%s\n", r.ID, r.Name, r.Started.Format(time.DateTime), r.Seconds, r.Status, sum.Proposed, front)
	}
	if unfinished {
		fmt.Fprintln(tw, "\nwhat a stopped or interrupted run computed is kept; situ explore SPACE.yaml --resume goes on with it")
	}
	return tw.Flush()
}

// finished returns the report of a run that came to its end.
func finished(run *store.Run) (*explore.Report, error) {
	if run.Status != store.Done {
		return nil, fmt.Errorf("run %d (%s) is not finished; situ explore SPACE.yaml --resume goes on with it", run.ID, run.Name)
	}
	return explore.Summary(run)
}

func showRun(cmd *cobra.Command, st *store.Store, args []string) error {
	run, err := findRun(st, args)
	if err != nil {
		return err
	}
	r, err := finished(run)
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), r)
	}
	if err := page.Inputs(cmd.OutOrStdout(), run); err != nil {
		return err
	}
	return page.Text(cmd.OutOrStdout(), r)
}

func diffRuns(cmd *cobra.Command, st *store.Store, args []string) error {
	a, err := findRun(st, args[:1])
	if err != nil {
		return err
	}
	b, err := findRun(st, args[1:])
	if err != nil {
		return err
	}
	d, err := explore.Diff(st, a, b)
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), d)
	}
	return page.Difference(cmd.OutOrStdout(), a, b, d)
}

func exportCmd(with func(func(*cobra.Command, *store.Store, []string) error) func(*cobra.Command, []string) error) *cobra.Command {
	var out string
	var csv, parquet, force bool
	var point string
	c := &cobra.Command{
		Use: "export [RUN] --csv|--parquet|--yaml POINT", Short: "All points of a run as a table, or one as an architecture's file; the latest run by default",
		Example: "  situ runs export --csv -o points.csv\n  situ runs export --yaml 3.1.0 -o chip.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: with(func(cmd *cobra.Command, st *store.Store, args []string) error {
			formats := 0
			for _, asked := range []bool{csv, parquet, point != ""} {
				if asked {
					formats++
				}
			}
			switch {
			case formats != 1:
				return errors.New("export needs one format: --csv, --parquet or --yaml POINT")
			case parquet && out == "":
				return errors.New("a Parquet file is not for a terminal; -o FILE names one")
			}
			run, err := findRun(st, args)
			if err != nil {
				return err
			}
			write := explore.WriteCSV
			switch {
			case parquet:
				write = explore.WriteParquet
			case point != "":
				write = func(w io.Writer, _ *store.Store, run *store.Run) error { return explore.WriteChip(w, run, point) }
			}
			return writeOut(cmd, out, force, func(w io.Writer) error { return write(w, st, run) })
		}),
	}
	c.Flags().BoolVar(&csv, "csv", false, "comma-separated values")
	c.Flags().BoolVar(&parquet, "parquet", false, "a Parquet file, with the space in its metadata")
	c.Flags().StringVar(&point, "yaml", "", "the design of this point, as the report names it, as an architecture's file for --on")
	c.Flags().StringVarP(&out, "output", "o", "", "file to write instead of standard output")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}

func reportCmd() *cobra.Command {
	var path, out string
	var force bool
	c := &cobra.Command{
		Use:     "report [RUN]",
		Short:   "A page about an exploration: Pareto front, sensitivities, funnel, energy by level",
		Example: "  situ report -o report.html\n  situ report 3 --store runs.db -o report.html",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("report needs -o FILE for the page")
			}
			st, err := openRuns(path)
			if err != nil {
				return err
			}
			defer st.Close()
			run, err := findRun(st, args)
			if err != nil {
				return err
			}
			r, err := finished(run)
			if err != nil {
				return err
			}
			return writeOut(cmd, out, force, func(w io.Writer) error { return page.HTML(w, st, run, r) })
		},
	}
	c.Flags().StringVar(&path, "store", defaultStore, "file that keeps runs and results")
	c.Flags().StringVarP(&out, "output", "o", "", "page to write")
	c.Flags().BoolVar(&force, "force", false, "replace the page if it exists")
	return c
}
