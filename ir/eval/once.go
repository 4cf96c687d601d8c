package eval

import (
	"sync"

	"situ/ir"
)

// onceFor wraps f, which derives something from a weight tensor, for a weight
// that is constant: it is derived at the first use and kept.
func onceFor[T any](f func(*ir.Tensor) T, w *ir.Tensor) func(*ir.Tensor) T {
	get := sync.OnceValue(func() T { return f(w) })
	return func(*ir.Tensor) T { return get() }
}
