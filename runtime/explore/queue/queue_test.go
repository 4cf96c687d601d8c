package queue

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"situ/internal/natstest"
	"situ/models"
	"situ/runtime/explore"
	"situ/runtime/explore/store"
)

// space is small, and has designs on which the model does not fit.
const space = `
models: [digits]
base: edge-dimc
parameters:
  array.rows: [32, 64, 128]
  array.cols: [32, 64]
  clusters_per_die: [1, 2]
  scratchpad.bytes: [1024, 4096, 32768]
  quant.weights: [int8, int4]
  weight_sram.bytes: 32768 * ceil(array.rows / 64)
constraints:
  - streamed == 0
objectives: [latency, energy, area]
funnel: {finalists: 1, margin: 0.3}
`

// Environment of the processes that tests start from this test binary.
const (
	asWorker  = "SITU_TEST_WORKER"  // URL of the queue
	asExplore = "SITU_TEST_EXPLORE" // URL of the queue
	spaceFile = "SITU_TEST_SPACE"
	storeFile = "SITU_TEST_STORE"
)

func TestMain(m *testing.M) {
	var err error
	switch url := os.Getenv(asWorker); {
	case url != "":
		logf := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
		_, err = Work(context.Background(), WorkerOptions{Server: Server{URL: url, Log: logf}, Tasks: 1})
	case os.Getenv(asExplore) != "":
		err = exploreOnce(os.Getenv(spaceFile), os.Getenv(storeFile), os.Getenv(asExplore))
	default:
		if scenesDir, err = os.MkdirTemp("", "situ-queue"); err == nil {
			code := m.Run()
			os.RemoveAll(scenesDir)
			os.Exit(code)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// How long tasks of a lost worker wait: short where workers are lost, and else so
// long that a busy machine loses none.
const (
	soon  = time.Second
	never = 5 * time.Minute
)

func exploreOnce(space, db, url string) error {
	s, err := explore.Load(space)
	if err != nil {
		return err
	}
	st, err := store.Open(db)
	if err != nil {
		return err
	}
	defer st.Close()
	_, err = runOn(context.Background(), s, st, Server{URL: url}, never)
	return err
}

// runOn explores on a queue.
func runOn(ctx context.Context, s *explore.Space, st *store.Store, queue Server, ackWait time.Duration) (*explore.Report, error) {
	p, err := NewPool(ctx, PoolOptions{Server: queue, AckWait: ackWait})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return explore.Run(ctx, s, st, explore.Options{Pool: p, Resume: true})
}

// scene is a space file and the store of a run on this machine, to compare with.
type scene struct {
	space *explore.Space
	file  string
	want  string
	tasks int // published for the run
}

// Scenes are made once: a run on this machine is the same for every test.
var (
	scenesMu  sync.Mutex
	scenes    = map[string]*scene{}
	scenesDir string
)

func newScene(t *testing.T, text string) *scene {
	t.Helper()
	scenesMu.Lock()
	defer scenesMu.Unlock()
	if sc := scenes[text]; sc != nil {
		return sc
	}
	sc := &scene{file: filepath.Join(scenesDir, fmt.Sprintf("space%d.yaml", len(scenes)))}
	if err := os.WriteFile(sc.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var err error
	if sc.space, err = explore.Load(sc.file); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(t.TempDir(), "local.db")
	st, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	counter := &counting{}
	if _, err := explore.Run(context.Background(), sc.space, st, explore.Options{}); err != nil {
		t.Fatal(err)
	}
	sc.want = contents(t, db)
	counted, err := store.Open(filepath.Join(t.TempDir(), "counted.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer counted.Close()
	if _, err := explore.Run(context.Background(), sc.space, counted, explore.Options{Pool: counter}); err != nil {
		t.Fatal(err)
	}
	sc.tasks = counter.n
	scenes[text] = sc
	return sc
}

// counting is a pool without a queue between, which counts tasks.
type counting struct {
	mu sync.Mutex
	n  int
	w  *explore.Worker
}

func (c *counting) Begin(_ context.Context, _ string, j *explore.Job) (err error) {
	c.w, err = explore.NewWorker(j, func(hash string) ([]byte, error) {
		for _, m := range j.Models {
			if m.Hash == hash {
				return m.Data, nil
			}
		}
		return nil, errors.New("no such model")
	})
	return err
}

func (c *counting) Compute(ctx context.Context, t *explore.Task) (*explore.Done, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.w.Compute(ctx, t)
}

func (c *counting) End(context.Context, bool) error { return nil }

// contents lists results and points of a store, and how often each was computed.
func contents(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var b strings.Builder
	for _, q := range []string{
		"SELECT 'result', key, stage, CAST(value AS TEXT), times FROM results ORDER BY key",
		"SELECT point, stage, fate, reason, CAST(result AS TEXT) FROM points ORDER BY run, point",
	} {
		rows, err := db.Query(q)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var c [5]string
			if err := rows.Scan(&c[0], &c[1], &c[2], &c[3], &c[4]); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, strings.Join(c[:], "\t"))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// workers starts workers in this process, and returns what stops them and says how
// many tasks they finished.
func workers(t *testing.T, o WorkerOptions, n int) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var mu sync.Mutex
	var total int64
	for range n {
		all.Go(func() {
			tasks, err := Work(ctx, o)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			total += tasks
			mu.Unlock()
		})
	}
	stop = func() int64 {
		cancel()
		all.Wait()
		return total
	}
	t.Cleanup(func() { stop() })
	return stop
}

// process is one that a test started from this test binary.
type process struct {
	*os.Process
	wait func() error    // any number of times
	said strings.Builder // on standard error, to be read when it has ended
}

// child starts a process.
func child(t *testing.T, binary string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = t.TempDir() // workers share no folder with anyone
	p := &process{wait: sync.OnceValue(cmd.Wait)}
	cmd.Stderr = &p.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.Process = cmd.Process
	t.Cleanup(func() {
		_ = p.Kill() // it may have ended
		_ = p.wait()
		if p.said.Len() > 0 {
			t.Logf("process %d said: %s", p.Pid, &p.said)
		}
	})
	return p
}

// workerProcess starts a worker; the channel is closed once it holds a task.
func workerProcess(t *testing.T, url string) (*exec.Cmd, <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"="+url)
	cmd.Dir = t.TempDir() // workers share no folder with anyone
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	busy, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for line := bufio.NewScanner(says); line.Scan(); {
			if strings.Contains(line.Text(), "working on") {
				close(busy)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		_ = cmd.Wait()
	})
	return cmd, busy
}

// patient bounds a run: with the race detector, on a machine busy with ten times what it has cores for, a run takes a minute.
const patient = 5 * time.Minute

// check explores on a queue and compares with the run on this machine.
func (sc *scene) check(t *testing.T, url string, ackWait time.Duration) {
	t.Helper()
	sc.checkOn(t, Server{URL: url}, ackWait)
}

func (sc *scene) checkOn(t *testing.T, queue Server, ackWait time.Duration) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "queue.db")
	st, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	if _, err := runOn(ctx, sc.space, st, queue, ackWait); err != nil {
		t.Fatal(err)
	}
	sc.compare(t, db)
}

func (sc *scene) compare(t *testing.T, db string) {
	t.Helper()
	if diff := cmp.Diff(sc.want, contents(t, db)); diff != "" {
		t.Errorf("the store differs from that of a run on one machine (-want +got):\n%.2000s", diff)
	}
}

// left returns what the streams hold, and how many results were ever published.
func left(t *testing.T, o Server) (work, results, published uint64) {
	t.Helper()
	c, err := connect(&o, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.nc.Close()
	for name, p := range map[string]*uint64{workStream: &work, resultStream: &results} {
		s, err := c.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		*p = s.CachedInfo().State.Msgs
		if name == resultStream {
			published = s.CachedInfo().State.LastSeq
		}
	}
	return work, results, published
}

// Two workers find what one machine finds, compute each task once, and leave
// nothing behind.
func TestQueue(t *testing.T) {
	sc := newScene(t, space)
	url := natstest.URL(natstest.Start(t, nil))
	stop := workers(t, WorkerOptions{Server: Server{URL: url}, Tasks: 2}, 2)
	sc.check(t, url, never)
	if n := stop(); int(n) != sc.tasks {
		t.Errorf("the workers computed %d tasks of %d", n, sc.tasks)
	}
	if work, results, published := left(t, Server{URL: url}); work != 0 || results != 0 || int(published) != sc.tasks {
		t.Errorf("%d tasks and %d results are left, %d results of %d tasks were published", work, results, published, sc.tasks)
	}
}

// A model in a file reaches workers that do not have the file, and so do an
// architecture and a model whose weights lie in a second file.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	digits, _ := models.Find("digits")
	b, err := digits.ONNX(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"net.onnx":  string(b),
		"chip.yaml": "name: mine\nkind: pim\nbased_on: edge-dimc\nclock_mhz: {value: 250, source: \"test\", confidence: A}\n",
		"space.yaml": "models: [net.onnx]\nbase: chip.yaml\nparameters:\n  array.rows: [32, 64]\n  array.cols: [32, 64]\n" +
			"objectives: [latency, energy]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := explore.Load(filepath.Join(dir, "space.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "local.db")
	st, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := explore.Run(t.Context(), s, st, explore.Options{}); err != nil {
		t.Fatal(err)
	}
	url := natstest.URL(natstest.Start(t, nil))
	workerProcess(t, url)
	(&scene{space: s, want: contents(t, db)}).check(t, url, never)
}

// Workers that are killed while they hold tasks lose them to others, and one that
// hangs too.
func TestLostWorkers(t *testing.T) {
	sc := newScene(t, space)
	url := natstest.URL(natstest.Start(t, nil))
	var lost int
	go func() {
		for i := range 5 {
			w, busy := workerProcess(t, url)
			select {
			case <-t.Context().Done():
				return
			case <-busy:
			}
			time.Sleep(time.Duration(10*i) * time.Millisecond)
			signal := syscall.SIGKILL
			if i == 2 { // the process stays, and says nothing any more
				signal = syscall.SIGSTOP
			}
			if err := w.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			lost++
		}
		workerProcess(t, url)
	}()
	sc.check(t, url, soon)
	if lost != 5 { // the last worker finished what these lost
		t.Errorf("the run was over when %d workers were lost", lost)
	}
}

// A worker that takes a task and never says a word again.
func TestSilentWorker(t *testing.T) {
	sc := newScene(t, space)
	url := natstest.URL(natstest.Start(t, nil))
	taken := make(chan string, 1)
	go func() {
		defer close(taken)
		c, err := connect(&Server{URL: url}, "silent")
		if err != nil {
			t.Error(err)
			return
		}
		defer c.nc.Close()
		program, err := explore.Version()
		if err != nil {
			t.Error(err)
			return
		}
		for t.Context().Err() == nil {
			cons, err := c.js.Consumer(t.Context(), workStream, consumerName(program))
			if err == nil {
				if m, err := cons.Next(jetstream.FetchMaxWait(5 * time.Second)); err == nil {
					taken <- m.Subject()
					return
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	go func() {
		if <-taken != "" {
			workers(t, WorkerOptions{Server: Server{URL: url}, Tasks: 1}, 1)
		}
	}()
	sc.check(t, url, soon)
}

// The one who explores is killed again and again while workers go on. Nothing is
// lost, and nothing computed twice.
func TestRestart(t *testing.T) {
	sc := newScene(t, space)
	url := natstest.URL(natstest.Start(t, nil))
	stop := workers(t, WorkerOptions{Server: Server{URL: url}, Tasks: 1}, 2)
	db := filepath.Join(t.TempDir(), "queue.db")
	env := []string{asExplore + "=" + url, spaceFile + "=" + sc.file, storeFile + "=" + db}
	killed := 0
	for i := range 8 {
		p := child(t, os.Args[0], env...)
		time.Sleep(time.Duration(100+40*i) * time.Millisecond)
		if err := p.Kill(); err == nil {
			killed++
		}
		_ = p.wait() // it was killed
	}
	last := child(t, os.Args[0], env...)
	if err := last.wait(); err != nil {
		t.Fatalf("%v\n%s", err, &last.said)
	}
	sc.compare(t, db)
	n := stop()
	if work, results, published := left(t, Server{URL: url}); work != 0 || results != 0 || int(published) != sc.tasks || int(n) != sc.tasks {
		t.Errorf("%d tasks and %d results are left; %d tasks were computed and %d results published of %d", work, results, n, published, sc.tasks)
	}
	t.Logf("killed %d times", killed)
}

// A run that was cancelled goes on with what workers found meanwhile.
func TestCancel(t *testing.T) {
	sc := newScene(t, space)
	url := natstest.URL(natstest.Start(t, nil))
	stop := workers(t, WorkerOptions{Server: Server{URL: url}, Tasks: 1}, 2)
	db := filepath.Join(t.TempDir(), "queue.db")
	st, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p, err := NewPool(t.Context(), PoolOptions{Server: Server{URL: url}, AckWait: never})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = explore.Run(ctx, sc.space, st, explore.Options{Pool: p, Progress: func(p explore.Progress) {
		if p.Doing == "emulating" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run gives %v", err)
	}
	if _, err := runOn(t.Context(), sc.space, st, Server{URL: url}, never); err != nil {
		t.Fatal(err)
	}
	sc.compare(t, db)
	n := stop()
	// Published results are exact; a worker's own count can lack one.
	if _, _, published := left(t, Server{URL: url}); int(published) != sc.tasks || int(n) > sc.tasks {
		t.Errorf("%d tasks were computed and %d results published of %d", n, published, sc.tasks)
	}
}

// A cluster of three loses the server that leads the tasks.
func TestCluster(t *testing.T) {
	sc := newScene(t, space)
	servers := natstest.Cluster(t, 3)
	url := natstest.URL(servers...)
	// A first worker stops after some tasks, so that most are still to be done when
	// the leader goes; two others then finish.
	o := WorkerOptions{Server: Server{URL: url}, Tasks: 1}
	var stopFirst func() int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c, err := connect(&Server{URL: url}, "test")
		if err != nil {
			t.Error(err)
			return
		}
		defer c.nc.Close()
		for t.Context().Err() == nil {
			s, err := c.js.Stream(t.Context(), resultStream)
			if err == nil && stopFirst == nil {
				stopFirst = workers(t, o, 1)
			}
			if err == nil && s.CachedInfo().State.LastSeq >= 1 {
				stopFirst()
				info := s.CachedInfo()
				if info.Config.Replicas != 3 {
					t.Errorf("%d replicas on a cluster of three", info.Config.Replicas)
				}
				for _, s := range servers {
					if s.Name() == info.Cluster.Leader {
						s.Shutdown()
						workers(t, o, 2)
						return
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	sc.check(t, url, soon)
	select {
	case <-stopped:
	default:
		t.Error("the run was over before the leader was stopped")
	}
}

// A worker from another file refuses the work of this one.
func TestOtherProgram(t *testing.T) {
	sc := newScene(t, strings.Replace(space, "[32, 64, 128]", "[64]", 1))
	url := natstest.URL(natstest.Start(t, nil))
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, append(b, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		p := child(t, other, asWorker+"="+url)
		if err := p.wait(); err == nil || !strings.Contains(p.said.String(), explore.ErrVersion.Error()) {
			t.Errorf("a worker of another program: %v, %s", err, &p.said)
		}
	}()
	go func() {
		<-refused
		workers(t, WorkerOptions{Server: Server{URL: url}, Tasks: 1}, 1)
	}()
	sc.check(t, url, never)
}

// What a worker cannot do ends the run with the reason, and does not stay in the
// way of the next attempt.
func TestFailure(t *testing.T) {
	url := natstest.URL(natstest.Start(t, nil))
	workers(t, WorkerOptions{Server: Server{URL: url}, Tasks: 1}, 1)
	sc := newScene(t, space)
	j := &explore.Job{}
	c := &grab{job: j}
	st, err := store.Open(filepath.Join(t.TempDir(), "grab.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := explore.Run(t.Context(), sc.space, st, explore.Options{Pool: c}); !errors.Is(err, errGrabbed) {
		t.Fatal(err)
	}
	for range 2 {
		p, err := NewPool(t.Context(), PoolOptions{Server: Server{URL: url}, AckWait: never})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Begin(t.Context(), "RUN", j); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []struct {
			task explore.Task
			want string
		}{
			{explore.Task{Stage: "estimate", Points: []explore.Point{{0, 0}}, Keys: []string{"x"}}, "coordinates"},
			{explore.Task{Stage: "estimate", Points: []explore.Point{{0, 0, 0, 9, 0}}, Keys: []string{"y"}}, "has 3 values"},
			{explore.Task{Stage: "estimate", Points: []explore.Point{{0, 0, 0, 1, 0}}, Keys: []string{"z"}}, "another design"},
			{explore.Task{Stage: "estimate", Points: []explore.Point{{0, 0, 0, 0, 0}}, Keys: []string{"a"}}, "no valid chip"},
			{explore.Task{Stage: "estimate", Keys: []string{"z", "z"}}, "has 2 keys"},
		} {
			if _, err := p.Compute(t.Context(), &bad.task); err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%+v: %v, want an error with %q", bad.task, err, bad.want)
			}
		}
		if err := p.End(t.Context(), false); err != nil {
			t.Error(err)
		}
		p.Close()
	}
}

// grab is a pool that only takes the job.
type grab struct {
	counting
	job *explore.Job
}

var errGrabbed = errors.New("grabbed")

func (g *grab) Begin(_ context.Context, _ string, j *explore.Job) error {
	*g.job = *j
	return errGrabbed
}
