package gemm

// The micro-kernels of avx2_amd64.s: rows by one vector of 16 columns.

//go:noescape
func fma256x1(t *tile)

//go:noescape
func fma256x6(t *tile)

//go:noescape
func fmaPeak256(n int)
