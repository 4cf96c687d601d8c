// Package par runs loops on several goroutines.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls f(0) … f(n−1), each once, on up to workers goroutines, and returns
// when all have returned.
func Do(workers, n int, f func(i int)) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// SerialWork is the number of elements, each some nanoseconds of work, below which
// splitting a loop costs more than it saves.
const SerialWork = 1 << 15

// Ranges cuts [0, n) into ranges and calls f for each on GOMAXPROCS goroutines. size
// is the number of elements that each of the n stands for.
func Ranges(n, size int, f func(from, to int)) {
	parts := min(n, 4*runtime.GOMAXPROCS(0), 4*n*size/SerialWork)
	if n*size <= SerialWork || parts <= 1 {
		f(0, n)
		return
	}
	Do(runtime.GOMAXPROCS(0), parts, func(i int) { f(i*n/parts, (i+1)*n/parts) })
}
