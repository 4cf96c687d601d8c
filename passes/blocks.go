package passes

import (
	"math"

	"situ/ir"
)

// Weights in blocks (MXINT8, MXINT4; OCP Microscaling Formats 1.0): the weights of
// a channel, along K, in blocks of 32 with a power of two each, the largest not
// above the block's greatest weight. An element has one bit before its binary point,
// its sign aside, and 6 or 2 behind. Activations have codes and one scale as with
// other weights.
//
// Sums stay exact in 32 bits: the exponents of a channel's blocks are its lowest plus
// a shift, and what a block gives is shifted before it is added up. So that sums
// cannot overflow, and so that shifted elements of 4 bits fit 8 where hardware has
// no shifts, no block is taken to lie more than blockSpread below the channel's
// highest; those that do get that exponent, where their weights lose low bits. This
// is the one departure from the standard.
const (
	BlockSize   = 32 // weights of a block
	blockSpread = 4
)

// blockCodes quantises the weights of a product in blocks. bias gives the magnitude
// of a channel's bias in units of the operand's scale, as weightCodes takes it.
func blockCodes(w []float32, shape []int, axis, bits int, bias func(ch int) float64) quantised {
	n := shape[axis]
	inner := ir.Numel(shape[axis+1:])
	k := len(w) / n
	at := func(ch, i int) int { return (i/inner*n+ch)*inner + i%inner }
	quant := &ir.Quant{Axis: axis, Block: BlockSize, Scale: make([]float32, n), Zero: make([]int32, n)}
	codes := make([]int8, len(w))
	plain := true
	channel := make([]float32, k)
	for c := range n {
		for i := range channel {
			channel[i] = w[at(c, i)]
		}
		b := blockChannel{weights: channel, bits: bits, bias: bias(c)}
		for base := b.lowest(); ; base++ {
			if b.round(base); b.fits() {
				break
			}
		}
		quant.Scale[c] = float32(math.Ldexp(1, b.base))
		quant.Shift = append(quant.Shift, b.shifts...)
		for i, v := range b.codes {
			codes[at(c, i)] = v
		}
		for _, s := range b.shifts {
			plain = plain && s == 0
		}
	}
	if plain { // one power of two a channel
		quant.Block, quant.Shift = 0, nil
	}
	d := ir.I8
	if bits == 4 {
		d = ir.I4
	}
	return quantised{ir.NewTensor(d, shape, codes), quant}
}

// blockChannel is the weights of one channel on their way to codes.
type blockChannel struct {
	weights []float32
	bits    int
	bias    float64 // its magnitude, over the operand's scale
	base    int     // exponent of the scale
	shifts  []uint8
	codes   []int8
}

// exponents returns the exponent of the last bit of each block, and the highest.
// Blocks of zeros have math.MinInt.
func (b *blockChannel) exponents() (of []int, highest int) {
	highest = math.MinInt
	for from := 0; from < len(b.weights); from += BlockSize {
		top := float32(0)
		for _, x := range b.weights[from:min(from+BlockSize, len(b.weights))] {
			top = max(top, x, -x)
		}
		e := math.MinInt
		if top > 0 {
			_, exp := math.Frexp(float64(top))
			e = exp - 1 - (b.bits - 2)
		}
		of, highest = append(of, e), max(highest, e)
	}
	return of, highest
}

// lowest returns the least exponent the channel's scale may have: that of its
// lowest block, not too far below the highest, and such that the bias fits
// ±2^30 in units of the sums and scales stay far from the ends of float32.
func (b *blockChannel) lowest() int {
	of, highest := b.exponents()
	if highest == math.MinInt {
		highest = 0 // zeros alone: any scale will do
		of = nil
	}
	low := highest
	for _, e := range of {
		low = min(low, max(e, highest-blockSpread))
	}
	return max(low, int(math.Ceil(math.Log2(max(b.bias/(1<<30), minScale)))))
}

// round gives the channel codes under a scale of 2^base.
func (b *blockChannel) round(base int) {
	of, _ := b.exponents()
	most := float64(int(1)<<(b.bits-1) - 1)
	b.base, b.shifts, b.codes = base, make([]uint8, len(of)), make([]int8, len(b.weights))
	for i, e := range of {
		b.shifts[i] = uint8(max(e, base) - base)
	}
	for i, x := range b.weights {
		v := math.Ldexp(float64(x), -base-int(b.shifts[i/BlockSize]))
		b.codes[i] = int8(min(max(math.RoundToEven(v), -most), most))
	}
}

// fits reports whether sums with any operand, and the bias, stay within int32.
func (b *blockChannel) fits() bool {
	sum := math.Ldexp(b.bias, -b.base)
	for i, c := range b.codes {
		sum += 255 * math.Abs(float64(c)) * float64(int(1)<<b.shifts[i/BlockSize])
	}
	return sum < 1<<31
}

// steps returns the step of each weight of a channel, the k-th of n.
func (c quantised) steps(n int) func(channel, k int) float64 {
	q := c.quant
	return func(channel, k int) float64 {
		return math.Ldexp(float64(at(q.Scale, channel)), int(q.ShiftOf(channel, k, n)))
	}
}
