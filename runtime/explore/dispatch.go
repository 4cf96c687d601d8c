package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"situ/runtime/explore/store"
)

// Task is a stage to be computed of some designs of a run.
type Task struct {
	Stage  string   `json:"stage"`
	Points []Point  `json:"points"`
	Keys   []string `json:"keys"` // of the results, in the order of the points
}

// Done is what came of a task.
type Done struct {
	Answers []json.RawMessage `json:"answers"` // in the order of the points, as the store keeps them
	Seconds float64           `json:"seconds"` // spent on them
}

// Pool computes tasks on other machines. Package queue has one.
type Pool interface {
	// Begin makes a run ready, or goes on with one that was interrupted. The name
	// is the run's alone.
	Begin(ctx context.Context, run string, job *Job) error
	// Compute returns what Worker.Compute does. Many goroutines call it.
	Compute(ctx context.Context, t *Task) (*Done, error)
	// End ends a run; done says that nobody will go on with it.
	End(ctx context.Context, done bool) error
}

// answer is what a stage found of a design.
type answer struct {
	Costs []ModelCost `json:"costs,omitempty"`
	Unfit string      `json:"unfit,omitempty"` // why a model does not fit
	Full  *Confirmed  `json:"full,omitempty"`  // of StageFull
}

// readAnswer reads the answer of a stage for n models.
func readAnswer(b []byte, stage string, n int) (answer, error) {
	var a answer
	err := json.Unmarshal(b, &a)
	if err == nil && a.Unfit == "" && (stage == StageFull && a.Full == nil || stage != StageFull && len(a.Costs) != n) {
		err = fmt.Errorf("holds no answer of stage %s for %d models", stage, n)
	}
	return a, err
}

// answer computes a stage of a design.
func (ev *evaluator) answer(ctx context.Context, stage string, d *design) (a answer, err error) {
	switch stage {
	case StageEstimate:
		a.Costs, err = ev.estimate(ctx, d)
	case StageEmulate:
		a.Costs, err = ev.emulate(ctx, d)
	case StageFull:
		a.Full, err = ev.confirm(ctx, d)
	default:
		err = fmt.Errorf("stage %q is not computed by design", stage)
	}
	var unfit *unfitError
	if errors.As(err, &unfit) {
		return answer{Unfit: unfit.Error()}, nil
	}
	return a, err
}

// compute computes a task on up to workers cores. Got is told of each answer, from
// any goroutine; it may be nil.
func (ev *evaluator) compute(ctx context.Context, t *Task, ds []*design, workers int, got gotFunc) (*Done, error) {
	done := &Done{Answers: make([]json.RawMessage, len(ds))}
	var ns atomic.Int64
	err := parallel(ctx, workers, len(ds), func(i int) error {
		began := time.Now()
		a, err := ev.answer(ctx, t.Stage, ds[i])
		ns.Add(int64(time.Since(began)))
		if err == nil {
			done.Answers[i], err = json.Marshal(&a)
		}
		if err == nil && got != nil {
			err = got(i, done.Answers[i:i+1])
		}
		return err
	})
	done.Seconds = float64(ns.Load()) * 1e-9
	return done, err
}

// gotFunc is told of answers of a task, from the place of the first on.
type gotFunc func(from int, answers []json.RawMessage) error

// keepEvery is how often answers are stored while a task is computed: what is lost
// when the process is killed.
const keepEvery = 100 * time.Millisecond

// keeper stores the answers of a task as they come.
type keeper struct {
	e    *engine
	task *Task

	mu      sync.Mutex
	waiting []store.Result // that are not in the store yet
	last    time.Time      // when some were stored
	n       int            // answers so far
}

// got takes answers. It is a gotFunc.
func (k *keeper) got(from int, answers []json.RawMessage) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, a := range answers {
		k.waiting = append(k.waiting, store.Result{Key: k.task.Keys[from+i], Stage: k.task.Stage, Value: a})
	}
	k.n += len(answers)
	k.e.step(k.task.Stage, uint64(k.n), uint64(len(k.task.Keys)))
	if time.Since(k.last) < keepEvery {
		return nil
	}
	return k.store()
}

// store stores what waits.
func (k *keeper) store() error {
	rs := k.waiting
	k.waiting, k.last = nil, time.Now()
	return k.e.st.Put(k.e.run, rs, nil)
}

// answers answers a stage of designs, from the store or by computing it, here or
// on the pool. It also returns those of the results that are not in the store yet.
func (e *engine) answers(ctx context.Context, stage string, ds []*design) ([]answer, []store.Result, error) {
	keys := make([]string, len(ds))
	err := e.parallel(ctx, len(ds), func(i int) (err error) {
		keys[i], err = e.ev.key(ctx, stage, ds[i])
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	known, err := e.st.GetAll(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	t := Task{Stage: stage}
	var missing []*design
	asked := map[string]int{} // where in the task a key is: points that are the same chip share one
	for i, k := range keys {
		if _, ok := known[k]; ok {
			e.stage(stage).Remembered++
		} else if _, ok := asked[k]; !ok {
			asked[k] = len(missing)
			missing = append(missing, ds[i])
			t.Points, t.Keys = append(t.Points, ds[i].point), append(t.Keys, k)
		}
	}
	keep := &keeper{e: e, task: &t, last: time.Now()}
	done, err := e.compute(ctx, &t, missing, keep.got)
	if err != nil { // what is done is not to be done again
		return nil, nil, errors.Join(err, keep.store())
	}
	e.stage(stage).Seconds += done.Seconds
	for j, k := range t.Keys {
		known[k] = done.Answers[j]
	}
	out := make([]answer, len(ds))
	for i, k := range keys {
		if out[i], err = readAnswer(known[k], stage, len(e.s.Models)); err != nil {
			return nil, nil, fmt.Errorf("%s of point %s: %w", stage, ds[i].point, err)
		}
	}
	return out, keep.waiting, nil
}

// chunk is how many designs of a stage travel together: what takes milliseconds
// is not worth a message each.
func chunk(stage string) int {
	if stage == StageEstimate {
		return 8
	}
	return 1
}

// compute computes a task here or, in chunks, on the pool.
func (e *engine) compute(ctx context.Context, t *Task, ds []*design, got gotFunc) (*Done, error) {
	if e.opts.Pool == nil {
		return e.ev.compute(ctx, t, ds, e.opts.workers(), got)
	}
	n := chunk(t.Stage)
	all := &Done{Answers: make([]json.RawMessage, len(ds))}
	var mu sync.Mutex
	chunks := (len(ds) + n - 1) / n
	err := parallel(ctx, chunks, chunks, func(c int) error {
		from, to := c*n, min(c*n+n, len(ds))
		done, err := e.opts.Pool.Compute(ctx, &Task{t.Stage, t.Points[from:to], t.Keys[from:to]})
		if err != nil {
			return err
		}
		if len(done.Answers) != to-from {
			return fmt.Errorf("a worker returned %d answers for %d designs", len(done.Answers), to-from)
		}
		copy(all.Answers[from:to], done.Answers)
		mu.Lock()
		all.Seconds += done.Seconds
		mu.Unlock()
		return got(from, done.Answers)
	})
	return all, err
}

// parallel calls f for 0 … n−1 on all workers and returns the first error.
func (e *engine) parallel(ctx context.Context, n int, f func(i int) error) error {
	return parallel(ctx, e.opts.workers(), n, f)
}

// parallel calls f for 0 … n−1 in as many goroutines as there are workers and
// returns the first error, or that of the context.
func parallel(ctx context.Context, workers, n int, f func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(workers, n))
	var failed atomic.Bool
	for w := range errs {
		wg.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = ctx.Err(); errs[w] == nil {
					errs[w] = f(i)
				}
				if errs[w] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
