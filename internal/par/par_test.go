package par

import (
	"sync/atomic"
	"testing"
)

func TestDo(t *testing.T) {
	for _, workers := range []int{0, 1, 3, 50} {
		for _, n := range []int{0, 1, 2, 40} {
			calls := make([]atomic.Int32, n)
			Do(workers, n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if c := calls[i].Load(); c != 1 {
					t.Errorf("%d workers: %d of %d was called %d times", workers, i, n, c)
				}
			}
		}
	}
}

func TestRanges(t *testing.T) {
	for _, n := range []int{0, 1, 7, SerialWork, SerialWork + 1, 3*SerialWork + 5} {
		for _, size := range []int{0, 1, 1000} {
			seen := make([]atomic.Int32, n)
			Ranges(n, size, func(from, to int) {
				for i := from; i < to; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if c := seen[i].Load(); c != 1 {
					t.Fatalf("%d of %d elements of %d: seen %d times", i, n, size, c)
				}
			}
		}
	}
}
