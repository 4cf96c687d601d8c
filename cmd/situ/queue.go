package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"situ/runtime/explore/queue"
)

// queueFlags say where a queue is and how to be let in.
type queueFlags struct{ s queue.Server }

func (f *queueFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.s.URL, "queue", "", "NATS server with JetStream, as nats://host:4222; several with commas between")
	fs.StringVar(&f.s.Creds, "creds", "", "NATS credentials file")
	fs.StringVar(&f.s.NKey, "nkey", "", "file with the seed of an nkey")
	fs.StringVar(&f.s.TLSCert, "tlscert", "", "TLS certificate to show to the server")
	fs.StringVar(&f.s.TLSKey, "tlskey", "", "key of that certificate")
	fs.StringVar(&f.s.TLSCA, "tlsca", "", "TLS authority that signed the server's certificate")
}

// server returns what the flags say; what happens on the queue is told on standard
// error.
func (f *queueFlags) server(cmd *cobra.Command) queue.Server {
	s := f.s
	s.Log = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "situ: "+format+"\n", args...)
	}
	return s
}

func workerCmd() *cobra.Command {
	var f queueFlags
	var o queue.WorkerOptions
	c := &cobra.Command{
		Use:   "worker --queue URL",
		Short: "Work for explorations on other machines",
		Long: `Takes designs from a queue, evaluates them and returns the results to whoever
runs situ explore with the same --queue. Workers may come and go at any time:
what one was busy with when it is lost is given to another. They need no folder
of the machine that explores, but must be the same file as the program there.
Ctrl-C ends a worker, and so does --idle.`,
		Example: `  situ worker --queue nats://host:4222
  situ worker --queue nats://host:4222 --tasks 4 --idle 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.s.URL == "":
				return errors.New("worker needs --queue URL, the NATS server where situ explore --queue leaves designs")
			case o.Tasks < 0:
				return fmt.Errorf("--tasks %d: at least 1, or 0 for all cores", o.Tasks)
			case o.Idle < 0:
				return fmt.Errorf("--idle %v: a time such as 10m, or 0 for never", o.Idle)
			}
			debug.SetGCPercent(gcPercentMany)
			o.Server = f.server(cmd)
			began := time.Now()
			n, err := queue.Work(cmd.Context(), o)
			if wantJSON(cmd) {
				if err2 := printJSON(cmd.OutOrStdout(), map[string]any{"tasks": n, "seconds": time.Since(began).Seconds()}); err == nil {
					err = err2
				}
			} else if n > 0 || err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "situ: %d tasks finished\n", n)
			}
			return err
		},
	}
	f.add(c.Flags())
	c.Flags().IntVar(&o.Tasks, "tasks", 0, "designs worked on at the same time; 0 for all cores")
	c.Flags().DurationVar(&o.Idle, "idle", 0, "end after so long without work; 0 for never")
	return c
}
