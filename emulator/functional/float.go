package functional

import (
	"fmt"
	"math"
	"unsafe"

	"situ/backend/pim/isa"
	"situ/internal/fixed"
	"situ/internal/vecf32"
)

func f32(bits int64) float32 { return math.Float32frombits(uint32(bits)) }

// signed views bytes as int8.
func signed(b []byte) []int8 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(&b[0])), len(b))
}

// convertRuns returns the access of quant and dequant in elements; it is not
// collapsed because the operands differ in size.
func convertRuns(a []int64) runs {
	return runs{
		n3: 1, n2: a[isa.QuantN2], n1: a[isa.QuantN1], size: a[isa.QuantLen],
		s2: [3]int64{a[isa.QuantDstS2], a[isa.QuantSrcS2]}, s1: [3]int64{a[isa.QuantDstS1], a[isa.QuantSrcS1]},
	}
}

func (c *cluster) quant(a []int64) error {
	scale, zero, r := f32(a[isa.QuantScale]), int32(a[isa.QuantZero]), convertRuns(a)
	if !(scale > 0) || math.IsInf(float64(scale), 0) {
		return fmt.Errorf("scale = %v is not a finite number above 0", scale)
	}
	for i := range r.n2 {
		for j := range r.n1 {
			d := a[isa.QuantDst] + i*r.s2[0] + j*r.s1[0]
			fixed.QuantiseU8(c.sp[d:d+r.size], words[float32](c.sp, a[isa.QuantSrc]+i*r.s2[1]+j*r.s1[1], r.size), scale, zero)
		}
	}
	return nil
}

func (c *cluster) dequant(a []int64) error {
	scale, zero, r := f32(a[isa.DequantScale]), int32(a[isa.DequantZero]), convertRuns(a)
	for i := range r.n2 {
		for j := range r.n1 {
			s := a[isa.DequantSrc] + i*r.s2[1] + j*r.s1[1]
			fixed.DequantiseU8(words[float32](c.sp, a[isa.DequantDst]+i*r.s2[0]+j*r.s1[0], r.size), c.sp[s:s+r.size], scale, zero)
		}
	}
	return nil
}

func (c *cluster) dequantAcc(a []int64) error {
	n, nx := a[isa.DequantAccN], a[isa.DequantAccRowsX]
	bias := words[int32](c.sp, a[isa.DequantAccParams], n)
	scale := words[float32](c.sp, a[isa.DequantAccParams]+4*n, n)
	acc := a[isa.DequantAccAcc] / 4
	for y := range a[isa.DequantAccRowsY] {
		for x := range nx {
			dst := words[float32](c.sp, a[isa.DequantAccDst]+y*a[isa.DequantAccDstSy]+x*a[isa.DequantAccDstSx], n)
			for i, v := range c.acc[acc : acc+n] {
				dst[i] = float32(v+bias[i]) * scale[i]
			}
			acc += a[isa.DequantAccAccPitch] / 4
		}
	}
	return nil
}

func (c *cluster) unaryF(a []int64) error {
	fn, n := a[isa.UnaryFFn], a[isa.UnaryFN]
	if fn >= int64(vecf32.NumFns) {
		return badFunction(fn)
	}
	p := vecf32.Params{A: f32(a[isa.UnaryFAlpha]), B: f32(a[isa.UnaryFBeta])}
	vecf32.Apply(vecf32.Fn(fn), p, words[float32](c.sp, a[isa.UnaryFDst], n), words[float32](c.sp, a[isa.UnaryFSrc], n))
	return nil
}

func (c *cluster) binaryF(a []int64) error {
	if a[isa.BinaryFFn] >= int64(vecf32.NumBinOps) {
		return badFunction(a[isa.BinaryFFn])
	}
	fn, n := vecf32.BinOp(a[isa.BinaryFFn]), a[isa.BinaryFN0]
	sd, sa, sb := a[isa.BinaryFDstS0], a[isa.BinaryFAS0], a[isa.BinaryFBS0]
	vector := (sd == 4 || n == 1) && (sa == 4 || sa == 0) && (sb == 4 || sb == 0)
	shape, aShape, bShape := []int{int(n)}, []int{int(n)}, []int{int(n)}
	if sa == 0 {
		aShape[0] = 1
	}
	if sb == 0 {
		bShape[0] = 1
	}
	for i3 := range a[isa.BinaryFN3] {
		for i2 := range a[isa.BinaryFN2] {
			for i1 := range a[isa.BinaryFN1] {
				d := a[isa.BinaryFDst] + i3*a[isa.BinaryFDstS3] + i2*a[isa.BinaryFDstS2] + i1*a[isa.BinaryFDstS1]
				x := a[isa.BinaryFA] + i3*a[isa.BinaryFAS3] + i2*a[isa.BinaryFAS2] + i1*a[isa.BinaryFAS1]
				y := a[isa.BinaryFB] + i3*a[isa.BinaryFBS3] + i2*a[isa.BinaryFBS2] + i1*a[isa.BinaryFBS1]
				if vector {
					vecf32.Binary(fn, words[float32](c.sp, d, n), shape, words[float32](c.sp, x, int64(aShape[0])), aShape, words[float32](c.sp, y, int64(bShape[0])), bShape)
					continue
				}
				for range n {
					words[float32](c.sp, d, 1)[0] = vecf32.EvalBin(fn, words[float32](c.sp, x, 1)[0], words[float32](c.sp, y, 1)[0])
					d, x, y = d+sd, x+sa, y+sb
				}
			}
		}
	}
	return nil
}

func (c *cluster) softmaxF(a []int64) error {
	shape := []int{int(a[isa.SoftmaxFOuter]), int(a[isa.SoftmaxFN]), int(a[isa.SoftmaxFInner])}
	n := int64(shape[0] * shape[1] * shape[2])
	dst, src := words[float32](c.sp, a[isa.SoftmaxFDst], n), words[float32](c.sp, a[isa.SoftmaxFSrc], n)
	if a[isa.SoftmaxFLog] != 0 {
		vecf32.LogSoftmax(dst, src, shape, 1)
	} else {
		vecf32.Softmax(dst, src, shape, 1)
	}
	return nil
}

func (c *cluster) lrnF(a []int64) error {
	shape := []int{int(a[isa.LRNFOuter]), int(a[isa.LRNFC]), int(a[isa.LRNFInner])}
	n := int64(shape[0] * shape[1] * shape[2])
	vecf32.LRN(words[float32](c.sp, a[isa.LRNFDst], n), words[float32](c.sp, a[isa.LRNFSrc], n), shape, 1,
		int(a[isa.LRNFSize]), f32(a[isa.LRNFAlpha]), f32(a[isa.LRNFBeta]), f32(a[isa.LRNFBias]))
	return nil
}

func (c *cluster) reduceF(a []int64) error {
	if a[isa.ReduceFFn] >= int64(vecf32.NumRedOps) {
		return badFunction(a[isa.ReduceFFn])
	}
	shape := []int{int(a[isa.ReduceFOuter]), int(a[isa.ReduceFN]), int(a[isa.ReduceFInner])}
	out := int64(shape[0] * shape[2])
	vecf32.Reduce(vecf32.RedOp(a[isa.ReduceFFn]), words[float32](c.sp, a[isa.ReduceFDst], out),
		words[float32](c.sp, a[isa.ReduceFSrc], out*int64(shape[1])), shape, []int{1})
	return nil
}
