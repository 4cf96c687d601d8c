package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"situ/runtime/explore"
)

// WorkerOptions are choices of a worker.
type WorkerOptions struct {
	Server
	Tasks int           // worked on at the same time; 0 for all cores
	Idle  time.Duration // without a task after which it ends; 0 for never
}

const (
	// maxDeliveries is how many workers may lose a task before it is given up: what
	// ends one worker after the other would end them all.
	maxDeliveries = 5
	// mostJobs is how many runs a worker holds in memory.
	mostJobs = 4
	// lookEvery is how often a worker without a task looks around.
	lookEvery = time.Second
)

// worker is a process that takes tasks.
type worker struct {
	c       *conn
	program string
	name    string // for people
	tasks   atomic.Int64
	last    atomic.Int64 // when a task was last held, in nanoseconds since 1970

	mu   sync.Mutex
	jobs []*heldJob // the last used one last
}

// heldJob is a run that this worker knows.
type heldJob struct {
	run   string
	once  sync.Once
	ready *explore.Worker
	err   error
}

// Work takes tasks until the context is cancelled, which is its normal end, or
// until it is idle for long. It returns how many it finished.
func Work(ctx context.Context, o WorkerOptions) (int64, error) {
	program, err := explore.Version()
	if err != nil {
		return 0, err
	}
	c, err := connect(&o.Server, "situ worker")
	if err != nil {
		return 0, err
	}
	defer c.nc.Close()
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	c.log("queue: waiting for tasks at %s", c.nc.ConnectedUrlRedacted())
	w := &worker{c: c, program: program, name: fmt.Sprintf("%s/%d", host, os.Getpid())}
	w.last.Store(time.Now().UnixNano())
	if o.Tasks == 0 {
		o.Tasks = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var slots sync.WaitGroup
	for range o.Tasks {
		slots.Go(func() {
			if err := w.slot(ctx); err != nil {
				stop(err)
			}
		})
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		stop(w.watch(ctx, o.Idle))
	}()
	slots.Wait()
	stop(nil)
	<-watched
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, errIdle) {
		return w.tasks.Load(), err
	}
	return w.tasks.Load(), nil
}

// errIdle ends a worker that had nothing to do for long.
var errIdle = errors.New("idle")

// watch ends the worker when it is idle for long, or when what waits is for
// another program. It returns why.
func (w *worker) watch(ctx context.Context, idle time.Duration) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		since := time.Since(time.Unix(0, w.last.Load()))
		if idle > 0 && since > idle {
			return errIdle
		}
		if w.tasks.Load() == 0 && since >= lookEvery {
			if err := w.foreign(ctx); err != nil {
				return err
			}
		}
	}
}

// foreign returns an error when tasks wait and none of them is for this program.
func (w *worker) foreign(ctx context.Context) error {
	tasks, err := w.c.pending(ctx, workStream, workSubjects+">")
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, jetstream.ErrStreamNotFound): // nobody explored yet
		return nil
	case err != nil:
		return err
	}
	other := ""
	for s := range tasks {
		program, _, _ := strings.Cut(strings.TrimPrefix(s, workSubjects), ".")
		if program == w.program {
			return nil
		}
		other = program
	}
	if other == "" {
		return nil
	}
	return fmt.Errorf("queue: the tasks that wait are of program %s, this is program %s: %w; start workers from the very file that explores", other, w.program, explore.ErrVersion)
}

// slot takes one task after the other.
func (w *worker) slot(ctx context.Context) error {
	for ctx.Err() == nil {
		err := w.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) || passing(err):
			// No one explored yet, or a server is away.
			select {
			case <-ctx.Done():
			case <-time.After(lookEvery / 2):
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// take opens the consumer and takes tasks from it, one at a time, so that none
// lies with a worker that is busy.
func (w *worker) take(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cons, err := w.c.js.Consumer(call, workStream, consumerName(w.program))
	if err != nil {
		return err
	}
	ackWait := cons.CachedInfo().Config.AckWait
	it, err := cons.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		w.last.Store(time.Now().UnixNano())
		err = w.handle(ctx, m, ackWait)
		w.last.Store(time.Now().UnixNano())
		if err != nil {
			return err
		}
	}
}

// handle computes one task, publishes the result, and acknowledges the task.
func (w *worker) handle(ctx context.Context, m jetstream.Msg, ackWait time.Duration) error {
	held, release := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	ticking.Go(func() {
		tick := time.NewTicker(ackWait / 4)
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
				if err := m.InProgress(); err != nil {
					w.c.log("queue: %v", err)
				}
				w.last.Store(time.Now().UnixNano())
			}
		}
	})
	r, run, err := w.compute(ctx, m)
	if err == nil {
		err = w.finish(ctx, m, run, r)
	}
	release()
	ticking.Wait()
	switch {
	case errors.Is(err, errGone): // the run is over
		return m.Term()
	case err != nil && ctx.Err() != nil: // this worker is told to end: another one may begin at once
		return errors.Join(m.Nak(), w.c.nc.FlushTimeout(callTimeout))
	case err != nil:
		return errors.Join(err, m.Nak())
	}
	w.tasks.Add(1)
	return nil
}

// finish publishes the result of a task and then acknowledges the task.
func (w *worker) finish(ctx context.Context, m jetstream.Msg, run string, r *result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	id := lastPart(m.Subject())
	msgID := run + id
	if r.Error != "" { // who tries again may succeed
		msgID = nats.NewInbox()
	}
	if err := w.c.publish(ctx, resultSubjects+run+"."+id, msgID, b); err != nil {
		return err
	}
	// An acknowledgement that got lost costs nothing: the next worker's result is
	// refused.
	return m.Ack()
}

// compute computes the task of a message. What fails for a reason that lies in the
// task is a result; an error is one of the queue or of this worker.
func (w *worker) compute(ctx context.Context, m jetstream.Msg) (r *result, run string, err error) {
	parts := strings.Split(m.Subject(), ".")
	run = parts[len(parts)-2]
	failed := func(err error) (*result, string, error) { return &result{Worker: w.name, Error: err.Error()}, run, nil }
	meta, err := m.Metadata()
	if err != nil {
		return nil, run, err
	}
	if meta.NumDelivered > maxDeliveries {
		return failed(fmt.Errorf("task %s was given to %d workers and none finished it", m.Data(), meta.NumDelivered-1))
	}
	var t task
	if err := json.Unmarshal(m.Data(), &t); err != nil {
		return failed(fmt.Errorf("task %s is not readable: %w", m.Subject(), err))
	}
	if t.Run != run || taskID(&t.Task) != parts[len(parts)-1] {
		return failed(fmt.Errorf("task %s is not the one its subject names", m.Subject()))
	}
	job, err := w.job(ctx, run)
	switch {
	case ctx.Err() != nil || errors.Is(err, errGone):
		return nil, run, err
	case err != nil:
		return failed(err)
	}
	done, err := job.Compute(ctx, &t.Task)
	switch {
	case ctx.Err() != nil:
		return nil, run, ctx.Err()
	case err != nil:
		return failed(err)
	}
	return &result{Worker: w.name, Done: *done}, run, nil
}

// job returns the worker of a run, which it fetches the first time.
func (w *worker) job(ctx context.Context, run string) (*explore.Worker, error) {
	w.mu.Lock()
	i := slices.IndexFunc(w.jobs, func(j *heldJob) bool { return j.run == run })
	j := &heldJob{run: run}
	if i >= 0 {
		j = w.jobs[i]
		w.jobs = slices.Delete(w.jobs, i, i+1)
	}
	if w.jobs = append(w.jobs, j); len(w.jobs) > mostJobs {
		w.jobs = slices.Delete(w.jobs, 0, 1)
	}
	w.mu.Unlock()
	j.once.Do(func() { j.ready, j.err = w.fetch(ctx, run) })
	if j.err != nil {
		w.mu.Lock()
		w.jobs = slices.DeleteFunc(w.jobs, func(k *heldJob) bool { return k == j })
		w.mu.Unlock()
	}
	return j.ready, j.err
}

func (w *worker) fetch(ctx context.Context, run string) (*explore.Worker, error) {
	b, err := w.c.get(ctx, jobObject(run))
	if err != nil {
		return nil, err
	}
	var job explore.Job
	if err := json.Unmarshal(b, &job); err != nil {
		return nil, fmt.Errorf("run %s is not readable: %w", run, err)
	}
	w.c.log("queue: working on %s", job.Name)
	return explore.NewWorker(&job, func(hash string) ([]byte, error) { return w.c.get(ctx, modelObject(hash)) })
}
