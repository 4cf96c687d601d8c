package eval

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls f(0) … f(n−1) on up to GOMAXPROCS goroutines.
func parallel(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// serialWork is the number of elements below which splitting work costs more
// than it saves.
const serialWork = 1 << 15

// parallelRange splits [0, n) into ranges and calls f for them concurrently;
// n elements are taken to be about equal work.
func parallelRange(n int, f func(from, to int)) {
	if n <= serialWork {
		f(0, n)
		return
	}
	parts := min(4*runtime.GOMAXPROCS(0), n/(serialWork/4))
	parallel(parts, func(i int) { f(i*n/parts, (i+1)*n/parts) })
}
