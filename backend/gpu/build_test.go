package gpu

import (
	"testing"

	"situ/ir"
	"situ/ir/irtest"
)

// matmul16 is one fp16 product [m,k] × [k,n] of two inputs.
func matmul16(t testing.TB, m, k, n int) *ir.Graph {
	b := irtest.NewNet(t, "gemm")
	x := b.G.AddInput("a", ir.TypeOf(ir.F16, m, k))
	y := b.G.AddInput("b", ir.TypeOf(ir.F16, k, n))
	return b.Done(b.Must(b.G.Add(ir.MatMul, "gemm", nil, x, y)))
}
