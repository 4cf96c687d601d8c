package eval

import (
	"runtime"

	"situ/internal/par"
)

// parallel calls f(0) … f(n−1) on up to GOMAXPROCS goroutines.
func parallel(n int, f func(i int)) { par.Do(runtime.GOMAXPROCS(0), n, f) }

// parallelRange splits [0, n) into ranges and calls f for them concurrently;
// n elements are taken to be about equal work.
func parallelRange(n int, f func(from, to int)) { par.Ranges(n, 1, f) }

// parallelRows calls f for n rows of size elements, concurrently when that pays.
func parallelRows(n, size int, f func(i int)) {
	par.Ranges(n, size, func(from, to int) {
		for i := from; i < to; i++ {
			f(i)
		}
	})
}
