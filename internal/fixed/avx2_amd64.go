package fixed

// The kernels of avx2_amd64.s, for whole vectors of 8 elements; max256 takes 32.

//go:noescape
func requantise256(p *reqArgs)

//go:noescape
func add256(dst, a, b *byte, n int, p *addArgs)

//go:noescape
func max256(dst, src *byte, n int)

//go:noescape
func sum256(acc *int32, src *byte, n int)

//go:noescape
func depthwise256(p *dwArgs)
