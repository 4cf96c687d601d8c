package functional

import (
	"context"
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"situ/backend/pim/isa"
	"situ/emulator/sequence"
)

// scheduler hands runnable clusters to workers. A cluster runs until it meets a
// barrier or its stream ends.
type scheduler struct {
	mu       sync.Mutex
	wake     sync.Cond
	runs     []clusterRun
	ready    []int // runnable clusters, first come first served
	left     int   // clusters that have not ended
	active   int   // workers running a cluster
	barriers map[barrierKey]int
	err      error

	idle atomic.Int32 // processors without a cluster
}

// clusterRun is one cluster's progress in its stream.
type clusterRun struct {
	cursor  sequence.Cursor
	waiting barrierKey
	waits   bool
}

type barrierKey struct{ id, first, count int64 }

// runStreams executes one stream on each cluster to its end. name says which
// streams, for errors.
func (m *Machine) runStreams(ctx context.Context, name string, streams []isa.Stream) error {
	s := &m.sched
	s.wake.L = &s.mu
	if s.runs == nil {
		s.runs = make([]clusterRun, len(streams))
		s.barriers = map[barrierKey]int{}
	}
	s.ready, s.left, s.active, s.err = s.ready[:0], len(streams), 0, nil
	clear(s.barriers)
	for i := range streams {
		s.runs[i].cursor.Start(&streams[i])
		s.runs[i].waits = false
		s.ready = append(s.ready, i)
	}
	procs := runtime.GOMAXPROCS(0)
	s.idle.Store(int32(procs))
	var wg sync.WaitGroup
	for range min(procs, len(streams)) - 1 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			m.work(ctx, name)
		}()
	}
	m.work(ctx, name)
	wg.Wait()
	return s.err
}

// work runs clusters until all have ended or one has failed.
func (m *Machine) work(ctx context.Context, name string) {
	s := &m.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.ready) == 0 && s.left > 0 && s.err == nil {
			if s.active == 0 {
				s.err = s.deadlock(name)
				s.wake.Broadcast()
				return
			}
			s.wake.Wait()
		}
		if s.left == 0 || s.err != nil {
			return
		}
		id := s.ready[0]
		s.ready = s.ready[:copy(s.ready, s.ready[1:])]
		s.active++
		s.idle.Add(-1)
		s.mu.Unlock()

		key, ended, err := m.advance(ctx, id, name)

		s.mu.Lock()
		s.active--
		s.idle.Add(1)
		switch {
		case err != nil:
			if s.err == nil {
				s.err = err
			}
			s.wake.Broadcast()
		case ended:
			if s.left--; s.left == 0 {
				s.wake.Broadcast()
			}
		default:
			s.arrive(id, key)
		}
	}
}

// arrive counts a cluster at a barrier and releases all when the last is there.
func (s *scheduler) arrive(id int, key barrierKey) {
	run := &s.runs[id]
	run.waiting, run.waits = key, true
	s.barriers[key]++
	if s.barriers[key] < int(key.count) {
		return
	}
	delete(s.barriers, key)
	for i := key.first; i < key.first+key.count; i++ {
		s.runs[i].waits = false
		s.ready = append(s.ready, int(i))
	}
	s.wake.Broadcast()
}

// deadlock describes clusters that wait for barriers nobody else will reach.
func (s *scheduler) deadlock(name string) error {
	var at []string
	for i := range s.runs {
		if r := &s.runs[i]; r.waits {
			at = append(at, fmt.Sprintf("cluster %d at barrier %d of clusters %d..%d", i, r.waiting.id, r.waiting.first, r.waiting.first+r.waiting.count-1))
		}
	}
	sort.Strings(at)
	if len(at) > 8 {
		at = append(at[:8], "…")
	}
	return fmt.Errorf("%s streams wait for each other for ever: %s", name, strings.Join(at, ", "))
}

// advance runs a cluster up to its next barrier or its end.
func (m *Machine) advance(ctx context.Context, id int, name string) (key barrierKey, ended bool, err error) {
	c, cur := m.clusters[id], &m.sched.runs[id].cursor
	var st sequence.Step
	for n := 0; ; n++ {
		if n&63 == 0 && ctx.Err() != nil {
			return key, false, ctx.Err()
		}
		ok, err := cur.Next(&st)
		if !ok {
			return key, true, nil
		}
		if err == nil {
			switch {
			case st.Op == isa.OpBarrier:
				key = barrierKey{st.Args[isa.BarrierId], st.Args[isa.BarrierFirst], st.Args[isa.BarrierCount]}
				if int64(id) >= key.first && int64(id) < key.first+key.count {
					return key, false, nil
				}
				err = fmt.Errorf("the cluster is not one of %d..%d that meet", key.first, key.first+key.count-1)
			default:
				err = c.exec(st.Op, st.Args)
			}
		}
		if err != nil {
			return key, false, sequence.Fault(m.prog, name, id, &st, err)
		}
	}
}
