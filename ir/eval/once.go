package eval

import (
	"sync"

	"situ/ir"
)

// onceFor wraps f, which derives something from a weight tensor, for an operator
// whose weight is the constant w: for w it is derived at the first use and kept.
// EvalOp may be given another tensor in its place; that one is derived anew.
func onceFor[T any](f func(*ir.Tensor) T, w *ir.Tensor) func(*ir.Tensor) T {
	get := sync.OnceValue(func() T { return f(w) })
	return func(t *ir.Tensor) T {
		if t != w {
			return f(t)
		}
		return get()
	}
}
