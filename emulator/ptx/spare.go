package ptx

import "sync"

// What a launch needs and the next one can use: models are many short launches.
var (
	spareCaches  sync.Pool // *cache of an L2
	spareStreams sync.Pool // *[]transaction
)

// takeL2 returns an empty cache of size bytes; giveL2 takes it back.
func takeL2(size int) *L2 {
	if c, ok := spareCaches.Get().(*cache); ok && len(c.sets) == max(size, 0)/lineBytes/l2Ways {
		c.reset()
		return &L2{c: c}
	}
	return NewL2(size)
}

func giveL2(l *L2) { spareCaches.Put(l.c) }

// takeStream returns an empty stream; giveStream takes it back.
func takeStream() []transaction {
	if s, ok := spareStreams.Get().(*[]transaction); ok {
		return (*s)[:0]
	}
	return nil
}

func giveStream(s []transaction) { spareStreams.Put(&s) }

// takeWorker returns a worker for a launch; giveWorker takes it back. Those of a
// kernel keep the shapes of its accesses.
func takeWorker(l *launch) *worker {
	w, ok := l.kernel.spare.Get().(*worker)
	if ok && w.made == l.dimensions() {
		w.begin(l)
		return w
	}
	return newWorker(l)
}

func giveWorker(w *worker) {
	l := w.launch
	w.end()
	l.kernel.spare.Put(w)
}
