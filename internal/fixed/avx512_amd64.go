package fixed

import "unsafe"

// reqArgs is the argument block of requantise512 and requantise256. The steps are
// bytes from one block of 16 or 8 channels to the next.
type reqArgs struct {
	dst, acc                      unsafe.Pointer
	dstStride, accStride          int // bytes
	rows, cols                    int
	bias, mult, shift             unsafe.Pointer
	biasStep, multStep, shiftStep int
	zp, lo, hi                    int64
}

//go:noescape
func requantise512(p *reqArgs)

// addArgs is AddParams as the kernels want it: offset = −za·MA − zb·MB + half and
// low = 2^Shift − 1.
type addArgs struct {
	ma, mb, offset, shift, low, zy, lo, hi int32
}

//go:noescape
func add512(dst, a, b *byte, n int, p *addArgs)

// mulArgs is MulParams as mul512 wants it, with half = 2^(Shift−1) and
// low = 2^Shift − 1.
type mulArgs struct {
	za, zb                          int32
	m, shift, half, low, zy, lo, hi int64
}

//go:noescape
func mul512(dst, a, b *byte, n int, p *mulArgs)

//go:noescape
func lut512(dst, src *byte, n int, t *[256]byte)

//go:noescape
func max512(dst, src *byte, n int)

//go:noescape
func sum512(acc *int32, src *byte, n int)

//go:noescape
func quantise512(dst *byte, src *float32, n int, scale float32, zp int32)

// dwArgs is the argument block of depthwise512, for up to 64 channels and dwTaps
// taps, and of depthwise256. Before depthwise512 starts, taps is filled up to a
// multiple of 4.
type dwArgs struct {
	acc        unsafe.Pointer
	accStride  int // bytes
	a          unsafe.Pointer
	rows       *int32
	nrows      int
	taps       *int32
	live       int
	w          unsafe.Pointer
	wStride    int    // bytes
	channels   int    // depthwise256: channels, a multiple of 8
	mask       uint64 // depthwise512: channels that exist
	accumulate int    // depthwise512: not 0 to add to acc
}

// dwTaps is the number of taps one call of depthwise512 takes; its frame holds
// their weights, rearranged.
const dwTaps = 64

//go:noescape
func depthwise512(p *dwArgs)
