//go:build !amd64

package ptx

// fastMMA says that mmaSigned works on this machine.
const fastMMA = false

func mmaSigned(*mmaTile, *[mmaWords]int16) {}
