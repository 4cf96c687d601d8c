package pim

import (
	"situ/arch"
	"situ/backend/pim/isa"
)

// productF is a float32 product on the vector unit: a convolution of one group
// with weights [1, 1, K, N], K being rows, columns, channels of the window, or a
// matrix product whose right operand is one or several matrices.
type productF struct {
	noParams
	window
	matrices bool // a matrix product: leading dimensions broadcast
	cin      int
	w        dims
}

func (k *productF) need(i int, out box) box {
	switch {
	case out.empty():
		return box{}
	case i == 1:
		return broadcast(dims{k.w[0], k.w[1], 0, 0}, out).along(2, 0, k.w[2])
	case k.matrices:
		return broadcast(dims{k.in[0], k.in[1], 0, 0}, out).along(3, 0, k.cin)
	}
	return k.over(out).along(3, 0, k.cin)
}

func (k *productF) cuts() [4]bool { return allCuts }

// macs returns the multiply-accumulates of a part of the result.
func (k *productF) macs(out box) int64 { return out.numel() * int64(k.w[2]) }

func (k *productF) cycles(c *arch.Chip, out box) int64 {
	read := 4 * k.macs(out) / c.Scratchpad.ReadBytes.Int()
	return max(f32Cycles(c, k.macs(out), 2), read)
}

func (k *productF) emit(e *emitter, out box, dst view, src []view) {
	x, w := src[0], src[1]
	sy := int64(k.stride[0]) * x.st[1]
	if k.matrices && k.in[1] == 1 {
		sy = 0
	}
	ny, nx, n := int64(k.kernel[0]), int64(k.kernel[1]), int64(k.cin)
	if k.dilation[1] == 1 && x.st[2] == 4*n {
		nx, n = 1, nx*n
	}
	var parts []box // each with one matrix of w
	for _, b := range out.pieces(0, out.ext(0), 1) {
		if k.w[1] > 1 {
			parts = append(parts, b.pieces(1, b.ext(1), 1)...)
		} else {
			parts = append(parts, b)
		}
	}
	for _, b := range parts {
		e.emit(isa.OpMatMulF, dst.at(b.lo), x.at(k.need(0, b).lo), w.at(k.need(1, b).lo),
			int64(b.ext(1)), dst.st[1], sy, int64(b.ext(2)), dst.st[2], int64(k.stride[1])*x.st[2],
			ny, int64(k.dilation[0])*x.st[1], nx, int64(k.dilation[1])*x.st[2], n, w.st[2], int64(b.ext(3)))
	}
}
