package queue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"situ/runtime/explore"
)

// PoolOptions are choices of the side that explores.
type PoolOptions struct {
	Server
	AckWait  time.Duration // a worker that says nothing for so long loses its task to another; 0 for a minute
	Replicas int           // of what lies on the server; 0 for three on a cluster and one elsewhere
}

// defaultAckWait is long against the ticks of a worker, of which three fit, and
// short against what a lost worker holds up.
const defaultAckWait = time.Minute

// Pool lets workers compute tasks. It implements explore.Pool.
type Pool struct {
	c       *conn
	opts    PoolOptions
	work    jetstream.Stream
	results jetstream.Stream
	run     string
	program string
	session string // tells attempts of this process to publish from those of an earlier one
	reading jetstream.ConsumeContext
	stop    context.CancelFunc
	tending sync.WaitGroup // of goroutines that use the connection

	mu      sync.Mutex
	arrived map[string]*result      // that nobody waits for yet
	waiting map[string]chan *result // by task
	queued  map[string]bool         // tasks that an earlier process published
	old     int                     // results of an earlier process that are still to arrive
	settled chan struct{}           // closed when old is 0
	heard   time.Time               // when the last result arrived
	failed  error
	failure chan struct{} // closed when failed is set
}

var _ explore.Pool = (*Pool)(nil)

// task is what a worker is given.
type task struct {
	Run string `json:"run"`
	explore.Task
}

// result is what it returns.
type result struct {
	Worker string `json:"worker"`
	Error  string `json:"error,omitempty"`
	explore.Done
}

// NewPool connects to the server and makes what is missing there.
func NewPool(ctx context.Context, o PoolOptions) (*Pool, error) {
	if o.AckWait == 0 {
		o.AckWait = defaultAckWait
	}
	c, err := connect(&o.Server, "situ explore")
	if err != nil {
		return nil, err
	}
	p := &Pool{c: c, opts: o, session: rand.Text(), arrived: map[string]*result{}, waiting: map[string]chan *result{}, queued: map[string]bool{},
		settled: make(chan struct{}), failure: make(chan struct{})}
	if p.work, p.results, err = c.makeStreams(ctx, o.Replicas); err != nil {
		c.nc.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the connection.
func (p *Pool) Close() { p.c.nc.Close() }

func (p *Pool) workSubject(id string) string {
	return workSubjects + p.program + "." + p.run + "." + id
}
func (p *Pool) resultSubject(id string) string { return resultSubjects + p.run + "." + id }

// Begin makes a run ready, or goes on with one that was interrupted.
func (p *Pool) Begin(ctx context.Context, run string, job *explore.Job) error {
	p.run, p.program, p.heard = run, job.Version, time.Now()
	for _, m := range job.Models {
		if m.Hash != "" {
			if err := p.c.put(ctx, modelObject(m.Hash), m.Data); err != nil {
				return err
			}
		}
	}
	b, err := json.Marshal(job)
	if err != nil {
		return err
	}
	if err := p.c.put(ctx, jobObject(run), b); err != nil {
		return err
	}
	if err := p.c.workConsumer(ctx, p.work, p.program, p.opts.AckWait); err != nil {
		return err
	}
	// A worker publishes the result before the task is gone. So a task that is not
	// seen in the first listing and whose result is not in the second was never
	// published, and one that is seen will have a result.
	tasks, err := p.c.pending(ctx, workStream, p.workSubject("*"))
	if err != nil {
		return err
	}
	for s := range tasks {
		p.queued[lastPart(s)] = true
	}
	old, err := p.c.pending(ctx, resultStream, p.resultSubject("*"))
	if err != nil {
		return err
	}
	if p.old = len(old); p.old == 0 {
		close(p.settled)
	}
	if err := p.read(ctx); err != nil {
		return err
	}
	select {
	case <-p.settled:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("queue: %d of %d results of the interrupted run did not arrive", p.old, len(old))
	}
	p.tending.Wait()
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	p.tending.Go(func() { p.watch(watch) })
	return nil
}

// read begins to read results, from the first on.
func (p *Pool) read(ctx context.Context) error {
	return p.c.try(ctx, "reading results", func(ctx context.Context) error {
		c, err := p.results.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{p.resultSubject("*")}})
		if err != nil {
			return err
		}
		p.reading, err = c.Consume(p.receive, jetstream.PullExpiry(4*time.Second), jetstream.PullHeartbeat(time.Second))
		return err
	})
}

// receive takes one result.
func (p *Pool) receive(m jetstream.Msg) {
	id := lastPart(m.Subject())
	var r result
	if err := json.Unmarshal(m.Data(), &r); err != nil {
		r = result{Error: fmt.Sprintf("the result of task %s is not readable: %v", id, err)}
	}
	p.mu.Lock()
	p.heard = time.Now()
	if p.old > 0 {
		if p.old--; p.old == 0 {
			defer close(p.settled)
		}
	}
	ch := p.waiting[id]
	switch {
	case ch != nil:
		delete(p.waiting, id)
		ch <- &r
	case r.Error == "":
		p.arrived[id] = &r
	}
	p.mu.Unlock()
	if meta, err := m.Metadata(); err == nil && r.Error != "" { // it must not meet whoever tries again
		p.tending.Go(func() { p.forget(meta.Sequence.Stream) })
	}
}

// forget removes the report of a failure.
func (p *Pool) forget(seq uint64) {
	err := p.c.try(context.Background(), "removing a failure", func(ctx context.Context) error {
		err := p.results.DeleteMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		p.c.log("%v", err)
	}
}

// taskID names a task by what it computes.
func taskID(t *explore.Task) string {
	h := sha256.New()
	io.WriteString(h, strings.Join(t.Keys, " "))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Compute publishes a task and waits for its result.
func (p *Pool) Compute(ctx context.Context, t *explore.Task) (*explore.Done, error) {
	id := taskID(t)
	ch := make(chan *result, 1)
	p.mu.Lock()
	r, queued := p.arrived[id], p.queued[id]
	delete(p.arrived, id)
	if r == nil {
		p.waiting[id] = ch
	}
	p.mu.Unlock()
	if r == nil && !queued {
		if err := p.publish(ctx, id, t); err != nil {
			return nil, err
		}
	}
	if r == nil {
		select {
		case r = <-ch:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.failure:
			return nil, p.failed
		}
	}
	if r.Error != "" {
		return nil, fmt.Errorf("worker %s: %s", r.Worker, r.Error)
	}
	return &r.Done, nil
}

func (p *Pool) publish(ctx context.Context, id string, t *explore.Task) error {
	b, err := json.Marshal(&task{p.run, *t})
	if err != nil {
		return err
	}
	return p.c.publish(ctx, p.workSubject(id), p.session+id, b)
}

// watchEvery is how often it is looked whether all is well.
const watchEvery = 10 * time.Second

// watch says when no worker is there, and ends the run when the server lost it.
func (p *Pool) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	quiet := false
	lost := map[string]int{} // how often in a row a task was seen neither waiting nor answered
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		tasks, err := p.c.pending(ctx, workStream, p.workSubject("*"))
		var info *jetstream.ConsumerInfo
		if err == nil {
			err = p.c.try(ctx, "looking for workers", func(ctx context.Context) error {
				c, err := p.work.Consumer(ctx, consumerName(p.program))
				if err == nil {
					info = c.CachedInfo()
				}
				return err
			})
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.fail(err)
			return
		}
		p.mu.Lock()
		silence := time.Since(p.heard)
		// A task that was given back, or whose worker was lost, counts as taken for a
		// while.
		idle := len(tasks) > 0 && info.NumWaiting == 0 && (info.NumAckPending == 0 || silence > 2*p.opts.AckWait)
		if idle && !quiet {
			p.c.log("queue: %d tasks wait, no worker asks for one, and none has answered for %v; situ worker --queue %s starts one",
				len(tasks), silence.Round(time.Second), redacted(p.opts.URL))
		}
		quiet = idle
		for id := range p.waiting {
			if tasks[p.workSubject(id)] > 0 {
				delete(lost, id)
			} else if lost[id]++; lost[id] > 3 {
				defer p.fail(fmt.Errorf("queue: task %s is gone from the server without a result", id))
			}
		}
		p.mu.Unlock()
	}
}

// fail ends the run.
func (p *Pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
		close(p.failure)
	}
}

// End ends a run. One that will be gone on with leaves its tasks to the workers,
// and what they find to the next process.
func (p *Pool) End(ctx context.Context, done bool) error {
	p.stop()
	p.reading.Stop()
	<-p.reading.Closed()
	p.tending.Wait()
	if !done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	purge := func(s jetstream.Stream, subjects string) error {
		return p.c.try(ctx, "clearing "+subjects, func(ctx context.Context) error { return s.Purge(ctx, jetstream.WithPurgeSubject(subjects)) })
	}
	err := errors.Join(purge(p.work, p.workSubject("*")), purge(p.results, p.resultSubject("*")),
		p.c.blob(ctx, "removing the job", func(ctx context.Context, b jetstream.ObjectStore) error { return b.Delete(ctx, jobObject(p.run)) }))
	if err != nil { // the run itself is complete, and the server forgets in time
		p.c.log("%v", err)
	}
	return nil
}

func jobObject(run string) string    { return "job-" + run }
func modelObject(hash string) string { return "model-" + hash }
