package explore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"situ/runtime/explore/store"
)

// killSpace is the environment variable that makes this test binary a child that
// explores; killStore names its store.
const killSpace, killStore = "SITU_TEST_SPACE", "SITU_TEST_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(killSpace); path != "" {
		s, err := Load(path)
		if err == nil {
			var st *store.Store
			if st, err = store.Open(os.Getenv(killStore)); err == nil {
				_, err = Run(context.Background(), s, st, Options{Resume: true, Progress: func(Progress) { fmt.Println("evaluating") }})
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process that is killed fifty times at random moments, and started again each
// time, ends with exactly the points of a run that was left alone, none twice. A run
// that comes to its end between the kills is checked and another begun.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills fifty processes")
	}
	dir := t.TempDir()
	space := filepath.Join(dir, "space.yaml")
	text := append([]byte(readExample(t, "digits.yaml")), "funnel: {finalists: 0}\n"...)
	if err := os.WriteFile(space, text, 0o644); err != nil {
		t.Fatal(err)
	}
	// start starts a process; begun is closed when it begins to evaluate designs.
	start := func(db string) (cmd *exec.Cmd, out *bytes.Buffer, begun <-chan struct{}) {
		cmd, out = exec.Command(os.Args[0]), new(bytes.Buffer)
		cmd.Env = append(os.Environ(), killSpace+"="+space, killStore+"="+db)
		cmd.Stderr = out
		says, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ch := make(chan struct{})
		go func() {
			defer close(ch)
			_, _ = says.Read(make([]byte, 1)) // or the process has ended
		}()
		return cmd, out, ch
	}
	// look says what a store holds of a space's only run.
	look := func(db string) (points string, status string, results [2]int64) {
		t.Helper()
		st := openStore(t, db)
		defer st.Close()
		for i, stage := range []string{StageEstimate, StageEmulate} {
			n, times, err := st.Counts(stage)
			if err != nil || n != times {
				t.Fatalf("%s: %d results, stored %d times (%v)", stage, n, times, err)
			}
			results[i] = n
		}
		runs, err := st.Runs("")
		if err != nil || len(runs) > 1 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		for _, r := range runs {
			points, status = contents(t, st, r.ID), r.Status
		}
		return points, status, results
	}
	alone := filepath.Join(dir, "alone.db")
	cmd, out, begun := start(alone)
	<-begun
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, status, results := look(alone)
	if status != store.Done || results[0] == 0 || results[1] == 0 {
		t.Fatalf("a run that is left alone ends %s with %d results", status, results)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	killed, amid, rounds := 0, 0, 0
	for ; killed < 50; rounds++ {
		db := filepath.Join(dir, fmt.Sprintf("killed%d.db", rounds))
		for ended := false; !ended; {
			cmd, out, begun := start(db)
			switch { // half of them at any time, half while designs are evaluated
			case killed == 50:
				<-begun
			case killed%2 == 0:
				time.Sleep(time.Duration(5+rng.IntN(120)) * time.Millisecond)
			default:
				<-begun
				time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			}
			if killed < 50 {
				_ = cmd.Process.Kill() // it may have ended
			}
			<-begun
			err := cmd.Wait()
			switch {
			case err == nil:
				ended = true
			case cmd.ProcessState.ExitCode() >= 0: // it was not killed
				t.Fatalf("%v\n%s", err, out)
			default:
				killed++
				if _, _, n := look(db); n[0] > 0 && n != results {
					amid++
				}
			}
		}
		if got, status, n := look(db); got != want || status != store.Done || n != results {
			t.Errorf("a killed run ends %s with %d results, of %d; its points are the same: %v", status, n, results, got == want)
		}
	}
	t.Logf("killed %d processes in %d runs, %d of them with some results of all", killed, rounds, amid)
	if amid < 5 {
		t.Errorf("only %d processes were killed with some results of all", amid)
	}
}
